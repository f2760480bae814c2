//! The names of a crawl's keys: everything of a partition shares a hash tag, so that a script finds it on one node.

use super::super::TaskId;
use crate::domain::Domain;

/// How many parts the URLs of a crawl are kept in, unless it is told otherwise: a server that stands alone does one thing
/// at a time, and nothing is gained by parts.
pub const PARTITIONS: u16 = 1;

/// The same on a cluster: enough for its nodes to share the work.
pub const CLUSTER_PARTITIONS: u16 = 16;

/// What the names of a crawl's keys begin with, by what they are for.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    /// The name of the crawl.
    pub(super) crawl: String,
    /// URLs, by their domain.
    pub(super) partitions: Vec<String>,
    /// Pages, by their content.
    pub(super) contents: Vec<String>,
    pub(super) budget: String,
    /// Who works on it, and how far it is.
    pub(super) crew: String,
}

impl Keys {
    pub(super) fn new(crawl: &str, partitions: u16) -> Keys {
        let all = |kind: &str| -> Vec<String> {
            (0..partitions).map(|number| format!("crawler:{{{crawl}:{kind}{number}}}:")).collect()
        };
        let partitions = all("p");
        let (contents, budget) = match &partitions[..] {
            // One place for everything: then one script does what would take several.
            [one] => (partitions.clone(), one.clone()),
            _ => (all("c"), format!("crawler:{{{crawl}:budget}}:")),
        };
        Keys { crawl: crawl.to_owned(), partitions, contents, budget, crew: Keys::crew(crawl) }
    }

    /// Who works on a crawl, and how far it is.
    pub(super) fn crew(crawl: &str) -> String {
        format!("crawler:{{{crawl}:crew}}:")
    }

    /// What was agreed on when the crawl was begun.
    pub(super) fn settings(crawl: &str) -> String {
        format!("crawler:{{{crawl}:settings}}:")
    }

    /// What the names of all its keys begin with.
    pub(super) fn all(&self) -> impl Iterator<Item = String> {
        let others = [self.budget.clone(), Keys::settings(&self.crawl), self.crew.clone()];
        self.partitions.iter().chain(&self.contents).cloned().chain(others)
    }

    /// The partition of a domain.
    pub(super) fn of_domain(&self, domain: &Domain) -> usize {
        (hash(domain.as_str().as_bytes()) % self.partitions.len() as u64) as usize
    }

    /// The partition of an outstanding URL.
    pub(super) fn of_ticket(&self, task_id: TaskId) -> usize {
        (task_id.0 % self.partitions.len() as u64) as usize
    }

    /// Where a page is kept that is known by this number.
    pub(super) fn content(&self, number: u64) -> &str {
        &self.contents[(number % self.contents.len() as u64) as usize]
    }
}

/// Whether a crawl can have this name: it stands in the names of keys.
pub fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(allowed)
}

/// FNV-1a: the same on every machine and in every version. Who crafts domains that share a partition slows down
/// nobody but them.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_partition_share_a_tag_and_those_of_a_crawl_a_beginning() {
        let keys = Keys::new("news", 16);
        assert_eq!(keys.partitions[3], "crawler:{news:p3}:");
        let all = keys.partitions.iter().chain(&keys.contents).chain([&keys.budget]);
        assert!(all.clone().all(|key| key.starts_with("crawler:{news:")));
    }

    #[test]
    fn domains_are_spread_over_all_partitions() {
        let keys = Keys::new("news", 16);
        let mut counts = [0; 16];
        for number in 0..16_000 {
            counts[keys.of_domain(&Domain::from_url_str(&format!("http://www.h{number}.test/")))] += 1;
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_name_has_nothing_that_means_something_in_a_key() {
        assert!(is_name("news-2026.10_a"));
        for bad in ["", "a b", "a{b", "a:b", "ä", &"x".repeat(65)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
