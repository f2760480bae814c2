//! Checks the settings of a crawl, and sets those that follow from others.

use super::{Crawler, SILENT_PER_REQUEST};
use crate::backend::local::BackendConfig;
use crate::config;
use crate::crawl_view::Limits;
use crate::error::Error;
use crate::live_settings::{LiveLimits, LiveSettings};
use crate::origin::without_credentials;
use crate::scope::{KindRule, Scope};
use crate::seed_list::{SeedIndex, SpooledSeeds};
use crate::similarity::HashKey;
use crate::task_kind::TaskKind;
use crate::visit::RevisitAfter;

/// By default, this many hosts of a site can be fetched from without slowing each other down.
const HOSTS_AT_FULL_SPEED: u32 = 4;

impl Crawler {
    /// The limits with which the crawl starts.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            max_pages: self.settings.max_pages,
            max_bytes: self.settings.max_bytes,
            max_time: self.max_time,
            max_depth: self.max_depth,
            delay: self.config.delay,
        }
    }

    /// Fails if a setting that must not be 0 is 0.
    pub(super) fn check_settings(&self) -> Result<(), Error> {
        let Crawler { settings, config, .. } = self;
        config::check_not_zero(&[
            ("max_pages", settings.max_pages == 0),
            ("max_pages_per_host", settings.max_pages_per_host == 0),
            ("max_pages_per_site", settings.max_pages_per_site == 0),
            ("max_host_failures", settings.hosts.max_failures == 0),
            ("max_bytes", settings.max_bytes == 0),
            ("max_time", self.max_time.is_some_and(|time| time.is_zero())),
            ("workers", settings.workers == 0),
            ("queue_size", settings.queue_size == 0),
            ("ttl", settings.ttl.is_zero()),
        ])?;
        config.check()
    }

    /// Reads all seeds, those of lists to their end, with the key of the crawl's URL IDs.
    pub(crate) fn read_seeds(&mut self, key: HashKey) -> Result<SpooledSeeds, Error> {
        let seeds = self.seeds.iter().map(|seed| without_credentials(seed).into());
        let sitemaps =
            self.sitemaps.iter().filter(|_| self.follows_links()).map(|url| TaskKind::Sitemap.task_url(url));
        let first = seeds.chain(sitemaps).collect();
        let list = self.seed_list.take();
        SpooledSeeds::read(first, list, &self.scope, &self.config.strip_query, key, &self.stop)
    }

    /// Extends the scope and the trusted origins by those of listed seeds.
    pub(crate) fn use_seed_index(&mut self, key: HashKey, index: &[u8]) {
        let index = SeedIndex::from_bytes(key, index);
        self.config.seed_index.clone_from(&index);
        self.scope = self.scope.clone().with_seed_index(index);
    }

    /// The scope with the rules for tasks that are no pages: what the settings and the outputs have no use for is left out, though a
    /// crawl with others may have admitted it.
    pub(crate) fn scope_of_tasks(&self, keeps_requisites: bool, checks_links: bool) -> Scope {
        let requests = &self.config.requests;
        let kinds = [
            (TaskKind::Sitemap, requests.robots_sitemaps || !self.sitemaps.is_empty()),
            (TaskKind::Requisite, keeps_requisites),
            (TaskKind::Probe, checks_links),
        ];
        let unused = kinds.into_iter().filter(|(_, is_used)| !is_used).map(|(kind, _)| kind).collect();
        let rule = KindRule { unused, own_requisites_only: !requests.requisites };
        self.scope.clone().rejecting_private(&self.config, &self.seeds).with_kind_rule(rule)
    }

    /// The limits of the crawl with what was changed since it started. An error if that cannot be used.
    pub(crate) fn live_limits(&self, live: &LiveSettings) -> Result<LiveLimits, String> {
        let BackendConfig { max_pages, max_bytes, hosts, .. } = &self.settings;
        let (delay, site_delay) = match live.delay {
            Some(delay) => (delay, self.site_delay.unwrap_or(delay / HOSTS_AT_FULL_SPEED)),
            None => (hosts.delay, hosts.site_delay),
        };
        Ok(LiveLimits {
            is_paused: live.is_paused,
            max_pages: live.max_pages.unwrap_or(*max_pages),
            max_bytes: live.max_bytes.unwrap_or(*max_bytes),
            delay,
            site_delay,
            blocked: live.blocked()?,
        })
    }

    /// Whether links of seeds are followed. Otherwise sitemaps are not read.
    pub(crate) fn follows_links(&self) -> bool {
        self.max_depth != Some(0)
    }

    /// Sets what follows from other settings.
    pub(crate) fn derive_settings(&mut self) {
        self.settings.keep_depths = self.max_depth.is_some();
        self.settings.keep_discovery = self.modules.iter().any(|module| module.wants_found_on())
            || self.outputs.iter().any(|spec| spec.output.wants_found_on());
        self.settings.max_page_bytes = self.config.max_page_bytes as u64;
        self.config.site_delay = self.site_delay.unwrap_or(self.config.delay / HOSTS_AT_FULL_SPEED);
        self.settings.hosts.site_delay = self.config.site_delay;
        self.settings.hosts.delay = self.config.delay;
        // The next page of a host is fetched while the last one waits for it.
        let waiting_pages = usize::from(self.modules.iter().any(|module| module.waits_for_next_page()));
        self.settings.hosts.max_leases = self.config.max_per_host.max(1) + waiting_pages;
        let visits = &mut self.settings.visits;
        visits.are_kept |= visits.revisit_after.is_some();
        let revisit_after = visits.revisit_after.or(self.recrawl.and_then(|recrawl| recrawl.revisit_after));
        visits.lastmod_makes_due = revisit_after == Some(RevisitAfter::Auto);
        self.config.max_silent = self.config.max_silent.min(SILENT_PER_REQUEST * self.config.concurrency);
        self.settings.strip_query = self.config.strip_query.clone();
        for seed in &mut self.seeds {
            self.config.strip_query.strip_url(seed);
        }
        self.scope.strip_query(&self.config.strip_query);
        for spec in &mut self.outputs {
            spec.output.set_strip_query(&self.config.strip_query);
            spec.output.set_fetch_config(&self.config);
        }
    }
}
