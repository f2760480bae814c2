//! The names of a crawl's keys.

use super::super::WorkerId;

/// The names of the keys of a crawl, which `README.md` lists.
#[derive(Debug, Clone)]
pub(super) struct CrawlKeys {
    crawl: String,
    pub(super) base: String,
    /// The base of the keys of its members and phases.
    pub(super) members: String,
    /// The base of the keys of its settings.
    pub(super) settings: String,
}

/// The keys of the frontier's state, apart from what a report needs.
const STATE: [&str; 15] = [
    "urls",
    "tasks",
    "leases",
    "depths",
    "completed",
    "reasons",
    "pages",
    "hosts",
    "domains",
    "lastmods",
    "seed-index",
    "sessions",
    "applied",
    "epoch",
    "batch",
];

/// In how many parts a cluster spreads page bodies over its nodes.
const BODY_PARTS: u64 = 16;

impl CrawlKeys {
    pub(super) fn new(crawl: &str) -> CrawlKeys {
        let base = |part: &str| format!("crawler:{{{crawl}:{part}}}:");
        CrawlKeys {
            crawl: crawl.to_owned(),
            base: base("frontier"),
            members: base("members"),
            settings: base("settings"),
        }
    }

    pub(super) fn of(&self, name: &str) -> String {
        format!("{}{name}", self.base)
    }

    /// A key of the members and phases.
    pub(super) fn of_members(&self, name: &str) -> String {
        format!("{}{name}", self.members)
    }

    /// The stream that a worker reads.
    pub(super) fn replies(&self, WorkerId(worker): WorkerId) -> String {
        self.of(&format!("queue:{worker}"))
    }

    /// All keys of the frontier's state, with `workers` workers, that expire after the end of the crawl.
    pub(super) fn state(&self, workers: usize) -> impl Iterator<Item = String> {
        let queues = (0..workers).map(|worker| self.of(&format!("queue:{worker}")));
        STATE.iter().map(|name| self.of(name)).chain(queues)
    }

    /// How many seeds of a message were new.
    pub(super) fn seeds(&self, reply: u64) -> String {
        self.of(&format!("seeds:{reply:x}"))
    }

    /// A pattern of the names of all keys of the crawl, and of no other.
    pub(super) fn pattern(&self) -> String {
        format!("crawler:{{{}:*", self.crawl)
    }

    /// The body of a page, by the ID of its URL.
    pub(super) fn body(&self, id: u64) -> String {
        format!("crawler:{{{}:c{}}}:body:{id:x}", self.crawl, id % BODY_PARTS)
    }

    /// A robots.txt, by its URL.
    pub(super) fn robots(&self, url: &str) -> String {
        format!("crawler:{{{}:c{}}}:robots:{url}", self.crawl, hash(url.as_bytes()) % BODY_PARTS)
    }
}

/// Whether a crawl can have this name: it stands in the names of keys.
pub fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(allowed)
}

/// FNV-1a: the same on every machine and in every version.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_state_share_a_hash_tag_and_all_keys_a_pattern() {
        let keys = CrawlKeys::new("news");
        assert_eq!(keys.of("tasks"), "crawler:{news:frontier}:tasks");
        assert!(keys.state(2).all(|key| key.starts_with(&keys.base)));
        let pattern = keys.pattern();
        let all = [keys.body(7), keys.robots("http://a/robots.txt"), keys.seeds(3), keys.members];
        assert!(all.iter().all(|key| key.starts_with(pattern.trim_end_matches('*'))));
    }

    #[test]
    fn a_name_has_nothing_that_means_something_in_a_key() {
        assert!(is_name("news-2026.10_a"));
        for bad in ["", "a b", "a{b", "a:b", "ä", &"x".repeat(65)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
