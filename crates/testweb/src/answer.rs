//! What a path is answered with: status, headers, body, encoding, slowness, or a hostile behaviour.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;

use crate::hostile::Hostile;

/// One answer, built up by its methods. Unless told otherwise it is sent with a correct Content-Length
/// and the connection is kept.
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

/// How the client learns where the body ends (HTTP/1.1; h2 has its own way).
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
            hostile: None,
            refused: false,
        }
    }

    /// A redirect with this status to `to`, which goes into Location as it is.
    pub fn redirect(status: u16, to: &str) -> Self {
        Self::status(status).header("Location", to)
    }

    /// A server that misbehaves.
    pub fn hostile(hostile: Hostile) -> Self {
        Self { hostile: Some(hostile), ..Self::status(200) }
    }

    /// Over HTTP/2, a stream refused without a look at it, as a server does that is about to close the connection;
    /// over HTTP/1.1, which cannot say so, the end of the connection.
    pub fn refused() -> Self {
        Self { refused: true, ..Self::hostile(Hostile::CloseAtOnce) }
    }

    /// The n-th request gets the n-th answer; the last one repeats.
    ///
    /// # Panics
    /// Without a single answer.
    pub fn in_turn(answers: Vec<Answer>) -> Turns {
        assert!(!answers.is_empty(), "in_turn needs at least one answer");
        Turns(Arc::new((answers, AtomicUsize::new(0))))
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

    /// Waits so long before the first byte of the answer.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Says `Connection: close`, and closes.
    pub fn close(mut self) -> Self {
        self.close = true;
        self
    }

    /// Sends the body in chunks, without a Content-Length.
    pub fn chunked(mut self) -> Self {
        self.framing = Framing::Chunked;
        self
    }

    /// Sends the body without any length; closing the connection ends it.
    pub fn until_close(mut self) -> Self {
        self.framing = Framing::UntilClose;
        self.close()
    }

    /// Compresses the body set so far, as gzip.
    pub fn gzip(self) -> Self {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let packed = encoder.write_all(&self.body).and_then(|()| encoder.finish());
        self.encoded("gzip", packed.expect("memory takes every byte"))
    }

    /// Compresses the body set so far, as `deflate` is specified: in a zlib wrapper.
    pub fn deflate(self) -> Self {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        let packed = encoder.write_all(&self.body).and_then(|()| encoder.finish());
        self.encoded("deflate", packed.expect("memory takes every byte"))
    }

    /// Compresses the body set so far, as `deflate` is often misunderstood: without a wrapper.
    pub fn raw_deflate(self) -> Self {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        let packed = encoder.write_all(&self.body).and_then(|()| encoder.finish());
        self.encoded("deflate", packed.expect("memory takes every byte"))
    }

    /// Compresses the body set so far, as zstd.
    pub fn zstd(self) -> Self {
        let packed = zstd::bulk::compress(&self.body, 1).expect("memory takes every byte");
        self.encoded("zstd", packed)
    }

    /// Sends bytes that the caller compressed with brotli.
    pub fn brotli_bytes(self, compressed: impl Into<Bytes>) -> Self {
        self.encoded("br", compressed)
    }

    /// Sends the body as it is, under the name of any content coding.
    pub fn encoded(self, coding: &str, body: impl Into<Bytes>) -> Self {
        self.header("Content-Encoding", coding).body(body)
    }

    /// Whether a body may follow this status at all.
    pub(crate) fn has_body(&self) -> bool {
        self.status >= 200 && self.status != 204 && self.status != 304
    }
}

/// The answers of one path, one after another. Clones share the count.
#[derive(Debug, Clone)]
pub struct Turns(Arc<(Vec<Answer>, AtomicUsize)>);

impl Turns {
    /// The answer whose turn it is.
    pub(crate) fn next(&self) -> Answer {
        let (answers, asked) = &*self.0;
        let turn = asked.fetch_add(1, Ordering::Relaxed);
        answers[turn.min(answers.len() - 1)].clone()
    }
}

impl From<Answer> for Turns {
    fn from(answer: Answer) -> Self {
        Answer::in_turn(vec![answer])
    }
}
