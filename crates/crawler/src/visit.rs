//! What is remembered of the visits of a URL: its validators, a hash of its body, how often it changed, and when it is due again.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::fetch::http::Validators;
use crate::outcome::{Outcome, label_is_temporary, label_of_text};

/// The least time after which a URL is visited again, if that follows from how often it changes.
pub const MIN_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// The longest one.
pub const MAX_INTERVAL: Duration = Duration::from_secs(30 * DAY);

/// The time after which it is visited again for the first time.
pub const FIRST_INTERVAL: Duration = Duration::from_secs(DAY);

const DAY: u64 = 24 * 60 * 60;

/// When a URL that was visited is due again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RevisitAfter {
    /// This time after its last visit.
    Fixed(Duration),
    /// After a time that halves when the URL had changed, and doubles when it had not. At once, if a sitemap says that it was
    /// modified since the last visit.
    Auto,
}

/// What is remembered of the visits of URLs, and whether URLs are visited again while the crawl runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VisitSettings {
    /// Whether visits are remembered: in a state, or because URLs are visited again.
    pub are_kept: bool,
    /// When URLs are visited again while the crawl runs, if they are.
    pub revisit_after: Option<RevisitAfter>,
    /// Whether a sitemap that says that a page was modified since its last visit makes its URL due.
    pub lastmod_makes_due: bool,
}

/// What a response says about the version of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseFacts {
    /// A hash of the body; 0 if there is none.
    pub hash: u64,
    /// Whether it is the body that is known, and no archive lacks the response that had it.
    pub is_repeated: bool,
    /// Its validators.
    pub validators: Validators,
}

/// What is remembered of the visits of a URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VisitRecord {
    /// The number of the crawl's visit in which the URL was visited last.
    pub visit: u32,
    /// How often it was visited.
    pub visits: u32,
    /// How often it had changed since the visit before.
    pub changes: u32,
    /// How many versions of the page modules and outputs got.
    pub version: u32,
    /// The hash of the last body; zeros if there is none.
    hash: [u8; 8],
    /// When the last body was first requested: Unix time in microseconds; 0 if there is none.
    fetched_at: u64,
    /// The time after which it is due again, in seconds, if that follows from how often it changes; 0 for the first one.
    interval: u32,
    /// How the page compares with the one of the visit before.
    change: PageChange,
    /// The validators of the last body.
    pub validators: Validators,
    /// The outcome of the visit before the last one, as text, unless that failed temporarily: then the one before.
    pub earlier: Option<Box<str>>,
}

impl Default for VisitRecord {
    fn default() -> VisitRecord {
        VisitRecord {
            visit: 1,
            visits: 1,
            changes: 0,
            version: 0,
            hash: [0; 8],
            fetched_at: 0,
            interval: 0,
            change: PageChange::Same,
            validators: Validators::default(),
            earlier: None,
        }
    }
}

/// How a page compares with the one of the visit before. A visit that failed temporarily says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum PageChange {
    /// It is the same, or there was none before.
    Same,
    /// Its body is another one, or it is there again.
    Changed,
    /// The server replied that there is no page any more.
    Gone,
}

/// The last visit of a URL that is visited again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousVisit {
    /// What is remembered of it.
    pub record: VisitRecord,
    /// Its outcome as text.
    pub outcome: String,
}

/// The hash that is remembered of a body, from the hash of its fingerprint. 0 stands for no hash.
pub(crate) fn body_hash(exact: u128) -> u64 {
    ((exact >> 64) as u64 ^ exact as u64).max(1)
}

/// A visit of a URL.
pub(crate) struct Visit<'a> {
    /// The number of the crawl's visit.
    pub(crate) number: u32,
    pub(crate) outcome: &'a Outcome,
    pub(crate) response: ResponseFacts,
    /// When it was requested.
    pub(crate) requested: Option<SystemTime>,
}

impl PreviousVisit {
    /// Whether modules and outputs did not get the page, because it was a duplicate. It may be none now.
    pub(crate) fn was_duplicate(&self) -> bool {
        match label_of_text(&self.outcome) {
            "duplicate" | "near-duplicate" => true,
            "not saved" | "unchanged" => false,
            // It failed since.
            _ => self.record.version == 0,
        }
    }
}

impl VisitRecord {
    /// What is remembered after a visit.
    pub(crate) fn after(visit: Visit, previous: Option<&PreviousVisit>) -> VisitRecord {
        let Visit { number, outcome, response, requested } = visit;
        let first = VisitRecord { visits: 0, ..VisitRecord::default() };
        let before = previous.map_or(&first, |previous| &previous.record);
        let mut record =
            VisitRecord { visit: number, visits: before.visits.saturating_add(1), ..before.clone() };
        let ResponseFacts { hash, is_repeated, validators } = response;
        // A server that compares these validators later refers to the body that was requested now. An archive does not store a body
        // again that it has.
        if !is_repeated && (hash != 0 || *outcome != Outcome::Unchanged && !validators.is_empty()) {
            record.fetched_at = requested.map_or(0, unix_micros);
        }
        if let Some(previous) = previous {
            let is_temporary = label_is_temporary(label_of_text(&previous.outcome));
            if !is_temporary {
                record.earlier = Some(previous.outcome.as_str().into());
            }
        }
        match outcome {
            Outcome::Unchanged => {
                record.change = PageChange::Same;
                record.validators = validators.or(&before.validators);
            }
            outcome if hash != 0 => {
                let is_another = before.has_body() && before.hash() != hash;
                record.changes = before.changes.saturating_add(u32::from(is_another));
                record.version = before.version.saturating_add(u32::from(*outcome == Outcome::Page));
                record.change = match is_another || before.is_gone() {
                    true => PageChange::Changed,
                    false => PageChange::Same,
                };
                record.hash = hash.to_le_bytes();
                record.validators = validators;
            }
            outcome if outcome.is_gone() => {
                record.changes = before.changes.saturating_add(u32::from(before.is_current()));
                (record.change, record.validators) = (PageChange::Gone, Validators::default());
            }
            // A sitemap has validators, but its body is not hashed.
            _ if !validators.is_empty() => record.validators = validators,
            // Nothing is known of the page, so what was known of it stays.
            _ => {}
        }
        if let Some(previous) = previous {
            let is_same = match hash != 0 || *outcome == Outcome::Unchanged {
                true => !record.has_changed(),
                false => outcome.to_string() == previous.outcome,
            };
            record.adapt_interval(outcome, is_same);
        }
        record
    }

    /// Sets the time after which the URL is due again, from whether it has changed.
    fn adapt_interval(&mut self, outcome: &Outcome, is_same: bool) {
        let interval = self.interval();
        let next = match outcome.is_temporary() {
            true => interval,
            false if is_same => interval * 2,
            false => interval / 2,
        };
        self.interval = next.clamp(MIN_INTERVAL, MAX_INTERVAL).as_secs() as u32;
    }

    fn interval(&self) -> Duration {
        match self.interval {
            0 => FIRST_INTERVAL,
            seconds => Duration::from_secs(seconds.into()),
        }
    }

    /// When the URL is due again, if it was visited at this time: Unix time in milliseconds.
    pub(crate) fn due_at(&self, visited: u64, after: RevisitAfter) -> u64 {
        let interval = match after {
            RevisitAfter::Fixed(interval) => interval,
            RevisitAfter::Auto => self.interval(),
        };
        visited.saturating_add(u64::try_from(interval.as_millis()).unwrap_or(u64::MAX))
    }

    fn hash(&self) -> u64 {
        u64::from_le_bytes(self.hash)
    }

    fn has_body(&self) -> bool {
        self.hash() != 0
    }

    /// Whether the last body is that of the page as it was known last: it is not gone since.
    pub(crate) fn is_current(&self) -> bool {
        self.has_body() && !self.is_gone()
    }

    /// Whether the page was gone when it was last visited.
    pub(crate) fn is_gone(&self) -> bool {
        self.change == PageChange::Gone
    }

    /// Whether the last visit found another page than the one before.
    pub(crate) fn has_changed(&self) -> bool {
        self.change == PageChange::Changed
    }

    /// Whether a body with this hash is the one that is known.
    pub(crate) fn is_same_body(&self, hash: u64) -> bool {
        self.has_body() && self.hash() == hash
    }

    /// When the last body was first requested.
    pub(crate) fn fetched(&self) -> Option<SystemTime> {
        (self.fetched_at > 0).then(|| UNIX_EPOCH + Duration::from_micros(self.fetched_at))
    }

    /// Few bytes, and none for the first visit of a URL without a body.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match *self == VisitRecord::default() {
            true => Vec::new(),
            // Numbers and texts can always be encoded.
            false => postcard::to_allocvec(self).unwrap_or_default(),
        }
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<VisitRecord> {
        match bytes.is_empty() {
            true => Some(VisitRecord::default()),
            false => postcard::from_bytes(bytes).ok(),
        }
    }
}

/// Whether an outcome is one of a page that exists: modules and outputs got it, or another URL has the same page.
pub fn is_page(outcome: &str) -> bool {
    matches!(label_of_text(outcome), "page" | "unchanged" | "duplicate" | "near-duplicate" | "not saved")
}

/// Whether a URL with this outcome is scheduled again while a crawl runs. One that the settings leave out, or for which no request
/// was sent because of a limit, is not.
pub(crate) fn is_scheduled(outcome: &Outcome) -> bool {
    let is_left_out =
        matches!(outcome, Outcome::Rejected { .. } | Outcome::HostPageLimit | Outcome::SitePageLimit);
    !is_left_out && *outcome != Outcome::NotReached
}

/// A time in microseconds.
pub(crate) fn unix_micros(time: SystemTime) -> u64 {
    let time = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is remembered after visits with these outcomes and hashes.
    fn after(visits: &[(Outcome, u64)]) -> VisitRecord {
        let mut previous: Option<PreviousVisit> = None;
        for (outcome, hash) in visits {
            let response = ResponseFacts { hash: *hash, ..ResponseFacts::default() };
            let visit = Visit { number: 1, outcome, response, requested: None };
            let record = VisitRecord::after(visit, previous.as_ref());
            previous = Some(PreviousVisit { record, outcome: outcome.to_string() });
        }
        previous.unwrap().record
    }

    fn status(code: u16) -> (Outcome, u64) {
        (Outcome::HttpStatus { code, retry_after: None }, 0)
    }

    #[test]
    fn interval_halves_when_a_page_changed_and_doubles_when_not() {
        let days = |visits: &[(Outcome, u64)]| after(visits).interval().as_secs_f64() / DAY as f64;
        let (page, same) = (|hash| (Outcome::Page, hash), || (Outcome::Unchanged, 0));
        assert_eq!(days(&[page(1)]), 1.0);
        assert_eq!(days(&[page(1), page(2)]), 0.5);
        assert_eq!(days(&[page(1), same(), same()]), 4.0);
        assert_eq!(days(&[page(1), same(), status(503), page(2)]), 1.0, "a failure says nothing");
        let mut visits = vec![page(1)];
        visits.extend((0..20).map(|_| same()));
        assert_eq!(days(&visits), 30.0);
        visits.extend((2..40).map(page));
        assert_eq!(days(&visits) * 24.0, 1.0);
    }

    #[test]
    fn page_that_is_gone_and_back_is_the_next_version() {
        let record = after(&[(Outcome::Page, 1), status(503)]);
        assert!(record.is_current() && record.is_same_body(1), "it may still be there");
        let record = after(&[(Outcome::Page, 1), status(404)]);
        assert!(!record.is_current() && record.is_same_body(1) && record.changes == 1);
        let record = after(&[(Outcome::Page, 1), status(404), (Outcome::Page, 1)]);
        assert_eq!((record.version, record.visits, record.is_current()), (2, 3, true));
    }

    #[test]
    fn later_304_refers_to_the_first_response_with_the_last_body() {
        let headers = [(hyper::header::ETAG, hyper::header::HeaderValue::from_static("\"1\""))];
        let validators = Validators::from_headers(&headers.into_iter().collect());
        let mut previous: Option<PreviousVisit> = None;
        let mut fetched_after = |outcome: Outcome, hash: u64, is_repeated: bool, second: u64| {
            let response = ResponseFacts { hash, is_repeated, validators: validators.clone() };
            let requested = Some(UNIX_EPOCH + Duration::from_secs(second));
            let visit = Visit { number: 1, outcome: &outcome, response, requested };
            let record = VisitRecord::after(visit, previous.as_ref());
            let fetched = record.fetched().unwrap().duration_since(UNIX_EPOCH).unwrap().as_secs();
            previous = Some(PreviousVisit { record, outcome: outcome.to_string() });
            fetched
        };
        let sitemap = || Outcome::Sitemap { urls: 1 };
        assert_eq!(fetched_after(sitemap(), 0, false, 1), 1, "the body of a sitemap has no hash");
        assert_eq!(fetched_after(Outcome::Unchanged, 0, false, 2), 1, "a 304 has no body");
        assert_eq!(fetched_after(sitemap(), 0, false, 3), 3);
        assert_eq!(fetched_after(Outcome::Page, 7, false, 4), 4);
        assert_eq!(fetched_after(Outcome::Unchanged, 7, false, 5), 5, "no archive has it");
        assert_eq!(
            fetched_after(Outcome::Unchanged, 7, true, 6),
            5,
            "an archive refers to the first one with this body"
        );
        assert_eq!(fetched_after(Outcome::Unchanged, 0, false, 7), 5);
    }

    #[test]
    fn earlier_outcome_is_that_before_a_failure_that_may_pass() {
        let earlier = |visits: &[(Outcome, u64)]| after(visits).earlier.map(String::from);
        assert_eq!(earlier(&[(Outcome::Page, 1)]), None);
        assert_eq!(earlier(&[(Outcome::Page, 1), status(503)]).as_deref(), Some("page"));
        assert_eq!(earlier(&[(Outcome::Page, 1), status(503), status(404)]).as_deref(), Some("page"));
        assert_eq!(earlier(&[status(503), (Outcome::Page, 1)]), None);
    }

    #[test]
    fn record_takes_few_bytes() {
        assert_eq!(VisitRecord::default().to_bytes().len(), 0, "a redirect or failure");
        let record = after(&[(Outcome::Page, u64::MAX)]);
        let record = VisitRecord { fetched_at: 1_793_858_828_009_000, ..record };
        assert!(record.to_bytes().len() <= 28, "{}", record.to_bytes().len());
        assert_eq!(VisitRecord::from_bytes(&record.to_bytes()), Some(record));
    }
}
