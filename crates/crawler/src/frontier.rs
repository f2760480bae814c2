//! The frontier: gives every URL its priority and its worker. Two loops side by side, so that a slow priority
//! service never holds up the routing of what is filed already.

use std::time::Duration;

use crate::backend::{Backend, BackendError};
use crate::prioritizer::{Candidate, Prioritizer, Random, draw};
use crate::stop::StopHandle;

/// How many URLs a move takes at a time: enough to make it cheap, few enough to keep the order of priorities.
const BATCH: usize = 256;

/// How long a loop waits for news before it looks again by itself.
const WAIT: Duration = Duration::from_millis(500);

/// Runs the frontier until nothing is outstanding, or until it is told to stop. Returns whether the crawl is over.
pub async fn run(
    backend: &impl Backend,
    prioritize: &dyn Prioritizer,
    random: Random,
    stop: &StopHandle,
) -> Result<bool, BackendError> {
    tokio::select! {
        biased;
        () = stop.stop_requested() => Ok(false),
        failed = prioritizer(backend, prioritize) => failed.map(|()| false),
        over = router(backend, random) => over.map(|()| true),
    }
}

/// Files what comes in, for ever.
async fn prioritizer(backend: &impl Backend, prioritize: &dyn Prioritizer) -> Result<(), BackendError> {
    loop {
        let incoming = backend.take_unprioritized(BATCH, WAIT).await?;
        if incoming.is_empty() {
            continue;
        }
        let task_ids: Vec<_> = incoming.iter().map(|incoming| incoming.task_id).collect();
        let candidates: Vec<Candidate> = incoming
            .into_iter()
            .map(|incoming| Candidate {
                domain: incoming.domain,
                depth: incoming.depth,
                linking_pages: incoming.linking_pages,
            })
            .collect();
        let priorities = prioritize.prioritize(&candidates).await;
        backend.enqueue_prioritized(task_ids.into_iter().zip(priorities).collect()).await?;
    }
}

/// Sends what is filed to the workers, until nothing is outstanding.
async fn router(backend: &impl Backend, mut random: Random) -> Result<(), BackendError> {
    loop {
        let draws = (0..BATCH).map(|_| draw(&mut random)).collect();
        let moved = backend.route(draws, WAIT).await?;
        if moved == 0 && backend.outstanding().await? == 0 {
            return Ok(());
        }
    }
}
