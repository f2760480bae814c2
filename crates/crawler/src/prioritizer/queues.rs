//! Maps priorities to priority queues, and finds the next queue with URLs.

use std::ops::RangeInclusive;

use super::Priority;

/// The number of priorities, and so the most queues that have at least one each.
const PRIORITIES: usize = 101;

/// The number of priority queues. Queue 0 is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriorityQueues(usize);

impl PriorityQueues {
    /// This number of queues, which must be from 1 to 101.
    pub fn new(count: usize) -> Option<PriorityQueues> {
        (1..=PRIORITIES).contains(&count).then_some(PriorityQueues(count))
    }

    /// The number of queues.
    pub fn count(self) -> usize {
        self.0
    }

    /// The priorities of each queue, in equal ranges. If 101 is not divisible by the number of queues, the
    /// first queues have one more each, so that a better queue is always drawn more often.
    ///
    /// ```
    /// # use crawler::internal::prioritizer::PriorityQueues;
    /// assert_eq!(PriorityQueues::new(4).unwrap().ranges(), [0..=25, 26..=50, 51..=75, 76..=100]);
    /// ```
    pub fn ranges(self) -> Vec<RangeInclusive<u8>> {
        let (length, longer) = (PRIORITIES / self.0, PRIORITIES % self.0);
        let start = |queue: usize| (queue * length + queue.min(longer)) as u8;
        (0..self.0).map(|queue| start(queue)..=start(queue + 1) - 1).collect()
    }

    /// The queue of a priority: the one whose range contains it.
    pub fn of(self, priority: Priority) -> usize {
        let (length, longer) = (PRIORITIES / self.0, PRIORITIES % self.0);
        let number = usize::from(priority.number());
        // Either all ranges up to this one are long, or all long ranges come before it.
        (number / (length + 1)).max(number.saturating_sub(longer) / length)
    }

    /// The queue to take a URL from when this priority was drawn: the priority's own queue or, if it is
    /// empty, the next better one that is not. Only if all of those are empty, the next worse one. `None` if all
    /// are empty.
    pub fn first_from(self, drawn: Priority, has_tasks: impl Fn(usize) -> bool) -> Option<usize> {
        let own = self.of(drawn);
        (0..=own).rev().chain(own + 1..self.0).find(|queue| has_tasks(*queue))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Random, draw};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn number_of_queues_is_from_1_to_101() {
        assert!(PriorityQueues::new(0).is_none() && PriorityQueues::new(102).is_none());
        assert_eq!(PriorityQueues::new(1).unwrap().ranges(), [0..=100]);
        assert_eq!(PriorityQueues::new(101).unwrap().ranges().last(), Some(&(100..=100)));
    }

    #[test]
    fn ranges_cover_all_priorities_equally_for_every_number_of_queues() {
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
    fn empty_queue_gives_way_to_the_next_better_one() {
        let queues = PriorityQueues::new(10).unwrap();
        let first = |drawn, full: &[usize]| {
            queues.first_from(Priority::new(drawn).unwrap(), |queue| full.contains(&queue))
        };
        assert_eq!(first(35, &[1, 3, 5]), Some(3));
        assert_eq!(first(35, &[1, 2, 5, 7]), Some(2));
        assert_eq!(first(35, &[5, 7]), Some(5), "a worse one only where nothing better waits");
        assert_eq!(first(100, &[0, 8]), Some(8));
        assert_eq!(first(35, &[]), None);
    }

    #[test]
    fn best_of_two_queues_gets_nearly_all_draws() {
        let (queues, mut random) = (PriorityQueues::new(10).unwrap(), Random::seeded(5));
        let drawn =
            (0..10_000).map(|_| queues.first_from(draw(&mut random), |queue| queue == 0 || queue == 9));
        let best = drawn.filter(|queue| *queue == Some(0)).count();
        assert!((9_850..9_930).contains(&best), "{best}: the worst queue has its own 1.1 % only");
    }

    proptest! {
        #[test]
        fn non_empty_queue_is_found_from_every_priority(full in proptest::collection::vec(any::<bool>(), 1..=101), drawn in 0..=100u8) {
            let queues = PriorityQueues::new(full.len()).unwrap();
            let found = queues.first_from(Priority::new(drawn).unwrap(), |queue| full[queue]);
            prop_assert_eq!(found.is_some(), full.contains(&true));
            prop_assert!(found.is_none_or(|queue| full[queue]));
        }
    }
}
