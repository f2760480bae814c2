//! Polls a future once, so that a result that is there already needs no task and no wake-up.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

/// The result of a future, if it need not wait. Otherwise the future is to be polled again.
pub(crate) async fn poll_once<F: Future + ?Sized>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}

/// The result of a future. If it has to wait, `before_wait` is called first.
pub(crate) async fn with_call_before_wait<F: Future>(future: F, before_wait: impl FnOnce()) -> F::Output {
    let mut future = pin!(future);
    match poll_once(future.as_mut()).await {
        Some(output) => output,
        None => {
            before_wait();
            future.await
        }
    }
}
