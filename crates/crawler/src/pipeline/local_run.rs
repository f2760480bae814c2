//! Runs a crawl in this process: one thread per worker, and a thread for the frontier and supervision.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

use super::live_control::LiveWorkers;
use super::{CrawlEnd, CrawlReport, Crawler, ResumeStatus};
use crate::backend::durable::StateWriter;
use crate::backend::{Backend, BackendError, Snapshot, WorkerId};
use crate::crawl_view::{CrawlMonitor, CrawlPhase};
use crate::error::Error;
use crate::fetch::fetcher::Fetcher;
use crate::fetch::network::NetworkMonitor;
use crate::fetch::request_gate::RequestGate;
use crate::fetch::throttle::HostThrottle;
use crate::frontier;
use crate::log;
use crate::modules::page_pipeline::{PagePipeline, after_redirects};
use crate::stop::StopHandle;
use crate::task::Depth;
use crate::worker::live_scope::SeedUpdates;
use crate::worker::{Worker, WorkerContext};

/// The interval between two calls of the progress callback.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// After this many intervals, the outputs are fsynced and the state forgets what it recorded for them. The state also gets the
/// statistics then.
const SYNC_INTERVALS: u32 = 5;

/// What a crawl runs on.
pub(crate) struct LocalRun<'s, R> {
    pub(crate) backend: Arc<R>,
    pub(crate) pages: Arc<PagePipeline>,
    /// The active crawl time, the statistics and the limits.
    pub(crate) monitor: Arc<CrawlMonitor>,
    /// How many failed URLs were queued again.
    pub(crate) retried: u64,
    /// The durable state, if there is one. Outputs are fsynced then, so that they survive a power failure as the state does.
    pub(crate) state: Option<&'s StateWriter>,
    /// The counts when they were last reported.
    pub(crate) last_snapshot: Mutex<Snapshot>,
}

impl<R: Backend> LocalRun<'_, R> {
    /// Runs the crawl to its end.
    pub(crate) fn run(self, crawler: Crawler) -> Result<CrawlReport, Error> {
        with_runtime(|runtime| self.run_on(runtime, crawler))?
    }

    fn run_on(self, runtime: &Runtime, mut crawler: Crawler) -> Result<CrawlReport, Error> {
        self.pages.record_failures(self.monitor.recorders.add());
        let before = runtime.block_on(self.snapshot(&crawler))?;
        runtime.block_on(self.admit_seeds(&mut crawler))?;
        let seeded = runtime.block_on(self.snapshot(&crawler))?;
        // Another visit may have nothing to do.
        let is_first = before.seen_urls == 0;
        let first = if is_first { &before } else { &seeded };
        (crawler.on_progress)(first);
        self.report_status(&crawler, first);
        let resumed = match is_first {
            true => ResumeStatus::New,
            _ if seeded.pending() > 0 || seeded.scheduled > 0 => ResumeStatus::Resumed,
            _ => ResumeStatus::AlreadyFinished,
        };
        let mode = if self.state.is_some() { "state" } else { "memory" };
        log::crawl_started(mode, crawler.seeds.len(), seeded.pending());
        let exhausted = runtime.block_on(self.backend.exhausted_budget())?;
        let end = match (resumed, exhausted) {
            (ResumeStatus::AlreadyFinished, _) => Ok(CrawlEnd::Finished),
            (_, Some(budget)) => Ok(CrawlEnd::LimitReached(budget)),
            _ => {
                self.store_statistics();
                self.run_workers(runtime, &crawler)
            }
        };
        self.report_stopping(runtime, &crawler);
        if !matches!(end, Ok(CrawlEnd::Finished | CrawlEnd::LimitReached(_))) {
            self.pages.shutdown_requested();
        }
        let early_end = self.pages.end();
        let (module_failures, mut module_summaries) = self.pages.finish();
        let finished = self.finish_outputs(runtime, &crawler, end.as_ref().err());
        if let (Err(error), _) | (_, Err(error)) = (&end, &finished) {
            self.report_failure(&crawler, error, finished.as_ref().ok());
        }
        // An error of the backend explains the errors that followed from it.
        let (end, snapshot) = (end?, finished?);
        module_summaries.extend(self.pages.output_summaries());
        let is_new = resumed == ResumeStatus::New;
        let seeds = after_redirects(&crawler.seeds, &self.pages.seed_outcomes(), is_new);
        let (output_failure, module_failure) = (self.pages.output_failure(), self.pages.module_failure());
        let end = match early_end {
            _ if output_failure.is_some() => CrawlEnd::OutputFailed,
            early_end => early_end.unwrap_or(end),
        };
        if let Some(state) = self.state
            && matches!(end, CrawlEnd::Finished | CrawlEnd::LimitReached(_) | CrawlEnd::TimeLimit)
        {
            state.record_visit_end()?;
        }
        self.monitor.set_phase(CrawlPhase::Ended(end.to_string()));
        let elapsed = match resumed {
            ResumeStatus::AlreadyFinished => self.monitor.elapsed_before(),
            _ => {
                self.monitor.recorders.sample(&snapshot, self.monitor.elapsed());
                self.monitor.elapsed()
            }
        };
        self.store_statistics();
        self.report_status(&crawler, &snapshot);
        Ok(CrawlReport {
            end,
            snapshot,
            seeds,
            module_failures,
            module_summaries,
            output_failure,
            module_failure,
            elapsed,
            resumed,
            broken_links: self.pages.broken_links(),
            retried: self.retried,
            statistics: Arc::new(self.monitor.recorders.merged()),
            redis_traffic: None,
        })
    }

    /// Admits the seeds and sitemaps, and extends the scope by the seeds of lists. If an earlier process has admitted them, only
    /// those that were added are new, and lists are not read again.
    async fn admit_seeds(&self, crawler: &mut Crawler) -> Result<(), Error> {
        let key = self.backend.hash_key();
        let recorded = self.state.map(StateWriter::seed_index).transpose()?.flatten();
        if recorded.is_some() {
            crawler.seed_list = None;
        }
        let mut seeds = crawler.read_seeds(key)?;
        if crawler.stop.is_stop_requested() {
            // The list may not have been read to its end.
            return Ok(());
        }
        if seeds.is_empty() && recorded.is_none() {
            return Err(Error::InvalidSetting("a crawl needs at least one seed".into()));
        }
        self.write_outputs().await?;
        loop {
            let batch = seeds.next_batch();
            if batch.is_empty() {
                break;
            }
            self.backend.admit(batch).await?;
        }
        if let (Some(state), None) = (self.state, &recorded) {
            state.record_seed_index(&seeds.index)?;
        }
        crawler.use_seed_index(key, &recorded.unwrap_or(seeds.index));
        Ok(())
    }

    fn run_workers(&self, runtime: &Runtime, crawler: &Crawler) -> Result<CrawlEnd, Error> {
        let Crawler { settings, stop, .. } = crawler;
        let config = &self.pages.fetch_config(&crawler.config);
        let context = worker_context(crawler, &self.backend, &self.pages, stop, None);
        let throttle = Arc::new(HostThrottle::from_config(config));
        let network = Arc::new(NetworkMonitor::new(config.network_timeout));
        let mut workers = Vec::new();
        for id in 0..settings.workers {
            let fetcher = Fetcher::new(config.clone(), &crawler.seeds, Arc::clone(&throttle), stop.clone())?
                .with_network(Arc::clone(&network))
                .with_proxy_health(crawler.proxy_health.clone())
                .with_request_counter(self.backend.request_counter())
                .with_recorder(self.monitor.recorders.add())
                .with_robots_waits(crawler.robots_waits.clone());
            workers.push(Arc::new(Worker::new(WorkerId(id), fetcher, Arc::clone(&context))));
        }
        thread::scope(|scope| {
            // Each worker has its own thread and runtime, so that its connections stay on one thread.
            let threads = workers.iter().map(|worker| {
                let (worker, stop) = (Arc::clone(worker), stop.clone());
                scope.spawn(move || Ok(block_on(run_worker(worker, stop))??))
            });
            let threads: Vec<_> = threads.collect();
            let live = LiveWorkers::new(crawler, workers, Arc::clone(&context.gate), throttle);
            let end = runtime.block_on(async {
                tokio::select! {
                    end = self.supervise(crawler, &network, live) => Ok(end?),
                    cause = crawler.proxy_health.given_up() => Err(Error::Proxy(cause)),
                }
            });
            // The workers finish their requests in flight, unless the time is up.
            match end {
                Ok(CrawlEnd::TimeLimit) => stop.abort(),
                _ => stop.stop(),
            }
            self.report_stopping(runtime, crawler);
            let mut failure = None::<Error>;
            for thread in threads {
                match thread.join() {
                    Ok(result) => failure = failure.or(result.err()),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            match failure {
                Some(failure) => Err(failure),
                None => end,
            }
        })
    }

    /// Runs the frontier until the crawl ends.
    async fn supervise(
        &self,
        crawler: &Crawler,
        network: &NetworkMonitor,
        live: LiveWorkers<R>,
    ) -> Result<CrawlEnd, BackendError> {
        let backend = &*self.backend;
        if crawler.has_builtin_prioritizer {
            backend.set_prioritizer(&crawler.prioritizer);
        }
        let is_finished = tokio::select! {
            biased;
            finished = frontier::run(backend, &*crawler.prioritizer, &crawler.stop) => finished?,
            () = self.time_up(crawler) => return Ok(CrawlEnd::TimeLimit),
            failed = self.apply_actions(crawler, live) => return failed,
            end = self.watch(crawler, network) => return end,
            end = self.pages.ended() => return Ok(end),
        };
        match backend.exhausted_budget().await? {
            _ if is_finished => Ok(CrawlEnd::Finished),
            Some(budget) => {
                log::limit_reached(&budget);
                Ok(CrawlEnd::LimitReached(budget))
            }
            None => Ok(CrawlEnd::Stopped),
        }
    }

    /// Reports progress and writes the outputs; returns only when the crawl cannot continue.
    async fn watch(&self, crawler: &Crawler, network: &NetworkMonitor) -> Result<CrawlEnd, BackendError> {
        for interval in 1u32.. {
            tokio::time::sleep(POLL_INTERVAL).await;
            let network_down = network.down_for().map(|time| time.as_secs());
            let snapshot = Snapshot { network_down, ..self.snapshot(crawler).await? };
            self.monitor.recorders.sample(&snapshot, self.monitor.elapsed());
            (crawler.on_progress)(&snapshot);
            if crawler.stop.is_stop_requested() {
                self.monitor.set_phase(CrawlPhase::Stopping);
            }
            self.report_status(crawler, &snapshot);
            self.pages.notices().for_each(|notice| log::warned(&*crawler.on_notice, &notice));
            if interval.is_multiple_of(SYNC_INTERVALS) {
                self.write_outputs().await?;
            }
            if interval == 1 || interval.is_multiple_of(SYNC_INTERVALS) {
                self.store_statistics();
            }
            if let Some(end) = self.pages.end() {
                return Ok(end);
            }
        }
        Ok(CrawlEnd::Stopped)
    }

    fn report_status(&self, crawler: &Crawler, snapshot: &Snapshot) {
        self.last_snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone_from(snapshot);
        if let Some(on_status) = &crawler.on_status {
            on_status(&self.monitor.view(snapshot.clone()));
        }
    }

    /// Reports that the crawl finishes its requests and outputs. That may take minutes, and the next report is that of its end.
    fn report_stopping(&self, runtime: &Runtime, crawler: &Crawler) {
        self.monitor.set_phase(CrawlPhase::Stopping);
        // A state that cannot be read is an error of what follows.
        if let Ok(snapshot) = runtime.block_on(self.snapshot(crawler)) {
            self.report_status(crawler, &snapshot);
        }
    }

    /// Stores the statistics in the state with its next commit.
    fn store_statistics(&self) {
        if let Some(state) = self.state {
            state.store_view(&self.monitor);
        }
    }

    /// Reports the end of a crawl that failed, with the last counts that are known.
    fn report_failure(&self, crawler: &Crawler, error: &Error, snapshot: Option<&Snapshot>) {
        self.monitor.set_phase(CrawlPhase::Ended(format!("{error:#}")));
        self.store_statistics();
        let last = self.last_snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.report_status(crawler, snapshot.unwrap_or(&last));
    }

    async fn snapshot(&self, crawler: &Crawler) -> Result<Snapshot, BackendError> {
        let prioritizer_service = crawler.pagerank.as_ref().map(|pagerank| pagerank.stats());
        let mut snapshot = Snapshot { prioritizer_service, ..self.backend.snapshot().await? };
        if self.monitor.phase() != CrawlPhase::Paused {
            crawler.robots_waits.add_to(&mut snapshot.waiting_hosts);
        }
        Ok(snapshot)
    }

    /// Completes the outputs, also after a failure, and returns the counts of the crawl.
    fn finish_outputs(
        &self,
        runtime: &Runtime,
        crawler: &Crawler,
        failure: Option<&Error>,
    ) -> Result<Snapshot, Error> {
        let written = runtime.block_on(self.write_outputs());
        let snapshot = runtime.block_on(self.snapshot(crawler));
        let unreached = match failure {
            None | Some(Error::Proxy(_)) => self.write_unreached(),
            // The backend may be the cause.
            Some(_) => Ok(()),
        };
        self.pages.finish_outputs(self.state.is_some(), &*crawler.on_notice);
        written?;
        unreached?;
        Ok(snapshot?)
    }

    /// Appends the URLs that were not reached to the outputs that have a row for every URL. The state does not record them: a
    /// resumed crawl removes them.
    fn write_unreached(&self) -> Result<(), Error> {
        if self.pages.output_failure().is_none() && self.pages.wants_urls() {
            self.backend.drain_pending(&mut |record| self.pages.write_unrecorded(&record))?;
            self.pages.flush_outputs(self.state.is_some());
        }
        Ok(())
    }

    /// Flushes the outputs, and records in the state how far they are written.
    async fn write_outputs(&self) -> Result<(), BackendError> {
        let (pages, syncs) = (Arc::clone(&self.pages), self.state.is_some());
        if !pages.has_outputs() && self.state.is_none() {
            return Ok(());
        }
        // A slow disk must not block the frontier.
        let written = tokio::task::spawn_blocking(move || pages.flush_outputs(syncs)).await;
        match written {
            Ok(Some((position, lengths))) => self.backend.record_outputs_written(position, lengths).await,
            Ok(None) => Ok(()),
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        }
    }
}

/// What all workers of a crawl share.
pub(crate) fn worker_context<R>(
    crawler: &Crawler,
    backend: &Arc<R>,
    pages: &Arc<PagePipeline>,
    stop: &StopHandle,
    seed_updates: Option<Arc<SeedUpdates>>,
) -> Arc<WorkerContext<R>> {
    let Crawler { settings, config, control, .. } = crawler;
    let scope = crawler.scope_of_tasks(pages.keeps_requisites(), pages.checks_links());
    Arc::new(WorkerContext {
        backend: Arc::clone(backend),
        pipeline: Arc::clone(pages),
        gate: Arc::new(RequestGate::new(scope, Arc::clone(control.pause()))),
        seed_updates,
        max_depth: crawler.max_depth.unwrap_or(Depth::MAX),
        max_page_bytes: config.max_page_bytes,
        oversize: config.oversize,
        similarity: settings.similarity,
        follow_duplicates: crawler.follow_duplicates,
        keeps_visits: settings.visits.are_kept,
        uses_sitemaps: crawler.follows_links()
            && config.requests.robots_sitemaps
            && config.requests.obey_robots
            && !crawler.scope.is_anywhere(),
        wants_source_links: crawler.prioritizer.wants_source_links(),
        // As many as the queue holds, but enough that leases waiting for their hosts do not keep others from being fetched.
        max_leases: settings.queue_size.max(2 * config.concurrency),
        stop: stop.clone(),
    })
}

/// Runs a worker. However it ends, the crawl stops: a crawl that lost a worker would wait for its leases forever.
pub(crate) async fn run_worker<R: Backend>(
    worker: Arc<Worker<R>>,
    stop: StopHandle,
) -> Result<(), BackendError> {
    let _stop = StopWhenDropped(stop);
    worker.run().await
}

/// Stops the crawl when it is dropped.
pub(crate) struct StopWhenDropped(pub(crate) StopHandle);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Runs a future on a runtime of its own.
pub(crate) fn block_on<F: Future>(future: F) -> Result<F::Output, Error> {
    with_runtime(|runtime| runtime.block_on(future))
}

/// Calls a function with a runtime for its thread.
fn with_runtime<T>(run: impl FnOnce(&Runtime) -> T) -> Result<T, Error> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| Error::System { action: "start an async runtime", source })?;
    let output = run(&runtime);
    // A DNS lookup may still be running on a thread of its own.
    runtime.shutdown_background();
    Ok(output)
}

/// Fails inside an async runtime, where blocking would panic or stall other tasks.
pub(crate) fn check_outside_runtime() -> Result<(), Error> {
    match Handle::try_current() {
        Ok(_) => Err(Error::InsideRuntime),
        Err(_) => Ok(()),
    }
}
