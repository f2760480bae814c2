//! The classic command: `crawler seedURL pageDirectory maxDepth`.

use std::cell::Cell;
use std::rc::Rc;

use crawler::internal::classic::{ClassicCrawl, ClassicReport};
use crawler::internal::origin::Origin;
use crawler::internal::outcome::Outcome;
use crawler::internal::scope::RejectReason;
use crawler::internal::stop::StopHandle;
use url::Url;

use crate::args::{ClassicJob, Verbosity};
use crate::commands::crawl::status_of;
use crate::open_files::make_room;
use crate::printable::{print_error, print_stdout};
use crate::progress::Progress;
use crate::summary::summary;
use crate::{EXIT_FAILED, EXIT_NOT_WRITTEN, EXIT_USAGE, signals};

/// Runs the command and returns its exit status.
pub async fn run(job: ClassicJob) -> u8 {
    match make_room(job.concurrency, &format!("--concurrency {}", job.concurrency)) {
        Ok(()) => crawl(&job.seed, job.crawl, job.verbosity).await,
        Err(error) => {
            print_error(&error);
            EXIT_USAGE
        }
    }
}

/// Crawls, shows progress, prints the summary, and returns the exit status.
pub async fn crawl(seed: &Url, crawl: ClassicCrawl, verbosity: Verbosity) -> u8 {
    let _size_limit = signals::survive_the_file_size_limit();
    let progress = Rc::new(Progress::new(verbosity));
    let stop = StopHandle::new();
    let ended_by = Rc::new(Cell::new(None));
    let tasks = tokio::task::LocalSet::new();
    let (shown, stopped, status) = (Rc::clone(&progress), stop.clone(), Rc::clone(&ended_by));
    let watch = tasks.spawn_local(async move {
        signals::watch(&stopped, &status, |message| shown.say(message), || shown.finish()).await
    });
    let shown = Rc::clone(&progress);
    let show = tasks.spawn_local(async move { shown.keep_showing().await });
    let report = tasks.run_until(crawl.stop_handle(stop).run_with_observer(&*progress)).await;
    watch.abort();
    show.abort();
    progress.finish();
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            print_error(&error.to_string());
            return status_of(&error);
        }
    };
    let printed = verbosity == Verbosity::Quiet || print_stdout(&summary(&report.stats));
    match ended_by.get().unwrap_or_else(|| exit_status(seed, &report)) {
        0 if !printed => EXIT_FAILED,
        status => status,
    }
}

fn exit_status(seed: &Url, report: &ClassicReport) -> u8 {
    let unwritten = report.stats.count(&Outcome::WriteFailed { cause: String::new() });
    if unwritten > 0 {
        return EXIT_NOT_WRITTEN;
    }
    if report.seed == Outcome::Page {
        return 0;
    }
    let remedy = match &report.seed {
        Outcome::RedirectRejected { to, why: RejectReason::External } => elsewhere(seed, to),
        Outcome::Redirect { .. } => ", in a circle".into(),
        Outcome::RobotsUnavailable { .. } => {
            "; try again later, or give --ignore-robots if the site is yours".into()
        }
        Outcome::RobotsDisallowed => "; give --ignore-robots if the site is yours".into(),
        _ => String::new(),
    };
    print_error(&format!("the seed yielded no page: {}{remedy}", report.seed));
    EXIT_FAILED
}

/// What to do about a seed that redirects out of what is internal. No prefix holds two origins, http and https of one
/// host included.
fn elsewhere(seed: &Url, to: &str) -> String {
    match Url::parse(to) {
        Ok(target) if Origin::from_url(&target) == Origin::from_url(seed) => {
            "; start there, or designate a prefix that holds both with --internal".into()
        }
        // Quoted, because it is from the web and will be pasted into a shell.
        _ => format!("; start there: crawler '{}' …", to.replace('\'', "%27")),
    }
}
