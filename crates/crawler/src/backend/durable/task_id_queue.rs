//! A queue of task ids that takes two or three bytes per id, because a large crawl parks millions of URLs on disk.

use std::collections::VecDeque;

use super::super::TaskId;

/// A FIFO queue of task ids. Each id is stored as its difference from the previous one.
#[derive(Debug, Default)]
pub(crate) struct TaskIdQueue {
    bytes: VecDeque<u8>,
    first: u64,
    last: u64,
}

impl TaskIdQueue {
    pub(crate) fn push(&mut self, task_id: TaskId) {
        let difference = task_id.0.wrapping_sub(self.last).cast_signed();
        // Zigzag encoding: small differences of either sign become small numbers.
        let mut number = (difference << 1 ^ difference >> 63).cast_unsigned();
        while number >= 0x80 {
            self.bytes.push_back(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push_back(number as u8);
        self.last = task_id.0;
    }

    pub(crate) fn pop(&mut self) -> Option<TaskId> {
        let (mut number, mut shift) = (0u64, 0);
        loop {
            let byte = self.bytes.pop_front()?;
            number |= u64::from(byte & 0x7F) << shift;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        let difference = (number >> 1) ^ (number & 1).wrapping_neg();
        self.first = self.first.wrapping_add(difference);
        if self.bytes.is_empty() {
            self.bytes = VecDeque::new();
        }
        Some(TaskId(self.first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pop_returns_what_was_pushed(rounds in proptest::collection::vec((proptest::collection::vec(any::<u64>(), 0..5), 0..6usize), 0..20)) {
            let (mut queue, mut model) = (TaskIdQueue::default(), VecDeque::new());
            for (pushed, popped) in rounds {
                for task_id in pushed {
                    queue.push(TaskId(task_id));
                    model.push_back(TaskId(task_id));
                }
                for _ in 0..popped {
                    prop_assert_eq!(queue.pop(), model.pop_front());
                }
            }
        }
    }

    #[test]
    fn close_ids_take_two_bytes_each() {
        let mut queue = TaskIdQueue::default();
        (0..100_000).for_each(|number| queue.push(TaskId(1_000_000 + number * 50)));
        assert!(queue.bytes.len() < 200_010, "{}", queue.bytes.len());
    }
}
