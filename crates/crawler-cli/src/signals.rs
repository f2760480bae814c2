//! Handles signals: the first one stops a crawl gracefully, the second one at once.

use std::cell::Cell;
use std::convert::Infallible;

use crawler::internal::log::COMMAND;
use crawler::internal::stop::StopHandle;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{EXIT_INTERRUPTED, EXIT_TERMINATED, log};

/// Sent to a process whose file exceeds the size limit (`ulimit -f`).
const SIGXFSZ: i32 = 25;

/// Printed after the first signal.
pub const STOPPING: &str = "stopping: requests in flight finish first (interrupt again to exit at once)";

/// While the returned value lives, a file that exceeds the size limit is a write error and does not kill the process.
pub fn survive_the_file_size_limit() -> Option<Signal> {
    signal(SignalKind::from_raw(SIGXFSZ)).ok()
}

/// Waits for SIGINT and SIGTERM. The first one stops the crawl, which finishes the requests in flight, and stores the exit
/// status in `exit_status`. The second one clears the display and exits at once.
pub async fn watch(
    stop: &StopHandle,
    exit_status: &Cell<Option<u8>>,
    print: impl Fn(&str),
    clear: impl Fn(),
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
            clear();
            log::flush();
            std::process::exit(status.into());
        }
        exit_status.set(Some(status));
        print(STOPPING);
        stop.stop();
    }
}
