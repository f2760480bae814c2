//! The pages that this process knows to be kept: those it has stored, and those that Redis has told it of. Pages that are
//! alike are mostly of one site, and so of one worker: it finds them here, and need not ask for them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::super::ContentMatch;
use crate::similarity::{Fingerprint, Index, Lookup, Match, Threshold, Undecided, Verdicts};

/// How many are known, the newest of them; each takes some 500 bytes. Others are asked for.
const MOST_PAGES: usize = 1 << 15;

pub(super) struct Kept {
    /// `None` where likeness does not matter.
    pages: Option<Mutex<Pages>>,
    lifetime: Duration,
}

struct Pages {
    index: Index,
    urls: HashMap<u64, Named>,
}

struct Named {
    url: Box<str>,
    expires: Duration,
    /// How often it is in the index: a page that is stored again is there until both have expired.
    times: u32,
}

/// What is known about a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeptLookup {
    /// It is like none.
    Unlike,
    Like(ContentMatch),
    /// It must be compared with these exactly first.
    Undecided(Vec<Undecided>),
}

impl Kept {
    pub(super) fn new(similarity: Option<Threshold>, lifetime: Duration) -> Kept {
        let pages =
            |threshold| Mutex::new(Pages { index: Index::new(threshold, lifetime), urls: HashMap::new() });
        Kept { pages: similarity.map(pages), lifetime }
    }

    fn pages(&self) -> Option<MutexGuard<'_, Pages>> {
        Some(self.pages.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The page from another URL that this one is like, if it is known.
    pub(super) fn like(
        &self,
        id: u64,
        fingerprint: &Fingerprint,
        now: Duration,
        verdicts: Option<&Verdicts>,
    ) -> KeptLookup {
        let Some(pages) = self.pages() else { return KeptLookup::Unlike };
        let url = |id| pages.urls.get(&id).map(|named| named.url.to_string()).unwrap_or_default();
        match pages.index.find(fingerprint, id, now, verdicts) {
            Lookup::New => KeptLookup::Unlike,
            Lookup::Undecided(pages) => KeptLookup::Undecided(pages),
            Lookup::Match(Match::Duplicate(other)) => KeptLookup::Like(ContentMatch::Duplicate(url(other))),
            Lookup::Match(Match::NearDuplicate(other)) => {
                KeptLookup::Like(ContentMatch::NearDuplicate(url(other)))
            }
        }
    }

    /// The pages from other URLs with which a page is compared here.
    pub(super) fn compared(&self, id: u64, fingerprint: &Fingerprint, now: Duration) -> Vec<u64> {
        self.pages().map_or_else(Vec::new, |pages| pages.index.candidates(fingerprint, id, now))
    }

    /// A page is kept that expires then.
    pub(super) fn add(
        &self,
        id: u64,
        url: &str,
        fingerprint: &Fingerprint,
        now: Duration,
        expires: Duration,
    ) {
        let Some(mut pages) = self.pages() else { return };
        pages.make_room(now);
        let is_known = |named: &Named| named.expires >= expires;
        if expires <= now || pages.urls.get(&id).is_some_and(is_known) {
            return;
        }
        pages.index.insert(fingerprint, id, expires.saturating_sub(self.lifetime));
        let named = pages.urls.entry(id).or_insert_with(|| Named { url: url.into(), expires, times: 0 });
        named.expires = expires;
        named.times += 1;
    }

    /// Redis may have lost some of them.
    pub(super) fn clear(&self) {
        if let Some(mut pages) = self.pages() {
            while pages.remove_oldest() {}
        }
    }
}

impl Pages {
    /// Forgets what has expired, and the oldest if there are too many.
    fn make_room(&mut self, now: Duration) {
        let is_over = |expires: Duration| expires <= now;
        while self.index.len() >= MOST_PAGES || self.index.oldest_expires().is_some_and(is_over) {
            self.remove_oldest();
        }
    }

    fn remove_oldest(&mut self) -> bool {
        let Some(id) = self.index.remove_oldest() else { return false };
        if let Some(named) = self.urls.get_mut(&id) {
            named.times -= 1;
            if named.times == 0 {
                self.urls.remove(&id);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::similarity::HashKey;

    const HOUR: Duration = Duration::from_secs(3600);

    fn page(number: usize) -> Fingerprint {
        Fingerprint::exact(HashKey::new(1), &number.to_le_bytes())
    }

    fn kept() -> Kept {
        Kept::new(Threshold::new(0.9), HOUR)
    }

    #[test]
    fn a_page_is_known_until_it_expires_also_where_it_was_stored_again() {
        let kept = kept();
        let (first, second) = (HOUR, HOUR + HOUR / 2);
        kept.add(1, "http://a/", &page(1), Duration::ZERO, first);
        kept.add(1, "http://a/", &page(1), HOUR / 2, second);
        let same = KeptLookup::Like(ContentMatch::Duplicate("http://a/".into()));
        let like = |id, number, now| kept.like(id, &page(number), now, None);
        assert_eq!(like(2, 1, first), same);
        kept.add(3, "http://c/", &page(3), first, first + HOUR);
        assert_eq!(like(2, 1, first), same, "its name too");
        assert_eq!(kept.compared(2, &page(1), first), [1]);
        assert_eq!(like(1, 1, first), KeptLookup::Unlike, "it is not like itself");
        assert_eq!(like(2, 1, second), KeptLookup::Unlike);
        assert!(kept.compared(2, &page(1), second).is_empty());
    }

    #[test]
    fn no_more_are_known_than_there_is_room_for() {
        let kept = kept();
        for number in 0..MOST_PAGES + 10 {
            kept.add(number as u64, "http://a/", &page(number), Duration::ZERO, HOUR);
        }
        let pages = kept.pages().unwrap();
        assert_eq!((pages.index.len(), pages.urls.len()), (MOST_PAGES, MOST_PAGES));
        drop(pages);
        let is_like = |number| kept.like(u64::MAX, &page(number), Duration::ZERO, None) != KeptLookup::Unlike;
        assert!(!is_like(9));
        assert!(is_like(10));
        kept.clear();
        assert!(!is_like(10));
    }
}
