//! Shows a crawl that another process runs, or that has ended: `crawler dashboard DIR` and `crawler dashboard --redis URL`.

use crawler::Error;
use crawler::internal::backend::durable::StateReader;
use crawler::internal::distributed::remote::RemoteCrawl;
use crawler::internal::log;

use crate::args::{CrawlSource, DashboardJob};
use crate::commands::crawl::status_of;
use crate::commands::with_hint;
use crate::dashboard::{AnnouncementForm, Dashboard, RedisSource, Source, StateSource};
use crate::printable::{print_error, print_stderr, printable};
use crate::{EXIT_USAGE, signals};

/// Serves the dashboard until a signal ends it, and returns the exit status.
pub async fn run(job: DashboardJob) -> u8 {
    let source = match open(job.source).await {
        Ok(source) => source,
        Err(error) => {
            print_error(&with_hint(&error));
            return status_of(&error);
        }
    };
    let is_quiet = job.is_quiet;
    let log = move |message: &str| {
        if !is_quiet {
            print_stderr(&format!("{}\n", printable(message)));
        }
    };
    let dashboard = match Dashboard::start(&job.config, || source, log) {
        Ok(dashboard) => dashboard,
        Err(error) => {
            print_error(&error);
            return EXIT_USAGE;
        }
    };
    if let Some(dashboard) = &dashboard {
        let form = if is_quiet { AnnouncementForm::Quiet } else { AnnouncementForm::Text };
        dashboard.announce(form, |line| print_stderr(&format!("{line}\n")));
    }
    wait_for_signal().await
}

/// The crawl. A state must exist; a distributed crawl may start later.
async fn open(source: CrawlSource) -> Result<Source, Error> {
    match source {
        CrawlSource::State(directory) => {
            StateReader::open(&directory)?.status()?;
            Ok(Source::State(StateSource::new(directory)))
        }
        CrawlSource::Redis(shared) => {
            if RemoteCrawl::info(&shared).await?.is_none() {
                let message = format!("waiting for the crawl '{}' to start", shared.redis.crawl);
                log::informed(&*shared.notice, &message);
            }
            Ok(Source::Redis(RedisSource::new(*shared)))
        }
    }
}

/// Waits for the first signal. The second one ends the process, also while viewers get their last message.
async fn wait_for_signal() -> u8 {
    if let Some(mut first) = signals::exit_on_the_second()
        && first.changed().await.is_ok()
        && let Some((_, status)) = *first.borrow()
    {
        return status;
    }
    std::future::pending().await
}
