//! The log: receives the events of the library and the command through `tracing`, and writes each as one line.

mod filter;
mod line;
mod queue;
mod sink;
mod subscriber;

use std::backtrace::Backtrace;
use std::io::{self, IsTerminal as _};
use std::panic;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use crawler::internal::log::{COMMAND, LOG as LOG_TARGET};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub use self::filter::Filter;
pub use self::line::LogFormat;

use self::queue::Queue;
use self::sink::Sink;
use self::subscriber::{EventLog, Subscriber};
use crate::args::{LogArgs, Verbosity};

/// How long the end of the command waits until the last lines are written: their reader may never read them.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// The log of this process. Events come from all threads, and signals and panics end the process anywhere.
static LOG: OnceLock<Log> = OnceLock::new();

struct Log {
    args: LogArgs,
    /// The lines to be written; `None` if they go to the terminal only.
    queue: Option<Arc<Queue>>,
    /// SIGHUP, unless it ends the process.
    hangup: Mutex<Option<Signal>>,
    hangups: AtomicU64,
}

/// The file of the log, if it has one.
pub fn file() -> Option<&'static Path> {
    LOG.get().and_then(|log| log.args.file())
}

/// Opens the log, and lets events be written to it, and those of interest to standard error if `verbosity` asks for them. The
/// error is that of a file that cannot be opened. To be called in an async runtime.
pub fn start(args: LogArgs, verbosity: Verbosity) -> Result<(), String> {
    // Before there is a file that could be moved away: until then, the signal ends the process.
    let hangup = survives_hangup(&args).then(|| signal(SignalKind::hangup()).ok()).flatten();
    let queue = match &args.log {
        None => None,
        Some(path) => {
            let sink = match args.file() {
                Some(file) => Sink::open(file),
                None => Ok(Sink::stderr()),
            };
            let sink = sink.map_err(|error| cannot_open(&path.display(), &error))?;
            Some(start_writer(sink, args.format()).map_err(|error| cannot_open(&path.display(), &error))?)
        }
    };
    let log =
        queue.as_ref().map(|queue| EventLog::new(args.filter().clone(), args.format(), Arc::clone(queue)));
    let is_shown = verbosity == Verbosity::Verbose && !args.is_on_stderr();
    let shown = is_shown.then(Filter::default);
    if log.is_some() || shown.is_some() {
        log_panics();
        // There is no other subscriber: this is called once.
        let _ = tracing::subscriber::set_global_default(Subscriber::new(log, shown));
    }
    let _ = LOG.set(Log { args, queue, hangup: Mutex::new(hangup), hangups: AtomicU64::new(0) });
    Ok(())
}

/// Whether SIGHUP does not end the process. Rotation of logs may send it to a process that logs to standard error, too, where
/// there is nothing to open again. But the end of its terminal ends such a process.
fn survives_hangup(args: &LogArgs) -> bool {
    args.file().is_some() || args.is_on_stderr() && !io::stderr().is_terminal()
}

fn cannot_open(path: &impl std::fmt::Display, error: &io::Error) -> String {
    format!("cannot open --log '{path}': {error}; name a file that can be written")
}

fn start_writer(mut sink: Sink, format: LogFormat) -> io::Result<Arc<Queue>> {
    let queue = Arc::new(Queue::default());
    let lines = Arc::clone(&queue);
    let write = move || {
        // The thread ends with the process.
        loop {
            sink.write(lines.next(), format);
            lines.written();
        }
    };
    thread::Builder::new().name("log".into()).spawn(write)?;
    Ok(queue)
}

/// Opens the file again on each SIGHUP, so that the old one can be moved away. Returns at once if the signal ends the process,
/// as usual.
pub async fn reopen_on_hangup() {
    let Some(log) = LOG.get() else { return };
    let hangup = log.hangup.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(mut hangup) = hangup else { return };
    while hangup.recv().await.is_some() {
        tracing::info!(target: COMMAND, signal = "SIGHUP", "signal received");
        log.hangups.fetch_add(1, Ordering::Relaxed);
        if let Some(queue) = &log.queue {
            queue.reopen();
        }
    }
}

/// How often SIGHUP was received.
pub fn hangups() -> u64 {
    LOG.get().map_or(0, |log| log.hangups.load(Ordering::Relaxed))
}

/// Whether standard error has the lines of the log, so that nothing else should be printed there.
pub fn is_on_stderr() -> bool {
    LOG.get().is_some_and(|log| log.args.is_on_stderr())
}

/// The arguments with which another process logs to the same place.
pub fn child_arguments() -> Vec<std::ffi::OsString> {
    LOG.get().map_or_else(Vec::new, |log| log.args.arguments())
}

/// Waits until all lines are written, but not for a reader that does not read.
pub fn flush() {
    if let Some(queue) = LOG.get().and_then(|log| log.queue.as_ref()) {
        queue.flush(FLUSH_TIMEOUT);
    }
}

/// Logs panics, before they are printed as usual. Those that are expected, in modules, are logged as failures of modules.
fn log_panics() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let location = panic.location().map(ToString::to_string).unwrap_or_default();
        let backtrace = Backtrace::capture();
        tracing::error!(target: LOG_TARGET, location, %backtrace, "panic: {}", message(panic));
        flush();
        print(panic);
    }));
}

fn message<'a>(panic: &'a panic::PanicHookInfo<'_>) -> &'a str {
    panic.payload_as_str().unwrap_or("no message")
}
