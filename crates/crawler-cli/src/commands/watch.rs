//! Shows the status of a crawl of another process again and again, until the crawl ends: `crawler status --watch`.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};

use crate::live::layout::shortened;
use crate::live::screen::{self, Style};
use crate::live::status::LiveStatus;
use crate::printable::{is_printed, printable};
use crate::signals;
use crate::{EXIT_FAILED, EXIT_INTERRUPTED, EXIT_TERMINATED};

/// How long a crawl that was there may be unreachable: Redis may restart, and another process may resume the crawl.
const MAX_OUTAGE: Duration = Duration::from_secs(60);

/// The status of a crawl at one moment.
pub struct Watched {
    /// The crawl, and whether it runs.
    pub heading: String,
    /// What its live lines show.
    pub live: LiveStatus,
    /// Whether they include the queues.
    pub is_verbose: bool,
    /// Said below the live lines: the processes of the crawl.
    pub details: Vec<String>,
    /// The status as it is printed once: a table, or JSON.
    pub text: String,
    pub is_over: bool,
}

/// How the status is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Repainted on the terminal.
    Live,
    /// One line after another.
    Plain,
    /// One object after another.
    Json,
}

/// Shows what `read` returns until the crawl has ended, and returns the exit status. An error that lasts is returned.
pub async fn watch<E>(
    interval: Duration,
    is_json: bool,
    read: impl AsyncFnMut() -> Result<Watched, E>,
    describe: impl Fn(&E) -> String,
) -> Result<u8, E> {
    let form = match is_json {
        true => Form::Json,
        false if io::stdout().is_terminal() && screen::is_available() => Form::Live,
        false => Form::Plain,
    };
    drop(signals::exit_on_the_second());
    let interrupted = async |kind| match signal(kind) {
        Ok(mut signal) => drop(signal.recv().await),
        Err(_) => std::future::pending().await,
    };
    let ended = tokio::select! {
        ended = show_until_over(interval, form, read, describe) => ended,
        () = interrupted(SignalKind::interrupt()) => Ok(EXIT_INTERRUPTED),
        () = interrupted(SignalKind::terminate()) => Ok(EXIT_TERMINATED),
    };
    screen::clear();
    ended
}

async fn show_until_over<E>(
    interval: Duration,
    form: Form,
    mut read: impl AsyncFnMut() -> Result<Watched, E>,
    describe: impl Fn(&E) -> String,
) -> Result<u8, E> {
    let mut last_success = None;
    loop {
        match read().await {
            Ok(watched) => {
                last_success = Some(Instant::now());
                let is_over = watched.is_over;
                if let Err(error) = show(watched, form) {
                    return Ok(if is_printed(Err(error)) { 0 } else { EXIT_FAILED });
                }
                if is_over {
                    return Ok(0);
                }
            }
            Err(error) if last_success.is_none_or(|last| last.elapsed() > MAX_OUTAGE) => return Err(error),
            Err(error) => screen::print(&format!("crawler: {}; trying again", describe(&error))),
        }
        tokio::time::sleep(interval).await;
    }
}

/// Shows the status. An error if standard output is closed.
fn show(watched: Watched, form: Form) -> io::Result<()> {
    let Watched { heading, live, is_verbose, details, text, is_over } = watched;
    let line = match form {
        _ if is_over => {
            screen::clear();
            text
        }
        Form::Json => text,
        Form::Plain => format!("{}\n", printable(&live.plain_line(is_verbose))),
        Form::Live => {
            screen::show(move |size| {
                let mut lines = vec![(Style::Plain, shortened(&heading, size.columns).into_owned())];
                lines.extend(live.lines(size, is_verbose));
                lines.extend(
                    details.iter().map(|line| (Style::Plain, shortened(line, size.columns).into_owned())),
                );
                lines
            });
            return Ok(());
        }
    };
    let mut out = io::stdout();
    out.write_all(line.as_bytes()).and_then(|()| out.flush())
}
