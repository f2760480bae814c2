//! The set of nodes of a graph, part by part, in bounded memory.
//!
//! A part is a range of hashes. While nodes are added, the range shrinks whenever the set is full; what is beyond it belongs to a
//! later part.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

/// The bits next to a hash that count the records of a URL of the crawl. It has several if its request was repeated later.
const RECORDS: u128 = 0xffff;

/// The nodes of the current part that were added and not taken yet.
pub(super) struct NodeSet {
    /// Keyed: otherwise a page could have links whose hashes are equal.
    hashers: [RandomState; 2],
    /// A hash of 112 bits for each node, shifted for [`RECORDS`]: 0 for a node that is only the target of edges.
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

    /// Adds a record of a URL of the crawl.
    pub(super) fn add_crawled(&mut self, url: &str) {
        self.add(self.hash(url), 1);
    }

    /// Adds the target of an edge.
    pub(super) fn add_target(&mut self, url: &str) {
        self.add(self.hash(url), 0);
    }

    /// Takes a record of a URL of the crawl, and returns whether it is the last one. The node is removed then.
    pub(super) fn take_crawled(&mut self, url: &str) -> bool {
        let hash = self.hash(url);
        let is_node = |node: &u128| node & !RECORDS == hash && node & RECORDS != 0;
        let Ok(mut node) = self.hashes.find_entry(slot(hash), is_node) else { return false };
        *node.get_mut() -= 1;
        let is_last = *node.get() == hash;
        if is_last {
            node.remove();
        }
        is_last
    }

    /// Removes the target of an edge, and returns whether it was there and is not a URL of the crawl.
    pub(super) fn take_target(&mut self, url: &str) -> bool {
        let hash = self.hash(url);
        self.hashes.find_entry(slot(hash), |node| *node == hash).is_ok_and(|node| {
            node.remove();
            true
        })
    }

    fn hash(&self, url: &str) -> u128 {
        let [high, low] = &self.hashers;
        (u128::from(high.hash_one(url)) << 64 | u128::from(low.hash_one(url))) & !RECORDS
    }

    fn add(&mut self, hash: u128, records: u128) {
        let Some((first, mut last)) = self.part else { return };
        if !(first..=last).contains(&hash) {
            return;
        }
        let entry = self.hashes.entry(slot(hash), |node| node & !RECORDS == hash, |node| slot(*node));
        let mut entry = entry.or_insert(hash);
        let node = entry.get_mut();
        *node = hash | (*node & RECORDS).saturating_add(records).min(RECORDS);
        while self.hashes.len() > self.max_nodes {
            last = (first + (last - first) / 2) | RECORDS;
            self.hashes.retain(|node| *node <= last);
            self.part = Some((first, last));
        }
    }
}

/// The bits of a hash that choose its place in the table: not the highest ones, which are similar within a part.
fn slot(node: u128) -> u64 {
    (node >> RECORDS.count_ones()) as u64
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
                    // Every sixth URL has two records.
                    for _ in 0..[2, 0, 0, 1, 0, 0][number % 6] {
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
