//! A distributed crawl, as all its processes see it: they open it, add seeds to it, and become its frontier or a worker.

use std::sync::Arc;
use std::time::Duration;

use redis::FromRedisValue;

use super::super::{AdmitCounts, BackendError, DiscoveredUrl, Snapshot, WorkerId};
use super::Result;
use super::client::RemoteBackend;
use super::connection::{Call, Confirmation, Persistence, RedisConnection};
use super::data::CrawlData;
use super::frontier_process::FrontierProcess;
use super::members::Phase;
use super::messages::{Message, encode};
use super::{RedisCrawl, RedisHealth, health, opening};
use crate::backend::local::{BackendConfig, UNLIMITED_TTL, secret};
use crate::error::StorageErrorKind;
use crate::live_settings::LiveSettings;
use crate::modules::output::parts::CrawlIdentity;
use crate::similarity::HashKey;
use crate::statistics::Recorder;

/// A crawl that was stopped can be resumed for at least this time.
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
pub struct DistributedCrawl {
    pub(super) shared: Arc<OpenedCrawl>,
    /// For commands that wait for replicas. Heartbeats do not wait for them.
    confirming: RedisConnection,
}

/// What the operations on a crawl need.
pub(super) struct OpenedCrawl {
    pub(super) redis_crawl: RedisCrawl,
    pub(super) data: CrawlData,
    pub(super) settings: BackendConfig,
    pub(super) key: HashKey,
    /// What must confirm changes that no process can repeat.
    pub(super) confirmation: Confirmation,
}

/// Whether a change was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// It was.
    Yes,
    /// Another process has changed something since the version that was given.
    Outdated,
    /// The crawl is not running.
    Over,
}

impl DistributedCrawl {
    /// Begins a crawl, or joins the one of this name. Then the settings must be the same, except for the number of workers
    /// and larger budgets.
    pub async fn open(redis_crawl: RedisCrawl, settings: BackendConfig) -> Result<DistributedCrawl> {
        Ok(DistributedCrawl::new(opening::open(redis_crawl, settings, true).await?))
    }

    /// Joins the crawl of this name. An error if Redis does not have it.
    pub async fn open_existing(redis_crawl: RedisCrawl, settings: BackendConfig) -> Result<DistributedCrawl> {
        Ok(DistributedCrawl::new(opening::open(redis_crawl, settings, false).await?))
    }

    /// Looks at a crawl that exists, to show its status or to stop it.
    pub async fn attach(redis_crawl: RedisCrawl) -> Result<DistributedCrawl> {
        Ok(DistributedCrawl::new(opening::attach(redis_crawl).await?))
    }

    fn new(shared: OpenedCrawl) -> DistributedCrawl {
        DistributedCrawl { confirming: shared.data.connection.another(), shared: Arc::new(shared) }
    }

    /// Removes everything of a crawl, whatever state it is in, and returns how many keys that were.
    pub async fn purge(redis_crawl: &RedisCrawl) -> Result<u64> {
        redis_crawl.connect().await?.purge(false).await
    }

    /// The same for a crawl whose members have just left it. Its controller is no member, and learns from a marker that the crawl was
    /// purged.
    pub async fn purge_stopped(redis_crawl: &RedisCrawl) -> Result<u64> {
        redis_crawl.connect().await?.purge(true).await
    }

    /// The settings with which the crawl was started. The number of workers is not known.
    pub fn settings(&self) -> &BackendConfig {
        &self.shared.settings
    }

    /// Takes over the crawl's frontier. Earlier frontiers can change nothing any more.
    pub async fn take_over(&self) -> Result<Arc<FrontierProcess>> {
        FrontierProcess::take_over(&self.shared).await
    }

    /// The backend of a worker of this number, which joined at a time by Redis's clock.
    pub fn join_as_worker(&self, worker: WorkerId, joined_at: u64) -> RemoteBackend {
        RemoteBackend::join(&self.shared, worker, joined_at)
    }

    /// Distinguishes this crawl from all others, also from those of the same name.
    pub fn identity(&self) -> CrawlIdentity {
        let id = format!("{:016x}", self.shared.key.short_url_id("the crawl itself"));
        CrawlIdentity { name: self.shared.redis_crawl.crawl.clone(), id }
    }

    /// The name of the crawl, and where Redis is, without user name and password.
    pub fn name_and_address(&self) -> (&str, &str) {
        (&self.shared.redis_crawl.crawl, self.shared.data.connection.address())
    }

    /// What the server may lose of the crawl, if anything.
    pub async fn durability_warning(&self) -> Result<Option<String>> {
        let address = self.shared.data.connection.address();
        Ok(match self.shared.data.connection.persistence().await? {
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
        self.shared.data.connection.traffic()
    }

    /// Records the round trips to Redis of this process.
    pub(crate) fn recorder(&self) -> &Recorder {
        self.shared.data.connection.recorder()
    }

    /// The state of Redis itself.
    pub async fn health(&self) -> Result<RedisHealth> {
        health::health(&self.shared.data.connection).await
    }

    /// Counts and queue lengths, as the frontier has last written them.
    pub async fn snapshot(&self) -> Result<Snapshot> {
        self.shared.data.snapshot().await
    }

    /// The key of all URL IDs of this crawl.
    pub(crate) fn hash_key(&self) -> HashKey {
        self.shared.key
    }

    /// Adds entries to the index of listed seeds.
    pub(crate) async fn extend_seed_index(&self, entries: &[u8]) -> Result<()> {
        for entries in entries.chunks(SEED_INDEX_PART) {
            let append = self.shared.data.call("APPEND", "seed-index").arg(entries);
            // If the command is repeated, the index has some entries twice.
            self.confirmed::<u64>(append).await?;
        }
        Ok(())
    }

    /// The index of listed seeds.
    pub(crate) async fn seed_index(&self) -> Result<Vec<u8>> {
        self.seed_index_after(0).await
    }

    /// What was changed, and its version.
    pub async fn live_settings(&self) -> Result<(u64, LiveSettings)> {
        let get = self.member_call("HMGET", "crawl").arg("live").arg("changes");
        let (version, changes): (Option<u64>, Option<Vec<u8>>) = self.ask(get).await?;
        let settings = changes.map(|changes| serde_json::from_slice(&changes)).transpose();
        // With the defaults in their place, a paused crawl would continue.
        let settings = settings.map_err(|error| {
            let message = format!(
                "cannot read what was changed in the crawl: {error}; use the version of crawler that changed it"
            );
            BackendError::redis(StorageErrorKind::Unsupported, message)
        })?;
        Ok((version.unwrap_or(0), settings.unwrap_or_default()))
    }

    /// Stores what was changed, if this is the version of what was changed before.
    pub(crate) async fn set_live_settings(&self, version: u64, settings: &LiveSettings) -> Result<Stored> {
        let settings = serde_json::to_vec(settings)
            .map_err(|error| BackendError::redis(StorageErrorKind::Internal, error.to_string()))?;
        let version = if version == 0 { String::new() } else { version.to_string() };
        loop {
            let phase = match self.members().await?.1.phase {
                Phase::Seeding => "seeding",
                Phase::Running => "running",
                _ => return Ok(Stored::Over),
            };
            let key = self.key("crawl");
            let write = self.if_crawl("phase", phase).condition(("HGET", &key, "live"), &version);
            let write = write.write(("HSET", &key, "changes", &settings)).write(("HINCRBY", &key, "live", 1));
            match self.confirmed(write.call(&self.shared.data.keys.members)).await? {
                0 => return Ok(Stored::Yes),
                // The phase has just changed.
                1 => {}
                _ => return Ok(Stored::Outdated),
            }
        }
    }

    /// The entries of the index of listed seeds after the first `bytes` bytes.
    pub(crate) async fn seed_index_after(&self, bytes: usize) -> Result<Vec<u8>> {
        self.ask(self.shared.data.call("GETRANGE", "seed-index").arg((bytes, -1))).await
    }

    /// Sends seeds to the frontier. Returns how many were new, unless `is_waiting` is false or no frontier admits them in
    /// time: then they wait for one.
    pub async fn add_seeds(&self, seeds: &[DiscoveredUrl], is_waiting: bool) -> Result<Option<AdmitCounts>> {
        let mut replies = Vec::new();
        for seeds in seeds.chunks(SEEDS_PER_MESSAGE) {
            let reply = secret() as u64;
            let message = encode(&Message::Seeds(reply, seeds.to_vec()));
            // If the command is repeated, the seeds are in the seen set already.
            self.confirmed::<String>(self.shared.data.call("XADD", "urls").arg(("*", "m", message))).await?;
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
    async fn admitted(&self, reply: u64) -> Result<AdmitCounts> {
        loop {
            let get = Call::new("HMGET", self.shared.data.keys.seeds(reply)).arg(("new", "seen"));
            if let (Some(new), Some(seen)) = self.ask::<(Option<u64>, Option<u64>)>(get).await? {
                return Ok(AdmitCounts { new, seen });
            }
            tokio::time::sleep(ADMIT_POLL_INTERVAL).await;
        }
    }

    /// Lets everything of a crawl that has ended expire, apart from its report and settings. Until then it can be resumed.
    pub(super) async fn let_expire(&self) -> Result<()> {
        let ttl = self.shared.settings.ttl.max(MIN_KEPT);
        if ttl >= UNLIMITED_TTL {
            return Ok(());
        }
        let milliseconds = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX >> 12);
        self.for_state_keys(|key| Call::new("PEXPIRE", key).arg(milliseconds)).await
    }

    /// Keeps everything of a crawl that continues.
    pub(super) async fn keep(&self) -> Result<()> {
        self.for_state_keys(|key| Call::new("PERSIST", key)).await
    }

    async fn for_state_keys(&self, call: impl Fn(String) -> Call) -> Result<()> {
        let workers = self.snapshot().await?.workers.len();
        let calls = self.shared.data.keys.state(workers).map(call).collect();
        self.shared.data.connection.all::<u8>(calls).await.map(drop)
    }

    pub(super) async fn ask<T: FromRedisValue>(&self, call: Call) -> Result<T> {
        self.shared.data.connection.one(call).await
    }

    /// Runs a command whose effect no process can repeat, and waits until replicas have what it wrote.
    pub(super) async fn confirmed<T: FromRedisValue>(&self, call: Call) -> Result<T> {
        self.confirming.confirmed(call, self.shared.confirmation).await
    }
}
