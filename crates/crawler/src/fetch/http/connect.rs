//! Opens connections: resolves the name, rejects non-public addresses, connects, negotiates TLS.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, InvalidMessage, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::address::{AddressKinds, non_public_kind};
use super::headers::excerpt;
use crate::config::FetchConfig;
use crate::origin::Origin;
use crate::outcome::{CONNECTING, Outcome};
use crate::request_settings::dns_override;

/// How long a resolved name is cached. Short, because the operating system caches too.
const DNS_TTL: Duration = Duration::from_secs(60);

/// Capacity of the DNS cache. A full cache is cleared.
const MAX_CACHED_NAMES: usize = 10_000;

/// How long closing dropped connections takes at most.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(50);

/// A connected transport: plain TCP or TLS.
pub enum Transport {
    /// TCP, for http.
    Plain(TcpStream),
    /// TLS, for https.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Transport {
    /// The address of the server, unless it has closed the connection already.
    pub fn address(&self) -> Option<IpAddr> {
        let stream = match self {
            Transport::Plain(stream) => stream,
            Transport::Tls(stream) => stream.get_ref().0,
        };
        Some(stream.peer_addr().ok()?.ip())
    }
}

/// Opens connections with one crawl's configuration.
pub struct Connector {
    config: Arc<FetchConfig>,
    /// The seeds' origins, which may have non-public addresses of the kinds that they had at the first lookup.
    trusted_origins: Vec<Origin>,
    /// The kinds of the trusted hosts that were looked up, by throttle key.
    pinned_kinds: Mutex<HashMap<String, AddressKinds>>,
    /// Where other processes of the crawl find the kinds.
    pin: Option<PinKinds>,
    dns_cache: Mutex<HashMap<String, (Instant, Vec<IpAddr>)>>,
    /// Created for the first https URL, because loading the root certificates takes time.
    tls: OnceLock<TlsConnector>,
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
            config,
            trusted_origins,
            pinned_kinds: Mutex::default(),
            pin: None,
            dns_cache: Mutex::default(),
            tls: OnceLock::new(),
        }
    }

    /// The first lookup is the first one of all processes that share `pin`.
    pub fn with_pin(self, pin: PinKinds) -> Connector {
        Connector { pin: Some(pin), ..self }
    }

    /// Connects to an origin within the connect timeout. If the process or system has too many open files, calls
    /// `free_files` to close some and tries once more, because that failure is not the origin's.
    pub async fn connect(&self, origin: &Origin, free_files: impl Fn()) -> Result<Transport, Outcome> {
        let limit = self.config.requests.connect_timeout;
        let connecting = timeout(limit, async {
            let addresses = self.permitted_addresses(origin, &free_files).await?;
            let stream = connect_tcp(&addresses, limit, &free_files).await?;
            if origin.https { self.start_tls(stream, origin).await } else { Ok(Transport::Plain(stream)) }
        });
        connecting.await.unwrap_or(Err(Outcome::Timeout { doing: CONNECTING, limit }))
    }

    /// The addresses of a host that may be connected to. The check applies to the very addresses that are connected to,
    /// literal ones included, so that no name and no redirect can bypass it.
    async fn permitted_addresses(
        &self,
        origin: &Origin,
        free_files: &impl Fn(),
    ) -> Result<Vec<SocketAddr>, Outcome> {
        let addresses = self.resolve(&origin.host, free_files).await?;
        let is_listed = || self.config.seed_index.as_ref().is_some_and(|seeds| seeds.contains_origin(origin));
        let is_seed = || self.trusted_origins.contains(origin) || is_listed();
        let trusted = match !self.config.requests.allow_private && is_seed() {
            true => self.trusted_kinds(origin, &addresses).await?,
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
        if let Ok(literal) = host.trim_start_matches('[').trim_end_matches(']').parse() {
            return Ok(vec![literal]);
        }
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
        let mut dns_cache = unpoisoned(&self.dns_cache);
        if dns_cache.len() >= MAX_CACHED_NAMES {
            dns_cache.clear();
        }
        dns_cache.insert(host.to_owned(), (now + DNS_TTL, addresses.clone()));
        Ok(addresses)
    }

    async fn start_tls(&self, stream: TcpStream, origin: &Origin) -> Result<Transport, Outcome> {
        let host = origin.host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| Outcome::TlsFailed { cause: format!("{host}: {error}") })?;
        let connector = self.tls.get_or_init(|| tls_connector(&self.config));
        match connector.connect(name, stream).await {
            Ok(stream) => Ok(Transport::Tls(Box::new(stream))),
            Err(error) => Err(tls_failure(error)),
        }
    }
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

fn tls_connector(config: &FetchConfig) -> TlsConnector {
    let mut tls = tls_client_config(&config.requests.trusted_certificates);
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsConnector::from(Arc::new(tls))
}

/// A TLS configuration that trusts Mozilla's root certificates and the given ones.
pub fn tls_client_config(extra_roots: &[CertificateDer<'static>]) -> ClientConfig {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    // Unparsable certificates were rejected when the file was read.
    roots.add_parsable_certificates(extra_roots.iter().cloned());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring supports the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
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

fn tls_failure(error: io::Error) -> Outcome {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(error) => Outcome::TlsFailed { cause: describe_tls_error(error) },
        None => Outcome::ConnectionFailed {
            cause: format!("during the TLS handshake: {}", describe_io_error(&error)),
        },
    }
}

/// A TLS error in words that name what is wrong with the server or its certificate.
fn describe_tls_error(error: &rustls::Error) -> String {
    match error {
        // The first bytes are not a TLS record, so the server speaks another protocol, most often plain HTTP.
        rustls::Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => "the server does not speak TLS".into(),
        rustls::Error::InvalidCertificate(error) => describe_certificate_error(error),
        rustls::Error::NoCertificatesPresented => "the server sent no certificate".into(),
        rustls::Error::PeerIncompatible(_) => {
            "the server supports no TLS version or cipher suite that the crawler supports".into()
        }
        rustls::Error::AlertReceived(alert) => {
            format!("the server rejected the TLS handshake with the alert {alert:?}")
        }
        error => error.to_string(),
    }
}

fn describe_certificate_error(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate has expired".into()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet".into()
        }
        CertificateError::Revoked => "the certificate was revoked".into(),
        CertificateError::NotValidForName => "the certificate is for another name".into(),
        // The names are in debug format: `DnsName("example.org")`.
        CertificateError::NotValidForNameContext { presented, .. } => {
            match presented.iter().find_map(|name| name.split('"').nth(1)) {
                Some(name) => format!("the certificate is for another name, {}", excerpt(name)),
                None => "the certificate is for another name".into(),
            }
        }
        CertificateError::UnknownIssuer => {
            "the issuer of the certificate is unknown, or the certificate is self-signed".into()
        }
        // The verifier has no variant for a self-signed certificate that is its own authority.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "the certificate is self-signed".into()
        }
        error => format!("the certificate is not valid: {error}"),
    }
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
