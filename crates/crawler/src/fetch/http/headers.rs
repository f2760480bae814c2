//! Reads the values of response headers, which may be any bytes of any length.

use std::fmt::Write as _;

use hyper::header::{HeaderMap, HeaderName};

/// How much of a header is repeated in an outcome: enough to recognise it, and too little to flood a log.
const MAX_ECHO_CHARACTERS: usize = 100;

/// The first value of that name.
pub fn text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// All values of that name, which stands for a list, as one list.
pub fn list(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    let values: Vec<_> =
        headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    (!values.is_empty()).then(|| values.join(", "))
}

/// A Location header. What is not UTF-8 in it means those very bytes, so they are percent-encoded.
pub fn location(value: &[u8]) -> String {
    let mut location = String::with_capacity(value.len());
    for chunk in value.utf8_chunks() {
        location.push_str(chunk.valid());
        for byte in chunk.invalid() {
            write!(location, "%{byte:02X}").expect("a string takes everything");
        }
    }
    location
}

/// The beginning of what a server sent, for a message.
pub fn echo(text: &str) -> String {
    match text.char_indices().nth(MAX_ECHO_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_location_that_are_no_text_stay_these_bytes() {
        assert_eq!(location(b"/caf\xE9?\xFF\xFEa"), "/caf%E9?%FF%FEa");
        assert_eq!(location("/café%20".as_bytes()), "/café%20");
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        assert_eq!(echo("text/html"), "text/html");
        assert_eq!(echo(&"é".repeat(100)), "é".repeat(100));
        assert_eq!(echo(&"é".repeat(101)), "é".repeat(100) + "…");
    }

    #[test]
    fn a_list_may_stand_on_several_lines() {
        let mut headers = HeaderMap::new();
        assert_eq!(list(&headers, hyper::header::CONTENT_ENCODING), None);
        for coding in ["gzip", "br"] {
            headers.append(hyper::header::CONTENT_ENCODING, coding.parse().unwrap());
        }
        assert_eq!(list(&headers, hyper::header::CONTENT_ENCODING).as_deref(), Some("gzip, br"));
    }
}
