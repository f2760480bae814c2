//! Downloads: one request, one answer, every limit kept. The only place that speaks HTTP.

mod address;
pub(crate) mod connect;
mod connections;
pub mod decode;
pub mod headers;

use std::collections::HashSet;
use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, Uri};
use tokio::time::timeout;
use url::Url;

pub use self::address::special;
use self::connect::{Connector, plain};
use self::connections::{Connection, ConnectionPool};
use self::decode::{DecodeError, Decoder};
use crate::config::FetchConfig;
use crate::error::Error;
use crate::media::{self, Declared, Media, SNIFF_BYTES};
use crate::origin::Origin;
use crate::outcome::Outcome;

/// A body that nobody wants is still read up to this size, so that its connection can be kept.
const MAX_DRAIN_BYTES: usize = 64 * 1024;

/// And for this long at most; a new connection costs less than waiting.
const MAX_DRAIN_TIME: Duration = Duration::from_millis(250);

/// What is asked for, which decides what is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyPolicy {
    /// HTML or text, whole, of at most this many decoded bytes.
    Page(usize),
    /// Anything, cut off after this many decoded bytes.
    Start(usize),
}

/// Counts the body bytes of one request: decoded, or as they came where nobody wants them.
#[derive(Debug, Default)]
pub struct ByteCounter(AtomicU64);

impl ByteCounter {
    /// How many there were.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, bytes: usize) {
        self.0.store(bytes as u64, Ordering::Relaxed);
    }
}

/// One answer.
#[derive(Debug)]
pub struct Download {
    /// The HTTP status.
    pub status: u16,
    /// The Content-Type header.
    pub content_type: Option<String>,
    /// The Location header, where the status makes it a redirect.
    pub redirect: Option<String>,
    /// How long the server asks to be left alone.
    pub retry_after: Option<Duration>,
    /// All headers of a successful answer.
    pub headers: HeaderMap,
    /// HTML or text, by header and first bytes.
    pub media: Media,
    /// The decoded body of a successful answer; empty otherwise.
    pub body: Bytes,
}

impl Download {
    /// The headers as text, names in lower case.
    pub fn header_list(&self) -> Vec<(String, String)> {
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        self.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
    }
}

/// Sends requests; connections are kept alive from one to the next.
pub struct Downloader {
    config: Arc<FetchConfig>,
    connections: ConnectionPool,
    headers: HeaderMap,
    /// Headers that prove who we are, by origin: they go nowhere else.
    credentials: Vec<(Origin, HeaderName, HeaderValue)>,
}

impl Downloader {
    /// A downloader for a crawl that starts at these seeds: their own origins may be at special addresses, and
    /// are the only ones to get the credentials that stand in the seeds.
    pub fn new(config: Arc<FetchConfig>, seeds: &[Url]) -> Result<Downloader, Error> {
        let user_agent = HeaderValue::from_str(&config.user_agent).map_err(|_| {
            Error::InvalidSetting(format!(
                "user agent {:?} cannot be sent; use printable ASCII only",
                config.user_agent
            ))
        })?;
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, user_agent);
        headers.insert(
            header::ACCEPT,
            HeaderValue::from_static("text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.5"),
        );
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(decode::ACCEPTED));
        let homes: Vec<Origin> = seeds.iter().map(Origin::from_url).collect();
        let mut credentials: Vec<_> = seeds
            .iter()
            .filter_map(|seed| Some((Origin::from_url(seed), header::AUTHORIZATION, authorization(seed)?)))
            .collect();
        for origin in homes.iter().collect::<HashSet<_>>() {
            let headers = config.headers.iter().cloned();
            credentials.extend(headers.map(|(name, value)| (origin.clone(), name, value)));
        }
        let connector = Connector::new(Arc::clone(&config), homes);
        let connections = ConnectionPool::new(connector, config.max_idle_connections);
        Ok(Downloader { config, connections, headers, credentials })
    }

    /// Sends a secret in a header of this name (in lower case) to the origin of `home`, and to no other. `None` if
    /// the secret cannot stand in a header.
    pub fn with_secret(mut self, home: &Url, name: &'static str, secret: &str) -> Option<Downloader> {
        let name = HeaderName::from_static(name);
        let mut value = HeaderValue::from_str(secret).ok()?;
        value.set_sensitive(true);
        self.credentials.push((Origin::from_url(home), name, value));
        Some(self)
    }

    /// Asks for a URL, once. Any status is an answer; an `Err` is why there is none.
    /// The meter counts what was read, whatever comes of it.
    pub async fn get(&self, url: &Url, want: BodyPolicy, meter: &ByteCounter) -> Result<Download, Outcome> {
        let limit = self.config.timeout;
        let answer = timeout(limit, self.exchange(url, want, meter)).await;
        answer.unwrap_or_else(|_| {
            // A shared connection that answers nobody would otherwise be shared for ever.
            self.connections.forget_shared(&Origin::from_url(url));
            Err(Outcome::Timeout { doing: "the request", limit })
        })
    }

    async fn exchange(&self, url: &Url, want: BodyPolicy, meter: &ByteCounter) -> Result<Download, Outcome> {
        let origin = Origin::from_url(url);
        let mut connection = self.connections.acquire(&origin).await?;
        let request = self.request(url, &origin, &connection)?;
        let response = match connection.send(request).await {
            Ok(response) => response,
            Err(error) => {
                let failure = failure(&error, connection.reused);
                match failure {
                    Outcome::StaleConnection => self.connections.evict(&origin),
                    Outcome::RequestNotProcessed => self.connections.stop_sharing(&origin, &connection),
                    _ => {}
                }
                return Err(failure);
            }
        };
        let (download, whole) = read(response, want, meter).await?;
        if whole {
            self.connections.release(&origin, connection);
        }
        Ok(download)
    }

    fn request(
        &self,
        url: &Url,
        origin: &Origin,
        connection: &Connection,
    ) -> Result<Request<Empty<Bytes>>, Outcome> {
        let malformed =
            |_| Outcome::InvalidResponse { cause: "the URL cannot be written into a request".into() };
        let target = match connection.is_http2() {
            true => url.as_str(),
            false => &url[url::Position::BeforePath..url::Position::AfterQuery],
        };
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = Uri::try_from(target).map_err(malformed)?;
        *request.headers_mut() = self.headers.clone();
        let headers = request.headers_mut();
        if !connection.is_http2() {
            let host = HeaderValue::try_from(origin.authority());
            headers.insert(
                header::HOST,
                host.map_err(|_| Outcome::InvalidResponse { cause: "bad host".into() })?,
            );
        }
        for (_, name, value) in self.credentials.iter().filter(|(home, ..)| home == origin) {
            // Of several seeds' credentials for one origin, the first ones are used.
            headers.entry(name).or_insert_with(|| value.clone());
        }
        Ok(request)
    }
}

/// The Authorization header of a URL with credentials in it.
fn authorization(seed: &Url) -> Option<HeaderValue> {
    if seed.username().is_empty() && seed.password().is_none() {
        return None;
    }
    let decode = |text: &str| percent_encoding::percent_decode_str(text).collect::<Vec<u8>>();
    let pair = [&decode(seed.username())[..], b":", &decode(seed.password().unwrap_or(""))].concat();
    let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
    let mut value = HeaderValue::try_from(format!("Basic {encoded}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Reads as much of a response as is wanted; tells also whether the connection is free for the next request.
async fn read(
    response: Response<Incoming>,
    want: BodyPolicy,
    meter: &ByteCounter,
) -> Result<(Download, bool), Outcome> {
    let (head, body) = response.into_parts();
    let location = head.headers.get(header::LOCATION).map(|value| headers::location(value.as_bytes()));
    let status = head.status.as_u16();
    let mut download = Download {
        status,
        content_type: headers::text(&head.headers, header::CONTENT_TYPE),
        redirect: location.filter(|_| matches!(status, 301 | 302 | 303 | 307 | 308)),
        retry_after: headers::text(&head.headers, header::RETRY_AFTER).and_then(|value| delay_of(&value)),
        headers: HeaderMap::new(),
        media: Media::Text,
        body: Bytes::new(),
    };
    if !head.status.is_success() || matches!(status, 204 | 205) {
        let whole = timeout(MAX_DRAIN_TIME, drain(body, want, meter)).await.unwrap_or(false);
        return Ok((download, whole));
    }
    let encoding = headers::list(&head.headers, header::CONTENT_ENCODING);
    download.headers = head.headers;
    let whole = read_body(&mut download, body, encoding.as_deref(), want, meter).await?;
    Ok((download, whole))
}

async fn read_body(
    download: &mut Download,
    mut body: Incoming,
    encoding: Option<&str>,
    want: BodyPolicy,
    meter: &ByteCounter,
) -> Result<bool, Outcome> {
    let content_type = download.content_type.clone();
    let declared = match want {
        BodyPolicy::Page(_) => media::declared(content_type.as_deref()),
        BodyPolicy::Start(_) => Declared::Page(Media::Text),
    };
    let says = headers::echo(content_type.as_deref().unwrap_or(""));
    if declared == Declared::Other {
        return Err(Outcome::UnsupportedMedia { what: says });
    }
    let binary = || Outcome::UnsupportedMedia {
        what: if says.is_empty() { "binary".into() } else { format!("binary, although it says {says}") },
    };
    let (BodyPolicy::Page(limit) | BodyPolicy::Start(limit)) = want;
    let expected = body.size_hint().exact().unwrap_or(0);
    if encoding.is_none() && expected > limit as u64 && matches!(want, BodyPolicy::Page(_)) {
        return Err(Outcome::TooLarge { limit });
    }
    let mut decoder =
        Decoder::new(encoding, limit, expected as usize).map_err(|unknown| Outcome::InvalidResponse {
            cause: format!("content encoding {:?} was not offered", headers::echo(&unknown)),
        })?;
    let is_page = |start: &[u8]| match want {
        BodyPolicy::Page(_) => media::sniff(declared, content_type.as_deref(), start),
        BodyPolicy::Start(_) => Some(Media::Text),
    };
    let mut sniffed = false;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| failure(&error, false))?.into_data() else { continue };
        let fed = decoder.feed(data);
        meter.set(decoder.so_far().len());
        match fed {
            Ok(()) => {}
            Err(DecodeError::TooLarge) if matches!(want, BodyPolicy::Start(_)) => {
                download.body = decoder.cut();
                return Ok(false);
            }
            Err(broken) => return Err(broken_body(broken, limit)),
        }
        if !sniffed && decoder.so_far().len() >= SNIFF_BYTES {
            sniffed = true;
            is_page(decoder.so_far()).ok_or_else(binary)?;
        }
    }
    download.body = decoder.finish().map_err(|broken| broken_body(broken, limit))?;
    meter.set(download.body.len());
    download.media = is_page(&download.body).ok_or_else(binary)?;
    Ok(true)
}

fn broken_body(broken: DecodeError, limit: usize) -> Outcome {
    match broken {
        DecodeError::TooLarge => Outcome::TooLarge { limit },
        DecodeError::Corrupt(cause) => {
            Outcome::InvalidResponse { cause: format!("body not encoded as it says: {cause}") }
        }
    }
}

/// Reads a body nobody wants, if it is short, and no more of it than was asked for; tells whether it came to its end.
async fn drain(mut body: Incoming, want: BodyPolicy, meter: &ByteCounter) -> bool {
    let (BodyPolicy::Page(limit) | BodyPolicy::Start(limit)) = want;
    let limit = limit.min(MAX_DRAIN_BYTES);
    if body.size_hint().lower() > limit as u64 {
        return false;
    }
    let mut read = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        read += frame.data_ref().map_or(0, Bytes::len);
        meter.set(read.min(limit));
        if read > limit {
            return false;
        }
    }
    true
}

/// A Retry-After header: seconds, or a date.
pub(crate) fn delay_of(value: &str) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    Some(until.duration_since(SystemTime::now()).unwrap_or(Duration::ZERO))
}

/// What an error of the HTTP library means for the URL.
fn failure(error: &hyper::Error, reused: bool) -> Outcome {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(http2) = inner.downcast_ref::<h2::Error>() {
            return http2_failure(http2, reused);
        }
        if let Some(system) = inner.downcast_ref::<io::Error>() {
            return system_failure(system, reused);
        }
        cause = inner.source();
    }
    let broken = error.is_canceled() || error.is_closed() || error.is_incomplete_message();
    match broken {
        true if reused => Outcome::StaleConnection,
        true => Outcome::ConnectionFailed { cause: "closed before the answer was complete".into() },
        false => {
            let detail = error.source().map(|source| format!(": {source}")).unwrap_or_default();
            Outcome::InvalidResponse { cause: format!("{error}{detail}") }
        }
    }
}

fn system_failure(system: &io::Error, reused: bool) -> Outcome {
    match system.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            Outcome::InvalidResponse { cause: system.to_string() }
        }
        _ if reused => Outcome::StaleConnection,
        _ => Outcome::ConnectionFailed { cause: plain(system) },
    }
}

/// HTTP/2 tells whether a request was looked at: one that a server refused, or that came after its farewell, was
/// not. Servers say farewell in the ordinary course of things, some after every thousand requests.
fn http2_failure(error: &h2::Error, reused: bool) -> Outcome {
    let reason = error.reason();
    if reason == Some(h2::Reason::REFUSED_STREAM)
        || (error.is_go_away() && error.is_remote() && reason == Some(h2::Reason::NO_ERROR))
    {
        return Outcome::RequestNotProcessed;
    }
    match error.get_io() {
        Some(system) => system_failure(system, reused),
        None if error.is_remote() => {
            Outcome::ConnectionFailed { cause: format!("the server ended it: {error}") }
        }
        None => Outcome::InvalidResponse { cause: error.to_string() },
    }
}
