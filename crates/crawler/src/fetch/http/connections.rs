//! Keeps connections alive between requests; only it knows which protocol an origin speaks.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::connect::{Connector, Stream};
use crate::origin::Origin;
use crate::outcome::Outcome;

/// All headers of a response together; browsers stop at 256 KB, honest servers long before.
const MAX_HEADER_BYTES: usize = 128 * 1024;

/// Single headers of a response.
const MAX_HEADERS: usize = 256;

/// How much of a body may be on its way over HTTP/2 before it is asked for.
const HTTP2_WINDOW_BYTES: u32 = 256 * 1024;

/// How long an idle connection is of use where the room is needed: servers close theirs after that, too.
const IDLE_TIME: Duration = Duration::from_secs(15);

/// How often it is looked for those that are of no use any more.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How many origins are remembered for how they are connected to. To forget one costs a handshake.
const MAX_REMEMBERED: usize = 20_000;

/// A connection on loan for one request.
pub struct Connection {
    sender: Sender,
    /// Whether it has carried a request before: if so, the server may have closed it without our knowing.
    pub reused: bool,
    driver: Arc<Driver>,
}

enum Sender {
    Http1(http1::SendRequest<Empty<Bytes>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

/// The task that moves the bytes; it ends with its connection, whatever the server does.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The connections of every origin.
pub struct ConnectionPool {
    connector: Connector,
    /// The most idle ones, of both protocols together.
    max_idle: usize,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    http1: HashMap<Origin, Vec<(Connection, Instant)>>,
    http1_count: usize,
    looked: Option<Instant>,
    http2: HashMap<Origin, (http2::SendRequest<Empty<Bytes>>, Arc<Driver>)>,
    /// https origins that did not choose HTTP/2.
    only_http1: HashSet<Origin>,
    /// Held while an https origin is connected to that may choose HTTP/2: those who wait share the one
    /// connection if it does.
    connecting: HashMap<Origin, Arc<tokio::sync::Mutex<()>>>,
}

impl ConnectionPool {
    /// No connections yet.
    pub fn new(connector: Connector, max_idle: usize) -> ConnectionPool {
        ConnectionPool { connector, max_idle, idle: Mutex::default() }
    }

    /// A connection to the origin: a kept one if there is one.
    pub async fn acquire(&self, origin: &Origin) -> Result<Connection, Outcome> {
        if let Some(kept) = self.kept(origin).await {
            return Ok(kept);
        }
        if !self.may_share(origin) {
            return self.open(origin).await;
        }
        let connecting = self.idle().connecting(origin);
        let first = connecting.lock().await;
        if let Some(shared) = self.idle().shared(origin) {
            return Ok(shared);
        }
        if !self.may_share(origin) {
            // It has chosen HTTP/1.1 meanwhile: from now on connections are opened side by side.
            drop(first);
        }
        self.open(origin).await
    }

    fn may_share(&self, origin: &Origin) -> bool {
        origin.https && !self.idle().only_http1.contains(origin)
    }

    /// Keeps a connection whose response was read to its end.
    pub fn release(&self, origin: &Origin, mut connection: Connection) {
        let mut idle = self.idle();
        let Sender::Http1(sender) = &connection.sender else {
            // It is kept already. Where it was one too many, it was so only while somebody was at work on it.
            let is_last_user = Arc::strong_count(&connection.driver) == 2;
            if idle.count() > self.max_idle && is_last_user {
                idle.stop_sharing(origin, &connection);
            }
            return;
        };
        if sender.is_closed() {
            return;
        }
        connection.reused = true;
        if idle.count() >= self.max_idle {
            // Hosts take turns: whichever were dropped to make room would be those that are asked next. But what is of
            // no use any more is only in the way.
            idle.drop_useless();
            if idle.count() >= self.max_idle {
                return;
            }
        }
        idle.http1_count += 1;
        match idle.http1.get_mut(origin) {
            Some(kept) => kept.push((connection, Instant::now())),
            None => drop(idle.http1.insert(origin.clone(), vec![(connection, Instant::now())])),
        }
    }

    /// Forgets the kept connections of an origin: one was stale, so the others may be.
    pub fn evict(&self, origin: &Origin) {
        let mut idle = self.idle();
        let forgotten = idle.http1.remove(origin).map_or(0, |kept| kept.len());
        idle.http1_count -= forgotten;
        idle.http2.remove(origin);
    }

    /// Shares the HTTP/2 connection of an origin no longer; those who have it keep it.
    pub fn forget_shared(&self, origin: &Origin) {
        self.idle().http2.remove(origin);
    }

    /// Shares this one connection no longer, whatever others there are by now.
    pub fn stop_sharing(&self, origin: &Origin, connection: &Connection) {
        self.idle().stop_sharing(origin, connection);
    }

    /// Closes whatever nobody is at work on.
    fn drop_idle(&self) {
        let mut idle = self.idle();
        idle.http1.clear();
        idle.http1_count = 0;
        idle.drop_unshared();
    }

    async fn kept(&self, origin: &Origin) -> Option<Connection> {
        loop {
            let mut connection = {
                let mut idle = self.idle();
                if let Some(shared) = idle.shared(origin) {
                    return Some(shared);
                }
                idle.http1(origin)?
            };
            if let Sender::Http1(sender) = &mut connection.sender
                && sender.ready().await.is_ok()
            {
                return Some(connection);
            }
        }
    }

    async fn open(&self, origin: &Origin) -> Result<Connection, Outcome> {
        match self.connector.connect(origin, || self.drop_idle()).await? {
            Stream::Plain(stream) => http1_over(stream).await,
            Stream::Secure(stream) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
                let (sender, driver) = http2_over(*stream).await?;
                let driver = Arc::new(driver);
                self.share(origin, sender.clone(), Arc::clone(&driver));
                Ok(Connection { sender: Sender::Http2(sender), reused: false, driver })
            }
            Stream::Secure(stream) => {
                self.idle().note_only_http1(origin);
                http1_over(*stream).await
            }
        }
    }

    fn share(&self, origin: &Origin, sender: http2::SendRequest<Empty<Bytes>>, driver: Arc<Driver>) {
        let mut idle = self.idle();
        if idle.count() >= self.max_idle {
            idle.drop_useless();
        }
        if idle.count() >= self.max_idle {
            idle.drop_unshared();
        }
        if idle.count() >= self.max_idle {
            // Many may share this one; of the others each serves only one at a time.
            idle.drop_any_http1();
        }
        idle.http2.insert(origin.clone(), (sender, driver));
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Idle {
    /// How many there are, those included that are shared by requests in flight.
    fn count(&self) -> usize {
        self.http1_count + self.http2.len()
    }

    /// Takes the HTTP/1.1 connection to the origin that was used last. Nothing stays behind of an origin without any:
    /// a crawl meets millions.
    fn http1(&mut self, origin: &Origin) -> Option<Connection> {
        let kept = self.http1.get_mut(origin)?;
        let last = kept.pop();
        if kept.is_empty() {
            self.http1.remove(origin);
        }
        let (connection, _) = last?;
        self.http1_count -= 1;
        Some(connection)
    }

    fn drop_any_http1(&mut self) {
        if let Some(origin) = self.http1.keys().next().cloned() {
            drop(self.http1(&origin));
        }
    }

    fn stop_sharing(&mut self, origin: &Origin, connection: &Connection) {
        if self.http2.get(origin).is_some_and(|(_, driver)| Arc::ptr_eq(driver, &connection.driver)) {
            self.http2.remove(origin);
        }
    }

    /// Drops the HTTP/1.1 connections that are closed, or have been idle for long.
    fn drop_useless(&mut self) {
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now - looked < LOOK_EVERY) {
            return;
        }
        self.looked = Some(now);
        self.http1.retain(|_, kept| {
            kept.retain(|(connection, since)| {
                let closed = matches!(&connection.sender, Sender::Http1(sender) if sender.is_closed());
                !closed && now - *since < IDLE_TIME
            });
            !kept.is_empty()
        });
        self.http1_count = self.http1.values().map(Vec::len).sum();
    }

    /// Drops the HTTP/2 connections that nobody is at work on: those are held in here alone.
    fn drop_unshared(&mut self) {
        self.http2.retain(|_, (sender, driver)| !sender.is_closed() && Arc::strong_count(driver) > 1);
    }

    fn note_only_http1(&mut self, origin: &Origin) {
        if self.only_http1.len() >= MAX_REMEMBERED {
            self.only_http1.clear();
        }
        self.only_http1.insert(origin.clone());
    }

    /// What is held while the origin is being connected to.
    fn connecting(&mut self, origin: &Origin) -> Arc<tokio::sync::Mutex<()>> {
        if self.connecting.len() >= MAX_REMEMBERED {
            self.connecting.retain(|_, held| Arc::strong_count(held) > 1);
        }
        Arc::clone(self.connecting.entry(origin.clone()).or_default())
    }

    /// The HTTP/2 connection to the origin, which any number of requests share.
    fn shared(&mut self, origin: &Origin) -> Option<Connection> {
        let (sender, driver) = self.http2.get(origin)?;
        if sender.is_closed() {
            self.http2.remove(origin);
            return None;
        }
        let (sender, driver) = (Sender::Http2(sender.clone()), Arc::clone(driver));
        Some(Connection { sender, reused: true, driver })
    }
}

impl Connection {
    /// Whether requests on it are written with their whole URL, as HTTP/2 does.
    pub fn is_http2(&self) -> bool {
        matches!(self.sender, Sender::Http2(_))
    }

    /// Sends one request and waits for the head of its response.
    pub async fn send(&mut self, mut request: Request<Empty<Bytes>>) -> hyper::Result<Response<Incoming>> {
        match &mut self.sender {
            Sender::Http1(sender) => {
                hyper::ext::on_informational(&mut request, |_| count_as_work());
                sender.send_request(request).await
            }
            Sender::Http2(sender) => sender.send_request(request).await,
        }
    }
}

/// The HTTP library reads on past 1xx answers without letting anybody else run, be it for seconds. When each of them
/// counts as a step of work, the runtime interrupts a flood of them, and the timeouts are kept.
fn count_as_work() {
    let mut nobody = Context::from_waker(Waker::noop());
    if let Poll::Ready(step) = tokio::task::coop::poll_proceed(&mut nobody) {
        step.made_progress();
    }
}

async fn http1_over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Connection, Outcome> {
    let handshake = http1::Builder::new()
        .max_buf_size(MAX_HEADER_BYTES)
        .max_headers(MAX_HEADERS)
        // Lenient where browsers are.
        .allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .ignore_invalid_headers_in_responses(true)
        .handshake(TokioIo::new(stream))
        .await;
    let (sender, connection) = handshake.map_err(|error| super::failure(&error, false))?;
    let driver = Driver(tokio::spawn(connection).abort_handle());
    Ok(Connection { sender: Sender::Http1(sender), reused: false, driver: Arc::new(driver) })
}

async fn http2_over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<(http2::SendRequest<Empty<Bytes>>, Driver), Outcome> {
    let handshake = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_header_list_size(MAX_HEADER_BYTES as u32)
        .initial_stream_window_size(HTTP2_WINDOW_BYTES)
        .initial_connection_window_size(4 * HTTP2_WINDOW_BYTES)
        .handshake(TokioIo::new(stream))
        .await;
    let (sender, connection) = handshake.map_err(|error| super::failure(&error, false))?;
    Ok((sender, Driver(tokio::spawn(connection).abort_handle())))
}
