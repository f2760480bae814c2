//! Converts a similarity threshold to parameters for sketches: bit distance and LSH bands.

use super::hash::fold;
use super::minhash::{BINS, Bits, LSH_VALUES, Sketch, distance};

/// The Dice coefficient from which two pages are near-duplicates: more than 0 and at most 1.
///
/// With a threshold of 0.9, sketches classify pages with a coefficient above 0.93 or below 0.85 correctly nearly
/// always. Below 0.3 they start to classify unrelated pages as near-duplicates. Between those bounds the
/// [estimate](Threshold::estimate) is a border case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    dice: f64,
    /// Number of LSH values in a band. Two pages are compared if all values of at least one band are equal.
    rows: usize,
    /// Maximum number of different bits in the sketches of near-duplicates.
    max_distance: u32,
    /// Distances that differ from `max_distance` by at most this much are border cases.
    border: u32,
}

/// What the sketches of two pages say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimate {
    /// The pages are near-duplicates.
    Similar,
    /// The estimate is within its own error of the threshold. More likely, the pages are near-duplicates, or they are not.
    Border {
        /// Whether they more likely are.
        is_similar: bool,
        /// The number of different bits, to sort border cases by their estimates.
        distance: u32,
    },
    /// The pages are not near-duplicates.
    Different,
}

/// The error of an estimate, in standard deviations. A larger error occurs once in 16,000 pairs.
const MAX_ERROR: f64 = 4.0;

/// Minimum probability that two pages at the threshold share a band.
const MIN_RECALL: f64 = 0.999;

/// Too many unrelated pages would share a band of a single value.
const MIN_ROWS: usize = 2;
/// More rows would leave fewer than four bands.
const MAX_ROWS: usize = 16;

/// Maximum number of bands under any threshold.
pub const MAX_BANDS: usize = LSH_VALUES / MIN_ROWS;

impl Threshold {
    /// The threshold at this Dice coefficient; `None` unless that is more than 0 and at most 1.
    pub fn new(dice: f64) -> Option<Threshold> {
        if !(dice > 0.0 && dice <= 1.0) {
            return None;
        }
        let jaccard = dice / (2.0 - dice);
        let recall = |rows: usize| {
            let band = jaccard.powi(rows as i32);
            1.0 - (1.0 - band).powi((LSH_VALUES / rows) as i32)
        };
        let rows = (MIN_ROWS..=MAX_ROWS).rev().find(|&rows| recall(rows) >= MIN_RECALL).unwrap_or(MIN_ROWS);
        // The bits of different ranks agree half of the time.
        let differing = (1.0 - jaccard) / 2.0;
        let deviation = (BINS as f64 * differing * (1.0 - differing)).sqrt();
        Some(Threshold {
            dice,
            rows,
            max_distance: (differing * BINS as f64) as u32,
            border: (MAX_ERROR * deviation).ceil() as u32,
        })
    }

    /// The Dice coefficient.
    pub fn dice(&self) -> f64 {
        self.dice
    }

    /// Whether only duplicates match, so that sketches are not used.
    pub fn is_exact(&self) -> bool {
        self.dice == 1.0
    }

    /// Whether two pages are near-duplicates, by their sketches.
    pub fn estimate(&self, a: &Sketch, b: &Sketch) -> Estimate {
        self.estimate_bits(&a.bits, &b.bits)
    }

    #[inline]
    pub(super) fn estimate_bits(&self, a: &Bits, b: &Bits) -> Estimate {
        let distance = distance(a, b);
        let is_similar = distance <= self.max_distance;
        match distance.abs_diff(self.max_distance) <= self.border {
            _ if self.is_exact() => Estimate::Different,
            true => Estimate::Border { is_similar, distance },
            false if is_similar => Estimate::Similar,
            false => Estimate::Different,
        }
    }

    /// Number of bands under this threshold.
    pub fn band_count(&self) -> usize {
        if self.is_exact() { 0 } else { LSH_VALUES / self.rows }
    }

    /// The keys to store a page under and to find its near-duplicates. The n-th keys of two near-duplicates are equal
    /// for at least one n nearly always; those of unrelated pages nearly never.
    pub fn bands(&self, sketch: &Sketch) -> impl Iterator<Item = u64> + use<> {
        let (rows, values) = (self.rows, sketch.lsh_values);
        (0..self.band_count()).map(move |band| {
            let values = &values[band * rows..][..rows];
            values.iter().fold(band as u64, |key, &value| fold(key ^ u64::from(value) ^ FIRST, SECOND))
        })
    }
}

const FIRST: u64 = 0xE703_7ED1_A0B4_28DB;
const SECOND: u64 = 0x8EBC_6AF0_9C88_C6E3;
