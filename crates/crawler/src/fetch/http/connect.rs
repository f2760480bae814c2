//! Opens connections: finds the address, refuses the special ones, connects, secures.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::address::special;
use crate::config::FetchConfig;
use crate::origin::Origin;
use crate::outcome::Outcome;

/// How long an answer of the resolver is used; short, as the operating system caches too.
const DNS_TTL: Duration = Duration::from_secs(60);

/// How many answers are remembered; beyond that the old ones are forgotten.
const DNS_CACHE_NAMES: usize = 10_000;

/// How long connections that were given up take at most to be closed.
const CLOSING: Duration = Duration::from_millis(50);

/// A connection as it comes out of the wall.
pub enum Stream {
    /// http.
    Plain(TcpStream),
    /// https.
    Secure(Box<TlsStream<TcpStream>>),
}

/// Opens connections by the rules of one crawl.
pub struct Connector {
    config: Arc<FetchConfig>,
    /// The seeds' own origins, which may be anywhere.
    homes: Vec<Origin>,
    names: Mutex<HashMap<String, (Instant, Vec<IpAddr>)>>,
    /// Made when the first https URL is met: the roots take a moment to read.
    tls: OnceLock<TlsConnector>,
}

impl Connector {
    /// A connector that lets only the `homes` be at special addresses.
    pub fn new(config: Arc<FetchConfig>, homes: Vec<Origin>) -> Connector {
        Connector { config, homes, names: Mutex::default(), tls: OnceLock::new() }
    }

    /// Connects to an origin, within the connect timeout altogether. Where no more files can be opened, `make_room` is
    /// called to close some, and it is tried once more: that says nothing about the origin.
    pub async fn connect(&self, origin: &Origin, make_room: impl Fn()) -> Result<Stream, Outcome> {
        let limit = self.config.connect_timeout;
        let connecting = timeout(limit, async {
            let addresses = self.permitted_addresses(origin, &make_room).await?;
            let stream = reach(&addresses, limit, &make_room).await?;
            if origin.https { self.secure(stream, origin).await } else { Ok(Stream::Plain(stream)) }
        });
        connecting.await.unwrap_or(Err(Outcome::Timeout { doing: "connecting", limit }))
    }

    /// The addresses of a host that we may connect to. The check is made on the very addresses that are
    /// connected to, literal ones included, so that no name and no redirect gets around it.
    async fn permitted_addresses(
        &self,
        origin: &Origin,
        make_room: &impl Fn(),
    ) -> Result<Vec<SocketAddr>, Outcome> {
        let addresses = self.addresses(&origin.host, make_room).await?;
        let anywhere = self.config.allow_private || self.homes.contains(origin);
        let permitted: Vec<SocketAddr> = addresses
            .iter()
            .filter(|address| anywhere || special(**address).is_none())
            .map(|address| SocketAddr::new(*address, origin.port))
            .collect();
        match addresses.iter().find_map(|address| Some((*address, special(*address)?))) {
            Some((address, kind)) if permitted.is_empty() => Err(Outcome::BlockedAddress { address, kind }),
            _ if permitted.is_empty() => Err(Outcome::DnsFailed { cause: "no address".into() }),
            _ => Ok(permitted),
        }
    }

    async fn addresses(&self, host: &str, make_room: &impl Fn()) -> Result<Vec<IpAddr>, Outcome> {
        if let Some(resolve) = self.config.dns_overrides.iter().find(|resolve| resolve.matches(host)) {
            return Ok(vec![resolve.address]);
        }
        if let Ok(literal) = host.trim_start_matches('[').trim_end_matches(']').parse() {
            return Ok(vec![literal]);
        }
        let now = Instant::now();
        if let Some((until, addresses)) = self.names.lock().unwrap_or_else(PoisonError::into_inner).get(host)
            && now < *until
        {
            return Ok(addresses.clone());
        }
        let looked_up = with_room(make_room, || async {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect::<Vec<IpAddr>>())
        });
        let looked_up = looked_up.await;
        let addresses = looked_up.map_err(|error| Outcome::DnsFailed { cause: error.to_string() })?;
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= DNS_CACHE_NAMES {
            names.clear();
        }
        names.insert(host.to_owned(), (now + DNS_TTL, addresses.clone()));
        Ok(addresses)
    }

    async fn secure(&self, stream: TcpStream, origin: &Origin) -> Result<Stream, Outcome> {
        let host = origin.host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| Outcome::TlsFailed { cause: format!("{host}: {error}") })?;
        let connector = self.tls.get_or_init(|| tls_connector(&self.config));
        match connector.connect(name, stream).await {
            Ok(stream) => Ok(Stream::Secure(Box::new(stream))),
            Err(error) => Err(tls_failure(error)),
        }
    }
}

/// Tries the addresses in turn, each with an equal share of the time that is left.
async fn reach(
    addresses: &[SocketAddr],
    limit: Duration,
    make_room: &impl Fn(),
) -> Result<TcpStream, Outcome> {
    let deadline = Instant::now() + limit;
    let mut failure = Outcome::Timeout { doing: "connecting", limit };
    for (index, address) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let share = left / (addresses.len() - index) as u32;
        match timeout(share, with_room(make_room, || TcpStream::connect(address))).await {
            Ok(Ok(stream)) => {
                // A failure here costs a little latency and nothing else.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => {
                failure = Outcome::ConnectionFailed { cause: format!("{address}: {}", plain(&error)) }
            }
            Err(_) => {}
        }
    }
    Err(failure)
}

/// Does what opens a file, and once more where there was no room for it.
async fn with_room<T, F: Future<Output = io::Result<T>>>(
    make_room: &impl Fn(),
    open: impl Fn() -> F,
) -> io::Result<T> {
    match open().await {
        Err(error) if is_out_of_files(&error) => {
            make_room();
            sleep(CLOSING).await;
            open().await
        }
        opened => opened,
    }
}

/// Whether this process, or the system, has as many files open as it may.
fn is_out_of_files(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

fn tls_connector(config: &FetchConfig) -> TlsConnector {
    let mut tls = trusting(&config.extra_roots);
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsConnector::from(Arc::new(tls))
}

/// TLS that trusts the well-known roots and these.
pub fn trusting(extra_roots: &[CertificateDer<'static>]) -> ClientConfig {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    // Unparsable ones were refused when the file was read.
    roots.add_parsable_certificates(extra_roots.iter().cloned());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring supports the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

fn tls_failure(error: io::Error) -> Outcome {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(cause) => Outcome::TlsFailed { cause: cause.to_string() },
        None => Outcome::ConnectionFailed { cause: format!("during the TLS handshake: {}", plain(&error)) },
    }
}

/// An error of the operating system in plain words, without its number.
pub fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".into(),
        io::ErrorKind::ConnectionReset => "connection reset".into(),
        io::ErrorKind::UnexpectedEof => "connection closed".into(),
        _ => error.to_string(),
    }
}
