//! The settings of a crawl, and which of them may differ when it is resumed.

use serde::{Deserialize, Serialize};

/// The settings of a crawl by their user-facing names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedSettings {
    /// Settings that must not change: with other values it would be another crawl.
    pub fixed: Vec<(String, String)>,
    /// Limits, which may be raised.
    pub budgets: Vec<(String, u64)>,
}

impl RecordedSettings {
    /// Adds a setting that must not change.
    pub fn fixed(&mut self, name: &str, value: impl ToString) {
        self.fixed.push((name.to_owned(), value.to_string()));
    }

    /// Adds a limit, which may be raised.
    pub fn raisable(&mut self, name: &str, limit: u64) {
        self.budgets.push((name.to_owned(), limit));
    }

    /// Checks that a crawl with these settings may be resumed with the given ones. The error names the setting that
    /// differs.
    pub fn check_resume(&self, given_settings: &RecordedSettings) -> Result<(), String> {
        for (name, recorded) in &self.fixed {
            let given =
                given_settings.fixed.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
            if given != Some(recorded.as_str()) {
                let given = given.unwrap_or("not set");
                return Err(format!(
                    "cannot resume: {name} was '{recorded}' when the crawl started and is '{given}' now; use the recorded \
                     value, or start another crawl in another directory"
                ));
            }
        }
        for (name, recorded) in &self.budgets {
            let given =
                given_settings.budgets.iter().find(|(other, _)| other == name).map(|(_, limit)| *limit);
            if let Some(given) = given
                && given < *recorded
            {
                let recorded =
                    if *recorded == u64::MAX { "unlimited".to_owned() } else { recorded.to_string() };
                return Err(format!(
                    "cannot resume: {name} was {recorded} and is {given} now; it can be raised, not lowered"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(scope: &str, pages: u64) -> RecordedSettings {
        let mut settings = RecordedSettings::default();
        settings.fixed("scope", scope);
        settings.raisable("max-pages", pages);
        settings
    }

    #[test]
    fn limits_can_be_raised_and_nothing_else_can_change() {
        let recorded = settings("host", 100);
        assert_eq!(recorded.check_resume(&recorded), Ok(()));
        assert_eq!(recorded.check_resume(&settings("host", 200)), Ok(()));
        let lowered = recorded.check_resume(&settings("host", 99)).unwrap_err();
        assert!(lowered.contains("max-pages was 100 and is 99 now"), "{lowered}");
        let other = recorded.check_resume(&settings("any", 100)).unwrap_err();
        assert!(other.contains("scope was 'host'") && other.contains("'any' now"), "{other}");
        assert!(recorded.check_resume(&RecordedSettings::default()).is_err());
    }
}
