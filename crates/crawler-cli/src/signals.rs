//! Handles signals: the first one stops a crawl gracefully, the second one at once.

use std::cell::Cell;
use std::convert::Infallible;

use crawler::internal::log::COMMAND;
use crawler::internal::stop::StopHandle;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::format::counted;
use crate::live::screen;
use crate::{EXIT_INTERRUPTED, EXIT_TERMINATED, log};

/// Sent to a process whose file exceeds the size limit (`ulimit -f`).
const SIGXFSZ: i32 = 25;

/// Ends the message after the first signal, and precedes how to send the second one.
const STOP_NOW: &str = " to stop now";

/// While the returned value lives, a file that exceeds the size limit is a write error and does not kill the process.
pub fn survive_the_file_size_limit() -> Option<Signal> {
    signal(SignalKind::from_raw(SIGXFSZ)).ok()
}

/// What is printed after the first signal, with the number of requests in flight.
fn stopping(in_flight: u64, status: u8) -> String {
    let finishing = match in_flight {
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

/// Waits for SIGINT and SIGTERM. The first one stops the crawl, which finishes the requests in flight, and stores the exit
/// status in `exit_status`. The second one removes the live lines and exits at once.
pub async fn watch(
    stop: &StopHandle,
    exit_status: &Cell<Option<u8>>,
    in_flight: impl Fn() -> u64,
    print: impl Fn(&str),
) -> Infallible {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    loop {
        let (signal, status) = tokio::select! {
            _ = interrupt.recv() => ("SIGINT", EXIT_INTERRUPTED),
            _ = terminate.recv() => ("SIGTERM", EXIT_TERMINATED),
        };
        tracing::info!(target: COMMAND, signal, "signal received");
        if exit_status.get().is_some() {
            screen::clear();
            log::flush();
            std::process::exit(status.into());
        }
        exit_status.set(Some(status));
        print(&stopping(in_flight(), status));
        stop.stop();
    }
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
            assert_eq!(stopping(in_flight, status), message);
            assert!(is_stopping(message));
        }
        assert!(!is_stopping("cannot write all pages: finishing 1 request in flight"));
    }
}
