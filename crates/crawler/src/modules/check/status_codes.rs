//! Parses sets of HTTP statuses: `403,999` or `500-599`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::verdict::Verdict;

/// A set of HTTP statuses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StatusCodes(Vec<(u16, u16)>);

impl StatusCodes {
    /// The verdict on a URL if these statuses are fine.
    pub(super) fn apply(&self, verdict: Verdict, status: Option<u16>) -> Verdict {
        match (verdict, status) {
            (Verdict::Http | Verdict::NotChecked, Some(status)) if self.contains(status) => Verdict::Fine,
            (verdict, _) => verdict,
        }
    }

    /// Whether the set contains a status.
    fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&status))
    }
}

impl FromStr for StatusCodes {
    type Err = String;

    fn from_str(text: &str) -> Result<StatusCodes, String> {
        let code = |text: &str| match text.parse() {
            Ok(code @ 100..=999) if !text.starts_with('+') => Some(code),
            _ => None,
        };
        let range = |part: &str| match part.trim().split_once('-') {
            Some((first, last)) => code(first).zip(code(last)).filter(|(first, last)| first <= last),
            None => code(part.trim()).map(|code| (code, code)),
        };
        let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
        ranges.map(StatusCodes).ok_or_else(|| "must be HTTP statuses like 403,999 or 500-599".into())
    }
}

impl TryFrom<String> for StatusCodes {
    type Error = String;

    fn try_from(text: String) -> Result<StatusCodes, String> {
        if text.is_empty() { Ok(StatusCodes::default()) } else { text.parse() }
    }
}

impl From<StatusCodes> for String {
    fn from(codes: StatusCodes) -> String {
        codes.to_string()
    }
}

impl fmt::Display for StatusCodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_ranges_are_parsed() {
        let codes: StatusCodes = "403, 999,500-599".parse().unwrap();
        assert_eq!(codes.to_string(), "403,999,500-599");
        assert!([403, 500, 599, 999].iter().all(|code| codes.contains(*code)));
        assert!(![404, 499, 600].iter().any(|code| codes.contains(*code)));
        for bad in ["", "x", "40", "1000", "403,", "599-500", "403-", "-403", "+403", "application/pdf"] {
            assert!(bad.parse::<StatusCodes>().is_err(), "{bad:?}");
        }
    }
}
