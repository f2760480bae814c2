//! The options of how pages are fetched, which every kind of crawl has.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crawler::internal::config::{self, Certificates, DnsOverride, FetchConfig};
use serde::{Deserialize, Serialize};
use url::Url;

use super::Verbosity;
use crate::values;

/// What was typed about fetching. The numbers of `display_order` leave room for what only one kind of crawl has.
#[derive(clap::Args, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FetchArgs {
    /// Let redirects, also of robots.txt, lead to private, loopback and other special addresses
    #[arg(long, help_heading = "Scope", display_order = 90)]
    pub allow_private: bool,

    /// The least time between requests: 0, 250ms, 2s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::duration, allow_negative_numbers = true, help_heading = "Politeness", display_order = 1)]
    pub delay: Duration,
    /// Do not ask for robots.txt
    #[arg(long, help_heading = "Politeness", display_order = 3)]
    pub ignore_robots: bool,
    /// The User-Agent header [default: crawler/VERSION]
    #[arg(long, value_name = "TEXT", help_heading = "Politeness", display_order = 4)]
    pub user_agent: Option<String>,
    /// A URL where you can be reached, sent with the User-Agent
    #[arg(long, value_name = "URL", help_heading = "Politeness", display_order = 5)]
    pub contact: Option<String>,

    /// The longest time to find, reach and secure a server
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = values::timeout, allow_negative_numbers = true, help_heading = "Limits")]
    pub connect_timeout: Duration,
    /// The longest time for a whole request
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::timeout, allow_negative_numbers = true, help_heading = "Limits")]
    pub timeout: Duration,
    /// The largest page kept, decoded; larger ones are dropped
    #[arg(long, value_name = "SIZE", default_value = "500KB", value_parser = values::size, allow_negative_numbers = true, help_heading = "Limits")]
    pub max_page_bytes: usize,

    /// Use this address for a host, *.name or * (every host, addresses too) instead of asking DNS; repeatable
    #[arg(long, value_name = "HOST=ADDR", value_parser = values::resolve, help_heading = "Network")]
    #[serde(with = "resolve_as_text")]
    pub resolve: Vec<DnsOverride>,
    /// Trust the certificates in this PEM file too
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    pub ca_file: Option<PathBuf>,

    /// Print a line for everything that happens, with depth and URL
    #[arg(short, long, conflicts_with = "quiet", help_heading = "Output")]
    pub verbose: bool,
    /// Print nothing but errors
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
}

impl FetchArgs {
    /// How pages are fetched, with so many requests in flight, and so many of them to one host.
    pub fn config(&self, concurrency: usize, per_host: usize) -> Result<FetchConfig, String> {
        let extra_roots = certificates(self.ca_file.as_deref())?;
        Ok(FetchConfig {
            user_agent: self.user_agent()?,
            headers: Vec::new(),
            obey_robots: !self.ignore_robots,
            delay: self.delay,
            concurrency,
            max_per_host: per_host,
            connect_timeout: self.connect_timeout,
            timeout: self.timeout,
            max_page_bytes: self.max_page_bytes,
            dns_overrides: self.resolve.clone(),
            extra_roots,
            allow_private: self.allow_private,
            adaptive_delay: false,
            max_idle_connections: FetchConfig::default().max_idle_connections,
        })
    }

    fn user_agent(&self) -> Result<String, String> {
        let contact = self.contact.as_deref().map(Url::parse).transpose();
        let contact = contact.map_err(|error| format!("--contact: {error}; give an absolute URL"))?;
        let user_agent = match (&self.user_agent, contact) {
            (None, contact) => config::user_agent(contact.as_ref()),
            (Some(text), Some(contact)) => format!("{text} (+{contact})"),
            (Some(text), None) => text.clone(),
        };
        if user_agent.is_empty() || !user_agent.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err("--user-agent cannot be sent; use printable ASCII only".into());
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

/// The certificates in a file, if one is named.
pub fn certificates(file: Option<&Path>) -> Result<Certificates, String> {
    let Some(path) = file else { return Ok(Vec::new()) };
    let unusable = |error: &dyn std::fmt::Display| format!("--ca-file '{}': {error}", path.display());
    let pem = fs::read(path).map_err(|error| unusable(&error))?;
    config::certificates(&pem).map_err(|error| unusable(&error))
}

/// Writes `--resolve` as it is typed, and reads it as strictly.
mod resolve_as_text {
    use crawler::internal::config::DnsOverride;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::values;

    pub fn serialize<S: Serializer>(resolve: &[DnsOverride], serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_seq(resolve.iter().map(|DnsOverride { host, address }| format!("{host}={address}")))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<DnsOverride>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts.iter().map(|text| values::resolve(text).map_err(D::Error::custom)).collect()
    }
}
