//! The frontier: prioritizes URLs and routes them to workers, in two concurrent loops, so that a slow
//! PageRank service does not hold up the routing of URLs that have a priority.

use std::time::Duration;

use crate::backend::{Backend, BackendError};
use crate::prioritizer::{Candidate, Prioritizer, Random, draw};
use crate::stop::StopHandle;

/// URLs per operation: enough to make it cheap, few enough to keep the order of priorities.
const BATCH: usize = 256;

/// How long a loop waits for URLs before it polls again.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Runs the frontier until no URL is outstanding or the crawl is stopped. Returns whether no URL is
/// outstanding.
pub async fn run(
    backend: &impl Backend,
    prioritizer: &dyn Prioritizer,
    random: Random,
    stop: &StopHandle,
) -> Result<bool, BackendError> {
    tokio::select! {
        biased;
        () = stop.stop_requested() => Ok(false),
        failed = run_prioritizer(backend, prioritizer) => failed.map(|()| false),
        finished = run_router(backend, random) => finished.map(|()| true),
    }
}

/// Moves URLs from the URL queue to the priority queues, until an error.
async fn run_prioritizer(backend: &impl Backend, prioritizer: &dyn Prioritizer) -> Result<(), BackendError> {
    loop {
        let urls = backend.take_unprioritized(BATCH, POLL_INTERVAL).await?;
        if urls.is_empty() {
            continue;
        }
        let task_ids: Vec<_> = urls.iter().map(|url| url.task_id).collect();
        let candidates: Vec<Candidate> = urls
            .into_iter()
            .map(|url| Candidate { domain: url.domain, depth: url.depth, linking_pages: url.linking_pages })
            .collect();
        let priorities = prioritizer.prioritize(&candidates).await;
        backend.enqueue_prioritized(task_ids.into_iter().zip(priorities).collect()).await?;
    }
}

/// Moves URLs from the priority queues to the workers' queues, until no URL is outstanding.
async fn run_router(backend: &impl Backend, mut random: Random) -> Result<(), BackendError> {
    loop {
        let draws = (0..BATCH).map(|_| draw(&mut random)).collect();
        let moved = backend.route(draws, POLL_INTERVAL).await?;
        if moved == 0 && backend.outstanding().await? == 0 {
            return Ok(());
        }
    }
}
