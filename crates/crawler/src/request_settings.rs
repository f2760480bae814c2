//! The settings of requests that are rarely changed, and those of politeness, as the public API has them.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use crate::config::{Certificates, certificates};
use crate::cookies::CookieJar;
use crate::error::Error;
use crate::proxy::Proxies;
use crate::scope::Scope;

/// How requests are sent: the settings that are rarely changed, of [`Crawler`](crate::Crawler) and
/// [`ClassicCrawl`](crate::ClassicCrawl).
///
/// ```
/// use crawler::{Crawler, RequestSettings};
///
/// let mut requests = RequestSettings::default();
/// requests.obey_robots = false; // only for sites that you own
/// requests.dns_overrides.push(("www.example.org".into(), [127, 0, 0, 1].into()));
/// let crawler = Crawler::new("https://www.example.org/")?.requests(requests);
/// # Ok::<(), crawler::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RequestSettings {
    /// The timeout for DNS lookup, TCP connect and TLS handshake; 5 seconds by default.
    pub connect_timeout: Duration,
    /// Whether robots.txt is fetched and obeyed, and `nofollow` on pages is obeyed; true by default. Only turn it off for
    /// sites that you own.
    pub obey_robots: bool,
    /// The name by which robots.txt, `X-Robots-Tag` headers and `meta` elements address the crawler. By default it is the
    /// product token of the User-Agent: `mybot` of `mybot/1.0 (+https://example.org/bot)`. The User-Agent must contain the
    /// name, so that site owners can find it in their logs.
    pub robots_token: Option<String>,
    /// Whether the pipeline reads the sitemaps that the robots.txt of a host names; true by default. They are not read if the
    /// scope is [`Scope::anywhere`](crate::Scope::anywhere), or if robots.txt is not obeyed.
    pub robots_sitemaps: bool,
    /// Whether links and redirects may lead to private, loopback and other non-public addresses; false by default. The
    /// origins of the seeds may have addresses of the kind that they have at their first lookup.
    pub allow_private: bool,
    /// Hosts with an address that is used instead of DNS. A host is a name, `*.name` for all its subdomains, or `*` for all
    /// hosts. The first match counts.
    pub dns_overrides: Vec<(String, IpAddr)>,
    /// The cookies of the crawl; `None`, the default, stores and sends none.
    pub cookies: Option<CookieJar>,
    /// The credentials for the origins of the seeds: scheme, host and port. They are sent to no other origin. Those in the
    /// URL of a seed take precedence.
    pub authentication: Option<Authentication>,
    /// Whether the headers that were added to the crawl are sent to all hosts; false by default. Then only the hosts of the
    /// seeds get them, and if the seed is an https URL, over https only.
    pub headers_everywhere: bool,
    /// The media types that are kept in addition to HTML and text, such as `application/pdf`, `image/*` or `*/*`; none by
    /// default. Their content is a [page](crate::Page) with the media type [`Media::Other`](crate::Media::Other). Files that
    /// pages refer to other than by links, such as images, are followed like links if they can have such a type.
    pub accept: Vec<String>,
    /// The maximum size of content of those types and of requisites, received and decoded; 10 MB by default. Larger content
    /// is skipped, and never truncated.
    pub max_file_bytes: usize,
    /// Whether the requisites of pages are fetched from all sites; false by default. Requisites are the images, stylesheets,
    /// scripts and fonts that a browser needs to show a page, for outputs that keep them. By default they are fetched only if
    /// they are in scope, or on the page's own site (all hosts of its registrable domain).
    pub requisites: bool,
    /// The pages that the pipeline passes to modules and outputs; all by default. The links of other pages are still followed.
    pub save: Scope,
    /// The proxies that requests go through; none by default.
    pub proxies: Proxies,
    /// Whether any certificate is accepted; false by default. If it is true, anyone between crawler and server can read and
    /// change the traffic.
    pub insecure: bool,
    /// Certificates that are trusted in addition to the well-known roots.
    pub(crate) trusted_certificates: Certificates,
}

impl Default for RequestSettings {
    fn default() -> RequestSettings {
        RequestSettings {
            connect_timeout: Duration::from_secs(5),
            obey_robots: true,
            robots_token: None,
            robots_sitemaps: true,
            allow_private: false,
            dns_overrides: Vec::new(),
            cookies: None,
            authentication: None,
            headers_everywhere: false,
            accept: Vec::new(),
            max_file_bytes: 10_000_000,
            requisites: false,
            save: Scope::anywhere(),
            proxies: Proxies::default(),
            insecure: false,
            trusted_certificates: Vec::new(),
        }
    }
}

/// Credentials for the Authorization header.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Authentication {
    /// Basic authentication. The user name contains no colon.
    Basic {
        /// The user name.
        user: String,
        /// The password.
        password: String,
    },
    /// A bearer token.
    Bearer(String),
}

impl fmt::Debug for Authentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Authentication::Basic { .. } => "Basic",
            Authentication::Bearer(_) => "Bearer",
        })
    }
}

impl RequestSettings {
    /// Trusts the certificates of a PEM file in addition to the well-known roots.
    ///
    /// ```no_run
    /// use crawler::{Crawler, RequestSettings};
    ///
    /// let mut requests = RequestSettings::default();
    /// requests.trust_certificates(&std::fs::read("company-root.pem")?)?;
    /// let crawler = Crawler::new("https://intranet.example.org/")?.requests(requests);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn trust_certificates(&mut self, pem: &[u8]) -> Result<(), Error> {
        self.trusted_certificates.extend(certificates(pem)?);
        Ok(())
    }
}

/// The address that is used for a host instead of DNS.
pub(crate) fn dns_override(overrides: &[(String, IpAddr)], host: &str) -> Option<IpAddr> {
    overrides.iter().find(|(pattern, _)| is_host_match(pattern, host)).map(|(_, address)| *address)
}

/// Whether a host matches a host name, `*.name` for all its subdomains, or `*` for all hosts.
fn is_host_match(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some("") => true,
        Some(suffix) => {
            host.len() > suffix.len()
                && host.is_char_boundary(host.len() - suffix.len())
                && host[host.len() - suffix.len()..].eq_ignore_ascii_case(suffix)
        }
        None => pattern.eq_ignore_ascii_case(host),
    }
}

/// Delays and limits for each host, site and address: the settings of [`Crawler`](crate::Crawler) beyond its
/// [`delay`](crate::Crawler::delay).
///
/// ```
/// use crawler::{Crawler, Politeness};
///
/// let mut politeness = Politeness::default();
/// politeness.max_pages_per_host = 100;
/// let crawler = Crawler::new("https://www.example.org/")?.politeness(politeness);
/// # Ok::<(), crawler::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Politeness {
    /// The maximum number of requests in flight to one host; 1 by default. With 1, the delay runs from the end of a response
    /// to the next request; with more, from request to request.
    pub concurrency_per_host: usize,
    /// Whether the delay of a host grows with its response time, up to 30 seconds; true by default.
    pub adaptive_delay: bool,
    /// The minimum time between the starts of two requests to a site (all hosts of a registrable domain); `None`, the
    /// default, is a quarter of the delay.
    pub site_delay: Option<Duration>,
    /// The minimum time between the starts of two requests to an IP address, over all its hosts; 0 by default. The
    /// workers of a distributed crawl each count their own requests.
    pub address_delay: Duration,
    /// The maximum number of pages from each host; unlimited by default.
    pub max_pages_per_host: u64,
    /// The maximum number of pages from each site (all hosts of a registrable domain); unlimited by default.
    pub max_pages_per_site: u64,
    /// The number of consecutive failures to connect or to respond in time after which a host is given up; 6 by default. Its
    /// other URLs are not requested: their outcome is [`Outcome::HostUnreachable`](crate::Outcome::HostUnreachable).
    pub max_host_failures: u32,
    /// How long the crawl waits while this machine's network is down, which is when several hosts cannot be connected to and
    /// none responds; 10 minutes by default. URLs do not fail meanwhile.
    pub network_timeout: Duration,
}

impl Default for Politeness {
    fn default() -> Politeness {
        Politeness {
            concurrency_per_host: 1,
            adaptive_delay: true,
            site_delay: None,
            address_delay: Duration::ZERO,
            max_pages_per_host: u64::MAX,
            max_pages_per_site: u64::MAX,
            max_host_failures: 6,
            network_timeout: Duration::from_secs(10 * 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_matches_subdomains_but_not_the_name_itself() {
        assert!(is_host_match("*.name", "a.name") && is_host_match("*.name", "B.A.NAME"));
        for other in ["name", "aname", ".name.org"] {
            assert!(!is_host_match("*.name", other), "{other}");
        }
        assert!(is_host_match("*", "anything") && is_host_match("Name", "name"));
    }
}
