//! Limits what a server sends in addition to the bodies that are read, such as interim responses (1xx) and control frames.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::heads::HeadTee;

/// The largest allowance, with which a connection starts: the HTTP/2 window of a connection (1 MB), whose bytes may arrive
/// before they are read as bodies, and as much again.
const MAX_ALLOWANCE: i64 = 2 << 20;

/// What the allowance gains with each response: more than the headers of a response may take.
const BYTES_PER_RESPONSE: i64 = 256 << 10;

/// What the allowance gains with each byte of a body. In chunks of one byte, a body takes six times its size.
const BYTES_PER_BODY_BYTE: i64 = 8;

/// How many bytes a server may still send on a connection. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct ReadAllowance(Arc<AtomicI64>);

impl ReadAllowance {
    pub(super) fn new() -> ReadAllowance {
        ReadAllowance(Arc::new(AtomicI64::new(MAX_ALLOWANCE)))
    }

    /// The headers of a response have arrived.
    pub(super) fn add_response(&self) {
        self.add(BYTES_PER_RESPONSE);
    }

    fn add(&self, bytes: i64) {
        let add = |left: i64| Some(left.saturating_add(bytes).min(MAX_ALLOWANCE));
        // The closure always returns a value.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    fn spend(&self, bytes: usize) {
        self.0.fetch_sub(bytes as i64, Ordering::Relaxed);
    }

    fn is_used_up(&self) -> bool {
        self.0.load(Ordering::Relaxed) <= 0
    }
}

/// A transport from which nothing is read once its allowance is used up.
pub(super) struct LimitedTransport<T> {
    transport: T,
    allowance: ReadAllowance,
    /// Gets a copy of what is read and written.
    tee: Option<HeadTee>,
}

impl<T> LimitedTransport<T> {
    pub(super) fn new(transport: T, allowance: ReadAllowance) -> Self {
        LimitedTransport { transport, allowance, tee: None }
    }

    /// Also copies what is read and written.
    pub(super) fn with_tee(self, tee: Option<HeadTee>) -> Self {
        LimitedTransport { tee, ..self }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for LimitedTransport<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.allowance.is_used_up() {
            let cause = "too many bytes that are no content, such as interim responses (1xx)";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, cause)));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.transport).poll_read(context, buffer);
        self.allowance.spend(buffer.filled().len() - before);
        if let Some(tee) = &self.tee {
            tee.received(&buffer.filled()[before..]);
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for LimitedTransport<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.transport).poll_write(context, bytes);
        if let (Some(tee), Poll::Ready(Ok(count))) = (&self.tee, &written) {
            tee.sent(&bytes[..*count]);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.transport).poll_write_vectored(context, bytes);
        if let (Some(tee), Poll::Ready(Ok(count))) = (&self.tee, &written) {
            let mut left = *count;
            for slice in bytes {
                let sent = left.min(slice.len());
                tee.sent(&slice[..sent]);
                left -= sent;
            }
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }
}

/// The body of a response. What is read of it adds to the allowance of its connection.
pub(super) struct ResponseBody {
    incoming: Incoming,
    allowance: ReadAllowance,
}

impl ResponseBody {
    pub(super) fn new(incoming: Incoming, allowance: ReadAllowance) -> ResponseBody {
        ResponseBody { incoming, allowance }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.incoming).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            self.allowance.add(data.len() as i64 * BYTES_PER_BODY_BYTE);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn reading_fails_when_the_allowance_is_used_up_and_responses_add_to_it() {
        let allowance = ReadAllowance::new();
        let mut transport = LimitedTransport::new(tokio::io::repeat(0), allowance.clone());
        let mut buffer = vec![0; MAX_ALLOWANCE as usize];
        transport.read_exact(&mut buffer).await.unwrap();
        let error = transport.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        allowance.add_response();
        transport.read_exact(&mut buffer[..BYTES_PER_RESPONSE as usize]).await.unwrap();
        assert!(transport.read_u8().await.is_err());
        (0..1_000).for_each(|_| allowance.add_response());
        transport.read_exact(&mut buffer).await.unwrap();
        assert!(transport.read_u8().await.is_err(), "it does not exceed its maximum");
    }
}
