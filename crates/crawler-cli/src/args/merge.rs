//! What a crawl on Redis was told before, and what is told now: which of both holds, and what differs.

use std::collections::HashSet;

use url::Url;

use super::crawl::{Bounds, CrawlOptions};
use super::distributed::DistributedArgs;

/// The options that matter to what becomes of pages, and may be otherwise when a crawl goes on.
const TOLD_OF: [&str; 7] =
    ["module", "scope", "include", "exclude", "max-depth", "user-agent", "ignore-robots"];

/// The options that say nothing about a crawl but where it is.
const OF_THE_PLACE: [&str; 4] = ["redis", "crawl", "ca-file", "quiet"];

impl CrawlOptions {
    /// What a crawl was told when it was begun, with what is told otherwise now.
    pub fn over(self, begun: CrawlOptions) -> Result<CrawlOptions, String> {
        let written =
            |options: &CrawlOptions| serde_json::to_value(options).map_err(|error| error.to_string());
        let (now, mut merged) = (written(&self)?, written(&begun)?);
        for name in self.given.iter().filter(|name| *name != "seeds") {
            if let Some(value) = now.get(name) {
                merged[name] = value.clone();
            }
        }
        let merged: CrawlOptions = serde_json::from_value(merged).map_err(|error| error.to_string())?;
        let sharing = DistributedArgs {
            redis: self.sharing.redis.clone(),
            crawl: self.sharing.crawl.clone(),
            ..merged.sharing.clone()
        };
        let merged = CrawlOptions { seeds: self.seeds, sharing, given: self.given, ..merged };
        Ok(merged.with_seeds_of(Some(&begun)))
    }

    /// The same, with the seeds that another was begun with, which come first.
    pub fn with_seeds_of(self, begun: Option<&CrawlOptions>) -> CrawlOptions {
        let mut seeds = begun.map_or_else(Vec::new, |begun| begun.seeds.clone());
        let known: HashSet<String> = seeds.iter().cloned().collect();
        seeds.extend(self.seeds.into_iter().filter(|seed| !known.contains(seed)));
        CrawlOptions { seeds, ..self }
    }

    /// The options that are otherwise than another's and matter to what becomes of pages.
    pub fn differs_from(&self, other: &CrawlOptions) -> Vec<String> {
        let written = |options: &CrawlOptions| serde_json::to_value(options).unwrap_or_default();
        let (ours, theirs) = (written(self), written(other));
        TOLD_OF
            .into_iter()
            .filter(|name| ours[name] != theirs[name])
            .map(|name| format!("--{name}"))
            .collect()
    }

    /// Whether those who work on a crawl with these options need not know of more seeds: they lead nowhere new.
    pub fn covers(&self, more: &CrawlOptions) -> bool {
        let origin = |seed: &String| match Url::parse(seed) {
            Ok(url) if url.username().is_empty() && url.password().is_none() => Some(url.origin()),
            _ => None,
        };
        let known: HashSet<_> = self.seeds.iter().filter_map(origin).collect();
        let is_known = |seed: &String| origin(seed).is_some_and(|origin| known.contains(&origin));
        let tells_nothing = |name: &String| OF_THE_PLACE.contains(&name.as_str());
        self.scope != Bounds::Prefix
            && more.seeds.iter().all(is_known)
            && more.given.iter().all(tells_nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        options: CrawlOptions,
    }

    fn told(arguments: &str, given: &[&str]) -> CrawlOptions {
        let arguments = std::iter::once("crawl").chain(arguments.split_whitespace());
        let Alone { options } = Alone::try_parse_from(arguments).map_err(|error| error.to_string()).unwrap();
        CrawlOptions { given: given.iter().map(|name| name.to_string()).collect(), ..options }
    }

    #[test]
    fn what_is_given_wins_what_is_not_stays_and_seeds_are_joined() {
        let begun = told("http://a.test/ --delay 2s --max-pages 5 --module words", &[]);
        let now = told(
            "http://a.test/ http://b.test/ --max-pages 9 --redis redis://r/ --crawl news",
            &["max-pages"],
        );
        let merged = now.over(begun.clone()).unwrap();
        assert_eq!(merged.seeds, ["http://a.test/", "http://b.test/"]);
        assert_eq!((merged.max_pages, &merged.module), (9, &begun.module));
        assert_eq!(merged.fetch.delay, begun.fetch.delay);
        assert_eq!(
            (merged.sharing.redis.as_deref(), merged.sharing.crawl.as_str()),
            (Some("redis://r/"), "news")
        );
    }

    #[test]
    fn what_differs_and_matters_is_named() {
        let before = told("http://a.test/ --module words", &[]);
        assert_eq!(
            told("http://b.test/ --module words --workers 7", &[]).differs_from(&before),
            Vec::<String>::new()
        );
        let other = told("http://a.test/ --scope host --max-depth 3", &[]);
        assert_eq!(other.differs_from(&before), ["--module", "--scope", "--max-depth"]);
    }

    #[test]
    fn more_seeds_of_known_servers_change_nothing_for_those_at_work() {
        let begun = told("http://a.test/ --scope host", &[]);
        assert!(begun.covers(&told("http://a.test/more", &["redis", "crawl"])));
        for (more, given) in [
            ("http://b.test/", &["redis"][..]),
            ("https://a.test/", &[]),
            ("http://me:secret@a.test/", &[]),
            ("http://a.test/ --max-pages 9", &["max-pages"]),
        ] {
            assert!(!begun.covers(&told(more, given)), "{more}");
        }
        assert!(!told("http://a.test/x/ --scope prefix", &[]).covers(&told("http://a.test/y/", &[])));
    }
}
