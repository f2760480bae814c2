//! What the moves of a while change in a durable state.

use std::collections::{BTreeMap, BTreeSet};

use super::seen_cache::Links;

/// What is to be written together: all of it or nothing.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) number: u64,
    /// `None` removes.
    pub(crate) tasks: BTreeMap<u64, Option<Vec<u8>>>,
    pub(crate) ends: BTreeMap<u64, Vec<u8>>,
    pub(crate) links: Links,
    /// Ids to be removed from link storage, before links are added.
    pub(crate) forgotten: BTreeSet<u64>,
    pub(crate) pages: BTreeMap<u64, Option<Vec<u8>>>,
    /// By segment; one batch fills one.
    pub(crate) bodies: BTreeMap<u64, Option<Vec<u8>>>,
    pub(crate) output: BTreeMap<u64, Vec<u8>>,
    /// The outputs are written up to here.
    pub(crate) written: Option<u64>,
    pub(crate) hosts: BTreeMap<String, Option<Vec<u8>>>,
    pub(crate) domains: BTreeMap<String, u32>,
    pub(crate) meta: BTreeMap<&'static str, Vec<u8>>,
}

impl Batch {
    /// Nothing has been gathered.
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
            && self.ends.is_empty()
            && self.pages.is_empty()
            && self.bodies.is_empty()
            && self.output.is_empty()
            && self.written.is_none()
            && self.hosts.is_empty()
            && self.domains.is_empty()
            && self.forgotten.is_empty()
            && self.links.len() == 0
            && self.meta.is_empty()
    }
}
