//! The pipeline in one process: `crawler crawl URL…` and `crawler resume DIR`.

pub mod display;
pub mod json;
pub mod outcome_log;
pub mod plan;
pub mod resume_hints;
pub mod saved_options;
pub mod stdout_reader;
mod summary;
pub mod summary_file;

use std::cell::Cell;
use std::sync::Arc;

use crawler::internal::backend::durable::StateReader;
use crawler::internal::config::FetchConfig;
use crawler::internal::live_settings::CrawlControl;
use crawler::internal::pipeline::CrawlerInternals as _;
use crawler::internal::pipeline::{CrawlEnd, CrawlReport, ResumeStatus, SILENT_PER_REQUEST};
use crawler::internal::stop::StopHandle;
use crawler::{Error, StorageErrorKind};

use self::display::Display;
use self::outcome_log::OutcomeLog;
use self::resume_hints::quoted;
use self::saved_options::SavedOptions;
use self::stdout_reader::StdoutReader;
pub use self::summary::{module_failures_line, stop_reason};
use self::summary_file::SummaryFile;
use crate::args::{CrawlJob, CrawlOptions, CrawlSource, ProgressForm, ResumeOptions, Verbosity};
use crate::commands::check::{self, ReportDirectory};
use crate::commands::cookie_file::CookieFile;
use crate::commands::{hint, with_hint};
use crate::dashboard::{ProcessSource, Source};
use crate::open_files::{make_room, spare};
use crate::printable::{print_error, print_stderr, print_stdout};
use crate::report::at_end::{self, EndReport};
use crate::report::given_options::GivenOptions;
use crate::summary::Counts;
use crate::{EXIT_FAILED, EXIT_NOT_WRITTEN, EXIT_USAGE, signals};

/// The most idle connections of a worker: more hosts than it fetches from within a delay or two.
const MAX_IDLE: usize = 1024;

/// Files that a worker has open in addition to its connections: its runtime's own, and connections that are being closed.
const FILES_PER_WORKER: usize = 8;

/// Why a crawl cannot start: a message and the exit status.
pub struct StartError(String, u8);

impl From<Error> for StartError {
    fn from(error: Error) -> StartError {
        StartError(with_hint(&error), status_of(&error))
    }
}

impl From<String> for StartError {
    fn from(message: String) -> StartError {
        StartError(message, EXIT_USAGE)
    }
}

/// A crawl to run, and what to say about it first.
type PreparedJob = (CrawlJob, Vec<String>);

/// Resumes a crawl with the options it had, except for those given now. Returns the exit status.
pub async fn resume(resume: ResumeOptions) -> u8 {
    run_prepared(prepare_resume(resume)).await
}

/// Starts a crawl, or continues the one in its state directory. Returns the exit status.
pub async fn run(job: CrawlJob) -> u8 {
    run_prepared(prepare_start(job)).await
}

async fn run_prepared(job: Result<PreparedJob, StartError>) -> u8 {
    match job {
        Ok((job, notices)) => run_job(job, &notices).await,
        Err(StartError(message, status)) => {
            print_error(&message);
            status
        }
    }
}

/// The options with which a crawl is resumed, and those that its state has.
pub fn options_on_resume(resume: ResumeOptions) -> Result<(CrawlOptions, CrawlOptions), StartError> {
    let metadata = StateReader::metadata_in(&resume.directory)?;
    let saved = SavedOptions::read(&metadata, resume.directory.display())?;
    Ok((resume.merged_over(saved.clone())?, saved))
}

fn prepare_resume(resume: ResumeOptions) -> Result<PreparedJob, StartError> {
    let (options, saved) = options_on_resume(resume)?;
    let warnings = resume_hints::missing_credentials(&options.forgotten_credentials);
    let warnings = warnings.into_iter().chain(resume_hints::missing_logins(&options));
    if options.fetch.verbosity() != Verbosity::Quiet {
        warnings.for_each(|warning| print_error(&warning));
    }
    options.check_proxy()?;
    let job = options.validate()?;
    let notices = resume_hints::changes(&job.options, &saved);
    Ok((job, notices))
}

/// Adds the seeds that the crawl in the state directory has, if there is one.
fn prepare_start(job: CrawlJob) -> Result<PreparedJob, StartError> {
    let Some(directory) = job.options.state.as_deref().filter(|directory| StateReader::exists_in(directory))
    else {
        return Ok((job, Vec::new()));
    };
    let metadata = StateReader::metadata_in(directory)?;
    let saved = match SavedOptions::read(&metadata, directory.display()) {
        Ok(saved) => saved,
        // The full command replaces the options of another version.
        Err(_) if SavedOptions::is_from_command(&metadata) => return Ok((job, Vec::new())),
        Err(error) => return Err(error.into()),
    };
    let given = job.options.seeds.clone();
    let options = job.options.with_seeds_of(Some(&saved));
    options.check_proxy()?;
    let notices = resume_hints::changes(&options, &saved);
    let job = match options.seeds == given {
        true => CrawlJob { options, ..job },
        false => options.validate()?,
    };
    Ok((job, notices))
}

/// The exit status of a command that could not start.
pub fn status_of(error: &Error) -> u8 {
    use StorageErrorKind::{NotFound, SettingsDiffer, Unusable};
    // The other errors are a matter of the command line.
    match error {
        Error::State(state) if matches!(state.kind(), NotFound | SettingsDiffer | Unusable) => EXIT_USAGE,
        Error::Redis(redis) if redis.kind() == SettingsDiffer => EXIT_USAGE,
        Error::State(_) | Error::Redis(_) | Error::Proxy(_) | Error::System { .. } => EXIT_FAILED,
        _ => EXIT_USAGE,
    }
}

/// Runs a crawl, after the notices about it, writes its cookies, and returns its exit status.
async fn run_job(job: CrawlJob, notices: &[String]) -> u8 {
    let cookie_file = match CookieFile::new(job.options.fetch.login.save_cookies(), job.cookies.clone()) {
        Ok(cookie_file) => cookie_file,
        Err(error) => {
            print_error(&error);
            return EXIT_USAGE;
        }
    };
    let status = crawl(job, notices).await;
    cookie_file.map_or(status, |file| file.write(status))
}

async fn crawl(job: CrawlJob, notices: &[String]) -> u8 {
    let CrawlJob { crawler, options, .. } = job;
    let (summary_file, end_report, spare) = match prepare(&options) {
        Ok(prepared) => prepared,
        Err(error) => {
            print_error(&error);
            return EXIT_USAGE;
        }
    };
    let _report_directory = match ReportDirectory::create(options.check.as_ref()) {
        Ok(directory) => directory,
        Err(error) => {
            print_error(&error);
            return EXIT_USAGE;
        }
    };
    let _size_limit = signals::survive_the_file_size_limit();
    let stop = StopHandle::new();
    let reader = StdoutReader::new(&options, &stop);
    reader.watch();
    let display = Arc::new(Display::new(&options, stop.clone()).with_notices(notices));
    let control = CrawlControl::new();
    let (proxy_health, disk_space) = (display.proxy_health().clone(), display.disk_space().clone());
    let observed = ProcessSource::pipeline(&options, control.clone(), proxy_health, disk_space);
    let source = || Source::Process(observed.clone());
    let Ok(dashboard) = display.start_dashboard(&options.dashboard.config(), source) else {
        return EXIT_USAGE;
    };
    if let Some(warning) = options.fetch.warning() {
        display.print(warning);
    }
    let noticed = Arc::clone(&display);
    let outcome_log = Arc::new(OutcomeLog::new(&options, reader.clone()));
    let log = Arc::clone(&outcome_log);
    let crawler = crawler
        .configure(|config| spare.apply(config))
        .stop_handle(stop.clone())
        .control(control)
        .robots_waits(display.robots_waits().clone())
        .on_notice(move |notice| noticed.print_logged(&format!("crawler: {notice}")))
        .proxy_health(display.proxy_health().clone())
        .on_outcome(move |url, outcome| log.record(url, outcome));
    let collector = end_report.as_ref().and_then(EndReport::collector).cloned();
    let crawler = match &collector {
        Some(collector) => crawler.builtin_module(collector.clone()),
        None => crawler,
    };
    let shown = Arc::clone(&display);
    let crawling = crawler.on_status(move |view| {
        observed.update(view);
        shown.show(view);
        collector.iter().for_each(|collector| collector.observe(view));
    });
    let crawling = crawling.run();
    let signal_status = Cell::new(None);
    let report = tokio::select! {
        report = crawling => report,
        never = display.maintain() => match never {},
        never = display.proxy_health().report(|message| display.print_logged(message)) => match never {},
        never = signals::watch(&stop, &signal_status, || display.in_flight(), |message| display.print(message)) => match never {},
    };
    // Viewers get the final state before the summary is printed.
    drop(dashboard);
    display.clear();
    let status = match report {
        Ok(report) => {
            let report = reader.explain(report);
            let status = conclude(&options, &report, &display, &outcome_log, summary_file);
            let status =
                options.check.as_ref().map_or(status, |check| check::conclude(check, &report, status));
            signal_status.get().unwrap_or(status)
        }
        Err(error) => {
            if let Error::Proxy(_) = error {
                print_summary(&options, &(display.last_table() + "Stopped: the proxy cannot be used\n"));
            }
            print_error(&with_hint(&error));
            if let (Error::Proxy(_), Some(directory)) = (&error, &options.state) {
                display.print(&format!("to resume: crawler resume {}", quoted(directory)));
            }
            if !outcome_log.has_outcomes() {
                return status_of(&error);
            }
            EXIT_FAILED
        }
    };
    // A second signal ends the process also now.
    tokio::select! {
        status = at_end::conclude(end_report, status, &signal_status, |message| display.print(message)) => status,
        never = signals::watch(&stop, &signal_status, || 0, |message| display.print(message)) => match never {},
    }
}

/// Checks everything that can fail before the first request. Also returns how many spare connections a worker may have.
fn prepare(
    options: &CrawlOptions,
) -> Result<(Option<SummaryFile>, Option<EndReport>, SpareConnections), String> {
    stdout_reader::check_open(options)?;
    let spare = SpareConnections::for_workers(options.workers(), options.concurrency)?;
    let summary = options.summary.as_deref().map(SummaryFile::new).transpose()?;
    let report = options.report.as_deref().map(|path| match &options.state {
        Some(directory) => EndReport::of_stored(path, CrawlSource::State(directory.clone())),
        None => EndReport::of_live(path, GivenOptions::of_crawl(options), true),
    });
    Ok((summary, report.transpose()?, spare))
}

/// The connections that a worker may have in addition to its requests in flight.
#[derive(Clone, Copy)]
pub struct SpareConnections {
    idle: usize,
    silent: usize,
}

impl SpareConnections {
    /// Raises the limit of open files for this many workers, and returns how many more connections each may have.
    pub fn for_workers(workers: usize, concurrency: usize) -> Result<SpareConnections, String> {
        let option = format!("--concurrency {concurrency} with {workers} workers");
        let needed = workers * (concurrency + FILES_PER_WORKER);
        make_room(needed, &option)?;
        let max_silent = SILENT_PER_REQUEST * concurrency;
        let spare = spare(needed, workers * (MAX_IDLE + max_silent)) / workers;
        let silent = max_silent.min(spare / 2);
        Ok(SpareConnections { idle: MAX_IDLE.min(spare - silent), silent })
    }

    /// Sets the limits of a crawl.
    pub fn apply(self, config: &mut FetchConfig) {
        (config.max_idle_connections, config.max_silent) = (self.idle, self.silent);
    }
}

/// Prints and writes the result of the crawl, and returns the exit status.
pub fn conclude(
    options: &CrawlOptions,
    report: &CrawlReport,
    display: &Display,
    outcome_log: &OutcomeLog,
    summary_file: Option<SummaryFile>,
) -> u8 {
    display.show_end(report);
    let printed = print_summary(options, &summary::text(options, report));
    let mut not_written = false;
    if let Some(cause) = output_error(report) {
        print_error(&format!("cannot write all pages: {cause}{}", hint(&cause)));
        not_written = true;
    }
    if let Some(cause) = &report.module_failure {
        print_error(&format!("cannot process all pages: {cause}"));
        not_written = true;
    }
    if let Some(file) = summary_file
        && let Err(error) = file.write(&json::SummaryJson::new(report))
    {
        print_error(&error);
        not_written = true;
    }
    for hint in failure_hint(options, report).into_iter().chain(resume_hints::at_end(options, report)) {
        display.print(&hint);
    }
    let has_unchanged = report.snapshot.outcomes.contains_key("unchanged");
    let has_pages = report.snapshot.pages > 0 || has_unchanged || options.recrawl.is_some();
    if has_pages {
        for seed in outcome_log.take_redirected_seeds() {
            display.print(&seed);
        }
    } else if !matches!(report.end, CrawlEnd::Stopped | CrawlEnd::OutputClosed | CrawlEnd::ModuleFailed) {
        print_error(&format!("no pages crawled{}", outcome_log.last_failure()));
    }
    match () {
        () if not_written => EXIT_NOT_WRITTEN,
        () if report.end == CrawlEnd::OutputClosed => 0,
        () if !has_pages || !printed => EXIT_FAILED,
        () => 0,
    }
}

/// How to find out which URLs failed, if any did and they were not printed.
fn failure_hint(options: &CrawlOptions, report: &CrawlReport) -> Option<String> {
    let has_failed = !Counts::of_ended(&report.snapshot).failed_reasons().is_empty();
    let is_over = report.resumed == ResumeStatus::AlreadyFinished;
    if !has_failed || is_over || options.check.is_some() || options.fetch.verbosity() != Verbosity::Normal {
        return None;
    }
    let why = match (&options.state, &options.distributed.redis) {
        (Some(directory), _) => format!("; for one URL: crawler why URL --state {}", quoted(directory)),
        (None, Some(_)) => {
            format!("; for one URL: crawler why URL --redis <URL> --crawl {}", options.distributed.crawl)
        }
        (None, None) => String::new(),
    };
    Some(format!("to list the failed URLs, use -v{why}"))
}

/// Prints the summary to standard output, or to standard error if a module writes to standard output. Returns false, after
/// an error message, if it could not be printed.
fn print_summary(options: &CrawlOptions, summary: &str) -> bool {
    match (options.fetch.verbosity(), options.stdout_is_taken()) {
        (Verbosity::Quiet, _) => true,
        (_, false) => print_stdout(summary),
        // The last progress object on standard error has all the counts.
        (_, true) if options.progress == ProgressForm::Json => true,
        (_, true) => {
            print_stderr(summary);
            true
        }
    }
}

/// Why a page is missing in an output, if one is.
fn output_error(report: &CrawlReport) -> Option<String> {
    let is_incomplete = report.module_failures.failures.contains_key("output");
    let last_failure = || report.module_failures.last_failure.clone().filter(|_| is_incomplete);
    report.output_failure.as_ref().map(|failure| format!("{failure:#}")).or_else(last_failure)
}
