//! Stores byte strings (page bodies, URLs) in memory in large segments. Thousands of long-lived allocations among
//! millions of short-lived ones would fragment the heap.

use super::storage::Body;
use crate::keyed_map::KeyedMap;

/// Large enough that the allocator returns a freed segment to the operating system.
const SEGMENT_BYTES: usize = 1 << 20;

/// Byte strings by the id of a URL.
#[derive(Default)]
pub(crate) struct SegmentStore {
    slots: KeyedMap<u64, Slot>,
    segments: KeyedMap<u32, Segment>,
    /// The segment that is being filled.
    current: u32,
}

#[derive(Clone, Copy)]
struct Slot {
    segment: u32,
    offset: u32,
    length: u32,
    is_compressed: bool,
}

#[derive(Default)]
struct Segment {
    bytes: Vec<u8>,
    /// Number of stored strings. The segment is freed when there are none.
    stored: u32,
}

impl SegmentStore {
    pub(crate) fn insert(&mut self, id: u64, body: &Body) {
        self.insert_bytes(id, body.bytes(), matches!(body, Body::Compressed(_)));
    }

    pub(crate) fn insert_text(&mut self, id: u64, text: &str) {
        self.insert_bytes(id, text.as_bytes(), false);
    }

    fn insert_bytes(&mut self, id: u64, bytes: &[u8], is_compressed: bool) {
        self.remove(id);
        let is_full = |segment: &Segment| segment.bytes.len() + bytes.len() > SEGMENT_BYTES;
        if self.segments.get(&self.current).is_some_and(is_full) {
            self.current = self.current.wrapping_add(1);
        }
        let room = SEGMENT_BYTES.max(bytes.len());
        let segment = self
            .segments
            .entry(self.current)
            .or_insert_with(|| Segment { bytes: Vec::with_capacity(room), stored: 0 });
        let slot = Slot {
            segment: self.current,
            offset: segment.bytes.len() as u32,
            length: bytes.len() as u32,
            is_compressed,
        };
        segment.bytes.extend(bytes);
        segment.stored += 1;
        self.slots.insert(id, slot);
    }

    pub(crate) fn text(&self, id: u64) -> Option<&str> {
        self.bytes(self.slots.get(&id)?).and_then(|bytes| str::from_utf8(bytes).ok())
    }

    fn bytes(&self, slot: &Slot) -> Option<&[u8]> {
        let start = slot.offset as usize;
        self.segments.get(&slot.segment)?.bytes.get(start..start + slot.length as usize)
    }

    pub(crate) fn get(&self, id: u64) -> Option<Body<'static>> {
        let slot = self.slots.get(&id)?;
        let bytes = self.bytes(slot)?;
        Some(if slot.is_compressed {
            Body::Compressed(bytes.into())
        } else {
            Body::Plain(bytes.to_vec().into())
        })
    }

    pub(crate) fn remove(&mut self, id: u64) {
        let Some(slot) = self.slots.remove(&id) else { return };
        if let Some(segment) = self.segments.get_mut(&slot.segment) {
            segment.stored -= 1;
            if segment.stored == 0 {
                self.segments.remove(&slot.segment);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn segment_is_freed_with_its_last_body() {
        let mut store = SegmentStore::default();
        let body = |size: usize| Body::Plain(vec![7; size].into());
        for id in 0..30 {
            store.insert(id, &body(100_000));
        }
        assert_eq!(store.segments.len(), 3);
        (0..10).for_each(|id| store.remove(id));
        assert_eq!(store.segments.len(), 2);
        store.insert(99, &body(3 * SEGMENT_BYTES));
        assert_eq!(store.get(99), Some(body(3 * SEGMENT_BYTES)));
        (10..100).for_each(|id| store.remove(id));
        assert!(store.segments.is_empty() && store.slots.is_empty());
    }

    proptest! {
        #[test]
        fn behaves_like_a_map(operations in proptest::collection::vec((0..20u64, proptest::option::of((any::<bool>(), 0..400_000usize))), 0..60)) {
            let (mut store, mut model) = (SegmentStore::default(), KeyedMap::default());
            for (id, change) in operations {
                match change {
                    None => {
                        store.remove(id);
                        model.remove(&id);
                    }
                    Some((compressed, size)) => {
                        let bytes = vec![id as u8; size];
                        let body = if compressed { Body::Compressed(bytes.into()) } else { Body::Plain(bytes.into()) };
                        store.insert(id, &body);
                        model.insert(id, body);
                    }
                }
            }
            for id in 0..20 {
                prop_assert_eq!(store.get(id), model.get(&id).cloned());
            }
        }
    }
}
