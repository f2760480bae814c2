//! A small random number generator, for draws and jitter. Not for secrets.

use std::hash::{BuildHasher, RandomState};

/// A SplitMix64 generator. The same seed gives the same sequence.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Seeded by the operating system.
    pub fn from_system() -> Random {
        // The standard library seeds its hashers from the system, so the hash of any value is a random seed.
        Random(RandomState::new().hash_one(()))
    }

    /// Seeded with this number.
    pub fn seeded(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number, uniform over 64 bits.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next number below `limit`, uniformly distributed. 0 if `limit` is 0.
    pub fn below(&mut self, limit: u32) -> u32 {
        // Scales 64 bits down to the range. The bias is less than one part in 2³².
        ((u128::from(self.number()) * u128::from(limit)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_repeats_the_sequence_and_system_seeds_differ() {
        let sequence = |mut random: Random| [random.number(), random.number(), random.number()];
        assert_eq!(sequence(Random::seeded(7)), sequence(Random::seeded(7)));
        assert_ne!(sequence(Random::seeded(7)), sequence(Random::seeded(8)));
        assert_ne!(sequence(Random::from_system()), sequence(Random::from_system()));
    }

    #[test]
    fn numbers_below_a_limit_are_uniform() {
        let mut random = Random::seeded(1);
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[random.below(7) as usize] += 1;
        }
        // The standard deviation of each is 93.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 500), "{counts:?}");
        assert_eq!(random.below(1), 0);
        assert_eq!(random.below(0), 0);
    }
}
