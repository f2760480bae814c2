//! The answer to a request: status, headers, body, delay, or arbitrary bytes.

use std::time::Duration;

use bytes::Bytes;

/// One answer, built up by its methods. By default it is sent with a correct Content-Length and the connection is
/// kept open.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Headers other than Content-Type and those that frame the body.
    pub headers: Vec<(String, String)>,
    /// The Content-Type; without one, none is sent.
    pub content_type: Option<String>,
    /// The body, as sent.
    pub body: Bytes,
    /// How the end of the body is marked.
    pub framing: Framing,
    /// Whether the server closes the connection after the answer.
    pub close: bool,
    /// The time before the first byte of the answer.
    pub delay: Duration,
    /// What is sent instead of all the above, over HTTP/1.1.
    pub script: Option<Script>,
}

/// How the client learns where the body ends (HTTP/1.1; HTTP/2 has its own framing).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// By a Content-Length.
    Length,
    /// By chunks.
    Chunked,
    /// By the end of the connection.
    UntilClose,
}

/// Bytes that need not be HTTP, and the end of the connection.
#[derive(Debug, Clone)]
pub enum Script {
    /// Sends these bytes, then ends.
    Say(Vec<u8>, End),
    /// Sends the first bytes, then the others again and again with a pause before each, until the client closes.
    Repeat(Vec<u8>, Vec<u8>, Duration),
}

/// How a [`Script::Say`] ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The server closes the connection.
    Close,
    /// The server resets the connection.
    Reset,
    /// The server leaves closing to the client, and answers nothing more.
    Stay,
}

impl Answer {
    /// An HTML page: status 200, `text/html; charset=utf-8`.
    pub fn page(html: impl Into<Bytes>) -> Self {
        Self::status(200).body(html)
    }

    /// A plain text: status 200, `text/plain; charset=utf-8`.
    pub fn text(text: impl Into<Bytes>) -> Self {
        Self::status(200).content_type("text/plain; charset=utf-8").body(text)
    }

    /// A status with a small HTML body that names it.
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

    /// A redirect with this status to `to`, which goes into Location as it is.
    pub fn redirect(status: u16, to: &str) -> Self {
        Self::status(status).header("Location", to)
    }

    /// Arbitrary bytes in place of an answer.
    pub fn scripted(script: Script) -> Self {
        Self { script: Some(script), ..Self::status(200) }
    }

    /// The end of the connection in place of an answer.
    pub fn close_at_once() -> Self {
        Self::scripted(Script::Say(Vec::new(), End::Close))
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

    /// Waits this long before the first byte of the answer.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Whether a body may follow this status at all.
    pub fn has_body(&self) -> bool {
        self.status >= 200 && self.status != 204 && self.status != 304
    }
}
