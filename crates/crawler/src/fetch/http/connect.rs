//! Opens connections: resolves the name, rejects non-public addresses, connects, also through a proxy, negotiates TLS.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use rustix::io::Errno;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::address::{AddressKinds, non_public_kind};
use super::stream::ServerStream;
use super::tls::{insecure_client_config, tls_client_config, tls_failure};
use super::tunnel::{self, TunnelTarget, proxy_failure};
use crate::config::FetchConfig;
use crate::origin::Origin;
use crate::outcome::{CONNECTING, Outcome};
use crate::proxy::{ProxyKind, ProxyServer, parse_address};
use crate::request_settings::dns_override;
use crate::seed_list::SeedIndex;
use crate::statistics::Recorder;
use crate::statistics::counts::Stage;

/// How long a resolved name is cached. Short, because the operating system caches too.
const DNS_TTL: Duration = Duration::from_secs(60);

/// Capacity of the DNS cache. A full cache is cleared.
const MAX_CACHED_NAMES: usize = 10_000;

/// How long closing dropped connections takes at most.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(50);

/// A connected transport: plain or TLS.
pub enum Transport {
    /// For http.
    Plain(ServerStream),
    /// For https.
    Tls(Box<TlsStream<ServerStream>>),
}

/// A connection to an origin.
pub struct Connected {
    /// What carries requests.
    pub transport: Transport,
    /// The address of the server, unless a proxy connects to it, or it has closed the connection already.
    pub address: Option<IpAddr>,
    /// The proxy at the other end, if one is.
    pub proxy: Option<Arc<ProxyServer>>,
}

/// Opens connections with one crawl's configuration.
pub struct Connector {
    config: Arc<FetchConfig>,
    /// The seeds' origins, which may have non-public addresses of the kinds that they had at the first lookup.
    trusted_origins: Vec<Origin>,
    /// The listed seeds, whose origins are trusted as well.
    seed_index: RwLock<Option<Arc<SeedIndex>>>,
    /// The kinds of the trusted hosts that were looked up, by throttle key.
    pinned_kinds: Mutex<HashMap<String, AddressKinds>>,
    /// Where other processes of the crawl find the kinds.
    pin: Option<PinKinds>,
    dns_cache: Mutex<HashMap<String, (Instant, Vec<IpAddr>)>>,
    recorder: Recorder,
    /// Created for the first https URL, because loading the root certificates takes time.
    tls: OnceLock<TlsConnector>,
    /// The same for proxies, which do not speak HTTP/2 here.
    proxy_tls: OnceLock<TlsConnector>,
}

/// Stores the kinds of address that a trusted host has, unless some are stored already, and returns the stored ones;
/// `None` if that failed.
pub type PinKinds = Arc<dyn Fn(String, AddressKinds) -> PinnedKinds + Send + Sync>;

/// The future of [`PinKinds`].
pub type PinnedKinds = Pin<Box<dyn Future<Output = Option<AddressKinds>> + Send>>;

impl Connector {
    /// A connector that rejects non-public addresses, except for the `trusted_origins`: these may have addresses of the
    /// kinds that they have at their first lookup. A name that is public at first and private later is rejected then.
    pub fn new(config: Arc<FetchConfig>, trusted_origins: Vec<Origin>) -> Connector {
        Connector {
            seed_index: RwLock::new(config.seed_index.clone()),
            config,
            trusted_origins,
            pinned_kinds: Mutex::default(),
            pin: None,
            dns_cache: Mutex::default(),
            recorder: Recorder::default(),
            tls: OnceLock::new(),
            proxy_tls: OnceLock::new(),
        }
    }

    /// The settings.
    pub fn config(&self) -> &FetchConfig {
        &self.config
    }

    /// Changes the listed seeds.
    pub fn set_seed_index(&self, index: Option<Arc<SeedIndex>>) {
        *self.seed_index.write().unwrap_or_else(PoisonError::into_inner) = index;
    }

    /// Whether an origin is trusted.
    pub fn is_trusted(&self, origin: &Origin) -> bool {
        let is_listed = || {
            let index = self.seed_index.read().unwrap_or_else(PoisonError::into_inner);
            index.as_ref().is_some_and(|seeds| seeds.contains_origin(origin))
        };
        self.trusted_origins.contains(origin) || is_listed()
    }

    /// The first lookup is the first one of all processes that share `pin`.
    pub fn with_pin(self, pin: PinKinds) -> Connector {
        Connector { pin: Some(pin), ..self }
    }

    /// Records how long lookups, connecting and TLS handshakes take.
    pub fn with_recorder(self, recorder: Recorder) -> Connector {
        Connector { recorder, ..self }
    }

    /// Connects to an origin within the connect timeout. If the process or system has too many open files, calls
    /// `free_files` to close some and tries once more, because that failure is not the origin's.
    pub async fn connect(&self, origin: &Origin, free_files: impl Fn()) -> Result<Connected, Outcome> {
        let limit = self.config.requests.connect_timeout;
        if let Some(proxy) = self.proxy_for(origin) {
            return self.connect_through(proxy, origin, &free_files).await;
        }
        let connecting = timeout(limit, async {
            let addresses = self.permitted_addresses(origin, &free_files).await?;
            let stream = ServerStream::Tcp(self.connect_tcp(&addresses, &free_files).await?);
            let address = stream.peer_address();
            Ok(Connected { transport: self.secure(stream, origin).await?, address, proxy: None })
        });
        connecting.await.unwrap_or(Err(Outcome::Timeout { doing: CONNECTING, limit }))
    }

    /// The proxy that the requests to an origin go through.
    pub fn proxy_for(&self, origin: &Origin) -> Option<&Arc<ProxyServer>> {
        self.config.requests.proxies.server_for(origin)
    }

    /// Connects to an origin through a proxy, within the connect timeout. A proxy that cannot be used is not the origin's
    /// failure; one that does not reply to the request for a connection may wait for the origin.
    async fn connect_through(
        &self,
        proxy: &Arc<ProxyServer>,
        origin: &Origin,
        free_files: &impl Fn(),
    ) -> Result<Connected, Outcome> {
        let limit = self.config.requests.connect_timeout;
        let deadline = Instant::now() + limit;
        let took_too_long = || Outcome::Timeout { doing: CONNECTING, limit };
        let address = timeout_at(deadline, self.permitted_target(proxy, origin, free_files));
        let address = address.await.map_err(|_| took_too_long())??;
        let reached = timeout_at(deadline, self.reach_proxy(proxy, free_files));
        let mut stream = reached
            .await
            .map_err(|_| proxy_failure(proxy, format!("did not respond within {limit:?}")))??;
        if !proxy.forwards(origin) {
            let target = TunnelTarget { origin, address };
            let opened = timeout_at(deadline, tunnel::open(proxy, &mut stream, &target));
            opened.await.map_err(|_| Outcome::ConnectionFailed {
                cause: format!("the proxy {proxy} did not connect to {} within {limit:?}", target.name()),
            })??;
        }
        let secured = timeout_at(deadline, self.secure(stream, origin));
        let transport = secured.await.map_err(|_| took_too_long())??;
        Ok(Connected { transport, address: None, proxy: Some(Arc::clone(proxy)) })
    }

    /// Checks that an origin may be requested through a proxy. If the crawler resolves its name, returns the address; otherwise
    /// only an address in the URL itself can be checked.
    async fn permitted_target(
        &self,
        proxy: &ProxyServer,
        origin: &Origin,
        free_files: &impl Fn(),
    ) -> Result<Option<IpAddr>, Outcome> {
        if !proxy.resolves_names() {
            let addresses = self.permitted_addresses(origin, free_files).await?;
            // More proxies have a route to IPv4 addresses than to IPv6 addresses.
            let address = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
            return Ok(address.map(SocketAddr::ip));
        }
        if let Some(address) = literal_address(&origin.host) {
            self.permitted(origin, &[address]).await?;
        }
        Ok(None)
    }

    /// Connects to a proxy, whose address may be private: the user configured it.
    async fn reach_proxy(
        &self,
        proxy: &ProxyServer,
        free_files: &impl Fn(),
    ) -> Result<ServerStream, Outcome> {
        let unreachable = |outcome: Outcome| match outcome {
            Outcome::ConnectionFailed { cause } | Outcome::DnsFailed { cause, .. } => {
                proxy_failure(proxy, format!("cannot be reached: {cause}"))
            }
            Outcome::TlsFailed { cause } => proxy_failure(proxy, format!("cannot be trusted: {cause}")),
            _ => proxy_failure(proxy, "cannot be reached: it did not respond in time"),
        };
        let addresses = match parse_address(&proxy.host) {
            Some(address) => vec![address],
            None => self.look_up(&proxy.host, free_files).await.map_err(unreachable)?,
        };
        let addresses: Vec<SocketAddr> =
            addresses.into_iter().map(|address| SocketAddr::new(address, proxy.port)).collect();
        let stream = self.connect_tcp(&addresses, free_files).await.map_err(unreachable)?;
        let mut stream = match proxy.kind {
            ProxyKind::Https => {
                let tls = self.proxy_tls.get_or_init(|| TlsConnector::from(Arc::new(self.tls_config())));
                let stream = start_tls(tls, stream, &proxy.host).await.map_err(unreachable)?;
                ServerStream::ProxyTls(Box::new(stream))
            }
            _ => ServerStream::Tcp(stream),
        };
        tunnel::greet(proxy, &mut stream).await?;
        Ok(stream)
    }

    /// The addresses of a host that may be connected to. The check applies to the very addresses that are connected to,
    /// literal ones included, so that no name and no redirect can bypass it.
    async fn permitted_addresses(
        &self,
        origin: &Origin,
        free_files: &impl Fn(),
    ) -> Result<Vec<SocketAddr>, Outcome> {
        let addresses = self.resolve(&origin.host, free_files).await?;
        self.permitted(origin, &addresses).await
    }

    /// Those of an origin's addresses that may be connected to; an error if it has none.
    async fn permitted(&self, origin: &Origin, addresses: &[IpAddr]) -> Result<Vec<SocketAddr>, Outcome> {
        let trusted = match !self.config.requests.allow_private && self.is_trusted(origin) {
            true => self.trusted_kinds(origin, addresses).await?,
            false => AddressKinds::default(),
        };
        let is_permitted = |address: IpAddr| {
            self.config.requests.allow_private
                || non_public_kind(address).is_none()
                || trusted.contains(address)
        };
        let permitted: Vec<SocketAddr> = addresses
            .iter()
            .filter(|address| is_permitted(**address))
            .map(|address| SocketAddr::new(*address, origin.port))
            .collect();
        match addresses.iter().find_map(|address| Some((*address, non_public_kind(*address)?))) {
            Some((address, kind)) if permitted.is_empty() => Err(Outcome::BlockedAddress { address, kind }),
            _ if permitted.is_empty() => {
                Err(Outcome::DnsFailed { cause: "the name has no address".into(), is_temporary: false })
            }
            _ => Ok(permitted),
        }
    }

    /// The kinds of non-public addresses that a trusted origin may have.
    async fn trusted_kinds(&self, origin: &Origin, addresses: &[IpAddr]) -> Result<AddressKinds, Outcome> {
        let host = origin.throttle_key();
        if let Some(kinds) = unpoisoned(&self.pinned_kinds).get(&host) {
            return Ok(*kinds);
        }
        let mut kinds = AddressKinds::of_addresses(addresses);
        if let Some(pin) = &self.pin {
            kinds = pin(host.clone(), kinds).await.ok_or(Outcome::NotReached)?;
        }
        Ok(*unpoisoned(&self.pinned_kinds).entry(host).or_insert(kinds))
    }

    async fn resolve(&self, host: &str, free_files: &impl Fn()) -> Result<Vec<IpAddr>, Outcome> {
        if let Some(address) = dns_override(&self.config.requests.dns_overrides, host) {
            return Ok(vec![address]);
        }
        if let Some(address) = self.config.dns_file.as_deref().and_then(|file| address_in(file, host)) {
            return Ok(vec![address]);
        }
        match parse_address(host) {
            Some(literal) => Ok(vec![literal]),
            None => self.look_up(host, free_files).await,
        }
    }

    /// Looks the addresses of a name up, in the cache or in DNS.
    async fn look_up(&self, host: &str, free_files: &impl Fn()) -> Result<Vec<IpAddr>, Outcome> {
        let now = Instant::now();
        if let Some((until, addresses)) = unpoisoned(&self.dns_cache).get(host)
            && now < *until
        {
            return Ok(addresses.clone());
        }
        let lookup = retry_after_freeing_files(free_files, || async {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect::<Vec<IpAddr>>())
        });
        let addresses = lookup.await.map_err(|error| dns_failure(&error))?;
        self.recorder.record_stage(Stage::Dns, now.elapsed());
        let mut dns_cache = unpoisoned(&self.dns_cache);
        if dns_cache.len() >= MAX_CACHED_NAMES {
            dns_cache.clear();
        }
        dns_cache.insert(host.to_owned(), (now + DNS_TTL, addresses.clone()));
        Ok(addresses)
    }

    async fn connect_tcp(
        &self,
        addresses: &[SocketAddr],
        free_files: &impl Fn(),
    ) -> Result<TcpStream, Outcome> {
        let started = Instant::now();
        let stream = connect_tcp(addresses, self.config.requests.connect_timeout, free_files).await?;
        self.recorder.record_stage(Stage::Connect, started.elapsed());
        Ok(stream)
    }

    /// Negotiates TLS with an https origin.
    async fn secure(&self, stream: ServerStream, origin: &Origin) -> Result<Transport, Outcome> {
        if !origin.https {
            return Ok(Transport::Plain(stream));
        }
        let connector = self.tls.get_or_init(|| {
            let mut tls = self.tls_config();
            tls.alpn_protocols = match self.config.http1_only {
                true => vec![b"http/1.1".to_vec()],
                false => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            };
            TlsConnector::from(Arc::new(tls))
        });
        let started = Instant::now();
        let stream = start_tls(connector, stream, &origin.host).await?;
        self.recorder.record_stage(Stage::Tls, started.elapsed());
        Ok(Transport::Tls(Box::new(stream)))
    }

    fn tls_config(&self) -> ClientConfig {
        match self.config.requests.insecure {
            true => insecure_client_config(),
            false => tls_client_config(&self.config.requests.trusted_certificates),
        }
    }
}

async fn start_tls<S: AsyncRead + AsyncWrite + Unpin>(
    connector: &TlsConnector,
    stream: S,
    host: &str,
) -> Result<TlsStream<S>, Outcome> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| Outcome::TlsFailed { cause: format!("{host}: {error}") })?;
    connector.connect(name, stream).await.map_err(tls_failure)
}

/// The address that a host stands for without DNS: an address itself, or `localhost` and the names below it (RFC 6761).
fn literal_address(host: &str) -> Option<IpAddr> {
    let is_localhost =
        host.strip_suffix("localhost").is_some_and(|above| above.is_empty() || above.ends_with('.'));
    parse_address(host).or(is_localhost.then_some(IpAddr::from([127, 0, 0, 1])))
}

/// The address of a host in a file of lines `HOST=ADDRESS`.
fn address_in(file: &Path, host: &str) -> Option<IpAddr> {
    let text = std::fs::read_to_string(file).ok()?;
    let lines = text.lines().filter_map(|line| line.split_once('='));
    lines.filter(|(name, _)| *name == host).find_map(|(_, address)| address.parse().ok())
}

/// Locks a mutex and ignores poisoning: no code here panics while it holds a lock.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tries the addresses in order, each with an equal share of the remaining time.
async fn connect_tcp(
    addresses: &[SocketAddr],
    limit: Duration,
    free_files: &impl Fn(),
) -> Result<TcpStream, Outcome> {
    let deadline = Instant::now() + limit;
    let mut failure = Outcome::Timeout { doing: CONNECTING, limit };
    for (index, address) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let share = left / (addresses.len() - index) as u32;
        match timeout(share, retry_after_freeing_files(free_files, || TcpStream::connect(address))).await {
            Ok(Ok(stream)) => {
                // Failing to disable Nagle only costs some latency.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => {
                failure =
                    Outcome::ConnectionFailed { cause: format!("{address}: {}", describe_io_error(&error)) }
            }
            Err(_) => {}
        }
    }
    Err(failure)
}

/// Runs an operation that opens a file, and once more after `free_files` if too many files are open.
async fn retry_after_freeing_files<T, F: Future<Output = io::Result<T>>>(
    free_files: &impl Fn(),
    open: impl Fn() -> F,
) -> io::Result<T> {
    match open().await {
        Err(error) if is_out_of_files(&error) => {
            free_files();
            sleep(CLOSE_TIMEOUT).await;
            open().await
        }
        opened => opened,
    }
}

/// Whether the process or the system has too many open files.
fn is_out_of_files(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// The outcome for an error of the system's resolver. It has no code for its errors, only the C library's words.
fn dns_failure(error: &io::Error) -> Outcome {
    let text = error.to_string();
    let words = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
    let (cause, is_temporary) = match words {
        // glibc, musl, macOS.
        "Name or service not known"
        | "Name does not resolve"
        | "nodename nor servname provided, or not known" => ("the name does not exist", false),
        "No address associated with hostname" | "Name has no usable address" => {
            ("the name has no address", false)
        }
        "Temporary failure in name resolution" | "Try again" => ("the name server does not respond", true),
        "Non-recoverable failure in name resolution" | "Unrecoverable error" => {
            ("the name server failed", true)
        }
        words => (words, true),
    };
    Outcome::DnsFailed { cause: cause.into(), is_temporary }
}

/// An operating system error in words, without its number.
pub fn describe_io_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".into(),
        io::ErrorKind::ConnectionReset => "connection reset".into(),
        io::ErrorKind::UnexpectedEof => "connection closed".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a connector to the seed `http://h.test/` permits when the name has these addresses, one after another.
    async fn permitted(addresses: [&str; 2], pin: Option<PinKinds>) -> [Result<Vec<SocketAddr>, Outcome>; 2] {
        let file = tempfile::NamedTempFile::new().unwrap();
        let config = FetchConfig { dns_file: Some(file.path().to_owned()), ..FetchConfig::default() };
        let origin = Origin { https: false, host: "h.test".into(), port: 80 };
        let connector = Connector { pin, ..Connector::new(Arc::new(config), vec![origin.clone()]) };
        let mut results = Vec::new();
        for address in addresses {
            std::fs::write(file.path(), format!("h.test={address}\n")).unwrap();
            results.push(connector.permitted_addresses(&origin, &|| ()).await);
        }
        results.try_into().unwrap()
    }

    #[tokio::test]
    async fn seed_may_have_the_kind_of_address_that_it_had_at_first() {
        for (first, later, is_permitted) in [
            ("127.0.0.1", "127.0.0.2", true),
            ("127.0.0.1", "::1", true),
            ("10.0.0.1", "10.0.0.2", true),
            ("10.0.0.1", "1.1.1.1", true),
            ("1.1.1.1", "8.8.8.8", true),
            ("1.1.1.1", "127.0.0.1", false),
            ("1.1.1.1", "10.0.0.1", false),
            ("10.0.0.1", "127.0.0.1", false),
            ("127.0.0.1", "169.254.169.254", false),
        ] {
            let [at_first, afterwards] = permitted([first, later], None).await;
            assert!(at_first.is_ok(), "{first}");
            assert_eq!(afterwards.is_ok(), is_permitted, "{first}, then {later}: {afterwards:?}");
            assert!(is_permitted || matches!(afterwards, Err(Outcome::BlockedAddress { .. })));
        }
    }

    #[tokio::test]
    async fn first_lookup_may_have_been_that_of_another_process() {
        let public = AddressKinds::of_addresses(&[[1, 1, 1, 1].into()]);
        let pin: PinKinds = Arc::new(move |_, _| Box::pin(std::future::ready(Some(public))));
        let [blocked, public] = permitted(["127.0.0.1", "8.8.8.8"], Some(pin)).await;
        assert!(matches!(blocked, Err(Outcome::BlockedAddress { .. })), "{blocked:?}");
        assert!(public.is_ok());
    }
}
