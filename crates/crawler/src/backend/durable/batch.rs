//! The changes of a commit to a durable state.

use std::collections::BTreeMap;

use super::seen_cache::SeenMap;

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
    pub(crate) output: BTreeMap<u64, Vec<u8>>,
    /// The outputs are written up to this page.
    pub(crate) outputs_written: Option<u64>,
    pub(crate) hosts: BTreeMap<String, Option<Vec<u8>>>,
    pub(crate) domains: BTreeMap<String, u32>,
    pub(crate) lastmods: BTreeMap<u64, u32>,
    pub(crate) meta: BTreeMap<&'static str, Vec<u8>>,
}

impl Batch {
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
            && self.seen.len() == 0
            && self.meta.is_empty()
    }
}
