//! HTTP/2 with hyper: the same responses, and a stream reset for behaviours that only HTTP/1.1 can express.

mod flood;

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use demoweb::{Entry, Listener, Protocol, Request};
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

pub(crate) use self::flood::flood;
use crate::web::Hosts;

/// Serves requests on one connection until the client closes it.
pub(crate) async fn serve(
    socket: TlsStream<TcpStream>,
    number: u64,
    listener: Arc<Listener>,
    hosts: Arc<Hosts>,
) {
    let service = service_fn(move |request| respond(request, number, listener.clone(), hosts.clone()));
    // An error means that the client has closed the connection.
    let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(socket), service)
        .await;
}

async fn respond(
    incoming: hyper::Request<Incoming>,
    number: u64,
    listener: Arc<Listener>,
    hosts: Arc<Hosts>,
) -> Result<hyper::Response<LoggedBody>, Box<dyn Error + Send + Sync>> {
    let request = to_request(&incoming, listener.scheme());
    let mut entry = listener.log_request(number, &request);
    let mut response = hosts.respond_to(&request);
    tokio::time::sleep(response.plain.delay).await;
    if response.refused {
        // hyper resets the stream with the reason of the error.
        return Err(h2::Error::from(h2::Reason::REFUSED_STREAM).into());
    }
    if let Some(hostile) = response.hostile {
        // hyper resets the stream of a service that fails.
        response = hostile.content(&request).ok_or("hostile")?;
    }
    let plain = response.plain;
    entry.status = Some(plain.status);
    Ok(to_http2(plain, request.method == "HEAD", entry)?)
}

fn to_request(incoming: &hyper::Request<Incoming>, scheme: &'static str) -> Request {
    let headers = incoming.headers().iter();
    let headers = headers
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    let uri = incoming.uri();
    Request {
        method: incoming.method().to_string(),
        path: uri.path_and_query().map_or("/", |path| path.as_str()).into(),
        scheme,
        authority: uri.authority().map_or("", |authority| authority.as_str()).into(),
        headers,
        protocol: Protocol::H2,
    }
}

fn to_http2(
    plain: demoweb::Response,
    head_only: bool,
    entry: Entry,
) -> Result<hyper::Response<LoggedBody>, hyper::http::Error> {
    let mut response = hyper::Response::builder().status(plain.status);
    if let Some(content_type) = &plain.content_type {
        response = response.header(CONTENT_TYPE, content_type);
    }
    for (name, value) in &plain.headers {
        // Headers that HTTP/2 cannot express are left out; the HTTP/1.1 response has them.
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            response = response.header(name, value);
        }
    }
    if plain.has_body() {
        response = response.header(CONTENT_LENGTH, plain.body.len());
    }
    let no_body = head_only || !plain.has_body();
    let body = Full::new(if no_body { Bytes::new() } else { plain.body });
    response.body(LoggedBody { body, _entry: entry })
}

/// A body that records the end of the request when hyper drops it.
struct LoggedBody {
    body: Full<Bytes>,
    _entry: Entry,
}

impl Body for LoggedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
