//! The response to a request: status, headers, body, delay, or arbitrary bytes.

use std::time::Duration;

use bytes::Bytes;

/// A response, configured by its methods. By default it has a correct Content-Length and keeps the connection alive.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Headers other than Content-Type and those that frame the body.
    pub headers: Vec<(String, String)>,
    /// The Content-Type header, if one is sent.
    pub content_type: Option<String>,
    /// The body, as sent.
    pub body: Bytes,
    /// How the end of the body is marked.
    pub framing: Framing,
    /// Whether the server closes the connection after the response.
    pub close: bool,
    /// The time before the first byte of the response.
    pub delay: Duration,
    /// What is sent over HTTP/1.1 instead of all the above.
    pub script: Option<Script>,
}

/// How the client finds the end of the body in HTTP/1.1. HTTP/2 has its own framing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// A Content-Length header.
    Length,
    /// Chunked transfer encoding.
    Chunked,
    /// The end of the connection.
    UntilClose,
}

/// Bytes to send, which need not be HTTP, and how the connection ends.
#[derive(Debug, Clone)]
pub enum Script {
    /// Sends these bytes, then ends the connection.
    Send(Vec<u8>, ConnectionEnd),
    /// Sends the first bytes, then the second repeatedly with a pause before each, until the client closes the
    /// connection.
    Repeat(Vec<u8>, Vec<u8>, Duration),
}

/// How a [`Script::Send`] ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// The server closes the connection.
    Close,
    /// The server resets the connection.
    Reset,
    /// The server keeps the connection open and sends nothing more.
    StayOpen,
}

impl Response {
    /// An HTML page: status 200, `text/html; charset=utf-8`.
    pub fn page(html: impl Into<Bytes>) -> Self {
        Self::status(200).body(html)
    }

    /// Plain text: status 200, `text/plain; charset=utf-8`.
    pub fn text(text: impl Into<Bytes>) -> Self {
        Self::status(200).content_type("text/plain; charset=utf-8").body(text)
    }

    /// A status with a small HTML body that has the status as its title.
    pub fn status(status: u16) -> Self {
        let html = format!("<!doctype html><title>{status}</title><h1>{status}</h1>\n");
        Self {
            status,
            headers: Vec::new(),
            content_type: Some("text/html; charset=utf-8".into()),
            body: html.into(),
            framing: Framing::Length,
            close: false,
            delay: Duration::ZERO,
            script: None,
        }
    }

    /// A redirect with this status. `to` becomes the Location header unchanged.
    pub fn redirect(status: u16, to: &str) -> Self {
        Self::status(status).header("Location", to)
    }

    /// Arbitrary bytes instead of a response.
    pub fn scripted(script: Script) -> Self {
        Self { script: Some(script), ..Self::status(200) }
    }

    /// The connection closes instead of a response.
    pub fn close_immediately() -> Self {
        Self::scripted(Script::Send(Vec::new(), ConnectionEnd::Close))
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Replaces the body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Replaces the Content-Type.
    pub fn content_type(mut self, content_type: &str) -> Self {
        self.content_type = Some(content_type.into());
        self
    }

    /// Waits this long before the first byte of the response.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Whether a response with this status may have a body.
    pub fn has_body(&self) -> bool {
        self.status >= 200 && self.status != 204 && self.status != 304
    }
}
