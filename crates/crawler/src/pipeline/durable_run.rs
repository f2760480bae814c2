//! Runs a crawl whose state is on disk.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::local_run::LocalRun;
use super::{CrawlReport, Crawler};
use crate::backend::durable::{
    self, OpenState, PriorState, ResumedScope, StateOptions, StateServer, StateWriter,
};
use crate::crawl_view::CrawlMonitor;
use crate::error::Error;
use crate::log;
use crate::scope::PendingRule;
use crate::task_kind::TaskKind;

impl Crawler {
    /// Opens the state, restores the outputs to its last commit, and resumes or starts the crawl.
    pub(super) fn run_durably(mut self, directory: &Path) -> Result<CrawlReport, Error> {
        let options = StateOptions {
            config: self.settings.clone(),
            delay: self.config.longest_delay(),
            recorded_settings: self.recorded_settings(),
            metadata: std::mem::take(&mut self.metadata),
            retry_failed: self.retry_failed,
        };
        let scope = self.scope.clone().rejecting_private(&self.config, &self.seeds);
        let scope = scope.with_pending_rule(self.pending_rule());
        let on_outcome = Arc::clone(&self.on_outcome);
        let scope = ResumedScope { scope: &scope, on_outcome: &*on_outcome };
        let opened =
            durable::open_in_scope(directory, options, &scope, |outputs| self.open_durable_outputs(outputs));
        let (OpenState { backend, writer: state, prior, retried, statistics }, pages) = opened?;
        let elapsed = match prior {
            PriorState::Empty => Duration::ZERO,
            PriorState::Existing { elapsed } => elapsed,
        };
        let monitor = Arc::new(CrawlMonitor::new(elapsed, statistics, self.limits()));
        monitor.recorders.adopt(state.recorder.clone());
        let server = self.serve(&state, &monitor);
        let run = LocalRun { backend: Arc::new(backend), pages, monitor, retried, state: Some(&state) };
        let report = run.run(self);
        drop(server);
        if report.is_err() {
            state.remove_if_unused();
        }
        match (report, state.close()) {
            (Ok(_), Err(error)) => Err(error),
            (report, _) => report,
        }
    }

    /// Which tasks of a resumed crawl are left out, because its settings and outputs have no use for them any more.
    fn pending_rule(&self) -> PendingRule {
        let (requests, outputs) = (&self.config.requests, &self.outputs);
        let kinds = [
            (TaskKind::Sitemap, requests.robots_sitemaps || !self.sitemaps.is_empty()),
            (TaskKind::Requisite, outputs.iter().any(|spec| spec.output.keeps_requisites())),
            (TaskKind::Probe, outputs.iter().any(|spec| spec.output.checks_links())),
        ];
        let unused = kinds.into_iter().filter(|(_, is_used)| !is_used).map(|(kind, _)| kind).collect();
        PendingRule { unused, own_requisites_only: !requests.requisites }
    }

    /// Answers other processes that read the state. The crawl does not depend on it.
    fn serve(&mut self, state: &StateWriter, monitor: &Arc<CrawlMonitor>) -> Option<StateServer> {
        match state.serve(Arc::clone(monitor)) {
            Ok(server) => {
                let on_progress = std::mem::replace(&mut self.on_progress, Box::new(|_| {}));
                self.on_progress = Box::new(server.observe(on_progress));
                Some(server)
            }
            Err(error) => {
                let notice = "cannot answer other processes that read the state while the crawl runs";
                log::warned(&*self.on_notice, &format!("{notice}: {error}"));
                None
            }
        }
    }
}
