//! Runs a crawl whose state is on disk.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::local_run::LocalRun;
use super::{CrawlReport, Crawler};
use crate::backend::durable::{
    self, OpenState, PriorState, ResumedScope, StateOptions, StateServer, StateWriter,
};
use crate::crawl_view::CrawlMonitor;
use crate::error::Error;
use crate::log;

impl Crawler {
    /// Opens the state, restores the outputs to its last commit, and resumes or starts the crawl.
    pub(super) fn run_durably(mut self, directory: &Path) -> Result<CrawlReport, Error> {
        self.settings.visits.are_kept = true;
        let options = StateOptions {
            config: self.settings.clone(),
            delay: self.config.longest_delay(),
            recorded_settings: self.recorded_settings(),
            metadata: std::mem::take(&mut self.metadata),
            retry_failed: self.retry_failed,
            recrawl: self.recrawl,
            clock_interval: durable::CLOCK_INTERVAL,
        };
        let outputs = || self.outputs.iter().map(|spec| &spec.output);
        let keeps_requisites = outputs().any(|output| output.keeps_requisites());
        let checks_links = outputs().any(|output| output.checks_links());
        let scope = self.scope_of_tasks(keeps_requisites, checks_links);
        let on_outcome = Arc::clone(&self.on_outcome);
        let scope = ResumedScope { scope: &scope, on_outcome: &*on_outcome };
        let opened =
            durable::open_in_scope(directory, options, &scope, |outputs| self.open_durable_outputs(outputs));
        let (OpenState { backend, writer: state, prior, retried, statistics }, pages) = opened?;
        let elapsed = match prior {
            PriorState::Empty => Duration::ZERO,
            PriorState::Existing { elapsed } => elapsed,
        };
        let monitor = Arc::new(
            CrawlMonitor::new(elapsed, statistics, self.limits()).with_control(self.control.clone()),
        );
        monitor.recorders.adopt(state.recorder.clone());
        let server = self.serve(&state, &monitor);
        let run = LocalRun {
            backend: Arc::new(backend),
            pages,
            monitor,
            retried,
            state: Some(&state),
            last_snapshot: Mutex::default(),
        };
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

    /// Answers other processes that read the state. The crawl does not depend on it.
    fn serve(&mut self, state: &StateWriter, monitor: &Arc<CrawlMonitor>) -> Option<StateServer> {
        match state.serve(Arc::clone(monitor), self.control.clone()) {
            Ok(server) => {
                let on_progress = std::mem::replace(&mut self.on_progress, Box::new(|_| {}));
                self.on_progress = Box::new(server.observe(on_progress));
                Some(server)
            }
            Err(error) => {
                let notice = "cannot reply to other processes that read the state while the crawl runs";
                log::warned(&*self.on_notice, &format!("{notice}: {error}"));
                None
            }
        }
    }
}
