//! The report of `--report`, which is written when a crawl ends.

use std::cell::Cell;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use tokio::runtime::Handle;

use super::content::ReportContent;
use super::file::{ReportFile, ReportMarkup};
use super::given_options::GivenOptions;
use super::live::LiveCollector;
use super::stored;
use crate::EXIT_NOT_WRITTEN;
use crate::args::CrawlSource;
use crate::commands::with_hint;
use crate::printable::print_error;

/// How long stored pages are searched for links to failed URLs.
pub const MAX_SEARCH_TIME: Duration = Duration::from_secs(60);

/// The same after a signal: the user waits for the end.
const MAX_SEARCH_TIME_STOPPED: Duration = Duration::from_secs(5);

/// A report that takes longer is announced.
const ANNOUNCE_AFTER: Duration = Duration::from_secs(1);

/// The report of a crawl that runs.
pub struct EndReport {
    file: ReportFile,
    origin: Origin,
}

/// Writes the report of a crawl, if there is one, and returns the exit status, which was `status` before. A signal that has
/// stopped the crawl decides it. `say` prints where the report is.
pub async fn conclude(
    report: Option<EndReport>,
    status: u8,
    signal_status: &Cell<Option<u8>>,
    say: impl Fn(&str),
) -> u8 {
    let Some(report) = report else { return status };
    let written = report.write(signal_status.get().is_some());
    match announced(written, || say("writing the report…")).await {
        Ok(message) => {
            message.iter().for_each(|message| say(message));
            status
        }
        Err(error) => {
            print_error(&error);
            signal_status.get().unwrap_or(EXIT_NOT_WRITTEN)
        }
    }
}

/// Waits for work, and announces it if it takes long.
async fn announced<T>(work: impl Future<Output = T>, announce: impl FnOnce()) -> T {
    let mut work = pin!(work);
    if let Ok(done) = tokio::time::timeout(ANNOUNCE_AFTER, &mut work).await {
        return done;
    }
    announce();
    work.await
}

/// Where the report gets the crawl from.
enum Origin {
    /// The crawl stores what it does.
    Stored(CrawlSource),
    /// The crawl stores nothing: the report has seen it. It knows the links of pages if that is so.
    Live { collector: LiveCollector, given: GivenOptions, has_links: bool },
}

impl EndReport {
    /// The report on a crawl that is stored. Checks that the file can be written.
    pub fn of_stored(path: &Path, source: CrawlSource) -> Result<EndReport, String> {
        EndReport::new(path, Origin::Stored(source))
    }

    /// The report on a crawl that is not stored. Checks that the file can be written.
    pub fn of_live(path: &Path, given: GivenOptions, has_links: bool) -> Result<EndReport, String> {
        EndReport::new(path, Origin::Live { collector: LiveCollector::new(), given, has_links })
    }

    fn new(path: &Path, origin: Origin) -> Result<EndReport, String> {
        // The parser of the option has checked the extension.
        let markup = ReportMarkup::of_path(path).unwrap_or(ReportMarkup::Html);
        Ok(EndReport { file: ReportFile::new("--report", path, markup)?, origin })
    }

    /// What has to see the crawl, if it is not stored.
    pub fn collector(&self) -> Option<&LiveCollector> {
        match &self.origin {
            Origin::Stored(_) => None,
            Origin::Live { collector, .. } => Some(collector),
        }
    }

    /// Writes the report on a crawl that has ended, by a signal if it `is_stopped`. Returns what to say: where it is. The error is
    /// a sentence.
    pub async fn write(self, is_stopped: bool) -> Result<Option<String>, String> {
        let max_time = if is_stopped { MAX_SEARCH_TIME_STOPPED } else { MAX_SEARCH_TIME };
        let runtime = Handle::current();
        // Reading a state and searching its pages block.
        let written = tokio::task::spawn_blocking(move || {
            let EndReport { file, origin } = self;
            let content = match origin {
                Origin::Stored(source) => {
                    let content = runtime.block_on(stored::content(&source, max_time));
                    content.map_err(|error| format!("cannot write the report: {}", with_hint(&error)))?
                }
                Origin::Live { collector, given, has_links } => match collector.take(has_links) {
                    Some((view, urls)) => ReportContent::new(given, view, urls),
                    None => return Ok(None),
                },
            };
            file.write(&content)?;
            Ok(Some(format!("report: {}", file.path().display())))
        });
        written.await.map_err(|error| format!("cannot write the report: {error}"))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_work_that_takes_long_is_announced() {
        let is_announced = Cell::new(false);
        assert_eq!(announced(async { 1 }, || is_announced.set(true)).await, 1);
        assert!(!is_announced.get());
        let slow = async {
            while !is_announced.get() {
                tokio::task::yield_now().await;
            }
            2
        };
        assert_eq!(announced(slow, || is_announced.set(true)).await, 2);
    }
}
