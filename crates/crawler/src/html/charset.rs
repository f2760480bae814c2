//! Determines the encoding of a page: by byte order mark, Content-Type, `meta` element, or detection, in this order.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::LazyLock;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{EncoderResult, Encoding};
use encoding_rs::{ISO_2022_JP, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};
use memchr::memchr;
use memchr::memmem::Finder;

use super::attributes::Attributes;
use super::scanner::{self, Element, Sink};

/// The HTML standard requires the `meta` declaration to be within this many bytes. Browsers accept later ones too.
const PRESCAN_BYTES: usize = 1024;

/// How much of a page the encoding is detected from. The detector reads some 50 MB a second, and is certain after some KB.
const MAX_DETECTED_BYTES: usize = 256 * 1024;

/// Part of every declaration of a charset.
static CHARSET: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("charset"));

/// Part of every label of ISO-2022-JP.
static NUMBER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("2022"));

/// The encoding of one page, determined when first needed: a page whose links are ASCII never needs it.
#[derive(Debug)]
pub struct Charset<'p> {
    content_type: Option<&'p str>,
    body: &'p [u8],
    encoding: OnceCell<&'static Encoding>,
}

impl<'p> Charset<'p> {
    /// The charset of a page with this Content-Type header.
    pub fn new(content_type: Option<&'p str>, body: &'p [u8]) -> Self {
        Self { content_type, body, encoding: OnceCell::new() }
    }

    /// The encoding.
    pub fn encoding(&self) -> &'static Encoding {
        self.encoding.get_or_init(|| {
            self.external_declaration().or_else(|| by_meta(self.body)).unwrap_or_else(|| detect(self.body))
        })
    }

    /// The page as UTF-8 if its encoding is not ASCII-compatible, so that its bytes cannot be scanned directly.
    pub fn transcoded(&self) -> Option<String> {
        let encoding = match self.external_declaration() {
            Some(encoding) => encoding,
            // The only such encoding that a meta element can declare.
            None if self.may_be_iso_2022_jp() => by_meta(self.body)?,
            None => return None,
        };
        let is_incompatible = [UTF_16LE, UTF_16BE, ISO_2022_JP].contains(&encoding);
        is_incompatible.then(|| encoding.decode_with_bom_removal(self.body).0.into_owned())
    }

    /// The page as UTF-8, for text extraction. A page that is UTF-8 is borrowed unchanged, including invalid bytes.
    pub fn utf8(&self) -> Cow<'p, [u8]> {
        if let Some(text) = self.transcoded() {
            return Cow::Owned(text.into_bytes());
        }
        if self.body.is_ascii() || self.encoding() == UTF_8 {
            return Cow::Borrowed(self.body);
        }
        match self.encoding().decode_without_bom_handling(self.body).0 {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        }
    }

    /// False if a `meta` element within the first bytes declares another encoding, or none declares this one.
    fn may_be_iso_2022_jp(&self) -> bool {
        // All labels of this encoding contain the number. Without an escape byte, its text is ASCII.
        let prescanned = prescanned(self.body);
        NUMBER.find(prescanned).is_some()
            || CHARSET.find(prescanned).is_none() && memchr(0x1B, self.body).is_some()
    }

    fn external_declaration(&self) -> Option<&'static Encoding> {
        by_bom(self.body).or_else(|| by_header(self.content_type?))
    }
}

fn by_bom(body: &[u8]) -> Option<&'static Encoding> {
    Encoding::for_bom(body).map(|(encoding, _)| encoding)
}

/// The encoding that a Content-Type header declares.
pub(crate) fn by_header(content_type: &str) -> Option<&'static Encoding> {
    let mut parameters = content_type.split(';').skip(1);
    let label = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
    })?;
    by_label(label.as_bytes())
}

/// The encoding with this label. The encoding "replacement", which makes a page unreadable on purpose, counts as not
/// declared.
fn by_label(label: &[u8]) -> Option<&'static Encoding> {
    Encoding::for_label(label).filter(|&encoding| encoding != REPLACEMENT)
}

fn prescanned(body: &[u8]) -> &[u8] {
    &body[..body.len().min(PRESCAN_BYTES)]
}

/// The encoding that a `meta` element declares. Mostly, only the start of the page is scanned, up to the first tag that
/// may declare one.
fn by_meta(body: &[u8]) -> Option<&'static Encoding> {
    let scan = |page: &[u8]| {
        let mut declaration = MetaDeclaration(None);
        scanner::scan(page, &mut declaration);
        declaration.0
    };
    let start = prescanned(body);
    let first_tag_end = CHARSET.find(start).and_then(|at| Some(at + memchr(b'>', &start[at..])? + 1));
    let first = first_tag_end.and_then(|end| scan(&start[..end]));
    first.or_else(|| scan(start)).or_else(|| (body.len() > PRESCAN_BYTES).then(|| scan(body)).flatten())
}

/// The first encoding that a `meta` element declares.
struct MetaDeclaration(Option<&'static Encoding>);

impl<'p> Sink<'p> for MetaDeclaration {
    fn element(&mut self, element: Element, attributes: &Attributes<'p>) {
        if element != Element::Meta || self.0.is_some() {
            return;
        }
        let label = match (attributes.charset, attributes.http_equiv, attributes.content) {
            (Some(label), ..) => Some(label),
            (None, Some(header), Some(content)) if header.eq_ignore_ascii_case(b"content-type") => {
                label_in_content(content)
            }
            _ => None,
        };
        self.0 = match label.and_then(by_label) {
            // The declaration is wrong: the page was scanned as ASCII up to here.
            Some(encoding) if encoding == UTF_16LE || encoding == UTF_16BE => Some(UTF_8),
            Some(encoding) if encoding == X_USER_DEFINED => Some(WINDOWS_1252),
            declared => declared,
        };
    }
}

/// The label in content like `text/html; charset=utf-8`, by the lenient algorithm of the HTML standard.
fn label_in_content(content: &[u8]) -> Option<&[u8]> {
    let mut rest = content;
    loop {
        let name =
            rest.windows(b"charset".len()).position(|window| window.eq_ignore_ascii_case(b"charset"))?;
        rest = rest[name + b"charset".len()..].trim_ascii_start();
        if let Some(value) = rest.strip_prefix(b"=") {
            rest = value.trim_ascii_start();
            break;
        }
    }
    match rest.first()? {
        quote @ (b'"' | b'\'') => {
            let length = rest[1..].iter().position(|byte| byte == quote)?;
            Some(&rest[1..=length])
        }
        _ => rest.split(|&byte| byte == b';' || byte.is_ascii_whitespace()).next(),
    }
}

fn detect(body: &[u8]) -> &'static Encoding {
    let body = match std::str::from_utf8(body) {
        // The detector would say the same, at a hundred times the cost.
        Ok(text) if !text.is_ascii() => return UTF_8,
        // A truncated page may end within a character.
        Err(error) if error.error_len().is_none() => &body[..error.valid_up_to()],
        _ => body,
    };
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    if body.len() <= MAX_DETECTED_BYTES {
        detector.feed(body, true);
    } else {
        feed_parts(&mut detector, body);
    }
    detector.guess(None, Utf8Detection::Allow)
}

/// Feeds the detector those parts of a large page that are not ASCII, between two tags, up to a limit. No character of any
/// encoding contains the byte of a `<`.
fn feed_parts(detector: &mut EncodingDetector, body: &[u8]) {
    let mut left = MAX_DETECTED_BYTES;
    for part in body.split_inclusive(|byte| *byte == b'<').filter(|part| !part.is_ascii()) {
        // The detector compares with the two bytes before.
        let start = Encoding::ascii_valid_up_to(part).saturating_sub(2);
        let part = &part[start..part.len().min(start + left)];
        detector.feed(part, false);
        left -= part.len();
        if left == 0 {
            break;
        }
    }
}

/// Encodes the query of a URL in the page's encoding, as the URL standard requires. Characters that the encoding lacks
/// become percent-encoded decimal character references.
pub(super) fn encode_query<'t>(encoding: &'static Encoding, query: &'t str) -> Cow<'t, [u8]> {
    if query.is_ascii() || encoding.output_encoding() == UTF_8 {
        return Cow::Borrowed(query.as_bytes());
    }
    let mut encoder = encoding.new_encoder();
    let mut encoded = Vec::with_capacity(query.len() * 2);
    let mut rest = query;
    loop {
        let needed = encoder.max_buffer_length_from_utf8_without_replacement(rest.len());
        encoded.reserve(needed.unwrap_or(rest.len()));
        let (result, read) = encoder.encode_from_utf8_to_vec_without_replacement(rest, &mut encoded, true);
        rest = &rest[read..];
        match result {
            EncoderResult::InputEmpty => return Cow::Owned(encoded),
            EncoderResult::OutputFull => encoded.reserve(encoded.capacity().max(64)),
            EncoderResult::Unmappable(character) => {
                encoded.extend_from_slice(format!("%26%23{}%3B", u32::from(character)).as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests;
