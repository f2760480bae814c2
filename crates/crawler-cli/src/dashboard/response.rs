//! Responses and their headers, which are the same for all.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode};
use tokio::sync::OwnedSemaphorePermit;

use super::access::Refusal;
use super::events::EventStream;

/// What the page may load and do: its own script and style, and requests to its own server. Nothing is ever run from elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub const TEXT: &str = "text/plain; charset=utf-8";
pub const HTML: &str = "text/html; charset=utf-8";
pub const CSS: &str = "text/css; charset=utf-8";
pub const SCRIPT: &str = "text/javascript; charset=utf-8";
pub const JSON: &str = "application/json";
/// The text format of Prometheus.
pub const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The body of a response.
pub enum Content {
    /// All of it, with a permit that is returned when it has been sent.
    Whole(
        Option<Bytes>,
        #[expect(dead_code, reason = "held until it is dropped")] Option<OwnedSemaphorePermit>,
    ),
    /// Messages, until the crawl ends or the client goes.
    Events(EventStream),
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Content::Whole(bytes, _) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Content::Events(events) => {
                events.poll_next(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Content::Whole(None, _))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Content::Whole(bytes, _) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Content::Events(_) => SizeHint::default(),
        }
    }
}

/// A response with this content.
pub fn response(status: StatusCode, content_type: &'static str, content: Content) -> Response<Content> {
    let mut response = Response::new(content);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let fixed: [(HeaderName, &'static str); 6] = [
        (CONTENT_TYPE, content_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    response
}

/// A successful response.
pub fn ok(content_type: &'static str, bytes: impl Into<Bytes>) -> Response<Content> {
    response(StatusCode::OK, content_type, Content::Whole(Some(bytes.into()), None))
}

/// A text, with a line break at its end.
pub fn text(status: StatusCode, text: &str) -> Response<Content> {
    response(status, TEXT, Content::Whole(Some(format!("{text}\n").into()), None))
}

/// The response to a request that is refused.
pub fn refused(Refusal(status, reason): Refusal) -> Response<Content> {
    let mut response = text(status, reason);
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert("www-authenticate", HeaderValue::from_static("Bearer"));
    }
    response
}

/// The response to another method.
pub fn wrong_method(allowed: &'static str) -> Response<Content> {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, &format!("Use {allowed}."));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// Sends the browser to the page, with a cookie.
pub fn to_page_with_cookie(cookie: &str) -> Response<Content> {
    let mut response = text(StatusCode::SEE_OTHER, "The token is right.");
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/"));
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}
