//! Shows the progress of a pipeline: live lines on a terminal, plain lines or JSON otherwise.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crawler::internal::backend::Snapshot;
use crawler::internal::fetch::proxy_health::ProxyHealth;
use crawler::internal::fetch::robots::waits::RobotsWaits;
use crawler::internal::log::NOTICE;
use crawler::internal::pipeline::CrawlReport;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::json::ProgressJson;
use super::{plan, resume_hints};
use crate::args::{CrawlOptions, ProgressForm, Verbosity};
use crate::format::{counted, elapsed, number};
use crate::log;
use crate::printable::printable;
use crate::progress::{PLAIN_INTERVAL, to_line_start};
use crate::summary::{Counts, page_rank_line};

/// The time over which the page rate is measured: long enough to be steady, short enough to be current.
const RATE_WINDOW: Duration = Duration::from_secs(10);

/// At most this many workers are shown one by one.
const MAX_WORKERS: usize = 8;

/// The number of live lines, with one for the PageRank service.
const LINES: usize = 6;

/// Shows a crawl on standard error.
pub struct Display {
    form: Form,
    is_quiet: bool,
    started: Instant,
    robots_waits: RobotsWaits,
    proxy_health: ProxyHealth,
    /// What the crawl will do.
    plan: Vec<String>,
    history: Mutex<History>,
}

enum Form {
    Nothing,
    Plain,
    Live(MultiProgress, Vec<ProgressBar>),
    Json,
}

/// What was shown before.
struct History {
    /// The page counts of the last seconds.
    pages: VecDeque<(Instant, u64)>,
    last_plain_line: Instant,
    last_snapshot: Snapshot,
}

impl Display {
    /// Starts to show a crawl with these options.
    pub fn new(options: &CrawlOptions) -> Display {
        let verbosity = options.fetch.verbosity();
        let form = match options.progress {
            ProgressForm::Json => Form::Json,
            ProgressForm::Plain => Form::Plain,
            ProgressForm::Auto if verbosity != Verbosity::Normal || log::is_on_stderr() => Form::Nothing,
            ProgressForm::Auto if io::stderr().is_terminal() => {
                live_lines(if options.pagerank_url.is_some() { LINES } else { LINES - 1 })
            }
            ProgressForm::Auto => Form::Plain,
        };
        let started = Instant::now();
        let history = Mutex::new(History {
            pages: VecDeque::new(),
            last_plain_line: started,
            last_snapshot: Snapshot::default(),
        });
        let (is_quiet, robots_waits) = (verbosity == Verbosity::Quiet, RobotsWaits::default());
        let (proxy_health, plan) = (ProxyHealth::default(), plan::lines(options));
        Display { form, is_quiet, started, robots_waits, proxy_health, plan, history }
    }

    /// The sites whose URLs wait for a robots.txt, to be shown.
    pub fn robots_waits(&self) -> &RobotsWaits {
        &self.robots_waits
    }

    /// The health of the proxies, to be shown.
    pub fn proxy_health(&self) -> &ProxyHealth {
        &self.proxy_health
    }

    /// Prints, now and then, that sites wait for a robots.txt, if nothing else shows it.
    pub async fn print_robots_waits(&self) -> Infallible {
        match self.form {
            Form::Nothing => self.robots_waits.report(|message| self.print_logged(message)).await,
            _ => std::future::pending().await,
        }
    }

    /// Shows the current counts. To be called at the start and then once per second.
    pub fn show(&self, snapshot: &Snapshot) {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        history.last_snapshot = snapshot.clone();
        if history.pages.is_empty() {
            history.pages.push_back((now, snapshot.pages));
            // A crawl that has finished has nothing to do.
            if snapshot.admitted == 0 || snapshot.outstanding() > 0 {
                self.plan.iter().for_each(|line| self.print(line));
            }
            if let Some(message) = resume_hints::resuming(snapshot) {
                self.print(&message);
            }
            return;
        }
        let rate = history.page_rate(now, snapshot.pages);
        match &self.form {
            Form::Nothing => {}
            Form::Json => print_json(&ProgressJson::running(snapshot, self.started.elapsed(), rate)),
            Form::Plain => {
                // The calls are not exactly a second apart: one that is a little early must not delay the line by a second.
                if now + Duration::from_millis(500) >= history.last_plain_line + PLAIN_INTERVAL {
                    history.last_plain_line = now;
                    let lines = self.lines(snapshot, rate);
                    let lines: Vec<&str> =
                        lines.iter().map(String::as_str).filter(|line| !line.is_empty()).collect();
                    print_stderr(&lines.join("; "));
                }
            }
            Form::Live(_, bars) => {
                for (bar, line) in bars.iter().zip(self.lines(snapshot, rate)) {
                    bar.set_message(printable(&line).into_owned());
                }
                to_line_start();
            }
        }
    }

    fn lines(&self, snapshot: &Snapshot, rate: f64) -> [String; LINES] {
        let mut lines = lines(snapshot, rate, &self.robots_waits);
        if let Some(outage) = self.proxy_health.outage() {
            let time = elapsed(outage.duration());
            lines[0] = format!("Waiting for the proxy {} for {time} · {}", outage.proxy(), lines[0]);
        }
        lines
    }

    /// The table of the last counts, for a crawl that has no report.
    pub fn last_table(&self) -> String {
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        Counts::of_ended(&history.last_snapshot).table(self.started.elapsed())
    }

    /// Prints the last progress object, which has the final counts.
    pub fn show_end(&self, report: &CrawlReport) {
        if let Form::Json = self.form {
            print_json(&ProgressJson::ended(report));
        }
    }

    /// Prints and logs a message about the crawl as a whole.
    pub fn print(&self, message: &str) {
        tracing::info!(target: NOTICE, "{}", message.trim_start_matches("crawler: "));
        self.print_logged(message);
    }

    /// Prints a message that the library has logged.
    pub fn print_logged(&self, message: &str) {
        match &self.form {
            _ if log::is_on_stderr() => {}
            // Standard error has JSON objects only.
            Form::Json => {}
            Form::Live(all, _) => {
                all.suspend(|| print_stderr(message));
                to_line_start();
            }
            Form::Nothing | Form::Plain if self.is_quiet => {}
            Form::Nothing | Form::Plain => print_stderr(message),
        }
    }

    /// Removes the live lines.
    pub fn clear(&self) {
        if let Form::Live(all, bars) = &self.form {
            bars.iter().for_each(ProgressBar::finish_and_clear);
            let _ = all.clear();
        }
    }
}

impl History {
    /// Pages per second over the last seconds.
    fn page_rate(&mut self, now: Instant, pages: u64) -> f64 {
        self.pages.push_back((now, pages));
        while self.pages.len() > 2 && self.pages[0].0 + RATE_WINDOW < now {
            self.pages.pop_front();
        }
        let (since, before) = self.pages[0];
        pages.saturating_sub(before) as f64 / (now - since).as_secs_f64().max(0.001)
    }
}

/// The counts, the reasons of failures (may be empty), the queues, the workers, the sites that wait (may be empty), the PageRank
/// service (may be empty).
fn lines(snapshot: &Snapshot, rate: f64, robots_waits: &RobotsWaits) -> [String; LINES] {
    let counts = Counts::of_running(snapshot);
    let (url_queue, overflow) = snapshot.url_queue;
    let prioritized = snapshot.priority_queues.iter().sum::<usize>();
    let loads = snapshot.workers.iter().take(MAX_WORKERS).map(|(_, leased)| leased.to_string());
    let mut loads = loads.collect::<Vec<_>>().join(" ");
    if snapshot.workers.len() > MAX_WORKERS {
        loads += " …";
    }
    let failed = counts.failed_reasons();
    let network = match snapshot.network_down {
        Some(seconds) => format!("Network down for {} · ", elapsed(Duration::from_secs(seconds))),
        None => String::new(),
    };
    [
        network + &counts.progress_line(rate),
        if failed.is_empty() { failed } else { format!("Failed: {failed}") },
        format!(
            "Queues: new {} (overflow {}) · prioritized {}",
            number(url_queue as u64),
            number(overflow as u64),
            number(prioritized as u64)
        ),
        format!("{} · URLs leased to workers: {loads}", counted(snapshot.active_hosts as u64, "active host")),
        robots_waits.current().map(|wait| wait.to_string()).unwrap_or_default(),
        page_rank_line(snapshot).unwrap_or_default(),
    ]
}

fn live_lines(count: usize) -> Form {
    let all = MultiProgress::new();
    let bars = (0..count).map(|_| {
        let bar = all.add(ProgressBar::new_spinner());
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        bar
    });
    let bars = bars.collect();
    Form::Live(all, bars)
}

fn print_stderr(message: &str) {
    // A closed standard error does not stop the crawl.
    let _ = writeln!(io::stderr(), "{}", printable(message));
}

fn print_json(progress: &ProgressJson<'_>) {
    // It has numbers and names of this program only, so nothing needs to be escaped for the terminal.
    if let Ok(mut line) = serde_json::to_vec(progress) {
        line.push(b'\n');
        let _ = io::stderr().write_all(&line);
    }
}

#[cfg(test)]
mod tests {
    use crawler::internal::prioritizer::ServiceStats;

    use super::*;

    #[test]
    fn health_of_the_pagerank_service_has_its_own_line() {
        let mut snapshot = Snapshot::default();
        assert_eq!(lines(&snapshot, 0.0, &RobotsWaits::default())[LINES - 1], "");
        let mut stats = ServiceStats::default();
        (stats.requests, stats.failures, stats.fallbacks) = (5, 3, 1_200);
        stats.last_failure = Some("HTTP 503".into());
        snapshot.prioritizer_service = Some(stats);
        let expected =
            "PageRank service unavailable: 5 requests, 3 failed, 1,200 URLs without a rank (last: HTTP 503)";
        assert_eq!(lines(&snapshot, 0.0, &RobotsWaits::default())[LINES - 1], expected);
    }
}
