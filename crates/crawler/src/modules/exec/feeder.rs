//! The thread that writes lines to a program and restarts it when it exits.

use std::collections::VecDeque;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::child_process::{ChildProcess, FeedError};
use super::line_queue::{Line, LineQueue, Next};
use super::{MAX_RESTARTS, Timeouts};
use crate::format::counted;
use crate::modules::stdout::is_stdout_closed;

/// The exit statuses of `sh` for a command that cannot be executed or is not found. A restart would not help.
const CANNOT_RUN: [i32; 2] = [126, 127];

/// Writes lines to a program, and to its successors.
pub(super) struct ProcessFeeder {
    command: String,
    timeouts: Timeouts,
    queue: Arc<LineQueue>,
    program: Option<ChildProcess>,
    /// Lines to write next, in order.
    to_write: VecDeque<Line>,
    /// Lines that the program may not have finished: the one being processed and the one in the pipe.
    unfinished: VecDeque<Line>,
    /// How many lines the program that runs now has got.
    sent: u64,
    /// The URL of the page that it got last.
    last_url: String,
    /// The last line had been read when the feeder last looked.
    was_read: bool,
    /// How often in a row the program exited without finishing a page.
    exits: u32,
    /// How it exited the last time.
    last_exit: String,
    /// It exited with a status of [`CANNOT_RUN`].
    cannot_run: bool,
}

/// Why the feeder sends no more lines.
enum Abandoned {
    /// The program failed.
    Failed(String),
    /// The reader of what the program prints has gone.
    OutputClosed,
}

impl From<String> for Abandoned {
    fn from(cause: String) -> Abandoned {
        Abandoned::Failed(cause)
    }
}

impl ProcessFeeder {
    pub(super) fn new(command: &str, timeouts: Timeouts, queue: Arc<LineQueue>) -> ProcessFeeder {
        ProcessFeeder {
            command: command.into(),
            timeouts,
            queue,
            program: None,
            to_write: VecDeque::new(),
            unfinished: VecDeque::new(),
            sent: 0,
            last_url: String::new(),
            was_read: false,
            exits: 0,
            last_exit: String::new(),
            cannot_run: false,
        }
    }

    /// Writes lines until the queue is closed, then waits for the program to exit.
    pub(super) fn run(mut self) {
        match self.feed() {
            Ok(()) => {}
            Err(Abandoned::Failed(cause)) => self.queue.abandon(cause + &self.doubtful_page()),
            Err(Abandoned::OutputClosed) => self.queue.output_closed(),
        }
    }

    fn feed(&mut self) -> Result<(), Abandoned> {
        loop {
            let is_in_doubt = self.unfinished.back().is_some_and(|line| !self.queue.is_finished(line.number));
            match self.queue.next(is_in_doubt.then_some(self.timeouts.page_grace)) {
                Next::Line(line) => self.to_write.push_back(line),
                Next::Idle => self.finish_last_line()?,
                Next::Closed(deadline) => return self.finish(deadline),
            }
            self.write_all()?;
            self.wait_for_last_line()?;
        }
    }

    /// Waits until the program has read the last line, if it has not finished the line before until then.
    fn wait_for_last_line(&mut self) -> Result<(), Abandoned> {
        while let (2.., Some(program)) = (self.unfinished.len(), &self.program) {
            let read = program.wait_until_read(&mut |has_read| self.queue.on_progress(has_read));
            if read.is_ok() {
                self.forget_all_but(1);
            }
            self.recover(read)?;
            self.write_all()?;
        }
        Ok(())
    }

    /// Writes all pending lines, restarting the program as often as needed.
    fn write_all(&mut self) -> Result<(), Abandoned> {
        while !self.to_write.is_empty() {
            let written = self.write_next();
            self.recover(written)?;
        }
        Ok(())
    }

    fn write_next(&mut self) -> Result<(), FeedError> {
        let queue = self.queue.clone();
        let on_progress = &mut |has_read| queue.on_progress(has_read);
        if self.program.is_none() {
            (self.program, self.sent) = (Some(self.start()?), 0);
        }
        let Some(program) = &mut self.program else { return Err(FeedError::Exited) };
        program.wait_until_read(on_progress)?;
        // The program has read the last line, so it has finished the lines before.
        self.forget_all_but(1);
        if let (Some(line), Some(program)) = (self.to_write.pop_front(), &mut self.program) {
            (self.sent, self.last_url) = (self.sent + 1, line.url.clone());
            self.unfinished.push_back(line);
            self.was_read = false;
            program.write(&self.unfinished[self.unfinished.len() - 1].bytes, on_progress)?;
        }
        Ok(())
    }

    /// Decides about the last line when no other follows: it counts as finished if the program runs on for some time after
    /// it has read it.
    fn finish_last_line(&mut self) -> Result<(), Abandoned> {
        let Some(program) = &self.program else { return Ok(()) };
        let outcome = match program.has_read_all() {
            true => program.stays_alive_for(Duration::ZERO),
            false => program.wait_until_read(&mut |has_read| self.queue.on_progress(has_read)),
        };
        if outcome.is_ok() {
            self.queue.all_read();
            self.forget_all_but(1);
            if std::mem::replace(&mut self.was_read, true)
                && let Some(line) = self.unfinished.back()
            {
                self.queue.finished(line.number);
            }
        }
        self.recover(outcome)
    }

    /// After an exit of the program, queues the lines that it may not have finished to be written again.
    fn recover(&mut self, outcome: Result<(), FeedError>) -> Result<(), Abandoned> {
        match outcome {
            Ok(()) => return Ok(()),
            Err(FeedError::DeadlinePassed) => return Err(self.killed("did not read all its pages").into()),
            Err(FeedError::Exited) => self.exits += 1,
        }
        if let Some(program) = self.program.take() {
            let read_all = program.has_read_all();
            let status = program.reap().map_err(|error| format!("cannot be waited for: {error}"))?;
            self.queue.record_exit(Some(status));
            self.last_exit = status.to_string();
            self.cannot_run = status.code().is_some_and(|code| CANNOT_RUN.contains(&code));
            self.forget_all_but(match (read_all, status.success()) {
                (true, true) => 0,
                (true, false) | (false, true) => 1,
                (false, false) => 2,
            });
            if !status.success() && is_stdout_closed() {
                return Err(Abandoned::OutputClosed);
            }
        }
        while let Some(line) = self.unfinished.pop_back() {
            self.to_write.push_front(line);
        }
        if self.cannot_run {
            return Err(format!("cannot be run ({})", self.last_exit).into());
        }
        if self.exits > MAX_RESTARTS {
            let (exits, last_exit) = (self.exits, &self.last_exit);
            return Err(
                format!("exited {exits} times in a row without finishing a page ({last_exit})").into()
            );
        }
        if !self.to_write.is_empty() {
            self.queue.count_restart();
        }
        Ok(())
    }

    /// Forgets the lines that the program has finished: all but the last `count`.
    fn forget_all_but(&mut self, count: usize) {
        while self.unfinished.len() > count
            && let Some(line) = self.unfinished.pop_front()
        {
            self.queue.finished(line.number);
            self.exits = 0;
        }
    }

    /// Names the page that counts as processed although the program may not have finished it.
    fn doubtful_page(&self) -> String {
        let lines = self.unfinished.iter().chain(&self.to_write);
        let mut counted = lines.filter(|line| self.queue.is_finished(line.number));
        counted.next().map_or_else(String::new, |line| format!("; it may not have finished {}", line.url))
    }

    /// Waits until the program has finished all pages, closes its input, and waits until it exits.
    fn finish(&mut self, deadline: Instant) -> Result<(), Abandoned> {
        loop {
            self.write_all()?;
            let Some(program) = &self.program else { return Ok(()) };
            let read = program.wait_until_read(&mut |has_read| self.queue.on_progress(has_read));
            let finished = read.and_then(|()| program.stays_alive_for(self.timeouts.page_grace));
            self.recover(finished)?;
            if finished.is_ok() {
                break;
            }
        }
        let Some(program) = self.program.take() else { return Ok(()) };
        let status =
            program.close_and_wait(deadline).map_err(|error| format!("cannot be waited for: {error}"))?;
        self.queue.record_exit(status);
        match status {
            None => Err(self.killed("did not exit").into()),
            Some(status) if status.success() => Ok(()),
            Some(_) if is_stdout_closed() => Err(Abandoned::OutputClosed),
            Some(status) => {
                self.queue.fail_at_end(self.not_sent_again(status));
                Ok(())
            }
        }
    }

    /// What holds for the pages of a program that failed when it had read them all: they count as processed.
    fn not_sent_again(&self, status: ExitStatus) -> String {
        let (pages, url) = (counted(self.sent, "page"), &self.last_url);
        format!(
            "failed at the end of its input ({status}); it had read {pages} since it was started, the last one {url}, and may not \
             have processed them; they are not sent again: to process them, start a new crawl"
        )
    }

    /// Kills the program because the deadline has passed.
    fn killed(&mut self, cause: &str) -> String {
        self.program = None;
        format!("{cause} within {:?} of the end of the crawl and was killed", self.queue.exit_timeout())
    }

    /// Starts the program, after a delay that doubles with each exit in a row that finished no page.
    fn start(&mut self) -> Result<ChildProcess, FeedError> {
        if let Some(before) = self.exits.checked_sub(1) {
            std::thread::sleep(self.timeouts.first_restart_delay * (1 << before.min(MAX_RESTARTS)));
        }
        ChildProcess::start(&self.command).map_err(|error| {
            self.last_exit = format!("cannot be started: {error}");
            FeedError::Exited
        })
    }
}
