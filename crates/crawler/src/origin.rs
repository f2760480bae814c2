//! Defines an origin: scheme, host and port, the unit of robots.txt, connections and credentials.

use std::fmt;

use memchr::{memchr, memchr3, memrchr};
use url::Url;

/// Scheme, host and port of an http or https URL.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Whether the scheme is https, not http.
    pub https: bool,
    /// The host as in the URL: a name, an IPv4 address, or an IPv6 address in brackets.
    pub host: String,
    /// The port; the scheme's default if the URL has none.
    pub port: u16,
}

impl Origin {
    /// The origin of a normalized URL.
    pub fn from_url(url: &Url) -> Origin {
        let https = url.scheme() == "https";
        let default_port = if https { 443 } else { 80 };
        Origin {
            https,
            host: url.host_str().unwrap_or_default().to_owned(),
            port: url.port().unwrap_or(default_port),
        }
    }

    /// The unit of throttling: the host name, with the port unless that is 80 or 443.
    pub fn throttle_key(&self) -> String {
        match self.port {
            80 | 443 => self.host.clone(),
            port => format!("{}:{port}", self.host),
        }
    }

    /// The value of the Host header: the host, with the port unless it is the scheme's default.
    pub fn authority(&self) -> String {
        match (self.https, self.port) {
            (false, 80) | (true, 443) => self.host.clone(),
            (_, port) => format!("{}:{port}", self.host),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.https { "https" } else { "http" }, self.authority())
    }
}

/// The start of a normalized URL up to the slash after its authority: URLs that start with it have the same origin.
pub fn origin_prefix(url: &str) -> &str {
    let authority = url.len() - after_scheme(url).unwrap_or(url).len();
    let slash = memchr(b'/', &url.as_bytes()[authority..]);
    slash.map_or(url, |slash| &url[..=authority + slash])
}

/// The same as [`Origin::throttle_key`], for a normalized URL as text, without parsing it.
pub fn throttle_key(url: &str) -> &str {
    let rest = after_scheme(url).unwrap_or("");
    let authority = &rest[..memchr3(b'/', b'?', b'#', rest.as_bytes()).unwrap_or(rest.len())];
    let host = &authority[memrchr(b'@', authority.as_bytes()).map_or(0, |at| at + 1)..];
    host.strip_suffix(":80").or_else(|| host.strip_suffix(":443")).unwrap_or(host)
}

/// What follows `scheme://`.
fn after_scheme(url: &str) -> Option<&str> {
    url[memchr(b':', url.as_bytes())?..].strip_prefix("://")
}

/// The same URL without user name and password.
pub fn without_credentials(url: &Url) -> Url {
    let mut url = url.clone();
    // Neither can fail on a URL with a host, which http and https URLs always have.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn http_and_https_of_a_host_share_a_throttle_key_and_other_ports_do_not() {
        let key = |url: &str| Origin::from_url(&Url::parse(url).unwrap()).throttle_key();
        assert_eq!(key("http://host/a"), "host");
        assert_eq!(key("https://host/b"), "host");
        assert_eq!(key("https://host:80/"), "host");
        assert_eq!(key("http://host:8080/"), "host:8080");
        assert_eq!(key("http://[::1]:8080/"), "[::1]:8080");
    }

    proptest! {
        #[test]
        fn throttle_key_of_text_equals_that_of_the_parsed_url(
            https: bool, host in "[a-z]{1,3}(\\.[a-z0-9]{1,3}){0,2}|127\\.0\\.0\\.[1-9]|\\[::1?[0-9]?\\]|\\[1:80::443\\]",
            port in prop_oneof![Just(None), Just(Some(80u16)), Just(Some(443)), Just(Some(8080)), Just(Some(4443))],
            user in "([a-z:]{1,4}@)?", rest in "(/[a-z@:/]{0,9})?([?][a-z@:/]{0,9})?",
        ) {
            let port = port.map(|port| format!(":{port}")).unwrap_or_default();
            let scheme = if https { "https" } else { "http" };
            if let Ok(url) = Url::parse(&format!("{scheme}://{user}{host}{port}{rest}")) {
                prop_assert_eq!(throttle_key(url.as_str()), Origin::from_url(&url).throttle_key());
            }
        }
    }
}
