//! Server-sent events: each viewer gets the latest status once per second. One that is slow skips those it missed.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, timeout};

/// Without a message for this long, a comment is sent, which shows whether the client is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// After this time a stream ends, and the client connects again. A client that is gone, or a proxy that keeps the connections of
/// clients that are gone, has its place only for this long.
const MAX_STREAM_TIME: Duration = Duration::from_secs(10 * 60);

/// How long a browser waits before it connects again, in milliseconds.
const RETRY_MILLIS: u32 = 2_000;

/// A message for all viewers.
#[derive(Debug, Default)]
pub struct Message {
    /// Messages are numbered 1, 2, 3 …
    pub id: u64,
    /// The status as JSON, without line breaks.
    pub status: Bytes,
    /// Whether the crawl has ended, and the server with it.
    pub is_last: bool,
}

/// The messages for one viewer.
pub struct EventStream {
    next: Next,
}

/// What comes next, and the viewer after it.
type Next = Pin<Box<dyn Future<Output = Option<(Bytes, Viewer)>> + Send>>;

/// What a viewer has received.
struct Viewer {
    messages: watch::Receiver<Arc<Message>>,
    /// When the stream ends.
    until: Instant,
    /// Whether the last message was sent.
    is_over: bool,
    /// Counted among the viewers until it is dropped.
    _permit: OwnedSemaphorePermit,
}

impl EventStream {
    /// A stream that starts with this status, and continues with the messages after it.
    pub fn new(
        first: Bytes,
        messages: watch::Receiver<Arc<Message>>,
        permit: OwnedSemaphorePermit,
    ) -> EventStream {
        EventStream::lasting(MAX_STREAM_TIME, first, messages, permit)
    }

    fn lasting(
        time: Duration,
        first: Bytes,
        messages: watch::Receiver<Arc<Message>>,
        permit: OwnedSemaphorePermit,
    ) -> EventStream {
        let until = Instant::now() + time;
        let viewer = Viewer { messages, until, is_over: false, _permit: permit };
        let first =
            [format!("retry: {RETRY_MILLIS}\n").as_bytes(), &event("status", None, &first)].concat().into();
        EventStream { next: Box::pin(async { Some((first, viewer)) }) }
    }

    /// The next bytes to send; `None` at the end.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.next.as_mut().poll(context).map(|next| {
            let (bytes, viewer) = next?;
            self.next = Box::pin(viewer.next());
            Some(bytes)
        })
    }
}

impl Viewer {
    async fn next(mut self) -> Option<(Bytes, Viewer)> {
        if self.is_over {
            return None;
        }
        if Instant::now() >= self.until {
            self.is_over = true;
            return Some((event("reconnect", None, b"{}"), self));
        }
        let bytes = match timeout(KEEP_ALIVE, self.messages.changed()).await {
            Err(_) => Bytes::from_static(b": waiting\n\n"),
            Ok(Err(_)) => return None,
            Ok(Ok(())) => {
                let message = Arc::clone(&self.messages.borrow_and_update());
                self.is_over = message.is_last;
                let end = if message.is_last { event("end", None, b"{}") } else { Bytes::new() };
                [event("status", Some(message.id), &message.status), end].concat().into()
            }
        };
        Some((bytes, self))
    }
}

/// An event. Its data has no line breaks: in JSON, they are escaped.
fn event(name: &str, id: Option<u64>, data: &[u8]) -> Bytes {
    debug_assert!(!data.contains(&b'\n') && !data.contains(&b'\r'));
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    [format!("{id}event: {name}\ndata: ").as_bytes(), data, b"\n\n"].concat().into()
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn stream_whose_time_is_over_makes_the_client_connect_again() {
        let (_sender, receiver) = watch::channel(Arc::default());
        let viewers = Arc::new(Semaphore::new(1));
        let permit = Arc::clone(&viewers).acquire_owned().await.unwrap();
        let mut stream = EventStream::lasting(Duration::ZERO, Bytes::from_static(b"{}"), receiver, permit);
        let mut next = async || poll_fn(|context| stream.poll_next(context)).await;
        assert!(next().await.is_some());
        assert_eq!(next().await.as_deref(), Some(&b"event: reconnect\ndata: {}\n\n"[..]));
        assert_eq!(next().await, None);
    }

    #[tokio::test]
    async fn slow_viewer_skips_to_the_latest_message_and_gets_the_last() {
        let (sender, receiver) = watch::channel(Arc::default());
        let viewers = Arc::new(Semaphore::new(1));
        let permit = Arc::clone(&viewers).acquire_owned().await.unwrap();
        let mut stream = EventStream::new(Bytes::from_static(b"{\"n\":0}"), receiver, permit);
        let send = |id, status: &'static str, is_last| {
            sender.send_replace(Arc::new(Message { id, status: status.as_bytes().into(), is_last }));
        };
        let mut text = async || {
            let bytes = poll_fn(|context| stream.poll_next(context)).await;
            bytes.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
        };
        assert_eq!(text().await.unwrap(), "retry: 2000\nevent: status\ndata: {\"n\":0}\n\n");
        send(1, "{\"n\":1}", false);
        send(2, "{\"n\":2}", false);
        assert_eq!(text().await.unwrap(), "id: 2\nevent: status\ndata: {\"n\":2}\n\n");
        send(3, "{\"n\":3}", true);
        assert_eq!(
            text().await.unwrap(),
            "id: 3\nevent: status\ndata: {\"n\":3}\n\nevent: end\ndata: {}\n\n"
        );
        assert_eq!(text().await, None);
        drop(stream);
        assert_eq!(viewers.available_permits(), 1);
    }
}
