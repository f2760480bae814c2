//! The classic crawl's memory: every URL met with its smallest depth, and the queues of this level and the next.

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};
use std::hash::{BuildHasher, RandomState};

use url::Url;

use crate::scope::Refusal;
use crate::task::{Depth, Task};

/// How a URL was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// For the first time: it is queued.
    New,
    /// Again, nearer to the seed than before: it is queued anew, and the farther one will be passed over.
    Nearer,
    /// Again.
    Known,
}

/// URLs to visit, in order of depth.
#[derive(Default)]
pub struct Levels {
    /// A keyed 64-bit hash stands for a URL, so that a million of them fit in a few dozen megabytes and no page
    /// can make two collide.
    depths: HashMap<u64, Depth>,
    key: RandomState,
    depth: Depth,
    this_level: VecDeque<Waiting>,
    next_level: VecDeque<Waiting>,
}

struct Waiting {
    url: Box<str>,
    redirects: u8,
}

impl Levels {
    /// Meets a URL at this level's depth or the next one's; a new one only if the check lets it pass.
    pub fn meet(
        &mut self,
        url: &str,
        depth: Depth,
        redirects: u8,
        check: impl FnOnce() -> Result<(), Refusal>,
    ) -> Result<Met, Refusal> {
        let met = match self.depths.entry(self.key.hash_one(url)) {
            Entry::Vacant(vacant) => {
                check()?;
                vacant.insert(depth);
                Met::New
            }
            Entry::Occupied(mut known) if depth < *known.get() => {
                known.insert(depth);
                Met::Nearer
            }
            Entry::Occupied(_) => Met::Known,
        };
        if met != Met::Known {
            let level = if depth == self.depth { &mut self.this_level } else { &mut self.next_level };
            level.push_back(Waiting { url: url.into(), redirects });
        }
        Ok(met)
    }

    /// The next URL of this level.
    pub fn next(&mut self) -> Option<Task> {
        loop {
            let Waiting { url, redirects } = self.this_level.pop_front()?;
            let nearest = self.depths.get(&self.key.hash_one(&*url));
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

    fn meet(levels: &mut Levels, url: &str, depth: Depth, redirects: u8) -> Met {
        levels.meet(url, depth, redirects, || Ok(())).unwrap()
    }

    #[test]
    fn a_url_that_fails_the_check_is_not_remembered() {
        let mut levels = Levels::default();
        let refused = levels.meet("http://a/", 0, 0, || Err(Refusal::External));
        assert_eq!(refused, Err(Refusal::External));
        assert_eq!(levels.next(), None);
        assert_eq!(meet(&mut levels, "http://a/", 0, 0), Met::New);
    }

    #[test]
    fn a_url_is_visited_once_at_its_smallest_depth() {
        let mut levels = Levels::default();
        assert_eq!(meet(&mut levels, "http://a/", 0, 0), Met::New);
        assert_eq!(levels.next().unwrap().url.as_str(), "http://a/");
        assert_eq!(meet(&mut levels, "http://a/x", 1, 0), Met::New);
        assert_eq!(meet(&mut levels, "http://a/x", 1, 0), Met::Known);
        assert_eq!(meet(&mut levels, "http://a/", 1, 0), Met::Known);
        assert_eq!(meet(&mut levels, "http://a/x", 0, 1), Met::Nearer, "by a redirect of the seed");
        let task = levels.next().unwrap();
        assert_eq!((task.depth, task.redirects), (0, 1));
        assert_eq!(levels.next(), None);
        assert!(levels.descend());
        assert_eq!(levels.next(), None, "it was visited at depth 0");
        assert!(!levels.descend());
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
