//! The statistics of a distributed crawl: each process stores its own part in Redis, and readers merge all parts.
//!
//! The part of a process that is gone stays. The frontier merges many of them into one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::Membership;
use crate::backend::BackendError;
use crate::backend::redis::{CrawlState, DistributedCrawl, Member, Phase};
use crate::crawl_view::{CrawlMonitor, Limits};
use crate::statistics::Statistics;
use crate::statistics::encoding::{decode, encode};

/// The time between two writes of a part.
const INTERVAL: Duration = Duration::from_secs(10);

/// The time between two writes while a reader watches the statistics, at least.
const WATCHED_INTERVAL: Duration = Duration::from_secs(1);

/// A larger part is written less often, so that a process writes no more than this many bytes per second.
const BYTES_PER_SECOND: usize = 20_000;

/// How long a process that exits waits until its part is written.
const LAST_WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// The parts of processes that are gone are merged when there are this many.
const MAX_PARTS: usize = 16;

/// How often the frontier looks for parts to merge.
const MERGE_INTERVAL: Duration = Duration::from_secs(60);

/// Larger statistics are read less often, so that a process reads no more than this many bytes per second.
const READ_BYTES_PER_SECOND: usize = 1_000_000;

/// How long the parts are written more often after a reader read them, and how often a reader requests that.
const WATCHED_FOR: Duration = Duration::from_secs(30);
const WATCH_INTERVAL: Duration = Duration::from_secs(10);

/// The fields that are no part of a process: those that were merged, and the limits of the crawl.
const MERGED: &str = "merged";
const LIMITS: &str = "limits";

/// Writes the part of this process until it is dropped.
pub(super) struct PartWriter {
    part: Arc<Part>,
    task: JoinHandle<()>,
}

struct Part {
    control: Arc<DistributedCrawl>,
    monitor: Arc<CrawlMonitor>,
    token: String,
    is_frontier: bool,
    /// Whether a reader watches the statistics.
    is_watched: Arc<AtomicBool>,
}

impl PartWriter {
    /// Starts to write the part of a process. The frontier also writes the limits, and merges parts.
    pub(super) fn start(
        membership: &Membership,
        monitor: &Arc<CrawlMonitor>,
        is_frontier: bool,
    ) -> PartWriter {
        let Membership { control, identity, is_watched, .. } = membership;
        let part = Arc::new(Part {
            control: Arc::clone(control),
            monitor: Arc::clone(monitor),
            token: identity.token.clone(),
            is_frontier,
            is_watched: Arc::clone(is_watched),
        });
        let writing = Arc::clone(&part);
        PartWriter { part, task: tokio::spawn(async move { writing.write_repeatedly().await }) }
    }

    /// Writes the part for the last time. The crawl does not depend on it.
    pub(super) async fn finish(self) {
        self.task.abort();
        let _ = timeout(LAST_WRITE_TIMEOUT, async {
            self.part.write().await?;
            self.part.write_limits().await
        })
        .await;
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
        let (mut last_write, mut limits, mut merged_at) = (None, None, Instant::now());
        loop {
            sleep(WATCHED_INTERVAL).await;
            let interval = match self.is_watched.load(Ordering::Relaxed) {
                true => WATCHED_INTERVAL,
                false => INTERVAL,
            };
            let is_due = |(at, bytes): (Instant, usize)| {
                at.elapsed() >= interval.max(time_for(bytes, BYTES_PER_SECOND))
            };
            if last_write.is_none_or(is_due)
                && let Ok(Some(bytes)) = self.write().await
            {
                last_write = Some((Instant::now(), bytes));
            }
            if !self.is_frontier {
                continue;
            }
            let now = Some(self.monitor.limits());
            if now != limits && matches!(self.write_limits().await, Ok(true)) {
                limits = now;
            }
            if merged_at.elapsed() >= MERGE_INTERVAL {
                let _ = self.merge(MAX_PARTS).await;
                merged_at = Instant::now();
            }
        }
    }

    /// Writes the part, and returns its size. `None` if the crawl does not take it.
    async fn write(&self) -> Result<Option<usize>, BackendError> {
        let Some(part) = encode(&self.monitor.recorders.merged()) else { return Ok(None) };
        let is_stored = self.control.store_statistics(&self.token, &self.token, &part).await?;
        Ok(is_stored.then_some(part.len()))
    }

    /// Writes the limits, if this is the frontier. Returns whether the crawl takes them.
    async fn write_limits(&self) -> Result<bool, BackendError> {
        match encode(&self.monitor.limits()) {
            Some(limits) if self.is_frontier => {
                self.control.store_statistics(LIMITS, &self.token, &limits).await
            }
            _ => Ok(false),
        }
    }

    /// Merges the parts of processes that are gone, if there are at least this many.
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
        // What cannot be decoded has another version. It stays as it is, and so do the others.
        let before = stored.get(MERGED).map_or_else(|| Some(Statistics::default()), |part| decode(part));
        let parts: Option<Vec<Statistics>> = gone.iter().map(|token| decode(&stored[*token])).collect();
        let (Some(mut merged), Some(parts)) = (before, parts) else { return Ok(()) };
        for part in parts {
            merged.merge(&Statistics { in_flight: 0, ..part });
        }
        match encode(&merged) {
            Some(merged) => self.control.merge_statistics(&merged, &gone, &stored).await,
            None => Ok(()),
        }
    }
}

/// How long it takes to write or read this many bytes.
fn time_for(bytes: usize, bytes_per_second: usize) -> Duration {
    Duration::from_secs_f64(bytes as f64 / bytes_per_second as f64)
}

/// Reads the statistics again and again, at most so often as their size allows.
#[derive(Default)]
pub(super) struct PartReader {
    last: Mutex<Option<LastRead>>,
    watched_at: Mutex<Option<Instant>>,
}

/// What was read last.
struct LastRead {
    /// Until then it is not read again.
    until: Instant,
    statistics: Arc<Statistics>,
    limits: Limits,
}

impl PartReader {
    /// The statistics of all processes, and the limits of the crawl. While it runs, large statistics may be some seconds old.
    pub(super) async fn read(
        &self,
        control: &DistributedCrawl,
        members: &[Member],
        state: &CrawlState,
    ) -> Result<(Arc<Statistics>, Limits), BackendError> {
        let is_running = matches!(state.phase, Phase::Seeding | Phase::Running);
        if is_running {
            self.watch(control).await;
            if let Some(last) = &*self.last.lock().unwrap_or_else(PoisonError::into_inner)
                && Instant::now() < last.until
            {
                return Ok((Arc::clone(&last.statistics), last.limits.clone()));
            }
        }
        let (statistics, limits, bytes) = read(control, members).await?;
        let statistics = Arc::new(statistics);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(LastRead {
            until: Instant::now() + time_for(bytes, READ_BYTES_PER_SECOND),
            statistics: Arc::clone(&statistics),
            limits: limits.clone(),
        });
        Ok((statistics, limits))
    }

    /// Lets the processes write their parts more often.
    async fn watch(&self, control: &DistributedCrawl) {
        let now = Instant::now();
        {
            let mut watched_at = self.watched_at.lock().unwrap_or_else(PoisonError::into_inner);
            if watched_at.is_some_and(|at| now < at + WATCH_INTERVAL) {
                return;
            }
            *watched_at = Some(now);
        }
        // A user who may not write sees older statistics.
        let _ = control.watch_statistics(WATCHED_FOR).await;
    }
}

/// The statistics of all processes, the limits of the crawl, and how many bytes they have.
pub(super) async fn read(
    control: &DistributedCrawl,
    members: &[Member],
) -> Result<(Statistics, Limits, usize), BackendError> {
    let stored = control.statistics().await?;
    let limits = stored.get(LIMITS).and_then(|limits| decode(limits));
    let bytes = stored.values().map(Vec::len).sum();
    Ok((merge_parts(&stored, members), limits.unwrap_or_default(), bytes))
}

fn merge_parts(stored: &BTreeMap<String, Vec<u8>>, members: &[Member]) -> Statistics {
    let mut merged = Statistics::default();
    for (token, part) in stored.iter().filter(|(token, _)| *token != LIMITS) {
        let Some(mut part) = decode::<Statistics>(part) else { continue };
        // A process that was killed has left the number of its last requests.
        if !is_current(token, members) {
            part.in_flight = 0;
        }
        merged.merge(&part);
    }
    merged
}

fn is_special(field: &str) -> bool {
    matches!(field, MERGED | LIMITS)
}

fn is_current(token: &str, members: &[Member]) -> bool {
    members.iter().any(|member| member.token == token && !member.is_dead)
}
