//! Stops a crawl when the reader of standard output closes it (`| head`), if its pages go nowhere else.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crawler::internal::modules::stdout::wait_until_stdout_closed;
use crawler::internal::pipeline::{CrawlEnd, CrawlReport};
use crawler::internal::stop::StopHandle;

use rustix::fs::{OFlags, fcntl_getfl};

use super::summary_file::is_stdout;
use crate::args::{CrawlOptions, writes_to_stdout};

/// Rejects a crawl whose pages or summary would go to a standard output that was closed (`>&-`). The runtime opens /dev/null for
/// reading and writing in its place; a shell opens it for writing only. A program that opens it for both cannot be distinguished.
pub fn check_open(options: &CrawlOptions) -> Result<(), String> {
    let is_used = options.module.iter().any(|module| writes_to_stdout(module))
        || options.summary.as_deref().is_some_and(is_stdout);
    match is_used && is_replaced().unwrap_or(false) {
        false => Ok(()),
        true => {
            Err("cannot write to standard output: it is closed, or /dev/null that is open for reading, too; redirect it to a file or a program".into())
        }
    }
}

fn is_replaced() -> io::Result<bool> {
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let is_null = stdout.metadata()?.rdev() == fs::metadata("/dev/null")?.rdev();
    Ok(is_null && fcntl_getfl(&stdout)?.contains(OFlags::RDWR))
}

/// The reader of standard output. Clones are the same reader.
#[derive(Clone, Default)]
pub struct StdoutReader {
    /// Stops the crawl, unless its pages go elsewhere too.
    stop: Option<StopHandle>,
    /// Whether pages or outcomes are printed, by this process and not only by programs that it runs.
    is_read: bool,
    is_closed: Arc<AtomicBool>,
}

impl StdoutReader {
    /// The reader of a crawl that `stop` stops.
    pub fn new(options: &CrawlOptions, stop: &StopHandle) -> StdoutReader {
        StdoutReader {
            stop: options.writes_only_to_stdout().then(|| stop.clone()),
            is_read: options.prints_while_it_runs(),
            is_closed: Arc::default(),
        }
    }

    /// A reader that stops nothing.
    pub fn ignored() -> StdoutReader {
        StdoutReader::default()
    }

    /// Stops the crawl as soon as the reader is gone, also if nothing is printed any more.
    pub fn watch(&self) {
        if let (Some(stop), true) = (self.stop.clone(), self.is_read) {
            let is_closed = Arc::clone(&self.is_closed);
            // The thread ends with the process. Without it, the next write stops the crawl.
            let watch = thread::Builder::new().name("standard output".into()).spawn(move || {
                wait_until_stdout_closed();
                is_closed.store(true, Ordering::Relaxed);
                stop.stop();
            });
            drop(watch);
        }
    }

    /// Stops the crawl if this result of a write says that the reader is gone. Other errors are ignored.
    pub fn check(&self, written: &io::Result<()>) {
        if let (Some(stop), Err(error)) = (&self.stop, written)
            && error.kind() == ErrorKind::BrokenPipe
        {
            self.is_closed.store(true, Ordering::Relaxed);
            stop.stop();
        }
    }

    /// The report of the crawl, with the reason why it was stopped.
    pub fn explain(&self, mut report: CrawlReport) -> CrawlReport {
        if report.end == CrawlEnd::Stopped && self.is_closed.load(Ordering::Relaxed) {
            report.end = CrawlEnd::OutputClosed;
        }
        report
    }
}
