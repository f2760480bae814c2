//! Draws a priority at random, better ones more often. The router takes its next URL from the drawn
//! priority's queue.

use super::{Priority, Random};

/// The sum of all weights: 101 + 100 + … + 1.
const TOTAL_WEIGHT: u32 = 101 * 102 / 2;

/// The weight of a priority in the draw: 101 for priority 0, one less for each step, 1 for priority 100,
/// 5,151 in total.
///
/// With ten queues, each is drawn with this probability:
///
/// | queue | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 |
/// |---|---|---|---|---|---|---|---|---|---|---|
/// | in % | 20.5 | 16.6 | 14.7 | 12.7 | 10.8 | 8.8 | 6.9 | 5.0 | 3.0 | 1.1 |
///
/// When no queue is empty, the last one is drawn about once in a hundred draws, so no URL starves.
pub fn weight(priority: Priority) -> u32 {
    u32::from(Priority::WORST.number() - priority.number()) + 1
}

/// Draws a priority, with a probability proportional to its [`weight`].
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
    priority_at(random.below(TOTAL_WEIGHT))
}

/// The priority at a position below [`TOTAL_WEIGHT`]. Each priority covers as many positions as its weight,
/// worst first, so the positions of weight w start at the triangular number w(w − 1) / 2. Solving for w gives
/// the weight.
fn priority_at(position: u32) -> Priority {
    let weight = (8 * position + 1).isqrt().div_ceil(2);
    Priority::at_most_worst(u32::from(Priority::WORST.number()) + 1 - weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prioritizer::PriorityQueues;
    use proptest::prelude::*;

    #[test]
    fn each_priority_covers_as_many_positions_as_its_weight() {
        let mut covered = [0; 101];
        for position in 0..TOTAL_WEIGHT {
            covered[usize::from(priority_at(position).number())] += 1;
        }
        assert_eq!(covered.to_vec(), Priority::all().map(weight).collect::<Vec<_>>());
        assert_eq!((weight(Priority::BEST), weight(Priority::WORST)), (101, 1));
    }

    /// The total weight of each queue.
    fn queue_weights(queues: PriorityQueues) -> Vec<u32> {
        let mut weights = vec![0; queues.count()];
        for priority in Priority::all() {
            weights[queues.of(priority)] += weight(priority);
        }
        weights
    }

    #[test]
    fn documented_table_of_ten_queues_is_correct() {
        let weights = queue_weights(PriorityQueues::new(10).unwrap());
        let permille = weights.iter().map(|weight| (weight * 1000 + TOTAL_WEIGHT / 2) / TOTAL_WEIGHT);
        assert_eq!(permille.collect::<Vec<_>>(), [205, 166, 147, 127, 108, 88, 69, 50, 30, 11]);
    }

    #[test]
    fn better_queue_is_more_likely_for_every_number_of_queues() {
        for count in 1..=101 {
            let weights = queue_weights(PriorityQueues::new(count).unwrap());
            assert!(weights.windows(2).all(|pair| pair[0] > pair[1]), "{weights:?}");
            assert!(weights.iter().all(|weight| *weight > 0), "{weights:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn queues_are_drawn_in_proportion_to_their_weights(
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
            for (times, weight) in drawn.iter().zip(queue_weights(queues)) {
                let probability = f64::from(weight) / f64::from(TOTAL_WEIGHT);
                let expected = f64::from(DRAWS) * probability;
                // Six standard deviations: chance alone fails this once in many millions of runs.
                let allowed = 6.0 * (expected * (1.0 - probability)).sqrt() + 1.0;
                prop_assert!((f64::from(*times) - expected).abs() <= allowed, "{times}, not {expected}");
            }
            // With more queues, the probabilities of neighbours differ too little for this number of draws.
            if count <= 12 {
                prop_assert!(drawn.windows(2).all(|pair| pair[0] > pair[1]), "{drawn:?}");
            }
        }
    }
}
