//! The heads of requests and responses for archives: those of HTTP/1 as they cross the wire, those of HTTP/2 written as HTTP/1.1.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use hyper::header::{self, HeaderMap, HeaderName};
use hyper::{Request, Response};

use super::connections::MAX_HEADER_BYTES;

/// Larger than any head that the HTTP client accepts: it may read as much as its limit once more before it checks the limit.
const MAX_HEAD_BYTES: usize = 2 * MAX_HEADER_BYTES;

/// Headers that always have credentials in requests.
const CREDENTIALS: [HeaderName; 3] = [header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE];

/// Headers of the transfer coding, which bodies are archived without. A length next to it does not count (RFC 9112, section 6.3), and
/// without it would cut the body off.
const TRANSFER_CODING: [HeaderName; 3] = [header::TRANSFER_ENCODING, header::TRAILER, header::CONTENT_LENGTH];

/// The heads of one request and of its final response.
#[derive(Debug)]
pub(super) struct Heads {
    /// When the request was written.
    pub(super) requested: SystemTime,
    pub(super) request: Vec<u8>,
    pub(super) response: Vec<u8>,
}

impl Heads {
    /// The same heads without the headers of the request with these names, and without those of the transfer coding.
    pub(super) fn for_archive(self, secrets: &[HeaderName]) -> Heads {
        Heads {
            request: without_headers(self.request, secrets),
            response: without_transfer_coding(self.response),
            ..self
        }
    }
}

/// The names of the headers of a request that have credentials, or values of the operator's own.
pub(super) fn secret_headers(headers: &HeaderMap) -> Vec<HeaderName> {
    let is_secret = |name: &HeaderName| {
        CREDENTIALS.contains(name) || headers.get_all(name).iter().any(|value| value.is_sensitive())
    };
    headers.keys().filter(|name| is_secret(name)).cloned().collect()
}

/// A copy of what crosses an HTTP/1 connection, as far as it is the head of a request or of its final response. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct HeadTee(Arc<Mutex<Copied>>);

#[derive(Debug, Default)]
struct Copied {
    phase: CopyPhase,
    requested: Option<SystemTime>,
    request: Vec<u8>,
    response: Vec<u8>,
    /// Where the last line of `response` starts.
    line_start: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum CopyPhase {
    /// Nothing is copied.
    #[default]
    Idle,
    /// The request is being written, or the head of its response has not ended.
    Copying,
    /// Both heads are complete.
    Complete,
}

impl HeadTee {
    /// Copies the heads of the next request.
    pub(super) fn start(&self) {
        *self.copied() = Copied { phase: CopyPhase::Copying, ..Copied::default() };
    }

    /// The heads of the request, once its response has begun.
    pub(super) fn take(&self) -> Option<Heads> {
        let Copied { phase, requested, request, response, .. } = std::mem::take(&mut *self.copied());
        let requested = requested.filter(|_| phase == CopyPhase::Complete)?;
        Some(Heads { requested, request, response })
    }

    pub(super) fn sent(&self, bytes: &[u8]) {
        let mut copied = self.copied();
        if copied.phase == CopyPhase::Copying {
            copied.requested.get_or_insert_with(SystemTime::now);
            copied.request.extend_from_slice(bytes);
        }
    }

    pub(super) fn received(&self, bytes: &[u8]) {
        self.copied().received(bytes);
    }

    fn copied(&self) -> MutexGuard<'_, Copied> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Copied {
    fn received(&mut self, mut bytes: &[u8]) {
        while self.phase == CopyPhase::Copying && !bytes.is_empty() {
            let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
            let (line, rest) = bytes.split_at(end);
            if self.response.len() + line.len() > MAX_HEAD_BYTES {
                // The HTTP client rejects the response.
                *self = Copied::default();
                return;
            }
            self.response.extend_from_slice(line);
            if line.ends_with(b"\n") {
                self.line_ended();
            }
            bytes = rest;
        }
    }

    fn line_ended(&mut self) {
        let is_empty = matches!(&self.response[self.line_start..], b"\n" | b"\r\n");
        if !is_empty {
            self.line_start = self.response.len();
        } else if self.line_start == 0 || is_interim(&self.response) {
            // Empty lines before the head, or a head that is followed by another one.
            self.response.clear();
            self.line_start = 0;
        } else {
            self.phase = CopyPhase::Complete;
        }
    }
}

/// Whether the status line of a response is that of an interim response (1xx). 101 is final.
fn is_interim(head: &[u8]) -> bool {
    let status = head.iter().position(|byte| *byte == b' ').and_then(|space| head.get(space + 1..space + 4));
    status.is_some_and(|status| status[0] == b'1' && status != b"101")
}

/// The head of a response without the headers of its transfer coding.
fn without_transfer_coding(head: Vec<u8>) -> Vec<u8> {
    let is_coded = lines(&head).skip(1).any(|line| is_header(line, &header::TRANSFER_ENCODING));
    if is_coded { without_headers(head, &TRANSFER_CODING) } else { without_headers(head, &[header::TRAILER]) }
}

/// The lines of a head, with their ends.
fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    head.split_inclusive(|byte| *byte == b'\n')
}

/// Whether a line is that of a header, and not the continuation of one.
fn is_header(line: &[u8], name: &HeaderName) -> bool {
    let start = line.split(|byte| *byte == b':').next().unwrap_or_default();
    start.trim_ascii_end().eq_ignore_ascii_case(name.as_ref())
}

/// The head without the lines of these headers. All other bytes stay as they are.
fn without_headers(head: Vec<u8>, names: &[HeaderName]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(head.len());
    let mut is_removed = false;
    for (number, line) in lines(&head).enumerate() {
        // A line that starts with white space continues the last one.
        if !matches!(line[0], b' ' | b'\t') {
            is_removed = number > 0 && names.iter().any(|removed| is_header(line, removed));
        }
        if !is_removed {
            kept.extend_from_slice(line);
        }
    }
    kept
}

/// The head of a request over HTTP/2, written as that of HTTP/1.1.
pub(super) fn request_head<B>(request: &Request<B>) -> Vec<u8> {
    let uri = request.uri();
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let mut head = format!("{} {target} HTTP/1.1\r\n", request.method()).into_bytes();
    if let Some(authority) = uri.authority() {
        push_line(&mut head, "host", authority.as_str().as_bytes());
    }
    push_headers(&mut head, request.headers());
    head
}

/// The head of a response over HTTP/2, written as that of HTTP/1.1.
pub(super) fn response_head<B>(response: &Response<B>) -> Vec<u8> {
    let status = response.status();
    let reason = status.canonical_reason().unwrap_or_default();
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", status.as_str()).into_bytes();
    push_headers(&mut head, response.headers());
    head
}

fn push_headers(head: &mut Vec<u8>, headers: &HeaderMap) {
    for (name, value) in headers {
        push_line(head, name.as_str(), value.as_bytes());
    }
    head.extend_from_slice(b"\r\n");
}

fn push_line(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head of the response that arrives in pieces of this size.
    fn copied(response: &[u8], piece: usize) -> Option<Vec<u8>> {
        let tee = HeadTee::default();
        tee.received(b"before the request");
        tee.start();
        tee.sent(b"GET / HTTP/1.1\r\n");
        tee.sent(b"\r\n");
        response.chunks(piece).for_each(|piece| tee.received(piece));
        let heads = tee.take()?;
        assert_eq!(heads.request, b"GET / HTTP/1.1\r\n\r\n");
        assert!(tee.take().is_none());
        Some(heads.response)
    }

    #[test]
    fn head_of_the_final_response_is_copied_byte_for_byte() {
        for (head, body) in [
            ("HTTP/1.1 200 OK\r\nA:1\r\n folded\r\nb :  2\t\r\n\r\n", "body\r\n\r\n"),
            ("HTTP/1.0 200\nA: 1\n\n", "\n\nHTTP/1.1 100 Continue\r\n\r\n"),
            ("HTTP/1.1 200 OK\nA: 1\n\r\n", ""),
            ("HTTP/1.1 101 Switching\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"),
        ] {
            for before in ["", "\r\n\n", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: a\r\n\r\n"]
            {
                let response = [before, head, body].concat();
                for piece in 1..=response.len() {
                    assert_eq!(copied(response.as_bytes(), piece).unwrap(), head.as_bytes(), "{response:?}");
                }
            }
        }
        assert_eq!(copied(b"HTTP/1.1 200 OK\r\nA: 1\r\n", 3), None, "it has not ended");
        assert_eq!(copied(&[b'a'; MAX_HEAD_BYTES + 1], 1_000), None, "it is too large");
    }

    #[test]
    fn headers_are_removed_with_all_their_lines() {
        let head =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding : gzip,\r\n\tchunked\r\nX: transfer-encoding: a\r\n b\n\
            trailer:x\r\ntrailers: y\r\nTRANSFER-ENCODING:\r\n\r\n";
        let kept = b"HTTP/1.1 200 OK\r\nX: transfer-encoding: a\r\n b\ntrailers: y\r\n\r\n";
        assert_eq!(without_transfer_coding(head.to_vec()), kept);
        for (head, kept) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
                "HTTP/1.1 200 OK\r\n\r\n",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTrailer: x\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
            ),
        ] {
            assert_eq!(without_transfer_coding(head.into()), kept.as_bytes());
        }
        let request = b"cookie: a\r\nCookie: b\r\n\r\n";
        assert_eq!(
            without_headers(request.to_vec(), &CREDENTIALS),
            b"cookie: a\r\n\r\n",
            "the first line stays"
        );
    }

    #[test]
    fn heads_of_http2_are_written_as_http1() {
        let request = Request::head("https://h.test:8443/a?b=%20").header("x-a", "1").body(()).unwrap();
        let head = b"HEAD /a?b=%20 HTTP/1.1\r\nhost: h.test:8443\r\nx-a: 1\r\n\r\n";
        assert_eq!(request_head(&request), head);
        let response =
            Response::builder().status(404).header("x-a", "1").header("x-a", "2").body(()).unwrap();
        assert_eq!(response_head(&response), b"HTTP/1.1 404 Not Found\r\nx-a: 1\r\nx-a: 2\r\n\r\n");
    }
}
