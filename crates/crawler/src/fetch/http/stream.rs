//! A stream to a server or to a proxy: TCP, or TLS to the proxy.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// What connections to servers are made of.
pub enum ServerStream {
    /// TCP, to the server or to a proxy.
    Tcp(TcpStream),
    /// TLS, to a proxy.
    ProxyTls(Box<TlsStream<TcpStream>>),
}

impl ServerStream {
    /// The address at the other end, unless it has closed the connection already.
    pub fn peer_address(&self) -> Option<IpAddr> {
        let stream = match self {
            ServerStream::Tcp(stream) => stream,
            ServerStream::ProxyTls(stream) => stream.get_ref().0,
        };
        Some(stream.peer_addr().ok()?.ip())
    }
}

/// Calls a method of the stream inside.
macro_rules! inner {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            ServerStream::Tcp($stream) => {
                let $stream = Pin::new($stream);
                $call
            }
            ServerStream::ProxyTls($stream) => {
                let $stream = Pin::new($stream);
                $call
            }
        }
    };
}

impl AsyncRead for ServerStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        inner!(self, stream => stream.poll_read(context, buffer))
    }
}

impl AsyncWrite for ServerStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        inner!(self, stream => stream.poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self, stream => stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self, stream => stream.poll_shutdown(context))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        inner!(self, stream => stream.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            ServerStream::Tcp(stream) => stream.is_write_vectored(),
            ServerStream::ProxyTls(stream) => stream.is_write_vectored(),
        }
    }
}
