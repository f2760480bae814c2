//! The role of a worker: visits what is sent to it, for as long as it is known to live.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::{CrawlLossDetector, MemberReport, Membership, RoleExit, SharedCrawl, end_of, is_absent, word};
use crate::backend::redis::{HeartbeatReply, Phase, Role};
use crate::backend::{Backend, BackendError, WorkerId};
use crate::error::Error;
use crate::fetch::fetcher::Fetcher;
use crate::fetch::throttle::HostThrottle;
use crate::modules::page_pipeline::{self, PagePipeline};
use crate::pipeline::local_run::{run_worker, worker_context};
use crate::pipeline::{CrawlEnd, Crawler, block_on};
use crate::stop::StopHandle;
use crate::worker::Worker;
use crate::worker::liveness::LivenessGuard;
use crate::worker::rebalance::RebalanceRequests;

/// After so many signs of life, parts are made safe from a loss of power.
const SYNC_AFTER: u32 = 5;

impl Crawler {
    /// Is a worker of this crawl, which was begun on Redis, until the crawl is over: the one of this number, or one whose
    /// place is free.
    pub fn run_worker(mut self, sharing: &SharedCrawl, id: Option<WorkerId>) -> Result<RoleExit, Error> {
        self.derive_settings();
        block_on(async {
            let backend = Arc::new(self.shared_resources(sharing).await?);
            let wanted = id.map(Role::Worker);
            let (membership, is_again) =
                match Membership::take(Arc::clone(&backend), wanted, &self, sharing).await? {
                    Ok(taken) => taken,
                    Err(end) => return Ok(end),
                };
            let Role::Worker(id) = membership.role else { return Ok(RoleExit::Lost) };
            if wanted.is_none() {
                (sharing.notice)(&format!("this is worker {}", id.0));
            }
            if is_again {
                backend.rejoin(id).await?;
            }
            let installed = match self.open_part_files(id, &backend.identity()) {
                Ok(installed) => installed,
                Err(error) => {
                    membership.part().await?;
                    return Err(error);
                }
            };
            self.work_as(membership, installed, sharing).await
        })?
    }

    async fn work_as(
        self,
        mut membership: Membership,
        installed: Arc<PagePipeline>,
        sharing: &SharedCrawl,
    ) -> Result<RoleExit, Error> {
        let Role::Worker(id) = membership.role else { return Ok(RoleExit::Lost) };
        // Its own: a budget that is spent ends the worker, and not whoever runs it.
        let stop = StopHandle::new();
        let license = LivenessGuard::with_timeout(sharing.dead_after);
        let context = worker_context(&self, &membership.backend, &installed, &stop);
        let pace = Arc::new(HostThrottle::from_config(&self.config));
        let fetcher = Fetcher::new(self.config.clone(), &self.seeds, pace, stop.clone())?
            .with_request_counter(membership.backend.request_counter());
        let worker = Arc::new(Worker::new(id, fetcher.with_liveness(license.clone()), context));
        let burden = Arc::clone(worker.rebalance_requests());
        let (done, worked) = watch::channel(false);
        let ends = stop.clone();
        // Where the connection lives: each page makes several moves, and a way between threads costs as much as some of
        // them. The sign of life is given from here.
        let working = membership.backend.host(async move {
            let worked = run_worker(worker, ends).await;
            done.send_replace(true);
            worked
        });
        let told =
            self.keep_alive(&mut membership, sharing, &license, &burden, &installed, worked.clone()).await;
        // Whatever ended it, what is in flight is finished, unless it is somebody else's now.
        match &told {
            Ok(RoleExit::Lost) | Err(_) => stop.abort(),
            Ok(_) => stop.stop(),
        }
        let finished = finish(&mut membership, &license, worked).await;
        let worked = working.await.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()));
        let end = told?;
        finished?;
        worked?;
        let (counts, summaries) = installed.finish();
        let _ = write_out(&installed).await;
        let role = membership.role;
        let summaries = summaries.into_iter().map(|summary| format!("{role}: {summary}")).collect();
        let page_pipeline::ModuleFailures { failures, last_failure } = counts;
        let word =
            MemberReport { failures, last_failure, summaries, ..MemberReport::of(&membership.backend) };
        let word = serde_json::to_string(&word).unwrap_or_default();
        // Of a crawl that was purged nothing is to come back.
        if end != RoleExit::Gone {
            membership.backend.report_requests().await?;
            membership.backend.report(&membership.identity.token, &word).await?;
        }
        if !matches!(end, RoleExit::Lost | RoleExit::Gone) {
            membership.part().await?;
        }
        Ok(end)
    }

    /// Tells that the worker lives, until there is a reason for it to end.
    async fn keep_alive(
        &self,
        membership: &mut Membership,
        sharing: &SharedCrawl,
        license: &LivenessGuard,
        burden: &RebalanceRequests,
        installed: &Arc<PagePipeline>,
        mut worked: watch::Receiver<bool>,
    ) -> Result<RoleExit, BackendError> {
        let (mut version, mut connections, mut was_absent) = (None, 0, false);
        let mut absence = CrawlLossDetector::new(sharing);
        for beat in 0u32.. {
            if beat.is_multiple_of(SYNC_AFTER) {
                drop(write_out(installed));
            }
            let sent = Instant::now();
            let domains = (!*worked.borrow()).then(|| burden.domains());
            let HeartbeatReply { has_place, course, takers } = membership.beat(domains).await?;
            if absence.is_final(&course.phase) {
                (sharing.notice)(&absence.message(&course.phase));
                return Ok(RoleExit::Gone);
            }
            if is_absent(&course.phase) {
                was_absent = true;
                // Nobody acknowledges that this worker lives: its leave to ask runs out, unless the crawl is there again.
                tokio::select! {
                    () = self.stop.stop_requested() => return Ok(RoleExit::Stopped),
                    () = sleep_until(sent + membership.interval()) => continue,
                }
            }
            if std::mem::take(&mut was_absent) {
                // What it was told meanwhile of its loans was not true.
                membership.backend.doubt();
            }
            let version = *version.get_or_insert(course.version);
            match course.phase {
                _ if !has_place => return Ok(RoleExit::Lost),
                Phase::Over(how) => return Ok(RoleExit::Over(end_of(&how))),
                _ if course.version != version => return Ok(RoleExit::Changed),
                _ => license.renew(sent),
            }
            membership.backend.report_requests().await?;
            if !takers.is_empty() {
                burden.request_transfer(takers);
            }
            let now = membership.backend.connections();
            if std::mem::replace(&mut connections, now) != now
                && let Role::Worker(id) = membership.role
            {
                // Beside the sign of life: it may have to wait for a part of Redis that is away.
                let (backend, since) = (Arc::clone(&membership.backend), membership.since);
                drop(membership.backend.host(async move { backend.enter(id, since).await }));
            }
            let is_done = *worked.borrow();
            if !is_done && worked.has_changed().is_err() {
                // It panicked, which whoever waits for it is told.
                return Ok(RoleExit::Stopped);
            }
            if is_done && installed.output_failure().is_some() {
                // To go on would be to no purpose; nothing is lost.
                membership.backend.set_over(course.opening, word(CrawlEnd::OutputFailed)).await?;
            }
            tokio::select! {
                biased;
                () = self.stop.stop_requested() => return Ok(RoleExit::Stopped),
                // Done by itself, it has found a budget spent; the frontier will, and ends the crawl.
                _ = worked.wait_for(|done| *done), if !is_done => {}
                () = sleep_until(sent + membership.interval()) => {}
            }
        }
        Ok(RoleExit::Stopped)
    }
}

/// Makes the parts safe from a loss of power. The disk may take its time, and the next sign of life must not wait for it.
fn write_out(installed: &Arc<PagePipeline>) -> JoinHandle<()> {
    let installed = Arc::clone(installed);
    tokio::task::spawn_blocking(move || drop(installed.flush_outputs(true)))
}

/// Goes on telling that the worker lives, while it finishes what is in flight.
async fn finish(
    membership: &mut Membership,
    license: &LivenessGuard,
    mut worked: watch::Receiver<bool>,
) -> Result<(), BackendError> {
    loop {
        let sent = Instant::now();
        tokio::select! {
            biased;
            _ = worked.wait_for(|done| *done) => return Ok(()),
            () = sleep_until(sent + membership.interval()) => {}
        }
        let sent = Instant::now();
        // What it still has it gives to others when it has finished.
        if membership.beat(None).await?.has_place {
            license.renew(sent);
        }
    }
}
