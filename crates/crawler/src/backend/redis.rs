//! The queues and storages of a crawl on Redis 7 or Valkey, for any number of processes and machines.
//!
//! Only this file and those below it know Redis. Every move of a URL is one script, which is atomic, on one partition:
//! the URLs of a domain are all in one, and everything of a partition shares a hash tag. What concerns several
//! partitions is done in an order in which a death in between loses nothing. Every script is harmless when repeated:
//! the answer of a move may be lost, and then it is asked for again.
//!
//! ```text
//! crawler:{NAME:pN}:   a partition's URLs
//!     urls                stream: the URL queue; what is on lease_id to the prioritizer is pending
//!     overflow            list: what does not fit into it, in order
//!     filed:Q             list: priority queue Q
//!     queue:W             stream: worker W's queue; what is on lease_id to it is pending
//!     lengths             hash: worker to the length of its queue; who is not in it is not there
//!     waiting:DOMAIN      list: what waits for its domain's share
//!     hungry:W            list: W's domains with something waiting and some of their share free
//!     returned            list: what dead workers had
//!     tasks               hash: task_id to id, redirects, whether is_revisit, domain, host and URL
//!     outstanding         hash: URL id to task_id, smallest depth, and the id of what it was found on
//!     prioritizing, loans hashes: task_id to its message, and to its lease_id
//!     endings             hash: task_id to how its lease_id ends, from there until it has ended
//!     links:S             hash: completed URLs by id, to when each was last met and what became of it, in shards
//!     domains, lapses     hash and sorted set: domain to owner, and when that ends
//!     rests               sorted set: host to when it may be asked is_revisit
//!     delays, delays_end  hash and sorted set: host to its pause, where that is its own, and when that is forgotten
//!     popularity          hash: domain to the pages that link to it
//!     counts, outcomes, refused, active; `closed` among the counts tells that the crawl is over
//!     robots:URL          string for a day: a robots.txt that another domain's redirects to
//!     answer:N            string for an hour: what was answered to move N, until that has arrived
//! crawler:{NAME:cN}:   a part of content storage: body:ID; in the first one also page:ID, bands:G, stored
//! crawler:{NAME:budget}:    used, reservations, settled, hosts, hosts_reserved
//! crawler:{NAME:settings}:  settings
//! crawler:{NAME:crew}:      who works on it
//! ```
//!
//! Where there is one partition, content storage and the budgets are in it too, so that one script completes a URL.

mod address;
mod admission;
mod closing;
mod completion;
mod connection;
mod contents;
mod counts;
mod deaths;
mod ended;
mod frontier;
mod home;
mod in_hand;
mod kept;
mod keys;
mod loans;
mod look;
mod moves;
mod opening;
mod passing;
mod purge;
mod recent;
mod roster;
mod scripts;
mod together;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

pub use self::address::Address;
use self::connection::Connection;
pub use self::connection::{Kind, Notice, Persistence, RedisConnectOptions, Server};
use self::home::Home;
pub use self::keys::{CLUSTER_PARTITIONS, PARTITIONS, is_name};
pub use self::look::RedisStateReader;
use self::moves::Moves;
pub use self::opening::no_such_crawl;
pub use self::roster::{CrawlInfo, CrawlState, HeartbeatReply, JoinResult, Member, Phase, Role, crawl_info};
use super::{
    AdmitCounts, Backend, BackendError, Budget, BudgetDecision, CompleteResult, Completion, ContentMatch,
    DiscoveredUrl, DomainTransfer, HostClaim, HostDelay, Lease, Snapshot, TaskId, TransferResult,
    UnprioritizedUrl, WorkerId,
};
use crate::backend::local::BackendConfig;
use crate::error::StorageErrorKind;
use crate::fetch::http::AddressKinds;
use crate::modules::output::parts::CrawlIdentity;
use crate::prioritizer::Priority;
use crate::similarity::{Fingerprint, HashKey};
use crate::stats::{BodyBytes, RequestCounter};

/// A crawl's resources on Redis.
pub struct RedisBackend {
    moves: Arc<Moves>,
    home: Home,
}

/// A crawl on a Redis.
#[derive(Clone)]
pub struct RedisCrawl {
    /// The address of Redis.
    pub address: Address,
    /// Options for the connection.
    pub connect_options: RedisConnectOptions,
    /// The name of the crawl: letters, digits, dots, dashes and underscores.
    pub crawl: String,
    /// How many partitions a new crawl has. Default: as many as suit the server.
    pub partitions: Option<u16>,
    /// How many replicas must have a page's links before the page is completed. Default: one, if there are any.
    pub replicas: Option<u8>,
    /// The delay after each request to a host, unless the host has a longer one.
    pub delay: Duration,
}

impl RedisCrawl {
    /// A crawl of this name at this address.
    pub fn new(address: Address, crawl: impl Into<String>) -> RedisCrawl {
        RedisCrawl {
            address,
            connect_options: RedisConnectOptions::default(),
            crawl: crawl.into(),
            partitions: None,
            replicas: None,
            delay: Duration::ZERO,
        }
    }

    async fn connect(&self) -> Result<Connection, BackendError> {
        if !is_name(&self.crawl) {
            let message = format!(
                "'{}' cannot be the name of a crawl; use 1 to 64 letters, digits, dots, dashes and underscores",
                self.crawl
            );
            return Err(BackendError::redis(StorageErrorKind::Unusable, message));
        }
        Connection::open(&self.address, self.connect_options.clone()).await
    }
}

impl fmt::Debug for RedisCrawl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the crawl '{}' at {}", self.crawl, self.address)
    }
}

impl RedisBackend {
    /// Begins a crawl, or joins the one that was begun under its name; then the settings have to be the same, but for
    /// the number of workers.
    pub async fn open(place: RedisCrawl, settings: BackendConfig) -> Result<RedisBackend, BackendError> {
        let home = Home::new()?;
        let moves = home.run(opening::open(place, settings)).await?;
        Ok(RedisBackend { moves: Arc::new(moves), home })
    }

    /// Looks at a crawl that was begun, and joins nothing: for those who tell how it stands, and steer it.
    pub async fn attach(place: RedisCrawl) -> Result<RedisBackend, BackendError> {
        let home = Home::new()?;
        let moves = home.run(opening::look(place)).await?;
        Ok(RedisBackend { moves: Arc::new(moves), home })
    }

    /// Takes up the place of a worker that is no more, under its number: what it had on loan goes back into its queue, to be
    /// lent anew, and the queue and the domains stay its own. What it still completes is refused.
    pub async fn rejoin(&self, worker: WorkerId) -> Result<(), BackendError> {
        self.make(async move |moves| moves.rejoin(worker).await).await
    }

    /// This process has a worker's place since it joined, by Redis's clock: from here on, it alone is lent what is sent to
    /// that worker, unless another has joined after it. To be said again after each new
    /// [connection](RedisBackend::connections): Redis may have lost it.
    pub async fn claim_worker(&self, worker: WorkerId, since: u64) -> Result<(), BackendError> {
        self.make(async move |moves| moves.enter(worker, since).await).await
    }

    /// How many connections were made so far. After a new one, Redis may have lost what it did last.
    pub fn connections(&self) -> u64 {
        self.moves.connection.connections()
    }

    /// What Redis did last it may not have done: whoever answered was not the one who stayed. What workers and the prioritizer
    /// of this process have is made sure of before they are lent more.
    pub fn invalidate_cache(&self) {
        self.moves.loans.doubt();
    }

    /// Ends the crawl, however far it came, and tells how many URLs are left outstanding. Counts stay, until they are
    /// [purged](RedisBackend::purge). If nothing is left, everything else is gone within its lifetime. What is left stays
    /// as it is for the lifetime of a link, and at least an hour, in which the crawl can be [reopened](Self::reopen).
    pub async fn close(&self) -> Result<u64, BackendError> {
        self.close_opening(u64::MAX >> 12).await
    }

    /// The same, unless it was opened more often than so.
    async fn close_opening(&self, opening: u64) -> Result<u64, BackendError> {
        self.make(async move |moves| moves.close(opening).await).await
    }

    /// Lets a crawl go on that was closed, which has to be done before anything more is admitted. What was left of it
    /// and has expired meanwhile was not reached before the end.
    pub async fn reopen(&self) -> Result<(), BackendError> {
        self.make(async |moves| moves.reopen().await).await
    }

    /// Removes everything of a crawl, whatever state it is in, and tells how many keys that were.
    pub async fn purge(place: &RedisCrawl) -> Result<u64, BackendError> {
        let place = place.clone();
        let home = Home::new()?;
        home.run(async move { purge::purge(&place.connect().await?, &place.crawl).await }).await
    }

    /// Carries out a future where the connection lives: whatever makes many moves makes them more cheaply there.
    pub fn spawn_on_connection_thread<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.home.host(future)
    }

    /// Lets the crawl's clock go ahead of Redis's: for tests of what takes its time.
    #[doc(hidden)]
    pub fn advance(&self, time: Duration) {
        self.moves.advance(time);
    }

    /// What tells this crawl from all others, of its name too.
    pub fn identity(&self) -> CrawlIdentity {
        let id = format!("{:016x}", self.moves.key.short_url_id("the crawl itself"));
        CrawlIdentity { name: self.moves.keys.crawl.clone(), id }
    }

    /// The name of the crawl, and where Redis is, without user name and password.
    pub fn name_and_address(&self) -> (&str, &str) {
        (&self.moves.keys.crawl, self.moves.connection.address())
    }

    /// What of the crawl the server may lose, in words, if anything.
    pub async fn durability_warning(&self) -> Result<Option<String>, BackendError> {
        self.make(async |moves| moves.risk().await).await
    }

    /// Adds the requests that this process has sent and no completion has reported to the crawl's count. A worker that
    /// is killed loses those since its last completion or, in a cluster, its last heartbeat.
    pub async fn report_requests(&self) -> Result<(), BackendError> {
        self.make(async |moves| moves.report_requests().await).await
    }

    /// How many round trips were made so far, and how many commands were in them.
    pub fn traffic(&self) -> (u64, u64) {
        self.moves.connection.traffic()
    }

    /// Makes a move where the connection lives. It is made to its end, also when nobody waits for it any more.
    async fn make<T: Send + 'static, F: Future<Output = Result<T, BackendError>> + Send + 'static>(
        &self,
        make: impl FnOnce(Arc<Moves>) -> F,
    ) -> Result<T, BackendError> {
        self.home.run(make(Arc::clone(&self.moves))).await
    }
}

impl Backend for RedisBackend {
    async fn admit(&self, found: Vec<DiscoveredUrl>) -> Result<AdmitCounts, BackendError> {
        self.make(async |moves| moves.admit(found).await).await
    }

    async fn take_unprioritized(
        &self,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<UnprioritizedUrl>, BackendError> {
        let incoming = self.make(async move |moves| {
            // One who did not wait for an earlier one must not lose what that took.
            let _alone = moves.prioritizing.lock().await;
            let anew = moves.begin_incoming();
            moves.incoming(max, wait, anew).await
        });
        let incoming = incoming.await?;
        self.moves.end_incoming();
        Ok(incoming)
    }

    async fn enqueue_prioritized(&self, filed: Vec<(TaskId, Priority)>) -> Result<(), BackendError> {
        self.make(async |moves| moves.file(filed).await).await
    }

    async fn route(&self, draws: Vec<Priority>, wait: Duration) -> Result<usize, BackendError> {
        self.make(async move |moves| moves.route(draws, wait).await).await
    }

    async fn lease(&self, worker: WorkerId, max: usize, wait: Duration) -> Result<Vec<Lease>, BackendError> {
        let desk = self.moves.desk(worker);
        if desk.must_fetch() {
            let (moves, desk) = (Arc::clone(&self.moves), Arc::clone(&desk));
            self.home.spawn(async move { desk.fetched(moves.lease(worker, max, wait).await) });
        }
        desk.take(max, wait).await
    }

    async fn transfer_domains(
        &self,
        from: WorkerId,
        handovers: Vec<DomainTransfer>,
    ) -> Result<Vec<TransferResult>, BackendError> {
        self.make(async move |moves| moves.pass_on(from, handovers).await).await
    }

    async fn claim_host(&self, worker: WorkerId, host: &str) -> Result<HostClaim, BackendError> {
        let host = host.to_owned();
        self.make(async move |moves| moves.claim(worker, &host).await).await
    }

    async fn load_robots(&self, url: &str) -> Result<Option<Vec<u8>>, BackendError> {
        let url = url.to_owned();
        self.make(async move |moves| moves.load_robots(&url).await).await
    }

    async fn store_robots(&self, url: &str, file: &[u8]) -> Result<(), BackendError> {
        let (url, file) = (url.to_owned(), file.to_vec());
        self.make(async move |moves| moves.store_robots(&url, &file).await).await
    }

    async fn reserve(&self, lease: &Lease, read: BodyBytes) -> Result<BudgetDecision, BackendError> {
        let lease = lease.clone();
        self.make(async move |moves| moves.reserve(lease, read).await).await
    }

    async fn release(&self, lease: &Lease, read: BodyBytes) -> Result<(), BackendError> {
        let lease = lease.clone();
        self.make(async move |moves| moves.release(&lease, read).await).await
    }

    async fn complete(&self, completions: Vec<Completion>) -> Result<Vec<CompleteResult>, BackendError> {
        self.make(async |moves| moves.complete(completions).await).await
    }

    async fn set_host_delay(&self, host: &str, host_delay: HostDelay) -> Result<(), BackendError> {
        let host = host.to_owned();
        self.make(async move |moves| moves.pace(&host, host_delay).await).await
    }

    async fn pin_address_kinds(&self, host: &str, kinds: AddressKinds) -> Result<AddressKinds, BackendError> {
        let host = host.to_owned();
        self.make(async move |moves| moves.pin_address_kinds(&host, kinds).await).await
    }

    async fn record_outputs_written(&self, _last_id: u64, _lengths: Vec<u64>) -> Result<(), BackendError> {
        // Nothing of an output is recorded here: workers write what is theirs before they complete a page.
        Ok(())
    }

    fn hash_key(&self) -> HashKey {
        self.moves.key
    }

    fn request_counter(&self) -> RequestCounter {
        self.moves.requests.clone()
    }

    async fn store_content(
        &self,
        url: &str,
        fingerprint: &Fingerprint,
        body: &[u8],
        is_seed: bool,
    ) -> Result<ContentMatch, BackendError> {
        // Compressed here, so that nobody else waits for it.
        let page = self.moves.page(url, fingerprint, body, is_seed);
        self.make(async |moves| moves.remember(page).await).await
    }

    async fn load_content(&self, url: &str) -> Result<Option<Vec<u8>>, BackendError> {
        let url = url.to_owned();
        self.make(async move |moves| moves.content(&url).await).await
    }

    async fn outstanding(&self) -> Result<u64, BackendError> {
        self.make(async |moves| moves.outstanding().await).await
    }

    async fn exhausted_budget(&self) -> Result<Option<Budget>, BackendError> {
        self.make(async |moves| moves.spent().await).await
    }

    async fn remove_worker(&self, worker: WorkerId) -> Result<(), BackendError> {
        self.make(async move |moves| moves.leave(worker).await).await
    }

    async fn snapshot(&self) -> Result<Snapshot, BackendError> {
        self.make(async |moves| moves.snapshot().await).await
    }
}
