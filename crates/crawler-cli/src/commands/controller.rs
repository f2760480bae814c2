//! The controller of a crawl that processes share: `crawler crawl URL… --redis URL`.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crawler::Error;
use crawler::internal::backend::redis::Phase;
use crawler::internal::distributed::crawl_loss::CrawlLossDetector;
use crawler::internal::distributed::remote::RemoteCrawl;
use crawler::internal::distributed::{Notice, SharedCrawl};
use crawler::internal::pipeline::ResumeStatus;
use crawler::internal::stop::StopHandle;

use super::supervisor::Supervisor;
use crate::args::CrawlJob;
use crate::commands::crawl::display::Display;
use crate::commands::crawl::outcome_log::OutcomeLog;
use crate::commands::crawl::saved_options::SavedOptions;
use crate::commands::crawl::summary_file::SummaryFile;
use crate::commands::crawl::{conclude, status_of};
use crate::printable::print_error;
use crate::{EXIT_USAGE, signals};

/// How often the controller looks after its children.
const LOOK: Duration = Duration::from_millis(100);

/// How long a crawl that was told to stop may take for it, besides the time in which the dead are found.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often it shows how things stand.
const SHOW: Duration = Duration::from_secs(1);

/// Begins a crawl on Redis, or goes on with it, and sees to it that there are a frontier and workers until it is over.
/// Returns the exit status.
pub async fn run(job: CrawlJob) -> u8 {
    let display = Arc::new(Display::new(&job.options));
    let shown = Arc::clone(&display);
    let notice: Notice = Arc::new(move |message: &str| shown.say(&format!("crawler: {message}")));
    let prepared = job.options.shared(notice).and_then(|sharing| {
        let summary = job.options.summary.as_deref().map(SummaryFile::at).transpose()?;
        Ok((sharing, summary))
    });
    let (mut sharing, summary_file) = match prepared {
        Ok((Some(sharing), summary)) => (sharing, summary),
        Ok((None, _)) => return EXIT_USAGE,
        Err(error) => {
            print_error(&error);
            return EXIT_USAGE;
        }
    };
    let options = job.options.clone();
    let (stop, ended_by) = (StopHandle::new(), Cell::new(None));
    sharing.redis.manner.stop = stop.clone();
    let report = tokio::select! {
        report = control(job, &sharing, &display, &stop) => report,
        never = signals::watch(&stop, &ended_by, |message| display.say(message), || display.clear()) => match never {},
    };
    display.clear();
    match report {
        Ok(report) => {
            let account = OutcomeLog::new(&options);
            let status = conclude(&options, &report, &display, &account, None, summary_file);
            ended_by.get().unwrap_or(status)
        }
        Err(error) => {
            print_error(&error.to_string());
            ended_by.get().unwrap_or(status_of(&error))
        }
    }
}

async fn control(
    job: CrawlJob,
    sharing: &SharedCrawl,
    display: &Arc<Display>,
    stop: &StopHandle,
) -> Result<crawler::internal::pipeline::CrawlReport, Error> {
    let CrawlJob { crawler, options, .. } = job;
    let begun = RemoteCrawl::info(sharing).await?;
    // What others have submitted since stays within its scope.
    let submitted =
        begun.as_ref().and_then(|begun| SavedOptions::read(&begun.note, &sharing.redis.crawl).ok());
    let note = SavedOptions::shared(&options.clone().with_seeds_of(submitted.as_ref())).to_bytes();
    let changed = submitted.as_ref().map_or_else(Vec::new, |before| options.differs_from(before));
    if !changed.is_empty() {
        (sharing.notice)(&format!("the crawl goes on with another {} than before", changed.join(", ")));
    }
    let seeds = crawler.seeds().to_vec();
    let remote = RemoteCrawl::open(crawler, sharing).await?;
    if let Some(warning) = remote.durability_warning().await? {
        (sharing.notice)(&warning);
    }
    let resumed = match &begun {
        None => ResumeStatus::No,
        Some(begun) if begun.has_result && begun.is_finished() && begun.note == note => {
            if let Some(report) = remote.report(ResumeStatus::Finished).await? {
                return Ok(report);
            }
            ResumeStatus::Yes
        }
        Some(_) => ResumeStatus::Yes,
    };
    display.show(&remote.status().await?.snapshot);
    remote.submit(&note, &seeds).await?;
    let mut children = Supervisor::new(sharing, &options, Arc::clone(display));
    let report = look_after(&remote, &mut children, resumed, sharing, display, stop).await;
    if report.is_err() {
        // They may not learn it from Redis.
        children.dismiss();
    }
    children.end().await;
    report
}

/// Sees to it that there are those who work on the crawl, until it is over.
async fn look_after(
    remote: &RemoteCrawl,
    children: &mut Supervisor,
    resumed: ResumeStatus,
    sharing: &SharedCrawl,
    display: &Display,
    stop: &StopHandle,
) -> Result<crawler::internal::pipeline::CrawlReport, Error> {
    let mut shown = Instant::now();
    let (mut told_to_stop, mut absence) = (None, CrawlLossDetector::new(sharing));
    loop {
        let (members, course) = remote.members().await?;
        if !matches!(course.phase, Phase::Opening | Phase::Running)
            && let Some(report) = remote.report(resumed).await?
        {
            return Ok(report);
        }
        let is_absent = matches!(course.phase, Phase::Unknown | Phase::Purged);
        if absence.is_final(&course.phase) || is_absent && stop.is_stop_requested() {
            return Err(Error::Storage(absence.message(&course.phase)));
        }
        if is_absent {
            tokio::time::sleep(LOOK).await;
            continue;
        }
        if stop.is_stop_requested() && told_to_stop.is_none() {
            told_to_stop = Some(Instant::now());
            remote.stop().await?;
        }
        if told_to_stop.is_some_and(|since| since.elapsed() > 2 * sharing.dead_after + PATIENCE) {
            return Err(Error::Storage(
                "the crawl was stopped, but nobody could sum it up; see the messages above".into(),
            ));
        }
        // A frontier is needed to the end; workers only as long as there is work.
        let is_under_way =
            matches!(course.phase, Phase::Opening | Phase::Running) && !stop.is_stop_requested();
        children.look_after(is_under_way, |role| RemoteCrawl::is_taken(&members, role, sharing))?;
        if shown.elapsed() >= SHOW {
            shown = Instant::now();
            display.show(&remote.status().await?.snapshot);
        }
        tokio::time::sleep(LOOK).await;
    }
}
