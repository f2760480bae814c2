//! The frontier role: prioritizes and routes URLs, reaps dead workers, rebalances domains, and ends the
//! crawl.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::rebalancer::{Rebalancer, WorkerLoad};
use super::{
    CrawlLossDetector, FRONTIER_REPORT, FailureDetector, MemberReport, Membership, RoleExit, SharedCrawl,
    StoredReport, end_name, end_of, is_absent,
};
use crate::backend::redis::{CrawlState, HeartbeatReply, Member, Phase, Role};
use crate::backend::{Backend, BackendError, Snapshot, WorkerId};
use crate::distributed::process_identity::is_surely_dead;
use crate::error::{Error, StorageErrorKind};
use crate::frontier;
use crate::pipeline::{CrawlEnd, Crawler, block_on};
use crate::prioritizer::{Random, ServiceStats};

/// The token prefix of a placeholder for a worker that has URLs but no member.
const NO_MEMBER: &str = "nobody";

/// A worker takes part in no transfer if its last heartbeat is older than this fraction of the heartbeat
/// timeout.
const STALE_FRACTION: u32 = 3;

/// Placeholders for workers that have URLs but no member. A worker that was declared dead may send one more
/// lease request, which arrives after its URLs were reassigned and makes it known again.
fn orphaned_workers(snapshot: &Snapshot, members: &[Member]) -> Vec<Member> {
    let workers = snapshot.workers.iter().zip(0..);
    let with_urls = workers.filter(|((queued, leased), _)| queued + leased > 0);
    let roles = with_urls.map(|(_, id)| Role::Worker(WorkerId(id)));
    let roles = roles.filter(|role| members.iter().all(|member| member.role != *role));
    let placeholder = |role| Member {
        role,
        token: format!("{NO_MEMBER} {role}"),
        location: String::new(),
        is_dead: false,
        last_heartbeat: 0,
        since_heartbeat: Duration::ZERO,
        domains: None,
    };
    roles.map(placeholder).collect()
}

/// A running frontier.
struct FrontierRole<'a> {
    crawler: &'a Crawler,
    shared: &'a SharedCrawl,
    membership: Membership,
    failures: FailureDetector,
    loss: CrawlLossDetector,
    rebalancer: Rebalancer,
    /// The state of the crawl at the last heartbeat.
    state: CrawlState,
    /// The run whose seeds are being admitted, and since when the frontier waits for them.
    seeding_since: Option<(u64, Instant)>,
    /// The counters of the prioritizer's service as last reported.
    reported_service: Option<ServiceStats>,
}

impl Crawler {
    /// Runs the frontier of this crawl, which exists on Redis, until the crawl ends.
    pub(super) fn run_as_frontier(mut self, shared: &SharedCrawl) -> Result<RoleExit, Error> {
        self.derive_settings();
        block_on(async {
            let backend = Arc::new(self.open_redis_backend(shared).await?);
            let joined = Membership::join(backend, Some(Role::Frontier), &self, shared).await?;
            let (mut membership, _) = match joined {
                Ok(joined) => joined,
                Err(exit) => return Ok(exit),
            };
            let HeartbeatReply { state, .. } = membership.heartbeat(None).await?;
            let mut frontier = FrontierRole {
                crawler: &self,
                shared,
                membership,
                failures: FailureDetector::new(shared.dead_after),
                loss: CrawlLossDetector::new(shared),
                rebalancer: Rebalancer::default(),
                state,
                seeding_since: None,
                reported_service: None,
            };
            let exit = frontier.run().await?;
            // A process that was declared dead is no longer a member.
            if exit != RoleExit::Lost {
                frontier.membership.leave().await?;
            }
            Ok::<_, BackendError>(exit)
        })?
        .map_err(Error::from)
    }
}

impl FrontierRole<'_> {
    async fn run(&mut self) -> Result<RoleExit, BackendError> {
        let version = self.state.version;
        loop {
            let exit = match self.state.phase.clone() {
                Phase::Unknown | Phase::Purged => self.wait_for_crawl().await?,
                Phase::Ended(end) => self.store_report(&end).await?,
                Phase::Seeding | Phase::Running => self.route(version).await?,
            };
            if let Some(exit) = exit {
                return Ok(exit);
            }
        }
    }

    /// Waits until a crawl that Redis does not have is back or gone for good.
    async fn wait_for_crawl(&mut self) -> Result<Option<RoleExit>, BackendError> {
        loop {
            if self.loss.is_final(&self.state.phase) {
                (self.shared.notice)(&self.loss.message(&self.state.phase));
                return Ok(Some(RoleExit::Gone));
            }
            tokio::select! {
                () = self.crawler.stop.stop_requested() => return Ok(Some(RoleExit::Stopped)),
                () = sleep_until(Instant::now() + self.membership.heartbeat_interval()) => {}
            }
            let is_member = self.heartbeat().await?;
            if !is_absent(&self.state.phase) {
                self.loss.is_final(&self.state.phase);
                // URLs that were prioritized meanwhile were written to a Redis without the crawl.
                self.membership.backend.invalidate_cache();
                return Ok((!is_member).then_some(RoleExit::Lost));
            }
        }
    }

    /// Routes URLs until the phase changes (`None`) or the role exits.
    async fn route(&mut self, version: u64) -> Result<Option<RoleExit>, BackendError> {
        let backend = Arc::clone(&self.membership.backend);
        // The crawl may have been opened again while a frontier archived it.
        backend.unarchive(&self.state).await?;
        // A new run of the crawl starts without reports.
        self.reported_service = None;
        let (prioritizer, stop) = (&*self.crawler.prioritizer, &self.crawler.stop);
        let mut routing = std::pin::pin!(async {
            frontier::run(&*backend, prioritizer, Random::from_system(), stop).await
        });
        loop {
            let next_heartbeat = Instant::now() + self.membership.heartbeat_interval();
            // `Some(true)`: nothing is outstanding; `Some(false)`: stopped.
            let finished = tokio::select! {
                biased;
                finished = &mut routing => Some(finished?),
                () = sleep_until(next_heartbeat) => None,
            };
            let is_member = self.heartbeat().await?;
            let is_running = self.state.phase == Phase::Running;
            match () {
                () if is_absent(&self.state.phase) => return Ok(None),
                () if !is_member => return Ok(Some(RoleExit::Lost)),
                () if finished == Some(false) => return Ok(Some(RoleExit::Stopped)),
                () if self.state.version != version => return Ok(Some(RoleExit::Changed)),
                () if !matches!(self.state.phase, Phase::Seeding | Phase::Running) => return Ok(None),
                // Check again, now that the run is known: seeds may have been admitted since routing
                // finished.
                () if finished == Some(true) && is_running => {
                    let run = self.state.run;
                    return match backend.outstanding().await? {
                        0 => self.end(run, CrawlEnd::Finished).await,
                        _ => Ok(None),
                    };
                }
                // Seeds are still being admitted.
                () if finished == Some(true) => {
                    sleep_until(Instant::now() + self.membership.heartbeat_interval() / 4).await;
                    return Ok(None);
                }
                () => {}
            }
            self.report_service().await?;
            let (alive, snapshot) = self.reap_dead_members().await?;
            self.rebalance(&alive, &snapshot).await?;
            if is_running && let Some(end) = self.reached_limit().await? {
                return self.end(self.state.run, end).await;
            }
        }
    }

    /// Sends a heartbeat and updates the crawl's state. Returns whether this process still is the frontier.
    /// If seeds are being admitted for longer than the heartbeat timeout, the process that admits them is
    /// assumed to be dead.
    async fn heartbeat(&mut self) -> Result<bool, BackendError> {
        let HeartbeatReply { is_member, state, .. } = self.membership.heartbeat(None).await?;
        self.state = state;
        if self.state.phase != Phase::Seeding {
            self.seeding_since = None;
            return Ok(is_member);
        }
        let run = self.state.run;
        let since = match self.seeding_since {
            Some((awaited, since)) if awaited == run => since,
            _ => self.seeding_since.insert((run, Instant::now())).1,
        };
        if is_member && since.elapsed() > self.shared.dead_after {
            self.state = self.membership.backend.set_running(run).await?;
        }
        Ok(is_member)
    }

    /// Stores the counters of the prioritizer's service in Redis, if they have changed.
    async fn report_service(&mut self) -> Result<(), BackendError> {
        let prioritizer_service = self.crawler.prioritizer.service_stats();
        if prioritizer_service == self.reported_service {
            return Ok(());
        }
        self.reported_service.clone_from(&prioritizer_service);
        let report = MemberReport { prioritizer_service, ..MemberReport::default() };
        report.store(&self.membership.backend, FRONTIER_REPORT).await
    }

    async fn end(&mut self, run: u64, end: CrawlEnd) -> Result<Option<RoleExit>, BackendError> {
        self.state = self.membership.backend.set_ended(run, end_name(end)).await?;
        Ok(None)
    }

    async fn reached_limit(&self) -> Result<Option<CrawlEnd>, BackendError> {
        if self.crawler.max_time.is_some_and(|time| self.state.elapsed >= time) {
            return Ok(Some(CrawlEnd::TimeLimit));
        }
        Ok(self.membership.backend.exhausted_budget().await?.map(CrawlEnd::LimitReached))
    }

    /// Asks busy workers to transfer some of their domains to underloaded ones.
    async fn rebalance(&mut self, alive: &[Member], snapshot: &Snapshot) -> Result<(), BackendError> {
        let max_age = self.shared.dead_after / STALE_FRACTION;
        let load = |member: &Member| {
            let Role::Worker(id) = member.role else { return None };
            // A worker without a recent heartbeat may be dead; one without a number of domains is about to
            // leave.
            let domains = member.domains.filter(|_| member.since_heartbeat <= max_age)?;
            let (queued, leased) = snapshot.workers.get(usize::from(id.0)).copied().unwrap_or_default();
            Some(WorkerLoad { id, urls: queued + leased, domains })
        };
        let loads: Vec<WorkerLoad> = alive.iter().filter_map(load).collect();
        for (giver, targets) in self.rebalancer.update(&loads) {
            let giver = alive.iter().find(|member| member.role == Role::Worker(giver));
            if let Some(giver) = giver {
                self.membership.backend.request_transfer(giver, &targets).await?;
            }
        }
        Ok(())
    }

    /// Declares members without heartbeats dead and reassigns the URLs of dead workers. Returns the workers
    /// that are alive, and the snapshot from before.
    async fn reap_dead_members(&mut self) -> Result<(Vec<Member>, Snapshot), BackendError> {
        let backend = &self.membership.backend;
        // The snapshot comes first: a worker that has URLs in it joined before, so it is among the members.
        let snapshot = backend.snapshot().await?;
        let (mut members, _) = backend.members().await?;
        let orphaned = orphaned_workers(&snapshot, &members);
        members.extend(orphaned.iter().cloned());
        self.failures.retain(&members);
        for worker in orphaned.into_iter().filter(|worker| self.failures.is_dead(worker)) {
            let Role::Worker(id) = worker.role else { continue };
            backend.remove_worker(id).await?;
            (self.shared.notice)(&format!("{} has URLs but no process; reassigning its URLs", worker.role));
        }
        members.retain(|member| !member.token.starts_with(NO_MEMBER));
        let has_ended = matches!(self.state.phase, Phase::Ended(_));
        let mut alive = Vec::new();
        for member in members {
            let Role::Worker(id) = member.role else { continue };
            // After the end of the crawl no process takes over from a killed worker, so there is no need to
            // wait for one.
            let seems_dead = self.failures.is_dead(&member) || has_ended && is_surely_dead(&member.token);
            let is_dead = member.is_dead || seems_dead && backend.declare_dead(&member).await?;
            if !is_dead {
                alive.push(member);
                continue;
            }
            backend.remove_worker(id).await?;
            backend.leave(member.role, &member.token).await?;
            let (role, location, seconds) = (member.role, &member.location, member.since_heartbeat.as_secs());
            (self.shared.notice)(&format!(
                "{role} ({location}) is declared dead: no heartbeat for {seconds} s; reassigning its URLs"
            ));
        }
        Ok((alive, snapshot))
    }

    /// Waits for the workers to finish their requests in flight, stores the crawl's report, and archives the
    /// crawl. Returns `None` if the crawl was resumed meanwhile.
    async fn store_report(&mut self, end: &str) -> Result<Option<RoleExit>, BackendError> {
        let run = self.state.run;
        self.report_service().await?;
        while !self.reap_dead_members().await?.0.is_empty() {
            sleep_until(Instant::now() + self.membership.heartbeat_interval() / 4).await;
            let is_member = self.heartbeat().await?;
            match () {
                () if is_absent(&self.state.phase) => return Ok(None),
                () if !is_member => return Ok(Some(RoleExit::Lost)),
                () if self.crawler.stop.is_stop_requested() => return Ok(Some(RoleExit::Stopped)),
                () if self.state.run != run => return Ok(None),
                () => {}
            }
        }
        let backend = &self.membership.backend;
        let mut members = MemberReport::all(backend).await?;
        members.push(MemberReport::with_traffic(backend));
        let report = StoredReport {
            end: end.to_owned(),
            milliseconds: self.state.elapsed.as_millis().try_into().unwrap_or(u64::MAX),
            snapshot: backend.snapshot().await?,
            members,
        };
        let report = serde_json::to_string(&report)
            .map_err(|error| BackendError::redis(StorageErrorKind::Internal, error.to_string()))?;
        backend.store_result(run, &report).await?;
        self.state = backend.archive(run).await?;
        // If the crawl was resumed meanwhile, it continues with everything it had.
        Ok((self.state.run == run).then(|| RoleExit::CrawlEnded(end_of(end))))
    }
}
