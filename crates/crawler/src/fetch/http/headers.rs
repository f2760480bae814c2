//! Reads the values of response headers, which may contain any bytes.

use std::fmt::Write as _;

use hyper::header::{HeaderMap, HeaderName};

/// How much of a header an outcome quotes: enough to recognise it, and too little to flood a log.
const MAX_EXCERPT_CHARACTERS: usize = 100;

/// The first value of a header.
pub fn text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// All values of a list header, joined into one list.
pub fn list(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    let values: Vec<_> =
        headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    (!values.is_empty()).then(|| values.join(", "))
}

/// A Location header as text, with bytes that are not UTF-8 percent-encoded.
pub fn location(value: &[u8]) -> String {
    let mut location = String::with_capacity(value.len());
    for chunk in value.utf8_chunks() {
        location.push_str(chunk.valid());
        for byte in chunk.invalid() {
            write!(location, "%{byte:02X}").expect("writing to a string does not fail");
        }
    }
    location
}

/// The first characters of a text from a server, for a message.
pub fn excerpt(text: &str) -> String {
    match text.char_indices().nth(MAX_EXCERPT_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_utf8_in_a_location_is_percent_encoded() {
        assert_eq!(location(b"/caf\xE9?\xFF\xFEa"), "/caf%E9?%FF%FEa");
        assert_eq!(location("/café%20".as_bytes()), "/café%20");
    }

    #[test]
    fn long_text_is_truncated_at_a_character() {
        assert_eq!(excerpt("text/html"), "text/html");
        assert_eq!(excerpt(&"é".repeat(100)), "é".repeat(100));
        assert_eq!(excerpt(&"é".repeat(101)), "é".repeat(100) + "…");
    }

    #[test]
    fn list_header_on_several_lines_is_joined() {
        let mut headers = HeaderMap::new();
        assert_eq!(list(&headers, hyper::header::CONTENT_ENCODING), None);
        for coding in ["gzip", "br"] {
            headers.append(hyper::header::CONTENT_ENCODING, coding.parse().unwrap());
        }
        assert_eq!(list(&headers, hyper::header::CONTENT_ENCODING).as_deref(), Some("gzip, br"));
    }
}
