//! What a path is answered with: status, headers, body, encoding, slowness, or a hostile behaviour.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use demoweb::{Framing, Request};

use crate::hostile::Hostile;

/// One answer, built up by its methods. Unless told otherwise it is sent with a correct Content-Length
/// and the connection is kept.
#[derive(Debug, Clone)]
pub struct Answer {
    pub(crate) plain: demoweb::Answer,
    pub(crate) hostile: Option<Hostile>,
    pub(crate) refused: bool,
}

impl From<demoweb::Answer> for Answer {
    fn from(plain: demoweb::Answer) -> Self {
        Self { plain, hostile: None, refused: false }
    }
}

impl Answer {
    /// An HTML page: status 200, `text/html; charset=utf-8`.
    pub fn page(html: impl Into<Bytes>) -> Self {
        demoweb::Answer::page(html).into()
    }

    /// A plain text: status 200, `text/plain; charset=utf-8`.
    pub fn text(text: impl Into<Bytes>) -> Self {
        demoweb::Answer::text(text).into()
    }

    /// A status with a small HTML body that names it.
    pub fn status(status: u16) -> Self {
        demoweb::Answer::status(status).into()
    }

    /// A redirect with this status to `to`, which goes into Location as it is.
    pub fn redirect(status: u16, to: &str) -> Self {
        demoweb::Answer::redirect(status, to).into()
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

    /// Waits so long before the first byte of the answer.
    pub fn after(mut self, delay: Duration) -> Self {
        self.plain = self.plain.after(delay);
        self
    }

    /// Says `Connection: close`, and closes.
    pub fn close(mut self) -> Self {
        self.plain.close = true;
        self
    }

    /// Sends the body in chunks, without a Content-Length.
    pub fn chunked(mut self) -> Self {
        self.plain.framing = Framing::Chunked;
        self
    }

    /// Sends the body without any length; closing the connection ends it.
    pub fn until_close(mut self) -> Self {
        self.plain.framing = Framing::UntilClose;
        self.close()
    }

    /// Compresses the body set so far, as gzip.
    pub fn gzip(self) -> Self {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let packed = encoder.write_all(&self.plain.body).and_then(|()| encoder.finish());
        self.encoded("gzip", packed.expect("memory takes every byte"))
    }

    /// Compresses the body set so far, as `deflate` is specified: in a zlib wrapper.
    pub fn deflate(self) -> Self {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        let packed = encoder.write_all(&self.plain.body).and_then(|()| encoder.finish());
        self.encoded("deflate", packed.expect("memory takes every byte"))
    }

    /// Compresses the body set so far, as `deflate` is often misunderstood: without a wrapper.
    pub fn raw_deflate(self) -> Self {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        let packed = encoder.write_all(&self.plain.body).and_then(|()| encoder.finish());
        self.encoded("deflate", packed.expect("memory takes every byte"))
    }

    /// Compresses the body set so far, as zstd.
    pub fn zstd(self) -> Self {
        let packed = zstd::bulk::compress(&self.plain.body, 1).expect("memory takes every byte");
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

    /// What is sent over HTTP/1.1: a hostile answer is spelled out.
    pub(crate) fn over_http1(self, request: &Request) -> demoweb::Answer {
        let Some(hostile) = self.hostile else { return self.plain };
        let plain = match hostile.content(request) {
            Some(content) => content.plain,
            None => demoweb::Answer::scripted(hostile.script()),
        };
        plain.after(self.plain.delay)
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
