//! Tells a crawl that is gone from one that Redis does not know at the moment.

use std::time::{Duration, Instant};

use super::{Notice, SharedCrawl};
use crate::backend::redis::Phase;

/// A crawl that Redis may not know for a while: one who answers in the place of another may have nothing yet, or not be the
/// one who will. So it is looked for again, for as long as a process may be silent. Somebody who purges a crawl leaves word.
pub struct CrawlLossDetector {
    crawl: String,
    address: String,
    notice: Notice,
    patience: Duration,
    since: Option<Instant>,
    last_look: Option<Instant>,
    /// It was over when it was last seen: then nobody wonders that it is gone.
    was_over: bool,
}

impl CrawlLossDetector {
    /// Of a crawl that was there.
    pub fn new(sharing: &SharedCrawl) -> CrawlLossDetector {
        CrawlLossDetector {
            crawl: sharing.place.crawl.clone(),
            address: sharing.place.address.to_string(),
            notice: sharing.notice.clone(),
            patience: sharing.dead_after,
            since: None,
            last_look: None,
            was_over: false,
        }
    }

    /// Whether the crawl, which was found in this phase now, is there no more; to be asked again and again.
    pub fn is_final(&mut self, phase: &Phase) -> bool {
        self.is_final_at(phase, Instant::now())
    }

    fn is_final_at(&mut self, phase: &Phase, now: Instant) -> bool {
        match phase {
            Phase::Purged => true,
            Phase::Unknown => {
                if self.since.is_none() && !self.was_over {
                    let CrawlLossDetector { crawl, address, patience, .. } = &self;
                    (self.notice)(&format!(
                        "Redis at {address} does not know the crawl '{crawl}' any more; looking for it again, for \
                         {patience:?}"
                    ));
                }
                // While we could not look it may have been there.
                let could_look = |last: Instant| now.duration_since(last) <= self.patience / 3;
                if !self.last_look.replace(now).is_some_and(could_look) {
                    self.since = Some(now);
                }
                let since = *self.since.get_or_insert(now);
                self.was_over || now.duration_since(since) >= self.patience
            }
            Phase::Opening | Phase::Running | Phase::Over(_) => {
                self.was_over = matches!(phase, Phase::Over(_));
                if self.since.take().is_some() {
                    (self.notice)(&format!("the crawl '{}' is there again", self.crawl));
                }
                false
            }
        }
    }

    /// What became of a crawl that was found to be there no more in this phase, and what helps.
    pub fn message(&self, phase: &Phase) -> String {
        let CrawlLossDetector { crawl, address, .. } = self;
        match phase {
            Phase::Purged => format!("the crawl '{crawl}' is no more: it was purged while it was under way"),
            _ if self.was_over => format!("the crawl '{crawl}' is no more: it was purged when it was over"),
            _ => lost(crawl, address),
        }
    }
}

/// That Redis has lost a crawl, and what helps.
pub(super) fn lost(crawl: &str, address: &str) -> String {
    format!(
        "Redis at {address} has lost the crawl '{crawl}': it was started again without an append-only file, or another \
         took its place that had not got the crawl yet; 'crawler purge' removes what may be left of it, and then it can \
         be begun anew"
    )
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::backend::redis::RedisCrawl;

    fn absence(patience: Duration) -> (CrawlLossDetector, Arc<Mutex<Vec<String>>>) {
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut sharing = SharedCrawl::new(RedisCrawl::new("redis://h/".parse().unwrap(), "news"));
        sharing.dead_after = patience;
        let tell = Arc::clone(&told);
        sharing.notice = Arc::new(move |message: &str| tell.lock().unwrap().push(message.to_owned()));
        (CrawlLossDetector::new(&sharing), told)
    }

    #[test]
    fn a_crawl_that_is_there_again_in_time_is_not_gone() {
        let (mut absence, told) = absence(Duration::from_secs(3_600));
        let phases = [Phase::Running, Phase::Unknown, Phase::Unknown, Phase::Running, Phase::Unknown];
        assert!(phases.iter().all(|phase| !absence.is_final(phase)));
        let told = told.lock().unwrap();
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[0].contains("does not know the crawl 'news' any more; looking for it again, for 3600s"));
        assert_eq!(told[1], "the crawl 'news' is there again");
    }

    #[test]
    fn one_that_stays_away_is_lost_and_what_helps_is_told() {
        let (mut absence, _) = absence(Duration::from_secs(15));
        let begun = Instant::now();
        let second = |second| begun + Duration::from_secs(second);
        assert!((0..15).all(|at| !absence.is_final_at(&Phase::Unknown, second(at))));
        assert!(absence.is_final_at(&Phase::Unknown, second(15)));
        let told = absence.message(&Phase::Unknown);
        assert!(told.contains("has lost the crawl 'news'") && told.contains("crawler purge"), "{told}");
    }

    #[test]
    fn while_redis_could_not_be_asked_it_may_have_been_there() {
        let (mut absence, _) = absence(Duration::from_secs(15));
        let begun = Instant::now();
        let second = |second| begun + Duration::from_secs(second);
        assert!(!absence.is_final_at(&Phase::Unknown, second(0)));
        assert!((40..55).all(|at| !absence.is_final_at(&Phase::Unknown, second(at))));
        assert!(absence.is_final_at(&Phase::Unknown, second(55)));
    }

    #[test]
    fn a_purge_is_believed_at_once_and_so_is_the_absence_of_a_crawl_that_was_over() {
        let (mut absence, told) = absence(Duration::from_secs(3_600));
        assert!(!absence.is_final(&Phase::Running) && absence.is_final(&Phase::Purged));
        assert!(absence.message(&Phase::Purged).contains("it was purged while it was under way"));
        assert!(!absence.is_final(&Phase::Over("done".into())) && absence.is_final(&Phase::Unknown));
        assert!(absence.message(&Phase::Unknown).contains("it was purged when it was over"));
        assert!(told.lock().unwrap().is_empty());
    }
}
