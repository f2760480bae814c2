//! Formats numbers, sizes and durations for people: `1,013`, `2.6 MB`, `1 h 04 m`.

use std::time::Duration;

use crawler::internal::format::long_time;
pub use crawler::internal::format::{bytes, counted, limit, number};

/// A part of a size that is a limit, in the unit of the limit unless that is too large: `11.8 of 50 MB`, `3.2 MB of 100 GB`.
pub fn share_of_bytes(part: u64, limit: u64) -> String {
    let (unit, name) = match limit {
        0..1_000 => return format!("{} of {}", number(part), counted(limit, "byte")),
        1_000..1_000_000 => (1e3, "KB"),
        1_000_000..1_000_000_000 => (1e6, "MB"),
        _ => (1e9, "GB"),
    };
    let whole = round_number(limit as f64 / unit);
    match part as f64 / unit {
        part if part >= 0.1 => format!("{part:.1} of {whole} {name}"),
        _ => format!("{} of {whole} {name}", bytes(part)),
    }
}

/// A number with thousands separators, and with a decimal unless that is 0.
fn round_number(value: f64) -> String {
    match value.fract() {
        fract if fract < 0.05 => number(value as u64),
        _ => format!("{value:.1}"),
    }
}

/// A duration as on a clock: `0:06`, `12:34`, `1:02:03`.
pub fn clock(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..3_600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        seconds => format!("{}:{:02}:{:02}", number(seconds / 3_600), seconds / 60 % 60, seconds % 60),
    }
}

/// An estimate of how long a crawl will take: `about 40 s left`, `about 3 m left`, `about 2 h 10 m left`.
pub fn remaining(time: Duration) -> String {
    let rounded = |step: f64| (time.as_secs_f64() / step).round() as u64 * step as u64;
    let time = match time.as_secs() {
        0..10 => "a few seconds".into(),
        10..55 => format!("about {} s", rounded(5.0)),
        55..3_570 => format!("about {} m", rounded(60.0).max(60) / 60),
        3_570..35_700 => match rounded(600.0) {
            seconds if seconds.is_multiple_of(3_600) => format!("about {} h", seconds / 3_600),
            seconds => format!("about {} h {} m", seconds / 3_600, seconds / 60 % 60),
        },
        35_700..172_800 => format!("about {} h", rounded(3_600.0) / 3_600),
        _ => format!("about {} days", rounded(86_400.0) / 86_400),
    };
    format!("{time} left")
}

/// The time until the time limit of a crawl ends it, if nothing else does before: `at most 1 h 59 m left (--max-time)`.
pub fn at_most(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    let time = if seconds < 60 { format!("{seconds} s") } else { long_time(seconds) };
    format!("at most {time} left (--max-time)")
}

/// A measured duration: `5.1 s`, `2 m 03 s`, `1 h 04 m`.
pub fn elapsed(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 59.95 { format!("{seconds:.1} s") } else { long_time(seconds.round() as u64) }
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
    fn part_of_a_size_has_the_unit_of_the_whole() {
        for (part, whole, text) in [
            (11_800_000, 50_000_000, "11.8 of 50 MB"),
            (0, 50_000_000, "0 bytes of 50 MB"),
            (3_200_000, 100_000_000_000, "3.2 MB of 100 GB"),
            (1_400_000_000, 1_500_000_000, "1.4 of 1.5 GB"),
            (700, 2_000, "0.7 of 2 KB"),
            (7, 1, "7 of 1 byte"),
        ] {
            assert_eq!(share_of_bytes(part, whole), text);
        }
    }

    #[test]
    fn clock_has_hours_when_there_are_any() {
        for (seconds, text) in
            [(0, "0:00"), (6, "0:06"), (754, "12:34"), (3_723, "1:02:03"), (360_000, "100:00:00")]
        {
            assert_eq!(clock(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn estimates_are_rounded() {
        for (seconds, text) in [
            (0, "a few seconds left"),
            (9, "a few seconds left"),
            (43, "about 45 s left"),
            (55, "about 1 m left"),
            (200, "about 3 m left"),
            (3_569, "about 59 m left"),
            (3_570, "about 1 h left"),
            (7_900, "about 2 h 10 m left"),
            (36_100, "about 10 h left"),
            (200_000, "about 2 days left"),
        ] {
            assert_eq!(remaining(Duration::from_secs(seconds)), text);
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
