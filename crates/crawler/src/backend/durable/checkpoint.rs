//! What a crawl has counted, as it stands in its durable state.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backend::local::counters::CrawlCounters;
use crate::backend::local::state::LocalState;
use crate::backend::local::storage::Storage;

/// Written with every commit.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    last_ticket: u64,
    admitted: u64,
    completed: u64,
    revisits: u64,
    outcomes: BTreeMap<String, u64>,
    links_new: u64,
    links_known: u64,
    links_refused: BTreeMap<String, u64>,
    pages: u64,
    bytes: u64,
    /// HTTP requests sent. Those since the last commit of a killed process are lost.
    requests: u64,
    /// The crawl's own time, in milliseconds.
    age: u64,
    /// The links of URLs admitted later are in the rows of these, and not all in link storage.
    pub(crate) links_up_to: u64,
}

impl Checkpoint {
    pub(crate) fn of<S: Storage>(state: &LocalState<S>, links_up_to: u64) -> Checkpoint {
        let counts = &state.counts;
        Checkpoint {
            last_ticket: counts.last_ticket,
            admitted: counts.admitted,
            completed: counts.completed,
            revisits: counts.revisits,
            outcomes: counts.outcomes.clone(),
            links_new: counts.links_new,
            links_known: counts.links_known,
            links_refused: counts.links_refused.clone(),
            pages: state.budgets.pages(),
            bytes: state.budgets.bytes(),
            requests: counts.requests.total(),
            age: u64::try_from(state.clock.now().as_millis()).unwrap_or(u64::MAX),
            links_up_to,
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Numbers and maps with text for keys always have a JSON form.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Checkpoint> {
        serde_json::from_slice(bytes).ok()
    }

    pub(crate) fn age(&self) -> Duration {
        Duration::from_millis(self.age)
    }

    pub(crate) fn last_ticket(&self) -> u64 {
        self.last_ticket
    }

    /// `None` if more was completed than was ever admitted.
    pub(crate) fn outstanding(&self) -> Option<u64> {
        self.admitted.checked_sub(self.completed)
    }

    /// Lets a crawl go on from here.
    pub(crate) fn resume<S: Storage>(self, state: &mut LocalState<S>) {
        state.budgets.restore(self.pages, self.bytes);
        // The fetchers may share the counter already.
        let requests = state.counts.requests.clone();
        requests.restore(self.requests);
        state.counts = CrawlCounters {
            last_ticket: self.last_ticket,
            admitted: self.admitted,
            completed: self.completed,
            revisits: self.revisits,
            outcomes: self.outcomes,
            links_new: self.links_new,
            links_known: self.links_known,
            links_refused: self.links_refused,
            requests,
        };
    }
}
