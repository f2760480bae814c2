//! The thread that feeds a program, and the desk where pages are handed in to it.

use std::collections::VecDeque;
use std::process::ExitStatus;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::program::{Failure, Program};
use super::{MOST_RESTARTS, Times};

/// Where pages are handed in. It holds at most one page of each thread, since each waits for its own.
#[derive(Debug, Default)]
pub(super) struct Desk {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Lines not yet taken up, by their number.
    waiting: VecDeque<(u64, Vec<u8>)>,
    /// The feeder has taken a line up and not yet written it.
    busy: bool,
    /// The number given out last.
    handed_in: u64,
    /// The number of the last line that is in the pipe.
    written: u64,
    /// When the program last took something, or the first line came after an idle time.
    moved: Option<Instant>,
    /// The program has taken nothing for too long.
    stalled: bool,
    /// No more lines, and when the program must have ended.
    deadline: Option<Instant>,
    /// Why no program takes lines any more.
    given_up: Option<String>,
    account: Account,
}

#[derive(Debug, Default)]
struct Account {
    pages: u64,
    refused: u64,
    restarts: u64,
    status: Option<ExitStatus>,
}

impl Desk {
    /// Hands in a line and waits until the program has it in its pipe.
    pub(super) fn hand_in(&self, line: Vec<u8>, stall: Duration) -> Result<(), String> {
        let mut state = self.lock();
        if state.stalled || state.deadline.is_some() || state.given_up.is_some() {
            return Err(state.refuse(stall));
        }
        if !state.busy && state.waiting.is_empty() {
            state.moved = Some(Instant::now());
        }
        state.handed_in += 1;
        let number = state.handed_in;
        state.waiting.push_back((number, line));
        self.changed.notify_all();
        while state.written < number {
            let idle = state.moved.map_or(Duration::ZERO, |moved| moved.elapsed());
            state.stalled |= idle >= stall;
            if state.stalled || state.given_up.is_some() {
                state.waiting.retain(|(waiting, _)| *waiting != number);
                return Err(state.refuse(stall));
            }
            let wait = self.changed.wait_timeout(state, stall - idle);
            state = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// No more lines will come; the program must have ended by the deadline.
    pub(super) fn close(&self, deadline: Instant) {
        self.lock().deadline.get_or_insert(deadline);
        self.changed.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().deadline.is_some()
    }

    /// How it ended.
    pub(super) fn end(&self) -> Result<(), String> {
        let state = self.lock();
        match (&state.given_up, state.account.status) {
            (Some(why), _) => Err(why.clone()),
            (None, Some(status)) if !status.success() => Err(format!("ended with {status}")),
            _ => Ok(()),
        }
    }

    /// What became of it, in a line.
    pub(super) fn account(&self) -> String {
        let Account { pages, refused, restarts, status } = &self.lock().account;
        let mut account = format!("was sent {pages} pages");
        if *refused > 0 {
            account += &format!(", {refused} could not be sent");
        }
        if *restarts > 0 {
            account += &format!(", restarted {restarts} times");
        }
        if let Some(status) = status {
            account += &format!("; {status}");
        }
        account
    }

    /// The next line, or the deadline if there will be none.
    fn next(&self) -> Result<(u64, Vec<u8>), Instant> {
        let mut state = self.lock();
        loop {
            match (state.waiting.pop_front(), state.deadline) {
                (Some(line), _) => {
                    state.busy = true;
                    return Ok(line);
                }
                (None, Some(deadline)) => return Err(deadline),
                (None, None) => {}
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes whether the program has taken something; says whether there is time to wait for it.
    fn watch(&self, moved: bool) -> bool {
        let mut state = self.lock();
        if moved {
            state.moved = Some(Instant::now());
            state.stalled = false;
        }
        state.deadline.is_none_or(|deadline| Instant::now() < deadline)
    }

    fn written(&self, number: u64) {
        let mut state = self.lock();
        (state.written, state.busy) = (number, false);
        state.account.pages += 1;
        self.changed.notify_all();
    }

    fn give_up(&self, why: String) {
        self.lock().given_up = Some(why);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn refuse(&mut self, stall: Duration) -> String {
        self.account.refused += 1;
        match &self.given_up {
            Some(why) => why.clone(),
            None if self.stalled => format!("has read nothing for {stall:?}; the page was not sent to it"),
            None => "has been ended; the page was not sent to it".into(),
        }
    }
}

/// Feeds one program after another.
pub(super) struct Feeder {
    command: String,
    times: Times,
    desk: Arc<Desk>,
    program: Option<Program>,
    /// To be written next, in order.
    to_write: VecDeque<Vec<u8>>,
    /// Written to the program, and perhaps not finished by it: the one in work and the one in the pipe.
    in_hands: VecDeque<Vec<u8>>,
    /// Programs in a row that died without finishing a page.
    deaths: u32,
    /// How the last of them ended.
    last_end: String,
}

impl Feeder {
    pub(super) fn new(command: &str, times: Times, desk: Arc<Desk>) -> Feeder {
        Feeder {
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

    fn write_next(&mut self) -> Result<(), Failure> {
        let desk = self.desk.clone();
        let watch = &mut |moved| desk.watch(moved);
        if self.program.is_none() {
            self.program = Some(self.start()?);
        }
        let Some(program) = &mut self.program else { return Err(Failure::Died) };
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
    fn survive(&mut self, outcome: Result<(), Failure>) -> Result<(), String> {
        match outcome {
            Ok(()) => return Ok(()),
            Err(Failure::OutOfTime) => return Err(self.killed("did not read all its pages")),
            Err(Failure::Died) => {}
        }
        if let Some(program) = self.program.take() {
            let read_all = program.has_read_all();
            let status = program.bury().map_err(|error| format!("could not be waited for: {error}"))?;
            self.desk.lock().account.status = Some(status);
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
            self.desk.lock().account.restarts += 1;
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
        self.desk.lock().account.status = ended;
        if ended.is_none() { Err(self.killed("did not end")) } else { Ok(()) }
    }

    fn killed(&mut self, why: &str) -> String {
        self.program = None;
        format!("{why} within {:?} of the end of the crawl and was killed", self.times.last_work)
    }
    /// Starts a program, the later the more have died before it.
    fn start(&mut self) -> Result<Program, Failure> {
        if self.deaths > 0 {
            std::thread::sleep(self.times.first_restart * (1 << (self.deaths - 1).min(MOST_RESTARTS)));
        }
        Program::start(&self.command).map_err(|error| {
            self.last_end = format!("cannot be started: {error}");
            Failure::Died
        })
    }
}
