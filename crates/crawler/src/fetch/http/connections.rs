//! Pools keep-alive connections. Only this file knows whether an origin speaks HTTP/1.1 or HTTP/2.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn::{http1, http2};
use hyper::header::HeaderValue;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::connect::{Connected, Connector, PinKinds, Transport};
use super::heads::{self, HeadTee, Heads};
use super::read_allowance::{LimitedTransport, ReadAllowance, ResponseBody};
use crate::exchange::Protocol;
use crate::keyed_map::KeyedMap;
use crate::origin::Origin;
use crate::outcome::Outcome;
use crate::proxy::ProxyServer;
use crate::seed_list::SeedIndex;
use crate::statistics::Recorder;

/// Maximum size of all headers of a response. Browsers allow 256 KB; ordinary servers send far less.
pub(super) const MAX_HEADER_BYTES: usize = 128 * 1024;

/// Maximum number of headers in a response.
const MAX_HEADERS: usize = 256;

/// HTTP/2 flow-control window of a stream: how much of a body may arrive before it is read.
const HTTP2_WINDOW_BYTES: u32 = 256 * 1024;

/// Idle time after which a connection is dropped if the pool is full. Servers close theirs after about as long.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// Minimum time between two searches of a full pool for closed and idle connections.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(1);

/// How many origins the pool remembers the protocol of. Forgetting one costs a handshake.
const MAX_REMEMBERED_ORIGINS: usize = 20_000;

/// How many origins without idle connections the pool keeps an entry of, in addition to one per idle connection.
const MAX_EMPTY_ENTRIES: usize = 1_000;

/// A connection acquired from the pool for one request.
pub struct Connection {
    sender: Sender,
    /// Whether it has carried a request before. If so, the server may have closed it unnoticed.
    pub reused: bool,
    /// Whether its last response was a 304. Some servers send a body with it, which is read as the next response.
    pub follows_not_modified: bool,
    /// The address of the server, unless it is behind a proxy.
    pub address: Option<IpAddr>,
    /// The proxy that forwards the requests, if they are sent to one.
    pub forwarding_proxy: Option<Arc<ProxyServer>>,
    driver: Arc<Driver>,
    allowance: ReadAllowance,
    /// A copy of the heads, if the connection speaks HTTP/1 and its requests may be archived.
    tee: Option<HeadTee>,
}

enum Sender {
    /// With the value of the Host header.
    Http1(http1::SendRequest<Empty<Bytes>>, HeaderValue),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

/// The task that drives a connection. Dropping the last handle aborts it, whatever the server does.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An HTTP/2 connection, shared by any number of requests.
#[derive(Clone)]
struct Http2Connection {
    sender: http2::SendRequest<Empty<Bytes>>,
    address: Option<IpAddr>,
    driver: Arc<Driver>,
    allowance: ReadAllowance,
}

impl Http2Connection {
    /// The connection for one request.
    fn to_connection(&self, reused: bool) -> Connection {
        let Http2Connection { sender, address, driver, allowance } = self.clone();
        Connection {
            sender: Sender::Http2(sender),
            reused,
            follows_not_modified: false,
            address,
            forwarding_proxy: None,
            driver,
            allowance,
            tee: None,
        }
    }
}

/// The pooled connections of all origins.
pub struct ConnectionPool {
    connector: Connector,
    /// Maximum number of pooled connections, HTTP/1.1 and HTTP/2 together.
    max_idle: usize,
    state: Mutex<ConnectionPoolState>,
}

#[derive(Default)]
struct ConnectionPoolState {
    /// Idle connections with the time since which they are idle.
    http1: KeyedMap<Origin, Vec<(Connection, Instant)>>,
    http1_count: usize,
    last_cleanup: Option<Instant>,
    /// One connection per origin, shared by its requests.
    http2: KeyedMap<Origin, Http2Connection>,
    /// https origins that did not negotiate HTTP/2.
    http1_only: HashSet<Origin>,
    /// Locked while the first connection to an https origin is opened. If it negotiates HTTP/2, the waiting requests
    /// share it.
    connecting: HashMap<Origin, Arc<tokio::sync::Mutex<()>>>,
}

impl ConnectionPool {
    /// An empty pool.
    pub fn new(connector: Connector, max_idle: usize) -> ConnectionPool {
        ConnectionPool { connector, max_idle, state: Mutex::default() }
    }

    /// Changes the listed seeds, whose origins may have non-public addresses.
    pub fn set_seed_index(&self, index: Option<Arc<SeedIndex>>) {
        self.connector.set_seed_index(index);
    }

    /// Whether an origin may have non-public addresses.
    pub fn is_trusted(&self, origin: &Origin) -> bool {
        self.connector.is_trusted(origin)
    }

    /// Shares the kinds of address that trusted hosts have with other processes.
    pub fn with_pin(self, pin: PinKinds) -> ConnectionPool {
        ConnectionPool { connector: self.connector.with_pin(pin), ..self }
    }

    /// Records how long connecting takes in this recorder.
    pub fn with_recorder(self, recorder: Recorder) -> ConnectionPool {
        ConnectionPool { connector: self.connector.with_recorder(recorder), ..self }
    }

    /// Returns a connection to the origin, a pooled one if there is one. The future that opens one is large, so it is boxed.
    pub async fn acquire(&self, origin: &Origin) -> Result<Connection, Outcome> {
        if let Some(connection) = self.pooled(origin).await {
            return Ok(connection);
        }
        if !self.may_use_http2(origin) {
            return Box::pin(self.open(origin)).await;
        }
        let connecting = self.state().connecting(origin);
        let guard = connecting.lock().await;
        if let Some(shared) = self.state().shared_http2(origin) {
            return Ok(shared);
        }
        if !self.may_use_http2(origin) {
            // Another request found that the origin speaks HTTP/1.1, so connections can be opened concurrently.
            drop(guard);
        }
        Box::pin(self.open(origin)).await
    }

    fn may_use_http2(&self, origin: &Origin) -> bool {
        !self.connector.config().http1_only && origin.https && !self.state().http1_only.contains(origin)
    }

    /// Returns a connection to the pool after its response was read to its end.
    pub fn release(&self, origin: &Origin, mut connection: Connection) {
        let mut state = self.state();
        let Sender::Http1(sender, _) = &connection.sender else {
            // It is in the pool already, which it may have exceeded only while requests used it. One reference is the
            // pool's, one is this connection's.
            let is_last_user = Arc::strong_count(&connection.driver) == 2;
            if state.count() > self.max_idle && is_last_user {
                state.evict_connection(origin, &connection);
            }
            return;
        };
        if sender.is_closed() {
            return;
        }
        connection.reused = true;
        if state.count() >= self.max_idle {
            // A live connection is not dropped for this one: hosts are fetched in rotation, so the least recently used
            // connection is the one needed next.
            state.drop_closed_and_idle();
            if state.count() >= self.max_idle {
                return;
            }
        }
        state.add_http1(origin, connection);
    }

    /// Drops all pooled connections of an origin: one was stale, so the others may be.
    pub fn evict(&self, origin: &Origin) {
        let mut state = self.state();
        let dropped = state.http1.remove(origin).map_or(0, |connections| connections.len());
        state.http1_count -= dropped;
        state.http2.remove(origin);
    }

    /// Stops sharing the HTTP/2 connection of an origin. Requests in flight keep it.
    pub fn evict_http2(&self, origin: &Origin) {
        self.state().http2.remove(origin);
    }

    /// Stops sharing this HTTP/2 connection, unless the pool has replaced it.
    pub fn evict_connection(&self, origin: &Origin, connection: &Connection) {
        self.state().evict_connection(origin, connection);
    }

    /// Closes all connections that no request uses.
    fn drop_idle(&self) {
        let mut state = self.state();
        state.http1.clear();
        state.http1_count = 0;
        state.drop_unused_http2();
    }

    async fn pooled(&self, origin: &Origin) -> Option<Connection> {
        loop {
            let mut connection = {
                let mut state = self.state();
                if let Some(shared) = state.shared_http2(origin) {
                    return Some(shared);
                }
                state.take_http1(origin)?
            };
            if let Sender::Http1(sender, _) = &mut connection.sender
                && sender.ready().await.is_ok()
            {
                return Some(connection);
            }
        }
    }

    /// Whether a new connection can be opened.
    pub async fn can_connect(&self, origin: &Origin) -> bool {
        let connected = self.connector.connect(origin, || self.drop_idle()).await;
        // A proxy that refuses the origin can be reached, too.
        matches!(
            connected,
            Ok(_) | Err(Outcome::TlsFailed { .. } | Outcome::ProxyFailed { is_temporary: false, .. })
        )
    }

    /// The proxy that the requests to an origin go through.
    pub fn proxy_for(&self, origin: &Origin) -> Option<&Arc<ProxyServer>> {
        self.connector.proxy_for(origin)
    }

    async fn open(&self, origin: &Origin) -> Result<Connection, Outcome> {
        let Connected { transport, address, proxy } =
            self.connector.connect(origin, || self.drop_idle()).await?;
        let tee = || self.connector.config().archive.as_ref().map(|_| HeadTee::default());
        match transport {
            Transport::Plain(stream) => {
                let connection = http1_over(stream, origin, address, tee()).await?;
                Ok(Connection {
                    forwarding_proxy: proxy.filter(|proxy| proxy.forwards(origin)),
                    ..connection
                })
            }
            Transport::Tls(stream) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
                let shared = http2_over(*stream, address).await?;
                let connection = shared.to_connection(false);
                self.share(origin, shared);
                Ok(connection)
            }
            Transport::Tls(stream) => {
                self.state().remember_http1_only(origin);
                http1_over(*stream, origin, address, tee()).await
            }
        }
    }

    fn share(&self, origin: &Origin, shared: Http2Connection) {
        let mut state = self.state();
        if state.count() >= self.max_idle {
            state.drop_closed_and_idle();
        }
        if state.count() >= self.max_idle {
            state.drop_unused_http2();
        }
        if state.count() >= self.max_idle {
            // Many requests can share this connection; an HTTP/1.1 connection serves one at a time.
            state.drop_any_http1();
        }
        state.http2.insert(origin.clone(), shared);
    }

    fn state(&self) -> MutexGuard<'_, ConnectionPoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionPoolState {
    /// Number of pooled connections, including HTTP/2 connections in use.
    fn count(&self) -> usize {
        self.http1_count + self.http2.len()
    }

    /// Takes the most recently used HTTP/1.1 connection to the origin. Its entry stays: most connections come back.
    fn take_http1(&mut self, origin: &Origin) -> Option<Connection> {
        let (connection, _) = self.http1.get_mut(origin)?.pop()?;
        self.http1_count -= 1;
        Some(connection)
    }

    /// Adds an idle HTTP/1.1 connection. A crawl may see millions of origins, so empty entries are removed when they are
    /// many.
    fn add_http1(&mut self, origin: &Origin, connection: Connection) {
        self.http1_count += 1;
        let idle = (connection, Instant::now());
        if let Some(connections) = self.http1.get_mut(origin) {
            return connections.push(idle);
        }
        if self.http1.len() >= 2 * self.http1_count + MAX_EMPTY_ENTRIES {
            self.http1.retain(|_, connections| !connections.is_empty());
        }
        self.http1.insert(origin.clone(), vec![idle]);
    }

    fn drop_any_http1(&mut self) {
        if let Some(connections) = self.http1.values_mut().find(|connections| !connections.is_empty()) {
            connections.pop();
            self.http1_count -= 1;
        }
    }

    fn evict_connection(&mut self, origin: &Origin, connection: &Connection) {
        if self.http2.get(origin).is_some_and(|shared| Arc::ptr_eq(&shared.driver, &connection.driver)) {
            self.http2.remove(origin);
        }
    }

    /// Drops the HTTP/1.1 connections that are closed or idle for long.
    fn drop_closed_and_idle(&mut self) {
        let now = Instant::now();
        if self.last_cleanup.is_some_and(|last| now - last < CLEANUP_INTERVAL) {
            return;
        }
        self.last_cleanup = Some(now);
        self.http1.retain(|_, connections| {
            connections.retain(|(connection, since)| {
                let closed = matches!(&connection.sender, Sender::Http1(sender, _) if sender.is_closed());
                !closed && now - *since < IDLE_TIMEOUT
            });
            !connections.is_empty()
        });
        self.http1_count = self.http1.values().map(Vec::len).sum();
    }

    /// Drops the HTTP/2 connections that no request uses, which only the pool refers to.
    fn drop_unused_http2(&mut self) {
        let is_used =
            |shared: &Http2Connection| !shared.sender.is_closed() && Arc::strong_count(&shared.driver) > 1;
        self.http2.retain(|_, shared| is_used(shared));
    }

    fn remember_http1_only(&mut self, origin: &Origin) {
        if self.http1_only.len() >= MAX_REMEMBERED_ORIGINS {
            self.http1_only.clear();
        }
        self.http1_only.insert(origin.clone());
    }

    /// The lock for opening the first connection to an origin.
    fn connecting(&mut self, origin: &Origin) -> Arc<tokio::sync::Mutex<()>> {
        if self.connecting.len() >= MAX_REMEMBERED_ORIGINS {
            self.connecting.retain(|_, lock| Arc::strong_count(lock) > 1);
        }
        Arc::clone(self.connecting.entry(origin.clone()).or_default())
    }

    /// The HTTP/2 connection to the origin, shared by any number of requests.
    fn shared_http2(&mut self, origin: &Origin) -> Option<Connection> {
        let shared = self.http2.get(origin)?;
        if shared.sender.is_closed() {
            self.http2.remove(origin);
            return None;
        }
        Some(shared.to_connection(true))
    }
}

impl Connection {
    /// The Host header of requests over HTTP/1.1. `None` for an HTTP/2 connection, on which requests carry their
    /// complete URL.
    pub fn host_header(&self) -> Option<&HeaderValue> {
        match &self.sender {
            Sender::Http1(_, host) => Some(host),
            Sender::Http2(_) => None,
        }
    }

    /// The protocol.
    pub fn protocol(&self) -> Protocol {
        match &self.sender {
            Sender::Http1(..) => Protocol::Http1,
            Sender::Http2(_) => Protocol::Http2,
        }
    }

    /// Sends one request and waits for the response headers. Also returns the heads of both if they are wanted.
    pub async fn send(
        &mut self,
        request: Request<Empty<Bytes>>,
        wants_heads: bool,
    ) -> Result<(Response<ResponseBody>, Option<Heads>), hyper::Error> {
        let (response, heads) = match &mut self.sender {
            Sender::Http1(sender, _) => {
                let tee = self.tee.as_ref().filter(|_| wants_heads);
                tee.inspect(|tee| tee.start());
                let response = sender.send_request(request).await?;
                (response, tee.and_then(HeadTee::take))
            }
            Sender::Http2(sender) => {
                let sent = wants_heads.then(|| (SystemTime::now(), heads::request_head(&request)));
                let response = sender.send_request(request).await?;
                let heads = sent.map(|(requested, request)| {
                    let response = heads::response_head(&response);
                    Heads { requested, request, response }
                });
                (response, heads)
            }
        };
        self.allowance.add_response();
        Ok((response.map(|body| ResponseBody::new(body, self.allowance.clone())), heads))
    }
}

async fn http1_over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    origin: &Origin,
    address: Option<IpAddr>,
    tee: Option<HeadTee>,
) -> Result<Connection, Outcome> {
    let host = HeaderValue::try_from(origin.authority())
        .map_err(|_| Outcome::InvalidResponse { cause: "the host is not valid in a Host header".into() })?;
    let allowance = ReadAllowance::new();
    let stream = LimitedTransport::new(stream, allowance.clone()).with_tee(tee.clone());
    let handshake = http1::Builder::new()
        .max_buf_size(MAX_HEADER_BYTES)
        .max_headers(MAX_HEADERS)
        // As lenient as browsers.
        .allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .ignore_invalid_headers_in_responses(true)
        .handshake(TokioIo::new(stream))
        .await;
    let (sender, connection) = handshake.map_err(|error| super::http_failure(&error, false))?;
    let driver = Driver(tokio::spawn(connection).abort_handle());
    let sender = Sender::Http1(sender, host);
    let (driver, forwarding_proxy) = (Arc::new(driver), None);
    let (reused, follows_not_modified) = (false, false);
    Ok(Connection { sender, reused, follows_not_modified, address, forwarding_proxy, driver, allowance, tee })
}

async fn http2_over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    address: Option<IpAddr>,
) -> Result<Http2Connection, Outcome> {
    let allowance = ReadAllowance::new();
    let stream = LimitedTransport::new(stream, allowance.clone());
    let handshake = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_header_list_size(MAX_HEADER_BYTES as u32)
        .initial_stream_window_size(HTTP2_WINDOW_BYTES)
        .initial_connection_window_size(4 * HTTP2_WINDOW_BYTES)
        .handshake(TokioIo::new(stream))
        .await;
    let (sender, connection) = handshake.map_err(|error| super::http_failure(&error, false))?;
    let driver = Arc::new(Driver(tokio::spawn(connection).abort_handle()));
    Ok(Http2Connection { sender, address, driver, allowance })
}
