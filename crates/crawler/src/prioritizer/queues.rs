//! The priority queues as a table: which one is responsible for which priorities, and which one is next.

use std::ops::RangeInclusive;

use super::Priority;

/// How many priorities there are, and so the largest number of queues that each have one.
const PRIORITIES: usize = 101;

/// So many priority queues, numbered from 0, the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriorityQueues(usize);

impl PriorityQueues {
    /// So many queues, if it is at least 1 and there is a priority for each.
    pub fn new(count: usize) -> Option<PriorityQueues> {
        (1..=PRIORITIES).contains(&count).then_some(PriorityQueues(count))
    }

    /// How many there are.
    pub fn count(self) -> usize {
        self.0
    }

    /// The table: the priorities that each queue is responsible for, in equal ranges. Where 101 priorities cannot be
    /// shared equally the first queues have one more each, so that a better queue is always drawn more often.
    ///
    /// ```
    /// # use crawler::internal::prioritizer::PriorityQueues;
    /// assert_eq!(PriorityQueues::new(4).unwrap().ranges(), [0..=25, 26..=50, 51..=75, 76..=100]);
    /// ```
    pub fn ranges(self) -> Vec<RangeInclusive<u8>> {
        let (length, longer) = (PRIORITIES / self.0, PRIORITIES % self.0);
        let begin = |queue: usize| (queue * length + queue.min(longer)) as u8;
        (0..self.0).map(|queue| begin(queue)..=begin(queue + 1) - 1).collect()
    }

    /// The queue responsible for a priority: the one in whose range of the table it is.
    pub fn of(self, priority: Priority) -> usize {
        let (length, longer) = (PRIORITIES / self.0, PRIORITIES % self.0);
        let number = usize::from(priority.number());
        // Either all ranges up to this one are of the longer kind, or all of those that are lie before.
        (number / (length + 1)).max(number.saturating_sub(longer) / length)
    }

    /// The queue to take from when this priority was drawn: the one responsible or, if that has nothing, the next
    /// that has, first the worse ones in order, then the better ones from the best on. `None` if all are empty.
    pub fn first_from(self, drawn: Priority, has_tasks: impl Fn(usize) -> bool) -> Option<usize> {
        let responsible = self.of(drawn);
        (responsible..self.0).chain(0..responsible).find(|queue| has_tasks(*queue))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn there_is_at_least_one_queue_and_a_priority_for_each() {
        assert!(PriorityQueues::new(0).is_none() && PriorityQueues::new(102).is_none());
        assert_eq!(PriorityQueues::new(1).unwrap().ranges(), [0..=100]);
        assert_eq!(PriorityQueues::new(101).unwrap().ranges().last(), Some(&(100..=100)));
    }

    #[test]
    fn for_every_number_of_queues_the_table_is_whole_equal_and_obeyed() {
        for queues in (1..=101).map(|count| PriorityQueues::new(count).unwrap()) {
            let ranges = queues.ranges();
            assert_eq!(ranges.len(), queues.count());
            let all: Vec<u8> = ranges.iter().cloned().flatten().collect();
            assert_eq!(all, (0..=100).collect::<Vec<u8>>(), "in order, each priority once");
            let lengths = ranges.iter().map(|range| range.clone().count());
            assert!(lengths.clone().max().unwrap() - lengths.min().unwrap() <= 1, "{ranges:?}");
            for priority in Priority::all() {
                assert!(ranges[queues.of(priority)].contains(&priority.number()), "{priority} of {queues:?}");
            }
        }
    }

    #[test]
    fn an_empty_queue_gives_way_to_the_next_worse_one_and_the_last_to_the_best() {
        let queues = PriorityQueues::new(10).unwrap();
        let first = |drawn, full: &[usize]| {
            queues.first_from(Priority::new(drawn).unwrap(), |queue| full.contains(&queue))
        };
        assert_eq!(first(35, &[1, 3, 5]), Some(3));
        assert_eq!(first(35, &[1, 5, 7]), Some(5));
        assert_eq!(first(35, &[1, 2]), Some(1));
        assert_eq!(first(100, &[0, 8]), Some(0));
        assert_eq!(first(35, &[]), None);
    }

    proptest! {
        #[test]
        fn what_is_anywhere_is_found_from_everywhere(full in proptest::collection::vec(any::<bool>(), 1..=101), drawn in 0..=100u8) {
            let queues = PriorityQueues::new(full.len()).unwrap();
            let found = queues.first_from(Priority::new(drawn).unwrap(), |queue| full[queue]);
            prop_assert_eq!(found.is_some(), full.contains(&true));
            prop_assert!(found.is_none_or(|queue| full[queue]));
        }
    }
}
