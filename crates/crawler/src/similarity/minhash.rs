//! Draws a sketch of a set of sequences, from which the likeness of two sets can be told without the sets.
//!
//! One-permutation MinHash: the hash of a sequence names one of 1,024 bins and its rank there; the lowest rank
//! of each bin is a random draw from the set, which another set makes too with the probability of their Jaccard
//! coefficient. Of each draw one bit is kept. A bin that nothing fell into borrows the draw of another: of the
//! first filled one among partners that are the same for all sets, and of that draw a bit of its own, so that
//! a small set loses nothing against a large one.

use super::hash::fold;
use super::shingles::ShingleSink;

/// How many draws a sketch is made of. At a Dice coefficient of 0.9, two standard deviations of the estimate
/// are 0.02.
pub const BINS: usize = 1024;

/// How many draws pages are found by: each is the first draw of so many neighbouring bins.
pub const LEADERS: usize = 64;

/// A page of fewer different sequences has no sketch: what little it says is compared exactly.
pub const MIN_SEQUENCES: usize = 16;

/// What is kept of a set of sequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch {
    /// One bit of each draw: what two pages are compared by.
    pub(super) bits: Bits,
    /// A few draws nearly whole: what a similar page is found by.
    pub(super) leaders: [u16; LEADERS],
}

/// One bit for each bin.
pub(super) type Bits = [u64; BINS / 64];

impl Sketch {
    /// The size of a sketch as bytes.
    pub const BYTES: usize = BINS / 8 + LEADERS * 2;

    /// In how many of [`BINS`] bits two sketches differ.
    pub fn distance(&self, other: &Sketch) -> u32 {
        distance(&self.bits, &other.bits)
    }

    /// About the Dice coefficient of the two sets.
    pub fn likeness(&self, other: &Sketch) -> f64 {
        // Different draws still agree in every other bit.
        let jaccard = 1.0 - 2.0 * f64::from(self.distance(other)) / BINS as f64;
        (2.0 * jaccard / (1.0 + jaccard)).max(0.0)
    }

    /// The bytes of the sketch, the same on every machine.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (bits, leaders) = bytes.split_at_mut(BINS / 8);
        for (to, from) in bits.as_chunks_mut().0.iter_mut().zip(self.bits) {
            *to = from.to_le_bytes();
        }
        for (to, from) in leaders.as_chunks_mut().0.iter_mut().zip(self.leaders) {
            *to = from.to_le_bytes();
        }
        bytes
    }

    /// The sketch that these are the bytes of.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Sketch {
        let (bits, leaders) = bytes.split_at(BINS / 8);
        let (bits, leaders) = (bits.as_chunks().0, leaders.as_chunks().0);
        Sketch {
            bits: std::array::from_fn(|at| u64::from_le_bytes(bits[at])),
            leaders: std::array::from_fn(|at| u16::from_le_bytes(leaders[at])),
        }
    }
}

#[inline]
pub(super) fn distance(a: &Bits, b: &Bits) -> u32 {
    a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum()
}

/// Draws from the sequences as they come.
pub(super) struct MinHasher {
    lowest: [u32; BINS],
    /// The first different sequences, until there are enough for a sketch.
    few: [u64; MIN_SEQUENCES],
    different: usize,
}

/// The rank of no sequence. One in four billion that has it is not seen.
const NOTHING: u32 = u32::MAX;

impl ShingleSink for MinHasher {
    #[inline]
    fn add(&mut self, sequence: u64) {
        let lowest = &mut self.lowest[(sequence >> (64 - BINS.ilog2())) as usize];
        *lowest = (*lowest).min(sequence as u32);
        if self.different < MIN_SEQUENCES {
            self.count(sequence);
        }
    }
}

impl MinHasher {
    pub(super) fn new() -> Self {
        MinHasher { lowest: [NOTHING; BINS], few: [0; MIN_SEQUENCES], different: 0 }
    }

    #[inline(never)]
    fn count(&mut self, sequence: u64) {
        if !self.few[..self.different].contains(&sequence) {
            self.few[self.different] = sequence;
            self.different += 1;
        }
    }

    /// The sketch, if there are enough sequences for one.
    pub(super) fn sketch(&self) -> Option<Sketch> {
        (self.different == MIN_SEQUENCES).then(|| Sketch { bits: self.bits(), leaders: self.leaders() })
    }

    fn bits(&self) -> Bits {
        let (mut bits, mut filled) = (Bits::default(), Bits::default());
        for (word, lowest) in self.lowest.as_chunks::<64>().0.iter().enumerate() {
            for (at, &lowest) in lowest.iter().enumerate() {
                bits[word] |= u64::from(lowest & 1) << at;
                filled[word] |= u64::from(lowest != NOTHING) << at;
            }
            bits[word] &= filled[word];
        }
        self.lend(&mut bits, &filled);
        bits
    }

    /// Gives the bins that are not filled a bit of one that is: in each round the next of their partners, a word
    /// of bins at a time.
    fn lend(&self, bits: &mut Bits, filled: &Bits) {
        let mut empty = filled.map(|filled| !filled);
        for offset in (1..BINS).map(|round| round * STRIDE % BINS) {
            if empty == Bits::default() {
                break;
            }
            let (words, turn) = (offset / 64, offset as u32 % 64);
            for word in 0..bits.len() {
                let partner = word ^ words;
                let mut borrowers = empty[word] & filled[partner].rotate_left(turn);
                empty[word] &= !borrowers;
                while borrowers != 0 {
                    let at = borrowers.trailing_zeros();
                    borrowers &= borrowers - 1;
                    let lender = self.lowest[partner * 64 + (at.wrapping_sub(turn) % 64) as usize];
                    // A bit that the lender has not given yet, as far as it has so many.
                    bits[word] |= (fold(u64::from(lender), SPREAD) >> turn & 1) << at;
                }
            }
        }
    }

    fn leaders(&self) -> [u16; LEADERS] {
        let first = |group: &[u32; BINS / LEADERS]| group.iter().copied().find(|&lowest| lowest != NOTHING);
        let groups = self.lowest.as_chunks().0;
        std::array::from_fn(|group| {
            let mut partners = (0..LEADERS).map(|round| (group + round * STRIDE) % LEADERS);
            partners.find_map(|partner| first(&groups[partner])).unwrap_or(NOTHING) as u16
        })
    }
}

/// Makes many independent bits of one draw.
const SPREAD: u64 = 0x9FB2_1C65_1E98_DF25;

/// Multiples of it, being odd, come by every number below a power of two, in an order that looks like chance.
const STRIDE: usize = 693;
