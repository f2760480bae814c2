//! Shows the progress of a pipeline: live lines on a terminal, plain lines or JSON otherwise.

use std::convert::Infallible;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crawler::internal::backend::SnapshotInternals as _;
use crawler::internal::crawl_view::{CrawlPhase, CrawlView};
use crawler::internal::fetch::proxy_health::ProxyHealth;
use crawler::internal::fetch::robots::waits::RobotsWaits;
use crawler::internal::log::NOTICE;
use crawler::internal::pipeline::CrawlReport;
use crawler::internal::stop::StopHandle;
use crawler::internal::stop::StopHandleInternals as _;

use super::json::ProgressJson;
use super::{plan, resume_hints};
use crate::args::{CrawlOptions, ProgressForm, Verbosity};
use crate::dashboard::{AnnouncementForm, Dashboard, DashboardConfig, Source};
use crate::live::disk_space::DiskSpace;
use crate::live::remaining::History;
use crate::live::screen;
use crate::live::status::LiveStatus;
use crate::live::warnings::is_new;
use crate::log;
use crate::printable::print_error;
use crate::progress::PLAIN_INTERVAL;
use crate::summary::Counts;

/// How often a crawl that is stopping is shown.
const STOPPING_INTERVAL: Duration = Duration::from_millis(500);

/// Shows a crawl on standard error.
pub struct Display {
    form: Form,
    verbosity: Verbosity,
    started: Instant,
    robots_waits: RobotsWaits,
    proxy_health: ProxyHealth,
    disk_space: DiskSpace,
    stop: StopHandle,
    /// Whether other processes send the requests.
    is_distributed: bool,
    /// What to say first, when the crawl could start.
    notices: Vec<String>,
    /// What the crawl will do.
    plan: Vec<String>,
    memory: Mutex<Memory>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Nothing,
    Plain,
    Live,
    Json,
}

/// What was shown before.
struct Memory {
    history: History,
    last_plain_line: Instant,
    /// The warnings of the last plain line.
    warnings: Vec<String>,
    /// When the crawl was observed last, and how it was.
    last_view: Option<(Instant, CrawlView)>,
}

impl Display {
    /// Starts to show a crawl with these options, which this handle stops.
    pub fn new(options: &CrawlOptions, stop: StopHandle) -> Display {
        let started = Instant::now();
        let memory = Mutex::new(Memory {
            history: History::default(),
            last_plain_line: started,
            warnings: Vec::new(),
            last_view: None,
        });
        Display {
            form: Form::new(options),
            verbosity: options.fetch.verbosity(),
            started,
            robots_waits: RobotsWaits::default(),
            proxy_health: ProxyHealth::default(),
            disk_space: DiskSpace::new(options.written_paths()),
            stop,
            is_distributed: options.distributed.redis.is_some(),
            notices: Vec::new(),
            plan: plan::lines(options),
            memory,
        }
    }

    /// Prints these messages first, when the crawl could start.
    pub fn with_notices(self, notices: &[String]) -> Display {
        Display { notices: notices.to_vec(), ..self }
    }

    /// The sites whose URLs wait for a robots.txt, to be shown.
    pub fn robots_waits(&self) -> &RobotsWaits {
        &self.robots_waits
    }

    /// The health of the proxies, to be shown.
    pub fn proxy_health(&self) -> &ProxyHealth {
        &self.proxy_health
    }

    /// The file systems to which the crawl writes, to be shown.
    pub fn disk_space(&self) -> &DiskSpace {
        &self.disk_space
    }

    /// Keeps the display right: repaints it while the crawl is stopping, and prints, now and then, that sites wait for a robots.txt,
    /// if nothing else shows it.
    pub async fn maintain(&self) -> Infallible {
        match self.form {
            Form::Live if !self.is_distributed => self.show_stopping().await,
            Form::Nothing => self.robots_waits.report(|message| self.print_logged(message)).await,
            Form::Live | Form::Plain | Form::Json => std::future::pending().await,
        }
    }

    /// Keeps showing a crawl that is stopping: it is not observed any more while its last requests finish.
    async fn show_stopping(&self) -> Infallible {
        loop {
            tokio::time::sleep(STOPPING_INTERVAL).await;
            let mut memory = self.memory();
            if let Some((since, mut view)) = memory.last_view.clone()
                && self.stop.is_stop_requested()
            {
                view.elapsed += since.elapsed();
                self.paint(self.status(&view, Vec::new(), &mut memory));
            }
        }
    }

    /// The requests in flight: those of this process, or those that a distributed crawl had when it was shown last.
    pub fn in_flight(&self) -> u64 {
        match self.is_distributed {
            true => self.memory().last_view.as_ref().map_or(0, |(_, view)| view.statistics.in_flight),
            false => self.stop.requests_in_flight(),
        }
    }

    fn paint(&self, status: LiveStatus) {
        let is_verbose = self.verbosity == Verbosity::Verbose;
        screen::show(move |size| status.lines(size, is_verbose));
    }

    /// Shows the crawl as it is now. To be called at the start and then once per second.
    pub fn show(&self, view: &CrawlView) {
        self.show_with(view, Vec::new());
    }

    /// The same, with these warnings.
    pub fn show_with(&self, view: &CrawlView, warnings: Vec<String>) {
        // Logged, also if nothing is shown.
        self.disk_space.check();
        let mut memory = self.memory();
        let is_first = memory.last_view.replace((Instant::now(), view.clone())).is_none();
        if is_first {
            LiveStatus::new(view, &mut memory.history);
            return self.announce(view);
        }
        match self.form {
            Form::Nothing => {}
            // The summary follows.
            _ if matches!(view.phase, CrawlPhase::Ended(_)) => {}
            // A crawl of this process is observed once more at a moment of its own: one object per second, and one at the end.
            Form::Json if view.phase == CrawlPhase::Stopping && !self.is_distributed => {}
            Form::Json => {
                LiveStatus::new(view, &mut memory.history);
                let rate = memory.history.page_rate().unwrap_or_default();
                print_json(&ProgressJson::running(&view.snapshot, self.started.elapsed(), rate));
            }
            Form::Plain => {
                let status = self.status(view, warnings, &mut memory);
                // The calls are not exactly a second apart: one that is a little early must not delay the line by a second.
                if memory.last_plain_line.elapsed() + Duration::from_millis(500) >= PLAIN_INTERVAL {
                    memory.last_plain_line = Instant::now();
                    self.print_plain(&status, &mut memory);
                }
            }
            Form::Live => {
                let status = self.status(view, warnings, &mut memory);
                self.paint(status);
            }
        }
    }

    /// Says what the crawl will do, or what it resumes.
    fn announce(&self, CrawlView { snapshot, .. }: &CrawlView) {
        self.notices.iter().for_each(|notice| self.print(notice));
        // A crawl that has finished has nothing to do.
        if snapshot.seen_urls == 0 || snapshot.pending() > 0 || snapshot.scheduled() > 0 {
            self.plan.iter().for_each(|line| self.print(line));
        }
        if let Some(message) = resume_hints::resuming(snapshot) {
            self.print(&message);
        }
    }

    fn status(&self, view: &CrawlView, warnings: Vec<String>, memory: &mut Memory) -> LiveStatus {
        let mut status = LiveStatus::new(view, &mut memory.history);
        status.warnings.extend(warnings);
        status.add_proxy_outage(&self.proxy_health);
        status.warnings.extend(self.disk_space.warnings());
        status.add_robots_wait(&self.robots_waits);
        if self.stop.is_stop_requested() || view.phase == CrawlPhase::Stopping {
            status.set_stopping();
        }
        if !self.is_distributed {
            status.in_flight = Some(self.stop.requests_in_flight());
        }
        status
    }

    /// Prints the warnings that the last line did not have, and a line.
    fn print_plain(&self, status: &LiveStatus, memory: &mut Memory) {
        for warning in status.warnings.iter().filter(|warning| is_new(warning, &memory.warnings)) {
            screen::print(&format!("warning: {warning}"));
        }
        memory.warnings.clone_from(&status.warnings);
        screen::print(&status.plain_line(self.verbosity == Verbosity::Verbose));
    }

    /// The table of the last counts, for a crawl that has no report.
    pub fn last_table(&self) -> String {
        let memory = self.memory();
        let snapshot = memory.last_view.as_ref().map(|(_, view)| view.snapshot.clone()).unwrap_or_default();
        Counts::of_ended(&snapshot).table(self.started.elapsed())
    }

    /// Prints the last progress object, which has the final counts.
    pub fn show_end(&self, report: &CrawlReport) {
        if self.form == Form::Json {
            print_json(&ProgressJson::ended(report));
        }
    }

    /// Prints and logs a message about the crawl as a whole.
    pub fn print(&self, message: &str) {
        tracing::info!(target: NOTICE, "{}", message.trim_start_matches("crawler: "));
        self.print_logged(message);
    }

    /// Starts the dashboard and the metrics, if they are wanted, and prints their addresses. Prints the error if that fails.
    pub fn start_dashboard(
        self: &Arc<Display>,
        config: &DashboardConfig,
        source: impl FnOnce() -> Source,
    ) -> Result<Option<Dashboard>, ()> {
        let logged = Arc::clone(self);
        let started = Dashboard::start(config, source, move |message| logged.print(message));
        let dashboard = started.map_err(|error| print_error(&error))?;
        if let Some(dashboard) = &dashboard {
            self.announce_server(dashboard);
        }
        Ok(dashboard)
    }

    fn announce_server(&self, dashboard: &Dashboard) {
        let form = match self.form {
            Form::Json => AnnouncementForm::Json,
            _ => self.verbosity.into(),
        };
        dashboard.announce(form, screen::print);
    }

    /// Prints a message that the library has logged.
    pub fn print_logged(&self, message: &str) {
        // With JSON, standard error has objects only.
        if self.form != Form::Json && self.verbosity != Verbosity::Quiet && !log::is_on_stderr() {
            screen::print(message);
        }
    }

    /// Removes the live lines.
    pub fn clear(&self) {
        screen::clear();
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Form {
    fn new(options: &CrawlOptions) -> Form {
        let verbosity = options.fetch.verbosity();
        match options.progress {
            ProgressForm::Json => Form::Json,
            ProgressForm::Plain => Form::Plain,
            ProgressForm::Auto if verbosity == Verbosity::Quiet => Form::Nothing,
            ProgressForm::Auto if log::is_on_stderr() => Form::Nothing,
            // The terminal has what a module prints.
            ProgressForm::Auto if options.modules_print() && io::stdout().is_terminal() => Form::Nothing,
            ProgressForm::Auto if screen::is_available() => Form::Live,
            ProgressForm::Auto if verbosity == Verbosity::Verbose => Form::Nothing,
            ProgressForm::Auto => Form::Plain,
        }
    }
}

fn print_json(progress: &ProgressJson<'_>) {
    // It has numbers and names of this program only, so nothing needs to be escaped for the terminal.
    if let Ok(mut line) = serde_json::to_vec(progress) {
        line.push(b'\n');
        let _ = io::stderr().write_all(&line);
    }
}
