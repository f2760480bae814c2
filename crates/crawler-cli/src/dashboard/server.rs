//! Accepts connections and serves their requests. Everything a client can occupy is limited: connections, time, bytes.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;

use super::access::Listening;
use super::connections::{Connection, Connections};
use super::response::{Content, text};
use super::routes::{Site, is_for_monitoring};

/// The largest head of a request, and what is buffered of a response.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a client may take to receive anything, before its connection is closed.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// What the system may buffer of a response. Few messages of a stream fit in, so a client that does not read is noticed, and a
/// slow one skips messages instead of getting old ones.
const SEND_BUFFER: usize = 32 << 10;

/// The pause after a connection could not be accepted, for instance because all files are in use.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the site at one address, for ever.
pub async fn serve(
    listener: TcpListener,
    listening: Arc<Listening>,
    site: Arc<Site>,
    connections: Arc<Connections>,
) -> Infallible {
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (site, listening) = (Arc::clone(&site), Arc::clone(&listening));
        connections.add(|connection| {
            // A client that is gone, or too slow, gets no response.
            let served = async move { drop(serve_connection(socket, listening, site, connection).await) };
            tokio::spawn(served).abort_handle()
        });
        // A request that has arrived is read before further connections are accepted: they might take its place.
        tokio::task::yield_now().await;
    }
}

async fn serve_connection(
    socket: TcpStream,
    listening: Arc<Listening>,
    site: Arc<Site>,
    connection: Connection,
) -> hyper::Result<()> {
    // The messages of a stream are small and should arrive at once.
    let _ = socket.set_nodelay(true);
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER);
    let connection = &connection;
    let service = service_fn(move |request: Request<Incoming>| {
        let (site, listening) = (Arc::clone(&site), Arc::clone(&listening));
        async move {
            Ok::<_, Infallible>(match connection.begin(is_for_monitoring(request.uri().path())) {
                true => site.respond(request, &listening).await,
                false => busy(),
            })
        }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        // A connection per request: an idle one takes the place of another client.
        .keep_alive(false)
        .serve_connection(TokioIo::new(ImpatientStream { socket, deadline: None }), service)
        .await
}

fn busy() -> Response<Content> {
    text(StatusCode::SERVICE_UNAVAILABLE, "Too many requests are in progress. Try again.")
}

/// A connection that fails when the client receives nothing for [`WRITE_TIMEOUT`].
struct ImpatientStream {
    socket: TcpStream,
    /// Runs while a write waits.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl ImpatientStream {
    fn limited<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_TIMEOUT)));
        deadline.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for ImpatientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for ImpatientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.limited(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, bytes);
        self.limited(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
