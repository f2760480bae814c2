//! The response to a path: status, headers, body, content coding, delay, or a hostile behaviour.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use demoweb::{Framing, Request};

use crate::hostile::Hostile;

/// A response, configured by its methods. By default it has a correct Content-Length and keeps the connection alive.
#[derive(Debug, Clone)]
pub struct Response {
    pub(crate) plain: demoweb::Response,
    pub(crate) hostile: Option<Hostile>,
    pub(crate) refused: bool,
}

impl From<demoweb::Response> for Response {
    fn from(plain: demoweb::Response) -> Self {
        Self { plain, hostile: None, refused: false }
    }
}

impl Response {
    /// An HTML page: status 200, `text/html; charset=utf-8`.
    pub fn page(html: impl Into<Bytes>) -> Self {
        demoweb::Response::page(html).into()
    }

    /// Plain text: status 200, `text/plain; charset=utf-8`.
    pub fn text(text: impl Into<Bytes>) -> Self {
        demoweb::Response::text(text).into()
    }

    /// A status with a small HTML body that has the status as its title.
    pub fn status(status: u16) -> Self {
        demoweb::Response::status(status).into()
    }

    /// A redirect with this status. `to` becomes the Location header unchanged.
    pub fn redirect(status: u16, to: &str) -> Self {
        demoweb::Response::redirect(status, to).into()
    }

    /// A hostile behaviour.
    pub fn hostile(hostile: Hostile) -> Self {
        Self { hostile: Some(hostile), ..Self::status(200) }
    }

    /// Over HTTP/2, a stream that is refused before it is processed, as by a server that is about to close the
    /// connection. Over HTTP/1.1, which has no such signal, the connection is closed.
    pub fn refused() -> Self {
        Self { refused: true, ..Self::hostile(Hostile::CloseImmediately) }
    }

    /// A sequence: the n-th request gets the n-th response, and the last one repeats.
    ///
    /// # Panics
    /// If the sequence is empty.
    pub fn sequence(responses: Vec<Response>) -> ResponseSequence {
        assert!(!responses.is_empty(), "sequence needs at least one response");
        ResponseSequence(Arc::new((responses, AtomicUsize::new(0))))
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.plain = self.plain.header(name, value);
        self
    }

    /// Replaces the body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.plain = self.plain.body(body);
        self
    }

    /// Replaces the Content-Type.
    pub fn content_type(mut self, content_type: &str) -> Self {
        self.plain = self.plain.content_type(content_type);
        self
    }

    /// Sends no Content-Type.
    pub fn without_content_type(mut self) -> Self {
        self.plain.content_type = None;
        self
    }

    /// Waits before the first byte of the response.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.plain = self.plain.delay(delay);
        self
    }

    /// Sends `Connection: close` and closes the connection.
    pub fn close(mut self) -> Self {
        self.plain.close = true;
        self
    }

    /// Sends the body in chunks, without a Content-Length.
    pub fn chunked(mut self) -> Self {
        self.plain.framing = Framing::Chunked;
        self
    }

    /// Sends the body without a length. The end of the connection ends it.
    pub fn until_close(mut self) -> Self {
        self.plain.framing = Framing::UntilClose;
        self.close()
    }

    /// Compresses the current body with gzip.
    pub fn gzip(self) -> Self {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let compressed = encoder.write_all(&self.plain.body).and_then(|()| encoder.finish());
        self.encoded("gzip", compressed.expect("writing to memory cannot fail"))
    }

    /// Compresses the current body with `deflate` as specified: in zlib format.
    pub fn deflate(self) -> Self {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        let compressed = encoder.write_all(&self.plain.body).and_then(|()| encoder.finish());
        self.encoded("deflate", compressed.expect("writing to memory cannot fail"))
    }

    /// Compresses the current body with `deflate` as often misimplemented: without the zlib format.
    pub fn raw_deflate(self) -> Self {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        let compressed = encoder.write_all(&self.plain.body).and_then(|()| encoder.finish());
        self.encoded("deflate", compressed.expect("writing to memory cannot fail"))
    }

    /// Compresses the current body with zstd.
    pub fn zstd(self) -> Self {
        let compressed = zstd::bulk::compress(&self.plain.body, 1).expect("writing to memory cannot fail");
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

    /// The response over HTTP/1.1, with the script of a hostile behaviour.
    pub(crate) fn over_http1(self, request: &Request) -> demoweb::Response {
        let Some(hostile) = self.hostile else { return self.plain };
        let plain = match hostile.content(request) {
            Some(content) => content.plain,
            None => demoweb::Response::scripted(hostile.script()),
        };
        plain.delay(self.plain.delay)
    }
}

/// The responses of one path, one after another. Clones share the count.
#[derive(Debug, Clone)]
pub struct ResponseSequence(Arc<(Vec<Response>, AtomicUsize)>);

impl ResponseSequence {
    /// The next response of the sequence.
    pub(crate) fn next(&self) -> Response {
        let (responses, requests) = &*self.0;
        let index = requests.fetch_add(1, Ordering::Relaxed);
        responses[index.min(responses.len() - 1)].clone()
    }
}

impl From<Response> for ResponseSequence {
    fn from(response: Response) -> Self {
        Response::sequence(vec![response])
    }
}
