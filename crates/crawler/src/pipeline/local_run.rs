//! Those who work on a crawl: a thread for each worker, and the calling thread, which runs the frontier and watches.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime;
use url::Url;

use super::{CrawlEnd, CrawlReport, Crawler, ResumeStatus};
use crate::backend::{Backend, BackendError, DiscoveredUrl, Snapshot, WorkerId};
use crate::error::Error;
use crate::fetch::fetcher::Fetcher;
use crate::fetch::throttle::HostThrottle;
use crate::frontier;
use crate::modules::page_pipeline::PagePipeline;
use crate::origin::without_credentials;
use crate::prioritizer::Random;
use crate::stop::StopHandle;
use crate::task::Depth;
use crate::worker::{Worker, WorkerContext};

/// How often the watcher looks.
const LOOK: Duration = Duration::from_secs(1);

/// After so many looks, the outputs are made safe from a loss of power, and what was recorded for them is forgotten.
const SYNC_AFTER: u32 = 5;

/// What a crawl is carried out on.
pub(crate) struct LocalRun<R> {
    pub(crate) backend: Arc<R>,
    pub(crate) installed: Arc<PagePipeline>,
    /// What earlier processes took.
    pub(crate) elapsed: Duration,
    /// The outputs are to outlive a loss of power, as the state does.
    pub(crate) syncs: bool,
}

impl<R: Backend> LocalRun<R> {
    /// Crawls to the end.
    pub(crate) fn crawl(self, crawler: Crawler, watch: &dyn Fn(&Snapshot)) -> Result<CrawlReport, Error> {
        let begun = Instant::now();
        let before = block_on(self.backend.snapshot())??;
        self.installed.check_complete(before.pages)?;
        watch(&before);
        let resumed = match before.admitted {
            0 => ResumeStatus::No,
            _ if before.outstanding() > 0 => ResumeStatus::Yes,
            _ => ResumeStatus::Finished,
        };
        let spent = block_on(self.backend.exhausted_budget())??;
        let end = match (resumed, spent) {
            (ResumeStatus::Finished, _) => Ok(CrawlEnd::Done),
            (_, Some(budget)) => Ok(CrawlEnd::Spent(budget)),
            _ => self.work_on(&crawler, resumed, watch),
        };
        if !matches!(end, Ok(CrawlEnd::Done | CrawlEnd::Spent(_))) {
            self.installed.shutdown_requested();
        }
        let (counts, summaries) = self.installed.finish();
        let written = block_on(self.write_outputs())?;
        // Trouble of the storage explains everything that followed from it.
        let end = end?;
        written?;
        let snapshot = block_on(self.backend.snapshot())??;
        let output_failure = self.installed.output_failure();
        let end = if output_failure.is_some() { CrawlEnd::OutputFailed } else { end };
        let elapsed = self.elapsed + begun.elapsed();
        Ok(CrawlReport { end, snapshot, counts, summaries, output_failure, elapsed, resumed, traffic: None })
    }

    fn work_on(
        &self,
        crawler: &Crawler,
        resumed: ResumeStatus,
        watch: &dyn Fn(&Snapshot),
    ) -> Result<CrawlEnd, Error> {
        let Crawler { settings, config, stop, .. } = crawler;
        let context = context(crawler, &self.backend, &self.installed, stop);
        let pace = Arc::new(HostThrottle::from_config(config));
        let mut workers = Vec::new();
        for id in 0..settings.workers {
            let fetcher = Fetcher::new(config.clone(), &crawler.seeds, Arc::clone(&pace), stop.clone())?;
            workers.push(Arc::new(Worker::new(WorkerId(id), fetcher, Arc::clone(&context))));
        }
        thread::scope(|scope| {
            // Each on a thread of its own, with a runtime of its own: its connections stay where they are used.
            let workers = workers.into_iter().map(|worker| {
                let stop = stop.clone();
                scope.spawn(move || {
                    block_on(run_worker(worker, stop)).map_err(|error| BackendError(error.to_string()))?
                })
            });
            let workers: Vec<_> = workers.collect();
            let end = block_on(self.supervise(crawler, resumed, watch));
            // Whatever ended the crawl, the workers finish what is in flight, unless there is no time left for it.
            match end {
                Ok(Ok(CrawlEnd::TimeUp)) => stop.abort(),
                _ => stop.stop(),
            }
            let mut trouble = None;
            for worker in workers {
                match worker.join() {
                    Ok(worked) => trouble = trouble.or(worked.err()),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            match trouble {
                Some(trouble) => Err(trouble.into()),
                None => Ok(end??),
            }
        })
    }

    /// What the calling thread does while the workers work.
    async fn supervise(
        &self,
        crawler: &Crawler,
        resumed: ResumeStatus,
        watch: &dyn Fn(&Snapshot),
    ) -> Result<CrawlEnd, BackendError> {
        let backend = &*self.backend;
        if resumed == ResumeStatus::No {
            self.write_outputs().await?;
            backend.admit(seed_urls(&crawler.seeds)).await?;
        }
        let time_up = async {
            match crawler.max_time {
                Some(time) => tokio::time::sleep(time.saturating_sub(self.elapsed)).await,
                None => std::future::pending().await,
            }
        };
        let over = tokio::select! {
            biased;
            over = frontier::run(backend, &*crawler.prioritize, Random::from_system(), &crawler.stop) => over?,
            () = time_up => return Ok(CrawlEnd::TimeUp),
            end = self.watch(watch) => return end,
        };
        match backend.exhausted_budget().await? {
            _ if over => Ok(CrawlEnd::Done),
            Some(budget) => Ok(CrawlEnd::Spent(budget)),
            None => Ok(CrawlEnd::Stopped),
        }
    }

    /// Shows how things stand, and sees to the outputs; ends only when the crawl cannot go on.
    async fn watch(&self, watch: &dyn Fn(&Snapshot)) -> Result<CrawlEnd, BackendError> {
        for look in 1u32.. {
            tokio::time::sleep(LOOK).await;
            watch(&self.backend.snapshot().await?);
            if look.is_multiple_of(SYNC_AFTER) {
                self.write_outputs().await?;
            }
            if self.installed.output_failure().is_some() {
                return Ok(CrawlEnd::OutputFailed);
            }
        }
        Ok(CrawlEnd::Stopped)
    }

    /// Writes the outputs out, and lets the state know how far they are.
    async fn write_outputs(&self) -> Result<(), BackendError> {
        let (installed, syncs) = (Arc::clone(&self.installed), self.syncs);
        // The disk may take its time, and nobody shall wait for it.
        let written = tokio::task::spawn_blocking(move || installed.flush_outputs(syncs)).await;
        match written {
            Ok(Some((last_id, lengths))) => self.backend.record_outputs_written(last_id, lengths).await,
            Ok(None) => Ok(()),
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        }
    }
}

/// What every worker of a crawl goes by, until it is told to stop.
pub(crate) fn context<R>(
    crawler: &Crawler,
    backend: &Arc<R>,
    installed: &Arc<PagePipeline>,
    stop: &StopHandle,
) -> Arc<WorkerContext<R>> {
    let Crawler { settings, config, .. } = crawler;
    Arc::new(WorkerContext {
        backend: Arc::clone(backend),
        pipeline: Arc::clone(installed),
        scope: crawler.scope.clone().rejecting_private(config, &crawler.seeds),
        max_depth: crawler.max_depth.unwrap_or(Depth::MAX),
        max_page_bytes: config.max_page_bytes,
        drop_near_duplicates: settings.similarity.is_some_and(|threshold| !threshold.is_exact()),
        // As many as its queue holds; but what waits for its host must not keep others from being asked.
        max_leases: settings.queue_size.max(2 * config.concurrency),
        stop: stop.clone(),
    })
}

/// Seeds, as they are admitted.
pub(crate) fn seed_urls(seeds: &[Url]) -> Vec<DiscoveredUrl> {
    let seeds = seeds.iter().map(|seed| {
        let mut url = without_credentials(seed);
        url.set_fragment(None);
        DiscoveredUrl { url: url.into(), depth: 0, redirects: 0 }
    });
    seeds.collect()
}

/// A worker at its work. However it ends, the others are told: a crawl that lost a worker would wait for ever for what that
/// one held.
pub(crate) async fn run_worker<R: Backend>(
    worker: Arc<Worker<R>>,
    stop: StopHandle,
) -> Result<(), BackendError> {
    let _stop = StopWhenDropped(stop);
    worker.run().await
}

struct StopWhenDropped(StopHandle);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.stop();
    }
}

pub(crate) fn block_on<F: Future>(future: F) -> Result<F::Output, Error> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Error::InvalidSetting(format!("cannot start a runtime: {error}")))?;
    let output = runtime.block_on(future);
    // A name look-up may still be running on a thread of its own; nobody waits for it.
    runtime.shutdown_background();
    Ok(output)
}
