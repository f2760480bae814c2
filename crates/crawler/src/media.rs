//! Decides whether a response is a page, by its Content-Type and the first bytes of its body.

use encoding_rs::{UTF_16BE, UTF_16LE};

use crate::html::charset;
#[cfg(feature = "net")]
use crate::html::start_tag::RequisiteKind;

/// The media types of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Media {
    /// HTML, which has links.
    Html,
    /// Text, which has no links.
    Text,
    /// Content of another type that the crawl [accepts](crate::RequestSettings::accept). It has no title, no text and no links.
    Other,
}

/// What a Content-Type header declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Declared {
    /// HTML or text.
    Page(Media),
    /// No valid header: the first bytes decide.
    Unknown,
    /// Neither HTML nor text.
    Other,
}

/// The media types that a crawl keeps in addition to HTML and text, such as `application/pdf` and `image/*`.
#[cfg(feature = "net")]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AcceptedTypes(Vec<(String, String)>);

#[cfg(feature = "net")]
impl AcceptedTypes {
    /// Accepts these types. An error says which of them is none.
    pub fn new<T: AsRef<str>>(types: &[T]) -> Result<AcceptedTypes, String> {
        let accepted = types.iter().map(|text| {
            let text = text.as_ref();
            let parsed = text.split_once('/').filter(|(kind, subtype)| {
                let is_wildcard = *kind == "*" && *subtype == "*";
                let is_type = is_token(kind) && !kind.contains('*') && is_token(subtype);
                is_wildcard || is_type && (*subtype == "*" || !subtype.contains('*'))
            });
            let (kind, subtype) = parsed.ok_or_else(|| {
                format!("cannot accept {text:?}: it is not a media type; use one such as application/pdf or image/*")
            })?;
            Ok((kind.to_ascii_lowercase(), subtype.to_ascii_lowercase()))
        });
        accepted.collect::<Result<_, String>>().map(AcceptedTypes)
    }

    /// Whether content with this Content-Type header is accepted.
    pub fn accept(&self, content_type: Option<&str>) -> bool {
        let (kind, subtype) = essence(content_type).split_once('/').unwrap_or_default();
        let is_accepted =
            |accepted: &str, actual: &str| accepted == "*" || accepted.eq_ignore_ascii_case(actual);
        self.0.iter().any(|(accepted_kind, accepted_subtype)| {
            accepted_kind == "*" || is_accepted(accepted_kind, kind) && is_accepted(accepted_subtype, subtype)
        })
    }

    /// Whether files of this kind can have an accepted type.
    pub(crate) fn may_be(&self, kind: RequisiteKind) -> bool {
        self.0.iter().any(|(accepted, subtype)| {
            let subtype = subtype.as_str();
            match (accepted.as_str(), kind) {
                ("*", _) => true,
                ("image", RequisiteKind::Image | RequisiteKind::Icon) => true,
                ("audio" | "video", RequisiteKind::Media) => true,
                ("font", RequisiteKind::Font) => true,
                ("text", RequisiteKind::Stylesheet) => ["*", "css"].contains(&subtype),
                ("text", RequisiteKind::Script) => ["*", "javascript"].contains(&subtype),
                ("application", RequisiteKind::Script) => subtype == "*" || subtype.ends_with("javascript"),
                ("application", RequisiteKind::Font) => {
                    ["*", "octet-stream"].contains(&subtype) || subtype.contains("font")
                }
                ("application", RequisiteKind::Feed) => {
                    subtype == "*"
                        || subtype.ends_with("+xml")
                        || subtype.ends_with("json")
                        || subtype == "xml"
                }
                ("application", RequisiteKind::Manifest) => subtype == "*" || subtype.ends_with("json"),
                (_, RequisiteKind::Object) => true,
                _ => false,
            }
        })
    }

    /// The types as in an Accept header.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(kind, subtype)| format!("{kind}/{subtype}"))
    }

    /// Whether no other types than HTML and text are accepted.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The media type of a Content-Type header, without parameters.
fn essence(content_type: Option<&str>) -> &str {
    content_type.unwrap_or("").split(';').next().unwrap_or("").trim()
}

/// Whether a Content-Type header declares a stylesheet. Without a valid one, the name of the file decides.
pub fn is_stylesheet(content_type: Option<&str>, path: &str) -> bool {
    match declared(content_type) {
        Declared::Unknown => path.to_ascii_lowercase().ends_with(".css"),
        _ => essence(content_type).eq_ignore_ascii_case("text/css"),
    }
}

/// Whether a Content-Type header declares what pages are shown with: an image, a font, a script, sound or video. Stylesheets are text.
#[cfg(feature = "net")]
pub fn is_shown_in_pages(content_type: Option<&str>) -> bool {
    let essence = essence(content_type).to_ascii_lowercase();
    match essence.split_once('/').unwrap_or_default() {
        ("image" | "font" | "audio" | "video", _) => true,
        ("application", subtype) => subtype.ends_with("javascript") || subtype.contains("font"),
        _ => false,
    }
}

/// How many bytes of the body are examined to distinguish text from binary, slightly more than browsers use.
pub const SNIFF_BYTES: usize = 1024;

/// Classifies a Content-Type header.
pub fn declared(content_type: Option<&str>) -> Declared {
    let essence = essence(content_type);
    let (kind, subtype) = essence.split_once('/').unwrap_or(("", ""));
    if !is_token(kind) || !is_token(subtype) || essence == "*/*" {
        return Declared::Unknown;
    }
    let is = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
    if is(essence, "text/html") || is(essence, "application/xhtml+xml") {
        Declared::Page(Media::Html)
    } else if is(kind, "text") {
        Declared::Page(Media::Text)
    } else {
        Declared::Other
    }
}

/// Whether this is a token in HTTP. A media type that is not made of tokens is invalid and cannot be relied on.
fn is_token(text: &str) -> bool {
    let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token_byte)
}

/// Classifies a body by its first bytes and what the header declared; `None` if it is not a page.
pub fn sniff(declared: Declared, content_type: Option<&str>, start: &[u8]) -> Option<Media> {
    let start = &start[..start.len().min(SNIFF_BYTES)];
    let text =
        has_text_bom(start) || is_utf16(content_type) || !is_binary(start, declared == Declared::Unknown);
    match declared {
        Declared::Other => None,
        _ if !text => None,
        Declared::Page(media) => Some(media),
        Declared::Unknown if looks_like_html(start) => Some(Media::Html),
        Declared::Unknown => Some(Media::Text),
    }
}

fn has_text_bom(start: &[u8]) -> bool {
    [&b"\xEF\xBB\xBF"[..], b"\xFF\xFE", b"\xFE\xFF"].iter().any(|bom| start.starts_with(bom))
}

/// Whether the header declares UTF-16. Such text contains many NULs, so its bytes cannot show whether it is binary.
fn is_utf16(content_type: Option<&str>) -> bool {
    let encoding = content_type.and_then(charset::by_header);
    encoding.is_some_and(|encoding| encoding == UTF_16LE || encoding == UTF_16BE)
}

/// The first bytes of the formats that servers most often mislabel as pages, where no text starts with them.
const SIGNATURES: [&[u8]; 14] = [
    b"%PDF-",
    b"\x89PNG\r\n\x1a\n",
    b"GIF87a",
    b"GIF89a",
    b"\xFF\xD8\xFF",
    b"PK\x03\x04",
    b"\x1F\x8B",
    b"\xFD7zXZ\x00",
    b"\x28\xB5\x2F\xFD",
    b"7z\xBC\xAF\x27\x1C",
    b"\x7FELF",
    b"\x00asm",
    b"wOFF",
    b"wOF2",
];

/// The same for formats whose signature may also start a text: the bytes after it decide.
fn has_ambiguous_signature(start: &[u8]) -> bool {
    match start {
        [b'R', b'I', b'F', b'F', _, _, _, _, kind @ ..] => {
            [b"WAVE", b"WEBP", b"AVI "].iter().any(|format| kind.starts_with(*format))
        }
        // The major version.
        [b'I', b'D', b'3', version, ..] => (2..=4).contains(version),
        // The block size, and the magic number of a block.
        [b'B', b'Z', b'h', b'1'..=b'9', block @ ..] => block.starts_with(b"1AY&SY"),
        [b'O', b'g', b'g', b'S', version, ..] => *version == 0,
        _ => false,
    }
}

/// Whether a body is binary: it has a binary signature, or control bytes that text does not contain. If a header
/// declares text, a few of them are tolerated (bad HTML is still HTML); without a header, one is enough.
fn is_binary(start: &[u8], strict: bool) -> bool {
    if SIGNATURES.iter().any(|signature| start.starts_with(signature)) || has_ambiguous_signature(start) {
        return true;
    }
    let control = count_binary_bytes(start);
    if strict { control > 0 } else { control * 10 > start.len() }
}

/// The number of control characters other than tab, line feed, form feed, carriage return and escape.
fn count_binary_bytes(start: &[u8]) -> usize {
    // Sums of bytes are computed with vector instructions. At most 255 of them fit into a byte.
    let count = |bytes: &[u8]| bytes.iter().map(|byte| u8::from(is_binary_byte(*byte))).sum::<u8>();
    start.chunks(usize::from(u8::MAX)).map(|bytes| usize::from(count(bytes))).sum()
}

/// Whether a byte is such a control character, without branches.
fn is_binary_byte(byte: u8) -> bool {
    let is_text = (byte == b'\t') | (byte == b'\n') | (byte == 0x0C) | (byte == b'\r') | (byte == 0x1B);
    (byte < 0x20) & !is_text
}

/// How an HTML page without Content-Type may start, after white space; the next byte must end the tag name.
const HTML_STARTS: [&str; 17] = [
    "<!doctype html",
    "<html",
    "<head",
    "<script",
    "<iframe",
    "<h1",
    "<div",
    "<font",
    "<table",
    "<a",
    "<style",
    "<title",
    "<b",
    "<body",
    "<br",
    "<p",
    "<meta",
];

fn looks_like_html(start: &[u8]) -> bool {
    let start = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start).trim_ascii_start();
    start.starts_with(b"<!--")
        || HTML_STARTS.iter().any(|name| {
            start.get(..name.len()).is_some_and(|prefix| prefix.eq_ignore_ascii_case(name.as_bytes()))
                && start
                    .get(name.len())
                    .is_some_and(|byte| matches!(byte, b' ' | b'>' | b'\t' | b'\n' | b'\r' | 0x0C))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_parameters_and_case_are_ignored() {
        assert_eq!(declared(Some("Text/HTML; charset=utf-8")), Declared::Page(Media::Html));
        assert_eq!(declared(Some("application/xhtml+xml")), Declared::Page(Media::Html));
        assert_eq!(declared(Some("text/markdown")), Declared::Page(Media::Text));
        assert_eq!(declared(Some("image/png")), Declared::Other);
        for missing in [None, Some(""), Some("html"), Some("*/*"), Some("text/"), Some("/html")] {
            assert_eq!(declared(missing), Declared::Unknown, "{missing:?}");
        }
    }

    #[cfg(feature = "net")]
    #[test]
    fn types_are_accepted_by_name_or_kind() {
        let types = AcceptedTypes::new(&["Application/PDF", "image/*"]).unwrap();
        for (content_type, is_accepted) in [
            ("application/pdf", true),
            ("Application/Pdf; x=y", true),
            ("image/png", true),
            ("application/json", false),
            ("imagex/png", false),
            ("", false),
        ] {
            assert_eq!(types.accept(Some(content_type)), is_accepted, "{content_type}");
        }
        assert!(AcceptedTypes::new(&["*/*"]).unwrap().accept(None));
        assert!(types.may_be(RequisiteKind::Image) && !types.may_be(RequisiteKind::Script));
        for wrong in ["pdf", "image/", "/png", "*/png", "ima*/png", "image/p*", "a/b/c", "text/x y", ""] {
            let error = AcceptedTypes::new(&[wrong]).unwrap_err();
            assert!(error.starts_with("cannot accept") && error.contains("media type"), "{error}");
        }
    }

    #[test]
    fn stylesheets_are_known_by_their_type_or_name() {
        assert!(is_stylesheet(Some("text/css; charset=utf-8"), "/a"));
        assert!(is_stylesheet(None, "/a.CSS") && !is_stylesheet(None, "/a"));
        assert!(!is_stylesheet(Some("text/html"), "/a.css"));
    }

    #[test]
    fn invalid_header_counts_as_missing() {
        for wrong in ["text/html charset=utf-8", "text/html, text/html", "\"text/html\"", "text/html/x"] {
            assert_eq!(declared(Some(wrong)), Declared::Unknown, "{wrong}");
        }
    }

    #[test]
    fn text_that_mentions_a_format_is_not_binary() {
        let classify = |bytes: &[u8]| sniff(Declared::Page(Media::Text), Some("text/plain"), bytes);
        for text in ["ID3 tags are", "ID3\n", "RIFF raff and WAVE", "RIFF", "BZh", "BZh9 is how", "OggS is"] {
            assert_eq!(classify(text.as_bytes()), Some(Media::Text), "{text:?}");
        }
        let rest = "of a file that is long enough for a few control bytes to be tolerated";
        for format in ["ID3\x04", "RIFFsizeWAVE", "RIFFsizeWEBP", "RIFFsizeAVI ", "BZh91AY&SY", "OggS\0"] {
            assert_eq!(classify(format!("{format}{rest}").as_bytes()), None, "{format:?}");
        }
    }

    #[test]
    fn body_without_content_type_is_classified_by_its_first_bytes() {
        let classify = |bytes: &[u8]| sniff(Declared::Unknown, None, bytes);
        assert_eq!(classify(b"  <!DOCTYPE HTML>\n"), Some(Media::Html));
        assert_eq!(classify(b"<a href=x>"), Some(Media::Html));
        assert_eq!(classify(b"<abbr>"), Some(Media::Text));
        assert_eq!(classify(b"plain words"), Some(Media::Text));
        assert_eq!(classify(b""), Some(Media::Text));
        assert_eq!(classify(b"a\x00b"), None);
        assert_eq!(classify(b"\x89PNG\r\n\x1a\n"), None);
    }

    #[test]
    fn binary_declared_as_html_is_not_a_page_and_html_with_a_stray_nul_is() {
        let classify = |bytes: &[u8]| sniff(Declared::Page(Media::Html), Some("text/html"), bytes);
        assert_eq!(classify(b"\x89PNG\r\n\x1a\n...."), None);
        assert_eq!(classify(&[0; 600]), None);
        assert_eq!(classify(b"<p>a stray \x00 in a page of ordinary length"), Some(Media::Html));
    }

    #[test]
    fn utf16_is_text_despite_its_nuls() {
        let body: Vec<u8> = "<p>hello".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let html = Declared::Page(Media::Html);
        for charset in ["UTF-16LE", "utf-16", "\"utf-16le\"", "unicode"] {
            let header = format!("text/html; charset={charset}");
            assert_eq!(sniff(html, Some(&header), &body), Some(Media::Html), "{header}");
        }
        assert_eq!(sniff(html, Some("text/html"), &[b"\xFF\xFE", &body[..]].concat()), Some(Media::Html));
    }
}
