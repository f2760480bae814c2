//! The set of nodes of a graph, part by part, in bounded memory.
//!
//! A part is a range of hashes. While nodes are added, the range shrinks whenever the set is full; what is beyond it belongs to a
//! later part.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

/// Set in the hash of a URL of the crawl.
const CRAWLED: u128 = 1;

/// The nodes of the current part that were added and not taken yet.
pub(super) struct NodeSet {
    /// Keyed: otherwise a page could have links whose hashes are equal.
    hashers: [RandomState; 2],
    /// A hash of 127 bits for each node, shifted for [`CRAWLED`].
    hashes: HashTable<u128>,
    max_nodes: usize,
    /// The hashes of the current part: from the first to the second, inclusive.
    part: Option<(u128, u128)>,
}

impl NodeSet {
    /// An empty set for this many nodes.
    pub(super) fn new(max_nodes: usize) -> NodeSet {
        let hashers = [RandomState::new(), RandomState::new()];
        NodeSet { hashers, hashes: HashTable::new(), max_nodes, part: None }
    }

    /// Starts the next part, and returns false if there is none. All nodes are to be added once, then taken.
    pub(super) fn start_next_part(&mut self) -> bool {
        self.hashes.clear();
        let first = match self.part {
            None => 0,
            Some((_, u128::MAX)) => return false,
            Some((_, last)) => last + 1,
        };
        self.part = Some((first, u128::MAX));
        true
    }

    /// Adds a URL of the crawl.
    pub(super) fn add_crawled(&mut self, url: &str) {
        self.add(self.hash(url) | CRAWLED);
    }

    /// Adds the target of an edge.
    pub(super) fn add_target(&mut self, url: &str) {
        self.add(self.hash(url));
    }

    /// Removes a URL of the crawl, and returns whether it was there.
    pub(super) fn take_crawled(&mut self, url: &str) -> bool {
        self.take(self.hash(url) | CRAWLED)
    }

    /// Removes the target of an edge, and returns whether it was there and is not a URL of the crawl.
    pub(super) fn take_target(&mut self, url: &str) -> bool {
        self.take(self.hash(url))
    }

    fn hash(&self, url: &str) -> u128 {
        let [high, low] = &self.hashers;
        (u128::from(high.hash_one(url)) << 64 | u128::from(low.hash_one(url))) & !CRAWLED
    }

    fn add(&mut self, node: u128) {
        let Some((first, last)) = self.part else { return };
        if !(first..=last).contains(&node) {
            return;
        }
        let entry =
            self.hashes.entry(slot(node), |other| other & !CRAWLED == node & !CRAWLED, |it| slot(*it));
        *entry.or_insert(node).get_mut() |= node & CRAWLED;
        let mut last = last;
        while self.hashes.len() > self.max_nodes {
            last = (first + (last - first) / 2) | CRAWLED;
            self.hashes.retain(|node| *node <= last);
            self.part = Some((first, last));
        }
    }

    fn take(&mut self, node: u128) -> bool {
        self.hashes.find_entry(slot(node), |other| *other == node).is_ok_and(|entry| {
            entry.remove();
            true
        })
    }
}

/// The bits of a hash that choose its place in the table: not the highest ones, which are similar within a part.
fn slot(node: u128) -> u64 {
    (node >> 1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_is_taken_once_and_the_set_stays_small() {
        let urls: Vec<String> = (0..1000).map(|number| format!("http://a.test/{number}")).collect();
        for max_nodes in [1, 2, 7, 100, 999, 1000, 2000] {
            let mut nodes = NodeSet::new(max_nodes);
            let (mut crawled, mut targets, mut parts) = (0, 0, 0);
            while nodes.start_next_part() {
                parts += 1;
                for (number, url) in urls.iter().enumerate() {
                    nodes.add_target(url);
                    if number % 3 == 0 {
                        nodes.add_crawled(url);
                    }
                    assert!(nodes.hashes.len() <= max_nodes);
                }
                for url in urls.iter().chain(&urls) {
                    crawled += usize::from(nodes.take_crawled(url));
                    targets += usize::from(nodes.take_target(url));
                }
                assert!(nodes.hashes.is_empty());
            }
            assert_eq!((crawled, targets), (334, 666), "{max_nodes}");
            assert!(parts >= 1000 / max_nodes && (parts == 1) == (max_nodes >= 1000), "{parts} {max_nodes}");
        }
    }
}
