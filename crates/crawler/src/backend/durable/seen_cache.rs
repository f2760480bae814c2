//! Remembers the links met lately, and those whose rows are still to be written, in bounded memory.

use hashbrown::HashTable;

use super::records::SeenRow;

/// How much is remembered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CacheLimits {
    /// How many links are remembered at least before the oldest half is left to the disk.
    pub(crate) half: usize,
    /// So many changed links are gathered before they are written: together and in the order of the table, which costs
    /// a tenth of writing each by itself.
    pub(crate) write_at: usize,
}

impl Default for CacheLimits {
    fn default() -> CacheLimits {
        CacheLimits { half: 1 << 19, write_at: 1 << 14 }
    }
}

/// The links met lately.
pub(crate) struct SeenUrlCache {
    room: CacheLimits,
    young: Links,
    old: Links,
    changed: Links,
    /// There is no link that is not in here.
    pub(crate) is_complete: bool,
}

impl SeenUrlCache {
    pub(crate) fn new(room: CacheLimits) -> SeenUrlCache {
        let (young, old, changed) = (Links::default(), Links::default(), Links::default());
        SeenUrlCache { room, young, old, changed, is_complete: true }
    }

    /// A link that is remembered, and no more so for being looked at.
    pub(crate) fn peek(&self, id: u64) -> Option<SeenRow> {
        self.young.get(id).or_else(|| self.old.get(id)).or_else(|| self.changed.get(id))
    }

    /// A link that is remembered.
    pub(crate) fn get(&mut self, id: u64) -> Option<SeenRow> {
        if let Some(link) = self.young.get(id) {
            return Some(link);
        }
        let link = self.old.get(id).or_else(|| self.changed.get(id))?;
        self.remember(id, link);
        Some(link)
    }

    /// A link as it is on disk.
    pub(crate) fn remember(&mut self, id: u64, link: SeenRow) {
        if self.young.len() >= self.room.half {
            self.is_complete &= self.old.len() == 0;
            self.old = std::mem::take(&mut self.young);
        }
        self.young.put(id, link);
    }

    /// A link that is not on disk like this.
    pub(crate) fn change(&mut self, id: u64, link: SeenRow) {
        self.remember(id, link);
        self.changed.put(id, link);
    }

    /// A link that is forgotten.
    pub(crate) fn forget(&mut self, id: u64) {
        self.young.remove(id);
        self.old.remove(id);
        self.changed.remove(id);
    }

    /// Whether enough links have changed to be written.
    pub(crate) fn is_due(&self) -> bool {
        self.changed.len() >= self.room.write_at
    }

    /// The changed links, to be written.
    pub(crate) fn take_changed(&mut self) -> Links {
        std::mem::take(&mut self.changed)
    }
}

/// Links by id.
#[derive(Default)]
pub(crate) struct Links {
    table: HashTable<(u64, SeenRow)>,
}

impl Links {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn get(&self, id: u64) -> Option<SeenRow> {
        self.table.find(spread(id), |(other, _)| *other == id).map(|(_, link)| *link)
    }

    fn put(&mut self, id: u64, link: SeenRow) {
        match self.table.find_mut(spread(id), |(other, _)| *other == id) {
            Some(entry) => entry.1 = link,
            None => drop(self.table.insert_unique(spread(id), (id, link), |(id, _)| spread(*id))),
        }
    }

    fn remove(&mut self, id: u64) {
        if let Ok(entry) = self.table.find_entry(spread(id), |(other, _)| *other == id) {
            entry.remove();
        }
    }

    /// All of them in the order of ids.
    pub(crate) fn sorted(&self) -> Vec<(u64, SeenRow)> {
        let mut links: Vec<(u64, SeenRow)> = self.table.iter().copied().collect();
        links.sort_unstable_by_key(|(id, _)| *id);
        links
    }
}

/// Ids have 56 random bits; the table takes its tags from the highest.
fn spread(id: u64) -> u64 {
    id | (id >> 48) << 57
}
