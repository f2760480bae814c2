//! Link storage on disk: which URLs were met, and how near to a seed.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::super::super::{BackendError, TaskId};
use super::super::records::{CompletedRow, SeenRow, TaskRow};
use super::DiskStorage;
use crate::backend::local::storage::{GENERATIONS, SeenStatus};
use crate::task::Depth;

/// How many links are looked at at a time for those to be forgotten: everybody waits for that.
const SWEPT_AT_A_TIME: usize = 1024;

/// So many ids there are.
const IDS: u64 = 1 << 56;

/// Goes round link storage once in a lifetime, a little at a time.
#[derive(Debug, Default)]
pub(super) struct ExpirySweep {
    /// The next id to look at.
    next: u64,
    /// So many ids are to be looked at by now.
    due: u64,
}

impl ExpirySweep {
    /// So many generations have passed.
    fn advance(&mut self, generations: u32) {
        let more = IDS / u64::from(GENERATIONS) * u64::from(generations.min(GENERATIONS));
        self.due = (self.due + more).min(IDS);
    }

    /// What to look at next; nothing, when nothing is due.
    fn ids(&self) -> Option<RangeInclusive<u64>> {
        let last = (self.next + self.due).min(IDS).checked_sub(1)?;
        (self.due > 0).then_some(self.next..=last)
    }

    /// All ids up to one were looked at.
    fn looked_at(&mut self, last: u64) {
        self.due -= last + 1 - self.next;
        self.next = (last + 1) % IDS;
    }
}

impl DiskStorage {
    /// Finds the links that the last process met and had not written yet, in the rows of the URLs it admitted.
    pub(super) fn recover_links(&mut self, links_up_to: u64) -> Result<(), BackendError> {
        let first = links_up_to.checked_add(1).ok_or_else(|| self.view.damaged())?;
        let mut lost: BTreeMap<u64, (String, Depth, u32)> = BTreeMap::new();
        for (task_id, row) in self.view.tasks_from(first, usize::MAX)? {
            let row = TaskRow::from_bytes(&row).ok_or_else(|| self.view.damaged())?;
            lost.insert(task_id, (row.url, row.depth, row.generation));
        }
        for (task_id, row) in self.view.ends_from(first, usize::MAX)? {
            let row = CompletedRow::from_bytes(&row).ok_or_else(|| self.view.damaged())?;
            lost.insert(task_id, (row.url, row.depth, row.generation));
        }
        for (task_id, (url, depth, generation)) in lost {
            let id = self.key.url_id(&url);
            if self.find(id)?.is_none() {
                self.known += 1;
            }
            self.seen.change(id, SeenRow { task_id: TaskId(task_id), depth, generation });
        }
        Ok(())
    }

    /// Meets a URL.
    pub(super) fn meet_link(
        &mut self,
        id: u64,
        depth: Depth,
        now: Duration,
    ) -> Result<SeenStatus, BackendError> {
        let passed = self.generation.advance(now);
        self.sweep.advance(passed);
        let generation = self.generation.number();
        let Some(mut link) = self.find(id)? else {
            self.known += 1;
            return Ok(SeenStatus::New);
        };
        if self.is_over(link)? {
            return Ok(SeenStatus::New);
        }
        let nearer = self.keep_depths && depth < link.depth;
        if link.generation == generation && !nearer {
            return Ok(SeenStatus::Seen);
        }
        link.generation = generation;
        let mut met = SeenStatus::Seen;
        if nearer {
            link.depth = depth;
            match self.ended(link.task_id)? {
                Some(end) if depth < end.depth && end.has_links() => met = SeenStatus::Shallower,
                Some(_) => {}
                None => self.lower(link.task_id, depth)?,
            }
        }
        self.seen.change(id, link);
        Ok(met)
    }

    /// What link storage knows of a URL.
    pub(crate) fn find(&mut self, id: u64) -> Result<Option<SeenRow>, BackendError> {
        if let Some(link) = self.seen.get(id) {
            return Ok(Some(link));
        }
        if self.seen.is_complete || self.batch.forgotten.contains(&id) {
            return Ok(None);
        }
        let link = match self.committing.as_deref() {
            Some(batch) if batch.links.get(id).is_some() => batch.links.get(id),
            Some(batch) if batch.forgotten.contains(&id) => None,
            _ => match self.view.link(id)? {
                Some(row) => Some(SeenRow::from_bytes(&row).ok_or_else(|| self.view.damaged())?),
                None => None,
            },
        };
        if let Some(link) = link {
            self.seen.remember(id, link);
        }
        Ok(link)
    }

    /// Lowers the depth of an outstanding URL, safe with the move that met it.
    fn lower(&mut self, task_id: TaskId, depth: Depth) -> Result<(), BackendError> {
        let Some(mut row) = self.task(task_id)? else { return Ok(()) };
        if depth < row.depth {
            row.depth = depth;
            self.batch.tasks.insert(task_id.0, Some(row.to_bytes()));
            self.lowered.insert(task_id, depth);
        }
        Ok(())
    }

    /// Whether what was last met in a generation is to be forgotten: not while it is outstanding, and not for a
    /// lifetime after its completion.
    fn is_over(&self, link: SeenRow) -> Result<bool, BackendError> {
        let old = |generation: u32| self.generation.number().saturating_sub(generation) > GENERATIONS;
        if !old(link.generation) {
            return Ok(false);
        }
        Ok(self.ended(link.task_id)?.is_some_and(|end| old(end.generation)))
    }

    /// Whether there is link storage to be looked through.
    pub(crate) fn is_sweeping(&self) -> bool {
        self.sweep.due > 0
    }

    /// Looks through a little of link storage, and takes what is to be forgotten out of it. This is for when nothing is
    /// being written: all that is there is on disk, or remembered as changed since.
    pub(crate) fn sweep(&mut self) -> Result<(), BackendError> {
        let Some(ids) = self.sweep.ids() else { return Ok(()) };
        let last = *ids.end();
        let rows = self.view.links_in(ids, SWEPT_AT_A_TIME)?;
        self.sweep.looked_at(match rows.last() {
            Some((furthest, _)) if rows.len() == SWEPT_AT_A_TIME => *furthest,
            _ => last,
        });
        for (id, row) in rows {
            // What is remembered is newer than what is on disk; what is not must not displace what is.
            let link = match self.seen.peek(id) {
                Some(link) => link,
                None => SeenRow::from_bytes(&row).ok_or_else(|| self.view.damaged())?,
            };
            if self.is_over(link)? && self.batch.forgotten.insert(id) {
                self.seen.forget(id);
                self.known = self.known.saturating_sub(1);
            }
        }
        Ok(())
    }
}
