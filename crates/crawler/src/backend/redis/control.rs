//! A distributed crawl, as all its processes see it: they open it, add seeds to it, and become its frontier or a worker.

use std::sync::Arc;
use std::time::Duration;

use redis::FromRedisValue;

use super::super::{AdmitCounts, BackendError, DiscoveredUrl, Snapshot, WorkerId};
use super::client::RemoteBackend;
use super::connection::{Call, Confirmation, Connection, Persistence};
use super::frontier_process::FrontierProcess;
use super::keys::CrawlKeys;
use super::messages::{Message, encode};
use super::{RedisCrawl, RedisHealth, health, opening, purge};
use crate::backend::local::{BackendConfig, UNLIMITED_TTL, secret};
use crate::modules::output::parts::CrawlIdentity;
use crate::similarity::HashKey;
use crate::statistics::Recorder;

/// A crawl that was stopped can be resumed for at least so long.
const MIN_KEPT: Duration = Duration::from_secs(3600);

/// How long a process that submits seeds waits for the frontier to admit them.
const ADMIT_TIMEOUT: Duration = Duration::from_secs(3);

/// How often it checks.
const ADMIT_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How many bytes of the index of listed seeds are written at a time: a multiple of the size of an entry.
const SEED_INDEX_PART: usize = 1 << 20;

/// How many seeds are sent in one message.
const SEEDS_PER_MESSAGE: usize = 1_000;

/// A distributed crawl.
pub struct CrawlControl {
    pub(super) shared: Arc<Shared>,
    /// For commands that wait for replicas. Heartbeats do not wait for them.
    confirming: Connection,
}

/// What the operations on a crawl need.
pub(super) struct Shared {
    pub(super) place: RedisCrawl,
    pub(super) connection: Connection,
    pub(super) keys: CrawlKeys,
    pub(super) settings: BackendConfig,
    pub(super) key: HashKey,
    /// What must confirm changes that no process can repeat.
    pub(super) confirmation: Confirmation,
}

impl CrawlControl {
    /// Begins a crawl, or joins the one of this name. Then the settings must be the same, except for the number of workers
    /// and larger budgets.
    pub async fn open(place: RedisCrawl, settings: BackendConfig) -> Result<CrawlControl, BackendError> {
        Ok(CrawlControl::new(opening::open(place, settings).await?))
    }

    /// Looks at a crawl that exists, to show its status or to stop it.
    pub async fn attach(place: RedisCrawl) -> Result<CrawlControl, BackendError> {
        Ok(CrawlControl::new(opening::attach(place).await?))
    }

    fn new(shared: Shared) -> CrawlControl {
        CrawlControl { confirming: shared.connection.beside(), shared: Arc::new(shared) }
    }

    /// Removes everything of a crawl, whatever state it is in, and returns how many keys that were.
    pub async fn purge(place: &RedisCrawl) -> Result<u64, BackendError> {
        purge::purge(&place.connect().await?, &place.crawl).await
    }

    /// The settings with which the crawl was started. The number of workers is not known.
    pub fn settings(&self) -> &BackendConfig {
        &self.shared.settings
    }

    /// Takes over the crawl's frontier. Earlier frontiers can change nothing any more.
    pub async fn take_over(&self) -> Result<FrontierProcess, BackendError> {
        FrontierProcess::take_over(&self.shared).await
    }

    /// The backend of a worker of this number, which joined at a time by Redis's clock.
    pub fn join_as_worker(&self, worker: WorkerId, joined_at: u64) -> RemoteBackend {
        RemoteBackend::join(&self.shared, worker, joined_at)
    }

    /// Distinguishes this crawl from all others, also from those of the same name.
    pub fn identity(&self) -> CrawlIdentity {
        let id = format!("{:016x}", self.shared.key.short_url_id("the crawl itself"));
        CrawlIdentity { name: self.shared.place.crawl.clone(), id }
    }

    /// The name of the crawl, and where Redis is, without user name and password.
    pub fn name_and_address(&self) -> (&str, &str) {
        (&self.shared.place.crawl, self.shared.connection.address())
    }

    /// What the server may lose of the crawl, if anything.
    pub async fn durability_warning(&self) -> Result<Option<String>, BackendError> {
        let address = self.shared.connection.address();
        Ok(match self.shared.connection.persistence().await? {
            Persistence::AppendOnlyFile | Persistence::Unknown => None,
            Persistence::Nothing => Some(format!(
                "Redis at {address} has neither an append-only file nor snapshots: if Redis stops, the crawl is lost; set \
                 appendonly to yes"
            )),
            Persistence::Snapshots => Some(format!(
                "Redis at {address} has no append-only file (appendonly is no): if Redis stops, what the crawl did since \
                 the last snapshot is lost; set appendonly to yes"
            )),
        })
    }

    /// Round trips and commands so far, with those of a frontier and workers of this crawl in the same process.
    pub fn traffic(&self) -> (u64, u64) {
        self.shared.connection.traffic()
    }

    /// Records the round trips to Redis of this process.
    pub(crate) fn recorder(&self) -> &Recorder {
        self.shared.connection.recorder()
    }

    /// The state of Redis itself.
    pub async fn health(&self) -> Result<RedisHealth, BackendError> {
        health::health(&self.shared.connection).await
    }

    /// Counts and queue lengths, as the frontier has last written them.
    pub async fn snapshot(&self) -> Result<Snapshot, BackendError> {
        load_snapshot(&self.shared.connection, &self.shared.keys).await
    }

    /// The key of all URL IDs of this crawl.
    pub(crate) fn hash_key(&self) -> HashKey {
        self.shared.key
    }

    /// Adds entries to the index of listed seeds.
    pub(crate) async fn extend_seed_index(&self, entries: &[u8]) -> Result<(), BackendError> {
        for entries in entries.chunks(SEED_INDEX_PART) {
            let append = Call::new("APPEND", self.shared.keys.of("seed-index")).arg(entries);
            // If the command is repeated, the index has some entries twice.
            self.confirmed::<u64>(append).await?;
        }
        Ok(())
    }

    /// The index of listed seeds.
    pub(crate) async fn seed_index(&self) -> Result<Vec<u8>, BackendError> {
        let get = Call::new("GET", self.shared.keys.of("seed-index"));
        Ok(self.ask::<Option<Vec<u8>>>(get).await?.unwrap_or_default())
    }

    /// Sends seeds to the frontier. Returns how many were new, unless `is_waiting` is false or no frontier admits them in
    /// time: then they wait for one.
    pub async fn add_seeds(
        &self,
        seeds: &[DiscoveredUrl],
        is_waiting: bool,
    ) -> Result<Option<AdmitCounts>, BackendError> {
        let mut replies = Vec::new();
        for seeds in seeds.chunks(SEEDS_PER_MESSAGE) {
            let reply = secret() as u64;
            let message = encode(&Message::Seeds(reply, seeds.to_vec()));
            let add = Call::new("XADD", self.shared.keys.messages()).arg("*").arg("m").arg(message);
            // If the command is repeated, the seeds are in the seen set already.
            self.confirmed::<String>(add).await?;
            replies.push(reply);
        }
        let admitted = async {
            let mut counts = AdmitCounts::default();
            for reply in replies {
                let AdmitCounts { new, seen } = self.admitted(reply).await?;
                counts = AdmitCounts { new: counts.new + new, seen: counts.seen + seen };
            }
            Ok(counts)
        };
        match is_waiting {
            true => tokio::time::timeout(ADMIT_TIMEOUT, admitted).await.ok().transpose(),
            false => Ok(None),
        }
    }

    /// Waits until a frontier has admitted seeds.
    async fn admitted(&self, reply: u64) -> Result<AdmitCounts, BackendError> {
        loop {
            let get = Call::new("HMGET", self.shared.keys.seeds(reply)).arg("new").arg("seen");
            if let (Some(new), Some(seen)) = self.ask::<(Option<u64>, Option<u64>)>(get).await? {
                return Ok(AdmitCounts { new, seen });
            }
            tokio::time::sleep(ADMIT_POLL_INTERVAL).await;
        }
    }

    /// Lets everything of a crawl that has ended expire, apart from its report and settings. Until then it can be resumed.
    pub(super) async fn let_expire(&self) -> Result<(), BackendError> {
        let ttl = self.shared.settings.ttl.max(MIN_KEPT);
        if ttl >= UNLIMITED_TTL {
            return Ok(());
        }
        let milliseconds = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX >> 12);
        self.for_state_keys(|key| Call::new("PEXPIRE", key).arg(milliseconds)).await
    }

    /// Keeps everything of a crawl that continues.
    pub(super) async fn keep(&self) -> Result<(), BackendError> {
        self.for_state_keys(|key| Call::new("PERSIST", key)).await
    }

    async fn for_state_keys(&self, call: impl Fn(String) -> Call) -> Result<(), BackendError> {
        let workers = self.snapshot().await?.workers.len();
        let calls = self.shared.keys.state(workers).map(call).collect();
        self.shared.connection.all::<u8>(calls).await.map(drop)
    }

    pub(super) async fn ask<T: FromRedisValue>(&self, call: Call) -> Result<T, BackendError> {
        self.shared.connection.one(call).await
    }

    /// Runs a command whose effect no process can repeat, and waits until replicas have what it wrote.
    pub(super) async fn confirmed<T: FromRedisValue>(&self, call: Call) -> Result<T, BackendError> {
        self.confirming.confirmed(call, self.shared.confirmation).await
    }
}

/// Counts and queue lengths, as the frontier has last written them.
pub(super) async fn load_snapshot(
    connection: &Connection,
    keys: &CrawlKeys,
) -> Result<Snapshot, BackendError> {
    let status: Option<Vec<u8>> = connection.one(Call::new("GET", keys.of("status"))).await?;
    Ok(status.and_then(|status| serde_json::from_slice(&status).ok()).unwrap_or_default())
}
