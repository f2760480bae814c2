//! The frontier of a classic crawl: the smallest depth of each seen URL, and the queues of this level and the next.

use std::collections::hash_map::{Entry, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use url::Url;

use crate::backend::TaskId;
use crate::backend::local::compressed_queue::CompressedUrlQueue;
use crate::backend::local::storage::{QueuedTask, TaskRef};
use crate::scope::RejectReason;
use crate::task::{Admission, Depth, Task};

/// Whether a URL was seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkStatus {
    /// It is new, and is queued.
    New,
    /// It was seen at a larger depth. It is queued again, and the deeper entry will be skipped.
    Shallower,
    /// It was seen at this depth or a smaller one.
    Seen,
}

/// The URLs to fetch, in order of depth.
pub struct Levels {
    /// Depths by a keyed 64-bit hash of the URL: a million URLs take a few dozen megabytes, and no page can craft
    /// collisions.
    depths: HashMap<u64, Depth>,
    key: RandomState,
    depth: Depth,
    /// Compressed: a page's relative links can share a prefix of two thousand bytes while each takes ten bytes on the page.
    this_level: CompressedUrlQueue,
    next_level: CompressedUrlQueue,
}

impl Default for Levels {
    fn default() -> Levels {
        Levels {
            depths: HashMap::new(),
            key: RandomState::new(),
            depth: 0,
            this_level: CompressedUrlQueue::default(),
            next_level: CompressedUrlQueue::default(),
        }
    }
}

impl Levels {
    /// Queues a URL for this level or the next, if it is new and passes the check, or if it was seen at a larger depth.
    pub fn mark_seen(
        &mut self,
        url: &str,
        depth: Depth,
        redirects: u8,
        admission: Option<&Arc<Admission>>,
        check: impl FnOnce() -> Result<(), RejectReason>,
    ) -> Result<LinkStatus, RejectReason> {
        let status = match self.depths.entry(self.key.hash_one(url)) {
            Entry::Vacant(vacant) => {
                check()?;
                vacant.insert(depth);
                LinkStatus::New
            }
            Entry::Occupied(mut seen) if depth < *seen.get() => {
                seen.insert(depth);
                LinkStatus::Shallower
            }
            Entry::Occupied(_) => LinkStatus::Seen,
        };
        if status != LinkStatus::Seen {
            let level = if depth == self.depth { &mut self.this_level } else { &mut self.next_level };
            level.push(TaskRef {
                task_id: TaskId(0),
                from: TaskId(0),
                url,
                depth,
                redirects,
                is_refetch: false,
                was_visited: false,
                queued_at: admission.map_or(0, |admission| admission.queued_at),
                source_link: None,
                discovery: admission.and_then(|admission| admission.discovery.as_ref()),
            });
        }
        Ok(status)
    }

    /// The next URL of this level.
    pub fn next(&mut self) -> Option<Task> {
        loop {
            let QueuedTask { url, redirects, queued_at, discovery, .. } = self.this_level.pop()?;
            let smallest = self.depths.get(&self.key.hash_one(&*url));
            // It was fetched already, at a smaller depth.
            if smallest.is_some_and(|smallest| *smallest < self.depth) {
                continue;
            }
            // A queued URL is normalized, so it parses.
            if let Ok(url) = Url::parse(&url) {
                let admission = (queued_at > 0).then(|| Arc::new(Admission { discovery, queued_at }));
                return Some(Task { url, depth: self.depth, redirects, admission });
            }
        }
    }

    /// Starts the next level; returns whether it has any URLs.
    pub fn descend(&mut self) -> bool {
        std::mem::swap(&mut self.this_level, &mut self.next_level);
        self.depth += 1;
        self.this_level.len() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark_seen(levels: &mut Levels, url: &str, depth: Depth, redirects: u8) -> LinkStatus {
        levels.mark_seen(url, depth, redirects, None, || Ok(())).unwrap()
    }

    #[test]
    fn a_url_that_fails_the_check_is_not_marked_as_seen() {
        let mut levels = Levels::default();
        let rejected = levels.mark_seen("http://a/", 0, 0, None, || Err(RejectReason::External));
        assert_eq!(rejected, Err(RejectReason::External));
        assert_eq!(levels.next(), None);
        assert_eq!(mark_seen(&mut levels, "http://a/", 0, 0), LinkStatus::New);
    }

    #[test]
    fn a_url_is_fetched_once_at_its_smallest_depth() {
        let mut levels = Levels::default();
        assert_eq!(mark_seen(&mut levels, "http://a/", 0, 0), LinkStatus::New);
        assert_eq!(levels.next().unwrap().url.as_str(), "http://a/");
        assert_eq!(mark_seen(&mut levels, "http://a/x", 1, 0), LinkStatus::New);
        assert_eq!(mark_seen(&mut levels, "http://a/x", 1, 0), LinkStatus::Seen);
        assert_eq!(mark_seen(&mut levels, "http://a/", 1, 0), LinkStatus::Seen);
        assert_eq!(
            mark_seen(&mut levels, "http://a/x", 0, 1),
            LinkStatus::Shallower,
            "by a redirect of the seed"
        );
        let task = levels.next().unwrap();
        assert_eq!((task.depth, task.redirects), (0, 1));
        assert_eq!(levels.next(), None);
        assert!(levels.descend());
        assert_eq!(levels.next(), None, "it was visited at depth 0");
        assert!(!levels.descend());
    }

    #[test]
    fn urls_are_fetched_in_the_order_of_discovery() {
        let mut levels = Levels::default();
        for url in ["http://a/1", "http://a/2", "http://a/3"] {
            mark_seen(&mut levels, url, 1, 0);
        }
        assert!(levels.descend());
        let order: Vec<_> =
            std::iter::from_fn(|| levels.next()).map(|task| task.url.path().to_owned()).collect();
        assert_eq!(order, ["/1", "/2", "/3"]);
    }
}
