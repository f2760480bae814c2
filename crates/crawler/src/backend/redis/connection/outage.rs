//! Reports outages of Redis: when commands have to wait, for how long already, and when they succeed again.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::log;

/// Receives messages for the operator.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// An outage is reported when it has lasted for this time. Most are shorter.
const REPORT_AFTER: Duration = Duration::from_secs(1);

/// How often an outage is reported while it lasts.
const REMINDER: Duration = Duration::from_secs(10);

/// Replicas that did not confirm in time get this fraction of the time until they do.
const LAGGING: u32 = 20;

/// The outage that Redis has, if it has one.
pub(super) struct Outage {
    /// The address of Redis for messages.
    address: String,
    notice: Notice,
    /// Where reports run, because the runtime of a caller may end.
    runtime: Handle,
    state: Mutex<OutageState>,
}

#[derive(Default)]
struct OutageState {
    /// How many commands wait. When memory is full, some do while others succeed.
    waiting: usize,
    start: Option<Instant>,
    cause: String,
    is_reported: bool,
    /// When missing confirmations were last reported.
    unconfirmed: Option<Instant>,
    /// Whether the last confirmation was missing.
    lags: bool,
}

/// A command that waits, until this is dropped.
pub(super) struct WaitingCommand {
    outage: Arc<Outage>,
    /// Otherwise it was cancelled, so it is unknown whether Redis replies.
    has_reply: bool,
}

impl Outage {
    pub(super) fn new(address: String, notice: Notice, runtime: Handle) -> Outage {
        Outage { address, notice, runtime, state: Mutex::default() }
    }

    /// When the outage started, if there is one.
    pub(super) fn start(&self) -> Option<Instant> {
        self.state().start
    }

    /// A command has to wait that was sent at this time.
    pub(super) fn wait(self: &Arc<Self>, sent: Instant, cause: &impl fmt::Display) -> WaitingCommand {
        let mut state = self.state();
        state.waiting += 1;
        state.cause = cause.to_string();
        if state.start.is_none() {
            (state.start, state.is_reported) = (Some(sent), false);
            self.runtime.spawn(Arc::clone(self).report(sent));
        }
        drop(state);
        WaitingCommand { outage: Arc::clone(self), has_reply: false }
    }

    /// Reports an outage for as long as it lasts.
    async fn report(self: Arc<Self>, start: Instant) {
        sleep(REPORT_AFTER.saturating_sub(start.elapsed())).await;
        loop {
            let message = {
                let mut state = self.state();
                if state.start != Some(start) {
                    return;
                }
                state.is_reported = true;
                let (address, cause, seconds) = (&self.address, &state.cause, start.elapsed().as_secs());
                format!("waiting for Redis at {address} for {seconds} s now: {cause}")
            };
            log::warned(&*self.notice, &message);
            sleep(REMINDER).await;
        }
    }

    /// Records how many replicas confirmed a command. If they are too few, that is reported, but not for every command.
    pub(super) fn confirmed(&self, confirmed: u32, wanted: u32) {
        let mut state = self.state();
        state.lags = confirmed < wanted;
        if !state.lags || state.unconfirmed.is_some_and(|reported| reported.elapsed() < REMINDER) {
            return;
        }
        state.unconfirmed = Some(Instant::now());
        drop(state);
        let message = format!(
            "{confirmed} of {wanted} replicas of Redis at {} confirmed the last writes in time; a failover now may lose \
             these writes",
            self.address
        );
        log::warned(&*self.notice, &message);
    }

    /// How long to wait for replicas. Without any, as after a failover, not every command shall wait for the whole time.
    pub(super) fn confirm_timeout(&self, timeout: Duration) -> Duration {
        if self.state().lags { timeout / LAGGING } else { timeout }
    }

    fn state(&self) -> MutexGuard<'_, OutageState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitingCommand {
    /// Sets why the command waits.
    pub(super) fn set_cause(&self, cause: &impl fmt::Display) {
        self.outage.state().cause = cause.to_string();
    }

    /// Redis has replied to the command.
    pub(super) fn replied(mut self) {
        self.has_reply = true;
    }

    /// The command waits no longer, but the outage continues.
    pub(super) fn give_up(self) {
        std::mem::forget(self);
    }
}

impl Drop for WaitingCommand {
    fn drop(&mut self) {
        let Outage { address, notice, .. } = &*self.outage;
        let mut state = self.outage.state();
        state.waiting -= 1;
        if state.waiting == 0
            && let Some(start) = state.start.take()
            && std::mem::take(&mut state.is_reported)
            && self.has_reply
        {
            drop(state);
            let seconds = start.elapsed().as_secs();
            log::informed(&**notice, &format!("Redis at {address} replies again after {seconds} s"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outage() -> (Arc<Outage>, Arc<Mutex<Vec<String>>>) {
        let notices = Arc::new(Mutex::new(Vec::new()));
        let notice = {
            let notices = Arc::clone(&notices);
            Arc::new(move |message: &str| notices.lock().unwrap().push(message.to_owned()))
        };
        (Arc::new(Outage::new("redis://h".into(), notice, Handle::current())), notices)
    }

    #[tokio::test(start_paused = true)]
    async fn short_outage_is_not_reported() {
        let (outage, notices) = outage();
        let waiting = outage.wait(Instant::now(), &"connection closed");
        sleep(REPORT_AFTER / 2).await;
        assert!(outage.start().is_some());
        drop(waiting);
        sleep(10 * REMINDER).await;
        assert!(notices.lock().unwrap().is_empty() && outage.start().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_command_does_not_report_that_redis_replies() {
        let (outage, notices) = outage();
        let waiting = outage.wait(Instant::now(), &"connection closed");
        sleep(2 * REPORT_AFTER).await;
        drop(waiting);
        sleep(10 * REMINDER).await;
        assert_eq!(notices.lock().unwrap().len(), 1, "the start of the outage");
        assert!(outage.start().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn outage_is_reported_at_its_start_while_it_lasts_and_when_the_last_command_has_succeeded() {
        let (outage, notices) = outage();
        let first = outage.wait(Instant::now(), &"connection closed");
        let second = outage.wait(Instant::now(), &"connection closed");
        sleep(Duration::from_millis(5_500)).await;
        first.replied();
        second.set_cause(&"connection refused");
        sleep(Duration::from_secs(7)).await;
        second.replied();
        sleep(10 * REMINDER).await;
        assert_eq!(
            *notices.lock().unwrap(),
            [
                "waiting for Redis at redis://h for 1 s now: connection closed",
                "waiting for Redis at redis://h for 11 s now: connection refused",
                "Redis at redis://h replies again after 12 s",
            ]
        );
    }
}
