//! A histogram with fixed bounds, of times or sizes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The number of bounds of every histogram.
pub const BOUNDS: usize = 16;

/// Upper bounds of times in seconds: from a request on loopback to the longest timeouts.
pub const SECONDS: [f64; BOUNDS] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Upper bounds of sizes in bytes: up to the largest page.
pub const BYTES: [f64; BOUNDS] =
    [500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 2e7, 5e7];

/// The same bounds as integers: microseconds and bytes.
const MICROSECONDS: [u64; BOUNDS] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 30_000_000, 60_000_000,
];
const WHOLE_BYTES: [u64; BOUNDS] = [
    500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000,
    5_000_000, 10_000_000, 20_000_000, 50_000_000,
];

/// What a histogram measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Times, in seconds.
    Seconds,
    /// Sizes, in bytes.
    Bytes,
}

/// Counts values by size. A value is counted in the first bucket whose bound is not smaller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Histogram {
    /// The unit of the bounds.
    pub unit: Unit,
    /// The number of values in each bucket, the last of which has no bound. They are not cumulative.
    pub counts: [u64; BOUNDS + 1],
    /// The sum of all values: microseconds or bytes.
    total: u64,
    /// The number of values.
    pub count: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new(Unit::Seconds)
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new(unit: Unit) -> Histogram {
        Histogram { unit, counts: [0; BOUNDS + 1], total: 0, count: 0 }
    }

    /// The upper bounds of all buckets but the last, in seconds or bytes.
    pub fn bounds(&self) -> &'static [f64; BOUNDS] {
        match self.unit {
            Unit::Seconds => &SECONDS,
            Unit::Bytes => &BYTES,
        }
    }

    /// The sum of all values, in seconds or bytes.
    pub fn sum(&self) -> f64 {
        match self.unit {
            Unit::Seconds => self.total as f64 / 1e6,
            Unit::Bytes => self.total as f64,
        }
    }

    /// The mean, in seconds or bytes; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum() / self.count as f64)
    }

    /// The bound below which this part of the values is, from 0 to 1; `None` without values, infinite in the last bucket.
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let wanted = (part * self.count as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        let bucket = self.counts.iter().position(|count| {
            below += count;
            below >= wanted
        });
        bucket.map(|bucket| self.bounds().get(bucket).copied().unwrap_or(f64::INFINITY))
    }

    /// Counts a time.
    pub fn record(&mut self, time: Duration) {
        self.add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// Counts a size.
    pub fn record_bytes(&mut self, bytes: u64) {
        self.add(bytes);
    }

    fn add(&mut self, value: u64) {
        let bounds = match self.unit {
            Unit::Seconds => &MICROSECONDS,
            Unit::Bytes => &WHOLE_BYTES,
        };
        self.counts[bounds.partition_point(|bound| *bound < value)] += 1;
        self.total = self.total.saturating_add(value);
        self.count += 1;
    }

    /// Adds the values of another histogram of the same unit.
    pub fn merge(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total = self.total.saturating_add(other.total);
        self.count += other.count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_of_both_forms_are_the_same() {
        for index in 0..BOUNDS {
            assert_eq!((SECONDS[index] * 1e6).round() as u64, MICROSECONDS[index]);
            assert_eq!(BYTES[index] as u64, WHOLE_BYTES[index]);
        }
        assert!(MICROSECONDS.is_sorted() && WHOLE_BYTES.is_sorted());
    }

    #[test]
    fn a_value_is_counted_in_the_first_bucket_that_is_not_smaller() {
        let mut times = Histogram::default();
        for milliseconds in [1, 1, 2, 600_000] {
            times.record(Duration::from_millis(milliseconds));
        }
        assert_eq!((times.counts[1], times.counts[2], times.counts[BOUNDS]), (2, 1, 1));
        assert_eq!((times.count, times.sum()), (4, 600.004));
        assert_eq!((times.quantile(0.5), times.quantile(0.75)), (Some(0.001), Some(0.0025)));
        assert_eq!(times.quantile(1.0), Some(f64::INFINITY));
        assert_eq!(Histogram::new(Unit::Bytes).quantile(0.5), None);
    }
}
