//! What a crawl was begun with, and what of that may be otherwise when it is resumed.

use serde::{Deserialize, Serialize};

/// The settings of a crawl by the names users know them by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedSettings {
    /// What must stay as it was: a crawl under other terms is another crawl.
    pub fixed: Vec<(String, String)>,
    /// What may be raised.
    pub budgets: Vec<(String, u64)>,
}

impl RecordedSettings {
    /// Adds a setting that stays.
    pub fn fixed(&mut self, name: &str, value: impl ToString) {
        self.fixed.push((name.to_owned(), value.to_string()));
    }

    /// Adds a budget, which may be raised.
    pub fn raisable(&mut self, name: &str, most: u64) {
        self.budgets.push((name.to_owned(), most));
    }

    /// Whether a crawl that was begun on these terms may go on under others; if not, what is in the way.
    pub fn check_resume(&self, others: &RecordedSettings) -> Result<(), String> {
        for (name, before) in &self.fixed {
            let now = others.fixed.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
            if now != Some(before.as_str()) {
                let now = now.unwrap_or("nothing");
                return Err(format!(
                    "{name} was '{before}' when the crawl was begun and is '{now}' now; give what it was, or begin \
                     another crawl in another directory"
                ));
            }
        }
        for (name, before) in &self.budgets {
            let now = others.budgets.iter().find(|(other, _)| other == name).map(|(_, most)| *most);
            if let Some(now) = now
                && now < *before
            {
                let before =
                    if *before == u64::MAX { "without a limit".to_owned() } else { before.to_string() };
                return Err(format!("{name} was {before} and is {now} now; it may be raised, not lowered"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(scope: &str, pages: u64) -> RecordedSettings {
        let mut terms = RecordedSettings::default();
        terms.fixed("--scope", scope);
        terms.raisable("--max-pages", pages);
        terms
    }

    #[test]
    fn budgets_may_be_raised_and_nothing_else_may_change() {
        let begun = terms("host", 100);
        assert_eq!(begun.check_resume(&begun), Ok(()));
        assert_eq!(begun.check_resume(&terms("host", 200)), Ok(()));
        let lowered = begun.check_resume(&terms("host", 99)).unwrap_err();
        assert!(lowered.contains("--max-pages was 100 and is 99 now"), "{lowered}");
        let other = begun.check_resume(&terms("any", 100)).unwrap_err();
        assert!(other.contains("--scope was 'host'") && other.contains("'any' now"), "{other}");
        assert!(begun.check_resume(&RecordedSettings::default()).is_err());
    }
}
