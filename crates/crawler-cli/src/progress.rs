//! Shows the progress of a classic crawl: live lines on a terminal, plain lines otherwise.

use std::cell::RefCell;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crawler::internal::crawl_view::CrawlView;
use crawler::internal::event::{Event, Observer};
use crawler::internal::fetch::proxy_health::ProxyHealth;
use crawler::internal::fetch::robots::waits::RobotsWaits;
use crawler::internal::log::NOTICE;
use crawler::internal::origin::without_credentials;
use crawler::internal::scope::RejectReason;
use crawler::internal::stop::StopHandle;
use crawler::internal::stop::StopHandleInternals as _;
use crawler::internal::task::Depth;
use crawler::{Outcome, OutcomeGroup};
use tokio::time::MissedTickBehavior;
use url::Url;

use crate::args::Verbosity;
use crate::live::disk_space::DiskSpace;
use crate::live::remaining::{History, Sample};
use crate::live::screen;
use crate::live::status::LiveStatus;
use crate::log;
use crate::printable::printable;

/// How often the counts are printed where there are no live lines.
pub const PLAIN_INTERVAL: Duration = Duration::from_secs(5);

/// How often the counts are taken, to measure rates, where there are no live lines.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// How often the live lines are painted.
const LIVE_INTERVAL: Duration = Duration::from_millis(250);

/// Prints events and progress. The events of `-v` go to standard output, unless it is taken, everything else to standard error.
pub struct Progress {
    verbosity: Verbosity,
    form: Form,
    handles: CrawlHandles,
    last_view: LastView,
    /// What was shown before.
    history: RefCell<History>,
    /// Its failure ends the crawl, and is printed then.
    seed: String,
    /// What the crawl will do, until it is printed.
    plan: RefCell<Option<String>>,
    /// Where events go.
    out: RefCell<Box<dyn Write>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Nothing,
    Plain,
    Live,
}

/// When the crawl was observed last, and how it was.
type LastView = Arc<Mutex<Option<(Instant, CrawlView)>>>;

/// What a crawl and its display share.
#[derive(Default, Clone)]
pub struct CrawlHandles {
    pub robots_waits: RobotsWaits,
    pub proxy_health: ProxyHealth,
    pub disk_space: DiskSpace,
    pub stop: StopHandle,
}

impl Progress {
    /// Starts to show a crawl.
    pub fn new(verbosity: Verbosity, seed: &Url, handles: CrawlHandles) -> Progress {
        let form = match verbosity {
            Verbosity::Quiet | Verbosity::Verbose => Form::Nothing,
            Verbosity::Normal if log::is_on_stderr() => Form::Nothing,
            Verbosity::Normal if screen::is_available() => Form::Live,
            Verbosity::Normal => Form::Plain,
        };
        let mut history = History::default();
        history.add(Sample::default());
        Progress {
            verbosity,
            form,
            handles,
            last_view: LastView::default(),
            history: RefCell::new(history),
            seed: without_credentials(seed).into(),
            plan: RefCell::default(),
            out: RefCell::new(Box::new(io::stdout())),
        }
    }

    /// Prints events to standard error, too; and nothing else if standard output gets rows while the crawl runs.
    pub fn without_stdout(self, has_rows: bool) -> Progress {
        // The terminal has the rows.
        let form = if has_rows && io::stdout().is_terminal() { Form::Nothing } else { self.form };
        Progress { out: RefCell::new(Box::new(io::stderr())), form, ..self }
    }

    /// Prints what the crawl will do when it starts.
    pub fn announce(self, plan: String) -> Progress {
        Progress { plan: RefCell::new(Some(plan)), ..self }
    }

    /// What the crawl calls once per second.
    pub fn observer(&self) -> impl Fn(&CrawlView) + Send + Sync + 'static {
        let last_view = Arc::clone(&self.last_view);
        move |view| {
            *last_view.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), view.clone()))
        }
    }

    /// Shows the progress at regular intervals, also while no event occurs. Returns only if progress is not to be shown.
    pub async fn keep_showing(&self) {
        let interval = match self.form {
            Form::Nothing if self.verbosity == Verbosity::Verbose => {
                match self.handles.robots_waits.report(|message| self.print_logged(message)).await {}
            }
            Form::Nothing => return,
            Form::Live => LIVE_INTERVAL,
            Form::Plain => SAMPLE_INTERVAL,
        };
        let mut timer = tokio::time::interval_at(tokio::time::Instant::now() + interval, interval);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for tick in 1_u32.. {
            timer.tick().await;
            match (self.status(), self.form) {
                (None, _) => {}
                (Some(status), Form::Live) => screen::show(move |size| status.lines(size, false)),
                (Some(status), _)
                    if (tick * SAMPLE_INTERVAL).as_secs().is_multiple_of(PLAIN_INTERVAL.as_secs()) =>
                {
                    screen::print(&status.plain_line(false));
                }
                _ => {}
            }
        }
    }

    /// The crawl as it is now; `None` if it was not observed yet.
    fn status(&self) -> Option<LiveStatus> {
        let (since, mut view) = self.last_view.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        view.elapsed += since.elapsed();
        let mut status = LiveStatus::new(&view, &mut self.history.borrow_mut());
        status.in_flight = Some(self.handles.stop.requests_in_flight());
        status.warnings.extend(self.handles.disk_space.warnings());
        status.add_robots_wait(&self.handles.robots_waits);
        status.add_proxy_outage(&self.handles.proxy_health);
        if self.handles.stop.is_stop_requested() {
            status.set_stopping();
        }
        Some(status)
    }

    /// Prints a message about the crawl as a whole, unless `--quiet` is set, and logs it.
    pub fn print(&self, message: &str) {
        tracing::info!(target: NOTICE, "{message}");
        self.print_logged(message);
    }

    /// Prints a message that the library has logged.
    pub fn print_logged(&self, message: &str) {
        if !log::is_on_stderr() && self.verbosity != Verbosity::Quiet {
            screen::print(message);
        }
    }

    fn print_event(&self, word: &str, depth: Depth, text: &str) {
        // A closed pipe (`| head`) does not stop the crawl.
        let _ = writeln!(self.out.borrow_mut(), "{depth:2} {word:>10}: {}", printable(text));
    }
}

impl Observer for Progress {
    fn on_event(&self, event: Event<'_>, depth: Depth, url: &str) {
        if self.verbosity == Verbosity::Verbose {
            let (word, detail) = describe(&event);
            self.print_event(word, depth, &[url, &detail].concat());
        } else if let Event::Ended { outcome } = event
            && is_reported(outcome, self.verbosity)
            && !log::is_on_stderr()
            && (url != self.seed || matches!(outcome, Outcome::WriteFailed { .. }))
        {
            screen::print(&format!("{url}: {outcome}"));
        }
    }

    fn on_fetch_start(&self, _url: &str, _depth: Depth) {
        if let Some(plan) = self.plan.take() {
            self.print(&plan);
        }
    }

    fn wants_links(&self) -> bool {
        self.verbosity == Verbosity::Verbose
    }
}

/// The name of an event, and the details that follow the URL.
fn describe(event: &Event<'_>) -> (&'static str, String) {
    match event {
        Event::Fetched { bytes } => ("Fetched", format!(" ({bytes} bytes)")),
        Event::Saved { id } => ("Saved", format!(" as {id}")),
        Event::Scanning => ("Scanning", String::new()),
        Event::Found => ("Found", String::new()),
        Event::Added => ("Added", String::new()),
        Event::Duplicate => ("IgnDupl", String::new()),
        Event::Ignored { reason: RejectReason::External } => ("IgnExtrn", String::new()),
        Event::Ignored { reason } => ("Ignored", format!(" ({reason})")),
        Event::BadLink { reason } => ("Ignored", format!(" (a link on this page: {reason})")),
        Event::Ended { outcome: Outcome::Redirect { to, .. } } => ("Redirect", format!(" to {to}")),
        Event::Ended { outcome } => (outcome_word(outcome), format!(" ({outcome})")),
        other => ("Event", format!(" ({other:?})")),
    }
}

/// The group of an outcome, as one word.
pub fn outcome_word(outcome: &Outcome) -> &'static str {
    match outcome.group() {
        OutcomeGroup::Page => "Page",
        OutcomeGroup::Redirect => "Redirect",
        OutcomeGroup::Skipped => "Skipped",
        OutcomeGroup::Sitemap => "Sitemap",
        OutcomeGroup::Checked => "Checked",
        OutcomeGroup::Unchanged => "Unchanged",
        OutcomeGroup::Requisite => "Requisite",
        OutcomeGroup::NotReached => "NotReached",
        _ => "Failed",
    }
}

/// Whether an outcome gets a line of its own. The summary counts the others: a stopped crawl may leave millions of URLs.
fn is_reported(outcome: &Outcome, verbosity: Verbosity) -> bool {
    match outcome.group() {
        _ if *outcome == Outcome::NotSaved => false,
        OutcomeGroup::Page | OutcomeGroup::Redirect | OutcomeGroup::Unchanged | OutcomeGroup::NotReached => {
            false
        }
        OutcomeGroup::Skipped => verbosity == Verbosity::Normal,
        _ => true,
    }
}
