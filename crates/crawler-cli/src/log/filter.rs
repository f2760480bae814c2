//! Which events are logged: a level, and other levels for single targets.

use crawler::internal::log::{PREFIX, TARGETS};
use tracing::Metadata;
use tracing::level_filters::LevelFilter;

const LEVELS: [(&str, LevelFilter); 6] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

/// The value of `--log-level`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    text: String,
    level: LevelFilter,
    /// The levels of targets, without the prefix of their names.
    targets: Vec<(&'static str, LevelFilter)>,
}

impl Default for Filter {
    fn default() -> Filter {
        Filter { text: "info".into(), level: LevelFilter::INFO, targets: Vec::new() }
    }
}

impl Filter {
    /// Parses `LEVEL`, `LEVEL,TARGET=LEVEL` and so on. The last level of a target counts.
    pub fn parse(text: &str) -> Result<Filter, String> {
        let mut filter = Filter { text: text.into(), ..Filter::default() };
        for part in text.split(',').map(str::trim) {
            match part.split_once('=') {
                None => filter.level = level(part)?,
                Some((name, part)) => {
                    let target = TARGETS.iter().find(|target| **target == name.trim());
                    let target = target.ok_or_else(|| {
                        format!("there is no target '{}'; there are {}", name.trim(), TARGETS.join(", "))
                    })?;
                    filter.targets.push((target, level(part.trim())?));
                }
            }
        }
        Ok(filter)
    }

    /// As it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The most detailed level of all targets.
    pub fn max_level(&self) -> LevelFilter {
        self.targets.iter().map(|(_, level)| *level).chain([self.level]).max().unwrap_or(self.level)
    }

    /// Whether events with this metadata are logged. Those of other crates never are.
    pub fn allows(&self, metadata: &Metadata<'_>) -> bool {
        let Some(target) = metadata.target().strip_prefix(PREFIX) else { return false };
        let own = self.targets.iter().rev().find(|(name, _)| *name == target);
        *metadata.level() <= own.map_or(self.level, |(_, level)| *level)
    }
}

fn level(text: &str) -> Result<LevelFilter, String> {
    let found = LEVELS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, level)| *level).ok_or_else(|| {
        let names: Vec<&str> = LEVELS.iter().map(|(name, _)| *name).collect();
        format!("there is no level '{text}'; there are {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_targets_are_parsed_and_the_last_counts() {
        let filter = Filter::parse("warn,request=debug, url=OFF,request=trace").unwrap();
        assert_eq!(filter.level, LevelFilter::WARN);
        assert_eq!(filter.max_level(), LevelFilter::TRACE);
        assert_eq!(Filter::parse("info").unwrap(), Filter::default());
        let error = Filter::parse("verbose").unwrap_err();
        assert_eq!(error, "there is no level 'verbose'; there are off, error, warn, info, debug, trace");
        let error = Filter::parse("info,requests=debug").unwrap_err();
        assert!(error.starts_with("there is no target 'requests'; there are command, crawl, "), "{error}");
        assert!(Filter::parse("").is_err() && Filter::parse("info,").is_err());
    }
}
