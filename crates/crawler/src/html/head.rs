//! The language and the canonical URL that an HTML page declares. They are read on demand, from the head of the
//! page only.

use std::borrow::Cow;

use url::Url;

use super::attributes::{Attributes, Name, TagAttributes};
use super::charset::Charset;
use super::scanner::{self, Element, Markup, Sink};
use super::{MAX_TARGET_BYTES, attribute_text, url_resolver};

/// The maximum length of a language tag, in bytes. Those in use have up to 35.
const MAX_LANGUAGE_BYTES: usize = 64;

/// What the head of an HTML page declares, undecoded.
#[derive(Debug, Default)]
struct Head<'p> {
    /// `lang` of the `html` element.
    language: Option<&'p [u8]>,
    /// `href` of the first `link` whose `rel` is `canonical`.
    canonical: Option<&'p [u8]>,
    /// `href` of the first `base` that has one.
    base: Option<&'p [u8]>,
    /// Whether only the language is wanted.
    wants_language_only: bool,
    is_over: bool,
}

/// The language of an HTML page: `lang` of its first `html` tag. `Some("")` means that the page declares its language as unknown.
pub fn language(content_type: Option<&str>, body: &[u8]) -> Option<String> {
    with_head(content_type, body, true, |head, decode| Some(decode(head.language?).trim().to_owned()))
        .filter(|language| language.len() <= MAX_LANGUAGE_BYTES)
}

/// The canonical URL of an HTML page: the target of its `link` with `rel=canonical`, resolved and normalized.
pub fn canonical(page: &Url, content_type: Option<&str>, body: &[u8]) -> Option<Url> {
    with_head(content_type, body, false, |head, decode| {
        let target = decode(head.canonical.filter(|href| href.len() <= MAX_TARGET_BYTES)?);
        let base = head.base.filter(|href| href.len() <= MAX_TARGET_BYTES);
        let base = base.and_then(|href| url_resolver::parse_base(page, &decode(href)));
        super::resolve(base.as_ref().unwrap_or(page), &target).ok()
    })
}

/// Decodes the value of an attribute.
type Decode<'d> = dyn for<'r> Fn(&'r [u8]) -> Cow<'r, str> + 'd;

/// Reads the head of a page.
fn with_head<T>(
    content_type: Option<&str>,
    body: &[u8],
    wants_language_only: bool,
    read: impl FnOnce(&Head, &Decode) -> T,
) -> T {
    let charset = Charset::new(content_type, body);
    let mut head = Head { wants_language_only, ..Head::default() };
    match charset.transcoded() {
        Some(text) => {
            scanner::scan(text.as_bytes(), &mut head);
            read(&head, &|raw| attribute_text(raw, &|| encoding_rs::UTF_8))
        }
        None => {
            scanner::scan(body, &mut head);
            read(&head, &|raw| attribute_text(raw, &|| charset.encoding()))
        }
    }
}

impl<'p> Sink<'p> for Head<'p> {
    const WANTS_MARKUP: bool = true;

    fn element(&mut self, _: Element, _: &Attributes<'p>) {}

    fn markup(&mut self, markup: Markup<'p>) {
        match markup {
            // An `svg` is read as a whole.
            _ if self.is_over => {}
            Markup::Start { name, attributes, .. } => self.start_tag(Name::new(name), &attributes),
            Markup::End(name) => self.is_over |= Name::new(name) == Name::HEAD,
            Markup::Raw { .. } => {}
        }
    }

    fn is_done(&self) -> bool {
        self.is_over
    }
}

impl<'p> Head<'p> {
    fn start_tag(&mut self, name: Name, attributes: &TagAttributes<'p>) {
        match name {
            Name::HTML => {
                let declared = || attributes.value(Name::LANG).or_else(|| attributes.value(Name::XML_LANG));
                self.language = self.language.or_else(declared);
                self.is_over |= self.wants_language_only;
            }
            Name::LINK => {
                let is_canonical = attributes.value(Name::REL).is_some_and(|rel| {
                    let mut words = rel.split(u8::is_ascii_whitespace);
                    words.any(|word| word.eq_ignore_ascii_case(b"canonical"))
                });
                let target = || attributes.value(Name::HREF).filter(|_| is_canonical);
                self.canonical = self.canonical.or_else(target);
            }
            Name::BASE => self.base = self.base.or_else(|| attributes.value(Name::HREF)),
            Name::HEAD | Name::META | Name::NOSCRIPT => {}
            // Every other element starts the body.
            _ => self.is_over = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(page: &str) -> (Option<String>, Option<String>) {
        let url = Url::parse("http://a.test/x/y").unwrap();
        let canonical = canonical(&url, Some("text/html"), page.as_bytes()).map(String::from);
        (language(Some("text/html"), page.as_bytes()), canonical)
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn language_and_canonical_url_are_those_of_the_head() {
        let page = "<!doctype html><!-- <html lang=no> --><HTML Lang=' de-AT '><head><title><link></title>\
            <script>'<body>'</script><meta charset=utf-8><noscript><link rel=stylesheet href=no></noscript>\
            <link rel='Nofollow CANONICAL' href='../z?q=&auml;#part'><link rel=canonical href=second>";
        assert_eq!(declared(page), (some("de-AT"), some("http://a.test/z?q=%C3%A4")));
        assert_eq!(
            declared("<html xml:lang=fr><base href=/b/><link rel=canonical href=c>").1,
            some("http://a.test/b/c")
        );
        assert_eq!(declared("<html xml:lang=fr>").0, some("fr"));
        assert_eq!(declared("<html lang>").0, some(""));
    }

    #[test]
    fn body_is_not_read() {
        for body in ["<body>", "</head>", "<p>", "<frameset>", "<svg>"] {
            let page = format!("<html><head>{body}<link rel=canonical href=no><html lang=no>");
            assert_eq!(declared(&page), (None, None), "{body}");
        }
    }

    #[test]
    fn declarations_that_cannot_be_used_are_none() {
        let long = "x".repeat(MAX_LANGUAGE_BYTES + 1);
        assert_eq!(declared(&format!("<html lang={long}>")).0, None);
        for href in ["mailto:x", "http://", &"x".repeat(MAX_TARGET_BYTES + 1)] {
            assert_eq!(declared(&format!("<link rel=canonical href='{href}'>")).1, None, "{href:.20}");
        }
    }

    #[test]
    fn declarations_are_decoded_from_the_encoding_of_the_page() {
        let page: Vec<u8> =
            "<html lang=ru><link rel=canonical href=ж>".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let url = Url::parse("http://a.test/").unwrap();
        let content_type = Some("text/html; charset=utf-16le");
        assert_eq!(language(content_type, &page), some("ru"));
        assert_eq!(canonical(&url, content_type, &page).unwrap().as_str(), "http://a.test/%D0%B6");
    }
}
