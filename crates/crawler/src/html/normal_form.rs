//! The normal form of URLs: URLs that are equivalent by RFC 3986, section 6.2.2, have the same normal form.

use memchr::{memchr, memchr_iter};
use url::{Position, Url};

use super::BadLink;

/// The longest name of a host, and the longest label of one, in DNS.
const MAX_HOST_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

/// Brings a parsed http or https URL into its normal form. The `url` crate has already normalized the scheme, the host,
/// a default port and dot segments. The normal form has, in addition:
///
/// - no dots at the end of the host: `h.test.` names the same host as `h.test`
/// - no escapes of unreserved characters, and all other escapes in upper case
/// - no empty query
/// - no fragment, which is not sent
pub fn normalize(url: &mut Url) -> Result<(), BadLink> {
    url.set_fragment(None);
    if let Some(host) = url.host_str().filter(|host| host.ends_with('.')) {
        let name = host.trim_end_matches('.').to_owned();
        // Fails for a host of dots alone. An address becomes an address: `127.0.0.1..` is 127.0.0.1.
        url.set_host(Some(&name)).map_err(|_| BadLink::Malformed)?;
    }
    if url.host_str().is_some_and(is_too_long) {
        return Err(BadLink::TooLong);
    }
    if url.query() == Some("") {
        url.set_query(None);
    }
    if !has_normal_escapes(&url[Position::BeforePath..]) {
        let text = [&url[..Position::BeforePath], &normal_escapes(&url[Position::BeforePath..])].concat();
        *url = Url::parse(&text).map_err(|_| BadLink::Malformed)?;
    }
    Ok(())
}

/// Whether DNS cannot have a host of this name.
fn is_too_long(host: &str) -> bool {
    host.len() > MAX_LABEL_BYTES
        && (host.len() > MAX_HOST_BYTES || host.split('.').any(|label| label.len() > MAX_LABEL_BYTES))
}

/// Whether a parsed URL is in its normal form, apart from its fragment. False for some unusual URLs that are.
pub(super) fn is_normal(url: &Url) -> bool {
    !url.host_str().is_some_and(|host| host.ends_with('.'))
        && url.query() != Some("")
        && has_normal_escapes(&url[Position::BeforePath..Position::AfterQuery])
}

fn has_normal_escapes(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr_iter(b'%', bytes).all(|at| is_normal_escape(&bytes[at..]))
}

/// Whether a text that starts with a percent sign starts with an escape in its normal form: in upper case, and of a
/// character that is not unreserved.
#[inline]
pub(super) fn is_normal_escape(text: &[u8]) -> bool {
    match text {
        [_, high @ (b'0'..=b'9' | b'A'..=b'F'), low @ (b'0'..=b'9' | b'A'..=b'F'), ..] => {
            !is_unreserved(hex_value(*high) << 4 | hex_value(*low))
        }
        _ => false,
    }
}

/// The path and query of a URL with all escapes in their normal form.
fn normal_escapes(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr(b'%', rest.as_bytes()) {
        normal.push_str(&rest[..at]);
        let length = match escaped_byte(&rest.as_bytes()[at + 1..]) {
            None => {
                normal.push('%');
                1
            }
            Some(byte) if is_unreserved(byte) && !would_complete_an_escape(&normal, byte) => {
                normal.push(char::from(byte));
                3
            }
            Some(byte) => {
                normal.push_str(&format!("%{byte:02X}"));
                3
            }
        };
        rest = &rest[at + length..];
    }
    normal.push_str(rest);
    normal
}

/// Whether a byte after this text would be part of an escape that the URL does not contain: in `%%32e`, decoding `%32`
/// would make `%2e`.
fn would_complete_an_escape(text: &str, byte: u8) -> bool {
    byte.is_ascii_hexdigit()
        && match text.as_bytes() {
            [.., b'%'] => true,
            [.., b'%', digit] => digit.is_ascii_hexdigit(),
            _ => false,
        }
}

/// The byte that two hexadecimal digits stand for.
fn escaped_byte(digits: &[u8]) -> Option<u8> {
    match digits {
        [high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
            Some(hex_value(*high) << 4 | hex_value(*low))
        }
        _ => None,
    }
}

fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn normal(text: &str) -> Result<String, BadLink> {
        let mut url = Url::parse(text).expect("a URL");
        normalize(&mut url).map(|()| url.into())
    }

    #[test]
    fn equivalent_urls_have_one_normal_form() {
        for (normal_form, others) in [
            (
                "http://h.test/",
                &["http://H.TEST./", "http://h.test..:80", "http://h.test。/?", "http://h.test/?#x"][..],
            ),
            (
                "https://h.test:8443/~a/b-c_d.e",
                &["https://h.test.:8443/%7Ea/b%2dc%5Fd%2Ee", "https://h.test:8443/%7e%61/b-c_d.e"],
            ),
            (
                "http://h.test/a%2Fb?c%26=%C3%A9",
                &["http://h.test/a%2fb?c%26=%c3%a9", "http://h.test/a%2Fb?%63%26=é"],
            ),
            (
                "http://h.test/b",
                &["http://h.test/a/../b", "http://h.test/a/%2e%2E/./b?", "http://h.test/%2e/b"],
            ),
            ("http://127.0.0.1/", &["http://127.1./", "http://127.0.0.1../", "http://0x7f.1../"]),
            ("http://[::1]/", &["http://[0:0::1]:80/"]),
        ] {
            for text in [&[normal_form], others].concat() {
                assert_eq!(normal(text).as_deref(), Ok(normal_form), "{text}");
            }
        }
    }

    #[test]
    fn urls_that_may_differ_keep_different_forms() {
        for text in [
            "http://h.test/a%2Fb",
            "http://h.test/%25%37%45",
            "http://h.test/a?b&",
            "http://h.test:8080/",
            "http://h.test//",
        ] {
            assert_ne!(normal(text).as_deref(), Ok("http://h.test/"), "{text}");
        }
        assert_eq!(normal("http://h.test/%257E").as_deref(), Ok("http://h.test/%257E"), "decoded once only");
        assert_eq!(normal("http://h.test/%%32e").as_deref(), Ok("http://h.test/%%32e"), "no new escape");
        assert_eq!(normal("http://h.test/%4%31%zz").as_deref(), Ok("http://h.test/%4%31%zz"));
    }

    #[test]
    fn host_of_dots_is_malformed() {
        assert_eq!(normal("http://./"), Err(BadLink::Malformed));
        assert_eq!(normal("http://../x"), Err(BadLink::Malformed));
    }

    proptest! {
        #[test]
        fn normal_form_is_its_own_normal_form(
            host in "[a-c]\\.{0,3}|127\\.1\\.{0,2}|1\\.2\\.3\\.4\\.5\\.\\.",
            path in "(/(%?[0-9A-Fa-f.%]{0,4}|%2e|%2E%2e|%7e|[a-z|:]{1,2})){0,5}", query in "(\\?(%[0-9a-fA-F%]{0,4}|a|%41)?)?",
        ) {
            let Ok(mut url) = Url::parse(&format!("http://{host}{path}{query}")) else { return Ok(()) };
            if normalize(&mut url).is_err() {
                return Ok(());
            }
            let once = url.clone();
            prop_assert_eq!(normalize(&mut url), Ok(()));
            prop_assert_eq!(&url, &once);
            prop_assert_eq!(Url::parse(once.as_str()), Ok(once.clone()));
        }
    }
}
