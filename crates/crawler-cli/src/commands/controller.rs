//! Starts and supervises a distributed crawl: `crawler crawl URL… --redis URL`.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crawler::internal::backend::WorkerId;
use crawler::internal::backend::redis::{DistributedCrawl, Phase};
use crawler::internal::distributed::crawl_loss::CrawlLossDetector;
use crawler::internal::distributed::remote::{CrawlStatus, NewMetadata, RemoteCrawl};
use crawler::internal::distributed::{Notice, SharedCrawl};
use crawler::internal::error::redis_error;
use crawler::internal::log;
use crawler::internal::pipeline::ResumeStatus;
use crawler::internal::stop::StopHandle;
use crawler::internal::stop::StopHandleInternals as _;
use crawler::{CrawlReport, Error, StorageErrorKind};

use super::supervisor::Supervisor;
use crate::args::{CrawlJob, CrawlOptions, CrawlSource};
use crate::commands::cookie_file::{CookieFile, part_file};
use crate::commands::crawl::display::Display;
use crate::commands::crawl::outcome_log::OutcomeLog;
use crate::commands::crawl::saved_options::SavedOptions;
use crate::commands::crawl::stdout_reader::StdoutReader;
use crate::commands::crawl::summary_file::SummaryFile;
use crate::commands::crawl::{conclude, status_of};
use crate::commands::with_hint;
use crate::dashboard::{RedisSource, Source};
use crate::live::warnings;
use crate::printable::print_error;
use crate::report::at_end::{self, EndReport};
use crate::{EXIT_USAGE, signals};

/// How often the controller checks whether a child has exited, or a stop was requested.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long a crawl may take to stop, in addition to the time in which dead processes are detected.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// How often the progress is shown.
const SHOW_INTERVAL: Duration = Duration::from_secs(1);

/// Starts or resumes a crawl on Redis and keeps a frontier and workers running until it is over. Returns the exit status.
pub async fn run(job: CrawlJob) -> u8 {
    let stop = StopHandle::new();
    let display = Arc::new(Display::new(&job.options, stop.clone()));
    let shown = Arc::clone(&display);
    let notice: Notice = Arc::new(move |message: &str| shown.print_logged(&format!("crawler: {message}")));
    let prepared = job.options.shared_crawl(notice).and_then(|shared| {
        let summary = job.options.summary.as_deref().map(SummaryFile::new).transpose()?;
        let cookie_file = CookieFile::new(job.options.fetch.login.save_cookies(), job.cookies.clone())?;
        let report = shared.as_ref().and_then(|shared| end_report(&job.options, shared)).transpose()?;
        Ok((shared, summary, cookie_file, report))
    });
    let (mut shared, summary_file, cookie_file, end_report) = match prepared {
        Ok((Some(shared), summary, cookie_file, report)) => (shared, summary, cookie_file, report),
        Ok((None, ..)) => return EXIT_USAGE,
        Err(error) => {
            print_error(&error);
            return EXIT_USAGE;
        }
    };
    let options = job.options.clone();
    if let Some(warning) = options.fetch.warning() {
        display.print(warning);
    }
    let signal_status = Cell::new(None);
    let reader = StdoutReader::new(&options, &stop);
    reader.watch();
    shared.redis.connect_options.stop = stop.clone();
    let observed = shared.clone();
    let disk_space = display.disk_space().clone();
    let source = || Source::Redis(RedisSource::new(observed).with_disk_space(disk_space));
    let Ok(dashboard) = display.start_dashboard(&options.dashboard.config(), source) else {
        return EXIT_USAGE;
    };
    let report = tokio::select! {
        report = control(job, &shared, &display, &stop, &reader) => report,
        never = display.maintain() => match never {},
        never = signals::watch(&stop, &signal_status, || display.in_flight(), |message| display.print(message)) => match never {},
    };
    drop(dashboard);
    display.clear();
    let status = match report {
        Ok(report) => {
            let report = reader.explain(report);
            let outcome_log = OutcomeLog::new(&options, reader);
            let status = conclude(&options, &report, &display, &outcome_log, summary_file);
            let status = signal_status.get().unwrap_or(status);
            // A second signal ends the process also now.
            tokio::select! {
                status = at_end::conclude(end_report, status, &signal_status, |message| display.print(message)) => status,
                never = signals::watch(&stop, &signal_status, || 0, |message| display.print(message)) => match never {},
            }
        }
        Err(error) => {
            print_error(&with_hint(&error));
            signal_status.get().unwrap_or(status_of(&error))
        }
    };
    cookie_file.map_or(status, |file| file.write_merged(&cookie_parts(&options), status))
}

/// The report of `--report`, which is read from Redis in the end.
fn end_report(options: &CrawlOptions, shared: &SharedCrawl) -> Option<Result<EndReport, String>> {
    let mut shared = shared.clone();
    // The stop of the crawl must not stop it, and a Redis that is gone is an error at once.
    shared.redis.connect_options.retry_forever = false;
    let path = options.report.as_deref()?;
    Some(EndReport::of_stored(path, CrawlSource::Redis(Box::new(shared))))
}

/// The files in which the workers save their cookies.
fn cookie_parts(options: &CrawlOptions) -> Vec<PathBuf> {
    let file = options.fetch.login.save_cookies();
    let workers = (0..options.workers() as u16).map(WorkerId);
    file.into_iter().flat_map(|file| workers.clone().map(|id| part_file(file, id))).collect()
}

async fn control(
    job: CrawlJob,
    shared: &SharedCrawl,
    display: &Arc<Display>,
    stop: &StopHandle,
    reader: &StdoutReader,
) -> Result<CrawlReport, Error> {
    let CrawlJob { crawler, options, .. } = job;
    let mut submitted = options.clone();
    let info = RemoteCrawl::info(shared).await?;
    let saved = info.as_ref().and_then(|info| SavedOptions::read(&info.metadata, &shared.redis.crawl).ok());
    match (&info, &saved) {
        (None, _) => RemoteCrawl::check_outputs(&crawler, shared, options.workers() as u16)?,
        (Some(_), Some(saved)) => options.check_seeds_of(saved).map_err(Error::InvalidSetting)?,
        (Some(_), None) => {}
    }
    // The seeds that `crawler submit` has added stay in scope.
    let saved_options = SavedOptions::distributed(&options.clone().with_seeds_of(saved.as_ref()));
    let metadata = saved_options.to_bytes();
    // The crawl has the seeds of its lists, unless the process that read them was stopped before their end.
    if let Some(info) = &info
        && !matches!(info.state.phase, Phase::Seeding)
        && saved.is_some()
    {
        submitted.sources.seed_files.clear();
        submitted.is_resumed = true;
    }
    let remote = RemoteCrawl::open(crawler, shared).await?;
    let changed = saved.as_ref().map_or_else(Vec::new, |saved| options.differs_from(saved));
    if !changed.is_empty() {
        let message = format!("the crawl continues with changed options: {}", changed.join(", "));
        log::informed(&*shared.notice, &message);
    }
    if let Some(warning) = remote.durability_warning().await? {
        log::warned(&*shared.notice, &warning);
    }
    let resumed = match &info {
        None => ResumeStatus::New,
        Some(info) if info.has_result && info.is_finished() && info.metadata == metadata => {
            if let Some(report) = remote.report(ResumeStatus::AlreadyFinished).await? {
                return Ok(report);
            }
            ResumeStatus::Resumed
        }
        Some(_) => ResumeStatus::Resumed,
    };
    // Those of an earlier controller that was killed.
    cookie_parts(&options).iter().for_each(|part| drop(fs::remove_file(part)));
    display.show(&remote.status().await?.view());
    let submitted = submitted.validate().map_err(Error::InvalidSetting)?;
    remote.submit(NewMetadata::Settings(&metadata), submitted.crawler, shared).await?;
    let mut supervisor = Supervisor::new(shared, &options, Arc::clone(display), reader.clone());
    let report = supervise(&remote, &mut supervisor, resumed, shared, display, stop).await;
    if report.is_err() {
        // The children may not learn it from Redis.
        supervisor.terminate();
    }
    supervisor.wait_for_exit().await;
    if let Err(Error::InvalidSetting(_)) = &report
        && resumed == ResumeStatus::New
    {
        // If this fails too, the first error is the one to report.
        let _ = discard_unstarted(&remote, shared).await;
    }
    report
}

/// Deletes a crawl that this command created, if no request was sent: the corrected command can then create it.
async fn discard_unstarted(remote: &RemoteCrawl, shared: &SharedCrawl) -> Result<(), Error> {
    let CrawlStatus { members, snapshot, .. } = remote.status().await?;
    if snapshot.requests == 0 && !members.iter().any(|member| RemoteCrawl::is_alive(member, shared)) {
        DistributedCrawl::purge(&shared.redis).await?;
    }
    Ok(())
}

/// Keeps the roles running until the crawl has ended, and returns its result.
async fn supervise(
    remote: &RemoteCrawl,
    supervisor: &mut Supervisor,
    resumed: ResumeStatus,
    shared: &SharedCrawl,
    display: &Display,
    stop: &StopHandle,
) -> Result<CrawlReport, Error> {
    let (mut last_shown, mut last_query) = (Instant::now(), None::<Instant>);
    let (mut stop_sent, mut loss_detector) = (None, CrawlLossDetector::new(shared));
    loop {
        // Before the phase is read: children exit after the phase has changed to ended.
        let has_exited = supervisor.reap();
        let is_stopping = stop.is_stop_requested() && stop_sent.is_none();
        if let Some(last_query) = last_query
            && last_query.elapsed() < shared.heartbeat_interval()
            && !(has_exited || is_stopping || supervisor.has_start_due_since(last_query))
        {
            tokio::time::sleep(POLL_INTERVAL).await;
            continue;
        }
        last_query = Some(Instant::now());
        // While the children cannot send heartbeats, they do not hang.
        remote.wait_until_writable().await?;
        let (members, state) = remote.members().await?;
        let is_active = matches!(state.phase, Phase::Seeding | Phase::Running);
        if !is_active && let Some(report) = remote.report(resumed).await? {
            return Ok(report);
        }
        let is_missing = matches!(state.phase, Phase::Unknown | Phase::Purged);
        if loss_detector.is_final(&state.phase) || is_missing && stop.is_stop_requested() {
            return Err(redis_error(StorageErrorKind::NotFound, loss_detector.message(&state.phase)));
        }
        if is_missing {
            tokio::time::sleep(POLL_INTERVAL).await;
            continue;
        }
        if is_stopping {
            stop_sent = Some(Instant::now());
            remote.stop().await?;
        }
        if stop_sent.is_some_and(|since| since.elapsed() > 2 * shared.dead_after + STOP_TIMEOUT) {
            let message = "cannot sum up the stopped crawl: no frontier has reported; see the messages above";
            return Err(redis_error(StorageErrorKind::Io, message));
        }
        // The frontier is needed until it has summed up the crawl, workers only while there is work.
        let is_running = is_active && !stop.is_stop_requested();
        supervisor.kill_hung(is_running, &members);
        supervisor.restart_exited(is_running, |role| RemoteCrawl::is_taken(&members, role, shared))?;
        if last_shown.elapsed() >= SHOW_INTERVAL {
            last_shown = Instant::now();
            let status = remote.status().await?;
            display.show_with(&status.view(), warnings::of_distributed(&status));
        }
    }
}
