//! The arguments of `crawler health`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::dashboard::metrics_address;

/// The process to query.
#[derive(clap::Args)]
pub struct HealthArgs {
    /// Address of the process: the ADDRESS of its --metrics or --dashboard
    #[arg(long, value_name = "ADDRESS", required = true, value_parser = metrics_address)]
    metrics: SocketAddr,
    /// Check whether it is ready: whether it crawls, and can reach what it needs
    #[arg(long)]
    pub ready: bool,
}

impl HealthArgs {
    /// Where to connect to. A process that listens on all addresses is queried on loopback.
    pub fn address(&self) -> SocketAddr {
        let ip = match self.metrics.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        SocketAddr::new(ip, self.metrics.port())
    }
}
