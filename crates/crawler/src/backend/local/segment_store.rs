//! Stored pages, and their names, in memory, many in one piece: thousands of pieces that live for an hour among millions that live for
//! a moment would leave the memory full of holes.

use std::collections::HashMap;

use super::storage::Body;

/// Large enough that the system gives it back when it is freed.
const SEGMENT_BYTES: usize = 1 << 20;

/// The bodies of pages, by the URL's id.
#[derive(Default)]
pub(crate) struct SegmentStore {
    places: HashMap<u64, Slot>,
    segments: HashMap<u32, Segment>,
    /// The one that is being filled.
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
    /// How many bodies in it are stored; it is freed when there is none.
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
        let place = Slot {
            segment: self.current,
            offset: segment.bytes.len() as u32,
            length: bytes.len() as u32,
            is_compressed,
        };
        segment.bytes.extend(bytes);
        segment.stored += 1;
        self.places.insert(id, place);
    }

    pub(crate) fn text(&self, id: u64) -> Option<&str> {
        self.bytes(self.places.get(&id)?).and_then(|bytes| str::from_utf8(bytes).ok())
    }

    fn bytes(&self, place: &Slot) -> Option<&[u8]> {
        let start = place.offset as usize;
        self.segments.get(&place.segment)?.bytes.get(start..start + place.length as usize)
    }

    pub(crate) fn get(&self, id: u64) -> Option<Body> {
        let place = self.places.get(&id)?;
        let bytes = self.bytes(place)?;
        Some(if place.is_compressed { Body::Compressed(bytes.into()) } else { Body::Plain(bytes.into()) })
    }

    pub(crate) fn remove(&mut self, id: u64) {
        let Some(place) = self.places.remove(&id) else { return };
        if let Some(segment) = self.segments.get_mut(&place.segment) {
            segment.stored -= 1;
            if segment.stored == 0 {
                self.segments.remove(&place.segment);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_segment_is_freed_with_the_last_of_its_bodies() {
        let mut bodies = SegmentStore::default();
        let body = |size: usize| Body::Plain(vec![7; size].into());
        for id in 0..30 {
            bodies.insert(id, &body(100_000));
        }
        assert_eq!(bodies.segments.len(), 3);
        (0..10).for_each(|id| bodies.remove(id));
        assert_eq!(bodies.segments.len(), 2);
        bodies.insert(99, &body(3 * SEGMENT_BYTES));
        assert_eq!(bodies.get(99), Some(body(3 * SEGMENT_BYTES)));
        (10..100).for_each(|id| bodies.remove(id));
        assert!(bodies.segments.is_empty() && bodies.places.is_empty());
    }

    proptest! {
        #[test]
        fn they_are_kept_as_in_a_map(moves in proptest::collection::vec((0..20u64, proptest::option::of((any::<bool>(), 0..400_000usize))), 0..60)) {
            let (mut bodies, mut model) = (SegmentStore::default(), HashMap::new());
            for (id, change) in moves {
                match change {
                    None => {
                        bodies.remove(id);
                        model.remove(&id);
                    }
                    Some((compressed, size)) => {
                        let bytes: Box<[u8]> = vec![id as u8; size].into();
                        let body = if compressed { Body::Compressed(bytes) } else { Body::Plain(bytes) };
                        bodies.insert(id, &body);
                        model.insert(id, body);
                    }
                }
            }
            for id in 0..20 {
                prop_assert_eq!(bodies.get(id), model.get(&id).cloned());
            }
        }
    }
}
