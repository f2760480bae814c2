//! How pages are fetched: the settings that all modes share, and their setters.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{AUTHORIZATION, COOKIE, HeaderName, HeaderValue, USER_AGENT};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use url::Url;

use crate::error::Error;
use crate::exchange::ArchiveSettings;
use crate::fetch::robots::rules::product_token;
use crate::media::AcceptedTypes;
use crate::request_settings::RequestSettings;
use crate::seed_list::SeedIndex;
use crate::strip_query::StripQuery;

/// The largest Crawl-delay that is obeyed. A longer one would let a site stall a crawl for days.
pub const MAX_CRAWL_DELAY: Duration = Duration::from_secs(30);

/// The longest Retry-After that the crawler waits for before it retries the URL.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// The number of consecutive redirects that are followed.
pub const MAX_REDIRECTS: u8 = 10;

/// What happens to a page that is larger than the maximum size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Oversize {
    /// The download stops at the maximum size. What was read is the page.
    Truncate,
    /// The page is skipped.
    Drop,
}

/// How pages are fetched.
#[derive(Debug, Clone)]
pub struct FetchConfig {
    /// The User-Agent header.
    pub user_agent: String,
    /// Headers that are sent to the hosts of the seeds.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The settings that are rarely changed.
    pub requests: RequestSettings,
    /// The pause after the first failed request of a robots.txt. It doubles with each further failure.
    pub robots_retry_pause: Duration,
    /// How long after the first failed request of a robots.txt the URLs of its host wait for it.
    pub robots_max_wait: Duration,
    /// The minimum time between two requests to a host.
    pub delay: Duration,
    /// The minimum time between the starts of two requests to a site, which is all hosts of a registrable domain.
    pub site_delay: Duration,
    /// The minimum time between the starts of two requests to an IP address.
    pub address_delay: Duration,
    /// The maximum number of requests in flight.
    pub concurrency: usize,
    /// The maximum number of further requests that have received nothing for a second.
    pub max_silent: usize,
    /// The maximum number of requests in flight to one host. With one, the delay runs from the end of a response to
    /// the next request; with more, from request to request.
    pub max_per_host: usize,
    /// Slow down for hosts whose responses slow down: wait at least as long as their recent responses took, up to
    /// 30 seconds. Has no effect without a delay.
    pub adaptive_delay: bool,
    /// The maximum number of idle connections that each worker keeps open. A connection is reused if no more than
    /// this many other hosts were fetched from in the meantime. Each takes a file descriptor and about 30 KB.
    pub max_idle_connections: usize,
    /// The timeout for a whole request.
    pub timeout: Duration,
    /// How long a crawl waits while this machine's network is down.
    pub network_timeout: Duration,
    /// The maximum size of a page, in bytes: of what is received, and of what it decodes to.
    pub max_page_bytes: usize,
    /// What happens to a larger page.
    pub oversize: Oversize,
    /// Whether connections never use HTTP/2.
    pub http1_only: bool,
    /// How requests and responses are archived, if they are.
    pub archive: Option<ArchiveSettings>,
    /// A file of lines `HOST=ADDRESS` that is read at each lookup, for tests of names whose address changes.
    pub dns_file: Option<PathBuf>,
    /// Query parameters that are removed from all URLs.
    pub strip_query: StripQuery,
    /// The seeds of lists. Their origins may have non-public addresses and get the headers, as those of other seeds do.
    pub seed_index: Option<Arc<SeedIndex>>,
}

impl Default for FetchConfig {
    fn default() -> FetchConfig {
        FetchConfig {
            user_agent: user_agent(None),
            headers: Vec::new(),
            requests: RequestSettings::default(),
            robots_retry_pause: Duration::from_secs(1),
            // One longest Retry-After, and the requests before and after it.
            robots_max_wait: MAX_RETRY_AFTER + Duration::from_secs(30),
            delay: Duration::from_secs(1),
            site_delay: Duration::ZERO,
            address_delay: Duration::ZERO,
            concurrency: 1,
            max_silent: 0,
            max_per_host: 1,
            max_idle_connections: 256,
            adaptive_delay: false,
            timeout: Duration::from_secs(10),
            network_timeout: Duration::from_secs(10 * 60),
            max_page_bytes: 500_000,
            oversize: Oversize::Drop,
            http1_only: false,
            archive: None,
            dns_file: None,
            strip_query: StripQuery::default(),
            seed_index: None,
        }
    }
}

impl FetchConfig {
    /// The name by which robots.txt and the robots directives of pages address the crawler; empty if it has none.
    pub fn product_token(&self) -> &str {
        match &self.requests.robots_token {
            Some(token) => token,
            None => {
                let token = product_token(self.user_agent.as_bytes());
                self.user_agent.get(..token.len()).unwrap_or_default()
            }
        }
    }

    /// How long a request may have to wait for an earlier one to the same host, site or address.
    pub(crate) fn longest_delay(&self) -> Duration {
        self.delay.max(self.site_delay).max(self.address_delay)
    }

    /// The media types that are kept in addition to HTML and text.
    pub(crate) fn accepted_types(&self) -> Result<AcceptedTypes, Error> {
        AcceptedTypes::new(&self.requests.accept).map_err(Error::InvalidSetting)
    }

    /// Checks the settings of a crawl before it starts.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.check_headers()?;
        self.accepted_types()?;
        check_not_zero(&[
            ("concurrency", self.concurrency == 0),
            ("concurrency_per_host", self.max_per_host == 0),
            ("max_page_bytes", self.max_page_bytes == 0),
            ("max_file_bytes", self.requests.max_file_bytes == 0),
            ("timeout", self.timeout.is_zero()),
            ("connect_timeout", self.requests.connect_timeout.is_zero()),
        ])
    }

    /// Checks that the credentials can be sent, and that no header is set twice.
    pub fn check_headers(&self) -> Result<(), Error> {
        let has = |wanted: &HeaderName| self.headers.iter().any(|(name, _)| name == wanted);
        let twice = |name: &str, what: &str| {
            Err(Error::InvalidSetting(format!(
                "cannot send header {name:?}: {what} sets it; use one of the two"
            )))
        };
        if let Some(authentication) = &self.requests.authentication {
            authentication.header()?;
            if has(&AUTHORIZATION) {
                return twice("authorization", "the authentication");
            }
        }
        if self.requests.cookies.is_some() && has(&COOKIE) {
            return twice("cookie", "the cookie jar");
        }
        Ok(())
    }

    /// Checks that the name in `robots_token` is one, and that servers see it.
    pub fn check_robots_token(&self) -> Result<(), Error> {
        let Some(token) = &self.requests.robots_token else { return Ok(()) };
        let invalid =
            |what: &str| Err(Error::InvalidSetting(format!("cannot use robots token {token:?}: {what}")));
        if token.is_empty() || !token.is_ascii() || product_token(token.as_bytes()).len() < token.len() {
            return invalid("it is not a name; use letters, digits, '-', '_' and '.'");
        }
        if !product_names(&self.user_agent).any(|name| name.eq_ignore_ascii_case(token)) {
            return invalid(&format!(
                "servers do not see it; use one of the names in the User-Agent {:?}",
                self.user_agent
            ));
        }
        Ok(())
    }
}

/// The names in a User-Agent, without their versions. The URL and the mail address of a contact contain none.
fn product_names(user_agent: &str) -> impl Iterator<Item = &str> {
    let words = user_agent.split([' ', '\t', ';', ',', '(', ')']);
    let names = words.filter(|word| !word.contains("://") && !word.contains('@'));
    names.map(|word| word.split_once('/').map_or(word, |(name, _)| name))
}

/// Fails if one of the settings is 0.
pub(crate) fn check_not_zero(settings: &[(&str, bool)]) -> Result<(), Error> {
    match settings.iter().find(|(_, is_zero)| *is_zero) {
        Some((name, _)) => Err(Error::InvalidSetting(format!("{name} is 0; it must be larger"))),
        None => Ok(()),
    }
}

/// The setters for [`FetchConfig`] that every mode's builder has, written once.
macro_rules! fetch_setters {
    () => {
        /// Sets the minimum time between two requests to a host; 1 second by default.
        pub fn delay(mut self, delay: Duration) -> Self {
            self.config.delay = delay;
            self
        }

        /// Sets the User-Agent header; `crawler/VERSION` by default. Site owners expect a name and a contact, such as
        /// `mybot/1.0 (+https://example.org/bot)`. The name is also the one that robots.txt is matched against.
        pub fn user_agent(mut self, user_agent: impl Into<String>) -> Self {
            self.config.user_agent = user_agent.into();
            self
        }

        /// Adds a header to the requests that go to the hosts of the seeds, robots.txt included. It is sent to no other
        /// host, because it may contain a secret, unless
        /// [`headers_everywhere`](crate::RequestSettings::headers_everywhere) is set. If the seed is an https URL, it is
        /// sent over https only.
        pub fn header(mut self, name: &str, value: &str) -> Result<Self, Error> {
            self.config.headers.push(crate::config::header(name, value)?);
            Ok(self)
        }

        /// Sets the timeout for a whole request; 10 seconds by default.
        pub fn timeout(mut self, timeout: Duration) -> Self {
            self.config.timeout = timeout;
            self
        }

        /// Removes query parameters whose names match a pattern from all URLs, before URLs are compared and fetched. In
        /// the pattern, `*` stands for any characters and `?` for any one; `tracking` stands for `utm_*`, `gclid`,
        /// `fbclid` and other parameters that do not change the page. Call it again for more patterns; by default, no
        /// parameter is removed.
        pub fn strip_query(mut self, pattern: &str) -> Result<Self, Error> {
            self.config.strip_query = self.config.strip_query.with(pattern)?;
            Ok(self)
        }

        /// Sets how requests are sent: what is rarely changed.
        pub fn requests(mut self, requests: crate::request_settings::RequestSettings) -> Self {
            self.config.requests = requests;
            self
        }
    };
}
pub(crate) use fetch_setters;

/// Headers that describe the connection or the message, which only the HTTP client can get right.
const HTTP_CLIENT_HEADERS: [&str; 14] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Maximum size of a header that is to be sent. Most servers accept no longer ones.
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// Checks a header that is to be sent. Its value is marked as sensitive, so that it is never logged.
pub fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), Error> {
    let header = HeaderName::from_bytes(name.as_bytes());
    // What is not a name may be a secret.
    let header = header.map_err(|_| {
        Error::InvalidSetting(
            "cannot send header: its name is not a token; use letters, digits and '-'".into(),
        )
    })?;
    let invalid = |what: &str| Error::InvalidSetting(format!("cannot send header {name:?}: {what}"));
    if HTTP_CLIENT_HEADERS.contains(&header.as_str()) {
        return Err(invalid("the HTTP client sets it; leave it out"));
    }
    if header == USER_AGENT {
        return Err(invalid("set the user agent instead"));
    }
    if name.len() + value.len() > MAX_HEADER_BYTES {
        return Err(invalid("it is longer than 16 KB"));
    }
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| invalid("its value contains a line break or another character that HTTP forbids"))?;
    value.set_sensitive(true);
    Ok((header, value))
}

/// The default User-Agent, with a contact URL of the crawl's operator if one is given.
pub fn user_agent(contact: Option<&Url>) -> String {
    let name = concat!("crawler/", env!("CARGO_PKG_VERSION"));
    match contact {
        Some(contact) => format!("{name} (+{contact})"),
        None => name.to_owned(),
    }
}

/// Trusted certificates.
pub type Certificates = Vec<CertificateDer<'static>>;

/// Reads the certificates of a PEM file.
pub fn certificates(pem: &[u8]) -> Result<Certificates, Error> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let unreadable = |cause: String| {
        Error::InvalidSetting(format!("cannot read certificates: {cause}; use a PEM file with certificates"))
    };
    let certificates = certificates.map_err(|error| unreadable(error.to_string()))?;
    if certificates.is_empty() {
        return Err(unreadable("the file contains none".into()));
    }
    for (index, certificate) in certificates.iter().enumerate() {
        RootCertStore::empty()
            .add(certificate.clone())
            .map_err(|cause| unreadable(format!("number {} is not a certificate ({cause})", index + 1)))?;
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_agent_contains_the_contact() {
        let contact = Url::parse("https://example.org/bot").unwrap();
        assert!(user_agent(Some(&contact)).ends_with(" (+https://example.org/bot)"));
        assert!(user_agent(None).starts_with("crawler/"));
    }

    #[test]
    fn robots_txt_is_matched_against_a_name_that_is_sent() {
        let config = |user_agent: &str, token: Option<&str>| FetchConfig {
            user_agent: user_agent.into(),
            requests: RequestSettings {
                robots_token: token.map(str::to_owned),
                ..RequestSettings::default()
            },
            ..FetchConfig::default()
        };
        assert_eq!(FetchConfig::default().product_token(), "crawler");
        assert_eq!(config("mybot/1.0 (+https://example.org)", None).product_token(), "mybot");
        let browser = "Mozilla/5.0 (compatible; MyBot/1.0)";
        assert_eq!(config(browser, Some("mybot")).product_token(), "mybot");
        assert!(config(browser, Some("mybot")).check_robots_token().is_ok());
        for (token, cause) in
            [("crawler", "servers do not see it"), ("", "not a name"), ("MyBot/1.0", "not a name")]
        {
            let error = config(browser, Some(token)).check_robots_token().unwrap_err().to_string();
            assert!(error.starts_with("cannot use robots token") && error.contains(cause), "{error}");
        }
        let contact = "mybot/1.0 (+https://a.test/crawler; crawler@a.test) library/2";
        assert!(config(contact, Some("Library")).check_robots_token().is_ok());
        for token in ["crawler", "bot", "a.test", "https"] {
            assert!(config(contact, Some(token)).check_robots_token().is_err(), "{token}");
        }
    }

    #[test]
    fn a_pem_file_without_a_certificate_is_an_error() {
        assert!(certificates(b"").is_err());
        for content in ["!!", "AAAA"] {
            let pem = format!("-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n");
            assert!(certificates(pem.as_bytes()).is_err(), "{content}");
        }
    }

    #[test]
    fn a_header_that_cannot_be_sent_is_refused_without_its_value() {
        assert!(header("Authorization", "Bearer x").is_ok());
        for (name, value) in
            [("a b", "secret"), ("", "secret"), ("Host", "secret"), ("x", "secret\r\nHost: evil")]
        {
            let error = header(name, value).unwrap_err().to_string();
            assert!(error.starts_with("cannot send header") && !error.contains("secret"), "{error}");
        }
    }
}
