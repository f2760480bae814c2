//! Sends pages as JSON lines to the standard input of a program, for modules in any language.
//!
//! The program runs under `sh -c` and gets one line per page, with the keys of [`jsonl`](super::jsonl::Jsonl) and the
//! page's content. Its output is passed through. At the end of the crawl its input is closed.
//!
//! No page is lost if the program or the crawl crashes:
//!
//! - A line is written only after the program has read the line before it. So at most two pages are unfinished when the
//!   program exits, however much it reads at a time: one being processed and one in the pipe. They are sent again to a
//!   new program. A program that exits with status 0 has finished what it read; only unread lines are sent again.
//! - A page counts as processed when the program has read the next one, has exited with status 0, or runs on for a moment
//!   ([`PAGE_GRACE`]) after it has read the page. Until then the URL of the page stays pending.
//! - A program that exits is restarted after a delay that doubles, until it has exited more than [`MAX_RESTARTS`]
//!   times in a row without finishing a page. Then it is given up, and the crawl stops. A program that cannot be run is
//!   given up at once.
//!
//! A program that reads ahead while it holds unfinished pages is responsible for those itself. If it fails at the end of its
//! input, the crawl says so.
//!
//! A slow program slows the crawl down, and the crawl waits for a program that reads nothing. After [`STALL_TIMEOUT`] it
//! says so.

mod child_process;
mod feeder;
mod line_queue;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use self::feeder::ProcessFeeder;
use self::line_queue::LineQueue;
use super::{BuiltinModule, jsonl};
use crate::page::Page;

/// The end of the summary of a program that was given up.
pub const GIVEN_UP: &str = "given up";

/// How often in a row a program is restarted although it finished no page.
pub const MAX_RESTARTS: u32 = 5;

/// How long a program may read nothing before the crawl says that it waits for it. Long enough for slow work on a page.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a program may run after the last page before it is killed.
pub const EXIT_TIMEOUT: Duration = Duration::from_secs(60);

/// The same after a request to stop the crawl.
pub const SHUTDOWN_EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// The delay before the first restart. It doubles with each further restart in a row.
const FIRST_RESTART_DELAY: Duration = Duration::from_millis(100);

/// How long a program that has read a page must run on, once or twice, for the page to count as processed if no other page
/// follows. Long enough to crash on the page; no longer, because the links of the page wait for it.
pub const PAGE_GRACE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy)]
struct Timeouts {
    stall: Duration,
    exit: Duration,
    first_restart_delay: Duration,
    page_grace: Duration,
}

const TIMEOUTS: Timeouts = Timeouts {
    stall: STALL_TIMEOUT,
    exit: EXIT_TIMEOUT,
    first_restart_delay: FIRST_RESTART_DELAY,
    page_grace: PAGE_GRACE,
};

/// Runs a program that gets each page.
#[derive(Debug)]
pub struct Exec {
    command: String,
    timeouts: Timeouts,
    queue: Arc<LineQueue>,
    /// The feeder's thread, from the first page to the end.
    feeder: Mutex<Option<JoinHandle<()>>>,
}

impl Exec {
    /// A module that runs a command. The command starts with the first page.
    pub fn new(command: &str) -> Exec {
        Exec::with_timeouts(command, TIMEOUTS)
    }

    fn with_timeouts(command: &str, timeouts: Timeouts) -> Exec {
        Exec { command: command.into(), timeouts, queue: Arc::default(), feeder: Mutex::default() }
    }

    fn start(&self) -> Result<(), String> {
        let mut feeder = self.feeder.lock().unwrap_or_else(PoisonError::into_inner);
        if feeder.is_none() && !self.queue.is_closed() {
            let work = ProcessFeeder::new(&self.command, self.timeouts, self.queue.clone());
            let thread = thread::Builder::new().name("exec".into()).spawn(move || work.run());
            *feeder = Some(thread.map_err(|error| format!("cannot start a thread: {error}"))?);
        }
        Ok(())
    }

    /// A sentence about the program, for messages.
    fn describe(&self, what: String) -> String {
        format!("program '{}' {what}", self.command)
    }
}

impl BuiltinModule for Exec {
    fn name(&self) -> &str {
        "exec"
    }

    fn process_page(&self, page: &Page) -> Result<(), String> {
        self.start()?;
        let line = jsonl::line_with_content(page);
        self.queue
            .send(page.url.as_str(), line)
            .map_err(|cause| format!("cannot send {} to program '{}': it {cause}", page.url, self.command))
    }

    fn wants_pages(&self) -> bool {
        !self.queue.is_output_closed()
    }

    fn failure(&self) -> Option<String> {
        self.queue.failure().map(|cause| self.describe(cause))
    }

    fn notice(&self) -> Option<String> {
        let time = self.queue.stall(self.timeouts.stall)?;
        let seconds = time.as_secs();
        Some(self.describe(format!("has read nothing for {seconds} s; the crawl waits for it")))
    }

    fn waits_for_next_page(&self) -> bool {
        true
    }

    fn wants_found_on(&self) -> bool {
        false
    }

    fn shutdown_requested(&self) {
        self.queue.close(self.timeouts.exit.min(SHUTDOWN_EXIT_TIMEOUT));
    }

    fn finish(&self) -> Result<(), String> {
        self.queue.close(self.timeouts.exit);
        let feeder = self.feeder.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Without a thread there was no page, or the result was already returned.
        let Some(thread) = feeder else { return Ok(()) };
        thread.join().map_err(|_| self.describe("has lost the thread that feeds it".into()))?;
        self.failure().map_or(Ok(()), Err)
    }

    fn summary(&self) -> Option<String> {
        Some(self.describe(self.queue.summary()))
    }
}

/// A module that was not finished still stops its program.
impl Drop for Exec {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

#[cfg(test)]
mod tests;
