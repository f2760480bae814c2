//! Finds the files that CSS refers to, by the tokens of CSS Syntax Level 3.

use std::borrow::Cow;
use std::ops::Range;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};
use memchr::memmem;

use super::charset;
use super::start_tag::RequisiteKind;

/// A reference of a stylesheet to another file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CssUrl<'c> {
    /// What the file is needed for.
    pub kind: RequisiteKind,
    /// The target, without escapes.
    pub target: Cow<'c, str>,
    /// Where the target is, including quotes. A quoted string can take its place.
    pub range: Range<usize>,
}

/// Calls `on_url` with every file that CSS refers to, in linear time: `url()`, `@import`, and the strings of `image-set()`.
pub fn each_url<'c>(css: &'c str, mut on_url: impl FnMut(CssUrl<'c>)) {
    CssScanner { css, bytes: css.as_bytes(), at: 0, state: CssState::default() }.scan(&mut on_url);
}

/// Replaces the targets for which `replacement` returns another one.
pub fn replace<'c>(css: &'c str, mut replacement: impl FnMut(&CssUrl<'c>) -> Option<String>) -> Cow<'c, str> {
    let (mut replaced, mut copied) = (String::new(), 0);
    each_url(css, |url| {
        if let Some(target) = replacement(&url) {
            replaced.push_str(&css[copied..url.range.start]);
            push_quoted(&target, &mut replaced);
            copied = url.range.end;
        }
    });
    if copied == 0 {
        return Cow::Borrowed(css);
    }
    replaced.push_str(&css[copied..]);
    Cow::Owned(replaced)
}

/// Appends a text as a string of CSS. It contains no `<`, so that no text ends a `style` element.
fn push_quoted(text: &str, css: &mut String) {
    css.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => css.extend(['\\', c]),
            '<' | '\0'..='\x1F' | '\x7F' => css.push_str(&format!("\\{:x} ", u32::from(c))),
            _ => css.push(c),
        }
    }
    css.push('"');
}

/// The text of a stylesheet. Its encoding is that of the byte order mark, the Content-Type or `@charset`; else UTF-8.
pub fn decode<'b>(content_type: Option<&str>, body: &'b [u8]) -> Cow<'b, str> {
    let declared = || {
        let label = body.strip_prefix(br#"@charset ""#)?;
        let end = memmem::find(&label[..label.len().min(100)], b"\";")?;
        let encoding = Encoding::for_label(&label[..end])?;
        // It could not be read if it were in UTF-16.
        Some(if [UTF_16LE, UTF_16BE].contains(&encoding) { UTF_8 } else { encoding })
    };
    content_type.and_then(charset::by_header).or_else(declared).unwrap_or(UTF_8).decode(body).0
}

struct CssScanner<'c> {
    css: &'c str,
    bytes: &'c [u8],
    at: usize,
    state: CssState,
}

/// What the tokens so far mean for the next URL.
#[derive(Default)]
struct CssState {
    /// The last token was `@import`.
    is_import: bool,
    /// In the prelude of `@namespace`, whose URL is only a name.
    is_namespace: bool,
    /// In the prelude of `@font-face`.
    is_font_face: bool,
    blocks: usize,
    /// The block that is that of an `@font-face`.
    font_block: Option<usize>,
    parentheses: usize,
    /// The parentheses that are those of an `image-set()`.
    image_set: Option<usize>,
}

impl<'c> CssScanner<'c> {
    fn scan(&mut self, on_url: &mut impl FnMut(CssUrl<'c>)) {
        while let Some(&byte) = self.bytes.get(self.at) {
            let rest = &self.bytes[self.at..];
            if byte.is_ascii_whitespace() {
                self.at += 1;
                continue;
            }
            if rest.starts_with(b"/*") {
                self.at =
                    memmem::find(&rest[2..], b"*/").map_or(self.bytes.len(), |end| self.at + 2 + end + 2);
                continue;
            }
            let is_import = std::mem::take(&mut self.state.is_import);
            match byte {
                b'"' | b'\'' => {
                    let is_image = self.state.image_set.is_some_and(|depth| depth == self.state.parentheses);
                    if let Some(url) = self.string()
                        && (is_import || is_image)
                    {
                        self.found(url, is_import, on_url);
                    }
                }
                b'@' => {
                    self.at += 1;
                    self.at_keyword();
                }
                // A hash, or a number with its unit: no function can have this name.
                b'#' | b'0'..=b'9' => {
                    self.at += 1;
                    self.name();
                }
                b'<' if rest.starts_with(b"<!--") => self.at += "<!--".len(),
                b'-' if rest.starts_with(b"-->") => self.at += "-->".len(),
                b'\\' if !is_escape(rest) => self.at += 1,
                _ if is_name_byte(byte) || byte == b'\\' => self.identifier(is_import, on_url),
                _ => {
                    self.at += 1;
                    self.delimiter(byte);
                }
            }
        }
    }

    fn at_keyword(&mut self) {
        let name = self.name();
        let is = |keyword: &str| name.eq_ignore_ascii_case(keyword);
        self.state.is_import = is("import");
        self.state.is_namespace = is("namespace");
        self.state.is_font_face = is("font-face");
    }

    fn delimiter(&mut self, byte: u8) {
        let state = &mut self.state;
        match byte {
            b'{' => {
                state.blocks += 1;
                if state.is_font_face {
                    state.font_block.get_or_insert(state.blocks);
                }
                (state.is_namespace, state.is_font_face) = (false, false);
            }
            b'}' => {
                state.font_block = state.font_block.filter(|block| *block < state.blocks);
                state.blocks = state.blocks.saturating_sub(1);
            }
            b';' => (state.is_namespace, state.is_font_face) = (false, false),
            b'(' => state.parentheses += 1,
            b')' => {
                state.image_set = state.image_set.filter(|depth| *depth < state.parentheses);
                state.parentheses = state.parentheses.saturating_sub(1);
            }
            _ => {}
        }
    }

    /// Scans an identifier, or a function up to its arguments.
    fn identifier(&mut self, is_import: bool, on_url: &mut impl FnMut(CssUrl<'c>)) {
        let name = self.name();
        if self.bytes.get(self.at) != Some(&b'(') {
            return;
        }
        self.at += 1;
        let is = |function: &str| name.eq_ignore_ascii_case(function);
        if is("url") {
            let url = match self.skip_space() {
                Some(b'"' | b'\'') => {
                    self.state.parentheses += 1;
                    self.string()
                }
                _ => self.unquoted_url(),
            };
            if let Some(url) = url {
                self.found(url, is_import, on_url);
            }
            return;
        }
        self.state.parentheses += 1;
        if is("image-set") || is("-webkit-image-set") {
            self.state.image_set.get_or_insert(self.state.parentheses);
        }
    }

    fn found(
        &self,
        (target, range): (Cow<'c, str>, Range<usize>),
        is_import: bool,
        on_url: &mut impl FnMut(CssUrl<'c>),
    ) {
        let kind = match self.state {
            CssState { is_namespace: true, .. } => return,
            _ if is_import => RequisiteKind::Stylesheet,
            CssState { font_block: Some(_), .. } => RequisiteKind::Font,
            _ => RequisiteKind::Image,
        };
        on_url(CssUrl { kind, target, range });
    }

    fn skip_space(&mut self) -> Option<u8> {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    /// Scans a name, which may be empty.
    fn name(&mut self) -> Cow<'c, str> {
        let start = self.at;
        loop {
            match self.bytes.get(self.at) {
                Some(&byte) if is_name_byte(byte) => self.at += 1,
                Some(b'\\') if is_escape(&self.bytes[self.at..]) => self.skip_escape(),
                _ => return unescape(&self.css[start..self.at]),
            }
        }
    }

    /// Scans the string at this place. `None` if a line ends before it does.
    fn string(&mut self) -> Option<(Cow<'c, str>, Range<usize>)> {
        let (start, quote) = (self.at, self.bytes[self.at]);
        self.at += 1;
        loop {
            match self.bytes.get(self.at) {
                // An escape at the end of a string stands for nothing.
                None => {
                    let content = &self.css[start + 1..];
                    let is_escaped = content.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1;
                    let content = &content[..content.len() - usize::from(is_escaped)];
                    return Some((unescape(content), start..self.at));
                }
                Some(byte) if *byte == quote => {
                    let content = &self.css[start + 1..self.at];
                    self.at += 1;
                    return Some((unescape(content), start..self.at));
                }
                Some(b'\n' | b'\r' | 0x0C) => return None,
                Some(b'\\') => self.skip_escape(),
                Some(_) => self.at += 1,
            }
        }
    }

    /// Scans the rest of a `url(` without quotes. `None` if it is invalid.
    fn unquoted_url(&mut self) -> Option<(Cow<'c, str>, Range<usize>)> {
        let start = self.at;
        let mut is_valid = true;
        let mut end = None;
        loop {
            match self.bytes.get(self.at) {
                None => break,
                Some(b')') => {
                    end.get_or_insert(self.at);
                    self.at += 1;
                    break;
                }
                Some(b'\\') if is_escape(&self.bytes[self.at..]) => {
                    is_valid &= end.is_none();
                    self.skip_escape();
                    continue;
                }
                Some(byte) if byte.is_ascii_whitespace() => {
                    end.get_or_insert(self.at);
                }
                Some(b'"' | b'\'' | b'(' | b'\\' | 0..=8 | 0x0B | 0x0E..=0x1F | 0x7F) => is_valid = false,
                Some(_) => is_valid &= end.is_none(),
            }
            self.at += 1;
        }
        let end = end.unwrap_or(self.at);
        is_valid.then(|| (unescape(&self.css[start..end]), start..end))
    }

    /// Skips a backslash and what it escapes. The digits of a code are those of a name.
    fn skip_escape(&mut self) {
        self.at += 1;
        let escaped = self.css[self.at..].chars().next();
        self.at += escaped.map_or(0, char::len_utf8);
        if escaped == Some('\r') && self.bytes.get(self.at) == Some(&b'\n') {
            self.at += 1;
        }
        if escaped.is_some_and(|digit| digit.is_ascii_hexdigit()) {
            let digits =
                self.bytes[self.at..].iter().take(5).take_while(|byte| byte.is_ascii_hexdigit()).count();
            self.at += digits;
            // One space ends the code.
            match &self.bytes[self.at..] {
                [b'\r', b'\n', ..] => self.at += 2,
                [space, ..] if space.is_ascii_whitespace() => self.at += 1,
                _ => {}
            }
        }
    }
}

/// Whether a text that starts with a backslash starts with an escape. In a string, a line end can be escaped, too.
fn is_escape(text: &[u8]) -> bool {
    !matches!(text.get(1), Some(b'\n' | b'\r' | 0x0C))
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | 0x80..)
}

/// The text that stands for itself in CSS. Escaped line ends stand for nothing.
fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains(['\\', '\0']) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\0' => plain.push(char::REPLACEMENT_CHARACTER),
            '\\' => match rest.next() {
                Some('\n' | '\x0C') => {}
                Some('\r') => {
                    rest.next_if_eq(&'\n');
                }
                Some(digit) if digit.is_ascii_hexdigit() => {
                    let mut code = digit.to_digit(16).unwrap_or_default();
                    for _ in 0..5 {
                        let Some(digit) = rest.next_if(char::is_ascii_hexdigit) else { break };
                        code = code * 16 + digit.to_digit(16).unwrap_or_default();
                    }
                    if rest.next_if_eq(&'\r').is_some() {
                        rest.next_if_eq(&'\n');
                    } else {
                        rest.next_if(|space| matches!(space, ' ' | '\t' | '\n' | '\x0C'));
                    }
                    let c = char::from_u32(code).filter(|c| *c != '\0');
                    plain.push(c.unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                None | Some('\0') => plain.push(char::REPLACEMENT_CHARACTER),
                Some(c) => plain.push(c),
            },
            c => plain.push(c),
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cpu_time::cpu_time;

    fn urls(css: &str) -> Vec<(&'static str, String)> {
        let mut urls = Vec::new();
        each_url(css, |url| urls.push((url.kind.name(), url.target.into_owned())));
        urls
    }

    fn targets(css: &str) -> Vec<String> {
        urls(css).into_iter().map(|(_, target)| target).collect()
    }

    #[test]
    fn urls_have_the_kind_of_what_they_are_used_for() {
        let css = "@charset 'x'; @import 'a.css'; @IMPORT url(b.css) screen; @import\n/* */ url( 'c.css' ) layer(x);\n\
                   @namespace url(http://www.w3.org/1999/xhtml); @namespace svg 'x';\n\
                   @font-face { font-family: 'F'; src: local('F'), url(f.woff2) format('woff2'), url('f.woff'); }\n\
                   @media print { @font-face { src: url(g.woff) } body { background: url(i.png) } }\n\
                   a { content: 'no'; background: #url(no) 1url(no) x-url(no) URL(j.png), uRl(\"k.png\") }\n\
                   b { background: image-set('l.png' 1x type('image/png'), url(m.png) 2x) } c { x: 'no' }";
        let expected = [
            ("stylesheet", "a.css"),
            ("stylesheet", "b.css"),
            ("stylesheet", "c.css"),
            ("font", "f.woff2"),
            ("font", "f.woff"),
            ("font", "g.woff"),
            ("image", "i.png"),
            ("image", "j.png"),
            ("image", "k.png"),
            ("image", "l.png"),
            ("image", "m.png"),
        ];
        assert_eq!(urls(css), expected.map(|(kind, target)| (kind, target.to_owned())));
    }

    #[test]
    fn comments_strings_and_escapes_are_those_of_css() {
        for (css, expected) in [
            ("a{b:url(x)/* url(no) */;c:url(y)}", &["x", "y"][..]),
            ("/* url(no)", &[]),
            ("a{b:'url(no)' \"url(no)\\\" url(no)\" url(x)}", &["x"]),
            ("a{b:url(a\\29 b\\)\\(c.png)}", &["a)b)(c.png"]),
            ("a{b:url('a\\\nb\\\r\nc\\'d')}", &["abc'd"]),
            ("a{b:u\\72l(x) \\75rl(y) u\\000072\r\nl(z)}", &["x", "y", "z"]),
            ("a{b:url(\\0)}", &["\u{FFFD}"]),
            ("a{b:url(a b) url(a'b) url(a(b) url(x)}", &["x"]),
            ("a{b:url( x ) url(\n) url()}", &["x", "", ""]),
            ("a{b:url(x", &["x"]),
            ("a{b:url('x", &["x"]),
            ("a{b:url('x\n) ;c:url(y)}", &["y"]),
            ("a{b:url(data:image/png;base64,AAA=)}", &["data:image/png;base64,AAA="]),
            ("<!--url(x)--> -->url(y)", &["x", "y"]),
            ("@import url(x) ; @import", &["x"]),
            ("@import a 'no'; @\\69mport 'x';", &["x"]),
            ("a{b:url(é.png) éurl(no)}", &["é.png"]),
            ("}}}))) a{b:url(x)}", &["x"]),
            ("\\", &[]),
            ("a{b:url(x\\", &["x\u{FFFD}"]),
            ("a{b:url('x\\", &["x"]),
        ] {
            assert_eq!(targets(css), expected, "{css:?}");
        }
    }

    #[test]
    fn targets_are_replaced_in_place_and_the_rest_stays() {
        let css = "@import 'a.css'; b{c:url( d.png ) 'e' url(\"keep\")}";
        let replaced = replace(css, |url| (url.target != "keep").then(|| format!("../{}\"<\\", url.target)));
        assert_eq!(replaced, r#"@import "../a.css\"\3c \\"; b{c:url( "../d.png\"\3c \\" ) 'e' url("keep")}"#);
        assert_eq!(targets(&replaced), ["../a.css\"<\\", "../d.png\"<\\", "keep"]);
        assert!(matches!(replace(css, |_| None), Cow::Borrowed(_)));
    }

    #[test]
    fn stylesheet_is_decoded_from_its_encoding() {
        assert_eq!(decode(Some("text/css; charset=iso-8859-1"), b"\xE9"), "é");
        assert_eq!(decode(Some("text/css"), b"@charset \"iso-8859-1\";\xE9"), "@charset \"iso-8859-1\";é");
        assert_eq!(decode(None, b"\xEF\xBB\xBF\xC3\xA9"), "é");
        assert_eq!(decode(None, b"@charset \"utf-16\";\xC3\xA9"), "@charset \"utf-16\";é");
        assert_eq!(decode(None, b"\xFF\xFEa\0"), "a");
    }

    #[test]
    fn any_css_is_scanned_in_linear_time() {
        for piece in
            ["url(", "url('", "\\", "@import ", "/*", "((", "{{", "image-set(", "@font-face{", "'\n", "\\41"]
        {
            let css = piece.repeat(200_000);
            let taken = cpu_time(|| each_url(&css, |_| {}));
            assert!(taken < Duration::from_secs(5), "{piece:?} took {taken:?}");
        }
    }
}
