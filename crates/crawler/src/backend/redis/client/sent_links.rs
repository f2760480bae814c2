//! The links that a worker has sent to the frontier. Most links of a page are on other pages of its site too, and are not sent
//! again.

use hashbrown::HashTable;

use crate::backend::Outlinks;
use crate::similarity::HashKey;
use crate::task::Depth;

/// When there are this many links, which take some 24 bytes each, they are forgotten.
const MAX_LINKS: usize = 1_000_000;

/// The IDs of links that are in the seen set, with the smallest depth at which they were sent.
#[derive(Default)]
pub(super) struct SentLinks(HashTable<(u64, Depth)>);

impl SentLinks {
    /// Keeps those outlinks that are to be sent, and counts the others. Returns the IDs of those to send.
    pub(super) fn filter(&self, outlinks: &mut Outlinks, key: HashKey) -> Vec<u64> {
        let (urls, source_links) =
            (std::mem::take(&mut outlinks.urls), std::mem::take(&mut outlinks.source_links));
        let (mut ids, mut source_links) = (Vec::new(), source_links.into_iter());
        for url in urls.iter() {
            let (id, source_link) = (key.url_id(url), source_links.next());
            if self.0.find(id, |(other, sent)| *other == id && *sent <= outlinks.depth).is_some() {
                outlinks.seen += 1;
                continue;
            }
            outlinks.urls.push(url);
            outlinks.source_links.extend(source_link);
            ids.push(id);
        }
        ids
    }

    /// Adds links that the frontier has admitted or found in its seen set.
    pub(super) fn add(&mut self, ids: Vec<u64>, depth: Depth) {
        if self.0.len() + ids.len() > MAX_LINKS {
            self.0.clear();
        }
        for id in ids {
            match self.0.find_mut(id, |(other, _)| *other == id) {
                Some((_, sent)) => *sent = depth.min(*sent),
                None => drop(self.0.insert_unique(id, (id, depth), |(id, _)| *id)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_is_sent_again_at_a_smaller_depth_only() {
        let (mut sent, key) = (SentLinks::default(), HashKey::new(7));
        for (depth, expected, seen) in [(3, 2, 0), (3, 0, 2), (4, 0, 2), (1, 2, 0), (2, 0, 2)] {
            let mut outlinks = Outlinks::new(["http://a/", "http://b/"], depth);
            let ids = sent.filter(&mut outlinks, key);
            assert_eq!(
                (outlinks.urls.len(), ids.len(), outlinks.seen),
                (expected, expected, seen),
                "{depth}"
            );
            sent.add(ids, depth);
        }
        sent = SentLinks::default();
        assert_eq!(sent.filter(&mut Outlinks::new(["http://a/"], 9), key).len(), 1);
    }
}
