//! Distinguishes a crawl that is gone from one that Redis does not have at the moment.

use std::time::{Duration, Instant};

use super::{Notice, SharedCrawl};
use crate::backend::redis::Phase;
use crate::log;
use crate::time_text::time_text;

/// Decides when a missing crawl is lost. After a failover, the server that replies may not have the crawl
/// yet, or may not stay the primary. So the crawl is lost only if it is missing for as long as the heartbeat
/// timeout. A purge leaves a marker, and is final at once.
pub struct CrawlLossDetector {
    crawl: String,
    address: String,
    notice: Notice,
    timeout: Duration,
    missing_since: Option<Instant>,
    last_check: Option<Instant>,
    /// Whether the crawl had ended when it was last seen. An ended crawl that is missing was purged.
    had_ended: bool,
}

impl CrawlLossDetector {
    /// A detector for a crawl that exists.
    pub fn new(shared: &SharedCrawl) -> CrawlLossDetector {
        CrawlLossDetector {
            crawl: shared.redis.crawl.clone(),
            address: shared.redis.address.to_string(),
            notice: shared.notice.clone(),
            timeout: shared.dead_after,
            missing_since: None,
            last_check: None,
            had_ended: false,
        }
    }

    /// Whether the crawl, which is in this phase now, is gone for good. Call it regularly.
    pub fn is_final(&mut self, phase: &Phase) -> bool {
        self.is_final_at(phase, Instant::now())
    }

    /// The same, and reports it.
    pub(super) fn is_gone(&mut self, phase: &Phase) -> bool {
        let is_gone = self.is_final(phase);
        if is_gone {
            log::warned(&*self.notice, &self.message(phase));
        }
        is_gone
    }

    fn is_final_at(&mut self, phase: &Phase, now: Instant) -> bool {
        match phase {
            Phase::Purged => true,
            Phase::Unknown => {
                if self.missing_since.is_none() && !self.had_ended {
                    let CrawlLossDetector { crawl, address, timeout, .. } = &self;
                    let message = format!(
                        "Redis at {address} no longer has the crawl '{crawl}'; checking again for {}",
                        time_text(*timeout)
                    );
                    log::warned(&*self.notice, &message);
                }
                // The crawl may have been there between two checks that are far apart.
                let is_recent = |last: Instant| now.duration_since(last) <= self.timeout / 3;
                if !self.last_check.replace(now).is_some_and(is_recent) {
                    self.missing_since = Some(now);
                }
                let missing_since = *self.missing_since.get_or_insert(now);
                self.had_ended || now.duration_since(missing_since) >= self.timeout
            }
            Phase::Seeding | Phase::Running | Phase::Ended(_) => {
                self.had_ended = matches!(phase, Phase::Ended(_));
                if self.missing_since.take().is_some() {
                    log::informed(&*self.notice, &format!("the crawl '{}' is back", self.crawl));
                }
                false
            }
        }
    }

    /// Why a crawl is gone that was in this phase at the last check, and the remedy.
    pub fn message(&self, phase: &Phase) -> String {
        let CrawlLossDetector { crawl, address, .. } = self;
        match phase {
            Phase::Purged => format!("the crawl '{crawl}' is gone: it was purged while it was running"),
            _ if self.had_ended => format!("the crawl '{crawl}' is gone: it was purged after it finished"),
            _ => lost_message(crawl, address),
        }
    }
}

/// The message for a crawl that Redis has lost, with possible causes and the remedy.
pub(super) fn lost_message(crawl: &str, address: &str) -> String {
    format!(
        "Redis at {address} has lost the crawl '{crawl}': Redis was restarted without an append-only file, or failed over to \
         a replica that did not have the crawl yet; purge what is left of it, then start it again"
    )
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::backend::redis::RedisCrawl;

    fn detector(timeout: Duration) -> (CrawlLossDetector, Arc<Mutex<Vec<String>>>) {
        let messages: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut shared = SharedCrawl::new(RedisCrawl::new("redis://h/".parse().unwrap(), "news"));
        shared.dead_after = timeout;
        let sink = Arc::clone(&messages);
        shared.notice = Arc::new(move |message: &str| sink.lock().unwrap().push(message.to_owned()));
        (CrawlLossDetector::new(&shared), messages)
    }

    #[test]
    fn crawl_that_returns_in_time_is_not_lost() {
        let (mut detector, messages) = detector(Duration::from_secs(3_600));
        let phases = [Phase::Running, Phase::Unknown, Phase::Unknown, Phase::Running, Phase::Unknown];
        assert!(phases.iter().all(|phase| !detector.is_final(phase)));
        let messages = messages.lock().unwrap();
        assert_eq!(messages.len(), 3, "{messages:?}");
        assert!(messages[0].contains("no longer has the crawl 'news'; checking again for 1h"));
        assert_eq!(messages[1], "the crawl 'news' is back");
    }

    #[test]
    fn crawl_missing_for_the_timeout_is_lost() {
        let (mut detector, _) = detector(Duration::from_secs(15));
        let start = Instant::now();
        let second = |second| start + Duration::from_secs(second);
        assert!((0..15).all(|at| !detector.is_final_at(&Phase::Unknown, second(at))));
        assert!(detector.is_final_at(&Phase::Unknown, second(15)));
        let message = detector.message(&Phase::Unknown);
        assert!(message.contains("has lost the crawl 'news'"), "{message}");
        assert!(message.contains("purge what is left of it"), "{message}");
    }

    #[test]
    fn redis_outage_resets_the_timer_of_a_missing_crawl() {
        let (mut detector, _) = detector(Duration::from_secs(15));
        let start = Instant::now();
        let second = |second| start + Duration::from_secs(second);
        assert!(!detector.is_final_at(&Phase::Unknown, second(0)));
        assert!((40..55).all(|at| !detector.is_final_at(&Phase::Unknown, second(at))));
        assert!(detector.is_final_at(&Phase::Unknown, second(55)));
    }

    #[test]
    fn purge_and_absence_of_an_ended_crawl_are_final_at_once() {
        let (mut detector, messages) = detector(Duration::from_secs(3_600));
        assert!(!detector.is_final(&Phase::Running) && detector.is_final(&Phase::Purged));
        assert!(detector.message(&Phase::Purged).contains("it was purged while it was running"));
        assert!(!detector.is_final(&Phase::Ended("done".into())) && detector.is_final(&Phase::Unknown));
        assert!(detector.message(&Phase::Unknown).contains("it was purged after it finished"));
        assert!(messages.lock().unwrap().is_empty());
    }
}
