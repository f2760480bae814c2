//! HTTP/1.1 by hand over one connection, so that it can be broken on purpose.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::answer::{Answer, End, Framing, Script};
use crate::log::Entry;
use crate::request::{Protocol, Request};
use crate::server::Listener;

/// Longer than any request a test has reason to send; a client that streams headers for ever is cut off.
const LARGEST_HEAD: usize = 1 << 20;
/// As for `LARGEST_HEAD`.
const MOST_HEADERS: usize = 200;
/// Small, so that even a short page arrives in several chunks.
const CHUNK: usize = 1000;
/// So that the bytes are read before the connection is reset under them.
const BEFORE_RESET: Duration = Duration::from_millis(50);

/// One client's connection and what has been read from it but not yet understood.
struct Connection<S> {
    socket: S,
    tcp: fn(&S) -> &TcpStream,
    unread: BytesMut,
}

/// A request's head with what only this protocol says.
struct Head {
    request: Request,
    keep_alive: bool,
    chunks_understood: bool,
    body_length: usize,
}

/// Answers requests on one connection until either side closes it. `tcp` returns the TCP connection below the stream.
pub async fn serve<S>(socket: S, tcp: fn(&S) -> &TcpStream, number: u64, listener: Arc<Listener>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut connection = Connection { socket, tcp, unread: BytesMut::new() };
    // An error is the client's doing (it went away): nobody is left to tell.
    let _ = connection.answer_all(number, &listener).await;
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Connection<S> {
    async fn answer_all(&mut self, number: u64, listener: &Listener) -> io::Result<()> {
        while let Some(head) = self.head(listener.scheme).await? {
            let request = &head.request;
            let mut entry = listener.begin(number, request);
            self.skip(head.body_length).await?;
            let answer = (listener.handler)(request);
            self.wait(answer.delay).await?;
            if let Some(script) = &answer.script {
                return self.perform(script, entry).await;
            }
            entry.status = Some(answer.status);
            let keep = head.keep_alive && !answer.close;
            let bytes = on_the_wire(&answer, request.method == "HEAD", keep, head.chunks_understood);
            entry.ended = Some(self.send(&bytes).await?);
            drop(entry);
            if !keep {
                return self.socket.shutdown().await;
            }
        }
        Ok(())
    }

    /// Sends what a script says, and ends the connection.
    async fn perform(&mut self, script: &Script, mut entry: Entry) -> io::Result<()> {
        match script {
            Script::Say(bytes, end) => {
                entry.status = status_in(bytes);
                entry.ended = Some(self.send(bytes).await?);
                match end {
                    End::Close => {
                        drop(entry);
                        self.socket.shutdown().await
                    }
                    End::Reset => {
                        if !bytes.is_empty() {
                            self.wait(BEFORE_RESET).await?;
                        }
                        (self.tcp)(&self.socket).set_zero_linger()
                    }
                    End::Stay => {
                        drop(entry);
                        self.wait_for_end().await
                    }
                }
            }
            Script::Repeat(first, again, pause) => {
                entry.status = status_in(first);
                self.send(first).await?;
                loop {
                    self.wait(*pause).await?;
                    self.send(again).await?;
                }
            }
        }
    }

    /// Reads the next request's head; `None` when the client has closed or what it sent is no request.
    async fn head(&mut self, scheme: &'static str) -> io::Result<Option<Head>> {
        loop {
            match parse(&self.unread, scheme) {
                Ok(Some((head, length))) => {
                    self.unread.advance(length);
                    return Ok(Some(head));
                }
                Ok(None) if self.unread.len() < LARGEST_HEAD => {}
                Ok(None) | Err(_) => {
                    self.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                        .await?;
                    self.socket.shutdown().await?;
                    return Ok(None);
                }
            }
            if self.socket.read_buf(&mut self.unread).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Reads past a request's body.
    async fn skip(&mut self, mut length: usize) -> io::Result<()> {
        loop {
            let there = length.min(self.unread.len());
            self.unread.advance(there);
            length -= there;
            if length == 0 {
                return Ok(());
            }
            self.read_more().await?;
        }
    }

    /// Waits, unless the client goes away first.
    async fn wait(&mut self, delay: Duration) -> io::Result<()> {
        if delay.is_zero() {
            return Ok(());
        }
        let over = tokio::time::Instant::now() + delay;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(over) => return Ok(()),
                read = self.read_more() => read?,
            }
        }
    }

    /// Waits until the client goes away.
    async fn wait_for_end(&mut self) -> io::Result<()> {
        loop {
            self.read_more().await?;
        }
    }

    async fn read_more(&mut self) -> io::Result<()> {
        if self.unread.len() > LARGEST_HEAD {
            self.unread.clear();
        }
        match self.socket.read_buf(&mut self.unread).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Sends all the bytes. The instant is taken just before the write that took the last of them: the client
    /// cannot have had it earlier, however late this thread gets to run again.
    async fn send(&mut self, mut bytes: &[u8]) -> io::Result<Instant> {
        let mut handed_over = Instant::now();
        while !bytes.is_empty() {
            let written = poll_fn(|context| {
                handed_over = Instant::now();
                let written = ready!(Pin::new(&mut self.socket).poll_write(context, bytes))?;
                Poll::Ready(io::Result::Ok(written))
            });
            match written.await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => bytes = &bytes[written..],
            }
        }
        self.socket.flush().await?;
        Ok(handed_over)
    }
}

/// A head and its length in bytes, if all of it is there.
fn parse(bytes: &[u8], scheme: &'static str) -> Result<Option<(Head, usize)>, httparse::Error> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = parsed.parse(bytes)? else { return Ok(None) };
    let headers: Vec<(String, String)> = parsed
        .headers
        .iter()
        .map(|header| (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).into_owned()))
        .collect();
    let modern = parsed.version == Some(1);
    let mut request = Request {
        method: parsed.method.unwrap_or_default().into(),
        path: parsed.path.unwrap_or_default().into(),
        scheme,
        authority: String::new(),
        headers,
        protocol: Protocol::H1,
    };
    request.authority = request.header("host").unwrap_or_default().into();
    let close = request.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    let body_length = request.header("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
    Ok(Some((Head { request, keep_alive: modern && !close, chunks_understood: modern, body_length }, length)))
}

/// Head and body of a well-behaved answer, in one piece so that it costs one write.
fn on_the_wire(answer: &Answer, head_only: bool, keep_alive: bool, chunks_understood: bool) -> Vec<u8> {
    let mut wire = Vec::with_capacity(512 + answer.body.len());
    wire.extend_from_slice(format!("HTTP/1.1 {} {}\r\n", answer.status, reason(answer.status)).as_bytes());
    let mut header = |name: &str, value: &str| {
        for part in [name, ": ", value, "\r\n"] {
            wire.extend_from_slice(part.as_bytes());
        }
    };
    if let Some(content_type) = &answer.content_type {
        header("Content-Type", content_type);
    }
    for (name, value) in &answer.headers {
        header(name, value);
    }
    let framing = match answer.framing {
        Framing::Chunked if !chunks_understood => Framing::Length,
        framing => framing,
    };
    match framing {
        _ if !answer.has_body() => {}
        Framing::Length => header("Content-Length", &answer.body.len().to_string()),
        Framing::Chunked => header("Transfer-Encoding", "chunked"),
        Framing::UntilClose => {}
    }
    if !keep_alive {
        header("Connection", "close");
    }
    wire.extend_from_slice(b"\r\n");
    if head_only || !answer.has_body() {
        return wire;
    }
    match framing {
        Framing::Length | Framing::UntilClose => wire.extend_from_slice(&answer.body),
        Framing::Chunked => {
            for chunk in answer.body.chunks(CHUNK) {
                wire.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                wire.extend_from_slice(chunk);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(b"0\r\n\r\n");
        }
    }
    wire
}

fn reason(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Unnamed")
}

fn status_in(bytes: &[u8]) -> Option<u16> {
    std::str::from_utf8(bytes.strip_prefix(b"HTTP/1.1 ")?.get(..3)?).ok()?.parse().ok()
}
