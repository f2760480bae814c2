//! The frontier role: holds the state of the crawl, prioritizes and leases URLs, removes dead workers, and ends the crawl.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::statistics_parts::PartWriter;
use super::{
    CrawlLossDetector, FRONTIER_REPORT, FailureDetector, MemberReport, Membership, RoleExit, STATUS_INTERVAL,
    SharedCrawl, StoredReport, end_name, end_of, is_absent, phase_of,
};
use crate::backend::redis::{CrawlState, FrontierProcess, Member, Phase, Role};
use crate::backend::{Backend, BackendError, Snapshot, WorkerId};
use crate::crawl_view::{CrawlMonitor, CrawlView};
use crate::distributed::process_identity::is_surely_dead;
use crate::error::{Error, StorageErrorKind};
use crate::frontier;
use crate::log;
use crate::pipeline::{CrawlEnd, Crawler, block_on};
use crate::prioritizer::ServiceStats;
use crate::statistics::Statistics;

/// The token prefix of a placeholder for a worker that has URLs but no member.
const NO_MEMBER: &str = "no-member";

/// How long an operation that failed waits for the frontier process to report why it ended.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Placeholders for workers that have URLs but no member: they left while no frontier was running.
fn orphaned_workers(snapshot: &Snapshot, members: &[Member]) -> Vec<Member> {
    let workers = snapshot.workers.iter().zip(0..=u16::MAX);
    let with_urls = workers.filter(|(load, _)| load.leased > 0);
    let roles = with_urls.map(|(_, id)| Role::Worker(WorkerId(id)));
    let roles = roles.filter(|role| members.iter().all(|member| member.role != *role));
    let placeholder = |role| Member {
        role,
        token: format!("{NO_MEMBER} {role}"),
        location: String::new(),
        is_dead: false,
        last_heartbeat: 0,
        since_heartbeat: Duration::ZERO,
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
    /// The state of the crawl at the last heartbeat.
    state: CrawlState,
    /// The version of the settings with which it runs.
    version: u64,
    /// The run whose seeds are being submitted, and since when the frontier waits for them.
    seeding_since: Option<(u64, Instant)>,
    /// The counters of the prioritizer's service as last reported.
    reported_service: Option<ServiceStats>,
    /// It is recorded that the state is on Redis.
    is_begun: bool,
    /// The statistics, limits and phase of the crawl, as far as the frontier knows them.
    monitor: Arc<CrawlMonitor>,
    parts: PartWriter,
    /// The status as last reported.
    reported: watch::Sender<Option<CrawlView>>,
    /// The version of the changes that its state has.
    live: Option<u64>,
}

impl Crawler {
    /// Runs the frontier of this crawl, which exists on Redis, until the crawl ends.
    pub(super) fn run_as_frontier(mut self, shared: &SharedCrawl) -> Result<RoleExit, Error> {
        self.derive_settings();
        block_on(async {
            let Some(control) = self.open_existing(shared).await? else { return Ok(RoleExit::Gone) };
            let control = Arc::new(control);
            let mut membership = match Membership::join(control, Some(Role::Frontier), &self, shared).await? {
                Ok(membership) => membership,
                Err(exit) => return Ok(exit),
            };
            let (_, state) = membership.heartbeat().await?;
            let monitor = CrawlMonitor::new(Duration::ZERO, Statistics::default(), self.limits());
            let monitor = Arc::new(monitor.with_control(self.control.clone()));
            monitor.recorders.adopt(membership.control.recorder().clone());
            let parts = PartWriter::start(&membership, &monitor, true);
            let (reported, last) = watch::channel(None);
            let mut frontier = FrontierRole {
                crawler: &self,
                shared,
                membership,
                failures: FailureDetector::new(shared.dead_after),
                loss: CrawlLossDetector::new(shared),
                version: state.version,
                state,
                seeding_since: None,
                reported_service: None,
                is_begun: false,
                monitor,
                parts,
                reported,
                live: None,
            };
            let running = async move {
                let exit = frontier.run().await?;
                // A process that was declared dead is no longer a member.
                let FrontierRole { membership, parts, .. } = frontier;
                if !matches!(exit, RoleExit::Lost | RoleExit::Gone) {
                    parts.finish().await;
                }
                if exit != RoleExit::Lost {
                    membership.leave().await?;
                }
                Ok::<_, BackendError>(exit)
            };
            tokio::select! {
                biased;
                exit = running => exit,
                never = self.repeat_status(&last) => match never {},
            }
        })?
        .map_err(Error::from)
    }

    /// Reports the last status again once per second: while the frontier waits for Redis, it has no other one.
    async fn repeat_status(&self, last: &watch::Receiver<Option<CrawlView>>) -> Infallible {
        loop {
            sleep(STATUS_INTERVAL).await;
            let view = last.borrow().clone();
            if let (Some(on_status), Some(view)) = (&self.on_status, view) {
                on_status(&view);
            }
        }
    }
}

impl FrontierRole<'_> {
    async fn run(&mut self) -> Result<RoleExit, BackendError> {
        loop {
            let exit = match &self.state.phase {
                Phase::Unknown | Phase::Purged => self.wait_for_crawl().await?,
                _ => self.serve().await?,
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
                log::warned(&*self.shared.notice, &self.loss.message(&self.state.phase));
                return Ok(Some(RoleExit::Gone));
            }
            tokio::select! {
                () = self.crawler.stop.stop_requested() => return Ok(Some(RoleExit::Stopped)),
                () = sleep(self.membership.heartbeat_interval()) => {}
            }
            let is_member = self.heartbeat().await?;
            if !is_absent(&self.state.phase) {
                self.loss.is_final(&self.state.phase);
                return Ok((!is_member).then_some(RoleExit::Lost));
            }
        }
    }

    /// Takes the state of the crawl over, and serves the workers with it until the role exits, or the state has to be
    /// taken over again (`None`).
    async fn serve(&mut self) -> Result<Option<RoleExit>, BackendError> {
        // The crawl may have been resumed while a frontier archived it.
        self.membership.control.unarchive(&self.state).await?;
        let process = {
            let taking_over = Arc::clone(&self.membership.control);
            let mut taking_over = std::pin::pin!(async move { taking_over.take_over().await });
            loop {
                tokio::select! {
                    biased;
                    process = &mut taking_over => break Arc::new(process?),
                    // A large state takes longer to read than a member without heartbeats is believed to be alive.
                    () = sleep(self.membership.heartbeat_interval()) => drop(self.heartbeat().await?),
                }
            }
        };
        // Before the first lease: a limit may have been lowered.
        self.live = None;
        self.update_limits(&process).await?;
        let serving = Arc::clone(&process);
        let mut serving = std::pin::pin!(async move { serving.run().await });
        let ended = tokio::select! {
            biased;
            ended = &mut serving => ended.map(drop),
            exit = self.supervise(&process) => match exit {
                Ok(exit) => return Ok(exit),
                // An operation may fail just before the reason is known.
                Err(error) => match timeout(END_TIMEOUT, &mut serving).await {
                    Ok(ended) => ended.map(drop),
                    Err(_) => Err(error),
                },
            },
        };
        ended?;
        // Another frontier has taken over, or Redis has lost the last changes.
        let is_member = self.heartbeat().await?;
        let is_lost = !is_member && !is_absent(&self.state.phase);
        Ok(is_lost.then_some(RoleExit::Lost))
    }

    /// Prioritizes URLs and watches the crawl, until the role exits, or the crawl is absent.
    async fn supervise(&mut self, process: &FrontierProcess) -> Result<Option<RoleExit>, BackendError> {
        loop {
            let exit = match self.state.phase.clone() {
                Phase::Unknown | Phase::Purged => return Ok(None),
                Phase::Ended(end) => self.store_report(process, &end).await?,
                Phase::Seeding | Phase::Running => self.prioritize(process).await?,
            };
            if let Some(exit) = exit {
                process.set_leasing(false);
                let _ = process.flush().await;
                return Ok(Some(exit));
            }
        }
    }

    /// Prioritizes URLs until the phase changes (`None`) or the role exits.
    async fn prioritize(&mut self, process: &FrontierProcess) -> Result<Option<RoleExit>, BackendError> {
        // A new run of the crawl starts without reports.
        self.reported_service = None;
        let (prioritizer, stop) = (&*self.crawler.prioritizer, &self.crawler.stop);
        let backend = Arc::clone(process.backend());
        if self.crawler.has_builtin_prioritizer {
            backend.set_prioritizer(&self.crawler.prioritizer);
        }
        let mut prioritizing = std::pin::pin!(frontier::run(&*backend, prioritizer, stop));
        process.restart_prioritizer()?;
        process.set_leasing(true);
        loop {
            // `Some(true)`: nothing is pending; `Some(false)`: stopped.
            let finished = tokio::select! {
                biased;
                finished = &mut prioritizing => Some(finished?),
                () = sleep(self.membership.heartbeat_interval()) => None,
            };
            let is_member = self.heartbeat().await?;
            self.update_limits(process).await?;
            let is_running = self.state.phase == Phase::Running;
            match () {
                () if is_absent(&self.state.phase) => return Ok(None),
                () if !is_member => return Ok(Some(RoleExit::Lost)),
                () if finished == Some(false) => return Ok(Some(RoleExit::Stopped)),
                () if self.state.version != self.version => return Ok(Some(RoleExit::Changed)),
                () if !matches!(self.state.phase, Phase::Seeding | Phase::Running) => return Ok(None),
                // Check again, now that the run is known: seeds may have been submitted since.
                () if finished == Some(true) && is_running => {
                    let run = self.state.run;
                    return match process.is_drained().await? && backend.pending().await? == 0 {
                        true => self.end(run, CrawlEnd::Finished).await,
                        false => Ok(None),
                    };
                }
                // Seeds are still being submitted.
                () if finished == Some(true) => {
                    sleep(self.membership.heartbeat_interval() / 4).await;
                    return Ok(None);
                }
                () => {}
            }
            self.report_service().await?;
            self.report_status(process, false).await?;
            self.remove_dead_members(process).await?;
            if is_running && let Some(end) = self.reached_limit(process).await? {
                return self.end(self.state.run, end).await;
            }
        }
    }

    /// Sends a heartbeat and updates the crawl's state. Returns whether this process still is the frontier.
    /// If seeds are being submitted for longer than the heartbeat timeout, the process that submits them
    /// is assumed to be dead.
    async fn heartbeat(&mut self) -> Result<bool, BackendError> {
        let (is_member, state) = self.membership.heartbeat().await?;
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
            self.state = self.membership.control.set_running(run).await?;
        }
        Ok(is_member)
    }

    /// Applies what was changed in the crawl, unless the state has it.
    async fn update_limits(&mut self, process: &FrontierProcess) -> Result<(), BackendError> {
        if self.live == Some(self.state.live) {
            return Ok(());
        }
        let (version, settings) = self.membership.control.live_settings().await?;
        self.membership.is_paused = settings.is_paused;
        match self.crawler.live_limits(&settings) {
            Ok(limits) => {
                process.backend().set_limits(&limits);
                // The first settings were not changed now.
                if self.live.is_some() {
                    log::changed(&settings.description());
                }
                self.crawler.control.set(settings);
            }
            // A process of another version has stored them.
            Err(why) => (self.shared.notice)(&format!("cannot use changed settings of the crawl: {why}")),
        }
        self.live = Some(version);
        Ok(())
    }

    /// Stores the counters of the prioritizer's service in Redis, if they have changed.
    async fn report_service(&mut self) -> Result<(), BackendError> {
        let prioritizer_service = self.crawler.pagerank.as_ref().map(|pagerank| pagerank.stats());
        if prioritizer_service == self.reported_service {
            return Ok(());
        }
        self.reported_service.clone_from(&prioritizer_service);
        let report = MemberReport { prioritizer_service, ..MemberReport::default() };
        report.store(&self.membership.control, FRONTIER_REPORT).await
    }

    /// Adds the counts to the time series, and reports the status.
    async fn report_status(&self, process: &FrontierProcess, has_result: bool) -> Result<(), BackendError> {
        let (snapshot, elapsed) = (process.backend().snapshot().await?, self.state.elapsed);
        self.monitor.recorders.sample(&snapshot, elapsed);
        if let Some(on_status) = &self.crawler.on_status {
            let phase = phase_of(&self.state.phase, self.membership.is_paused, has_result);
            let view = CrawlView { elapsed, phase, ..self.monitor.view(snapshot) };
            on_status(&view);
            self.reported.send_replace(Some(view));
        }
        Ok(())
    }

    async fn end(&mut self, run: u64, end: CrawlEnd) -> Result<Option<RoleExit>, BackendError> {
        self.state = self.membership.control.set_ended(run, end_name(end)).await?;
        Ok(None)
    }

    async fn reached_limit(&self, process: &FrontierProcess) -> Result<Option<CrawlEnd>, BackendError> {
        let max_time = self.crawler.control.settings().max_time(self.crawler.max_time);
        if max_time.is_some_and(|time| self.state.elapsed >= time) {
            return Ok(Some(CrawlEnd::TimeLimit));
        }
        Ok(process.backend().exhausted_budget().await?.map(CrawlEnd::LimitReached))
    }

    /// Declares members without heartbeats dead and requeues the URLs of dead workers. Returns how many workers are alive.
    async fn remove_dead_members(&mut self, process: &FrontierProcess) -> Result<usize, BackendError> {
        let control = &self.membership.control;
        // The snapshot comes first: a worker that has URLs in it joined before, so it is among the members.
        let snapshot = process.backend().snapshot().await?;
        if !self.is_begun && snapshot.admitted > 0 {
            process.flush().await?;
            control.set_begun().await?;
            self.is_begun = true;
        }
        let (mut members, _) = control.members().await?;
        let orphaned = orphaned_workers(&snapshot, &members);
        members.extend(orphaned.iter().cloned());
        self.failures.retain(&members);
        for worker in orphaned.into_iter().filter(|worker| self.failures.is_dead(worker)) {
            let Role::Worker(id) = worker.role else { continue };
            process.remove_worker(id)?;
            let message = format!("{} has URLs but no process; reassigning its URLs", worker.role);
            log::warned(&*self.shared.notice, &message);
        }
        members.retain(|member| !member.token.starts_with(NO_MEMBER));
        let has_ended = matches!(self.state.phase, Phase::Ended(_));
        let mut alive = 0;
        for member in members {
            let Role::Worker(id) = member.role else { continue };
            // After the end of the crawl no process takes over from a killed worker, so there is no need to
            // wait for one.
            let seems_dead = self.failures.is_dead(&member) || has_ended && is_surely_dead(&member.token);
            let is_dead = member.is_dead || seems_dead && control.declare_dead(&member).await?;
            if !is_dead {
                alive += 1;
                continue;
            }
            process.remove_worker(id)?;
            process.flush().await?;
            control.leave(member.role, &member.token).await?;
            let (role, location, seconds) = (member.role, &member.location, member.since_heartbeat.as_secs());
            let message = format!(
                "{role} ({location}) is declared dead: no heartbeat for {seconds} s; reassigning its URLs"
            );
            log::warned(&*self.shared.notice, &message);
        }
        Ok(alive)
    }

    /// Waits for the workers to finish their requests in flight, stores the crawl's report, and archives the
    /// crawl. Returns `None` if the crawl was resumed meanwhile.
    async fn store_report(
        &mut self,
        process: &FrontierProcess,
        end: &str,
    ) -> Result<Option<RoleExit>, BackendError> {
        let run = self.state.run;
        process.set_leasing(false);
        self.report_service().await?;
        while self.remove_dead_members(process).await? > 0 {
            sleep_until(Instant::now() + self.membership.heartbeat_interval() / 4).await;
            let is_member = self.heartbeat().await?;
            match () {
                () if is_absent(&self.state.phase) => return Ok(None),
                () if !is_member => return Ok(Some(RoleExit::Lost)),
                () if self.crawler.stop.is_stop_requested() => return Ok(Some(RoleExit::Stopped)),
                () if self.state.run != run => return Ok(None),
                () => {}
            }
            self.report_status(process, false).await?;
        }
        process.flush().await?;
        process.write_status().await?;
        self.parts.merge_all().await;
        let control = &self.membership.control;
        let mut members: Vec<MemberReport> = MemberReport::all(control).await?.into_values().collect();
        members.push(MemberReport::with_traffic(control));
        let report = StoredReport {
            end: end.to_owned(),
            milliseconds: self.state.elapsed.as_millis().try_into().unwrap_or(u64::MAX),
            snapshot: process.backend().snapshot().await?,
            members,
        };
        log::crawl_ended(&end_of(end), &report.snapshot, self.state.elapsed);
        let report = serde_json::to_string(&report)
            .map_err(|error| BackendError::redis(StorageErrorKind::Internal, error.to_string()))?;
        control.store_result(run, &report).await?;
        self.report_status(process, true).await?;
        self.state = self.membership.control.archive(run).await?;
        // If the crawl was resumed meanwhile, it continues with everything it had.
        Ok((self.state.run == run).then(|| RoleExit::CrawlEnded(end_of(end))))
    }
}
