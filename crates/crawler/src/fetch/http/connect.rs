//! Opens connections: resolves the name, rejects non-public addresses, connects, negotiates TLS.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, InvalidMessage, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::address::non_public_kind;
use super::headers::excerpt;
use crate::config::FetchConfig;
use crate::origin::Origin;
use crate::outcome::Outcome;

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

/// Opens connections with one crawl's configuration.
pub struct Connector {
    config: Arc<FetchConfig>,
    /// The seeds' origins, which may have non-public addresses.
    trusted_origins: Vec<Origin>,
    dns_cache: Mutex<HashMap<String, (Instant, Vec<IpAddr>)>>,
    /// Created for the first https URL, because loading the root certificates takes time.
    tls: OnceLock<TlsConnector>,
}

impl Connector {
    /// A connector that rejects non-public addresses except for the `trusted_origins`.
    pub fn new(config: Arc<FetchConfig>, trusted_origins: Vec<Origin>) -> Connector {
        Connector { config, trusted_origins, dns_cache: Mutex::default(), tls: OnceLock::new() }
    }

    /// Connects to an origin within the connect timeout. If the process or system has too many open files, calls
    /// `free_files` to close some and tries once more, because that failure is not the origin's.
    pub async fn connect(&self, origin: &Origin, free_files: impl Fn()) -> Result<Transport, Outcome> {
        let limit = self.config.connect_timeout;
        let connecting = timeout(limit, async {
            let addresses = self.permitted_addresses(origin, &free_files).await?;
            let stream = connect_tcp(&addresses, limit, &free_files).await?;
            if origin.https { self.start_tls(stream, origin).await } else { Ok(Transport::Plain(stream)) }
        });
        connecting.await.unwrap_or(Err(Outcome::Timeout { doing: "connecting", limit }))
    }

    /// The addresses of a host that may be connected to. The check applies to the very addresses that are connected to,
    /// literal ones included, so that no name and no redirect can bypass it.
    async fn permitted_addresses(
        &self,
        origin: &Origin,
        free_files: &impl Fn(),
    ) -> Result<Vec<SocketAddr>, Outcome> {
        let addresses = self.resolve(&origin.host, free_files).await?;
        let is_trusted = self.config.allow_private || self.trusted_origins.contains(origin);
        let permitted: Vec<SocketAddr> = addresses
            .iter()
            .filter(|address| is_trusted || non_public_kind(**address).is_none())
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

    async fn resolve(&self, host: &str, free_files: &impl Fn()) -> Result<Vec<IpAddr>, Outcome> {
        if let Some(dns_override) = self.config.dns_overrides.iter().find(|entry| entry.matches(host)) {
            return Ok(vec![dns_override.address]);
        }
        if let Ok(literal) = host.trim_start_matches('[').trim_end_matches(']').parse() {
            return Ok(vec![literal]);
        }
        let now = Instant::now();
        if let Some((until, addresses)) =
            self.dns_cache.lock().unwrap_or_else(PoisonError::into_inner).get(host)
            && now < *until
        {
            return Ok(addresses.clone());
        }
        let lookup = retry_after_freeing_files(free_files, || async {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect::<Vec<IpAddr>>())
        });
        let addresses = lookup.await.map_err(|error| dns_failure(&error))?;
        let mut dns_cache = self.dns_cache.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Tries the addresses in order, each with an equal share of the remaining time.
async fn connect_tcp(
    addresses: &[SocketAddr],
    limit: Duration,
    free_files: &impl Fn(),
) -> Result<TcpStream, Outcome> {
    let deadline = Instant::now() + limit;
    let mut failure = Outcome::Timeout { doing: "connecting", limit };
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
    let mut tls = tls_client_config(&config.extra_roots);
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
