//! Prioritizes URLs, and prioritizes them again when their priorities change. The backend leases them by their priorities.

use std::future::poll_fn;
use std::iter::repeat;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::backend::{Backend, BackendError, TaskId, UnprioritizedUrl};
use crate::prioritizer::{Candidate, Prioritizer, Priority, known_priority};
use crate::stop::StopHandle;

/// URLs per operation: enough to make it cheap, few enough to keep the order of priorities.
const BATCH: usize = 256;

/// Domains per operation that prioritizes their URLs again.
const DOMAIN_BATCH: usize = 1_000;

/// Calls of the prioritizer at a time. While all are in progress, further URLs wait for one call together.
const MAX_CALLS: usize = 16;

/// URLs that wait for the prioritizer at a time, so that those with a known priority can pass them.
const MAX_PRIORITIZING: usize = 10_000;

/// How long a loop waits for URLs before it polls again.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Runs the frontier until no URL is pending or the crawl is stopped. Returns whether no URL is
/// pending.
pub async fn run(
    backend: &impl Backend,
    prioritizer: &dyn Prioritizer,
    stop: &StopHandle,
) -> Result<bool, BackendError> {
    tokio::select! {
        biased;
        () = stop.stop_requested() => Ok(false),
        failed = run_prioritizer(backend, prioritizer) => failed.map(|()| false),
        failed = run_reprioritizer(backend, prioritizer) => failed.map(|()| false),
        finished = wait_until_finished(backend) => finished.map(|()| true),
    }
}

/// Moves URLs from the URL queue to the priority queues, until an error.
async fn run_prioritizer(backend: &impl Backend, prioritizer: &dyn Prioritizer) -> Result<(), BackendError> {
    let mut calls = PrioritizerCalls::new(prioritizer);
    let take = || backend.take_unprioritized(BATCH, POLL_INTERVAL);
    // It is never dropped half-way: the URLs would be taken and lost.
    let mut taking = pin!(take());
    loop {
        let prioritized = tokio::select! {
            biased;
            prioritized = poll_fn(|context| calls.poll(context)) => prioritized,
            urls = &mut taking, if calls.has_room() => {
                taking.set(take());
                calls.add(urls?)
            }
        };
        if !prioritized.is_empty() {
            backend.enqueue_prioritized(prioritized).await?;
        }
    }
}

/// Prioritizes waiting URLs again when their priorities have changed, until an error.
async fn run_reprioritizer(
    backend: &impl Backend,
    prioritizer: &dyn Prioritizer,
) -> Result<(), BackendError> {
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        for domains in prioritizer.take_revised_domains().chunks(DOMAIN_BATCH) {
            backend.reprioritize(domains.to_vec()).await?;
        }
    }
}

/// Waits until no URL is pending.
async fn wait_until_finished(backend: &impl Backend) -> Result<(), BackendError> {
    while backend.pending().await? > 0 {
        backend.wait_until_finished(POLL_INTERVAL).await?;
    }
    Ok(())
}

/// URLs with their priorities.
type Prioritized = Vec<(TaskId, Priority)>;

/// The calls of the prioritizer in progress, and the URLs that wait for the next one.
struct PrioritizerCalls<'p> {
    prioritizer: &'p dyn Prioritizer,
    in_progress: Vec<Pin<Box<dyn Future<Output = Prioritized> + Send + 'p>>>,
    waiting: Vec<(TaskId, Candidate)>,
    /// URLs that wait or are in a call.
    urls: usize,
}

impl<'p> PrioritizerCalls<'p> {
    fn new(prioritizer: &'p dyn Prioritizer) -> PrioritizerCalls<'p> {
        PrioritizerCalls { prioritizer, in_progress: Vec::new(), waiting: Vec::new(), urls: 0 }
    }

    fn has_room(&self) -> bool {
        self.urls < MAX_PRIORITIZING
    }

    /// Adds URLs. Returns those whose priority is known.
    fn add(&mut self, urls: Vec<UnprioritizedUrl>) -> Prioritized {
        let mut known = Vec::with_capacity(urls.len());
        for url in urls {
            let (task_id, candidate) = (url.task_id, Candidate::from(url));
            match known_priority(self.prioritizer, &candidate) {
                Some(priority) => known.push((task_id, priority)),
                None => {
                    self.waiting.push((task_id, candidate));
                    self.urls += 1;
                }
            }
        }
        known
    }

    /// Starts a call if URLs wait. Returns the result of a call that has finished.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Prioritized> {
        if !self.waiting.is_empty() && self.in_progress.len() < MAX_CALLS {
            let waiting = std::mem::take(&mut self.waiting);
            self.in_progress.push(Box::pin(prioritize(self.prioritizer, waiting)));
        }
        for index in 0..self.in_progress.len() {
            if let Poll::Ready(prioritized) = self.in_progress[index].as_mut().poll(context) {
                drop(self.in_progress.swap_remove(index));
                self.urls -= prioritized.len();
                return Poll::Ready(prioritized);
            }
        }
        Poll::Pending
    }
}

async fn prioritize(prioritizer: &dyn Prioritizer, urls: Vec<(TaskId, Candidate)>) -> Prioritized {
    let (task_ids, candidates): (Vec<TaskId>, Vec<Candidate>) = urls.into_iter().unzip();
    let priorities = prioritizer.prioritize(&candidates).await;
    // No URL may get lost, even if the prioritizer returns too few priorities.
    task_ids.into_iter().zip(priorities.into_iter().chain(repeat(Priority::MIDDLE))).collect()
}
