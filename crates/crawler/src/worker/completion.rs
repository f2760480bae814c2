//! Completes leases: passes pages to the modules and outputs, stores the outcomes, and reports them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{FetchedLease, Worker, WorkerContext};
use crate::backend::{Backend, BackendError, CompleteResult, Completion, Lease, NoRequest};
use crate::exchange::Exchange;
use crate::modules::output::Writes;
use crate::modules::page_pipeline::PagePipeline;
use crate::origin::throttle_key;
use crate::outcome::Outcome;
use crate::page::Page;
use crate::sitemap;
use crate::statistics::counts::Stage;
use crate::statistics::recorder::{PageFacts, RequestFacts};
use crate::task_kind::{TaskKind, shown_url};
use crate::url_record::UrlRecord;

/// How long a stopped crawl waits for modules to finish their pages.
const MODULE_TIMEOUT: Duration = Duration::from_secs(2);

/// Leases that were completed.
pub(super) enum Completed {
    /// One that was fetched, of this host.
    Fetched(Arc<str>),
    /// This number of leases, without a request.
    Skipped(usize),
}

/// What is reported of a URL when its completion is stored.
struct UrlReport {
    lease: Lease,
    outcome: Outcome,
    writes: Writes,
    exchanges: Vec<Exchange>,
    request: RequestFacts,
    facts: Option<PageFacts>,
    has_robots_sitemaps: bool,
}

impl<R: Backend> Worker<R> {
    /// Completes a lease. The permits are released at the end. The host's next fetch does not wait for this.
    pub(super) async fn complete(self: Arc<Self>, fetched: FetchedLease) -> Result<Completed, BackendError> {
        let FetchedLease { host, completion, page, exchanges, permits: _permits, .. } = fetched;
        if let Some(mut completion) = completion
            && let Some(report) = self.process(&mut completion, page, exchanges).await
        {
            let results = self.context.backend.complete(vec![completion]).await?;
            self.completed(report, results.first());
        }
        Ok(Completed::Fetched(host))
    }

    /// Completes leases for which no request is sent, all in one operation.
    pub(super) async fn complete_without_request(
        self: Arc<Self>,
        leases: Vec<Lease>,
    ) -> Result<Completed, BackendError> {
        let (count, mut completions, mut reports) = (leases.len(), Vec::new(), Vec::new());
        for lease in &leases {
            let mut completion = Completion::new(lease);
            completion.outcome = lease.no_request.as_ref().map_or(Outcome::NotReached, NoRequest::outcome);
            let Some(report) = self.process(&mut completion, None, Vec::new()).await else { break };
            completions.push(completion);
            reports.push(report);
        }
        let results = self.context.backend.complete(completions).await?;
        for (report, result) in reports.into_iter().zip(&results) {
            self.completed(report, Some(result));
        }
        Ok(Completed::Skipped(count))
    }

    /// Passes a URL, and its page if it has one, to the modules and outputs. Returns `None` if one of them cannot process it, which
    /// stops the crawl: the URL stays pending, for when the module works, or for a worker that can write its page.
    async fn process(
        &self,
        completion: &mut Completion,
        page: Option<Page>,
        exchanges: Vec<Exchange>,
    ) -> Option<UrlReport> {
        let report = self.try_process(completion, page, exchanges).await;
        if report.is_none() {
            self.context.stop.stop();
        }
        report
    }

    async fn try_process(
        &self,
        completion: &mut Completion,
        page: Option<Page>,
        exchanges: Vec<Exchange>,
    ) -> Option<UrlReport> {
        let pipeline = &self.context.pipeline;
        let mut facts = None;
        if let Some(page) = page {
            let started = Instant::now();
            let page = self.run_modules(page).await?;
            completion.writes = pipeline.render(&page);
            if pipeline.wants_urls() {
                let record = UrlRecord::from_completion(completion, Outcome::Page, Some(&page));
                pipeline.add_url(&record, &mut completion.writes);
            }
            self.fetcher.recorder().record_stage(Stage::Modules, started.elapsed());
            facts = Some(PageFacts::from_page(page));
        }
        if let Some(record) = self.record(completion)
            && self.call_modules(move |pipeline| pipeline.process_url(&record)).await != Some(true)
        {
            return None;
        }
        pipeline.add_exchanges(shown_url(&completion.lease.url), &exchanges, &mut completion.writes);
        if !pipeline.write_parts(completion) {
            return None;
        }
        let is_page = completion.lease.kind() == TaskKind::Page;
        Some(UrlReport {
            lease: completion.lease.clone(),
            outcome: completion.outcome.clone(),
            writes: completion.writes.clone(),
            exchanges,
            request: RequestFacts::from(&completion.request),
            facts,
            has_robots_sitemaps: !completion.sitemaps.urls.is_empty() && is_page,
        })
    }

    /// Reports a URL whose completion is stored, and writes what it adds to the outputs.
    fn completed(&self, report: UrlReport, result: Option<&CompleteResult>) {
        let UrlReport { lease, outcome, writes, exchanges, request, facts, has_robots_sitemaps } = report;
        let WorkerContext { stop, .. } = &*self.context;
        let (id, sequence, exhausted) = match result {
            Some(CompleteResult::Applied { id, sequence, exhausted, .. }) => (id, sequence, exhausted),
            Some(CompleteResult::Requeued { sequence }) => {
                self.requeued(&lease, &outcome);
                if outcome != Outcome::Page {
                    self.write(*sequence, None, writes, &exchanges);
                }
                return;
            }
            Some(CompleteResult::StaleLease) | None => return,
        };
        let pipeline = &self.context.pipeline;
        // The outcome of a URL that is fetched again was reported by the first fetch.
        if !lease.is_refetch {
            let outcome = sitemap::outcome(&lease.url, outcome);
            self.record_completed(&lease, throttle_key(&lease.url), &outcome, request, facts.as_ref());
            pipeline.report_outcome(&outcome, &lease);
        }
        if has_robots_sitemaps {
            self.robots_sitemaps_admitted(&lease);
        }
        // Stop now: otherwise each host would find out only after its delay that the budget is exhausted.
        if exhausted.is_some() {
            stop.stop();
        }
        self.write(*sequence, *id, writes, &exchanges);
    }

    /// Writes what a URL adds to the outputs, under the number that the crawl has given to it.
    fn write(&self, sequence: Option<u64>, page: Option<u64>, writes: Writes, exchanges: &[Exchange]) {
        let WorkerContext { pipeline, stop, .. } = &*self.context;
        if !exchanges.is_empty() {
            pipeline.exchanges_committed(exchanges);
        }
        // A durable state still has what an output failed to write, so nothing is lost by stopping.
        if let Some(sequence) = sequence
            && !pipeline.write(sequence, page, writes)
        {
            stop.stop();
        }
    }

    /// Runs the modules on a page. Returns `None` if a module cannot process it, or the crawl stops and a module does not
    /// finish in time; the URL stays pending then.
    async fn run_modules(&self, page: Page) -> Option<Page> {
        self.call_modules(move |pipeline| pipeline.run_modules(&page).then_some(page)).await.flatten()
    }

    /// Calls modules, on a thread for blocking calls if a module may block. Returns `None` if the crawl stops and the call does
    /// not return in time.
    async fn call_modules<T: Send + 'static>(
        &self,
        call: impl FnOnce(&PagePipeline) -> T + Send + 'static,
    ) -> Option<T> {
        let WorkerContext { pipeline, stop, .. } = &*self.context;
        if !pipeline.is_blocking() {
            return Some(call(pipeline));
        }
        let pipeline = Arc::clone(pipeline);
        let called = async {
            let _call = self.module_calls.acquire().await;
            tokio::task::spawn_blocking(move || call(&pipeline)).await
        };
        let timed_out = async {
            stop.stop_requested().await;
            tokio::time::sleep(MODULE_TIMEOUT).await;
        };
        tokio::select! {
            biased;
            called = called => match called {
                Ok(result) => Some(result),
                Err(failed) => std::panic::resume_unwind(failed.into_panic()),
            },
            () = timed_out => None,
        }
    }
}
