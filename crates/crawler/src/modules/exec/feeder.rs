//! The thread that feeds a program, and starts another when it dies.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::child_process::{ChildProcess, FeedError};
use super::line_queue::LineQueue;
use super::{MOST_RESTARTS, Times};

/// Feeds one program after another.
pub(super) struct ProcessFeeder {
    command: String,
    times: Times,
    desk: Arc<LineQueue>,
    program: Option<ChildProcess>,
    /// To be written next, in order.
    to_write: VecDeque<Vec<u8>>,
    /// Written to the program, and perhaps not finished by it: the one in work and the one in the pipe.
    in_hands: VecDeque<Vec<u8>>,
    /// Programs in a row that died without finishing a page.
    deaths: u32,
    /// How the last of them ended.
    last_end: String,
}

impl ProcessFeeder {
    pub(super) fn new(command: &str, times: Times, desk: Arc<LineQueue>) -> ProcessFeeder {
        ProcessFeeder {
            command: command.into(),
            times,
            desk,
            program: None,
            to_write: VecDeque::new(),
            in_hands: VecDeque::new(),
            deaths: 0,
            last_end: String::new(),
        }
    }

    /// Feeds until the desk is closed, and ends the program.
    pub(super) fn run(mut self) {
        if let Err(why) = self.feed() {
            self.desk.give_up(why);
        }
    }

    fn feed(&mut self) -> Result<(), String> {
        loop {
            match self.desk.next() {
                Ok((number, line)) => {
                    self.to_write.push_back(line);
                    self.write_all()?;
                    self.desk.written(number);
                }
                Err(deadline) => return self.end(deadline),
            }
        }
    }

    /// Writes all that is to be written, to as many programs as it takes.
    fn write_all(&mut self) -> Result<(), String> {
        while !self.to_write.is_empty() {
            let written = self.write_next();
            self.survive(written)?;
        }
        Ok(())
    }

    fn write_next(&mut self) -> Result<(), FeedError> {
        let desk = self.desk.clone();
        let watch = &mut |moved| desk.watch(moved);
        if self.program.is_none() {
            self.program = Some(self.start()?);
        }
        let Some(program) = &mut self.program else { return Err(FeedError::Died) };
        program.wait_until_read(watch)?;
        // It asked for the last line, so it is done with those before.
        self.keep_in_hands(1);
        if let (Some(line), Some(program)) = (self.to_write.pop_front(), &mut self.program) {
            self.in_hands.push_back(line);
            program.write(&self.in_hands[self.in_hands.len() - 1], watch)?;
        }
        Ok(())
    }

    /// Makes a death survivable: what the program may not have finished is to be written again.
    fn survive(&mut self, outcome: Result<(), FeedError>) -> Result<(), String> {
        match outcome {
            Ok(()) => return Ok(()),
            Err(FeedError::OutOfTime) => return Err(self.killed("did not read all its pages")),
            Err(FeedError::Died) => {}
        }
        if let Some(program) = self.program.take() {
            let read_all = program.has_read_all();
            let status = program.bury().map_err(|error| format!("could not be waited for: {error}"))?;
            self.desk.note_end(Some(status));
            self.last_end = status.to_string();
            self.keep_in_hands(match (read_all, status.success()) {
                (true, true) => 0,
                (true, false) | (false, true) => 1,
                (false, false) => 2,
            });
        }
        while let Some(line) = self.in_hands.pop_back() {
            self.to_write.push_front(line);
        }
        self.deaths += 1;
        if self.deaths > MOST_RESTARTS {
            return Err(format!(
                "ended {} times in a row without finishing a page ({}); no more pages are sent to it",
                self.deaths, self.last_end
            ));
        }
        if !self.to_write.is_empty() {
            self.desk.note_restart();
        }
        Ok(())
    }

    /// Forgets the lines that the program has finished.
    fn keep_in_hands(&mut self, count: usize) {
        while self.in_hands.len() > count {
            self.in_hands.pop_front();
            self.deaths = 0;
        }
    }

    /// Lets the program finish all pages, then ends it.
    fn end(&mut self, deadline: Instant) -> Result<(), String> {
        loop {
            self.write_all()?;
            let Some(program) = &self.program else { return Ok(()) };
            let read = program.wait_until_read(&mut |moved| self.desk.watch(moved));
            let settled = read.and_then(|()| program.outlives(self.times.settle));
            self.survive(settled)?;
            if settled.is_ok() {
                break;
            }
        }
        let Some(program) = self.program.take() else { return Ok(()) };
        let ended = program.end(deadline).map_err(|error| format!("could not be waited for: {error}"))?;
        self.desk.note_end(ended);
        if ended.is_none() { Err(self.killed("did not end")) } else { Ok(()) }
    }

    fn killed(&mut self, why: &str) -> String {
        self.program = None;
        format!("{why} within {:?} of the end of the crawl and was killed", self.desk.last_work())
    }

    /// Starts a program, the later the more have died before it.
    fn start(&mut self) -> Result<ChildProcess, FeedError> {
        if self.deaths > 0 {
            std::thread::sleep(self.times.first_restart * (1 << (self.deaths - 1).min(MOST_RESTARTS)));
        }
        ChildProcess::start(&self.command).map_err(|error| {
            self.last_end = format!("cannot be started: {error}");
            FeedError::Died
        })
    }
}
