//! Leave to ask: a worker among other processes asks nothing unless it was heard of a moment ago. Whoever is not heard of
//! counts as dead after a while, and its hosts are given to others.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Leave to ask, which has to be renewed; clones share it.
#[derive(Debug, Clone, Default)]
pub struct LivenessGuard(Option<Arc<Renewed>>);

#[derive(Debug)]
struct Renewed {
    at: watch::Sender<Instant>,
    /// So long after its renewal requests may begin.
    begins: Duration,
    /// So long after its renewal requests in flight are given up.
    ends: Duration,
}

impl LivenessGuard {
    /// For one who works alone: for ever.
    pub fn unlimited() -> LivenessGuard {
        LivenessGuard::default()
    }

    /// For one who counts as dead when it was not heard of for so long: two thirds of that to begin requests, and most of
    /// what is left then to bring them to an end. It is yet to be renewed for the first time.
    pub fn with_timeout(dead_after: Duration) -> LivenessGuard {
        let (begins, ends) = (dead_after * 2 / 3, dead_after * 13 / 15);
        let long_ago = Instant::now().checked_sub(2 * dead_after).unwrap_or_else(Instant::now);
        LivenessGuard(Some(Arc::new(Renewed { at: watch::Sender::new(long_ago), begins, ends })))
    }

    /// Whether others ask other hosts meanwhile, with a pace of their own.
    pub fn is_limited(&self) -> bool {
        self.0.is_some()
    }

    /// Renews it from the moment when the sign of life was sent that has been acknowledged now.
    pub fn renew(&self, sent: Instant) {
        if let Some(renewed) = &self.0 {
            renewed.at.send_modify(|at| *at = sent.max(*at));
        }
    }

    /// Whether a request may begin now.
    pub fn is_current(&self) -> bool {
        self.0.as_ref().is_none_or(|renewed| renewed.at.borrow().elapsed() < renewed.begins)
    }

    /// Returns as soon as a request may begin.
    pub async fn renewed(&self) {
        let Some(renewed) = &self.0 else { return };
        // The sender lives in `self`, so waiting cannot fail.
        let _ = renewed.at.subscribe().wait_for(|at| at.elapsed() < renewed.begins).await;
    }

    /// Returns when requests in flight have to be given up.
    pub async fn expired(&self) {
        let Some(renewed) = &self.0 else { return std::future::pending().await };
        loop {
            let until = *renewed.at.borrow() + renewed.ends;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{advance, timeout};

    #[tokio::test(start_paused = true)]
    async fn requests_begin_for_ten_seconds_after_a_renewal_and_are_given_up_before_others_take_over() {
        let license = LivenessGuard::with_timeout(Duration::from_secs(15));
        assert!(!license.is_current());
        license.renew(Instant::now());
        license.renewed().await;
        advance(Duration::from_millis(9_990)).await;
        assert!(license.is_current());
        advance(Duration::from_millis(20)).await;
        assert!(!license.is_current());
        assert!(timeout(Duration::from_millis(100), license.renewed()).await.is_err());
        let before = Instant::now();
        license.expired().await;
        assert!(before.elapsed() < Duration::from_secs(4));
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_gives_more_time_to_what_is_in_flight() {
        let license = LivenessGuard::with_timeout(Duration::from_secs(15));
        license.renew(Instant::now());
        let renewing = license.clone();
        tokio::spawn(async move {
            loop {
                renewing.renew(Instant::now());
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        assert!(timeout(Duration::from_secs(60), license.expired()).await.is_err());
        assert!(license.is_current());
    }

    #[tokio::test]
    async fn one_who_works_alone_needs_no_renewal() {
        let license = LivenessGuard::unlimited();
        assert!(license.is_current() && !license.is_limited());
        license.renewed().await;
        assert!(timeout(Duration::from_millis(10), license.expired()).await.is_err());
    }
}
