//! Merges the options of a crawl: those saved in its state or in Redis, and those given now.

use std::collections::{HashMap, HashSet};

use crawler::internal::origin::without_credentials;
use url::Url;

use super::crawl::{CrawlOptions, ScopeKind};
use super::distributed::DistributedArgs;
use crate::values;

/// The options that affect the outcome of pages and can differ when a crawl continues.
const REPORTED_OPTIONS: [&str; 14] = [
    "module",
    "scope",
    "include",
    "exclude",
    "accept",
    "save-include",
    "save-exclude",
    "requisites",
    "strip-query",
    "max-depth",
    "user-agent",
    "ignore-robots",
    "robots-token",
    "insecure",
];

/// The options of a process that resumes a crawl, and those that cannot change. That they differ is not reported.
const UNREPORTED_OPTIONS: [&str; 10] = [
    "seeds",
    "seed-files",
    "state",
    "overwrite",
    "progress",
    "summary",
    "report",
    "verbose",
    "quiet",
    "dead-after",
];

/// The options that select a crawl or its output but change no setting of it.
const LOCATION_OPTIONS: [&str; 4] = ["redis", "crawl", "ca-file", "quiet"];

impl CrawlOptions {
    /// The saved options of a crawl, replaced where an option is given explicitly now.
    pub fn merged_over(self, saved: CrawlOptions) -> Result<CrawlOptions, String> {
        let to_json =
            |options: &CrawlOptions| serde_json::to_value(options).map_err(|error| error.to_string());
        let (now, mut merged) = (to_json(&self)?, to_json(&saved)?);
        for name in self.explicit.iter().filter(|name| *name != "seeds") {
            if let Some(value) = now.get(name) {
                merged[name] = value.clone();
            }
        }
        let mut merged: CrawlOptions = serde_json::from_value(merged).map_err(|error| error.to_string())?;
        merged.fetch.login = self.fetch.login;
        merged.fetch.proxy = self.fetch.proxy;
        merged.dashboard = self.dashboard;
        let distributed = DistributedArgs {
            redis: self.distributed.redis.clone(),
            crawl: self.distributed.crawl.clone(),
            ..merged.distributed.clone()
        };
        // What is never saved is as given now.
        let merged = CrawlOptions { seeds: self.seeds, distributed, explicit: self.explicit, ..merged };
        Ok(merged.with_seeds_of(Some(&saved)))
    }

    /// The options for logins that an earlier process of the crawl had, and this one has not.
    pub fn missing_logins(&self) -> Vec<String> {
        let given = self.fetch.login.names();
        self.forgotten_logins.iter().filter(|name| !given.contains(name)).cloned().collect()
    }

    /// Adds the seeds of the saved options, which come first, and what is known of its logins and its proxy. The user name and
    /// password of a seed are those given now.
    pub fn with_seeds_of(self, saved: Option<&CrawlOptions>) -> CrawlOptions {
        let mut seeds = saved.map_or_else(Vec::new, |saved| saved.seeds.clone());
        let mut positions: HashMap<String, usize> =
            seeds.iter().enumerate().map(|(position, seed)| (normal(seed), position)).collect();
        for seed in self.seeds {
            match positions.get(&normal(&seed)) {
                Some(known) if has_credentials(&seed) => seeds[*known] = seed,
                Some(_) => {}
                None => {
                    positions.insert(normal(&seed), seeds.len());
                    seeds.push(seed);
                }
            }
        }
        let forgotten_logins = saved.map_or_else(Vec::new, |saved| saved.forgotten_logins.clone());
        let forgotten_proxy = saved.is_some_and(|saved| saved.forgotten_proxy);
        CrawlOptions { seeds, forgotten_logins, forgotten_proxy, ..self }
    }

    /// Of these hosts, those for which no seed has a user name and password.
    pub fn without_credentials_for(&self, mut hosts: Vec<String>) -> Vec<String> {
        let urls =
            self.seeds.iter().filter(|seed| has_credentials(seed)).filter_map(|seed| Url::parse(seed).ok());
        let known: HashSet<String> = urls.filter_map(|url| url.host_str().map(str::to_owned)).collect();
        hosts.retain(|host| !known.contains(host));
        hosts
    }

    /// Checks that the seeds given now are seeds of the crawl that has the saved options.
    pub fn check_seeds_of(&self, saved: &CrawlOptions) -> Result<(), String> {
        let known: HashSet<String> = saved.seeds.iter().map(|seed| normal(seed)).collect();
        let Some(other) = self.seeds.iter().map(|seed| normal(seed)).find(|seed| !known.contains(seed))
        else {
            return Ok(());
        };
        let (name, first) =
            (&self.distributed.crawl, saved.seeds.first().map(|seed| normal(seed)).unwrap_or_default());
        Err(format!(
            "cannot continue the crawl '{name}': its seed is {first}, and {other} is none of its seeds; to add it, use \
             'crawler submit'; for a new crawl, choose another name (--crawl NAME) or delete this crawl ('crawler purge')"
        ))
    }

    /// The options that affect the outcome of pages and differ from `other`.
    pub fn differs_from(&self, other: &CrawlOptions) -> Vec<String> {
        self.differences_from(other, |name| REPORTED_OPTIONS.contains(&name))
    }

    /// The options of a crawl with a state that differ from those it had.
    pub fn changes_from(&self, before: &CrawlOptions) -> Vec<String> {
        self.differences_from(before, |name| !UNREPORTED_OPTIONS.contains(&name))
    }

    fn differences_from(&self, other: &CrawlOptions, is_reported: impl Fn(&str) -> bool) -> Vec<String> {
        let to_json = |options: &CrawlOptions| serde_json::to_value(options).unwrap_or_default();
        let (ours, theirs) = (to_json(self), to_json(other));
        let names = ours.as_object().into_iter().flat_map(|options| options.keys());
        names
            .filter(|name| is_reported(name) && ours[name] != theirs[name])
            .map(|name| format!("--{name}"))
            .collect()
    }

    /// Whether `more` changes no setting and only adds seeds on servers of these seeds. The processes of the crawl then
    /// need not restart with new options.
    pub fn covers(&self, more: &CrawlOptions) -> bool {
        let origin = |seed: &String| match Url::parse(seed) {
            Ok(url) if url.username().is_empty() && url.password().is_none() => Some(url.origin()),
            _ => None,
        };
        let own_origins: HashSet<_> = self.seeds.iter().filter_map(origin).collect();
        let is_own = |seed: &String| origin(seed).is_some_and(|origin| own_origins.contains(&origin));
        let is_location = |name: &String| LOCATION_OPTIONS.contains(&name.as_str());
        self.scope != ScopeKind::Prefix
            && more.seeds.iter().all(is_own)
            && more.explicit.iter().all(is_location)
    }
}

/// A seed as it is admitted, or as it is if it is no URL.
fn normal(seed: &str) -> String {
    values::seed(seed).map_or_else(|_| seed.to_owned(), |url| without_credentials(&url).into())
}

/// Whether a seed has a user name or a password.
pub fn has_credentials(seed: &str) -> bool {
    Url::parse(seed).is_ok_and(|url| !url.username().is_empty() || url.password().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::testing;

    fn parse(arguments: &str, explicit: &[&str]) -> CrawlOptions {
        let explicit = explicit.iter().map(|name| name.to_string()).collect();
        CrawlOptions { explicit, ..testing::parse(arguments) }
    }

    #[test]
    fn explicit_options_override_saved_ones_and_seeds_are_added() {
        let saved = parse("http://a.test/ --delay 2s --max-pages 5 --module words", &[]);
        let now = parse(
            "http://a.test/ http://b.test/ --max-pages 9 --redis redis://r/ --crawl news",
            &["max-pages"],
        );
        let merged = now.merged_over(saved.clone()).unwrap();
        assert_eq!(merged.seeds, ["http://a.test/", "http://b.test/"]);
        assert_eq!((merged.max_pages, &merged.module), (9, &saved.module));
        assert_eq!(merged.fetch.delay, saved.fetch.delay);
        assert_eq!(
            (merged.distributed.redis.as_deref(), merged.distributed.crawl.as_str()),
            (Some("redis://r/"), "news")
        );
    }

    #[test]
    fn credentials_given_now_replace_those_of_a_saved_seed() {
        let saved = parse("http://a.test http://b.test/", &[]);
        let now =
            parse("http://c.test/ http://me:secret@A.test/ http://b.test", &[]).with_seeds_of(Some(&saved));
        assert_eq!(now.seeds, ["http://me:secret@A.test/", "http://b.test/", "http://c.test/"]);
        assert_eq!(now.without_credentials_for(vec!["a.test".into(), "b.test".into()]), ["b.test"]);
    }

    #[test]
    fn crawl_continues_only_with_its_own_seeds() {
        let saved = parse("http://me:secret@a.test http://b.test/", &[]);
        assert_eq!(parse("http://b.test http://A.test/", &[]).check_seeds_of(&saved), Ok(()));
        let error =
            parse("http://b.test/ http://you:secret@c.test/", &[]).check_seeds_of(&saved).unwrap_err();
        assert!(error.contains("its seed is http://a.test/, and http://c.test/ is none"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn changed_settings_are_named() {
        let before = parse("http://a.test/ --module words", &[]);
        assert_eq!(
            parse("http://b.test/ --module words --workers 7", &[]).differs_from(&before),
            Vec::<String>::new()
        );
        let other = parse("http://a.test/ --scope host --max-depth 3", &[]);
        assert_eq!(other.differs_from(&before), ["--max-depth", "--module", "--scope"]);
        let other = parse("http://b.test/ --module words --workers 7 --delay 3 --summary s -v", &[]);
        assert_eq!(other.changes_from(&before), ["--delay", "--workers"]);
    }

    #[test]
    fn more_seeds_on_the_same_servers_are_covered() {
        let saved = parse("http://a.test/ --scope host", &[]);
        assert!(saved.covers(&parse("http://a.test/more", &["redis", "crawl"])));
        for (more, explicit) in [
            ("http://b.test/", &["redis"][..]),
            ("https://a.test/", &[]),
            ("http://me:secret@a.test/", &[]),
            ("http://a.test/ --max-pages 9", &["max-pages"]),
        ] {
            assert!(!saved.covers(&parse(more, explicit)), "{more}");
        }
        assert!(!parse("http://a.test/x/ --scope prefix", &[]).covers(&parse("http://a.test/y/", &[])));
    }
}
