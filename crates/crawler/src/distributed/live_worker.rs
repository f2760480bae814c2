//! Lets a running worker use what is changed in its crawl: settings, and seeds, which extend the scope.

use std::sync::Arc;

use super::SharedCrawl;
use crate::backend::BackendError;
use crate::backend::redis::{CrawlState, DistributedCrawl, RemoteBackend};
use crate::pipeline::Crawler;
use crate::pipeline::live_control::LiveWorkers;

/// A worker, and what it knows of the changes.
pub(super) struct LiveWorker<'a> {
    pub(super) crawler: &'a Crawler,
    pub(super) control: Arc<DistributedCrawl>,
    pub(super) shared: &'a SharedCrawl,
    pub(super) workers: LiveWorkers<RemoteBackend>,
    /// The version of the changes that it knows.
    pub(super) version: Option<u64>,
    /// How much of the index of listed seeds it knows.
    pub(super) index_bytes: usize,
}

impl LiveWorker<'_> {
    /// Applies what was changed, unless the worker knows it.
    pub(super) async fn update(&mut self, state: &CrawlState) -> Result<(), BackendError> {
        if self.version == Some(state.live) {
            return Ok(());
        }
        let (version, settings) = self.control.live_settings().await?;
        let entries = self.control.seed_index_after(self.index_bytes).await?;
        if !entries.is_empty() {
            self.index_bytes += entries.len();
            self.workers.add_seeds(self.control.hash_key(), &entries);
        }
        match self.crawler.live_limits(&settings) {
            Ok(limits) => {
                self.workers.apply(&limits);
                self.crawler.control.set(settings);
            }
            // A process of another version has stored them.
            Err(why) => (self.shared.notice)(&format!("cannot use changed settings of the crawl: {why}")),
        }
        self.version = Some(version);
        Ok(())
    }
}
