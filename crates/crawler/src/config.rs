//! What a crawl is told: checked once, then immutable.

use std::net::IpAddr;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use url::Url;

use crate::error::Error;

/// Our name in robots.txt, whatever the User-Agent header says.
pub const PRODUCT_TOKEN: &str = "crawler";

/// The largest Crawl-delay that is obeyed: a longer one would let a site stall a crawl for days.
pub const MAX_CRAWL_DELAY: Duration = Duration::from_secs(30);

/// The longest Retry-After that is waited out before the URL is asked for again.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// How many redirects in a row are followed.
pub const MAX_REDIRECTS: u8 = 10;

/// The settings of the stages that fetch pages.
#[derive(Debug, Clone)]
pub struct FetchConfig {
    /// The User-Agent header.
    pub user_agent: String,
    /// Fetch robots.txt and obey it.
    pub obey_robots: bool,
    /// The least time between two requests to a host.
    pub delay: Duration,
    /// Requests in flight.
    pub concurrency: usize,
    /// Requests in flight to one host. With one, the delay runs from the end of a response to the next
    /// request; with more, from start to start.
    pub max_per_host: usize,
    /// Slow down with hosts whose answers slow down: leave them alone for at least as long as their answers took
    /// lately, up to 30 seconds. Only where there is a delay.
    pub adaptive_delay: bool,
    /// Connections kept open between requests, by each worker: a host that is asked every second or so finds its own
    /// again if no more others have been asked meanwhile. Each takes a file and some 30 KB.
    pub max_idle_connections: usize,
    /// The longest time for finding, reaching and securing a host.
    pub connect_timeout: Duration,
    /// The longest time for a whole request.
    pub timeout: Duration,
    /// The largest page kept, in decoded bytes.
    pub max_page_bytes: usize,
    /// Addresses that take the place of DNS.
    pub dns_overrides: Vec<DnsOverride>,
    /// Certificates trusted besides the well-known roots.
    pub extra_roots: Certificates,
    /// Let pages lead to private and other special addresses.
    pub allow_private: bool,
}

impl Default for FetchConfig {
    fn default() -> FetchConfig {
        FetchConfig {
            user_agent: user_agent(None),
            obey_robots: true,
            delay: Duration::from_secs(1),
            concurrency: 1,
            max_per_host: 1,
            max_idle_connections: 256,
            adaptive_delay: false,
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(10),
            max_page_bytes: 500_000,
            dns_overrides: Vec::new(),
            extra_roots: Vec::new(),
            allow_private: false,
        }
    }
}

/// Our User-Agent, with a URL where the crawl's owner can be reached if one is given.
pub fn user_agent(contact: Option<&Url>) -> String {
    let name = concat!("crawler/", env!("CARGO_PKG_VERSION"));
    match contact {
        Some(contact) => format!("{name} (+{contact})"),
        None => name.to_owned(),
    }
}

/// Certificates that are trusted.
pub type Certificates = Vec<CertificateDer<'static>>;

/// Reads the certificates of a PEM file.
pub fn certificates(pem: &[u8]) -> Result<Certificates, Error> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(|cause| Error::Certificates(cause.to_string()))?;
    if certificates.is_empty() {
        return Err(Error::Certificates("no certificate in it".into()));
    }
    for (index, certificate) in certificates.iter().enumerate() {
        RootCertStore::empty().add(certificate.clone()).map_err(|cause| {
            Error::Certificates(format!("number {} in it is no certificate ({cause})", index + 1))
        })?;
    }
    Ok(certificates)
}

/// One answer that takes the place of DNS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsOverride {
    /// A host name, `*.name` for every name below it, or `*` for all.
    pub host: String,
    /// Where these hosts are.
    pub address: IpAddr,
}

impl DnsOverride {
    /// Whether this answer is for the host.
    pub fn matches(&self, host: &str) -> bool {
        // A dot at the end makes a name absolute, and no other name.
        let host = host.trim_end_matches('.');
        match self.host.strip_prefix('*') {
            Some("") => true,
            Some(suffix) => {
                host.len() > suffix.len()
                    && host.is_char_boundary(host.len() - suffix.len())
                    && host[host.len() - suffix.len()..].eq_ignore_ascii_case(suffix)
            }
            None => self.host.eq_ignore_ascii_case(host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_starred_answer_is_for_names_below_and_not_for_the_name_itself() {
        let starred = DnsOverride { host: "*.name".into(), address: [127, 0, 0, 1].into() };
        assert!(starred.matches("a.name") && starred.matches("B.A.NAME"));
        assert!(!starred.matches("name") && !starred.matches("aname") && !starred.matches(".name.org"));
        assert!(DnsOverride { host: "*".into(), ..starred.clone() }.matches("anything"));
        assert!(DnsOverride { host: "Name".into(), ..starred }.matches("name."));
    }

    #[test]
    fn the_user_agent_carries_the_contact() {
        let contact = Url::parse("https://example.org/bot").unwrap();
        assert!(user_agent(Some(&contact)).ends_with(" (+https://example.org/bot)"));
        assert!(user_agent(None).starts_with("crawler/"));
    }

    #[test]
    fn a_certificate_file_without_a_certificate_is_an_error() {
        assert!(certificates(b"").is_err());
        for content in ["!!", "AAAA"] {
            let pem = format!("-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n");
            assert!(certificates(pem.as_bytes()).is_err(), "{content}");
        }
    }
}
