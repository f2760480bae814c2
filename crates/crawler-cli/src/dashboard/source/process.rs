//! A crawl of this process. It reports once per second; the dashboard reads the last report.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crawler::internal::crawl_view::{CrawlPhase, CrawlView};
use crawler::internal::fetch::proxy_health::ProxyHealth;
use crawler::internal::html::normal_form::normalize;
use crawler::internal::live_settings::CrawlControl;
use crawler::internal::origin::without_credentials;
use url::Url;

use super::super::health::{STUCK_AFTER, WAITING};
use super::super::view::{Mode, View};
use super::{Health, blocked};
use crate::args::CrawlOptions;
use crate::commands::inspect::{self, IN_MEMORY};
use crate::live::disk_space::DiskSpace;

/// Where the pages of a classic crawl are.
pub(super) const PAGES_ARE_FILES: &str = "the pages of a classic crawl are files in its page directory";

/// Why nothing is known of a URL of a classic crawl.
const IN_CLASSIC_CRAWL: &str =
    "a classic crawl records only its latest URLs; use crawler crawl with --state DIR to ask about all";

/// A crawl of this process. Clones share it.
#[derive(Clone)]
pub struct ProcessSource(Arc<Shared>);

struct Shared {
    name: String,
    mode: Mode,
    is_worker: bool,
    control: Option<CrawlControl>,
    proxy_health: ProxyHealth,
    disk_space: DiskSpace,
    /// The options of a pipeline.
    options: Option<CrawlOptions>,
    latest: Mutex<Option<(Instant, CrawlView)>>,
}

impl ProcessSource {
    /// A crawl that will report, and cannot be changed; or one worker of a distributed crawl.
    pub fn new(
        name: String,
        mode: Mode,
        is_worker: bool,
        proxy_health: ProxyHealth,
        disk_space: DiskSpace,
    ) -> ProcessSource {
        let (control, options, latest) = (None, None, Mutex::default());
        ProcessSource(Arc::new(Shared {
            name,
            mode,
            is_worker,
            control,
            proxy_health,
            disk_space,
            options,
            latest,
        }))
    }

    /// A pipeline with these options, which the dashboard can change.
    pub fn pipeline(
        options: &CrawlOptions,
        control: CrawlControl,
        proxy_health: ProxyHealth,
        disk_space: DiskSpace,
    ) -> ProcessSource {
        let mut name = options.seeds.first().map(|seed| short_name(seed)).unwrap_or_default();
        if options.seeds.len() > 1 {
            name += &format!(" and {} more", options.seeds.len() - 1);
        }
        if name.is_empty() {
            name = options.sources.seed_files.first().cloned().unwrap_or_default();
        }
        ProcessSource(Arc::new(Shared {
            name,
            mode: Mode::Pipeline,
            is_worker: false,
            control: Some(control),
            proxy_health,
            disk_space,
            options: Some(options.clone()),
            latest: Mutex::default(),
        }))
    }

    /// The health of the proxies that the crawl uses.
    pub fn proxy_health(&self) -> ProxyHealth {
        self.0.proxy_health.clone()
    }

    /// Takes a report of the crawl, and checks the file systems to which it writes. Returns and logs the new warnings about them.
    pub fn update(&self, view: &CrawlView) -> Vec<String> {
        *self.latest() = Some((Instant::now(), view.clone()));
        self.0.disk_space.check()
    }

    /// The process has joined a crawl that writes these files and directories.
    pub fn writes_to(&self, paths: Vec<PathBuf>) {
        self.0.disk_space.watch(paths);
    }

    /// The process has left its crawl, and waits for the next one. A crawl that has ended is still shown.
    pub fn left_crawl(&self) {
        self.latest().take_if(|(_, view)| !matches!(view.phase, CrawlPhase::Ended(_)));
    }

    /// Redis has no such crawl any more.
    pub fn forget_crawl(&self) {
        *self.latest() = None;
    }

    /// Whether it is a crawl in classic mode.
    pub(super) fn is_classic(&self) -> bool {
        self.0.mode == Mode::Classic
    }

    /// Whether it is a process of a distributed crawl, which can be without a crawl.
    fn is_role(&self) -> bool {
        self.0.mode == Mode::Redis
    }

    pub(super) fn view(&self) -> View {
        let starting = View::starting(&self.0.name, self.0.mode);
        let can_resume = starting.can_resume || self.state_directory().is_some();
        let mut view = View { is_worker: self.0.is_worker, can_resume, ..starting };
        match &*self.latest() {
            Some((_, crawl)) => view.crawl = crawl.clone(),
            None => view.is_waiting = self.is_role(),
        }
        if let Some(control) = &self.0.control {
            view.can_act = !matches!(view.crawl.phase, CrawlPhase::Ended(_));
            view.blocked = blocked(control.settings());
        }
        if !view.is_waiting {
            view.add_disk_space(&self.0.disk_space);
        }
        view.warnings.extend(self.0.proxy_health.outage().map(|outage| outage.to_string()));
        view
    }

    pub(super) fn liveness(&self, stuck_after: Duration) -> Health {
        match &*self.latest() {
            // A crawl that stops completes its requests and outputs, which may take long, and must not be interrupted.
            Some((at, CrawlView { phase: CrawlPhase::Running | CrawlPhase::Paused, .. }))
                if at.elapsed() > stuck_after =>
            {
                Health::Bad(format!("no progress for {} s", at.elapsed().as_secs()))
            }
            _ => Health::Good,
        }
    }

    pub(super) fn readiness(&self) -> Health {
        match self.0.proxy_health.outage() {
            _ if self.latest().is_none() && self.is_role() => Health::Bad(WAITING.into()),
            _ if self.latest().is_none() => Health::Bad("starting".into()),
            Some(_) => Health::Bad("the proxy fails".into()),
            None => self.liveness(STUCK_AFTER),
        }
    }

    pub(super) fn control(&self) -> Option<CrawlControl> {
        self.0.control.clone()
    }

    pub(super) fn state_directory(&self) -> Option<PathBuf> {
        self.0.options.as_ref()?.state.clone()
    }

    /// What is known of a URL without a state: the outcome of one of the latest URLs, or that links to it are rejected.
    pub(super) fn why(&self, url: &Url) -> String {
        let mut normal = url.clone();
        // A URL without a normal form is not crawled.
        let _ = normalize(&mut normal);
        let latest = self.latest();
        let all = latest.iter().flat_map(|(_, view)| view.statistics.latest.iter().rev());
        let found = all.into_iter().find(|latest| latest.url == normal.as_str());
        match (found, &self.0.options) {
            (Some(found), _) => {
                let status = found.status.map(|status| format!("  status: {status}\n")).unwrap_or_default();
                let outcome = format!("  outcome: {}\n{status}  depth: {}\n", found.outcome, found.depth);
                let reason = if self.is_classic() { IN_CLASSIC_CRAWL } else { IN_MEMORY };
                format!("{normal}\n{outcome}  no more is known: {reason}\n")
            }
            (None, Some(options)) => inspect::why_without_state(url, options),
            (None, None) => {
                let name = without_credentials(url);
                format!("{name}\n  outcome: not known, because {IN_CLASSIC_CRAWL}\n")
            }
        }
    }

    fn latest(&self) -> MutexGuard<'_, Option<(Instant, CrawlView)>> {
        self.0.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The host of a seed, with the path unless it is the root. Never with a password.
pub fn short_name(seed: &str) -> String {
    let Ok(url) = Url::parse(seed) else { return seed.to_owned() };
    let path = if url.path() == "/" { "" } else { url.path() };
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}{port}{path}", url.host_str().unwrap_or_default())
}
