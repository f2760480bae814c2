//! Formats numbers, sizes and durations for people: `1,013`, `2 pages`, `2.6 MB`, `1.5 s`.

use std::time::Duration;

/// A number with thousands separators.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun, in the singular or with an `s`: `1 page`, `2,000 pages`.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", number(count), if count == 1 { "" } else { "s" })
}

/// A size in decimal units.
pub fn bytes(count: u64) -> String {
    match count {
        0..1_000 => counted(count, "byte"),
        1_000..999_950 => format!("{:.1} KB", count as f64 / 1e3),
        999_950..999_950_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}

/// A duration that is a setting or a limit, to the millisecond where it is short: `250 ms`, `1.5 s`, `30 s`, `2 m 00 s`.
pub fn limit(time: Duration) -> String {
    match (time.as_secs_f64() * 1e3).round() {
        milliseconds if milliseconds < 1e3 => format!("{milliseconds} ms"),
        milliseconds if milliseconds < 6e4 => format!("{} s", milliseconds / 1e3),
        milliseconds => long_time((milliseconds / 1e3) as u64),
    }
}

/// A duration of a minute or more: `2 m 03 s`, `1 h 04 m`.
pub fn long_time(seconds: u64) -> String {
    match seconds {
        0..3_600 => format!("{} m {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} m", number(seconds / 3_600), seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_thousands_separators_and_durations_are_short() {
        for (value, text) in [(0, "0"), (999, "999"), (1_013, "1,013"), (1_234_567, "1,234,567")] {
            assert_eq!(number(value), text);
        }
        let times = [
            (0, "0 ms"),
            (27_895_189, "28 ms"),
            (250_000_000, "250 ms"),
            (999_600_000, "1 s"),
            (1_507_302_745, "1.507 s"),
            (30_000_000_000, "30 s"),
            (59_999_900_000, "1 m 00 s"),
            (90_000_000_000, "1 m 30 s"),
        ];
        for (nanoseconds, text) in times {
            assert_eq!(limit(Duration::from_nanos(nanoseconds)), text);
        }
        assert_eq!((counted(1, "page"), counted(2_000, "page")), ("1 page".into(), "2,000 pages".into()));
    }
}
