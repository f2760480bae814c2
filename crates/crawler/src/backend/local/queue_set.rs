//! A set of queues.

/// A bit for each priority queue, of which there are at most 101, for the queue of requisites, and for that of blocked hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct QueueSet(u128);

impl QueueSet {
    pub(super) fn insert(&mut self, queue: u8) {
        self.0 |= 1 << queue;
    }

    pub(super) fn remove(&mut self, queue: u8) {
        self.0 &= !(1 << queue);
    }

    pub(super) fn contains(self, queue: u8) -> bool {
        self.0 & 1 << queue != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The queues that are not in the other set.
    pub(super) fn without(self, other: QueueSet) -> QueueSet {
        QueueSet(self.0 & !other.0)
    }
}

/// The queues, best first.
impl Iterator for QueueSet {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let queue = u8::try_from(self.0.trailing_zeros()).ok().filter(|_| self.0 != 0)?;
        self.remove(queue);
        Some(queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_has_what_was_inserted() {
        let mut set = QueueSet::default();
        for queue in [100, 3, 0] {
            set.insert(queue);
        }
        set.remove(3);
        set.insert(7);
        assert!(set.contains(7) && !set.contains(3) && !set.is_empty());
        assert_eq!(set.collect::<Vec<_>>(), [0, 7, 100]);
        let mut other = QueueSet::default();
        other.insert(7);
        assert_eq!(set.without(other).collect::<Vec<_>>(), [0, 100]);
    }
}
