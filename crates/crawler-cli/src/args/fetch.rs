//! The options for fetching pages, which all crawls share.

use std::fs;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crawler::internal::config::{self, Certificates, FetchConfig, Oversize};
use crawler::internal::exchange::ArchiveSettings;
use crawler::internal::strip_query::StripQuery;
use crawler::internal::warc::encoding::Encoding;
use crawler::{CookieJar, RequestSettings};
use serde::{Deserialize, Serialize};
use url::Url;

use super::Verbosity;
use super::content::ContentArgs;
use super::login::{self, LoginArgs};
use super::proxy::ProxyArgs;
use crate::values;

/// The warning about `--insecure`.
pub const INSECURE: &str =
    "warning: certificates are not verified (--insecure); anyone on the way can read and change the pages";

/// The largest file of certificates. Those of an operating system take a fiftieth of it.
const MAX_CA_FILE_BYTES: u64 = 16 << 20;

/// The options as parsed. The gaps in `display_order` are for options that only one kind of crawl has.
#[derive(clap::Args, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FetchArgs {
    /// Allow links and redirects to private, loopback and other non-public addresses
    #[arg(long, help_heading = "Scope", display_order = 90)]
    pub allow_private: bool,
    /// Remove query parameters from URLs: a name, with * for any characters, or 'tracking' for utm_*, gclid, fbclid and
    /// similar ones; repeatable
    #[arg(long, value_name = "PATTERN", value_parser = values::query_parameter, help_heading = "Scope", display_order = 91)]
    pub strip_query: Vec<String>,

    #[command(flatten)]
    #[serde(flatten)]
    pub content: ContentArgs,
    /// Maximum size of a page, received and decoded; larger pages are skipped
    #[arg(long, value_name = "SIZE", default_value = "500KB", value_parser = values::size, help_heading = "Limits", display_order = 90)]
    pub max_page_bytes: usize,

    /// Delay between requests to a host, e.g. 0, 250ms, 2s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::duration, help_heading = "Politeness", display_order = 1)]
    pub delay: Duration,
    /// Do not fetch or obey robots.txt, and follow nofollow links
    #[arg(long, help_heading = "Politeness", display_order = 5)]
    pub ignore_robots: bool,
    /// User-Agent header to send [default: crawler/VERSION]
    #[arg(long, value_name = "TEXT", help_heading = "Politeness", display_order = 6)]
    pub user_agent: Option<String>,
    /// URL for questions about the crawl, appended to the User-Agent
    #[arg(long, value_name = "URL", help_heading = "Politeness", display_order = 7)]
    pub contact: Option<String>,
    /// Name to look up in robots.txt; the User-Agent must contain it [default: its start, up to the first /]
    #[arg(long, value_name = "NAME", help_heading = "Politeness", display_order = 8)]
    pub robots_token: Option<String>,

    /// Timeout for DNS lookup, TCP connect and TLS handshake
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = values::timeout, help_heading = "Network")]
    pub connect_timeout: Duration,
    /// Timeout for a whole request
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::timeout, help_heading = "Network")]
    pub timeout: Duration,
    /// Connect to ADDR for HOST instead of using DNS; HOST can be *.name or * (all hosts and IP addresses); repeatable
    #[arg(long, value_name = "HOST=ADDR", value_parser = values::resolve, help_heading = "Network")]
    #[serde(with = "resolve_as_text")]
    pub resolve: Vec<(String, IpAddr)>,
    /// File of lines HOST=ADDR that is read at each lookup, for tests of names whose address changes
    #[arg(long, value_name = "FILE", hide = true)]
    pub resolve_file: Option<PathBuf>,
    /// Also trust the certificates in this PEM file, of authorities or of servers
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    pub ca_file: Option<PathBuf>,
    /// Accept any certificate; anyone between crawler and server can then read and change the traffic
    #[arg(long, help_heading = "Network")]
    pub insecure: bool,
    /// Do not use HTTP/2
    #[arg(long, help_heading = "Network")]
    #[serde(default)]
    pub http1: bool,
    #[command(flatten)]
    #[serde(skip)]
    pub proxy: ProxyArgs,

    #[command(flatten)]
    #[serde(skip)]
    pub login: LoginArgs,
    /// Send the headers of --header to all hosts
    #[arg(long, help_heading = login::HEADING)]
    #[serde(default)]
    pub header_everywhere: bool,
    /// Store the cookies that servers set, and send them back; the other options for cookies imply it
    #[arg(long, help_heading = login::HEADING)]
    #[serde(default)]
    pub accept_cookies: bool,

    /// Size at which the next file of a web archive starts
    #[arg(long, value_name = "SIZE", default_value = "1GB", value_parser = values::large_size, help_heading = ARCHIVE)]
    #[serde(default = "default_warc_size")]
    pub warc_size: u64,
    /// Keep credentials, cookies and the headers of --header in the requests of a web archive
    #[arg(long, help_heading = ARCHIVE)]
    #[serde(default)]
    pub warc_secrets: bool,

    /// Also make a WACZ file of the web archive, which ReplayWeb.page opens
    #[arg(long, help_heading = ARCHIVE)]
    #[serde(default)]
    pub wacz: bool,

    /// Print a line for each event, with depth and URL
    #[arg(short, long, conflicts_with = "quiet", help_heading = "Output")]
    pub verbose: bool,
    /// Print only errors
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
}

/// The heading of the options for web archives.
pub const ARCHIVE: &str = "Web archives";

/// The size of crawls that were started before there was an option for it.
fn default_warc_size() -> u64 {
    ArchiveSettings::default().max_file_bytes
}

impl FetchArgs {
    /// Checks that there is an archive, at the path that an option names, of which a WACZ file can be made.
    pub fn check_wacz(&self, archive: Option<&Path>, option: &str) -> Result<(), String> {
        match archive {
            _ if !self.wacz => Ok(()),
            None => Err(format!("--wacz needs {option}, of which the file is made")),
            Some(archive) if matches!(Encoding::from_path(archive), Some((Encoding::Zstd, _))) => {
                Err("--wacz needs an archive without zstd, which readers of WACZ files do not know; name it .warc.gz".into())
            }
            Some(_) => Ok(()),
        }
    }

    /// Reads the values of the options for logins. Those for cookies imply that cookies are accepted, also after a resume.
    pub fn resolve_logins(&mut self) -> Result<(), String> {
        self.login.resolve()?;
        self.accept_cookies |= self.login.has_cookies();
        Ok(())
    }

    /// The fetch configuration with at most `concurrency` requests in flight, and `max_per_host` of them to one host.
    pub fn config(
        &self,
        seeds: &[Url],
        concurrency: usize,
        max_per_host: usize,
    ) -> Result<FetchConfig, String> {
        let mut config = FetchConfig {
            user_agent: self.user_agent()?,
            requests: self.requests()?,
            delay: self.delay,
            concurrency,
            max_per_host,
            timeout: self.timeout,
            max_page_bytes: self.max_page_bytes,
            oversize: Oversize::Drop,
            http1_only: self.http1,
            dns_file: self.resolve_file.clone(),
            strip_query: self.strip_query()?,
            archive: Some(ArchiveSettings {
                has_secrets: self.warc_secrets,
                max_file_bytes: self.warc_size,
                makes_wacz: self.wacz,
                operator: self.contact.clone(),
            }),
            ..FetchConfig::default()
        };
        self.login.apply(&mut config, seeds)?;
        config.check_robots_token().map_err(|error| format!("--robots-token is invalid: {error}"))?;
        Ok(config)
    }

    /// How requests are sent.
    fn requests(&self) -> Result<RequestSettings, String> {
        let mut requests = RequestSettings::default();
        requests.connect_timeout = self.connect_timeout;
        requests.obey_robots = !self.ignore_robots;
        requests.robots_token = self.robots_token.clone();
        requests.allow_private = self.allow_private;
        requests.dns_overrides = self.resolve.clone();
        requests.headers_everywhere = self.header_everywhere;
        requests.insecure = self.insecure;
        requests.proxies = self.proxy.proxies()?;
        requests.cookies = self.accept_cookies.then(CookieJar::default);
        self.content.apply(&mut requests)?;
        if let Some(path) = &self.ca_file {
            let pem = read_ca_file(path)?;
            requests.trust_certificates(&pem).map_err(|error| ca_file_error(path, &error))?;
        }
        Ok(requests)
    }

    /// The warning about an option that makes the crawl insecure.
    pub fn warning(&self) -> Option<&'static str> {
        self.insecure.then_some(INSECURE)
    }

    /// The query parameters to remove from URLs.
    pub fn strip_query(&self) -> Result<StripQuery, String> {
        StripQuery::new(&self.strip_query).map_err(|error| format!("--strip-query: {error}"))
    }

    fn user_agent(&self) -> Result<String, String> {
        let contact = self.contact.as_deref().map(Url::parse).transpose();
        let contact =
            contact.map_err(|error| format!("--contact is not a URL: {error}; give an absolute URL"))?;
        let user_agent = match (&self.user_agent, contact) {
            (None, contact) => config::user_agent(contact.as_ref()),
            (Some(text), Some(contact)) => format!("{text} (+{contact})"),
            (Some(text), None) => text.clone(),
        };
        if user_agent.is_empty() || !user_agent.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err("--user-agent cannot be sent in a header; use printable ASCII only".into());
        }
        Ok(user_agent)
    }

    /// How much is printed.
    pub fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::Verbose,
            _ => Verbosity::Normal,
        }
    }
}

/// The certificates in a PEM file; none without a file.
pub fn certificates(file: Option<&Path>) -> Result<Certificates, String> {
    let Some(path) = file else { return Ok(Vec::new()) };
    config::certificates(&read_ca_file(path)?).map_err(|error| ca_file_error(path, &error))
}

fn read_ca_file(path: &Path) -> Result<Vec<u8>, String> {
    let mut pem = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(MAX_CA_FILE_BYTES + 1).read_to_end(&mut pem));
    read.map_err(|error| ca_file_error(path, &error))?;
    match pem.len() as u64 > MAX_CA_FILE_BYTES {
        true => Err(ca_file_error(path, &"it is larger than 16 MB")),
        false => Ok(pem),
    }
}

fn ca_file_error(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("cannot use --ca-file '{}': {error}", path.display())
}

/// Serializes `--resolve` in the form of the command line, and parses it with the same checks.
mod resolve_as_text {
    use std::net::IpAddr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::values;

    pub fn serialize<S: Serializer>(
        overrides: &[(String, IpAddr)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(overrides.iter().map(|(host, address)| format!("{host}={address}")))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(String, IpAddr)>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts.iter().map(|text| values::resolve(text).map_err(D::Error::custom)).collect()
    }
}
