//! A bounded cache of the seen set: URLs found recently, and URLs whose rows are not written yet.

use hashbrown::HashTable;

use super::records::SeenRow;

/// The size of the cache.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CacheLimits {
    /// Maximum number of rows in each half of the cache. When the young half is full, it replaces the old half.
    pub(crate) half: usize,
    /// Number of changed rows that are collected before they are written. Writing many rows in key order costs a tenth
    /// of writing each on its own.
    pub(crate) write_at: usize,
}

impl Default for CacheLimits {
    fn default() -> CacheLimits {
        CacheLimits { half: 1 << 19, write_at: 1 << 14 }
    }
}

/// The cache.
pub(crate) struct SeenUrlCache {
    limits: CacheLimits,
    young: SeenMap,
    old: SeenMap,
    changed: SeenMap,
    /// The cache contains the complete seen set.
    pub(crate) is_complete: bool,
}

impl SeenUrlCache {
    pub(crate) fn new(limits: CacheLimits) -> SeenUrlCache {
        let (young, old, changed) = (SeenMap::default(), SeenMap::default(), SeenMap::default());
        SeenUrlCache { limits, young, old, changed, is_complete: true }
    }

    /// Returns a row.
    pub(crate) fn get(&mut self, id: u64) -> Option<SeenRow> {
        if let Some(row) = self.young.get(id) {
            return Some(row);
        }
        let row = self.old.get(id).or_else(|| self.changed.get(id))?;
        self.insert(id, row);
        Some(row)
    }

    /// Adds a row that is the same on disk.
    pub(crate) fn insert(&mut self, id: u64, row: SeenRow) {
        if self.young.len() >= self.limits.half {
            self.is_complete &= self.old.len() == 0;
            self.old = std::mem::take(&mut self.young);
        }
        self.young.set(id, row);
    }

    /// Adds a row that differs from the one on disk.
    pub(crate) fn update(&mut self, id: u64, row: SeenRow) {
        self.insert(id, row);
        self.changed.set(id, row);
    }

    /// Whether enough rows have changed to write them.
    pub(crate) fn is_due(&self) -> bool {
        self.changed.len() >= self.limits.write_at
    }

    /// Takes the changed rows, to be written.
    pub(crate) fn take_changed(&mut self) -> SeenMap {
        std::mem::take(&mut self.changed)
    }
}

/// Rows of the seen set by URL id, which is a hash.
#[derive(Default)]
pub(crate) struct SeenMap {
    table: HashTable<(u64, SeenRow)>,
}

impl SeenMap {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn get(&self, id: u64) -> Option<SeenRow> {
        self.table.find(id, |(other, _)| *other == id).map(|(_, row)| *row)
    }

    pub(crate) fn set(&mut self, id: u64, row: SeenRow) {
        match self.table.find_mut(id, |(other, _)| *other == id) {
            Some(entry) => entry.1 = row,
            None => drop(self.table.insert_unique(id, (id, row), |(id, _)| *id)),
        }
    }

    /// All rows in the order of ids.
    pub(crate) fn sorted(&self) -> Vec<(u64, SeenRow)> {
        let mut rows: Vec<(u64, SeenRow)> = self.table.iter().copied().collect();
        rows.sort_unstable_by_key(|(id, _)| *id);
        rows
    }
}
