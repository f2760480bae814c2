//! The terms of a durable crawl: what it is told, by the names of the command's options.

use url::Url;

use super::Crawler;
use crate::backend::durable::RecordedSettings;
use crate::origin::without_credentials;

impl Crawler {
    /// What a durable crawl is begun with, by the names of the command's options.
    pub(super) fn terms(&self) -> RecordedSettings {
        let Crawler { config, settings, .. } = self;
        let mut terms = RecordedSettings::default();
        let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(" ");
        terms.fixed("seed", list(&mut self.seeds.iter().map(|seed| without_credentials(seed).to_string())));
        for (name, value) in self.scope.terms() {
            terms.fixed(name, value);
        }
        terms.fixed("the bounds of the scope", self.bounds());
        terms.fixed("--max-depth", self.max_depth.map_or("none".into(), |depth| depth.to_string()));
        terms.fixed("--module", list(&mut self.given.iter().map(|spec| quoted(spec))));
        terms.fixed("--similarity", settings.similarity.map_or(0.0, |threshold| threshold.dice()));
        terms.fixed("--no-content", !settings.keep_content);
        terms.fixed("--ttl", format!("{:?}", settings.ttl));
        terms.fixed("--domain-ttl", format!("{:?}", settings.domain_ttl));
        terms.fixed("--queue-size", settings.queue_size);
        terms.fixed("--priority-queues", settings.priority_queues.count());
        terms.fixed("--pagerank-url", self.prioritize.name());
        terms.fixed("--delay", format!("{:?}", config.delay));
        terms.fixed("--per-host", config.max_per_host);
        terms.fixed("adapting to slow hosts", config.adaptive_delay);
        terms.fixed("--ignore-robots", !config.obey_robots);
        terms.fixed("--user-agent", &config.user_agent);
        terms.fixed("--connect-timeout", format!("{:?}", config.connect_timeout));
        terms.fixed("--timeout", format!("{:?}", config.timeout));
        terms.fixed("--max-page-bytes", config.max_page_bytes);
        terms.fixed("--allow-private", config.allow_private);
        let resolve =
            config.dns_overrides.iter().map(|resolve| format!("{}={}", resolve.host, resolve.address));
        terms.fixed("--resolve", list(&mut resolve.into_iter()));
        terms.fixed("--ca-file", format!("{} certificates", config.extra_roots.len()));
        terms.raisable("--max-pages", settings.max_pages);
        terms.raisable("--max-bytes", settings.max_bytes);
        terms.raisable("--max-pages-per-host", settings.max_pages_per_host);
        let time = self.max_time.map_or(u64::MAX, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        terms.raisable("--max-time (in milliseconds)", time);
        terms
    }

    /// Where the scope is bounded, always in the same order and without credentials.
    fn bounds(&self) -> String {
        let described = self.scope.describe();
        let mut bounds: Vec<String> = described.split(", ").map(known).collect();
        bounds.sort_unstable();
        bounds.join(", ")
    }
}

/// A URL without its credentials; anything else as it is.
fn known(bound: &str) -> String {
    match Url::parse(bound) {
        Ok(url) if url.has_host() => without_credentials(&url).into(),
        _ => bound.to_owned(),
    }
}

/// What has spaces in it stands apart from what is before and after it.
fn quoted(spec: &str) -> String {
    if spec.contains(char::is_whitespace) { format!("{spec:?}") } else { spec.to_owned() }
}
