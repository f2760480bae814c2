//! Handles signals: the first one stops a crawl gracefully, the second one at once.

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use crawler::internal::log::COMMAND;
use crawler::internal::stop::StopHandle;
use crawler::internal::stop::StopHandleInternals as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch as channel;

use crate::format::counted;
use crate::live::screen;
use crate::{EXIT_INTERRUPTED, EXIT_TERMINATED, log};

/// Sent to a process whose file exceeds the size limit (`ulimit -f`).
const SIGXFSZ: i32 = 25;

/// How long the second signal waits until the live lines are removed.
const CLEAR_TIMEOUT: Duration = Duration::from_millis(500);

/// Ends the message after the first signal, and precedes how to send the second one.
const STOP_NOW: &str = " to stop now";

/// While the returned value lives, a file that exceeds the size limit is a write error and does not kill the process.
pub fn survive_the_file_size_limit() -> Option<Signal> {
    signal(SignalKind::from_raw(SIGXFSZ)).ok()
}

/// What is printed after the first signal, with the number of requests in flight, and whether the crawl was about to end.
fn stopping(in_flight: u64, is_ending: bool, status: u8) -> String {
    let finishing = match in_flight {
        // Its files may take a while.
        0 if is_ending => "finishing the crawl".into(),
        0 => "stopping; no request is in flight".into(),
        in_flight => format!("finishing {} in flight", counted(in_flight, "request")),
    };
    let again = match status {
        EXIT_INTERRUPTED => "press Ctrl-C again",
        _ => "send the signal again",
    };
    format!("{finishing}; {again}{STOP_NOW}")
}

/// Whether a process printed this line after its first signal.
pub fn is_stopping(line: &str) -> bool {
    line.ends_with(STOP_NOW) && (line.starts_with("stopping; ") || line.starts_with("finishing "))
}

/// The name of a signal, and the exit status of a process that it ends.
type Received = (&'static str, u8);

/// From now on, the second SIGINT or SIGTERM removes the live lines and ends the process, also while its main thread cannot
/// handle signals: it may wait for a reader of its output, or write the last files. Returns who gets the first one; `None` if
/// signals cannot be handled.
pub fn exit_on_the_second() -> Option<channel::Receiver<Option<Received>>> {
    static FIRST: OnceLock<Option<channel::Sender<Option<Received>>>> = OnceLock::new();
    FIRST.get_or_init(|| start_thread().ok()).as_ref().map(channel::Sender::subscribe)
}

/// Starts the thread that receives the signals.
fn start_thread() -> io::Result<channel::Sender<Option<Received>>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    // Before the thread runs: no signal may be missed.
    let entered = runtime.enter();
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    drop(entered);
    let first = channel::Sender::new(None);
    let sender = first.clone();
    let receive = async move {
        sender.send_replace(Some(next(&mut interrupt, &mut terminate).await));
        let (signal, status) = next(&mut interrupt, &mut terminate).await;
        tracing::info!(target: COMMAND, signal, "signal received");
        screen::clear_within(CLEAR_TIMEOUT);
        log::flush();
        std::process::exit(status.into());
    };
    thread::Builder::new().name("signals".into()).spawn(move || runtime.block_on(receive))?;
    Ok(first)
}

async fn next(interrupt: &mut Signal, terminate: &mut Signal) -> Received {
    tokio::select! {
        _ = interrupt.recv() => ("SIGINT", EXIT_INTERRUPTED),
        _ = terminate.recv() => ("SIGTERM", EXIT_TERMINATED),
    }
}

/// Waits for SIGINT and SIGTERM. The first one stops the crawl, which finishes the requests in flight, and stores the exit
/// status in `exit_status`. The second one ends the process.
pub async fn watch(
    stop: &StopHandle,
    exit_status: &Cell<Option<u8>>,
    in_flight: impl Fn() -> u64,
    print: impl Fn(&str),
) -> Infallible {
    if let Some(mut first) = exit_on_the_second()
        && first.changed().await.is_ok()
        && let Some((signal, status)) = *first.borrow()
    {
        tracing::info!(target: COMMAND, signal, "signal received");
        exit_status.set(Some(status));
        print(&stopping(in_flight(), stop.is_stop_requested(), status));
        stop.stop();
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_signal_says_how_many_requests_finish_and_how_to_stop_now() {
        for (in_flight, status, message) in [
            (12, EXIT_INTERRUPTED, "finishing 12 requests in flight; press Ctrl-C again to stop now"),
            (1, EXIT_INTERRUPTED, "finishing 1 request in flight; press Ctrl-C again to stop now"),
            (0, EXIT_INTERRUPTED, "stopping; no request is in flight; press Ctrl-C again to stop now"),
            (1_200, EXIT_TERMINATED, "finishing 1,200 requests in flight; send the signal again to stop now"),
        ] {
            assert_eq!(stopping(in_flight, false, status), message);
            assert!(is_stopping(message));
        }
        let ending = stopping(0, true, EXIT_INTERRUPTED);
        assert_eq!(ending, "finishing the crawl; press Ctrl-C again to stop now");
        assert!(is_stopping(&ending));
        assert!(!is_stopping("cannot write all pages: finishing 1 request in flight"));
    }
}
