//! HTTP/1.1 on one connection, implemented here so that hostile behaviours can break the protocol.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::log::Entry;
use crate::request::{Protocol, Request};
use crate::response::{ConnectionEnd, Framing, Response, Script};
use crate::server::Listener;

/// Longer than any request of a test. A client that sends more gets an error.
const MAX_HEAD_BYTES: usize = 1 << 20;
/// As for `MAX_HEAD_BYTES`.
const MAX_HEADERS: usize = 200;
/// Small, so that even a short page has several chunks.
const CHUNK_BYTES: usize = 1000;
/// Lets the client read the bytes before the connection is reset.
const BEFORE_RESET: Duration = Duration::from_millis(50);

/// A client's connection and the bytes read from it but not parsed yet.
struct Connection<S> {
    socket: S,
    tcp: fn(&S) -> &TcpStream,
    unread: BytesMut,
}

/// The head of an HTTP/1.1 request.
struct Head {
    request: Request,
    keep_alive: bool,
    supports_chunked: bool,
    body_length: usize,
}

/// Serves requests on one connection until either side closes it. `tcp` returns the TCP connection below the stream.
pub async fn serve<S>(socket: S, tcp: fn(&S) -> &TcpStream, number: u64, listener: Arc<Listener>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut connection = Connection { socket, tcp, unread: BytesMut::new() };
    // An error means that the client has closed the connection.
    let _ = connection.serve_requests(number, &listener).await;
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Connection<S> {
    async fn serve_requests(&mut self, number: u64, listener: &Listener) -> io::Result<()> {
        while let Some(head) = self.read_head(listener.scheme).await? {
            let request = &head.request;
            let mut entry = listener.log_request(number, request);
            self.skip(head.body_length).await?;
            let response = (listener.handler)(request);
            self.wait(response.delay).await?;
            if let Some(script) = &response.script {
                return self.run_script(script, entry).await;
            }
            entry.status = Some(response.status);
            let keep = head.keep_alive && !response.close;
            let bytes = encode(&response, request.method == "HEAD", keep, head.supports_chunked);
            entry.ended = Some(self.send(&bytes).await?);
            drop(entry);
            if !keep {
                return self.socket.shutdown().await;
            }
        }
        Ok(())
    }

    /// Sends the bytes of a script, and ends the connection.
    async fn run_script(&mut self, script: &Script, mut entry: Entry) -> io::Result<()> {
        match script {
            Script::Send(bytes, end) => {
                entry.status = status_in(bytes);
                entry.ended = Some(self.send(bytes).await?);
                match end {
                    ConnectionEnd::Close => {
                        drop(entry);
                        self.socket.shutdown().await
                    }
                    ConnectionEnd::Reset => {
                        if !bytes.is_empty() {
                            self.wait(BEFORE_RESET).await?;
                        }
                        (self.tcp)(&self.socket).set_zero_linger()
                    }
                    ConnectionEnd::StayOpen => {
                        drop(entry);
                        self.wait_for_close().await
                    }
                }
            }
            Script::Repeat(first, repeated, pause) => {
                entry.status = status_in(first);
                self.send(first).await?;
                loop {
                    self.wait(*pause).await?;
                    self.send(repeated).await?;
                }
            }
        }
    }

    /// Reads the head of the next request. `None` if the client has closed the connection or sent no valid request.
    async fn read_head(&mut self, scheme: &'static str) -> io::Result<Option<Head>> {
        loop {
            match parse(&self.unread, scheme) {
                Ok(Some((head, length))) => {
                    self.unread.advance(length);
                    return Ok(Some(head));
                }
                Ok(None) if self.unread.len() < MAX_HEAD_BYTES => {}
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

    /// Skips a request's body.
    async fn skip(&mut self, mut length: usize) -> io::Result<()> {
        loop {
            let available = length.min(self.unread.len());
            self.unread.advance(available);
            length -= available;
            if length == 0 {
                return Ok(());
            }
            self.read_more().await?;
        }
    }

    /// Waits. Fails if the client closes the connection meanwhile.
    async fn wait(&mut self, delay: Duration) -> io::Result<()> {
        if delay.is_zero() {
            return Ok(());
        }
        let end = tokio::time::Instant::now() + delay;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(end) => return Ok(()),
                read = self.read_more() => read?,
            }
        }
    }

    /// Waits until the client closes the connection.
    async fn wait_for_close(&mut self) -> io::Result<()> {
        loop {
            self.read_more().await?;
        }
    }

    async fn read_more(&mut self) -> io::Result<()> {
        if self.unread.len() > MAX_HEAD_BYTES {
            self.unread.clear();
        }
        match self.socket.read_buf(&mut self.unread).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Sends all bytes. Returns the time just before the write of the last byte: the client cannot have received it
    /// earlier, however late this thread runs again.
    async fn send(&mut self, mut bytes: &[u8]) -> io::Result<Instant> {
        let mut last_write = Instant::now();
        while !bytes.is_empty() {
            let written = poll_fn(|context| {
                last_write = Instant::now();
                let written = ready!(Pin::new(&mut self.socket).poll_write(context, bytes))?;
                Poll::Ready(io::Result::Ok(written))
            });
            match written.await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => bytes = &bytes[written..],
            }
        }
        self.socket.flush().await?;
        Ok(last_write)
    }
}

/// The head of a request and its length in bytes, if it is complete.
fn parse(bytes: &[u8], scheme: &'static str) -> Result<Option<(Head, usize)>, httparse::Error> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = parsed.parse(bytes)? else { return Ok(None) };
    let headers: Vec<(String, String)> = parsed
        .headers
        .iter()
        .map(|header| (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).into_owned()))
        .collect();
    let is_http11 = parsed.version == Some(1);
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
    Ok(Some((
        Head { request, keep_alive: is_http11 && !close, supports_chunked: is_http11, body_length },
        length,
    )))
}

/// The head and body of a well-formed response, in one buffer so that it costs one write.
fn encode(response: &Response, head_only: bool, keep_alive: bool, supports_chunked: bool) -> Vec<u8> {
    let mut wire = Vec::with_capacity(512 + response.body.len());
    wire.extend_from_slice(
        format!("HTTP/1.1 {} {}\r\n", response.status, reason(response.status)).as_bytes(),
    );
    let mut header = |name: &str, value: &str| {
        for part in [name, ": ", value, "\r\n"] {
            wire.extend_from_slice(part.as_bytes());
        }
    };
    if let Some(content_type) = &response.content_type {
        header("Content-Type", content_type);
    }
    for (name, value) in &response.headers {
        header(name, value);
    }
    let framing = match response.framing {
        Framing::Chunked if !supports_chunked => Framing::Length,
        framing => framing,
    };
    match framing {
        _ if !response.has_body() => {}
        Framing::Length => header("Content-Length", &response.body.len().to_string()),
        Framing::Chunked => header("Transfer-Encoding", "chunked"),
        Framing::UntilClose => {}
    }
    if !keep_alive {
        header("Connection", "close");
    }
    wire.extend_from_slice(b"\r\n");
    if head_only || !response.has_body() {
        return wire;
    }
    match framing {
        Framing::Length | Framing::UntilClose => wire.extend_from_slice(&response.body),
        Framing::Chunked => {
            for chunk in response.body.chunks(CHUNK_BYTES) {
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
