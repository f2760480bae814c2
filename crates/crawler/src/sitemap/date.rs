//! Parses the dates of sitemaps and feeds: W3C dates such as `2026-11-05T06:07:08+01:00`, and those of RSS such as
//! `Thu, 05 Nov 2026 06:07:08 GMT`.

const DAY: i64 = 24 * 60 * 60;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// The Unix time of a date in seconds. `None` if it is no date, or before 1970 or after 2106.
pub(crate) fn unix_seconds(text: &str) -> Option<u32> {
    let text = text.trim();
    if !text.is_ascii() || text.len() > 64 {
        return None;
    }
    let seconds = w3c(text).or_else(|| rfc822(text))?;
    u32::try_from(seconds).ok()
}

/// `YYYY`, `YYYY-MM`, `YYYY-MM-DD`, or a date with a time and an offset.
fn w3c(text: &str) -> Option<i64> {
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let year = number(parts.next()?, 4)?;
    let month = parts.next().map_or(Some(1), |month| number(month, 2))?;
    let day = parts.next().map_or(Some(1), |day| number(day, 2))?;
    if parts.next().is_some() {
        return None;
    }
    Some(days(year, month, day)? * DAY + time.map_or(Some(0), |time| time_of_day(time.trim()))?)
}

/// `Thu, 05 Nov 2026 06:07:08 GMT`: the day of the week and the seconds may be absent.
fn rfc822(text: &str) -> Option<i64> {
    let text = text.split_once(',').map_or(text, |(_, rest)| rest);
    let mut words = text.split_ascii_whitespace();
    let day = words.next()?.parse().ok()?;
    let month = words.next()?.get(..3)?.to_ascii_lowercase();
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let year = match words.next()? {
        year if year.len() == 2 => 2000 + number(year, 2)?,
        year => number(year, 4)?,
    };
    let (time, zone) = (words.next().unwrap_or("00:00"), words.next().unwrap_or("GMT"));
    let zone = if zone.starts_with(['+', '-']) { zone } else { "Z" };
    Some(days(year, month, day)? * DAY + time_of_day(&format!("{time}{zone}"))?)
}

/// A time of day with its offset from UTC, in seconds: `06:07:08.009+01:00`, `06:07Z`, `06:07:08`.
fn time_of_day(text: &str) -> Option<i64> {
    let zone_at = text.find(['Z', 'z', '+', '-']).unwrap_or(text.len());
    let (time, zone) = text.split_at(zone_at);
    let mut parts = time.trim().split(':');
    let (hour, minute) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let second = parts.next().map_or(Some(0), |second| number(second.split('.').next()?, 2))?;
    if parts.next().is_some() || hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    Some(hour * 3600 + minute * 60 + second - offset(zone)?)
}

fn offset(zone: &str) -> Option<i64> {
    let sign = match zone.as_bytes().first() {
        None | Some(b'Z' | b'z') => return Some(0),
        Some(b'-') => -1,
        Some(_) => 1,
    };
    let digits: String = zone[1..].chars().filter(|c| *c != ':').collect();
    let digits = number(&digits, 4)?;
    Some(sign * (digits / 100 * 3600 + digits % 100 * 60))
}

/// A number of this many digits.
fn number(text: &str, digits: usize) -> Option<i64> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// The days from 1 January 1970 to a date.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years start in March, so that the leap day is the last day of the year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    Some(era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_sitemaps_and_feeds_are_read() {
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("2000-02-29", 951_782_400),
            ("2026", 1_767_225_600),
            ("2026-11", 1_793_491_200),
            ("2026-11-05T06:07:08Z", 1_793_858_828),
            (" 2026-11-05T07:07:08.009+01:00\n", 1_793_858_828),
            ("2026-11-05 06:07:08", 1_793_858_828),
            ("2026-11-05T06:07Z", 1_793_858_820),
            ("Thu, 05 Nov 2026 06:07:08 GMT", 1_793_858_828),
            ("Thu, 05 Nov 2026 01:07:08 -0500", 1_793_858_828),
            ("5 Nov 26 06:07 UT", 1_793_858_820),
        ] {
            assert_eq!(unix_seconds(text), Some(seconds), "{text}");
        }
        for bad in [
            "",
            "-",
            "yesterday",
            "2026-13-01",
            "2026-1-1",
            "2026-11-05T",
            "1969-12-31",
            "3000-01-01",
            "5 No 2026",
            "é",
        ] {
            assert_eq!(unix_seconds(bad), None, "{bad}");
        }
    }

    #[test]
    fn dates_are_those_that_are_written() {
        use crate::modules::timestamp::rfc3339;
        for day in (0..49_000u32).step_by(13) {
            let seconds = day * 86_400 + 3_723;
            let text = rfc3339(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds.into()));
            assert_eq!(unix_seconds(&text), Some(seconds), "{text}");
        }
    }
}
