//! Sends one HTTP request and reads its response within all limits. HTTP is known only here.

mod address;
mod body;
mod byte_counter;
mod certificate;
pub(crate) mod connect;
mod connections;
pub mod decode;
pub mod headers;
mod heads;
mod read_allowance;
mod recorded_exchange;
mod request_headers;
mod stream;
pub(crate) mod tls;
mod tunnel;
mod validators;

use std::error::Error as _;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Body as _;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode, Uri};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout};
use url::Url;

pub(crate) use self::address::ADDRESS_KINDS;
pub use self::address::{AddressKinds, non_public_kind};
pub use self::body::BodyPolicy;
use self::body::DrainLimits;
pub(crate) use self::body::read_stored;
pub use self::byte_counter::{BodyGrant, ByteBudget, ByteCounter, GrantFuture, RequestProgress};
pub use self::connect::PinKinds;
use self::connect::{Connector, describe_io_error};
use self::connections::{Connection, ConnectionPool};
use self::heads::Heads;
use self::read_allowance::ResponseBody;
use self::request_headers::RequestHeaders;
pub use self::validators::Validators;
use crate::config::FetchConfig;
use crate::error::Error;
use crate::exchange::{ArchiveSettings, Exchange};
use crate::fetch::robots::directives::RobotsDirectives;
use crate::media::{AcceptedTypes, Media};
use crate::origin::{Origin, without_credentials};
use crate::outcome::{Outcome, THE_PROXIED_REQUEST, THE_REQUEST};
use crate::proxy::ProxyServer;
use crate::seed_list::SeedIndex;
use crate::statistics::Recorder;
use crate::stats::RequestCounter;

/// The status of a response to a conditional request, if the page has not changed.
pub(crate) const NOT_MODIFIED: u16 = 304;

/// The share of a request's time in which the body of an archived response without a page is read, so that a slow one does not turn
/// the status of the response into a timeout.
const SHARE_OF_TIME: f64 = 0.9;

/// One HTTP response.
#[derive(Debug)]
pub struct Download {
    /// The HTTP status.
    pub status: u16,
    /// The Content-Type header.
    pub content_type: Option<String>,
    /// The Location header, if the status is a redirect.
    pub redirect: Option<String>,
    /// The time in the Retry-After header.
    pub retry_after: Option<Duration>,
    /// All headers of a successful response, and of one that says that the page has not changed.
    pub headers: HeaderMap,
    /// HTML or text, by Content-Type and first bytes.
    pub media: Media,
    /// The decoded body of a successful response; empty otherwise.
    pub body: Bytes,
    /// Whether the body is only the start of a larger one.
    pub truncated: bool,
    /// Whether the server set cookies that the crawl did not have.
    pub has_new_cookies: bool,
}

impl Download {
    /// A response with this status and these headers, without them and without its body.
    pub(crate) fn of_head(status: u16, headers: &HeaderMap) -> Download {
        let location = headers.get(header::LOCATION).map(|value| headers::location(value.as_bytes()));
        Download {
            status,
            content_type: headers::text(headers, header::CONTENT_TYPE),
            redirect: location.filter(|_| matches!(status, 301 | 302 | 303 | 307 | 308)),
            retry_after: headers::text(headers, header::RETRY_AFTER)
                .and_then(|value| parse_retry_after(&value)),
            headers: HeaderMap::new(),
            media: Media::Text,
            body: Bytes::new(),
            truncated: false,
            has_new_cookies: false,
        }
    }

    /// Whether the status is that of a page or of a redirect; otherwise the outcome of its URL.
    pub(crate) fn check_status(&self) -> Result<(), Outcome> {
        match self.status {
            204 | 205 => Err(Outcome::UnsupportedMedia { what: format!("HTTP {}, no content", self.status) }),
            200..=299 => Ok(()),
            _ if self.redirect.is_some() => Ok(()),
            301 | 302 | 303 | 307 | 308 => {
                Err(Outcome::InvalidResponse { cause: "redirect without a Location header".into() })
            }
            code => Err(Outcome::HttpStatus { code, retry_after: self.retry_after }),
        }
    }

    /// The robots directives in the headers that are for all crawlers, or for the one with this name.
    pub fn robots_directives(&self, product_token: &str) -> RobotsDirectives {
        let mut directives = RobotsDirectives::default();
        for value in self.headers.get_all("x-robots-tag") {
            directives.add_header(&String::from_utf8_lossy(value.as_bytes()), product_token);
        }
        directives
    }
}

/// Sends requests over pooled keep-alive connections.
pub struct Downloader {
    config: Arc<FetchConfig>,
    connections: ConnectionPool,
    headers: RwLock<Arc<RequestHeaders>>,
    requests: RequestCounter,
    accepted: AcceptedTypes,
}

impl Downloader {
    /// A downloader for a crawl of these seeds. The seeds' origins may have non-public addresses, of the kinds that they
    /// have at first. Credentials in a seed are sent to its own origin only.
    pub fn new(config: Arc<FetchConfig>, seeds: &[Url]) -> Result<Downloader, Error> {
        let headers = RwLock::new(Arc::new(RequestHeaders::new(&config, seeds)?));
        let trusted_origins = seeds.iter().map(Origin::from_url).collect();
        let connector = Connector::new(Arc::clone(&config), trusted_origins);
        let connections = ConnectionPool::new(connector, config.max_idle_connections);
        let requests = RequestCounter::default();
        let accepted = config.accepted_types()?;
        Ok(Downloader { config, connections, headers, requests, accepted })
    }

    /// Changes the listed seeds. Requests in flight are not affected.
    pub(super) fn set_seed_index(&self, index: Option<Arc<SeedIndex>>) {
        let headers = RequestHeaders::clone(&self.headers()).with_seed_index(&self.config, index.clone());
        *self.headers.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(headers);
        self.connections.set_seed_index(index);
    }

    /// Whether an origin is that of a seed.
    pub(super) fn is_seed_origin(&self, origin: &Origin) -> bool {
        self.connections.is_trusted(origin)
    }

    fn headers(&self) -> Arc<RequestHeaders> {
        Arc::clone(&self.headers.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Shares the kinds of address that the seeds' hosts have with other processes of the crawl.
    pub fn with_pin(self, pin: PinKinds) -> Downloader {
        Downloader { connections: self.connections.with_pin(pin), ..self }
    }

    /// Counts the requests it sends in this counter.
    pub fn with_request_counter(self, requests: RequestCounter) -> Downloader {
        Downloader { requests, ..self }
    }

    /// Records how long connecting takes in this recorder.
    pub fn with_recorder(self, recorder: Recorder) -> Downloader {
        Downloader { connections: self.connections.with_recorder(recorder), ..self }
    }

    /// Sends a secret in the header `name` (in lower case) to the origin of `url` only. `None` if the secret contains
    /// characters that a header cannot.
    pub fn with_secret(self, url: &Url, name: &'static str, secret: &str) -> Option<Downloader> {
        let mut value = HeaderValue::from_str(secret).ok()?;
        value.set_sensitive(true);
        let headers = RequestHeaders::clone(&self.headers());
        let headers = headers.with_secret(url, HeaderName::from_static(name), value);
        Some(Downloader { headers: RwLock::new(Arc::new(headers)), ..self })
    }

    /// Requests a URL of this origin once. Once there is a connection to write to, `may_start` is called with the address of the server,
    /// and the request is written when it is ready. Its time does not count against the timeout, nor does the time in
    /// which the response waits for bytes. If it fails, nothing is sent. A response with any status is `Ok`; `Err` means that there was no complete
    /// response. `byte_counter` counts the bytes read in either case.
    pub async fn get(
        &self,
        url: &Url,
        origin: &Origin,
        may_start: impl AsyncFnOnce(Option<IpAddr>) -> Result<(), Outcome>,
        body_policy: BodyPolicy,
        byte_counter: &ByteCounter<'_>,
    ) -> Result<Download, Outcome> {
        let (limit, started) = (self.config.timeout, Instant::now());
        let doing = if self.proxy_for(origin).is_some() { THE_PROXIED_REQUEST } else { THE_REQUEST };
        let timed_out = |_| {
            // An unresponsive HTTP/2 connection must not be shared by further requests.
            self.connections.evict_http2(origin);
            Outcome::Timeout { doing, limit }
        };
        let connection = timeout(limit, self.connections.acquire(origin)).await.map_err(timed_out)??;
        let left = limit.saturating_sub(started.elapsed());
        if let Err(outcome) = may_start(connection.address).await {
            self.connections.release(origin, connection);
            return Err(outcome);
        }
        let exchange = self.exchange(url, origin, connection, (body_policy, left), byte_counter);
        timeout_without_waits(left, exchange, byte_counter).await.map_err(timed_out)?
    }

    /// The media types that are kept in addition to HTML and text.
    pub(crate) fn accepted(&self) -> &AcceptedTypes {
        &self.accepted
    }

    /// The settings.
    pub fn config(&self) -> &FetchConfig {
        &self.config
    }

    /// Whether an origin can be connected to. Sends no request.
    pub async fn can_connect(&self, origin: &Origin) -> bool {
        self.connections.can_connect(origin).await
    }

    /// The proxy that the requests to an origin go through.
    pub(crate) fn proxy_for(&self, origin: &Origin) -> Option<&Arc<ProxyServer>> {
        self.connections.proxy_for(origin)
    }

    async fn exchange(
        &self,
        url: &Url,
        origin: &Origin,
        mut connection: Connection,
        (body_policy, time): (BodyPolicy, Duration),
        byte_counter: &ByteCounter<'_>,
    ) -> Result<Download, Outcome> {
        let (started, is_archived) = (Instant::now(), byte_counter.records_exchange());
        let mut request = self.request(url, origin, &connection)?;
        if let BodyPolicy::File(_) = body_policy {
            self.headers().accept_any(&mut request);
        }
        *request.method_mut() = body_policy.method();
        if let Some(validators) = byte_counter.validators() {
            validators.add_to(request.headers_mut());
        }
        self.requests.record();
        byte_counter.set_sent(true);
        let secrets = match &self.config.archive {
            Some(ArchiveSettings { has_secrets: false, .. }) if is_archived => {
                heads::secret_headers(request.headers())
            }
            _ => Vec::new(),
        };
        let (mut response, heads) = match connection.send(request, is_archived).await {
            Ok(response) => response,
            Err(error) => {
                if error.is_canceled() {
                    // The connection was closed before the request was written.
                    self.requests.retract();
                    byte_counter.set_sent(false);
                }
                let failure = match connection.follows_not_modified && error.is_parse() {
                    true => Outcome::StaleConnection,
                    false => http_failure(&error, connection.reused),
                };
                match failure {
                    Outcome::StaleConnection => self.connections.evict(origin),
                    Outcome::RequestNotProcessed => self.connections.evict_connection(origin, &connection),
                    _ => {}
                }
                return Err(match &connection.forwarding_proxy {
                    Some(proxy) => failure_through(proxy, failure),
                    None => failure,
                });
            }
        };
        if let Some(proxy) = &connection.forwarding_proxy {
            if response.status() != StatusCode::PROXY_AUTHENTICATION_REQUIRED {
                proxy.set_accepted();
            } else if !proxy.has_accepted() {
                // The server has not seen the request.
                self.requests.retract();
                byte_counter.set_sent(false);
                return Err(tunnel::credentials_rejected(proxy));
            }
        }
        let mut drain_limits = DrainLimits::default();
        if let Some(heads) = heads {
            let exchange = exchange_of(url, &connection, heads.for_archive(&secrets), response.status());
            byte_counter.start_exchange(exchange, response.body().is_end_stream());
            let time = time.saturating_sub(started.elapsed()).mul_f64(SHARE_OF_TIME);
            drain_limits = DrainLimits { bytes: self.config.max_page_bytes, time };
        }
        let mut has_new_cookies = false;
        if let Some(jar) = &self.config.requests.cookies {
            has_new_cookies = jar.store(url, response.headers());
            // Modules and outputs do not see what a login returned.
            response.headers_mut().remove(header::SET_COOKIE);
        }
        connection.follows_not_modified = response.status() == StatusCode::NOT_MODIFIED;
        let (download, is_complete) =
            read_response(response, (body_policy, &self.accepted), drain_limits, byte_counter).await;
        if is_complete {
            self.connections.release(origin, connection);
        }
        download.map(|download| Download { has_new_cookies, ..download })
    }

    fn request(
        &self,
        url: &Url,
        origin: &Origin,
        connection: &Connection,
    ) -> Result<Request<Empty<Bytes>>, Outcome> {
        let malformed =
            |_| Outcome::InvalidResponse { cause: "the URL is not valid in an HTTP request".into() };
        let host = connection.host_header();
        let proxy = connection.forwarding_proxy.as_deref();
        let target = match host {
            None => url.as_str(),
            Some(_) if proxy.is_some() => &url[..url::Position::AfterQuery],
            Some(_) => &url[url::Position::BeforePath..url::Position::AfterQuery],
        };
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = Uri::try_from(target).map_err(malformed)?;
        let headers = request.headers_mut();
        self.headers().add_to(headers, origin, 2);
        if let Some(host) = host {
            headers.insert(header::HOST, host.clone());
        }
        if let Some(authorization) = proxy.and_then(ProxyServer::authorization) {
            headers.insert(header::PROXY_AUTHORIZATION, authorization);
        }
        if let Some(jar) = &self.config.requests.cookies
            && let Some(cookies) = jar.header(url)
        {
            headers.insert(header::COOKIE, cookies);
        }
        Ok(request)
    }
}

/// An exchange whose response has begun.
fn exchange_of(url: &Url, connection: &Connection, heads: Heads, status: StatusCode) -> Exchange {
    let mut url = without_credentials(url);
    url.set_fragment(None);
    Exchange {
        url: url.into(),
        requested: heads.requested,
        address: connection.address,
        protocol: connection.protocol(),
        request_head: heads.request,
        status: status.as_u16(),
        response_head: heads.response,
        payload: Bytes::new(),
        truncated: None,
        previous_visit: None,
    }
}

/// A timeout of a response, to which the time that the response waits for bytes is added.
async fn timeout_without_waits<T>(
    limit: Duration,
    exchange: impl Future<Output = T>,
    byte_counter: &ByteCounter<'_>,
) -> Result<T, Elapsed> {
    let mut exchange = pin!(exchange);
    let (mut left, mut waited) = (limit, Duration::ZERO);
    loop {
        let result = timeout(left, exchange.as_mut()).await;
        left = byte_counter.waited() - waited;
        if result.is_ok() || left.is_zero() {
            return result;
        }
        waited += left;
    }
}

/// The failure of a request that a proxy forwards, which may be that of the proxy or of the server. So it is temporary, even if
/// the response is invalid.
fn failure_through(proxy: &ProxyServer, failure: Outcome) -> Outcome {
    let named = |cause: String| format!("{cause} (through the proxy {proxy})");
    match failure {
        Outcome::ConnectionFailed { cause } | Outcome::InvalidResponse { cause } => {
            Outcome::ConnectionFailed { cause: named(cause) }
        }
        failure => failure,
    }
}

/// Reads a response as far as the policy allows. Also returns whether it was read to its end, so that the connection
/// can be reused.
async fn read_response(
    response: Response<ResponseBody>,
    (body_policy, accepted): (BodyPolicy, &AcceptedTypes),
    drain_limits: DrainLimits,
    byte_counter: &ByteCounter<'_>,
) -> (Result<Download, Outcome>, bool) {
    let (head, body) = response.into_parts();
    let status = head.status.as_u16();
    let mut download = Download::of_head(status, &head.headers);
    byte_counter.response_started(status, download.content_type.as_deref());
    if status == NOT_MODIFIED {
        download.headers = head.headers;
        return (Ok(download), body::drain(body, body_policy, drain_limits, byte_counter).await);
    }
    if !head.status.is_success() || matches!(status, 204 | 205) {
        return (Ok(download), body::drain(body, body_policy, drain_limits, byte_counter).await);
    }
    let encoding = headers::list(&head.headers, header::CONTENT_ENCODING);
    download.headers = head.headers;
    if body_policy.discards() {
        let limits = DrainLimits::default();
        return (Ok(download), body::drain(body, body_policy, limits, byte_counter).await);
    }
    if let BodyPolicy::Stream(limit) = body_policy {
        return match body::stream(body, encoding.as_deref(), limit, byte_counter).await {
            Ok(is_complete) => (Ok(Download { truncated: !is_complete, ..download }), is_complete),
            Err(failure) => (Err(failure), false),
        };
    }
    let (policy, time) = ((body_policy, accepted), drain_limits.time);
    let (read, is_complete) =
        body::read(&mut download, body, encoding.as_deref(), policy, time, byte_counter).await;
    if read.is_ok() {
        byte_counter.share_body(&download.body);
    }
    (read.map(|()| download), is_complete)
}

/// Parses a Retry-After header: seconds or an HTTP date.
pub(crate) fn parse_retry_after(value: &str) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    Some(until.duration_since(SystemTime::now()).unwrap_or(Duration::ZERO))
}

/// The outcome for an error of the HTTP library.
fn http_failure(error: &hyper::Error, reused: bool) -> Outcome {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(http2) = inner.downcast_ref::<h2::Error>() {
            return http2_failure(http2, reused);
        }
        if let Some(error) = inner.downcast_ref::<io::Error>() {
            return io_failure(error, reused);
        }
        cause = inner.source();
    }
    let connection_lost = error.is_canceled() || error.is_closed() || error.is_incomplete_message();
    match connection_lost {
        true if reused => Outcome::StaleConnection,
        true => Outcome::ConnectionFailed { cause: "closed before the response was complete".into() },
        false => {
            let detail = error.source().map(|source| format!(": {source}")).unwrap_or_default();
            Outcome::InvalidResponse { cause: format!("{error}{detail}") }
        }
    }
}

fn io_failure(error: &io::Error, reused: bool) -> Outcome {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            Outcome::InvalidResponse { cause: error.to_string() }
        }
        _ if reused => Outcome::StaleConnection,
        _ => Outcome::ConnectionFailed { cause: describe_io_error(error) },
    }
}

/// The outcome for an HTTP/2 error. REFUSED_STREAM and a GOAWAY without an error mean that the server did not process
/// the request. Servers send GOAWAY routinely, some after every thousand requests.
fn http2_failure(error: &h2::Error, reused: bool) -> Outcome {
    let reason = error.reason();
    if reason == Some(h2::Reason::REFUSED_STREAM)
        || (error.is_go_away() && error.is_remote() && reason == Some(h2::Reason::NO_ERROR))
    {
        return Outcome::RequestNotProcessed;
    }
    match error.get_io() {
        Some(error) => io_failure(error, reused),
        None if error.is_remote() => {
            Outcome::ConnectionFailed { cause: format!("closed by the server: {error}") }
        }
        None => Outcome::InvalidResponse { cause: error.to_string() },
    }
}

#[cfg(test)]
mod tests;
