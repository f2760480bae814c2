//! Pages as JSON lines to the standard input of a program, for modules in any language.
//!
//! The program is run by `sh -c`, and gets one line a page (what is in it, [`jsonl`](super::jsonl::Jsonl) knows). What it
//! prints is passed through. At the end its input is closed.
//!
//! No page is lost when the program dies, nor when the crawl does:
//!
//! - A page counts as seen when it is in the pipe: the program can read it from there even after the crawl was killed.
//! - A line is written only when the one before has been read. So, however much the program reads at a time, at most
//!   one page can be in work and one in the pipe when it dies; a new program is sent these again. One that ended with
//!   success has finished what it read, and only what it did not read is sent again.
//! - A program that has died is started again after a pause that doubles, until it has died [`MOST_RESTARTS`] times in
//!   a row without finishing a page. Then it is given up, and each further page is an error.
//!
//! (A program that reads on while pages wait inside it answers for those itself.)
//!
//! A slow program slows the crawl down. One that reads nothing at all for [`STALL`] does not stop it: its pages are
//! errors, at once, until it reads again.

mod child_process;
mod feeder;
mod line_queue;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use self::feeder::ProcessFeeder;
use self::line_queue::LineQueue;
use super::{Module, jsonl};
use crate::page::Page;

/// How often in a row a program is started again although it finished no page.
pub const MOST_RESTARTS: u32 = 5;

/// How long a program may read nothing before pages no longer wait for it: long enough for slow work on a page.
pub const STALL: Duration = Duration::from_secs(30);

/// How long a program may take from the last page to its end, before it is killed.
pub const LAST_WORK: Duration = Duration::from_secs(60);

/// The same where the crawl was told to end.
pub const LAST_WORK_IN_A_HURRY: Duration = Duration::from_secs(5);

/// The pause before the first restart; each further one in a row is twice as long.
const FIRST_RESTART: Duration = Duration::from_millis(100);

/// How long the program may fail over the last page and still get it again. Later than that, its input is closed,
/// and a failure over the page cannot be told from one over the end.
const SETTLE: Duration = Duration::from_millis(250);

/// The times a program is given.
#[derive(Debug, Clone, Copy)]
struct Times {
    stall: Duration,
    last_work: Duration,
    first_restart: Duration,
    settle: Duration,
}

const TIMES: Times =
    Times { stall: STALL, last_work: LAST_WORK, first_restart: FIRST_RESTART, settle: SETTLE };

/// A program that sees each page.
#[derive(Debug)]
pub struct Exec {
    command: String,
    times: Times,
    desk: Arc<LineQueue>,
    /// From the first page to the end.
    feeder: Mutex<Option<JoinHandle<()>>>,
}

impl Exec {
    /// Will run a command, from the first page on.
    pub fn new(command: &str) -> Exec {
        Exec::with(command, TIMES)
    }

    fn with(command: &str, times: Times) -> Exec {
        Exec { command: command.into(), times, desk: Arc::default(), feeder: Mutex::default() }
    }

    fn start(&self) -> Result<(), String> {
        let mut feeder = self.feeder.lock().unwrap_or_else(PoisonError::into_inner);
        if feeder.is_none() && !self.desk.is_closed() {
            let work = ProcessFeeder::new(&self.command, self.times, self.desk.clone());
            let thread = thread::Builder::new().name("exec".into()).spawn(move || work.run());
            *feeder = Some(thread.map_err(|error| format!("cannot start a thread: {error}"))?);
        }
        Ok(())
    }

    fn named(&self, what: String) -> String {
        format!("program '{}' {what}", self.command)
    }
}

impl Module for Exec {
    fn name(&self) -> &str {
        "exec"
    }

    fn process_page(&self, page: &Page) -> Result<(), String> {
        self.start()?;
        let line = jsonl::line_with_content(page);
        self.desk.hand_in(line, self.times.stall).map_err(|what| self.named(what))
    }

    fn shutdown_requested(&self) {
        self.desk.close(self.times.last_work.min(LAST_WORK_IN_A_HURRY));
    }

    fn finish(&self) -> Result<(), String> {
        self.desk.close(self.times.last_work);
        let feeder = self.feeder.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Without a thread no page ever came, or the end has been told before.
        let Some(thread) = feeder else { return Ok(()) };
        thread.join().map_err(|_| self.named("was left by its thread".into()))?;
        self.desk.end().map_err(|what| self.named(what))
    }

    fn summary(&self) -> Option<String> {
        Some(self.named(self.desk.account()))
    }
}

/// A module that was never told of the end still ends its program.
impl Drop for Exec {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

#[cfg(test)]
mod tests;
