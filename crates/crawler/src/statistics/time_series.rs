//! The counts of a crawl over time: a bounded number of samples, whose interval grows with the crawl.

use serde::{Deserialize, Serialize};

/// The most samples. When there are more, the interval doubles.
pub const MAX_SAMPLES: usize = 600;

/// The counts of a crawl at one time. All but `pending` never decrease.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sample {
    /// The active crawl time, in seconds.
    pub at_seconds: u32,
    /// Pages.
    pub pages: u64,
    /// Requests.
    pub requests: u64,
    /// Body bytes after decoding.
    pub bytes: u64,
    /// URLs that failed.
    pub failures: u64,
    /// URLs admitted and not completed.
    pub pending: u64,
}

/// Samples in the order of time, at most one in each interval: the last one of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeSeries {
    /// The interval in seconds: a power of two.
    interval: u32,
    samples: Vec<Sample>,
}

impl Default for TimeSeries {
    fn default() -> TimeSeries {
        TimeSeries { interval: 1, samples: Vec::new() }
    }
}

impl TimeSeries {
    /// The interval between samples in seconds.
    pub fn interval(&self) -> u32 {
        self.interval
    }

    /// The samples, in the order of time.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Adds a sample that is not older than the last one.
    pub fn push(&mut self, sample: Sample) {
        self.append(sample);
        self.limit();
    }

    /// Adds the samples of another series. Of two in one interval, the later one stays.
    pub fn merge(&mut self, other: &TimeSeries) {
        if other.samples.is_empty() {
            return;
        }
        self.interval = self.interval.max(other.interval);
        let mut all = std::mem::take(&mut self.samples);
        all.extend(&other.samples);
        all.sort_unstable();
        all.into_iter().for_each(|sample| self.append(sample));
        self.limit();
    }

    fn append(&mut self, sample: Sample) {
        let slot = |sample: &Sample| sample.at_seconds / self.interval;
        match self.samples.last_mut() {
            Some(last) if slot(last) >= slot(&sample) => *last = sample.max(*last),
            _ => self.samples.push(sample),
        }
    }

    fn limit(&mut self) {
        while self.samples.len() > MAX_SAMPLES {
            self.interval = self.interval.saturating_mul(2);
            let all = std::mem::take(&mut self.samples);
            all.into_iter().for_each(|sample| self.append(sample));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_of_days_is_bounded_ordered_and_ends_with_the_last_sample() {
        let mut series = TimeSeries::default();
        let days = 3 * 24 * 3600;
        for second in 0..days {
            let (pages, pending) = (u64::from(second) * 7, u64::from(days - second));
            series.push(Sample { at_seconds: second, pages, pending, ..Sample::default() });
            assert!(series.samples().len() <= MAX_SAMPLES);
        }
        let samples = series.samples();
        assert!(samples.len() > MAX_SAMPLES / 3, "{}", samples.len());
        assert!(samples.is_sorted_by(|a, b| a.at_seconds < b.at_seconds && a.pages <= b.pages));
        assert_eq!(samples.last().unwrap().at_seconds, days - 1);
        assert!(samples[0].at_seconds < series.interval());
    }

    #[test]
    fn a_clock_that_stands_still_adds_no_samples() {
        let mut series = TimeSeries::default();
        for pages in 0..1_000 {
            series.push(Sample { at_seconds: 5, pages, ..Sample::default() });
        }
        assert_eq!(series.samples(), [Sample { at_seconds: 5, pages: 999, ..Sample::default() }]);
    }
}
