//! The statistics of a distributed crawl: each process stores its own part in Redis, and readers merge all parts.
//!
//! The part of a process that is gone stays. The frontier merges many of them into one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::backend::BackendError;
use crate::backend::redis::{CrawlControl, Member};
use crate::crawl_view::{CrawlMonitor, Limits};
use crate::statistics::Statistics;

/// The time between two writes of a part, at least.
const INTERVAL: Duration = Duration::from_secs(1);

/// A larger part is written less often, so that a process writes no more than so many bytes per second.
const BYTES_PER_SECOND: usize = 20_000;

/// How long a process that exits waits until its part is written.
const LAST_WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// The parts of processes that are gone are merged when there are so many.
const MAX_PARTS: usize = 16;

/// After so many writes of its own part, the frontier looks for parts to merge.
const WRITES_PER_MERGE: u32 = 60;

/// The fields that are no part of a process: those that were merged, and the limits of the crawl.
const MERGED: &str = "merged";
const LIMITS: &str = "limits";

/// Writes the part of this process until it is dropped.
pub(super) struct PartWriter {
    part: Arc<Part>,
    task: JoinHandle<()>,
}

struct Part {
    control: Arc<CrawlControl>,
    monitor: Arc<CrawlMonitor>,
    token: String,
    is_frontier: bool,
}

impl PartWriter {
    /// Starts to write the part of a process. The frontier also writes the limits, and merges parts.
    pub(super) fn start(
        control: &Arc<CrawlControl>,
        monitor: &Arc<CrawlMonitor>,
        token: &str,
        is_frontier: bool,
    ) -> PartWriter {
        let (control, monitor, token) = (Arc::clone(control), Arc::clone(monitor), token.to_owned());
        let part = Arc::new(Part { control, monitor, token, is_frontier });
        let writing = Arc::clone(&part);
        PartWriter { part, task: tokio::spawn(async move { writing.write_repeatedly().await }) }
    }

    /// Writes the part for the last time. The crawl does not depend on it.
    pub(super) async fn finish(self) {
        self.task.abort();
        let _ = timeout(LAST_WRITE_TIMEOUT, self.part.write(&self.part.encoded())).await;
    }

    /// Merges the parts of all processes that are gone.
    pub(super) async fn merge_all(&self) {
        let _ = timeout(LAST_WRITE_TIMEOUT, self.part.merge(1)).await;
    }
}

impl Drop for PartWriter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Part {
    async fn write_repeatedly(&self) {
        let (mut written, mut limits) = (Vec::new(), None);
        for writes in 1u32.. {
            let seconds = Duration::from_secs_f64(written.len() as f64 / BYTES_PER_SECOND as f64);
            sleep(INTERVAL.max(seconds)).await;
            let part = self.encoded();
            if part != written && self.write(&part).await.is_ok() {
                written = part;
            }
            if !self.is_frontier {
                continue;
            }
            let now = Some(self.monitor.limits());
            if now != limits && self.write_limits().await.is_ok() {
                limits = now;
            }
            if writes.is_multiple_of(WRITES_PER_MERGE) {
                let _ = self.merge(MAX_PARTS).await;
            }
        }
    }

    fn encoded(&self) -> Vec<u8> {
        postcard::to_stdvec(&self.monitor.recorders.merged()).unwrap_or_default()
    }

    async fn write(&self, part: &[u8]) -> Result<(), BackendError> {
        self.control.store_statistics(&self.token, part).await
    }

    async fn write_limits(&self) -> Result<(), BackendError> {
        let limits = postcard::to_stdvec(&self.monitor.limits()).unwrap_or_default();
        self.control.store_statistics(LIMITS, &limits).await
    }

    /// Merges the parts of processes that are gone, if there are at least so many.
    async fn merge(&self, min: usize) -> Result<(), BackendError> {
        let stored = self.control.statistics().await?;
        let (members, _) = self.control.members().await?;
        let is_gone =
            |token: &&String| !is_current(token, &members) && !is_special(token) && **token != self.token;
        let gone: Vec<&String> = stored
            .iter()
            .filter(|(_, part)| !part.is_empty())
            .map(|(token, _)| token)
            .filter(is_gone)
            .collect();
        if gone.len() < min {
            return Ok(());
        }
        let mut merged = stored.get(MERGED).and_then(|part| decode(part)).unwrap_or_default();
        for part in gone.iter().filter_map(|token| decode(&stored[*token])) {
            merged.merge(&Statistics { in_flight: 0, ..part });
        }
        let merged = postcard::to_stdvec(&merged).unwrap_or_default();
        self.control.merge_statistics(&merged, &gone).await
    }
}

/// The statistics of all processes, and the limits of the crawl.
pub(super) async fn read(
    control: &CrawlControl,
    members: &[Member],
) -> Result<(Statistics, Limits), BackendError> {
    let stored = control.statistics().await?;
    let limits = stored.get(LIMITS).and_then(|limits| postcard::from_bytes(limits).ok());
    Ok((merge_parts(&stored, members), limits.unwrap_or_default()))
}

fn merge_parts(stored: &BTreeMap<String, Vec<u8>>, members: &[Member]) -> Statistics {
    let mut merged = Statistics::default();
    for (token, part) in stored.iter().filter(|(token, _)| *token != LIMITS) {
        let Some(mut part) = decode(part) else { continue };
        // A process that was killed has left the number of its last requests.
        if !is_current(token, members) {
            part.in_flight = 0;
        }
        merged.merge(&part);
    }
    merged
}

fn decode(part: &[u8]) -> Option<Statistics> {
    postcard::from_bytes(part).ok()
}

fn is_special(field: &str) -> bool {
    matches!(field, MERGED | LIMITS)
}

fn is_current(token: &str, members: &[Member]) -> bool {
    members.iter().any(|member| member.token == token && !member.is_dead)
}
