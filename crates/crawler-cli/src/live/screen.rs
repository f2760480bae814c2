//! The lines at the bottom of the terminal that are repainted while a command runs.
//!
//! Everything else that is printed meanwhile goes through [`above`]. The cursor stays on an empty line above the lines: what
//! follows it is erased when they are painted, however a resized terminal has wrapped them, and whatever key the terminal
//! echoes. A thread of its own paints, so that a terminal that is stalled does not stall a crawl.

use std::env;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::tcgetwinsize;
use tokio::signal::unix::{SignalKind, signal};

use crate::printable::printable;

/// The lines are painted at most this often, however many messages are printed above them.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// The size that is assumed of a terminal that does not report it.
const DEFAULT_SIZE: Size = Size { columns: 80, rows: 24 };

/// The size of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub columns: usize,
    pub rows: usize,
}

/// How a line looks, if the terminal has colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Plain,
    Strong,
    Faint,
    Warning,
}

/// A line, and how it looks.
pub type StyledLine = (Style, String);

/// Returns the lines for a terminal of this size.
type Painter = Box<dyn Fn(Size) -> Vec<StyledLine> + Send>;

/// What is to be shown.
static CONTENT: Mutex<Content> = Mutex::new(Content { painter: None, version: 0 });
/// Wakes the thread that paints.
static CHANGED: Condvar = Condvar::new();
/// What is on the terminal. Held while it is written to.
static TERMINAL: Mutex<Terminal> = Mutex::new(Terminal { is_painted: false, is_left: false });

struct Content {
    painter: Option<Painter>,
    /// Raised by each change.
    version: u64,
}

struct Terminal {
    /// Whether the lines are on it.
    is_painted: bool,
    /// Whether the shell uses it, because the process is suspended.
    is_left: bool,
}

/// Whether standard error is a terminal that can show the lines.
pub fn is_available() -> bool {
    io::stderr().is_terminal() && env::var("TERM").is_ok_and(|terminal| !matches!(&*terminal, "" | "dumb"))
}

/// Whether users want colours: neither `NO_COLOR` nor `CLICOLOR=0` is set.
fn has_colours() -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && env::var_os("CLICOLOR").is_none_or(|value| value != "0")
}

/// Shows these lines from now on, until [`clear`].
pub fn show(painter: impl Fn(Size) -> Vec<StyledLine> + Send + 'static) {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        clear_before_panics();
        // Without it, a resized terminal is repainted a second later.
        let _ = follow_the_terminal();
        thread::spawn(keep_painting);
    });
    let mut content = lock(&CONTENT);
    content.painter = Some(Box::new(painter));
    content.version += 1;
    CHANGED.notify_all();
}

/// Removes the lines for good.
pub fn clear() {
    lock(&CONTENT).painter = None;
    lock(&TERMINAL).erase();
}

/// The same, without waiting for longer than this for a terminal that takes nothing.
pub fn clear_within(timeout: Duration) {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        clear();
        let _ = done.send(());
    });
    let _ = is_done.recv_timeout(timeout);
}

/// Prints to the terminal by this function, above the lines.
pub fn above<T>(print: impl FnOnce() -> T) -> T {
    let mut terminal = lock(&TERMINAL);
    let was_painted = terminal.is_painted;
    terminal.erase();
    let printed = print();
    drop(terminal);
    if was_painted {
        repaint();
    }
    printed
}

/// Prints a line to standard error, above the lines.
pub fn print(message: &str) {
    // A closed standard error does not stop the crawl.
    above(|| drop(writeln!(io::stderr(), "{}", printable(message))));
}

/// Paints the lines again when the terminal is resized, and when the process continues after Ctrl-Z. On a thread of its own: once
/// the process handles the signal of Ctrl-Z, it must do so to its end, also while its main thread writes the last files.
fn follow_the_terminal() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let entered = runtime.enter();
    let mut resized = signal(SignalKind::window_change())?;
    // These have no constructors of their own. SIGTSTP is what Ctrl-Z sends.
    let [mut stopped, mut continued] = [
        signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?,
        signal(SignalKind::from_raw(Signal::CONT.as_raw()))?,
    ];
    drop(entered);
    let follow = async move {
        loop {
            tokio::select! {
                _ = resized.recv() => {}
                _ = continued.recv() => {}
                _ = stopped.recv() => {
                    lock(&TERMINAL).leave();
                    // The shell prints its prompt next. The threads of this process stop a moment later.
                    let _ = kill_process(getpid(), Signal::STOP);
                    continued.recv().await;
                    lock(&TERMINAL).is_left = false;
                }
            }
            repaint();
        }
    };
    let thread = thread::Builder::new().name("terminal".into());
    thread.spawn(move || runtime.block_on(follow)).map(drop)
}

/// Lets the thread paint the lines again.
fn repaint() {
    lock(&CONTENT).version += 1;
    CHANGED.notify_all();
}

/// Paints the lines whenever they have changed.
fn keep_painting() {
    let mut painted = 0;
    loop {
        let mut content = lock(&CONTENT);
        while content.version == painted {
            content = CHANGED.wait(content).unwrap_or_else(PoisonError::into_inner);
        }
        painted = content.version;
        drop(content);
        lock(&TERMINAL).paint();
        thread::sleep(MIN_INTERVAL);
    }
}

/// Removes the lines before the message of a panic is printed.
fn clear_before_panics() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // The thread that panics may hold the lock.
        if let Ok(mut terminal) = TERMINAL.try_lock() {
            terminal.erase();
        }
        hook(panic);
    }));
}

impl Terminal {
    fn paint(&mut self) {
        if self.is_left {
            return;
        }
        let size = size();
        let content = lock(&CONTENT);
        let Some(painter) = &content.painter else { return };
        let mut lines = painter(size);
        drop(content);
        // One row for the cursor, and one below the lines.
        lines.truncate(size.rows.saturating_sub(2));
        let painted = painted(&lines, has_colours());
        self.is_painted = io::stderr().write_all(painted.as_bytes()).is_ok();
    }

    /// Erases the lines, until the process continues.
    fn leave(&mut self) {
        self.erase();
        self.is_left = true;
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.is_painted) {
            let _ = io::stderr().write_all(b"\r\x1b[J");
        }
    }
}

/// What paints these lines below the row of the cursor, and returns to it.
fn painted(lines: &[StyledLine], has_colours: bool) -> String {
    // Without wrapping: a terminal may take more columns for a character than it should.
    let mut text = "\r\x1b[?7l\x1b[K".to_owned();
    for (style, line) in lines {
        let line = printable(line);
        let code = match style {
            Style::Plain => "",
            Style::Strong => "1",
            Style::Faint => "2",
            Style::Warning => "33",
        };
        let _ = match has_colours && !code.is_empty() {
            true => write!(text, "\r\n\x1b[K\x1b[{code}m{line}\x1b[0m"),
            false => write!(text, "\r\n\x1b[K{line}"),
        };
    }
    // The next row and all below it are erased, not the rest of this one: its last column may be the cursor's.
    let _ = write!(text, "\r\n\x1b[J\x1b[?7h\x1b[{}A", lines.len() + 1);
    text
}

/// The size of the terminal.
fn size() -> Size {
    size_of(io::stderr()).unwrap_or(DEFAULT_SIZE)
}

/// The columns of standard output; as many as are needed if it is no terminal.
pub fn stdout_columns() -> usize {
    size_of(io::stdout()).map_or(usize::from(u16::MAX), |size| size.columns)
}

fn size_of(terminal: impl AsFd) -> Option<Size> {
    let size = tcgetwinsize(terminal).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0)?;
    Some(Size { columns: size.ws_col.into(), rows: size.ws_row.into() })
}

fn lock<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_painted_below_the_cursor_and_without_control_characters_from_the_web() {
        let lines = [(Style::Strong, "5 pages".to_owned()), (Style::Plain, "http://a.test/\x1b[2J".into())];
        let text = painted(&lines, true);
        assert_eq!(
            text,
            "\r\x1b[?7l\x1b[K\r\n\x1b[K\x1b[1m5 pages\x1b[0m\r\n\x1b[Khttp://a.test/\\u{1b}[2J\r\n\x1b[J\x1b[?7h\x1b[3A"
        );
        assert!(!painted(&lines, false).contains("\x1b[1m"));
    }
}
