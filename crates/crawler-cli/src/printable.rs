//! Prints text, with control characters from the web escaped so that they cannot steer the terminal.

use std::io::{self, Write};

use crawler::internal::log::COMMAND;

use crate::live::screen;
use crate::log;

pub use crawler::internal::printable::printable;

/// Prints an error message to standard error, and logs it.
pub fn print_error(message: &str) {
    tracing::error!(target: COMMAND, "{message}");
    print_message(message);
}

/// Prints a message to standard error, unless the log is there, which has it.
pub fn print_message(message: &str) {
    if !log::is_on_stderr() {
        screen::print(&format!("crawler: {message}"));
    }
}

/// Prints text to standard output. Returns false, after an error message, if it could not be written.
pub fn print_stdout(text: &str) -> bool {
    let mut out = io::stdout();
    is_printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Prints text to standard error.
pub fn print_stderr(text: &str) {
    // If standard error is closed, the exit status remains.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Whether a write to standard output succeeded; prints the error if not. A closed pipe (`| head`) counts as success.
pub fn is_printed(printed: io::Result<()>) -> bool {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            print_error(&format!("cannot write to standard output: {error}"));
            false
        }
        _ => true,
    }
}
