//! Defines the domain of a URL, the unit of ownership and popularity. The public suffix list is known only here.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::origin::{Origin, throttle_key};

/// A registrable domain: one label more than its public suffix.
///
/// ```
/// use crawler::{Candidate, Priority};
///
/// // In a `Prioritizer`: https://www.example.co.uk:8443/page has the domain `example.co.uk`.
/// fn priority(candidate: &Candidate) -> Priority {
///     if candidate.domain.as_str() == "example.co.uk" { Priority::BEST } else { Priority::WORST }
/// }
/// ```
///
/// An IP address or a name of a single label is a domain of its own, with its port unless that is 80 or 443.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Domain(Arc<str>);

impl Domain {
    /// The domain of a normalized http or https URL:
    ///
    /// - For a host name, the public suffix and one more label, without the port. A name that is a public suffix itself
    ///   is its own domain. International names are in punycode, as in the URL.
    /// - For an IP address or a name of a single label, that with its port, because the services on the ports of a
    ///   machine may be unrelated. Ports 80 and 443 are omitted: http and https of a host share a throttle, so they
    ///   must have one owner.
    ///
    /// A name with an empty label, which DNS does not allow, is its own domain.
    pub(crate) fn from_url(url: &Url) -> Domain {
        match url.host() {
            Some(url::Host::Domain(name)) if name.split('.').any(str::is_empty) => Domain(name.into()),
            Some(url::Host::Domain(name)) if name.contains('.') => {
                Domain(psl::domain_str(name).unwrap_or(name).into())
            }
            _ => Domain(Origin::from_url(url).throttle_key().into()),
        }
    }

    /// The domain of a URL as text. A text that is not a URL is its own domain.
    pub(crate) fn from_url_str(url: &str) -> Domain {
        if let Some(domain) = Domain::from_plain_name(throttle_key(url)) {
            return domain;
        }
        Url::parse(url).map_or_else(|_| Domain(url.into()), |url| Domain::from_url(&url))
    }

    /// The domain of a throttle key. Most keys are names that need no parsing.
    pub(crate) fn from_throttle_key(host: &str) -> Domain {
        Domain::from_plain_name(host).unwrap_or_else(|| {
            let url = format!("http://{host}/");
            Url::parse(&url).map_or_else(|_| Domain(url.into()), |url| Domain::from_url(&url))
        })
    }

    /// The domain of a normalized name of several labels or of an IPv4 address; `None` for anything else. The port is
    /// ignored for a name and part of the domain for an address.
    fn from_plain_name(host: &str) -> Option<Domain> {
        let name = host.split(':').next()?;
        if name.parse::<Ipv4Addr>().is_ok() {
            return Some(Domain(host.into()));
        }
        is_plain_name(name).then(|| Domain(psl::domain_str(name).unwrap_or(name).into()))
    }

    /// The domain with this text, as returned by [`Domain::as_str`].
    pub(crate) fn named(text: &str) -> Domain {
        Domain(text.into())
    }

    /// The domain as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key of what is stored about all hosts of the domain together, in addition to what is stored about each. No host has this
    /// name.
    pub(crate) fn site_key(&self) -> String {
        format!("*.{}", self.0)
    }

    /// Whether this is a name of several labels, rather than an IP address or a name of a single label.
    pub(crate) fn is_dotted_name(&self) -> bool {
        self.0.contains('.') && !self.0.contains(':') && self.0.parse::<Ipv4Addr>().is_err()
    }
}

/// The host of a URL up to its registrable domain: the unit of cookies, without the port. It is the whole host for an IP
/// address, a name of a single label and a public suffix.
pub(crate) fn registrable_host(url: &Url) -> &str {
    match url.host() {
        Some(url::Host::Domain(name)) if !name.split('.').any(str::is_empty) => {
            psl::domain_str(name).unwrap_or(name)
        }
        _ => url.host_str().unwrap_or_default(),
    }
}

/// Whether a name is a public suffix of several labels, such as `co.uk`.
pub(crate) fn is_public_suffix(name: &str) -> bool {
    name.contains('.') && psl::suffix_str(name) == Some(name)
}

/// What only tests and fuzz targets need.
pub trait DomainInternals {
    /// The domain of a normalized http or https URL.
    fn from_url(url: &Url) -> Domain;

    /// The domain of a URL as text.
    fn from_url_str(url: &str) -> Domain;
}

#[doc(hidden)]
impl DomainInternals for Domain {
    fn from_url(url: &Url) -> Domain {
        Domain::from_url(url)
    }

    fn from_url_str(url: &str) -> Domain {
        Domain::from_url_str(url)
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a host is a normalized name of several labels.
fn is_plain_name(host: &str) -> bool {
    let mut labels = host.rsplit('.');
    let is_name =
        labels.next().is_some_and(|last| last.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase()));
    let no_empty_label =
        labels.next().is_some_and(|label| !label.is_empty()) && labels.all(|label| !label.is_empty());
    is_name
        && no_empty_label
        && host.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn domain(url: &str) -> String {
        Domain::from_url(&Url::parse(url).unwrap()).to_string()
    }

    #[test]
    fn domain_is_one_label_more_than_its_public_suffix() {
        assert_eq!(domain("http://a.b.co.uk/"), "b.co.uk");
        assert_eq!(domain("http://b.co.uk/"), "b.co.uk");
        assert_eq!(domain("https://www.example.com/x?y"), "example.com");
        assert_eq!(domain("https://deep.user.github.io/"), "user.github.io");
        assert_eq!(domain("https://a.b.city.kawasaki.jp/"), "city.kawasaki.jp", "an exception in the list");
        assert_eq!(domain("https://a.b.c.kawasaki.jp/"), "b.c.kawasaki.jp", "a wildcard in the list");
    }

    #[test]
    fn unknown_public_suffix_is_a_single_label() {
        assert_eq!(domain("http://www.h7.test/"), "h7.test");
        assert_eq!(domain("http://h7.test:8080/"), "h7.test");
    }

    #[test]
    fn public_suffix_is_its_own_domain() {
        assert_eq!(domain("http://co.uk/"), "co.uk");
        assert_eq!(domain("http://github.io:8080/"), "github.io");
        assert_eq!(domain("http://com/"), "com");
    }

    #[test]
    fn port_of_a_name_is_ignored() {
        assert_eq!(domain("http://a.example.org:8080/"), "example.org");
        assert_eq!(domain("http://co.uk:81/"), "co.uk");
    }

    #[test]
    fn name_with_an_empty_label_is_its_own_domain() {
        for host in [".", "..", "a.", "a..", ".com", "a..com", "..co.uk"] {
            assert_eq!(domain(&format!("http://{host}/")), host);
        }
    }

    #[test]
    fn international_names_are_in_punycode() {
        assert_eq!(domain("http://www.bücher.example/"), "xn--bcher-kva.example");
        assert_eq!(domain("http://a.b.公司.cn/"), "b.xn--55qx5d.cn");
        assert_eq!(domain("http://A.B.XN--55QX5D.CN/"), "b.xn--55qx5d.cn");
    }

    #[test]
    fn ip_addresses_and_single_labels_are_domains_with_their_port() {
        assert_eq!(domain("http://127.0.0.1:8080/"), "127.0.0.1:8080");
        assert_eq!(domain("http://0x7f.1:8080/"), "127.0.0.1:8080");
        assert_eq!(domain("http://[::1]:8080/"), "[::1]:8080");
        assert_eq!(domain("http://localhost:8080/"), "localhost:8080");
        assert_ne!(domain("http://localhost:8080/"), domain("http://localhost:8081/"));
    }

    #[test]
    fn http_and_https_of_a_machine_are_one_domain() {
        for host in ["10.0.0.1", "[2001:db8::1]", "intranet"] {
            assert_eq!(domain(&format!("http://{host}/")), host);
            assert_eq!(domain(&format!("https://{host}/")), host);
        }
    }

    #[test]
    fn only_names_of_several_labels_are_dotted_names() {
        let dotted = |url: &str| Domain::from_url(&Url::parse(url).unwrap()).is_dotted_name();
        assert!(dotted("http://a.example.org:81/") && dotted("http://co.uk/"));
        for machine in ["127.0.0.1", "127.0.0.1:81", "[::1]", "[::1]:81", "[::ffff:1.2.3.4]", "box", "box:81"]
        {
            assert!(!dotted(&format!("http://{machine}/")), "{machine}");
        }
    }

    proptest! {
        #[test]
        fn domain_from_text_equals_domain_from_parsed_url(host in "[a-z0-9.\\-]{1,30}|([a-zä0-9]{0,3}\\.){0,5}(com|co\\.uk|jp|ck|0x1f|7|xn--p1ai)\\.{0,2}", port in prop_oneof![Just(""), Just(":80"), Just(":81")], https: bool) {
            let scheme = if https { "https" } else { "http" };
            if let Ok(url) = Url::parse(&format!("{scheme}://{host}{port}/x/y")) {
                prop_assert_eq!(Domain::from_url_str(url.as_str()), Domain::from_url(&url));
                prop_assert_eq!(Domain::from_throttle_key(throttle_key(url.as_str())), Domain::from_url(&url));
            }
        }

        #[test]
        fn domain_of_a_domain_is_itself(host in "[a-z0-9.\\-]{1,40}|([a-zäß]{0,3}\\.){0,5}(com|co\\.uk|jp|ck)\\.{0,2}") {
            if let Ok(url) = Url::parse(&format!("http://{host}/")) {
                let domain = Domain::from_url(&url);
                let domain_of_domain = Url::parse(&format!("http://{domain}/")).map(|url| Domain::from_url(&url));
                prop_assert_eq!(domain_of_domain.as_ref(), Ok(&domain));
            }
        }

        #[test]
        fn urls_with_the_same_throttle_key_have_the_same_domain(host in "[a-z]{1,3}(\\.[a-z]{1,3}){0,3}|127\\.0\\.0\\.[1-9]", ports in proptest::array::uniform2(prop_oneof![Just(80u16), Just(443), 8000..8002u16])) {
            let urls: Vec<Url> = ports.iter().flat_map(|port| ["http", "https"].map(|scheme| {
                Url::parse(&format!("{scheme}://{host}:{port}/")).unwrap()
            })).collect();
            for (one, other) in urls.iter().zip(urls.iter().rev()) {
                if Origin::from_url(one).throttle_key() == Origin::from_url(other).throttle_key() {
                    prop_assert_eq!(Domain::from_url(one), Domain::from_url(other));
                }
            }
        }
    }
}
