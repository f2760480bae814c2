//! HTTP/2 through hyper: the same answers, and a reset stream for what only HTTP/1.1 can get wrong.

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

use crate::web::Hosts;

/// Answers requests on one connection until the client closes it.
pub(crate) async fn serve(
    socket: TlsStream<TcpStream>,
    number: u64,
    listener: Arc<Listener>,
    hosts: Arc<Hosts>,
) {
    let service = service_fn(move |request| respond(request, number, listener.clone(), hosts.clone()));
    // An error is the client's doing: nobody is left to tell.
    let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(socket), service)
        .await;
}

async fn respond(
    incoming: hyper::Request<Incoming>,
    number: u64,
    listener: Arc<Listener>,
    hosts: Arc<Hosts>,
) -> Result<hyper::Response<Answering>, Box<dyn Error + Send + Sync>> {
    let request = understood(&incoming, listener.scheme());
    let mut entry = listener.begin(number, &request);
    let mut answer = hosts.answer_to(&request);
    tokio::time::sleep(answer.plain.delay).await;
    if answer.refused {
        // hyper resets the stream with the reason it finds in the error.
        return Err(h2::Error::from(h2::Reason::REFUSED_STREAM).into());
    }
    if let Some(hostile) = answer.hostile {
        // hyper resets the stream of a service that fails.
        answer = hostile.content(&request).ok_or("hostile")?;
    }
    let plain = answer.plain;
    entry.status = Some(plain.status);
    Ok(response(plain, request.method == "HEAD", entry)?)
}

fn understood(incoming: &hyper::Request<Incoming>, scheme: &'static str) -> Request {
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

fn response(
    answer: demoweb::Answer,
    head_only: bool,
    entry: Entry,
) -> Result<hyper::Response<Answering>, hyper::http::Error> {
    let mut response = hyper::Response::builder().status(answer.status);
    if let Some(content_type) = &answer.content_type {
        response = response.header(CONTENT_TYPE, content_type);
    }
    for (name, value) in &answer.headers {
        // What h2 cannot express is left out; the raw HTTP/1.1 answer has it.
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            response = response.header(name, value);
        }
    }
    if answer.has_body() {
        response = response.header(CONTENT_LENGTH, answer.body.len());
    }
    let bare = head_only || !answer.has_body();
    let body = Full::new(if bare { Bytes::new() } else { answer.body });
    response.body(Answering { body, _entry: entry })
}

/// A body that notes the end of its hit when hyper has taken the last of it.
struct Answering {
    body: Full<Bytes>,
    _entry: Entry,
}

impl Body for Answering {
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
