//! The dashboard: an HTTP server in the binary that shows a crawl, and metrics for Prometheus.
//!
//! It runs on a thread of its own and reads what the crawl reports once per second. A viewer cannot hold the crawl up: the crawl
//! never waits for the server.

pub mod access;
mod action;
mod announcement;
mod connections;
mod events;
mod feed;
mod health;
mod metrics;
mod page;
mod response;
mod routes;
mod server;
mod source;
mod status;
mod view;
mod warnings;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crawler::internal::log::NOTICE;
use tokio::sync::oneshot;

use self::access::{Listening, Secret, TOKEN_VARIABLE};
use self::announcement::Announcement;
pub use self::announcement::AnnouncementForm;
use self::connections::Connections;
use self::feed::Feed;
use self::routes::Site;
pub use self::source::{ProcessSource, RedisSource, Source, StateSource, short_name};
pub use self::status::robots_name;
pub use self::view::Mode;
use crate::log;

/// How long viewers have to receive the final state of the crawl.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

/// Threads for queries that block.
const QUERY_THREADS: usize = 4;

/// Where and what to serve.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DashboardConfig {
    /// The address of the page.
    pub page: Option<SocketAddr>,
    /// The address of the metrics without the page.
    pub metrics: Option<SocketAddr>,
    /// Further names under which browsers reach the server.
    pub names: Vec<String>,
    /// How many hosts have metrics of their own.
    pub metrics_hosts: usize,
}

/// The running server. It ends when it is dropped.
pub struct Dashboard {
    announcements: Vec<Announcement>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Dashboard {
    /// Starts the server, if it is wanted. What actions do is reported to `log`.
    pub fn start(
        config: &DashboardConfig,
        source: impl FnOnce() -> Source,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Option<Dashboard>, String> {
        let addresses = [(config.page, true), (config.metrics, false)];
        let addresses = addresses.into_iter().filter_map(|(address, has_page)| Some((address?, has_page)));
        let mut tokens = Tokens::from_environment()?;
        let mut listeners = Vec::new();
        for (address, has_page) in addresses {
            listeners.push(listen(address, has_page, config, &mut tokens)?);
        }
        if listeners.is_empty() {
            return Ok(None);
        }
        let announcements = announcements(&listeners, &tokens);
        let feed = Arc::new(Feed::new(source()));
        let site = Arc::new(Site::new(Arc::clone(&feed), config.metrics_hosts, Box::new(log))?);
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(QUERY_THREADS)
            .build()
            .map_err(|error| format!("cannot start the dashboard: {error}"))?;
        let thread = thread::Builder::new().name("dashboard".into()).spawn(move || {
            runtime.block_on(run(listeners, site, feed, stopped));
            // A query may still read the state; no viewer waits for it.
            runtime.shutdown_background();
        });
        let thread = thread.map_err(|error| format!("cannot start the dashboard: {error}"))?;
        Ok(Some(Dashboard { announcements, stop: Some(stop), thread: Some(thread) }))
    }

    /// Prints its URLs, or logs them if the log takes the place of what is printed. A random token is in one of them, and
    /// nowhere else.
    pub fn announce(&self, form: AnnouncementForm, print: impl Fn(&str)) {
        for announcement in &self.announcements {
            let is_printed = !log::is_on_stderr();
            let without_token = announcement.without_token();
            tracing::info!(target: NOTICE, "{}", if is_printed { without_token } else { announcement.text() });
            if let Some(text) = announcement.in_form(form).filter(|_| is_printed) {
                print(&text);
            }
        }
    }
}

impl Drop for Dashboard {
    /// Sends the final state of the crawl to the viewers, and ends.
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn run(
    listeners: Vec<(TcpListener, Listening)>,
    site: Arc<Site>,
    feed: Arc<Feed>,
    stopped: oneshot::Receiver<()>,
) {
    let connections = Arc::new(Connections::new());
    let mut servers = tokio::task::JoinSet::new();
    for (listener, listening) in listeners {
        // A listener that was just created can be used.
        let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { continue };
        servers.spawn(server::serve(
            listener,
            Arc::new(listening),
            Arc::clone(&site),
            Arc::clone(&connections),
        ));
    }
    tokio::select! {
        never = feed.run() => match never {},
        _ = stopped => {}
    }
    servers.abort_all();
    while servers.join_next().await.is_some() {}
    let finish = async {
        feed.finish().await;
        connections.finish().await;
    };
    let _ = tokio::time::timeout(FINISH_TIMEOUT, finish).await;
}

/// The token of the server: chosen by the user, or random once one is needed.
struct Tokens {
    chosen: Option<Secret>,
    random: Option<Secret>,
}

impl Tokens {
    fn from_environment() -> Result<Tokens, String> {
        let chosen = std::env::var_os(TOKEN_VARIABLE).filter(|token| !token.is_empty());
        let chosen = chosen.map(|token| Secret::chosen(&token.to_string_lossy())).transpose()?;
        Ok(Tokens { chosen, random: None })
    }

    /// The token for an address. On loopback none is needed, unless the user chose one.
    fn of(&mut self, address: IpAddr) -> Result<Option<Secret>, String> {
        if self.chosen.is_some() || address.is_loopback() {
            return Ok(self.chosen.clone());
        }
        if self.random.is_none() {
            self.random = Some(Secret::random()?);
        }
        Ok(self.random.clone())
    }
}

fn listen(
    address: SocketAddr,
    has_page: bool,
    config: &DashboardConfig,
    tokens: &mut Tokens,
) -> Result<(TcpListener, Listening), String> {
    let (what, option) = if has_page { ("the dashboard", "--dashboard") } else { ("metrics", "--metrics") };
    let failed = |error: std::io::Error| {
        format!("cannot serve {what} at {address}: {error}; choose another address ({option})")
    };
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let has_chosen_port = address.port() != 0;
    let address = listener.local_addr().map_err(failed)?;
    let token = tokens.of(address.ip())?;
    Ok((listener, Listening { address, has_chosen_port, has_page, names: config.names.clone(), token }))
}

/// The URLs of the server. A random token is in one of them only.
fn announcements(listeners: &[(TcpListener, Listening)], tokens: &Tokens) -> Vec<Announcement> {
    let mut random = tokens.random.as_ref();
    let announce = |(_, listening): &(TcpListener, Listening)| {
        let url = format!("http://{}/", reachable(listening.address));
        let token = listening.token.as_ref().and_then(|_| random.take()).cloned();
        let is_needed = token.is_some() || !listening.has_chosen_port;
        match listening.has_page {
            true => Announcement { name: "dashboard", url, token, is_needed },
            false => Announcement { name: "metrics", url: url + "metrics", token, is_needed },
        }
    };
    listeners.iter().map(announce).collect()
}

/// An address that this machine can connect to.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
