//! Seed lists: the seeds of a crawl in few bytes each, because a crawl can have millions of them.
//!
//! A list is read to its end before the crawl starts, since the scope depends on all seeds. The seeds wait in a compressed queue;
//! what the scope and the check of private addresses need of them is kept as hashes.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use hashbrown::HashTable;
use url::Url;

use crate::backend::local::compressed_queue::CompressedUrlQueue;
use crate::backend::local::storage::TaskRef;
use crate::backend::{DiscoveredUrl, TaskId};
use crate::error::Error;
use crate::html::normal_form;
use crate::origin::Origin;
use crate::scope::Scope;
use crate::similarity::HashKey;
use crate::stop::StopHandle;
use crate::strip_query::StripQuery;

/// How many seeds are admitted at a time: enough to share a commit of the state, few enough to hold up nothing.
pub(crate) const BATCH: usize = 5_000;

/// How often the wait for the next seeds of a list is interrupted, to stop the crawl.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// The URLs of a seed list, as they are read.
pub(crate) type SeedUrls = Box<dyn Iterator<Item = Result<Url, Error>> + Send>;

/// The seeds of a crawl that wait for their admission, and the index of those from lists.
pub(crate) struct SpooledSeeds {
    queue: CompressedUrlQueue,
    /// The entries of the index, as they are stored.
    pub(crate) index: Vec<u8>,
}

impl SpooledSeeds {
    /// Reads a list to its end. `first` are the URLs that are admitted before those of the list.
    pub(crate) fn read(
        first: Vec<String>,
        list: Option<SeedUrls>,
        scope: &Scope,
        strip_query: &StripQuery,
        key: HashKey,
        stop: &StopHandle,
    ) -> Result<SpooledSeeds, Error> {
        let mut seeds = SpooledSeeds { queue: CompressedUrlQueue::default(), index: Vec::new() };
        first.iter().for_each(|url| seeds.push(url));
        let mut index = SeedIndex::new(key);
        for url in list.into_iter().flat_map(|list| until_stopped(list, stop.clone())) {
            let mut url = url?;
            if !matches!(url.scheme(), "http" | "https")
                || !url.username().is_empty()
                || url.password().is_some()
            {
                return Err(Error::InvalidSetting(
                    "a seed list has a URL that is not http or https, or has a user name or password; remove it".into(),
                ));
            }
            normal_form::normalize(&mut url).map_err(|bad| {
                Error::InvalidSetting(format!("a seed list has a URL that is {bad}; remove it"))
            })?;
            strip_query.strip_url(&mut url);
            seeds.index.extend(index.add(&url, scope));
            seeds.push(url.as_str());
        }
        Ok(seeds)
    }

    /// One seed, and the entries of the index that it needs.
    pub(crate) fn from_url(url: &str, index: Vec<u8>) -> SpooledSeeds {
        let mut seeds = SpooledSeeds { queue: CompressedUrlQueue::default(), index };
        seeds.push(url);
        seeds
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.len() == 0
    }

    fn push(&mut self, url: &str) {
        let number = TaskId(self.queue.len() as u64);
        self.queue.push(TaskRef { from: TaskId(0), ..TaskRef::new(number, url) });
    }

    /// The next seeds to admit; empty at the end.
    pub(crate) fn next_batch(&mut self) -> Vec<DiscoveredUrl> {
        let next = std::iter::from_fn(|| self.queue.pop()).take(BATCH);
        next.map(|task| DiscoveredUrl { url: task.url.to_string(), depth: 0, redirects: 0 }).collect()
    }
}

/// The URLs of a list up to its end, or until the crawl is stopped. Reading a list can block, so a thread of its own reads it.
fn until_stopped(list: SeedUrls, stop: StopHandle) -> impl Iterator<Item = Result<Url, Error>> {
    let (sender, urls) = mpsc::sync_channel(BATCH);
    let reader = thread::Builder::new().name("seed list".into());
    // If the receiver is gone, the crawl was stopped.
    let started = reader.spawn(move || list.into_iter().try_for_each(|url| sender.send(url)));
    let failed =
        started.err().map(|source| Error::System { action: "start a thread for the seed list", source });
    let mut failed = failed.map(Err);
    std::iter::from_fn(move || {
        loop {
            if stop.is_stop_requested() {
                return None;
            }
            match urls.recv_timeout(STOP_INTERVAL) {
                Ok(url) => return Some(url),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return failed.take(),
            }
        }
    })
}

/// The origins of listed seeds, and their hosts, domains or URL prefixes, as hashes that no page can predict.
#[derive(Clone)]
pub struct SeedIndex {
    key: HashKey,
    hashes: HashTable<u64>,
}

impl SeedIndex {
    fn new(key: HashKey) -> SeedIndex {
        SeedIndex { key, hashes: HashTable::new() }
    }

    /// The index whose entries were stored. `None` if there are none.
    pub(crate) fn from_bytes(key: HashKey, bytes: &[u8]) -> Option<Arc<SeedIndex>> {
        SeedIndex::with_entries(None, key, bytes)
    }

    /// Adds what the scope and the check of private addresses need of a seed, and returns the entries that are new, as they are
    /// stored.
    fn add(&mut self, seed: &Url, scope: &Scope) -> Vec<u8> {
        let entries = [Some(origin_entry(&Origin::from_url(seed))), scope.seed_entry(seed)];
        let hashes = entries.into_iter().flatten().map(|entry| self.hash(&entry));
        let mut hashes: Vec<u64> = hashes.collect();
        hashes.retain(|hash| self.insert(*hash));
        hashes.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// The entries of seeds, as they are stored, for a scope of any kind.
    pub(crate) fn entries(key: HashKey, seeds: &[Url]) -> Vec<u8> {
        let (mut index, mut entries) = (SeedIndex::new(key), Vec::new());
        for scope in [Scope::domains(&[]), Scope::hosts(&[]), Scope::prefixes(&[])] {
            for seed in seeds {
                entries.extend(index.add(seed, &scope));
            }
        }
        entries
    }

    /// The same index with more entries that were stored.
    pub(crate) fn with_entries(
        index: Option<&Arc<SeedIndex>>,
        key: HashKey,
        bytes: &[u8],
    ) -> Option<Arc<SeedIndex>> {
        let mut index = index.map_or_else(|| SeedIndex::new(key), |index| SeedIndex::clone(index));
        for hash in bytes.as_chunks::<8>().0 {
            index.insert(u64::from_le_bytes(*hash));
        }
        (!index.hashes.is_empty()).then(|| Arc::new(index))
    }

    /// The index of the origins of these URLs.
    #[cfg(test)]
    pub(crate) fn from_urls(urls: &[&str]) -> Arc<SeedIndex> {
        let mut index = SeedIndex::new(HashKey::new(7));
        for url in urls {
            let hash = index.hash(&origin_entry(&Origin::from_url(&Url::parse(url).unwrap())));
            index.insert(hash);
        }
        Arc::new(index)
    }

    fn hash(&self, entry: &str) -> u64 {
        self.key.url_id(entry)
    }

    /// Returns whether the hash is new.
    fn insert(&mut self, hash: u64) -> bool {
        let is_new = self.hashes.find(hash, |other| *other == hash).is_none();
        if is_new {
            self.hashes.insert_unique(hash, hash, |hash| *hash);
        }
        is_new
    }

    pub(crate) fn contains(&self, entry: &str) -> bool {
        let hash = self.hash(entry);
        self.hashes.find(hash, |other| *other == hash).is_some()
    }

    /// Whether a seed has this origin.
    pub(crate) fn contains_origin(&self, origin: &Origin) -> bool {
        self.contains(&origin_entry(origin))
    }
}

impl std::fmt::Debug for SeedIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SeedIndex({} entries)", self.hashes.len())
    }
}

/// The entry of an origin. No other entry starts like it.
fn origin_entry(origin: &Origin) -> String {
    format!("origin {origin}/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spool(scope: &Scope, urls: &[&str]) -> Result<SpooledSeeds, Error> {
        let urls: Vec<_> = urls.iter().map(|url| Ok(Url::parse(url).unwrap())).collect();
        let list: SeedUrls = Box::new(urls.into_iter());
        SpooledSeeds::read(
            vec!["http://first.test/".into()],
            Some(list),
            scope,
            &StripQuery::default(),
            HashKey::new(7),
            &StopHandle::new(),
        )
    }

    #[test]
    fn listed_seeds_extend_the_scope_by_their_kind() {
        let base = [Url::parse("http://first.test/").unwrap()];
        let list = ["https://www.a.test/docs/x", "http://b.test/y?z=1"];
        for (scope, inside, outside) in [
            (
                Scope::hosts(&base),
                ["https://www.a.test/q", "http://b.test/"],
                ["https://a.test/", "http://c.test/"],
            ),
            (
                Scope::domains(&base),
                ["https://a.test/q", "http://x.b.test/"],
                ["https://c.test/", "http://d.test/"],
            ),
            (
                Scope::prefixes(&base),
                ["https://www.a.test/docs/x/1?q", "http://b.test/y?z=1&a"],
                ["https://www.a.test/docs/xy", "http://b.test/y"],
            ),
        ] {
            let mut seeds = spool(&scope, &list).unwrap();
            let scope = scope.with_seed_index(SeedIndex::from_bytes(HashKey::new(7), &seeds.index));
            for url in inside.into_iter().chain(list).chain(["http://first.test/"]) {
                assert!(scope.check(url).is_ok(), "{url}");
            }
            for url in outside {
                assert!(scope.check(url).is_err(), "{url}");
            }
            let urls: Vec<String> = seeds.next_batch().into_iter().map(|seed| seed.url).collect();
            assert_eq!(urls, ["http://first.test/", list[0], list[1]]);
            assert!(seeds.next_batch().is_empty());
        }
    }

    #[test]
    fn lists_with_passwords_or_other_schemes_are_refused() {
        for bad in ["http://me:secret@a.test/", "ftp://a.test/"] {
            let error = spool(&Scope::anywhere(), &[bad]).err().unwrap().to_string();
            assert!(error.contains("remove it") && !error.contains("secret"), "{error}");
        }
    }
}
