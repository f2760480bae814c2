//! The worker role: fetches the URLs that are routed to it, for as long as its heartbeats are acknowledged.

use std::convert::Infallible;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant, sleep_until, timeout};

use super::live_worker::LiveWorker;
use super::statistics_parts::PartWriter;
use super::worker_condition::ConditionReporter;
use super::{
    CrawlLossDetector, MemberReport, Membership, RoleExit, STATUS_INTERVAL, SharedCrawl, end_name, end_of,
    is_absent,
};
use crate::backend::redis::{DistributedCrawl, Phase, RemoteBackend, Role};
use crate::backend::{Backend, BackendError, Snapshot, WorkerId};
use crate::crawl_view::{CrawlMonitor, CrawlPhase};
use crate::error::{Error, StorageErrorKind};
use crate::fetch::fetcher::Fetcher;
use crate::fetch::network::NetworkMonitor;
use crate::fetch::throttle::HostThrottle;
use crate::log;
use crate::modules::page_pipeline::{ModuleFailures, PagePipeline};
use crate::pipeline::live_control::LiveWorkers;
use crate::pipeline::local_run::{run_worker, worker_context};
use crate::pipeline::{CrawlEnd, Crawler, block_on};
use crate::statistics::Statistics;
use crate::stats::RequestCounter;
use crate::worker::Worker;
use crate::worker::live_scope::SeedUpdates;
use crate::worker::liveness::{HeartbeatTime, LivenessGuard};

/// How long a worker that leaves waits for the frontier to take its leases back.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a worker checks whether its part files are free.
const PARTS_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The pause before a worker tries its next number, because another process has the part files of the last one.
const NEXT_NUMBER_PAUSE: Duration = Duration::from_millis(100);

/// Part files are fsynced after this many heartbeats.
const HEARTBEATS_PER_SYNC: u32 = 5;

impl Crawler {
    /// Runs a worker of this crawl, which exists on Redis, until the crawl ends: the worker of this number,
    /// or of the first number that is free.
    pub(super) fn run_as_worker(
        mut self,
        shared: &SharedCrawl,
        id: Option<WorkerId>,
    ) -> Result<RoleExit, Error> {
        self.derive_settings();
        block_on(async {
            let Some(control) = self.open_existing(shared).await? else { return Ok(RoleExit::Gone) };
            let control = Arc::new(control);
            let seed_index = control.seed_index().await?;
            self.use_seed_index(control.hash_key(), &seed_index);
            let (membership, pipeline) = match self.join_with_part_files(&control, shared, id).await? {
                Ok(joined) => joined,
                Err(exit) => return Ok(exit),
            };
            let Role::Worker(id) = membership.role else { return Ok(RoleExit::Lost) };
            let backend = Arc::new(control.join_as_worker(id, membership.joined_at));
            self.work(membership, backend, pipeline, seed_index.len(), shared).await
        })?
    }

    /// Joins as a worker, and opens its part files. A process that hangs may still have the part files of its number: then
    /// this one takes another number or, if it has to have this one, waits.
    async fn join_with_part_files(
        &mut self,
        control: &Arc<DistributedCrawl>,
        shared: &SharedCrawl,
        id: Option<WorkerId>,
    ) -> Result<Result<(Membership, Arc<PagePipeline>), RoleExit>, Error> {
        // Numbers stay taken until this process has one with free part files: otherwise it would get them again.
        let mut unusable = Vec::new();
        let joined = self.find_part_files(control, shared, id, &mut unusable).await;
        for membership in unusable {
            membership.leave().await?;
        }
        joined
    }

    /// The same. Keeps the numbers whose part files another process has.
    async fn find_part_files(
        &mut self,
        control: &Arc<DistributedCrawl>,
        shared: &SharedCrawl,
        id: Option<WorkerId>,
        unusable: &mut Vec<Membership>,
    ) -> Result<Result<(Membership, Arc<PagePipeline>), RoleExit>, Error> {
        let (wanted, mut is_announced) = (id.map(Role::Worker), false);
        let mut loss = CrawlLossDetector::new(shared);
        loop {
            let membership = match Membership::join(Arc::clone(control), wanted, self, shared).await? {
                Ok(membership) => membership,
                Err(exit) => return Ok(Err(exit)),
            };
            let Role::Worker(id) = membership.role else { return Ok(Err(RoleExit::Lost)) };
            let error = match self.open_part_files(id, &control.identity()) {
                Ok(pipeline) => {
                    if wanted.is_none() {
                        log::informed(&*shared.notice, &format!("running as worker {}", id.0));
                    }
                    return Ok(Ok((membership, pipeline)));
                }
                Err(error) => error,
            };
            let is_in_use = matches!(&error, Error::Output(error) if error.kind() == StorageErrorKind::InUse);
            let pause = match is_in_use && wanted.is_none() {
                true => {
                    unusable.push(membership);
                    NEXT_NUMBER_PAUSE
                }
                false => {
                    membership.leave().await?;
                    PARTS_POLL_INTERVAL
                }
            };
            if !is_in_use {
                return Err(error);
            }
            if wanted.is_some() && !std::mem::replace(&mut is_announced, true) {
                let message = format!(
                    "waiting for the part files of worker {}: another process still has them, perhaps one that hangs; \
                     this worker continues when it exits",
                    id.0
                );
                log::warned(&*shared.notice, &message);
            }
            tokio::select! {
                () = self.stop.stop_requested() => return Ok(Err(RoleExit::Stopped)),
                () = sleep_until(Instant::now() + pause) => {}
            }
            let phase = control.members().await?.1.phase;
            if loss.is_gone(&phase) {
                return Ok(Err(RoleExit::Gone));
            }
            if let Phase::Ended(end) = phase {
                return Ok(Err(RoleExit::CrawlEnded(end_of(&end))));
            }
        }
    }

    async fn work(
        self,
        mut membership: Membership,
        backend: Arc<RemoteBackend>,
        pipeline: Arc<PagePipeline>,
        index_bytes: usize,
        shared: &SharedCrawl,
    ) -> Result<RoleExit, Error> {
        let Role::Worker(id) = membership.role else { return Ok(RoleExit::Lost) };
        // A handle of its own: an exhausted budget stops the worker, not the program that runs it.
        let stop = self.stop.of_part();
        let liveness = LivenessGuard::with_timeout(shared.dead_after);
        let seed_updates = Arc::new(SeedUpdates::default());
        let context = worker_context(&self, &backend, &pipeline, &stop, Some(Arc::clone(&seed_updates)));
        let gate = Arc::clone(&context.gate);
        let throttle = Arc::new(HostThrottle::from_config(&self.config));
        let network = Arc::new(NetworkMonitor::new(self.config.network_timeout));
        let config = pipeline.fetch_config(&self.config);
        let fetcher = Fetcher::new(config, &self.seeds, Arc::clone(&throttle), stop.clone())?
            .with_network(Arc::clone(&network))
            .with_proxy_health(self.proxy_health.clone())
            .with_request_counter(backend.request_counter())
            .with_robots_waits(self.robots_waits.clone());
        let monitor = CrawlMonitor::new(Duration::ZERO, Statistics::default(), self.limits());
        let monitor = Arc::new(monitor.with_control(self.control.clone()));
        monitor.recorders.adopt(membership.control.recorder().clone());
        pipeline.record_failures(monitor.recorders.add());
        let fetcher = fetcher.with_recorder(monitor.recorders.add());
        let parts = PartWriter::start(&membership, &monitor, false);
        let condition = ConditionReporter::new(
            &membership,
            Arc::clone(&network),
            self.robots_waits.clone(),
            Arc::clone(&shared.notice),
        );
        let status = WorkerStatus { crawler: &self, monitor, requests: backend.request_counter(), network };
        let worker = Arc::new(Worker::new(id, fetcher.with_liveness(liveness.clone()), context));
        let mut live = LiveWorker {
            crawler: &self,
            control: Arc::clone(&membership.control),
            shared,
            workers: LiveWorkers::new(&self, vec![Arc::clone(&worker)], gate, throttle),
            version: None,
            index_bytes,
        };
        // Before its first request: the crawl may be paused.
        live.update(&membership.control.members().await?.1).await?;
        let (done, is_done) = watch::channel(false);
        let worker_stop = stop.clone();
        // The worker runs on the thread of the Redis connection: each page takes several operations, and
        // switching threads costs as much as some of them. Heartbeats are sent from this thread.
        let working = backend.spawn(async move {
            let worked = run_worker(worker, worker_stop).await;
            if worked.is_ok() {
                done.send_replace(true);
            }
            worked
        });
        let heartbeats =
            self.send_heartbeats(&mut membership, live, &seed_updates, &liveness, &pipeline, is_done.clone());
        let mut proxy_failure = None;
        let exit = tokio::select! {
            exit = heartbeats => exit,
            never = status.keep_reporting() => match never {},
            never = condition.keep_reporting() => match never {},
            never = self.robots_waits.report(|message| (shared.notice)(message)) => match never {},
            never = self.proxy_health.report(|message| (shared.notice)(message)) => match never {},
            cause = self.proxy_health.given_up() => {
                proxy_failure = Some(cause);
                Ok(RoleExit::Stopped)
            }
        };
        status.report(CrawlPhase::Stopping);
        // Requests in flight finish, unless another worker has their URLs now or will get them.
        match &exit {
            Ok(RoleExit::Lost | RoleExit::OutputClosed | RoleExit::Gone) | Err(_) => stop.abort(),
            Ok(_) => stop.stop(),
        }
        // A frontier that was killed may be back soon, but not for a process that has to exit.
        let reply_timeout = match &exit {
            Ok(RoleExit::CrawlEnded(_) | RoleExit::Changed) => shared.dead_after + LEAVE_TIMEOUT,
            Ok(RoleExit::Gone) => Duration::ZERO,
            _ => LEAVE_TIMEOUT,
        };
        let is_done = WorkerEnd { backend: &backend, is_done, reply_timeout };
        let finished = is_done.wait(&mut membership, &liveness).await;
        let worked = working.await.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()));
        let exit = exit?;
        let is_complete = finished?;
        if is_complete {
            worked?;
        }
        leave_crawl(membership, (&backend, is_complete), &pipeline, parts, &exit).await?;
        if let RoleExit::CrawlEnded(end) = &exit {
            status.report(CrawlPhase::Ended(end.to_string()));
        }
        match proxy_failure {
            Some(cause) => Err(Error::Proxy(cause)),
            None => Ok(exit),
        }
    }

    /// Sends heartbeats until there is a reason for the worker to exit.
    async fn send_heartbeats(
        &self,
        membership: &mut Membership,
        mut live: LiveWorker<'_>,
        seed_updates: &SeedUpdates,
        liveness: &LivenessGuard,
        pipeline: &Arc<PagePipeline>,
        mut is_done: watch::Receiver<bool>,
    ) -> Result<RoleExit, BackendError> {
        let shared = live.shared;
        let (mut version, mut loss) = (None, CrawlLossDetector::new(shared));
        let mut finished_at = None::<Instant>;
        for count in 0u32.. {
            if count.is_multiple_of(HEARTBEATS_PER_SYNC) {
                drop(sync_parts(pipeline));
            }
            let sent = HeartbeatTime::now();
            let (is_member, state) = membership.heartbeat().await?;
            if loss.is_final(&state.phase) {
                log::warned(&*shared.notice, &loss.message(&state.phase));
                return Ok(RoleExit::Gone);
            }
            if is_absent(&state.phase) {
                // This heartbeat does not count as acknowledged: requests stop unless the crawl is back in
                // time.
                tokio::select! {
                    () = self.stop.stop_requested() => return Ok(RoleExit::Stopped),
                    () = sleep_until(sent.at + membership.heartbeat_interval()) => continue,
                }
            }
            let version = *version.get_or_insert(state.version);
            match &state.phase {
                _ if !is_member => return Ok(RoleExit::Lost),
                Phase::Ended(end) => return Ok(RoleExit::CrawlEnded(end_of(end))),
                _ if state.version != version => return Ok(RoleExit::Changed),
                _ => liveness.renew(sent),
            }
            live.update(&state).await?;
            seed_updates.looked_up();
            let is_finished = *is_done.borrow();
            // The budget that it found exhausted was raised meanwhile, so that the frontier does not end the crawl.
            if is_finished && finished_at.get_or_insert(sent.at).elapsed() > shared.dead_after {
                return Ok(RoleExit::Changed);
            }
            if !is_finished && is_done.has_changed().is_err() {
                // The worker failed or panicked. Joining its task passes that on.
                return Ok(RoleExit::Stopped);
            }
            if is_finished
                && let Some(end @ (CrawlEnd::OutputFailed | CrawlEnd::ModuleFailed)) = pipeline.end()
            {
                // The output or module would fail again, so the crawl ends. Nothing is lost: it can be resumed.
                membership.control.set_ended(state.run, end_name(end)).await?;
            }
            pipeline.notices().for_each(|notice| log::warned(&*shared.notice, &notice));
            tokio::select! {
                biased;
                () = self.stop.stop_requested() => return Ok(RoleExit::Stopped),
                CrawlEnd::OutputClosed = pipeline.ended() => return Ok(RoleExit::OutputClosed),
                // A worker that finishes by itself has exhausted a budget. The frontier will notice and end
                // the crawl.
                _ = is_done.wait_for(|is_done| *is_done), if !is_finished => {}
                () = seed_updates.wanted() => {}
                () = sleep_until(sent.at + membership.heartbeat_interval()) => {}
            }
        }
        Ok(RoleExit::Stopped)
    }
}

/// Finishes the modules and outputs, stores the worker's report and leaves the crawl. If the worker is not complete, it has leases
/// that it could not return.
async fn leave_crawl(
    membership: Membership,
    (backend, is_complete): (&RemoteBackend, bool),
    pipeline: &Arc<PagePipeline>,
    parts: PartWriter,
    exit: &RoleExit,
) -> Result<(), Error> {
    let (failures, summaries) = pipeline.finish();
    let _ = sync_parts(pipeline).await;
    let role = membership.role;
    let summaries = summaries.into_iter().map(|summary| format!("{role}: {summary}")).collect();
    let ModuleFailures { failures, last_failure } = failures;
    let report = MemberReport {
        failures,
        last_failure,
        summaries,
        seeds: pipeline.seed_outcomes(),
        module_failure: pipeline.module_failure().map(|cause| format!("{role}: {cause}")),
        ..MemberReport::with_traffic(&membership.control)
    };
    // Do not write to a crawl that was purged.
    if *exit != RoleExit::Gone {
        parts.finish().await;
        report.store(&membership.control, &membership.identity.token).await?;
    }
    if !matches!(exit, RoleExit::Lost | RoleExit::Gone) {
        // Without a frontier, the leases stay until the next one finds that the worker is gone.
        if is_complete {
            let _ = timeout(LEAVE_TIMEOUT, backend.leave()).await;
        }
        membership.leave().await?;
    }
    Ok(())
}

/// Fsyncs the part files, on a thread for blocking calls: the next heartbeat must not wait for the disk.
fn sync_parts(pipeline: &Arc<PagePipeline>) -> JoinHandle<()> {
    let pipeline = Arc::clone(pipeline);
    tokio::task::spawn_blocking(move || drop(pipeline.flush_outputs(true)))
}

/// What an observer sees of a worker: its own requests.
struct WorkerStatus<'a> {
    crawler: &'a Crawler,
    monitor: Arc<CrawlMonitor>,
    requests: RequestCounter,
    network: Arc<NetworkMonitor>,
}

impl WorkerStatus<'_> {
    /// Reports once per second.
    async fn keep_reporting(&self) -> Infallible {
        loop {
            self.report(CrawlPhase::Running);
            sleep_until(Instant::now() + STATUS_INTERVAL).await;
        }
    }

    fn report(&self, phase: CrawlPhase) {
        self.monitor.set_phase(phase);
        if let Some(on_status) = &self.crawler.on_status {
            let network_down = self.network.down_for().map(|time| time.as_secs());
            let requests = self.requests.total();
            on_status(&self.monitor.view(Snapshot { requests, network_down, ..Snapshot::default() }));
        }
    }
}

/// A worker that finishes its requests in flight.
struct WorkerEnd<'a> {
    backend: &'a RemoteBackend,
    is_done: watch::Receiver<bool>,
    /// How long the worker waits for a frontier that does not reply.
    reply_timeout: Duration,
}

impl WorkerEnd<'_> {
    /// Sends heartbeats until the worker has finished. Returns false if it could not, because no frontier replies.
    async fn wait(
        mut self,
        membership: &mut Membership,
        liveness: &LivenessGuard,
    ) -> Result<bool, BackendError> {
        loop {
            if self.backend.unanswered_for().is_some_and(|time| time >= self.reply_timeout) {
                self.backend.close();
                return Ok(false);
            }
            tokio::select! {
                biased;
                _ = self.is_done.wait_for(|is_done| *is_done) => return Ok(true),
                () = sleep_until(Instant::now() + membership.heartbeat_interval()) => {}
            }
            let sent = HeartbeatTime::now();
            if membership.heartbeat().await?.0 {
                liveness.renew(sent);
            }
        }
    }
}
