//! One process of a crawl that many share: `crawler frontier` and `crawler worker`.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use crawler::internal::backend::redis::Phase;
use crawler::internal::distributed::remote::RemoteCrawl;
use crawler::internal::distributed::{Notice, RoleExit, SharedCrawl};
use crawler::internal::pipeline::CrawlEnd;
use crawler::internal::stop::StopHandle;

use crate::args::{CrawlJob, CrawlOptions, RoleKind, RoleOptions, Verbosity};
use crate::commands::crawl::outcome_log::OutcomeLog;
use crate::commands::crawl::saved_options::SavedOptions;
use crate::commands::crawl::{connections, status_of};
use crate::printable::print_error;
use crate::{EXIT_FAILED, EXIT_NOT_WRITTEN, EXIT_USAGE, signals};

/// How long between two looks for a crawl that has not begun, or is over.
const LOOK: Duration = Duration::from_millis(500);

/// How long a Redis that was there is waited for; a clock can count so far.
const FOR_EVER: Duration = Duration::from_secs(1 << 32);

/// Works on a crawl until it is over, and returns the exit status.
pub async fn run(part: RoleKind, role: RoleOptions) -> u8 {
    let is_quiet = role.options.fetch.verbosity() == Verbosity::Quiet;
    let notice: Notice = Arc::new(move |message: &str| {
        if !is_quiet {
            print_error(message);
        }
    });
    let mut sharing = match role.options.shared(Arc::clone(&notice)) {
        Ok(Some(sharing)) => sharing,
        Ok(None) => unreachable_redis(),
        Err(error) => {
            print_error(&error);
            return EXIT_USAGE;
        }
    };
    let _size_limit = signals::survive_the_file_size_limit();
    let (stop, ended_by) = (StopHandle::new(), Cell::new(None));
    sharing.redis.manner.stop = stop.clone();
    let say = |message: &str| notice(message);
    tokio::select! {
        status = work(part, &role, sharing, &stop) => ended_by.get().unwrap_or(status),
        never = signals::watch(&stop, &ended_by, say, || {}) => match never {},
    }
}

/// Clap does not let a role through without it.
fn unreachable_redis() -> ! {
    print_error("give --redis");
    std::process::exit(EXIT_USAGE.into())
}

async fn work(part: RoleKind, role: &RoleOptions, mut sharing: SharedCrawl, stop: &StopHandle) -> u8 {
    loop {
        let begun = match begun(role, &mut sharing, stop).await {
            Ok(Some(begun)) => begun,
            Ok(None) => return 0,
            Err(status) => return status,
        };
        // When others count as dead must be the same for all, or two would ask a host.
        let dead_after = begun.sharing.dead_after;
        let job = role.options.clone().over(begun).and_then(CrawlOptions::validate);
        let CrawlJob { crawler, options, .. } = match job {
            Ok(job) => job,
            Err(error) => {
                print_error(&error);
                return EXIT_USAGE;
            }
        };
        let sharing = SharedCrawl { dead_after, ..sharing.clone() };
        let max_idle = match connections(1, options.concurrency) {
            Ok(max_idle) => max_idle,
            Err(error) => {
                print_error(&error);
                return EXIT_USAGE;
            }
        };
        let account = OutcomeLog::new(&options);
        let crawler =
            crawler.configure(|config| config.max_idle_connections = max_idle).stop_handle(stop.clone());
        let crawler = crawler.on_outcome(move |url, outcome| account.ended(url, outcome));
        let working = tokio::task::spawn_blocking(move || match part {
            RoleKind::Frontier => crawler.run_frontier(&sharing),
            RoleKind::Worker(id) => crawler.run_worker(&sharing, id),
        });
        match working.await {
            Ok(Ok(RoleExit::Stopped)) => return 0,
            Ok(Ok(RoleExit::Over(CrawlEnd::OutputFailed))) if !role.stay => return EXIT_NOT_WRITTEN,
            Ok(Ok(RoleExit::Over(_))) if !role.stay => return 0,
            // It goes on as a new member, with what the crawl is told by now.
            Ok(Ok(_)) => tokio::time::sleep(LOOK).await,
            Ok(Err(error)) => {
                print_error(&error.to_string());
                return status_of(&error);
            }
            Err(failed) => match failed.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => return EXIT_FAILED,
            },
        }
    }
}

/// What the crawl was told when it was begun; waits for that. Nothing if there is nothing to wait for.
async fn begun(
    role: &RoleOptions,
    sharing: &mut SharedCrawl,
    stop: &StopHandle,
) -> Result<Option<CrawlOptions>, u8> {
    let (name, mut told) = (sharing.redis.crawl.clone(), false);
    loop {
        if stop.is_stop_requested() {
            return Ok(None);
        }
        let begun = RemoteCrawl::info(sharing).await.map_err(|error| {
            print_error(&error.to_string());
            status_of(&error)
        })?;
        // The address is right: should nobody be there later, that will pass.
        sharing.redis.manner.patience = FOR_EVER;
        let waits_for = match begun {
            None => "begin",
            Some(begun) => match begun.state.phase {
                Phase::Over(_) if begun.has_result && role.stay => "be opened again",
                Phase::Over(_) if begun.has_result => {
                    (sharing.notice)(&format!("the crawl '{name}' is over; 'crawler submit' opens it again"));
                    return Ok(None);
                }
                _ => {
                    let options = SavedOptions::read(&begun.note, &name).map_err(|error| {
                        print_error(&error);
                        EXIT_USAGE
                    })?;
                    return Ok(Some(options));
                }
            },
        };
        if !std::mem::replace(&mut told, true) {
            (sharing.notice)(&format!("waiting for the crawl '{name}' to {waits_for}"));
        }
        tokio::time::sleep(LOOK).await;
    }
}
