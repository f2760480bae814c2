//! The response to a path: status, headers, body, content coding, delay, or a hostile behaviour.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;

use crate::hostile::Hostile;

/// A response, configured by its methods. By default it has a correct Content-Length and keeps the connection alive.
#[derive(Debug, Clone)]
pub struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) content_type: Option<String>,
    pub(crate) body: Bytes,
    pub(crate) framing: Framing,
    pub(crate) close: bool,
    pub(crate) delay: Duration,
    pub(crate) hostile: Option<Hostile>,
    pub(crate) refused: bool,
}

/// How the client finds the end of the body in HTTP/1.1. HTTP/2 has its own framing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length,
    Chunked,
    UntilClose,
}

impl Answer {
    /// An HTML page: status 200, `text/html; charset=utf-8`.
    pub fn page(html: impl Into<Bytes>) -> Self {
        Self::status(200).content_type("text/html; charset=utf-8").body(html)
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
            hostile: None,
            refused: false,
        }
    }

    /// A redirect with this status. `to` becomes the Location header unchanged.
    pub fn redirect(status: u16, to: &str) -> Self {
        Self::status(status).header("Location", to)
    }

    /// A hostile behaviour.
    pub fn hostile(hostile: Hostile) -> Self {
        Self { hostile: Some(hostile), ..Self::status(200) }
    }

    /// Over HTTP/2, a stream that is refused before it is processed, as by a server that is about to close the
    /// connection. Over HTTP/1.1, which has no such signal, the connection is closed.
    pub fn refused() -> Self {
        Self { refused: true, ..Self::hostile(Hostile::CloseAtOnce) }
    }

    /// A sequence: the n-th request gets the n-th response, and the last one repeats.
    ///
    /// # Panics
    /// If the sequence is empty.
    pub fn in_turn(responses: Vec<Answer>) -> Turns {
        assert!(!responses.is_empty(), "in_turn needs at least one response");
        Turns(Arc::new((responses, AtomicUsize::new(0))))
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

    /// Sends no Content-Type.
    pub fn without_content_type(mut self) -> Self {
        self.content_type = None;
        self
    }

    /// Waits before the first byte of the response.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sends `Connection: close` and closes the connection.
    pub fn close(mut self) -> Self {
        self.close = true;
        self
    }

    /// Sends the body in chunks, without a Content-Length.
    pub fn chunked(mut self) -> Self {
        self.framing = Framing::Chunked;
        self
    }

    /// Sends the body without a length. The end of the connection ends it.
    pub fn until_close(mut self) -> Self {
        self.framing = Framing::UntilClose;
        self.close()
    }

    /// Compresses the current body with gzip.
    pub fn gzip(self) -> Self {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let compressed = encoder.write_all(&self.body).and_then(|()| encoder.finish());
        self.encoded("gzip", compressed.expect("writing to memory cannot fail"))
    }

    /// Compresses the current body with `deflate` as specified: in zlib format.
    pub fn deflate(self) -> Self {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        let compressed = encoder.write_all(&self.body).and_then(|()| encoder.finish());
        self.encoded("deflate", compressed.expect("writing to memory cannot fail"))
    }

    /// Compresses the current body with `deflate` as often misimplemented: without the zlib format.
    pub fn raw_deflate(self) -> Self {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        let compressed = encoder.write_all(&self.body).and_then(|()| encoder.finish());
        self.encoded("deflate", compressed.expect("writing to memory cannot fail"))
    }

    /// Compresses the current body with zstd.
    pub fn zstd(self) -> Self {
        let compressed = zstd::bulk::compress(&self.body, 1).expect("writing to memory cannot fail");
        self.encoded("zstd", compressed)
    }

    /// Sends bytes that the caller compressed with brotli.
    pub fn brotli_bytes(self, compressed: impl Into<Bytes>) -> Self {
        self.encoded("br", compressed)
    }

    /// Sends a body with any Content-Encoding, unchanged.
    pub fn encoded(self, coding: &str, body: impl Into<Bytes>) -> Self {
        self.header("Content-Encoding", coding).body(body)
    }

    /// Whether a response with this status may have a body.
    pub(crate) fn has_body(&self) -> bool {
        self.status >= 200 && self.status != 204 && self.status != 304
    }
}

/// The responses of one path, one after another. Clones share the count.
#[derive(Debug, Clone)]
pub struct Turns(Arc<(Vec<Answer>, AtomicUsize)>);

impl Turns {
    /// The next response of the sequence.
    pub(crate) fn next(&self) -> Answer {
        let (responses, requests) = &*self.0;
        let index = requests.fetch_add(1, Ordering::Relaxed);
        responses[index.min(responses.len() - 1)].clone()
    }
}

impl From<Answer> for Turns {
    fn from(response: Answer) -> Self {
        Answer::in_turn(vec![response])
    }
}
