//! How long Redis is waited for: for as long as it takes, but by who is about to end, or has only a question.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Connection;
use super::failure::Failure;
use super::patience::Stuck;
use crate::backend::BackendError;

/// How long a Redis that is away is waited for by who has been asked for the end.
const GRACE: Duration = Duration::from_secs(5);

/// How often it is looked whether that is over.
const GLANCE: Duration = Duration::from_millis(100);

impl Connection {
    /// Whether nobody waits any longer for what was asked at that time.
    pub(super) fn is_too_late(&self, asked: Instant) -> bool {
        match self.inner.is_open.load(Ordering::Relaxed) {
            false => Instant::now() > self.inner.deadline,
            true => self.inner.limit.is_some_and(|limit| asked.elapsed() > limit),
        }
    }

    /// Returns when the end has been asked for, and Redis has been away for too long to be waited for.
    pub(super) async fn asked_to_end(&self) {
        self.inner.stop.stop_requested().await;
        while self.in_trouble_since().is_none_or(|since| since.elapsed() < GRACE) {
            sleep(GLANCE).await;
        }
    }

    /// What went wrong, for who waits no longer.
    pub(super) fn give_up(&self, failure: &Failure, stuck: Option<Stuck>) -> BackendError {
        if let Some(stuck) = stuck {
            stuck.for_ever();
        }
        failure.trouble(&self.inner.address)
    }
}
