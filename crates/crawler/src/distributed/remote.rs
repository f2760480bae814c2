//! Controls a distributed crawl from outside its processes: starts it, shows its status, stops it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::crawl_loss::lost_message;
use super::process_identity::is_surely_dead;
use super::statistics_parts::PartReader;
use super::worker_condition::WorkerCondition;
use super::{MemberReport, SharedCrawl, StoredReport, end_name, phase_of, statistics_parts};
pub use crate::backend::redis::CrawlInfo;
pub use crate::backend::redis::RedisHealth;
use crate::backend::redis::{
    self, CrawlState, DistributedCrawl, Member, Phase, Processes, Role, Standby, Stored,
};
use crate::backend::{AdmitCounts, Snapshot};
use crate::crawl_view::{CrawlPhase, CrawlView, Limits};
use crate::error::{Error, StorageError, StorageErrorKind, redis_error};
use crate::fetch::robots::waits::RobotsWaits;
use crate::live_settings::{
    ADDED_SEED_IS_BLOCKED, ControlAction, ControlError, LiveSettings, added_seed, added_seed_text,
};
use crate::origin::throttle_key;
use crate::pipeline::{CrawlEnd, CrawlReport, Crawler, ResumeStatus};
use crate::scope::Blocked;
use crate::seed_list::{SeedIndex, SpooledSeeds};
use crate::statistics::Statistics;

/// A handle to a distributed crawl.
///
/// ```no_run
/// use crawler::Crawler;
/// use crawler::internal::backend::redis::RedisCrawl;
/// use crawler::internal::distributed::RunRole as _;
/// use crawler::internal::distributed::remote::{NewMetadata, RemoteCrawl};
/// use crawler::internal::distributed::SharedCrawl;
///
/// # async fn example() -> Result<(), crawler::Error> {
/// let shared = SharedCrawl::new(RedisCrawl::new("redis://127.0.0.1/".parse()?, "news"));
/// let crawl = || Crawler::new("https://example.org/")?.module_from_spec("jsonl=pages.jsonl");
///
/// let remote = RemoteCrawl::open(crawl()?, &shared).await?;
/// remote.submit(NewMetadata::Settings(b""), crawl()?, &shared).await?;
/// // In other processes, on any machine:
/// crawl()?.run_frontier(&shared)?;
/// crawl()?.run_worker(&shared, None)?;
/// # Ok(())
/// # }
/// ```
pub struct RemoteCrawl {
    control: DistributedCrawl,
    /// The seeds, if this process knows them.
    seeds: Vec<Url>,
    parts: PartReader,
}

/// The status of a crawl.
#[derive(Debug, Clone)]
pub struct CrawlStatus {
    /// The phase of the crawl and its elapsed time.
    pub state: CrawlState,
    /// Whether the crawl has ended and its report is stored.
    pub has_result: bool,
    /// The processes that take part in it.
    pub members: Vec<Member>,
    /// The processes that wait for the role of a member.
    pub standbys: Vec<Standby>,
    /// Counters and queue lengths.
    pub snapshot: Snapshot,
    /// What the requests and URLs of all workers were like.
    pub statistics: Arc<Statistics>,
    /// The limits of the crawl.
    pub limits: Limits,
    /// The state of Redis itself.
    pub redis: RedisHealth,
    /// The workers whose network is down, and for how long it has been.
    pub networks_down: BTreeMap<Role, Duration>,
    /// What was changed since the crawl started.
    pub live: LiveSettings,
}

impl CrawlStatus {
    /// Whether the crawl runs.
    pub fn phase(&self) -> CrawlPhase {
        phase_of(&self.state.phase, self.live.is_paused, self.has_result)
    }

    /// The same as an observer of a crawl in one process sees it.
    pub fn view(&self) -> CrawlView {
        CrawlView {
            snapshot: self.snapshot.clone(),
            statistics: Arc::clone(&self.statistics),
            elapsed: self.state.elapsed,
            limits: self.limits.clone(),
            phase: self.phase(),
        }
    }
}

/// What is submitted to a crawl in addition to seeds and sitemaps.
#[derive(Debug, Clone, Copy)]
pub enum NewMetadata<'a> {
    /// The metadata stays. The seeds are in the scope already.
    None,
    /// The metadata differs in seeds and sitemaps only: the processes of the crawl learn of the seeds while they run.
    Seeds(&'a [u8]),
    /// Settings for the crawl's processes. They restart with them, if they are new.
    Settings(&'a [u8]),
}

impl RemoteCrawl {
    /// What Redis has about a crawl apart from its settings. `None` if it was never started.
    pub async fn info(shared: &SharedCrawl) -> Result<Option<CrawlInfo>, Error> {
        Ok(redis::crawl_info(&shared.redis).await?)
    }

    /// Checks that workers 0 to `workers` - 1 on this machine can write the outputs of a crawl that does not exist yet.
    pub fn check_outputs(crawler: &Crawler, shared: &SharedCrawl, workers: u16) -> Result<(), Error> {
        crawler.check_part_files(workers, &shared.redis.crawl)
    }

    /// Opens the crawl with these settings, and creates it on Redis if needed.
    pub async fn open(mut crawler: Crawler, shared: &SharedCrawl) -> Result<RemoteCrawl, Error> {
        crawler.derive_settings();
        let (control, parts) = (crawler.open_on_redis(shared).await?, PartReader::default());
        Ok(RemoteCrawl { control, seeds: crawler.seeds, parts })
    }

    /// Attaches to an existing crawl, to show its status or stop it.
    pub async fn attach(shared: &SharedCrawl) -> Result<RemoteCrawl, Error> {
        let control = DistributedCrawl::attach(shared.redis.clone()).await?;
        Ok(RemoteCrawl { control, seeds: Vec::new(), parts: PartReader::default() })
    }

    /// Submits the seeds and sitemaps of a crawler with these settings, and starts the crawl, or resumes it if it had ended. Returns
    /// how many seeds were new, if a frontier is running, and how many there were.
    pub async fn submit(
        &self,
        metadata: NewMetadata<'_>,
        mut crawler: Crawler,
        shared: &SharedCrawl,
    ) -> Result<(Option<AdmitCounts>, u64), Error> {
        crawler.derive_settings();
        let key = self.control.hash_key();
        let mut seeds = crawler.read_seeds(key)?;
        if let NewMetadata::Seeds(_) = metadata {
            seeds.index.extend(SeedIndex::entries(key, &crawler.seeds));
        }
        let has_frontier = |members: &[Member]| RemoteCrawl::is_taken(members, Role::Frontier, shared);
        self.admit(metadata, seeds, has_frontier).await
    }

    async fn admit(
        &self,
        metadata: NewMetadata<'_>,
        mut seeds: SpooledSeeds,
        has_frontier: impl Fn(&[Member]) -> bool,
    ) -> Result<(Option<AdmitCounts>, u64), Error> {
        // Before the seeds, so that no process admits one without its scope.
        self.control.extend_seed_index(&seeds.index).await?;
        let (metadata, has_new_settings) = match metadata {
            NewMetadata::None => (&b""[..], false),
            NewMetadata::Seeds(metadata) => (metadata, false),
            NewMetadata::Settings(metadata) => (metadata, true),
        };
        let (mut batch, mut admitted, mut count) = (seeds.next_batch(), Some(AdmitCounts::default()), 0);
        loop {
            let state = match seeds.index.is_empty() {
                true => self.control.set_seeding(metadata).await?,
                false => self.control.set_seeding_with_index(metadata, has_new_settings).await?,
            };
            self.control.unarchive(&state).await?;
            let (members, _) = self.control.members().await?;
            let is_waiting = has_frontier(&members);
            loop {
                let added = self.control.add_seeds(&batch, is_waiting && admitted.is_some()).await?;
                admitted = admitted.zip(added).map(|(sum, added)| AdmitCounts {
                    new: sum.new + added.new,
                    seen: sum.seen + added.seen,
                });
                count += batch.len() as u64;
                match seeds.next_batch() {
                    // If the crawl ended meanwhile, the last ones are submitted again.
                    next if next.is_empty() => break,
                    next => batch = next,
                }
            }
            match self.control.set_running(state.run).await?.phase {
                // Another process ended the crawl meanwhile, without knowing of these seeds.
                Phase::Ended(_) => {}
                Phase::Unknown | Phase::Purged => {
                    let (crawl, address) = self.control.name_and_address();
                    return Err(redis_error(StorageErrorKind::NotFound, lost_message(crawl, address)));
                }
                Phase::Seeding | Phase::Running => return Ok((admitted, count)),
            }
        }
    }

    /// The current status of the crawl.
    pub async fn status(&self) -> Result<CrawlStatus, Error> {
        let Processes { members, mut standbys, state } = self.control.processes().await?;
        let mut reports = MemberReport::all(&self.control).await?;
        let prioritizer_service = reports.values_mut().find_map(|report| report.prioritizer_service.take());
        let mut snapshot = Snapshot { prioritizer_service, ..self.control.snapshot().await? };
        let (statistics, limits) = self.parts.read(&self.control, &members, &state).await?;
        let (_, live) = self.control.live_settings().await?;
        let is_active = !live.is_paused && matches!(state.phase, Phase::Seeding | Phase::Running);
        let workers = members.iter().filter(|member| !member.is_dead && member.role != Role::Frontier);
        let condition = |member: &Member| reports.get(&member.token).map(|report| &report.condition);
        let fine = WorkerCondition::default();
        let conditions = workers.map(|member| (member.role, condition(member).unwrap_or(&fine)));
        let networks_down = match is_active {
            true => add_conditions(&mut snapshot, conditions, &live.blocked_hosts),
            false => BTreeMap::new(),
        };
        let has_result = matches!(state.phase, Phase::Ended(_)) && self.control.has_result().await?;
        // Its display is not worth an error.
        let redis = self.control.health().await.unwrap_or_default();
        standbys.retain(|standby| !is_surely_dead(&standby.token));
        Ok(CrawlStatus {
            state,
            has_result,
            members,
            standbys,
            snapshot,
            statistics,
            limits,
            redis,
            networks_down,
            live,
        })
    }

    /// The processes that take part in the crawl, and its state.
    pub async fn members(&self) -> Result<(Vec<Member>, CrawlState), Error> {
        Ok(self.control.members().await?)
    }

    /// Waits until Redis takes heartbeats, which a read-only one does not.
    pub async fn wait_until_writable(&self) -> Result<(), Error> {
        // No member has this token, so nothing is written.
        self.control.heartbeat(Role::Frontier, "", Duration::ZERO).await?;
        Ok(())
    }

    /// Whether a member that seems alive has this role.
    pub fn is_taken(members: &[Member], role: Role, shared: &SharedCrawl) -> bool {
        members.iter().any(|member| member.role == role && RemoteCrawl::is_alive(member, shared))
    }

    /// Whether a member seems alive: its heartbeats are recent, and it is not known to have exited.
    pub fn is_alive(member: &Member, shared: &SharedCrawl) -> bool {
        !member.is_dead && member.since_heartbeat < shared.dead_after && !is_surely_dead(&member.token)
    }

    /// Stops the crawl. Requests in flight finish. Returns whether the crawl was running.
    pub async fn stop(&self) -> Result<bool, Error> {
        let (_, state) = self.control.members().await?;
        if !matches!(state.phase, Phase::Seeding | Phase::Running) {
            return Ok(false);
        }
        // A process that is admitting seeds finds the crawl finished, and opens it again.
        self.control.set_running(state.run).await?;
        self.control.set_ended(state.run, end_name(CrawlEnd::Stopped)).await?;
        Ok(true)
    }

    /// The report of a finished crawl. `None` if it is not stored yet.
    pub async fn report(&self, resumed: ResumeStatus) -> Result<Option<CrawlReport>, Error> {
        let Some(report) = self.control.result().await? else { return Ok(None) };
        let report: StoredReport = serde_json::from_str(&report).map_err(|error| {
            let (what, remedy) =
                ("cannot read the report of the crawl", "use the version of crawler that ran it");
            Error::Redis(StorageError::with_source(StorageErrorKind::Unsupported, what, error, remedy))
        })?;
        let (statistics, ..) = statistics_parts::read(&self.control, &[]).await?;
        let report = report.into_report(&self.seeds, resumed);
        Ok(Some(CrawlReport { statistics: Arc::new(statistics), ..report }))
    }

    /// A warning if the server's configuration can lose the crawl's data.
    pub async fn durability_warning(&self) -> Result<Option<String>, Error> {
        Ok(self.control.durability_warning().await?)
    }

    /// Changes the crawl while it runs. Returns a sentence that says what was done, or why not.
    pub async fn control(&self, action: ControlAction) -> Result<String, ControlError> {
        let failed = |error: Error| action.error(format!("{error:#}"));
        match &action {
            ControlAction::Stop => match self.stop().await.map_err(failed)? {
                true => Ok(LiveSettings::default().with(&action).map(|(_, done)| done)?),
                false => Err(ControlError::not_running(&action)),
            },
            ControlAction::AddSeed(seed) => self.add_seed(&action, seed).await.map_err(failed)?,
            _ => self.change(&action).await.map_err(failed)?,
        }
    }

    /// Stores a change, which the processes of the crawl find with their next heartbeats.
    async fn change(&self, action: &ControlAction) -> Result<Result<String, ControlError>, Error> {
        loop {
            let (version, settings) = self.control.live_settings().await?;
            let (settings, done) = match settings.with(action) {
                Ok(changed) => changed,
                Err(error) => return Ok(Err(error.into())),
            };
            match self.control.set_live_settings(version, &settings).await? {
                Stored::Yes => return Ok(Ok(done)),
                Stored::Outdated => {}
                Stored::Over => return Ok(Err(ControlError::not_running(action))),
            }
        }
    }

    /// Admits a seed, after the scope was extended by it.
    async fn add_seed(
        &self,
        action: &ControlAction,
        seed: &str,
    ) -> Result<Result<String, ControlError>, Error> {
        let mut url = match added_seed(seed) {
            Ok(url) => url,
            Err(why) => return Ok(Err(action.error(why).into())),
        };
        self.control.settings().strip_query.strip_url(&mut url);
        let (_, settings) = self.control.live_settings().await?;
        let is_blocked =
            |blocked: Option<Arc<Blocked>>| blocked.is_some_and(|all| all.contains(url.as_str()));
        if settings.blocked().is_ok_and(is_blocked) {
            return Ok(Err(action.error(ADDED_SEED_IS_BLOCKED).into()));
        }
        if !matches!(self.control.members().await?.1.phase, Phase::Seeding | Phase::Running) {
            return Ok(Err(ControlError::not_running(action)));
        }
        let index = SeedIndex::entries(self.control.hash_key(), std::slice::from_ref(&url));
        let seeds = SpooledSeeds::from_url(url.as_str(), index);
        let has_frontier = |members: &[Member]| members.iter().any(|member| member.role == Role::Frontier);
        let (admitted, _) = self.admit(NewMetadata::None, seeds, has_frontier).await?;
        Ok(Ok(added_seed_text(&url, admitted)))
    }
}

/// Adds what holds the workers up: the frontier does not know that.
fn add_conditions<'c>(
    snapshot: &mut Snapshot,
    conditions: impl IntoIterator<Item = (Role, &'c WorkerCondition)>,
    blocked_hosts: &[String],
) -> BTreeMap<Role, Duration> {
    let (mut workers, mut networks_down, mut waits) = (0, BTreeMap::new(), BTreeMap::new());
    for (role, condition) in conditions {
        workers += 1;
        networks_down.extend(condition.network_down.map(|seconds| (role, seconds)));
        waits.extend(condition.robots_waits.clone());
    }
    waits.retain(|site, _| blocked_hosts.iter().all(|blocked| blocked != throttle_key(site)));
    // While other workers have a network, the crawl as a whole has one.
    snapshot.network_down = networks_down.values().min().copied().filter(|_| networks_down.len() == workers);
    RobotsWaits::from_sites(waits).add_to(&mut snapshot.waiting_hosts);
    networks_down.into_iter().map(|(role, seconds)| (role, Duration::from_secs(seconds))).collect()
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;
    use crate::backend::redis::RedisCrawl;
    use crate::backend::{WaitReason, WaitingHost, WorkerId};

    fn condition(network_down: Option<u64>, waits: impl IntoIterator<Item = usize>) -> WorkerCondition {
        let site = |number| (format!("http://h{number:02}.test"), "HTTP 503".to_owned());
        WorkerCondition { network_down, robots_waits: waits.into_iter().map(site).collect() }
    }

    #[test]
    fn hosts_that_wait_for_robots_txt_are_named_and_listed_ones_first() {
        let listed = |number: usize| WaitingHost {
            host: format!("h{number:02}.test"),
            waiting: 7,
            leased: 0,
            why: WaitReason::Busy,
        };
        let mut snapshot = Snapshot { waiting_hosts: [90, 10, 50].map(listed).into(), ..Snapshot::default() };
        let (first, second) = (condition(None, (0..60).step_by(2)), condition(None, (1..60).step_by(2)));
        let conditions = [first, second];
        let roles = [0, 1].map(|id| Role::Worker(WorkerId(id)));
        let blocked = ["h03.test".to_owned(), "h50.test".to_owned()];
        add_conditions(&mut snapshot, roles.into_iter().zip(&conditions), &blocked);
        let waits = |host: &WaitingHost| (host.host.clone(), matches!(host.why, WaitReason::RobotsTxt(_)));
        let hosts: Vec<(String, bool)> = snapshot.waiting_hosts.iter().map(waits).collect();
        let names = ["h90", "h10", "h50", "h00", "h01", "h02", "h04"].map(|name| format!("{name}.test"));
        let waiting = [false, true, false, true, true, true, true];
        assert_eq!(hosts[..7], names.into_iter().zip(waiting).collect::<Vec<_>>()[..]);
    }

    #[test]
    fn network_of_a_crawl_is_down_when_those_of_all_workers_are() {
        let down = |conditions: &[WorkerCondition]| {
            let (mut snapshot, roles) = (Snapshot::default(), (0..).map(|id| Role::Worker(WorkerId(id))));
            let down = add_conditions(&mut snapshot, roles.zip(conditions), &[]);
            (snapshot.network_down, down.len())
        };
        let condition = |network_down| condition(network_down, []);
        assert_eq!(down(&[]), (None, 0));
        assert_eq!(down(&[condition(None), condition(Some(5))]), (None, 1));
        assert_eq!(down(&[condition(Some(7)), condition(Some(5))]), (Some(5), 2));
    }

    #[tokio::test]
    async fn redis_that_cannot_be_reached_is_an_error_of_redis_with_a_source() {
        let mut redis = RedisCrawl::new("redis://127.0.0.1:1/".parse().unwrap(), "crawl");
        redis.connect_options.connect_timeout = Duration::from_millis(1);
        let crawler = Crawler::new("http://a.test/").unwrap();
        let error = RemoteCrawl::open(crawler, &SharedCrawl::new(redis)).await.err().unwrap();
        let Error::Redis(redis) = &error else { panic!("{error:?}") };
        assert_eq!(redis.kind(), StorageErrorKind::Io);
        let cause = error.source().unwrap().to_string();
        assert!(!error.to_string().contains(&cause), "{error}");
        let full = format!("{error:#}");
        assert!(
            full.starts_with(&format!("cannot reach Redis at redis://127.0.0.1:1: {cause}; is it running")),
            "{full}"
        );
    }
}
