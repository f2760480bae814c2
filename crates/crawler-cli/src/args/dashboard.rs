//! The options of the dashboard and the metrics, and the arguments of `crawler dashboard`. They belong to a process, not to a
//! crawl, and are not saved with it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use super::CrawlSource;
use super::distributed::OptionalRedisArgs;
use crate::dashboard::DashboardConfig;
use crate::printable::print_error;
use crate::values;

/// The heading of these options in the help.
const HEADING: &str = "Monitoring";

/// The options of this kind that a process of a distributed crawl has.
pub const ROLE_OPTIONS: [&str; 3] = ["metrics", "metrics-hosts", "dashboard-host"];

/// All options of this kind.
pub const OPTIONS: [&str; 4] = ["dashboard", "dashboard-host", "metrics", "metrics-hosts"];

/// The options as parsed.
#[derive(clap::Args, Debug, Clone, Default, PartialEq)]
pub struct DashboardArgs {
    /// Show the crawl on a web page that this process serves: at IP:PORT or PORT [default: 127.0.0.1 and a free port]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "", value_parser = listen_address, help_heading = HEADING)]
    dashboard: Option<SocketAddr>,
    /// Serve metrics for Prometheus, without the page: at IP:PORT or PORT
    #[arg(long, value_name = "ADDRESS", value_parser = metrics_address, help_heading = HEADING)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    serving: ServingArgs,
}

/// The options that `crawler dashboard` has, too.
#[derive(clap::Args, Debug, Clone, Default, PartialEq)]
struct ServingArgs {
    /// Also accept requests for this host name, such as the name of a proxy in front of the dashboard; repeatable
    #[arg(long, value_name = "NAME", value_parser = host_name, help_heading = HEADING)]
    dashboard_host: Vec<String>,
    /// Also serve metrics of the N hosts with the most requests
    #[arg(long, value_name = "N", default_value = "0", value_parser = values::metrics_hosts, help_heading = HEADING)]
    metrics_hosts: usize,
}

impl DashboardArgs {
    /// Where and what to serve.
    pub fn config(&self) -> DashboardConfig {
        self.serving.config(self.dashboard, self.metrics)
    }

    /// The same for a process of a distributed crawl, which serves no page.
    pub fn role_config(&self) -> DashboardConfig {
        self.serving.config(None, self.metrics)
    }
}

impl ServingArgs {
    fn config(&self, page: Option<SocketAddr>, metrics: Option<SocketAddr>) -> DashboardConfig {
        DashboardConfig {
            page,
            metrics,
            names: self.dashboard_host.clone(),
            metrics_hosts: self.metrics_hosts,
        }
    }
}

/// The arguments of `crawler dashboard`.
#[derive(clap::Args)]
pub struct DashboardCommandArgs {
    /// State directory of the crawl: the DIR of its --state
    #[arg(value_name = "DIR", conflicts_with = "redis")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    redis: OptionalRedisArgs,
    /// Serve the page at IP:PORT or PORT [default: 127.0.0.1 and a free port]
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    serving: ServingArgs,
    /// Print only errors, and the address if its port or token is random
    #[arg(short, long)]
    quiet: bool,
}

/// A checked dashboard of a crawl that another process runs, or none.
pub struct DashboardJob {
    pub source: CrawlSource,
    pub config: DashboardConfig,
    pub is_quiet: bool,
}

impl DashboardCommandArgs {
    /// Checks the arguments.
    pub fn validate(self) -> Result<DashboardJob, String> {
        let shared = self.redis.validate(Arc::new(print_error))?;
        let source = match (self.directory, shared) {
            (Some(directory), _) => CrawlSource::State(directory),
            (None, Some(shared)) => CrawlSource::Redis(Box::new(shared)),
            (None, None) => return Err("missing <DIR> or --redis <URL>, to select the crawl".into()),
        };
        let address = self.listen.unwrap_or(DEFAULT_ADDRESS);
        Ok(DashboardJob { source, config: self.serving.config(Some(address), None), is_quiet: self.quiet })
    }
}

/// Loopback, and a port that the system chooses.
const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// An address of the page; without one, the default.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    match text {
        "" => Ok(DEFAULT_ADDRESS),
        text => address(text).ok_or_else(|| {
            "must be IP:PORT or PORT, such as 127.0.0.1:8080; give URLs before the option".into()
        }),
    }
}

/// An address of the metrics. Its port is needed: something reads them.
pub fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    address(text).ok_or_else(|| "must be IP:PORT or PORT, such as 127.0.0.1:9090".into())
}

fn address(text: &str) -> Option<SocketAddr> {
    let text = text.replacen("localhost", "127.0.0.1", 1);
    let ip = |text: &str| text.parse().ok().map(|ip| SocketAddr::new(ip, 0));
    let port = |text: &str| text.parse().ok().map(|port| SocketAddr::new(DEFAULT_ADDRESS.ip(), port));
    text.parse().ok().or_else(|| port(&text)).or_else(|| ip(&text))
}

/// A host name, without a port.
fn host_name(text: &str) -> Result<String, String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    match !text.is_empty() && text.len() <= 253 && text.bytes().all(is_name) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("must be a host name without a port, such as crawler.example.org".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_given_with_or_without_a_part() {
        let parsed = |text: &str| listen_address(text).map(|address| address.to_string());
        for (text, address) in [
            ("", "127.0.0.1:0"),
            ("8080", "127.0.0.1:8080"),
            ("localhost:8080", "127.0.0.1:8080"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            ("[::1]:8080", "[::1]:8080"),
            ("::1", "[::1]:0"),
            ("10.0.0.1", "10.0.0.1:0"),
        ] {
            assert_eq!(parsed(text).as_deref(), Ok(address), "{text}");
        }
        for text in ["http://example.org/", "example.org:80", ":80", "70000", "127.0.0.1:", "-1"] {
            assert!(parsed(text).is_err(), "{text}");
        }
        assert!(metrics_address("").is_err());
        assert!(host_name("a.example:80").is_err() && host_name("").is_err());
        assert_eq!(host_name("Crawler.example").as_deref(), Ok("crawler.example"));
    }
}
