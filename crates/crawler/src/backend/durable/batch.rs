//! The changes of a commit to a durable state.

use std::collections::BTreeMap;

use super::schedule::DueUrl;
use super::seen_cache::SeenMap;
use crate::modules::output::OutputPosition;

/// Changes that are written together, atomically.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) number: u64,
    /// `None` removes the row. The same holds for the other tables.
    pub(crate) tasks: BTreeMap<u64, Option<Vec<u8>>>,
    pub(crate) completed: BTreeMap<u64, Option<Vec<u8>>>,
    pub(crate) seen: SeenMap,
    pub(crate) pages: BTreeMap<u64, Option<Vec<u8>>>,
    /// By segment. A batch fills one segment.
    pub(crate) bodies: BTreeMap<u64, Option<Vec<u8>>>,
    /// What is to be written to the outputs, by its number.
    pub(crate) output: BTreeMap<u64, Vec<u8>>,
    /// The outputs are written up to this number.
    pub(crate) outputs_written: Option<u64>,
    pub(crate) hosts: BTreeMap<String, Option<Vec<u8>>>,
    pub(crate) domains: BTreeMap<String, u32>,
    pub(crate) lastmods: BTreeMap<u64, u32>,
    /// The entries of the schedule that are added, or removed.
    pub(crate) due: BTreeMap<DueUrl, bool>,
    /// Whether all other entries are removed.
    pub(crate) clears_due: bool,
    pub(crate) meta: BTreeMap<&'static str, Vec<u8>>,
}

impl Batch {
    /// Records that the outputs are written up to this position and have these lengths. What is to be written to them up to
    /// there is deleted.
    pub(crate) fn set_outputs_written(&mut self, written: OutputPosition, lengths: &[u64]) {
        self.outputs_written = Some(written.sequence);
        self.meta.insert("outputs_written", serde_json::to_vec(&(written, lengths)).unwrap_or_default());
    }

    /// Whether there are no changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
            && self.completed.is_empty()
            && self.pages.is_empty()
            && self.bodies.is_empty()
            && self.output.is_empty()
            && self.outputs_written.is_none()
            && self.hosts.is_empty()
            && self.domains.is_empty()
            && self.lastmods.is_empty()
            && self.due.is_empty()
            && !self.clears_due
            && self.seen.len() == 0
            && self.meta.is_empty()
    }
}
