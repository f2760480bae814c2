//! Writes durations as users write them in settings: `250ms`, `90s`, `1h`.

use std::time::Duration;

use crate::backend::local::UNLIMITED_TTL;

/// The duration with the largest unit of which it is a multiple.
pub fn time_text(time: Duration) -> String {
    if time >= UNLIMITED_TTL {
        return "unlimited".into();
    }
    match time.as_millis() {
        0 => "0".into(),
        milliseconds if milliseconds.is_multiple_of(3_600_000) => format!("{}h", milliseconds / 3_600_000),
        milliseconds if milliseconds.is_multiple_of(60_000) => format!("{}m", milliseconds / 60_000),
        milliseconds if milliseconds.is_multiple_of(1_000) => format!("{}s", milliseconds / 1_000),
        milliseconds => format!("{milliseconds}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_one_unit() {
        for (milliseconds, text) in [
            (0, "0"),
            (250, "250ms"),
            (1_500, "1500ms"),
            (2_000, "2s"),
            (90_000, "90s"),
            (300_000, "5m"),
            (3_600_000, "1h"),
        ] {
            assert_eq!(time_text(Duration::from_millis(milliseconds)), text);
        }
        assert_eq!(time_text(UNLIMITED_TTL), "unlimited");
    }
}
