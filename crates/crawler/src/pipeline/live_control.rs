//! Changes the crawl of this process while it runs.

use std::sync::Arc;
use std::time::Duration;

use super::local_run::LocalRun;
use super::{CrawlEnd, Crawler};
use crate::backend::durable::StateWriter;
use crate::backend::{Backend, BackendError, DiscoveredUrl};
use crate::fetch::request_gate::RequestGate;
use crate::fetch::throttle::HostThrottle;
use crate::live_settings::{ADDED_SEED_IS_BLOCKED, ControlAction, LiveLimits, added_seed, added_seed_text};
use crate::log;
use crate::scope::Scope;
use crate::seed_list::SeedIndex;
use crate::similarity::HashKey;
use crate::worker::Worker;

/// The workers of this process, and what they check requests and links against.
pub(crate) struct LiveWorkers<R> {
    workers: Vec<Arc<Worker<R>>>,
    gate: Arc<RequestGate>,
    throttle: Arc<HostThrottle>,
    /// The scope without what was changed.
    scope: Scope,
    seed_index: Option<Arc<SeedIndex>>,
}

impl<R: Backend> LiveWorkers<R> {
    /// The workers of a crawl that starts.
    pub(crate) fn new(
        crawler: &Crawler,
        workers: Vec<Arc<Worker<R>>>,
        gate: Arc<RequestGate>,
        throttle: Arc<HostThrottle>,
    ) -> LiveWorkers<R> {
        let (scope, seed_index) = (Scope::clone(&gate.scope()), crawler.config.seed_index.clone());
        LiveWorkers { workers, gate, throttle, scope, seed_index }
    }

    /// Lets the workers use these settings.
    pub(crate) fn apply(&mut self, limits: &LiveLimits) {
        self.scope = self.scope.clone().with_blocked(limits.blocked.clone());
        self.gate.set_scope(self.scope.clone());
        self.throttle.set_delays(limits.delay, limits.site_delay);
    }

    /// Adds entries to the index of listed seeds.
    pub(crate) fn add_seeds(&mut self, key: HashKey, entries: &[u8]) {
        self.seed_index = SeedIndex::with_entries(self.seed_index.as_ref(), key, entries);
        self.scope = self.scope.clone().with_seed_index(self.seed_index.clone());
        self.gate.set_scope(self.scope.clone());
        for worker in &self.workers {
            worker.set_seed_index(self.seed_index.clone());
        }
    }
}

impl<R: Backend> LocalRun<'_, R> {
    /// Waits until the crawl has run for its maximum time. Pauses do not count.
    pub(super) async fn time_up(&self, crawler: &Crawler) {
        let mut changes = crawler.control.watch();
        loop {
            let settings = changes.borrow_and_update().clone();
            let left = match settings.max_time(crawler.max_time) {
                Some(time) if !settings.is_paused => time.saturating_sub(self.monitor.elapsed()),
                _ => Duration::MAX,
            };
            if left.is_zero() {
                return;
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = tokio::time::sleep(left) => {}
            }
        }
    }

    /// Applies the actions of the crawl's control. Returns only if the backend fails.
    pub(super) async fn apply_actions(
        &self,
        crawler: &Crawler,
        mut live: LiveWorkers<R>,
    ) -> Result<CrawlEnd, BackendError> {
        let Some(mut requests) = crawler.control.start() else { return std::future::pending().await };
        while let Some(request) = requests.next().await {
            let done = self.apply_action(crawler, &mut live, &request.action).await?;
            if let Ok(done) = &done {
                log::changed(done);
            }
            request.reply(done.map(|done| match request.action.after_resume() {
                Some(sentence) if self.state.is_some() => format!("{done} {sentence}"),
                _ => done,
            }));
        }
        std::future::pending().await
    }

    async fn apply_action(
        &self,
        crawler: &Crawler,
        live: &mut LiveWorkers<R>,
        action: &ControlAction,
    ) -> Result<Result<String, String>, BackendError> {
        let Crawler { control, stop, .. } = crawler;
        if stop.is_stop_requested() {
            return Ok(Err(action.error("it is stopping; wait for its end")));
        }
        if let ControlAction::AddSeed(seed) = action {
            let added = self.add_seed(crawler, live, seed).await?;
            return Ok(added.map_err(|why| action.error(why)));
        }
        let (settings, mut done) = match control.settings().with(action) {
            Ok(changed) => changed,
            Err(error) => return Ok(Err(error)),
        };
        let limits = match crawler.live_limits(&settings) {
            Ok(limits) => limits,
            Err(why) => return Ok(Err(action.error(why))),
        };
        live.apply(&limits);
        if let ControlAction::SetMaxTime(Some(time)) = action
            && *time <= self.monitor.elapsed()
        {
            done.push_str(" It has passed, so the crawl ends.");
        }
        control.set(settings);
        self.backend.set_limits(&limits);
        if let ControlAction::Stop = action {
            stop.stop();
        } else if self.backend.exhausted_budget().await?.is_some() {
            done.push_str(" That much is used up already, so the crawl ends.");
            stop.stop();
        }
        Ok(Ok(done))
    }

    /// Admits a seed, after the scope was extended by it.
    async fn add_seed(
        &self,
        crawler: &Crawler,
        live: &mut LiveWorkers<R>,
        seed: &str,
    ) -> Result<Result<String, String>, BackendError> {
        let mut url = match added_seed(seed) {
            Ok(url) => url,
            Err(why) => return Ok(Err(why)),
        };
        crawler.config.strip_query.strip_url(&mut url);
        if live.scope.check_blocked(url.as_str()).is_err() {
            return Ok(Err(ADDED_SEED_IS_BLOCKED.into()));
        }
        let key = self.backend.hash_key();
        let entries = SeedIndex::entries(key, std::slice::from_ref(&url));
        live.add_seeds(key, &entries);
        if let Some(state) = self.state
            && let Err(error) = record_seed(state, &entries)
        {
            return Ok(Err(format!("{error:#}")));
        }
        let seeds = vec![DiscoveredUrl { url: url.to_string(), depth: 0, redirects: 0 }];
        let admitted = self.backend.admit(seeds).await?;
        Ok(Ok(added_seed_text(&url, Some(admitted))))
    }
}

/// Records a seed in a durable state, for the scope of a resumed crawl.
fn record_seed(state: &StateWriter, entries: &[u8]) -> Result<(), crate::error::Error> {
    let mut index = state.seed_index()?.unwrap_or_default();
    index.extend_from_slice(entries);
    state.record_seed_index(&index)
}
