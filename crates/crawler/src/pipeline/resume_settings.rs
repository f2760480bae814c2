//! The settings of a durable crawl that are recorded in its state, and compared when it is resumed.

use url::Url;

use super::Crawler;
use crate::backend::durable::RecordedSettings;
use crate::origin::without_credentials;
use crate::time_text::time_text;

impl Crawler {
    /// The settings under the names that messages use for them.
    pub(super) fn recorded_settings(&self) -> RecordedSettings {
        let Crawler { config, settings, .. } = self;
        let mut recorded = RecordedSettings::default();
        let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(" ");
        recorded
            .fixed("seed", list(&mut self.seeds.iter().map(|seed| without_credentials(seed).to_string())));
        for (name, value) in self.scope.recorded_settings() {
            recorded.fixed(name, value);
        }
        recorded.fixed("bounds of the scope", self.bounds());
        recorded.fixed("max-depth", self.max_depth.map_or("none".into(), |depth| depth.to_string()));
        recorded.fixed("module", list(&mut self.module_specs.iter().map(|spec| quoted(spec))));
        recorded.fixed("similarity", settings.similarity.map_or(0.0, |threshold| threshold.dice()));
        recorded.fixed("follow-duplicates", self.follow_duplicates);
        recorded.fixed("no-content", !settings.keep_content);
        recorded.fixed("ttl", time_text(settings.ttl));
        recorded.fixed("domain-ttl", time_text(settings.domain_ttl));
        recorded.fixed("queue-size", settings.queue_size);
        recorded.fixed("priority-queues", settings.priority_queues.count());
        recorded.fixed("pagerank-url", self.prioritizer.name());
        recorded.fixed("delay", time_text(config.delay));
        recorded.fixed("site-delay", time_text(config.site_delay));
        recorded.fixed("address-delay", time_text(config.address_delay));
        recorded.fixed("per-host", config.max_per_host);
        recorded.fixed("adaptive-delay", config.adaptive_delay);
        recorded.fixed("ignore-robots", !config.requests.obey_robots);
        recorded.fixed("user-agent", &config.user_agent);
        recorded.fixed("robots-token", config.product_token());
        recorded.fixed("connect-timeout", time_text(config.requests.connect_timeout));
        recorded.fixed("timeout", time_text(config.timeout));
        recorded.fixed("max-page-bytes", config.max_page_bytes);
        recorded.fixed("oversize", format!("{:?}", config.oversize).to_lowercase());
        recorded.fixed("allow-private", config.requests.allow_private);
        recorded.fixed("strip-query", config.strip_query.patterns().join(" "));
        let resolve = config.requests.dns_overrides.iter().map(|(host, address)| format!("{host}={address}"));
        recorded.fixed("resolve", list(&mut resolve.into_iter()));
        recorded.fixed("ca-file", format!("{} certificates", config.requests.trusted_certificates.len()));
        recorded.raisable("max-pages", settings.max_pages);
        recorded.raisable("max-bytes", settings.max_bytes);
        recorded.raisable("max-pages-per-host", settings.max_pages_per_host);
        recorded.raisable("max-pages-per-site", settings.max_pages_per_site);
        let time = self.max_time.map_or(u64::MAX, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        recorded.raisable("max-time (in milliseconds)", time);
        recorded
    }

    /// The bounds of the scope, sorted and without credentials.
    fn bounds(&self) -> String {
        let described = self.scope.describe();
        let mut bounds: Vec<String> = described.split(", ").map(printable_bound).collect();
        bounds.sort_unstable();
        bounds.join(", ")
    }
}

/// A URL without its credentials; anything else unchanged.
fn printable_bound(bound: &str) -> String {
    match Url::parse(bound) {
        Ok(url) if url.has_host() => without_credentials(&url).into(),
        _ => bound.to_owned(),
    }
}

/// Quotes a specification that contains spaces, so that a list of them is unambiguous.
fn quoted(spec: &str) -> String {
    if spec.contains(char::is_whitespace) { format!("{spec:?}") } else { spec.to_owned() }
}
