//! The settings of a durable crawl that cannot change when it is resumed.
//!
//! All others can: nothing of them is stored in a form that depends on their value. They apply to everything that is
//! pending, and to the links that are found from then on.

use super::Crawler;
use crate::backend::durable::RecordedSettings;

impl Crawler {
    /// The settings under the names that messages use for them.
    pub(super) fn recorded_settings(&self) -> RecordedSettings {
        let Crawler { config, settings, max_depth, .. } = self;
        let mut recorded = RecordedSettings::default();
        recorded.fixed(
            "strip-query",
            config.strip_query.patterns().join(" "),
            "it decides which URLs are the same, and the URLs found so far were compared with it",
        );
        recorded.fixed(
            "max-depth",
            max_depth.map_or("none".into(), |depth| depth.to_string()),
            "it decided which links of the pages crawled so far were followed, and which depths were stored",
        );
        recorded.fixed(
            "similarity",
            settings.similarity.map_or(0.0, |threshold| threshold.dice()),
            "the fingerprints of the pages crawled so far were computed for it",
        );
        recorded.fixed(
            "seeds",
            &self.seed_list_name,
            "the list was read when the crawl started; add URLs to the crawl instead",
        );
        let listed = if self.seed_list.is_some() { self.scope.kind() } else { "" };
        recorded.fixed(
            "scope",
            listed,
            "the hosts, domains or URL prefixes of the seed list were recorded for it",
        );
        recorded
    }
}
