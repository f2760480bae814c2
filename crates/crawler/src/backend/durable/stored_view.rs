//! What the state stores for observers of the crawl: its statistics and limits, and why it ended.
//!
//! It is stored every few seconds and at the end, so a process that is killed loses the last seconds of it. Nothing else in the
//! state depends on it.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::super::BackendError;
use super::View;
use super::open::StateWriter;
use crate::crawl_view::{CrawlMonitor, CrawlPhase, Limits};
use crate::statistics::Statistics;
use crate::statistics::encoding::{decode, encode};

/// What is stored.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct StoredView {
    pub(super) limits: Limits,
    pub(super) phase: CrawlPhase,
    pub(super) statistics: Statistics,
}

/// Reads what was stored last. Nothing, or something that cannot be decoded, has no statistics: the crawl does not need them.
pub(super) fn read(view: &View) -> Result<StoredView, BackendError> {
    let stored = view.meta("view")?;
    Ok(stored.and_then(|bytes| decode(&bytes)).unwrap_or_default())
}

impl StateWriter {
    /// Stores the statistics and limits with the next commit.
    pub(crate) fn store_view(&self, monitor: &CrawlMonitor) {
        let statistics = Statistics { latest: VecDeque::new(), in_flight: 0, ..monitor.recorders.merged() };
        let stored = StoredView { limits: monitor.limits(), phase: monitor.phase(), statistics };
        let Some(bytes) = encode(&stored) else { return };
        self.shared.state().storage.batch.meta.insert("view", bytes);
    }
}
