//! The lottery of the politeness router: which priority is served next; only this file knows the weights.

use super::{Priority, Random};

/// How many tickets all priorities hold together: 101 + 100 + … + 1.
const TICKETS: u32 = 101 * 102 / 2;

/// How many of the 5,151 tickets a priority holds: 101 for priority 0, one less for each step, 1 for priority 100.
///
/// So better ones are more likely, in proportion, and the last still has its chance. In ten queues:
///
/// | queue | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 |
/// |---|---|---|---|---|---|---|---|---|---|---|
/// | drawn, in % | 20.5 | 16.6 | 14.7 | 12.7 | 10.8 | 8.8 | 6.9 | 5.0 | 3.0 | 1.1 |
///
/// Among queues that are all full the last is thus served once in about a hundred draws, and nothing starves.
pub fn weight(priority: Priority) -> u32 {
    u32::from(Priority::WORST.number() - priority.number()) + 1
}

/// Draws a priority, each as likely as its [`weight`] says.
///
/// ```
/// use crawler::internal::prioritizer::{PriorityQueues, Random, draw};
///
/// let (queues, mut random) = (PriorityQueues::new(10).unwrap(), Random::from_system());
/// let lengths = [0, 0, 3, 0, 0, 0, 0, 8, 0, 0];
/// let queue = queues.first_from(draw(&mut random), |queue| lengths[queue] > 0);
/// assert!(queue == Some(2) || queue == Some(7));
/// ```
pub fn draw(random: &mut Random) -> Priority {
    holder(random.below(TICKETS))
}

/// Who holds a ticket. The tickets are handed out worst first, so those of the priority of weight w begin at the
/// triangular number w(w − 1) / 2, and w is found by solving for it.
fn holder(ticket: u32) -> Priority {
    let weight = (8 * ticket + 1).isqrt().div_ceil(2);
    Priority::at_most_worst(u32::from(Priority::WORST.number()) + 1 - weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prioritizer::PriorityQueues;
    use proptest::prelude::*;

    #[test]
    fn each_priority_holds_as_many_tickets_as_its_weight_says() {
        let mut held = [0; 101];
        for ticket in 0..TICKETS {
            held[usize::from(holder(ticket).number())] += 1;
        }
        assert_eq!(held.to_vec(), Priority::all().map(weight).collect::<Vec<_>>());
        assert_eq!((weight(Priority::BEST), weight(Priority::WORST)), (101, 1));
    }

    /// How many tickets each queue holds.
    fn tickets_of(queues: PriorityQueues) -> Vec<u32> {
        let mut tickets = vec![0; queues.count()];
        for priority in Priority::all() {
            tickets[queues.of(priority)] += weight(priority);
        }
        tickets
    }

    #[test]
    fn the_documented_table_of_ten_queues_is_right() {
        let tickets = tickets_of(PriorityQueues::new(10).unwrap());
        let permille = tickets.iter().map(|tickets| (tickets * 1000 + TICKETS / 2) / TICKETS);
        assert_eq!(permille.collect::<Vec<_>>(), [205, 166, 147, 127, 108, 88, 69, 50, 30, 11]);
    }

    #[test]
    fn for_every_number_of_queues_a_better_one_has_the_better_chance_and_each_has_one() {
        for count in 1..=101 {
            let tickets = tickets_of(PriorityQueues::new(count).unwrap());
            assert!(tickets.windows(2).all(|pair| pair[0] > pair[1]), "{tickets:?}");
            assert!(tickets.iter().all(|tickets| *tickets > 0), "{tickets:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn queues_are_drawn_as_their_weights_say_every_one_and_better_ones_more(
            seed: u64,
            count in prop_oneof![1..=12usize, Just(101)],
        ) {
            const DRAWS: u32 = 200_000;
            let queues = PriorityQueues::new(count).unwrap();
            let mut random = Random::seeded(seed);
            let mut drawn = vec![0u32; count];
            for _ in 0..DRAWS {
                drawn[queues.of(draw(&mut random))] += 1;
            }
            prop_assert!(drawn.iter().all(|times| *times > 0), "{drawn:?}");
            for (times, tickets) in drawn.iter().zip(tickets_of(queues)) {
                let chance = f64::from(tickets) / f64::from(TICKETS);
                let expected = f64::from(DRAWS) * chance;
                // Six standard deviations: chance alone fails this once in many millions of runs.
                let allowed = 6.0 * (expected * (1.0 - chance)).sqrt() + 1.0;
                prop_assert!((f64::from(*times) - expected).abs() <= allowed, "{times}, not {expected}");
            }
            // With more queues the chances of neighbours are too close to tell apart in so many draws.
            if count <= 12 {
                prop_assert!(drawn.windows(2).all(|pair| pair[0] > pair[1]), "{drawn:?}");
            }
        }
    }
}
