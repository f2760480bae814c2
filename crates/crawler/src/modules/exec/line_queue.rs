//! The desk where pages are handed in to the feeder, and the account of what became of them.

use std::collections::VecDeque;
use std::process::ExitStatus;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Where pages are handed in. It holds at most one page of each thread, since each waits for its own.
#[derive(Debug, Default)]
pub(super) struct LineQueue {
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
    /// How long that is from the last line.
    last_work: Duration,
    /// Why no program takes lines any more.
    given_up: Option<String>,
    account: FeedStats,
}

#[derive(Debug, Default)]
struct FeedStats {
    pages: u64,
    refused: u64,
    restarts: u64,
    status: Option<ExitStatus>,
}

impl LineQueue {
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

    /// No more lines will come; the program must have ended after so long. The first word on it counts.
    pub(super) fn close(&self, last_work: Duration) {
        let mut state = self.lock();
        if state.deadline.is_none() {
            (state.deadline, state.last_work) = (Some(Instant::now() + last_work), last_work);
        }
        self.changed.notify_all();
    }

    /// How long the program gets from the last line to its end.
    pub(super) fn last_work(&self) -> Duration {
        self.lock().last_work
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
        let FeedStats { pages, refused, restarts, status } = &self.lock().account;
        let mut account = format!("was sent {pages} page{}", if *pages == 1 { "" } else { "s" });
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
    pub(super) fn next(&self) -> Result<(u64, Vec<u8>), Instant> {
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
    pub(super) fn watch(&self, moved: bool) -> bool {
        let mut state = self.lock();
        if moved {
            state.moved = Some(Instant::now());
            state.stalled = false;
        }
        state.deadline.is_none_or(|deadline| Instant::now() < deadline)
    }

    /// The line of this number is in the pipe.
    pub(super) fn written(&self, number: u64) {
        let mut state = self.lock();
        (state.written, state.busy) = (number, false);
        state.account.pages += 1;
        self.changed.notify_all();
    }

    /// No program will take lines any more.
    pub(super) fn give_up(&self, why: String) {
        self.lock().given_up = Some(why);
        self.changed.notify_all();
    }

    pub(super) fn note_restart(&self) {
        self.lock().account.restarts += 1;
    }

    /// Notes how a program ended; `None` if it had to be killed.
    pub(super) fn note_end(&self, status: Option<ExitStatus>) {
        self.lock().account.status = status;
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
