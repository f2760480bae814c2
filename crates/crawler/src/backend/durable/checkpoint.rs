//! The counters of a crawl, as stored in its durable state.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backend::Snapshot;
use crate::backend::local::counters::CrawlCounters;
use crate::backend::local::state::LocalState;
use crate::backend::local::storage::Storage;
use crate::modules::output::OutputPosition;
use crate::outcome::Outcome;
use crate::stats::BodyBytes;
use crate::task_kind::TaskKind;

/// Written with every commit.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    last_task_id: u64,
    admitted: u64,
    completed: u64,
    refetches: u64,
    outcomes: BTreeMap<String, u64>,
    links_new: u64,
    links_seen: u64,
    links_rejected: BTreeMap<String, u64>,
    sitemap_urls: u64,
    truncated: u64,
    stylesheet_requisites: u64,
    /// Requisites that are pending.
    requisites: u64,
    pub(crate) pages: u64,
    /// The visits before this one, the pages that they had, and the active crawl time when this one began.
    earlier_visits: u32,
    earlier_pages: u64,
    earlier_millis: u64,
    output_writes: u64,
    bytes: u64,
    received: u64,
    /// HTTP requests sent. Those since the last commit of a killed process are lost.
    requests: u64,
    /// Active crawl time in milliseconds.
    active_millis: u64,
    /// The seen set on disk is complete up to this task. URLs admitted later are in their own rows.
    pub(crate) seen_written_up_to: u64,
}

impl Checkpoint {
    pub(crate) fn from_state<S: Storage>(state: &LocalState<S>, seen_written_up_to: u64) -> Checkpoint {
        let counters = &state.counters;
        Checkpoint {
            last_task_id: counters.last_task_id,
            admitted: counters.admitted,
            completed: counters.completed,
            refetches: counters.refetches,
            outcomes: counters.outcomes.clone(),
            links_new: counters.links_new,
            links_seen: counters.links_seen,
            links_rejected: counters.links_rejected.clone(),
            sitemap_urls: counters.sitemap_urls,
            truncated: counters.truncated,
            stylesheet_requisites: counters.stylesheet_requisites,
            requisites: state.budgets.requisites(),
            pages: state.budgets.pages(),
            earlier_visits: counters.earlier_visits,
            earlier_pages: counters.earlier_pages,
            earlier_millis: millis(counters.earlier_time),
            output_writes: counters.output_writes,
            bytes: state.budgets.bytes().decoded,
            received: state.budgets.bytes().received,
            requests: counters.requests.total(),
            active_millis: millis(state.clock.now()),
            seen_written_up_to,
        }
    }

    /// The position of the outputs after all writes so far.
    pub(crate) fn output_position(&self) -> OutputPosition {
        OutputPosition { sequence: self.output_writes, page: self.earlier_pages + self.pages }
    }

    /// Counts the writes of a URL to the outputs, and returns their number.
    pub(crate) fn count_writes(&mut self) -> u64 {
        self.output_writes += 1;
        self.output_writes
    }

    /// Counts the outcome of a task.
    pub(crate) fn count_completed(&mut self, task_url: &str, label: &str) {
        self.completed += 1;
        self.requisites = self.requisites.saturating_sub(u64::from(is_requisite(task_url)));
        *self.outcomes.entry(label.to_owned()).or_default() += 1;
    }

    /// Takes the outcome of a task back, which is pending again. `None` if it was not counted.
    pub(crate) fn uncount(&mut self, task_url: &str, outcome: &str, is_refetch: bool) -> Option<()> {
        self.completed = self.completed.checked_sub(1)?;
        self.requisites += u64::from(is_requisite(task_url));
        // The outcome of a refetch was never counted.
        if !is_refetch {
            let label = Outcome::label_of_temporary(outcome, self.outcomes.keys())?.clone();
            let count = self.outcomes.get_mut(&label)?;
            *count = count.checked_sub(1)?;
            if *count == 0 {
                self.outcomes.remove(&label);
            }
        }
        Some(())
    }

    /// The counts of a crawl that no process runs.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let pending = usize::try_from(self.pending().unwrap_or(0)).unwrap_or(usize::MAX);
        Snapshot {
            admitted: self.admitted,
            completed: self.completed,
            refetches: self.refetches,
            outcomes: self.outcomes.clone(),
            links_new: self.links_new,
            links_seen: self.links_seen,
            links_rejected: self.links_rejected.clone(),
            sitemap_urls: self.sitemap_urls,
            truncated: self.truncated,
            pages: self.pages,
            bytes: self.bytes,
            received: self.received,
            requests: self.requests,
            overflow: pending,
            visit: self.visit(),
            ..Snapshot::default()
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Numbers and maps with string keys can always be written as JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Checkpoint> {
        serde_json::from_slice(bytes).ok()
    }

    pub(crate) fn active_time(&self) -> Duration {
        Duration::from_millis(self.active_millis)
    }

    /// The active crawl time of this visit.
    pub(crate) fn visit_time(&self) -> Duration {
        Duration::from_millis(self.active_millis.saturating_sub(self.earlier_millis))
    }

    /// The number of the visit.
    pub(crate) fn visit(&self) -> u32 {
        self.earlier_visits.saturating_add(1)
    }

    /// Starts the next visit: all counts start at zero, with this many pending URLs.
    pub(crate) fn start_visit(self, pending: u64) -> Checkpoint {
        Checkpoint {
            last_task_id: self.last_task_id,
            seen_written_up_to: self.seen_written_up_to,
            output_writes: self.output_writes,
            active_millis: self.active_millis,
            requisites: self.requisites,
            admitted: pending,
            earlier_visits: self.earlier_visits.saturating_add(1),
            earlier_pages: self.earlier_pages + self.pages,
            earlier_millis: self.active_millis,
            ..Checkpoint::default()
        }
    }

    /// Counts a task that is queued again.
    pub(crate) fn count_queued(&mut self, task_url: &str) {
        self.admitted += 1;
        self.requisites += u64::from(is_requisite(task_url));
    }

    pub(crate) fn last_task_id(&self) -> u64 {
        self.last_task_id
    }

    /// The requisites that are pending.
    pub(crate) fn requisites(&self) -> u64 {
        self.requisites
    }

    /// `None` if more URLs were completed than admitted.
    pub(crate) fn pending(&self) -> Option<u64> {
        self.admitted.checked_sub(self.completed)
    }

    /// Restores the counters of a crawl that is resumed. Requisites are counted when they are restored.
    pub(crate) fn restore_into<S: Storage>(self, state: &mut LocalState<S>) {
        let bytes = BodyBytes { decoded: self.bytes, received: self.received };
        state.budgets.restore(self.pages, bytes);
        // The fetchers may share the counter already.
        let requests = state.counters.requests.clone();
        requests.restore(self.requests);
        state.counters = CrawlCounters {
            last_task_id: self.last_task_id,
            admitted: self.admitted,
            completed: self.completed,
            refetches: self.refetches,
            outcomes: self.outcomes,
            links_new: self.links_new,
            links_seen: self.links_seen,
            links_rejected: self.links_rejected,
            sitemap_urls: self.sitemap_urls,
            truncated: self.truncated,
            stylesheet_requisites: self.stylesheet_requisites,
            earlier_visits: self.earlier_visits,
            earlier_pages: self.earlier_pages,
            earlier_time: Duration::from_millis(self.earlier_millis),
            output_writes: self.output_writes,
            requests,
        };
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn is_requisite(task_url: &str) -> bool {
    TaskKind::from_task_url(task_url) == TaskKind::Requisite
}
