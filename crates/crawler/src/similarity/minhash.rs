//! Computes the MinHash sketch of a set of shingles, from which the similarity of two sets can be estimated.
//!
//! One-permutation MinHash: the hash of a shingle selects one of 1,024 bins and a rank in it. The lowest rank of a
//! bin is equal in two sets with the probability of their Jaccard coefficient. The sketch stores one bit of each
//! lowest rank. An empty bin borrows the rank of another bin (densification): of the first filled one in an order
//! that is the same for all sets. Each borrower takes another bit of that rank, so that small sets are estimated as
//! well as large ones.

use super::hash::fold;
use super::shingles::ShingleSink;

/// Number of bins. At a Dice coefficient of 0.9, two standard deviations of the estimate are 0.02.
pub const BINS: usize = 1024;

/// Number of MinHash values for locality-sensitive hashing. Each is the first non-empty bin of a group of bins.
pub const LSH_VALUES: usize = 64;

/// Minimum number of different shingles for a sketch. Pages with fewer are compared exactly.
pub const MIN_SHINGLES: usize = 16;

/// The MinHash sketch of a set of shingles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch {
    /// One bit of each bin, to estimate the similarity of two pages.
    pub(super) bits: Bits,
    /// 16 bits of some bins, to find similar pages.
    pub(super) lsh_values: [u16; LSH_VALUES],
}

/// One bit for each bin.
pub(super) type Bits = [u64; BINS / 64];

impl Sketch {
    /// The size of an encoded sketch.
    pub const BYTES: usize = BINS / 8 + LSH_VALUES * 2;

    /// The number of different bits, of [`BINS`].
    pub fn distance(&self, other: &Sketch) -> u32 {
        distance(&self.bits, &other.bits)
    }

    /// Estimates the Dice coefficient of the two sets.
    pub fn similarity(&self, other: &Sketch) -> f64 {
        // The bits of different ranks agree half of the time.
        let jaccard = 1.0 - 2.0 * f64::from(self.distance(other)) / BINS as f64;
        (2.0 * jaccard / (1.0 + jaccard)).max(0.0)
    }

    /// Encodes the sketch, identically on every machine.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (bits, lsh_values) = bytes.split_at_mut(BINS / 8);
        for (to, from) in bits.as_chunks_mut().0.iter_mut().zip(self.bits) {
            *to = from.to_le_bytes();
        }
        for (to, from) in lsh_values.as_chunks_mut().0.iter_mut().zip(self.lsh_values) {
            *to = from.to_le_bytes();
        }
        bytes
    }

    /// Decodes a sketch.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Sketch {
        let (bits, lsh_values) = bytes.split_at(BINS / 8);
        let (bits, lsh_values) = (bits.as_chunks().0, lsh_values.as_chunks().0);
        Sketch {
            bits: std::array::from_fn(|at| u64::from_le_bytes(bits[at])),
            lsh_values: std::array::from_fn(|at| u16::from_le_bytes(lsh_values[at])),
        }
    }
}

#[inline]
pub(super) fn distance(a: &Bits, b: &Bits) -> u32 {
    a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum()
}

/// Collects the lowest rank of each bin.
pub(super) struct MinHasher {
    lowest: [u32; BINS],
    /// The first different shingles, until there are enough for a sketch.
    first_shingles: [u64; MIN_SHINGLES],
    /// Number of different shingles, at most `MIN_SHINGLES`.
    count: usize,
}

/// The rank of an empty bin. A shingle that has this rank, one in four billion, is ignored.
const EMPTY: u32 = u32::MAX;

impl ShingleSink for MinHasher {
    #[inline]
    fn add(&mut self, shingle: u64) {
        let lowest = &mut self.lowest[(shingle >> (64 - BINS.ilog2())) as usize];
        *lowest = (*lowest).min(shingle as u32);
        if self.count < MIN_SHINGLES {
            self.count_if_new(shingle);
        }
    }
}

impl MinHasher {
    pub(super) fn new() -> Self {
        MinHasher { lowest: [EMPTY; BINS], first_shingles: [0; MIN_SHINGLES], count: 0 }
    }

    #[inline(never)]
    fn count_if_new(&mut self, shingle: u64) {
        if !self.first_shingles[..self.count].contains(&shingle) {
            self.first_shingles[self.count] = shingle;
            self.count += 1;
        }
    }

    /// The sketch; `None` if there are too few shingles.
    pub(super) fn sketch(&self) -> Option<Sketch> {
        (self.count == MIN_SHINGLES).then(|| Sketch { bits: self.bits(), lsh_values: self.lsh_values() })
    }

    fn bits(&self) -> Bits {
        let (mut bits, mut filled) = (Bits::default(), Bits::default());
        for (word, lowest) in self.lowest.as_chunks::<64>().0.iter().enumerate() {
            // From the last bin to the first, so that each takes a shift by one.
            for &lowest in lowest.iter().rev() {
                bits[word] = bits[word] << 1 | u64::from(lowest & 1);
                filled[word] = filled[word] << 1 | u64::from(lowest != EMPTY);
            }
            bits[word] &= filled[word];
        }
        self.fill_empty_bins(&mut bits, &filled);
        bits
    }

    /// Fills empty bins with bits of filled ones. Round n tries the n-th partner of every empty bin, 64 bins at a time.
    fn fill_empty_bins(&self, bits: &mut Bits, filled: &Bits) {
        let mut empty = filled.map(|filled| !filled);
        for offset in (1..BINS).map(|round| round * STRIDE % BINS) {
            if empty == Bits::default() {
                break;
            }
            let (word_offset, rotation) = (offset / 64, offset as u32 % 64);
            for word in 0..bits.len() {
                let partner = word ^ word_offset;
                let mut borrowers = empty[word] & filled[partner].rotate_left(rotation);
                empty[word] &= !borrowers;
                while borrowers != 0 {
                    let at = borrowers.trailing_zeros();
                    borrowers &= borrowers - 1;
                    let lender = self.lowest[partner * 64 + (at.wrapping_sub(rotation) % 64) as usize];
                    // A different bit for every borrower, as far as the rank has enough.
                    bits[word] |= (fold(u64::from(lender), SPREAD) >> rotation & 1) << at;
                }
            }
        }
    }

    fn lsh_values(&self) -> [u16; LSH_VALUES] {
        let first = |group: &[u32; BINS / LSH_VALUES]| group.iter().copied().find(|&lowest| lowest != EMPTY);
        let groups = self.lowest.as_chunks().0;
        std::array::from_fn(|group| {
            let mut partners = (0..LSH_VALUES).map(|round| (group + round * STRIDE) % LSH_VALUES);
            partners.find_map(|partner| first(&groups[partner])).unwrap_or(EMPTY) as u16
        })
    }
}

/// Multiplier that derives many independent bits from one rank.
const SPREAD: u64 = 0x9FB2_1C65_1E98_DF25;

/// Odd, so that its multiples modulo a power of two visit every number, in a pseudo-random order.
const STRIDE: usize = 693;
