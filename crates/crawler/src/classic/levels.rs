//! The classic crawl's memory: every URL met with its smallest depth, and the queues of this level and the next.

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;

use url::Url;

use crate::scope::RejectReason;
use crate::task::{Depth, Task};

/// A shorter beginning than this is not worth a pointer to it.
const WORTH_SHARING: usize = 16;

/// A URL longer than this becomes the one that others share their beginning with.
const LONG: usize = 64;

/// How a URL was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeenStatus {
    /// For the first time: it is queued.
    New,
    /// Again, nearer to the seed than before: it is queued anew, and the farther one will be passed over.
    Shallower,
    /// Again.
    Seen,
}

/// URLs to visit, in order of depth.
pub struct Levels {
    /// A keyed 64-bit hash stands for a URL, so that a million of them fit in a few dozen megabytes and no page
    /// can make two collide.
    depths: HashMap<u64, Depth>,
    key: RandomState,
    depth: Depth,
    this_level: VecDeque<QueuedUrl>,
    next_level: VecDeque<QueuedUrl>,
    /// The last long URL that was queued: those after it mostly begin as it does.
    shared: Rc<str>,
}

/// A URL that waits. A page's relative links can share a beginning of two thousand bytes while each takes ten
/// on the wire, so what they share is kept once.
struct QueuedUrl {
    shared: Rc<str>,
    /// How much of `shared` the URL begins with.
    length: u16,
    rest: Box<str>,
    redirects: u8,
}

impl QueuedUrl {
    fn url(&self) -> String {
        [&self.shared[..usize::from(self.length)], &self.rest].concat()
    }
}

impl Default for Levels {
    fn default() -> Levels {
        Levels {
            depths: HashMap::new(),
            key: RandomState::new(),
            depth: 0,
            this_level: VecDeque::new(),
            next_level: VecDeque::new(),
            shared: "".into(),
        }
    }
}

impl Levels {
    /// Meets a URL at this level's depth or the next one's; a new one only if the check lets it pass.
    pub fn meet(
        &mut self,
        url: &str,
        depth: Depth,
        redirects: u8,
        check: impl FnOnce() -> Result<(), RejectReason>,
    ) -> Result<SeenStatus, RejectReason> {
        let met = match self.depths.entry(self.key.hash_one(url)) {
            Entry::Vacant(vacant) => {
                check()?;
                vacant.insert(depth);
                SeenStatus::New
            }
            Entry::Occupied(mut known) if depth < *known.get() => {
                known.insert(depth);
                SeenStatus::Shallower
            }
            Entry::Occupied(_) => SeenStatus::Seen,
        };
        if met != SeenStatus::Seen {
            let waiting = self.waiting(url, redirects);
            let level = if depth == self.depth { &mut self.this_level } else { &mut self.next_level };
            level.push_back(waiting);
        }
        Ok(met)
    }

    fn waiting(&mut self, url: &str, redirects: u8) -> QueuedUrl {
        let same = self.shared.bytes().zip(url.bytes()).take_while(|(one, other)| one == other).count();
        if same < WORTH_SHARING && url.len() > LONG {
            self.shared = url.into();
            return self.waiting(url, redirects);
        }
        // A normalised URL is ASCII, so it can be cut anywhere.
        let same = if same < WORTH_SHARING || !url.is_char_boundary(same) { 0 } else { same };
        let length = u16::try_from(same).unwrap_or(0);
        let (shared, rest) = (Rc::clone(&self.shared), url[usize::from(length)..].into());
        QueuedUrl { shared, length, rest, redirects }
    }

    /// The next URL of this level.
    pub fn next(&mut self) -> Option<Task> {
        loop {
            let waiting = self.this_level.pop_front()?;
            let (url, redirects) = (waiting.url(), waiting.redirects);
            let nearest = self.depths.get(&self.key.hash_one(url.as_str()));
            // Visited already, at a smaller depth than the one it was queued with here.
            if nearest.is_some_and(|nearest| *nearest < self.depth) {
                continue;
            }
            // What was queued is a normalised URL, which parses.
            if let Ok(url) = Url::parse(&url) {
                return Some(Task { url, depth: self.depth, redirects });
            }
        }
    }

    /// Goes one level deeper; tells whether there is anything there.
    pub fn descend(&mut self) -> bool {
        std::mem::swap(&mut self.this_level, &mut self.next_level);
        self.depth += 1;
        !self.this_level.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meet(levels: &mut Levels, url: &str, depth: Depth, redirects: u8) -> SeenStatus {
        levels.meet(url, depth, redirects, || Ok(())).unwrap()
    }

    #[test]
    fn a_url_that_fails_the_check_is_not_remembered() {
        let mut levels = Levels::default();
        let refused = levels.meet("http://a/", 0, 0, || Err(RejectReason::External));
        assert_eq!(refused, Err(RejectReason::External));
        assert_eq!(levels.next(), None);
        assert_eq!(meet(&mut levels, "http://a/", 0, 0), SeenStatus::New);
    }

    #[test]
    fn a_url_is_visited_once_at_its_smallest_depth() {
        let mut levels = Levels::default();
        assert_eq!(meet(&mut levels, "http://a/", 0, 0), SeenStatus::New);
        assert_eq!(levels.next().unwrap().url.as_str(), "http://a/");
        assert_eq!(meet(&mut levels, "http://a/x", 1, 0), SeenStatus::New);
        assert_eq!(meet(&mut levels, "http://a/x", 1, 0), SeenStatus::Seen);
        assert_eq!(meet(&mut levels, "http://a/", 1, 0), SeenStatus::Seen);
        assert_eq!(meet(&mut levels, "http://a/x", 0, 1), SeenStatus::Shallower, "by a redirect of the seed");
        let task = levels.next().unwrap();
        assert_eq!((task.depth, task.redirects), (0, 1));
        assert_eq!(levels.next(), None);
        assert!(levels.descend());
        assert_eq!(levels.next(), None, "it was visited at depth 0");
        assert!(!levels.descend());
    }

    #[test]
    fn what_urls_share_is_kept_once_and_they_come_out_as_they_went_in() {
        let mut levels = Levels::default();
        let long = "b".repeat(1_900);
        let urls: Vec<String> = (0..1_000)
            .flat_map(|n| {
                [format!("http://a/{long}/{n}"), format!("http://a/{n}"), format!("http://a/{long}?{n}")]
            })
            .collect();
        for url in &urls {
            meet(&mut levels, url, 1, 0);
        }
        let kept: usize = levels.next_level.iter().map(|waiting| waiting.rest.len()).sum();
        assert!(kept < 40_000, "{kept} bytes");
        assert!(levels.descend());
        let order: Vec<String> = std::iter::from_fn(|| levels.next()).map(|task| task.url.into()).collect();
        assert_eq!(order, urls);
    }

    #[test]
    fn urls_come_in_the_order_they_were_met() {
        let mut levels = Levels::default();
        for url in ["http://a/1", "http://a/2", "http://a/3"] {
            meet(&mut levels, url, 1, 0);
        }
        assert!(levels.descend());
        let order: Vec<_> =
            std::iter::from_fn(|| levels.next()).map(|task| task.url.path().to_owned()).collect();
        assert_eq!(order, ["/1", "/2", "/3"]);
    }
}
