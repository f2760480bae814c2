//! The settings that cannot change when a crawl is resumed.

use std::collections::BTreeMap;

/// The settings of a crawl that cannot change, by their user-facing names. With other values, what the crawl did so far
/// would be wrong.
#[derive(Debug, Clone, Default)]
pub struct RecordedSettings(Vec<FixedSetting>);

#[derive(Debug, Clone)]
struct FixedSetting {
    name: &'static str,
    value: String,
    /// Why it cannot change.
    reason: &'static str,
}

impl RecordedSettings {
    /// Adds a setting, and the reason why it cannot change.
    pub fn fixed(&mut self, name: &'static str, value: impl ToString, reason: &'static str) {
        self.0.push(FixedSetting { name, value: value.to_string(), reason });
    }

    /// The form in which they are stored.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let values: BTreeMap<&str, &str> =
            self.0.iter().map(|setting| (setting.name, setting.value.as_str())).collect();
        serde_json::to_vec(&values).unwrap_or_default()
    }

    /// Checks that a crawl with the stored settings may be resumed with these. The error names the setting that differs,
    /// and the reason why it cannot. `None` if the stored settings cannot be read.
    pub(super) fn check_resume(&self, stored: &[u8]) -> Option<Result<(), String>> {
        let stored: BTreeMap<String, String> = serde_json::from_slice(stored).ok()?;
        let differs = |setting: &&FixedSetting| stored.get(setting.name) != Some(&setting.value);
        Some(match self.0.iter().find(differs) {
            None => Ok(()),
            Some(FixedSetting { name, value, reason }) => {
                let recorded = stored.get(*name).map_or("not recorded", String::as_str);
                Err(format!(
                    "cannot resume: {name} was '{recorded}' when the crawl started and is '{value}' now; it cannot change, \
                     because {reason}; use the recorded value, or start another crawl in another directory"
                ))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(depth: &str) -> RecordedSettings {
        let mut settings = RecordedSettings::default();
        settings.fixed("max-depth", depth, "depths are counted with it");
        settings
    }

    #[test]
    fn setting_that_differs_is_named_with_the_reason() {
        let recorded = settings("3").to_bytes();
        assert_eq!(settings("3").check_resume(&recorded), Some(Ok(())));
        let error = settings("4").check_resume(&recorded).unwrap().unwrap_err();
        assert!(error.contains("max-depth was '3' when the crawl started and is '4' now"), "{error}");
        assert!(error.contains("because depths are counted with it; use the recorded value"), "{error}");
        let unknown = settings("4").check_resume(b"{}").unwrap().unwrap_err();
        assert!(unknown.contains("max-depth was 'not recorded'"), "{unknown}");
        assert_eq!(settings("3").check_resume(b"["), None);
    }
}
