//! Decides how alike is alike enough. Only this file knows what a threshold means for sketches.

use super::hash::fold;
use super::minhash::{BINS, Bits, LEADERS, Sketch, distance};

/// From which Dice coefficient on two pages are similar: more than 0 and at most 1.
///
/// Sketches tell a threshold of 0.9 from 0.93 and 0.85 nearly always; below 0.3 they begin to take pages that
/// have nothing in common for similar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    dice: f64,
    /// How many leaders make a band. Two pages are looked at closely if all leaders of any band are the same.
    rows: usize,
    /// In how many bits the sketches of similar pages may differ.
    most_different: u32,
}

/// How surely two pages that are just similar enough are found: the rest of the loss is the sketch's.
const FOUND: f64 = 0.995;

/// A band of a single leader would be shared by too many pages to be of use.
const LEAST_ROWS: usize = 2;
/// With more, fewer than four bands would be left.
const MOST_ROWS: usize = 16;

/// The most bands a sketch has under any threshold.
pub const MOST_BANDS: usize = LEADERS / LEAST_ROWS;

impl Threshold {
    /// The threshold at a Dice coefficient; `None` if that is not more than 0 and at most 1.
    pub fn new(dice: f64) -> Option<Threshold> {
        if !(dice > 0.0 && dice <= 1.0) {
            return None;
        }
        let jaccard = dice / (2.0 - dice);
        let found = |rows: usize| {
            let band = jaccard.powi(rows as i32);
            1.0 - (1.0 - band).powi((LEADERS / rows) as i32)
        };
        let rows = (LEAST_ROWS..=MOST_ROWS).rev().find(|&rows| found(rows) >= FOUND).unwrap_or(LEAST_ROWS);
        // Different draws agree in every other bit.
        let most_different = ((1.0 - jaccard) / 2.0 * BINS as f64) as u32;
        Some(Threshold { dice, rows, most_different })
    }

    /// The Dice coefficient.
    pub fn dice(&self) -> f64 {
        self.dice
    }

    /// Whether only the same content counts, so that sketches are of no use.
    pub fn is_exact(&self) -> bool {
        self.dice == 1.0
    }

    /// Whether two pages are similar, as far as their sketches tell.
    pub fn similar(&self, a: &Sketch, b: &Sketch) -> bool {
        self.within(&a.bits, &b.bits)
    }

    #[inline]
    pub(super) fn within(&self, a: &Bits, b: &Bits) -> bool {
        !self.is_exact() && distance(a, b) <= self.most_different
    }

    /// How many bands a sketch has under this threshold.
    pub fn band_count(&self) -> usize {
        if self.is_exact() { 0 } else { LEADERS / self.rows }
    }

    /// The keys to file a page under and to look for similar ones: the n-th keys of two similar pages are the
    /// same for at least one n, nearly always, and of two pages with little in common for none.
    pub fn bands(&self, sketch: &Sketch) -> impl Iterator<Item = u64> + use<> {
        let (rows, leaders) = (self.rows, sketch.leaders);
        (0..self.band_count()).map(move |band| {
            let leaders = &leaders[band * rows..][..rows];
            leaders.iter().fold(band as u64, |key, &leader| fold(key ^ u64::from(leader) ^ FIRST, SECOND))
        })
    }
}

const FIRST: u64 = 0xE703_7ED1_A0B4_28DB;
const SECOND: u64 = 0x8EBC_6AF0_9C88_C6E3;
