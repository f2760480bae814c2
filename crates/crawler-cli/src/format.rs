//! Formats numbers, sizes and durations for people: `1,013`, `2.6 MB`, `1 h 04 m`.

use std::time::Duration;

pub use crawler::internal::format::{counted, number};

/// A size in decimal units.
pub fn bytes(count: u64) -> String {
    match count {
        0..1_000 => counted(count, "byte"),
        1_000..999_950 => format!("{:.1} KB", count as f64 / 1e3),
        999_950..999_950_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}

/// A measured duration: `5.1 s`, `2 m 03 s`, `1 h 04 m`.
pub fn elapsed(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 59.95 { format!("{seconds:.1} s") } else { long_time(seconds.round() as u64) }
}

/// A duration that the user set, without rounding where it is short: `250 ms`, `1.5 s`, `30 s`, `2 m 00 s`.
pub fn limit(time: Duration) -> String {
    match time.as_millis() {
        milliseconds @ 0..1_000 => format!("{milliseconds} ms"),
        1_000..60_000 => format!("{} s", time.as_secs_f64()),
        _ => long_time(time.as_secs()),
    }
}

fn long_time(seconds: u64) -> String {
    match seconds {
        0..3_600 => format!("{} m {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} m", number(seconds / 3_600), seconds / 60 % 60),
    }
}

/// Pages per second.
pub fn rate(pages_per_second: f64) -> String {
    if pages_per_second < 9.95 {
        return format!("{pages_per_second:.1} pages/s");
    }
    format!("{} pages/s", number(pages_per_second.round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_use_the_unit_that_keeps_them_short() {
        let sizes = [
            (1, "1 byte"),
            (358, "358 bytes"),
            (1_000, "1.0 KB"),
            (999_949, "999.9 KB"),
            (999_950, "1.0 MB"),
        ];
        for (value, text) in sizes {
            assert_eq!(bytes(value), text);
        }
        assert_eq!(bytes(1_234_000_000), "1.2 GB");
    }

    #[test]
    fn durations_have_two_units_at_most() {
        let times = [
            (0, "0.0 s"),
            (5_100, "5.1 s"),
            (59_940, "59.9 s"),
            (59_950, "1 m 00 s"),
            (123_000, "2 m 03 s"),
            (3_599_600, "1 h 00 m"),
            (3_840_000, "1 h 04 m"),
        ];
        for (milliseconds, text) in times {
            assert_eq!(elapsed(Duration::from_millis(milliseconds)), text);
        }
        for (milliseconds, text) in
            [(250, "250 ms"), (1_500, "1.5 s"), (30_000, "30 s"), (90_000, "1 m 30 s")]
        {
            assert_eq!(limit(Duration::from_millis(milliseconds)), text);
        }
    }

    #[test]
    fn low_rates_have_a_decimal() {
        assert_eq!(
            (rate(0.24), rate(97.6), rate(1_500.0)),
            ("0.2 pages/s".into(), "98 pages/s".into(), "1,500 pages/s".into())
        );
    }
}
