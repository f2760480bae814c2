//! The classic command: `crawler seedURL pageDirectory maxDepth`.

use std::cell::Cell;
use std::rc::Rc;

use crawler::Outcome;
use crawler::internal::classic::{ClassicCrawl, ClassicInternals as _, ClassicReport};
use crawler::internal::fetch::proxy_health::ProxyHealth;
use crawler::internal::fetch::robots::waits::RobotsWaits;
use crawler::internal::origin::{Origin, without_credentials};
use crawler::internal::scope::RejectReason;
use crawler::internal::stats::RequestCounter;
use crawler::internal::stop::StopHandle;
use url::Url;

use crate::args::{ClassicJob, Verbosity};
use crate::commands::cookie_file::CookieFile;
use crate::commands::crawl::status_of;
use crate::commands::{remedy, start_there, with_hint};
use crate::open_files::make_room;
use crate::printable::{print_error, print_stdout};
use crate::progress::Progress;
use crate::summary::Counts;
use crate::{EXIT_FAILED, EXIT_NOT_WRITTEN, EXIT_USAGE, signals};

/// Runs the command and returns its exit status.
pub async fn run(job: ClassicJob) -> u8 {
    let prepared = make_room(job.concurrency, &format!("--concurrency {}", job.concurrency))
        .and_then(|()| CookieFile::new(job.save_cookies.as_deref(), job.cookies));
    let cookie_file = match prepared {
        Ok(cookie_file) => cookie_file,
        Err(error) => {
            print_error(&error);
            return EXIT_USAGE;
        }
    };
    if let Some(warning) = job.warning.filter(|_| job.verbosity != Verbosity::Quiet) {
        print_error(warning);
    }
    let status = crawl(&job.seed, job.crawl, job.verbosity, Some(job.plan)).await;
    cookie_file.map_or(status, |file| file.write(status))
}

/// Crawls, after the plan of the crawl, shows the progress, prints the summary, and returns the exit status.
pub async fn crawl(seed: &Url, crawl: ClassicCrawl, verbosity: Verbosity, plan: Option<String>) -> u8 {
    let _size_limit = signals::survive_the_file_size_limit();
    let (requests, robots_waits) = (RequestCounter::default(), RobotsWaits::default());
    let proxy_health = ProxyHealth::default();
    let crawl = crawl.request_counter(requests.clone()).robots_waits(robots_waits.clone());
    let crawl = crawl.proxy_health(proxy_health.clone());
    let progress = Progress::new(verbosity, seed, requests, robots_waits);
    let progress = Rc::new(match plan {
        Some(plan) => progress.announce(plan),
        None => progress,
    });
    let stop = StopHandle::new();
    let signal_status = Rc::new(Cell::new(None));
    let tasks = tokio::task::LocalSet::new();
    let (shown, stopped, status) = (Rc::clone(&progress), stop.clone(), Rc::clone(&signal_status));
    let watch = tasks.spawn_local(async move {
        signals::watch(&stopped, &status, |message| shown.print(message), || shown.finish()).await
    });
    let shown = Rc::clone(&progress);
    let report_outages =
        tasks.spawn_local(async move { proxy_health.report(|message| shown.print(message)).await });
    let shown = Rc::clone(&progress);
    let show = tasks.spawn_local(async move { shown.keep_showing().await });
    let report = tasks.run_until(crawl.stop_handle(stop).run_with_observer(&*progress)).await;
    watch.abort();
    show.abort();
    report_outages.abort();
    progress.finish();
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            print_error(&with_hint(&error));
            return status_of(&error);
        }
    };
    let printed = verbosity == Verbosity::Quiet || print_stdout(&summary(&report));
    match signal_status.get().unwrap_or_else(|| exit_status(seed, &report)) {
        0 if !printed => EXIT_FAILED,
        status => status,
    }
}

fn summary(report: &ClassicReport) -> String {
    let table = Counts::from_stats(&report.stats).table(report.stats.elapsed);
    if report.stopped { table + "Stopped: on request\n" } else { table }
}

fn exit_status(seed: &Url, report: &ClassicReport) -> u8 {
    let unwritten = report.stats.count(&Outcome::WriteFailed { cause: String::new() });
    if unwritten > 0 {
        return EXIT_NOT_WRITTEN;
    }
    if let Outcome::Page | Outcome::NotSaved = report.seed {
        return 0;
    }
    let remedy = match &report.seed {
        Outcome::RedirectRejected { to, why: RejectReason::External } => redirect_remedy(seed, to),
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
