//! The classic command: `crawler seedURL pageDirectory maxDepth`.

use std::cell::Cell;
use std::rc::Rc;

use crawler::Outcome;
use crawler::internal::classic::ClassicReportInternals as _;
use crawler::internal::classic::{ClassicCrawl, ClassicInternals as _, ClassicReport};
use crawler::internal::fetch::proxy_health::ProxyHealth;
use crawler::internal::origin::{Origin, without_credentials};
use crawler::internal::scope::RejectReason;
use crawler::internal::stats::StatsInternals as _;
use crawler::internal::stop::StopHandleInternals as _;
use url::Url;

use crate::args::{ClassicJob, Verbosity};
use crate::commands::cookie_file::CookieFile;
use crate::commands::crawl::json::SummaryJson;
use crate::commands::crawl::status_of;
use crate::commands::crawl::summary_file::{SummaryFile, is_stdout};
use crate::commands::{hint, remedy, start_there, with_hint};
use crate::dashboard::{Dashboard, Mode, ProcessSource, Source, short_name};
use crate::live::disk_space::DiskSpace;
use crate::live::screen;
use crate::open_files::make_room;
use crate::printable::{print_error, print_stderr, print_stdout, printable};
use crate::progress::{CrawlHandles, Progress};
use crate::report::at_end::{self, EndReport};
use crate::summary::Counts;
use crate::{EXIT_FAILED, EXIT_NOT_WRITTEN, EXIT_USAGE, signals};

/// Runs the command and returns its exit status.
pub async fn run(job: ClassicJob) -> u8 {
    let written_paths = job.written_paths();
    let prepare = || {
        make_room(job.concurrency, &format!("--concurrency {}", job.concurrency))?;
        let cookie_file = CookieFile::new(job.save_cookies.as_deref(), job.cookies)?;
        let report = job.report.as_deref().map(|path| EndReport::of_live(path, job.given, false));
        let summary_file = job.summary.as_deref().map(SummaryFile::new).transpose()?;
        Ok::<_, String>((cookie_file, summary_file, report.transpose()?))
    };
    let (cookie_file, summary_file, report) = match prepare() {
        Ok(prepared) => prepared,
        Err(error) => {
            print_error(&error);
            return EXIT_USAGE;
        }
    };
    if let Some(warning) = job.warning.filter(|_| job.verbosity != Verbosity::Quiet) {
        print_error(warning);
    }
    let printing = Printing {
        disk_space: DiskSpace::new(written_paths),
        plan: Some(job.plan),
        is_stdout_taken: job.is_stdout_taken,
        prints_rows: job.urls.as_deref().is_some_and(is_stdout),
        summary_file,
        report,
        ..Printing::new(job.verbosity)
    };
    let observed = ProcessSource::new(
        short_name(job.seed.as_str()),
        Mode::Classic,
        false,
        printing.proxy_health.clone(),
        printing.disk_space.clone(),
    );
    let dashboard = match Dashboard::start(&job.dashboard, || Source::Process(observed.clone()), |_| {}) {
        Ok(dashboard) => dashboard,
        Err(error) => {
            print_error(&error);
            return EXIT_USAGE;
        }
    };
    if let Some(dashboard) = &dashboard {
        dashboard.announce(job.verbosity.into(), |line| print_stderr(&format!("{line}\n")));
    }
    let watched = job.crawl.on_status(move |view| drop(observed.update(view)));
    let status = crawl(&job.seed, watched, printing).await;
    drop(dashboard);
    cookie_file.map_or(status, |file| file.write(status))
}

/// What is printed about a crawl, and where.
pub struct Printing {
    verbosity: Verbosity,
    /// What the crawl will do.
    plan: Option<String>,
    is_stdout_taken: bool,
    /// Whether it gets rows while the crawl runs.
    prints_rows: bool,
    summary_file: Option<SummaryFile>,
    report: Option<EndReport>,
    proxy_health: ProxyHealth,
    disk_space: DiskSpace,
}

impl Printing {
    /// Prints the progress and the summary.
    pub fn new(verbosity: Verbosity) -> Printing {
        let proxy_health = ProxyHealth::default();
        let (plan, summary_file, report) = (None, None, None);
        Printing {
            verbosity,
            plan,
            is_stdout_taken: false,
            prints_rows: false,
            summary_file,
            report,
            proxy_health,
            disk_space: DiskSpace::default(),
        }
    }

    fn progress(&mut self, seed: &Url, handles: CrawlHandles) -> Progress {
        let mut progress = Progress::new(self.verbosity, seed, handles);
        if self.is_stdout_taken {
            progress = progress.without_stdout(self.prints_rows);
        }
        match self.plan.take() {
            Some(plan) => progress.announce(plan),
            None => progress,
        }
    }

    /// Prints and writes the result of a crawl, and returns the exit status. It is that of a signal if one stopped the crawl.
    fn conclude(&self, seed: &Url, report: &ClassicReport, signal_status: Option<u8>) -> u8 {
        let is_printed = match (self.verbosity, self.is_stdout_taken) {
            (Verbosity::Quiet, _) => true,
            (_, false) => print_stdout(&summary(report)),
            (_, true) => {
                print_stderr(&summary(report));
                true
            }
        };
        let urls = report.urls_failure();
        let urls = urls.map(|cause| format!("cannot write all URLs: {cause}{}", hint(cause)));
        let written = |file: &SummaryFile| file.write(&SummaryJson::of_classic(report)).err();
        let failures: Vec<String> =
            urls.into_iter().chain(self.summary_file.as_ref().and_then(written)).collect();
        failures.iter().for_each(|failure| print_error(failure));
        match signal_status.unwrap_or_else(|| exit_status(seed, report)) {
            status if signal_status.is_some() => status,
            _ if !failures.is_empty() => EXIT_NOT_WRITTEN,
            0 if !is_printed => EXIT_FAILED,
            status => status,
        }
    }
}

/// Crawls, shows the progress, prints the summary, and returns the exit status.
pub async fn crawl(seed: &Url, crawl: ClassicCrawl, mut printing: Printing) -> u8 {
    let _size_limit = signals::survive_the_file_size_limit();
    let proxy_health = printing.proxy_health.clone();
    let disk_space = printing.disk_space.clone();
    let handles = CrawlHandles { proxy_health: proxy_health.clone(), disk_space, ..CrawlHandles::default() };
    let crawl = crawl.robots_waits(handles.robots_waits.clone()).proxy_health(proxy_health.clone());
    let stop = handles.stop.clone();
    let progress = Rc::new(printing.progress(seed, handles));
    let crawl = crawl.on_status(progress.observer());
    let crawl = match printing.report.as_ref().and_then(EndReport::collector).cloned() {
        Some(collector) => {
            let seen = collector.clone();
            crawl.on_status(move |view| seen.observe(view)).on_url(move |url| collector.add_url(url))
        }
        None => crawl,
    };
    let signal_status = Rc::new(Cell::new(None));
    let tasks = tokio::task::LocalSet::new();
    let (shown, stopped, status) = (Rc::clone(&progress), stop.clone(), Rc::clone(&signal_status));
    let watch = tasks.spawn_local(async move {
        signals::watch(&stopped, &status, || stopped.requests_in_flight(), |message| shown.print(message))
            .await
    });
    let shown = Rc::clone(&progress);
    let report_outages =
        tasks.spawn_local(async move { proxy_health.report(|message| shown.print_logged(message)).await });
    let shown = Rc::clone(&progress);
    let show = tasks.spawn_local(async move { shown.keep_showing().await });
    let report = tasks.run_until(crawl.stop_handle(stop).run_with_observer(&*progress)).await;
    show.abort();
    report_outages.abort();
    screen::clear();
    let written = printing.report.take();
    let status = match report {
        Ok(report) => printing.conclude(seed, &report, signal_status.get()),
        Err(error) => {
            print_error(&with_hint(&error));
            status_of(&error)
        }
    };
    // A second signal ends the process also now.
    let say = |message: &str| {
        if printing.verbosity != Verbosity::Quiet {
            print_stderr(&format!("{}\n", printable(message)));
        }
    };
    let status = tasks.run_until(at_end::conclude(written, status, &signal_status, say)).await;
    watch.abort();
    status
}

fn summary(report: &ClassicReport) -> String {
    let mut table = Counts::from_stats(&report.stats).table(report.stats.elapsed);
    if let Some(archive) = report.archive() {
        table += &format!("{}\n", printable(archive));
    }
    if report.stopped { table + "Stopped: on request\n" } else { table }
}

fn exit_status(seed: &Url, report: &ClassicReport) -> u8 {
    if report.stats.not_written() > 0 {
        return EXIT_NOT_WRITTEN;
    }
    if let Outcome::Page | Outcome::NotSaved = report.seed {
        return 0;
    }
    let remedy = match &report.seed {
        Outcome::RedirectRejected { to, why: RejectReason::External, .. } => redirect_remedy(seed, to),
        Outcome::Redirect { .. } => ", which redirects back".into(),
        outcome => remedy(without_credentials(seed).as_str(), outcome),
    };
    print_error(&format!("cannot crawl the seed: {}{remedy}", report.seed));
    EXIT_FAILED
}

/// How to crawl a seed that redirects out of scope. No prefix contains two origins; http and https of one host are two.
fn redirect_remedy(seed: &Url, to: &str) -> String {
    match Url::parse(to) {
        Ok(target) if Origin::from_url(&target) == Origin::from_url(seed) => {
            "; start there, or set --internal to a prefix that contains both".into()
        }
        _ => start_there("crawler", to),
    }
}
