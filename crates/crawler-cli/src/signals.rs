//! What the signals of the system do to a crawl.

use std::cell::Cell;
use std::convert::Infallible;

use crawler::internal::stop::StopHandle;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{EXIT_INTERRUPTED, EXIT_TERMINATED};

/// What the system sends to a process whose file exceeds its size limit (`ulimit -f`).
const SIGXFSZ: i32 = 25;

/// While somebody listens for this signal, a file that grows too large is a write error and not the end of us.
pub fn survive_the_file_size_limit() -> Option<Signal> {
    signal(SignalKind::from_raw(SIGXFSZ)).ok()
}

/// The first signal lets what is in flight finish, and leaves its exit status in `ended_by`; the second ends at once,
/// with the terminal cleared.
pub async fn watch(
    stop: &StopHandle,
    ended_by: &Cell<Option<u8>>,
    say: impl Fn(&str),
    clear: impl Fn(),
) -> Infallible {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    loop {
        let status = tokio::select! {
            _ = interrupt.recv() => EXIT_INTERRUPTED,
            _ = terminate.recv() => EXIT_TERMINATED,
        };
        if ended_by.get().is_some() {
            clear();
            std::process::exit(status.into());
        }
        ended_by.set(Some(status));
        say("finishing what is in flight; once more to end at once");
        stop.stop();
    }
}
