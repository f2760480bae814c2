//! Where the lines go: a file that can be opened again, a pipe or device, or standard error.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crawler::internal::log::{LOG, PREFIX};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use tracing::Level;

use super::line::{Line, LogFormat, MAX_LINE};
use super::queue::Batch;
use crate::printable::print_message;

/// How long a pipe may have no reader when it is opened: the reader may start at the same time.
const READER_TIMEOUT: Duration = Duration::from_secs(3);

/// How often a pipe is tried again.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The most bytes of a write to a file, which are whole lines. Writes that append are not mixed with those of other processes.
const MAX_WRITE: usize = 64 * 1024;

/// The lines of a log, on one thread.
pub struct Sink {
    out: Out,
    /// The file, if there is one.
    path: Option<PathBuf>,
    /// The most bytes of a write.
    max_write: usize,
    /// Lines that could not be written since the last one that could.
    lost: u64,
    /// Whether the last line was not written to its end.
    is_truncated: bool,
}

enum Out {
    File(File),
    Stderr,
}

impl Sink {
    /// Opens a file, to append to it.
    pub fn open(path: &Path) -> io::Result<Sink> {
        let (file, max_write) = open(path)?;
        let path = Some(path.to_owned());
        Ok(Sink { out: Out::File(file), path, max_write, lost: 0, is_truncated: false })
    }

    pub fn stderr() -> Sink {
        Sink { out: Out::Stderr, path: None, max_write: MAX_LINE, lost: 0, is_truncated: false }
    }

    /// Writes lines. An error is printed once, and the lines are counted.
    pub fn write(&mut self, batch: Batch, format: LogFormat) {
        if batch.reopens {
            self.reopen(format);
        }
        let lines = whole_lines(&batch.lines, self.max_write);
        lines.for_each(|lines| self.write_lines(lines, format));
        if batch.dropped > 0 {
            self.write_lines(dropped(batch.dropped, format).as_bytes(), format);
        }
    }

    /// Opens the file again: it may have been moved away. If that fails, the old one stays in use.
    fn reopen(&mut self, format: LogFormat) {
        let Some(path) = &self.path else { return };
        match open(path) {
            Ok((file, max_write)) => {
                (self.out, self.max_write, self.is_truncated) = (Out::File(file), max_write, false);
            }
            Err(error) => {
                let message = format!("cannot open the log '{}' again: {error}", path.display());
                print_message(&format!("{message}; the old file stays in use"));
                let mut line = Line::new(format);
                line.add_text("message", &message);
                self.write_lines(line.finish(Level::WARN, own_target()).as_bytes(), format);
            }
        }
    }

    fn write_lines(&mut self, lines: &[u8], format: LogFormat) {
        let mut left = Vec::new();
        if self.is_truncated {
            left.push(b'\n');
        }
        if self.lost > 0 {
            left.extend(dropped(self.lost, format).into_bytes());
        }
        let added = left.len();
        left.extend_from_slice(lines);
        let (written, result) = self.write_all(&left);
        let Err(error) = result else {
            (self.lost, self.is_truncated) = (0, false);
            return;
        };
        if self.lost == 0 {
            let path = self.path.as_deref().map(|path| path.display().to_string());
            let path = path.unwrap_or_else(|| "standard error".into());
            print_message(&format!(
                "cannot write to the log '{path}': {error}; lines are missing from it until it can"
            ));
        }
        if written > 0 {
            self.is_truncated = left[written - 1] != b'\n';
        }
        let rest = &left[written.max(added)..];
        self.lost += rest.iter().filter(|byte| **byte == b'\n').count() as u64;
    }

    /// Writes as much as possible, and returns how much that is.
    fn write_all(&mut self, lines: &[u8]) -> (usize, io::Result<()>) {
        let mut written = 0;
        while written < lines.len() {
            let result = match &mut self.out {
                Out::File(file) => file.write(&lines[written..]),
                // Not mixed with what other threads print.
                Out::Stderr => io::stderr().write(&lines[written..]),
            };
            match result {
                Ok(0) => return (written, Err(ErrorKind::WriteZero.into())),
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(POLL_INTERVAL),
                Err(error) => return (written, Err(error)),
            }
        }
        (written, Ok(()))
    }
}

/// Opens a file to append to it. Also returns how many bytes a write may have.
fn open(path: &Path) -> io::Result<(File, usize)> {
    let deadline = Instant::now() + READER_TIMEOUT;
    loop {
        let opened = OpenOptions::new()
            .append(true)
            .create(true)
            // A pipe without a reader is an error, and not waited for.
            .custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed())
            .open(path);
        match opened {
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                if Instant::now() >= deadline {
                    return Err(io::Error::other("no process reads it"));
                }
                thread::sleep(POLL_INTERVAL);
            }
            opened => {
                let file = opened?;
                fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
                let kind = file.metadata()?.file_type();
                return match kind.is_block_device() {
                    true => Err(io::Error::other("it is a block device")),
                    false => Ok((file, if kind.is_file() { MAX_WRITE } else { MAX_LINE })),
                };
            }
        }
    }
}

/// Divides lines into parts of at most this many bytes, each of them whole lines.
fn whole_lines(lines: &[u8], max: usize) -> impl Iterator<Item = &[u8]> {
    let mut rest = lines;
    std::iter::from_fn(move || {
        let end = match rest.len() <= max {
            true => rest.len(),
            false => rest[..max].iter().rposition(|byte| *byte == b'\n').map_or(max, |last| last + 1),
        };
        let (part, after) = rest.split_at(end);
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}

fn dropped(count: u64, format: LogFormat) -> String {
    let mut line = Line::new(format);
    line.add_text("message", "lines dropped");
    line.add_number("count", count);
    line.finish(Level::WARN, own_target())
}

fn own_target() -> &'static str {
    LOG.trim_start_matches(PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_whole_lines() {
        let lines = b"aa\nbbb\nc\n";
        let parts = |max| whole_lines(lines, max).collect::<Vec<_>>();
        assert_eq!(parts(100), [lines]);
        assert_eq!(parts(7), [&b"aa\nbbb\n"[..], b"c\n"]);
        assert_eq!(parts(4), [&b"aa\n"[..], b"bbb\n", b"c\n"]);
        assert!(whole_lines(b"", 4).next().is_none());
    }

    #[test]
    fn lost_lines_are_counted_once_writing_works_again() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("log");
        let batch = |lines: &str| Batch { lines: lines.into(), dropped: 0, reopens: false };
        let mut sink = Sink::open(Path::new("/dev/full")).unwrap();
        sink.write(batch("one\ntwo\n"), LogFormat::Text);
        sink.write(batch("three\n"), LogFormat::Text);
        sink.path = Some(path.clone());
        sink.write(Batch { reopens: true, ..batch("four\n") }, LogFormat::Json);
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with(r#""target":"log","event":"lines dropped","count":3}"#), "{text}");
        assert_eq!(lines[1..], ["four"]);
    }
}
