//! Changes a crawl that another process runs: `crawler pause`, `unpause`, `change` and `stop`.

use std::path::{Path, PathBuf};

use crawler::internal::backend::durable::StateReader;
use crawler::internal::backend::redis::no_such_crawl;
use crawler::internal::distributed::SharedCrawl;
use crawler::internal::distributed::remote::RemoteCrawl;
use crawler::internal::error::redis_error;
use crawler::internal::live_settings::{ControlAction, ControlError};
use crawler::{Error, StorageErrorKind};

use crate::EXIT_FAILED;
use crate::args::{ChangeJob, CrawlSource};
use crate::commands::crawl::resume_hints::quoted;
use crate::commands::crawl::status_of;
use crate::commands::{remote, with_hint};
use crate::printable::{print_error, print_stdout, printable};

/// What was done, or why it was not.
type Changed = Result<Result<String, String>, Error>;

/// Why the crawl in a state directory was not changed, with the command that starts it if no process runs it.
pub fn explain(error: ControlError, directory: &Path) -> String {
    with_command(error, || format!("crawler resume {}", quoted(directory)))
}

/// Why a distributed crawl was not changed, in the same way.
pub fn explain_distributed(error: ControlError, shared: &SharedCrawl) -> String {
    with_command(error, || format!("crawler crawl URL --redis <URL> --crawl {}", shared.redis.crawl))
}

fn with_command(error: ControlError, command: impl FnOnce() -> String) -> String {
    match error {
        ControlError::NotRunning(message) => format!("{message}; to resume it: {}", command()),
        ControlError::Failed(message) => message,
    }
}

/// Changes the crawl, and returns the exit status. After a change that cannot be made, the further ones are not tried.
pub async fn run(job: ChangeJob) -> u8 {
    for action in job.actions {
        let changed = match &job.source {
            CrawlSource::State(directory) => change_state(directory.clone(), action).await,
            CrawlSource::Redis(shared) => change_distributed(shared, action).await,
        };
        match report(changed, job.is_quiet) {
            0 => {}
            status => return status,
        }
    }
    0
}

/// Stops the crawl, and returns the exit status. A crawl that no process runs is stopped already.
pub async fn stop(job: ChangeJob) -> u8 {
    let stopped = match &job.source {
        CrawlSource::State(directory) => stop_state(directory.clone()).await,
        CrawlSource::Redis(shared) => remote::stop(shared).await.map(Ok),
    };
    report(stopped, job.is_quiet)
}

/// Prints what was done, and returns the exit status.
fn report(changed: Changed, is_quiet: bool) -> u8 {
    match changed {
        Ok(Ok(done)) if is_quiet || print_stdout(&format!("{}\n", printable(&done))) => 0,
        Ok(Ok(_)) => EXIT_FAILED,
        Ok(Err(why)) => {
            print_error(&why);
            EXIT_FAILED
        }
        Err(error) => {
            print_error(&with_hint(&error));
            status_of(&error)
        }
    }
}

async fn stop_state(directory: PathBuf) -> Changed {
    with_state(directory.clone(), move |state| {
        let name = directory.display();
        if state.status()?.process.is_none() {
            return Ok(Ok(format!("no process runs the crawl in '{name}'")));
        }
        let resume = format!("; to resume it: crawler resume {}", quoted(&directory));
        let stopped = state.control(ControlAction::Stop).map_err(|error| explain(error, &directory));
        Ok(stopped.map(|_| format!("stopping the crawl in '{name}'{resume}")))
    })
    .await
}

/// Asks the process that runs the crawl of a state.
async fn change_state(directory: PathBuf, action: ControlAction) -> Changed {
    with_state(directory.clone(), move |state| {
        Ok(state.control(action).map_err(|error| explain(error, &directory)))
    })
    .await
}

/// Reads a state on a thread of its own: a reader may wait for a moment, Ctrl-C need not.
async fn with_state(
    directory: PathBuf,
    ask: impl FnOnce(&mut StateReader) -> Changed + Send + 'static,
) -> Changed {
    let asked = tokio::task::spawn_blocking(move || ask(&mut StateReader::open(&directory)?));
    asked.await.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()))
}

async fn change_distributed(shared: &SharedCrawl, action: ControlAction) -> Changed {
    if RemoteCrawl::info(shared).await?.is_none() {
        return Err(redis_error(StorageErrorKind::NotFound, no_such_crawl(&shared.redis)));
    }
    let changed = RemoteCrawl::attach(shared).await?.control(action).await;
    Ok(changed.map_err(|error| explain_distributed(error, shared)))
}
