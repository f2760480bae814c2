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
    out: Box<dyn Write + Send>,
    /// The file, if there is one.
    path: Option<PathBuf>,
    /// The most bytes of a write.
    max_write: usize,
    /// Lines that could not be written, and are not in a line that says how many.
    lost: u64,
    /// Whether the last write failed.
    is_failing: bool,
    /// Whether the last line was not written to its end.
    is_truncated: bool,
}

impl Sink {
    /// Opens a file, to append to it.
    pub fn open(path: &Path) -> io::Result<Sink> {
        let (file, max_write) = open(path)?;
        Ok(Sink { path: Some(path.to_owned()), ..Sink::new(Box::new(file), max_write) })
    }

    pub fn stderr() -> Sink {
        // Its lock keeps lines from being mixed with what other threads print.
        Sink::new(Box::new(io::stderr()), MAX_LINE)
    }

    fn new(out: Box<dyn Write + Send>, max_write: usize) -> Sink {
        Sink { out, path: None, max_write, lost: 0, is_failing: false, is_truncated: false }
    }

    /// Writes lines. An error is printed once, and the lines are counted.
    pub fn write(&mut self, batch: Batch, format: LogFormat) {
        if batch.reopens {
            self.reopen(format);
        }
        let lines = whole_lines(&batch.lines, self.max_write);
        lines.for_each(|lines| self.write_lines(lines, format));
        if batch.dropped > 0 {
            self.lost += batch.dropped;
            self.write_lines(&[], format);
        }
    }

    /// Opens the file again: it may have been moved away. If that fails, the old one stays in use.
    fn reopen(&mut self, format: LogFormat) {
        let Some(path) = &self.path else { return };
        match open(path) {
            Ok((file, max_write)) => {
                (self.out, self.max_write, self.is_truncated) = (Box::new(file), max_write, false);
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
        // The next write starts with a line break if the last line has none.
        let lacks_break = left.get(written) == Some(&b'\n') && written > 0 && left[written - 1] != b'\n';
        let complete = written + usize::from(lacks_break);
        if complete >= added {
            // How many were lost is said.
            self.lost = 0;
        }
        let was_failing = std::mem::replace(&mut self.is_failing, result.is_err());
        let Err(error) = result else {
            self.is_truncated = false;
            return;
        };
        if !was_failing {
            let path = self.path.as_deref().map(|path| path.display().to_string());
            let path = path.unwrap_or_else(|| "standard error".into());
            print_message(&format!(
                "cannot write to the log '{path}': {error}; lines are missing from it until it can"
            ));
        }
        if written > 0 {
            self.is_truncated = left[written - 1] != b'\n';
        }
        let rest = &left[complete.max(added)..];
        self.lost += rest.iter().filter(|byte| **byte == b'\n').count() as u64;
    }

    /// Writes as much as possible, and returns how much that is.
    fn write_all(&mut self, lines: &[u8]) -> (usize, io::Result<()>) {
        let mut written = 0;
        while written < lines.len() {
            match self.out.write(&lines[written..]) {
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
    use std::sync::{Arc, Mutex};

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

    /// A disk with this much room, and what is on it.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(usize, Vec<u8>)>>);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (room, written) = &mut *self.0.lock().unwrap();
            let count = bytes.len().min(*room);
            *room -= count;
            written.extend_from_slice(&bytes[..count]);
            if count == 0 { Err(ErrorKind::StorageFull.into()) } else { Ok(count) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_line_is_written_or_counted_once_on_a_disk_that_fills_again_and_again() {
        let line = |number: usize| format!("line {number}\n");
        for room in (1..400).step_by(3) {
            let disk = Disk::default();
            let mut sink = Sink::new(Box::new(disk.clone()), MAX_WRITE);
            let (mut lines, mut dropped) = (0, 0);
            for _ in 0..6 {
                disk.0.lock().unwrap().0 = room;
                let text: String = (lines..lines + 9).map(line).collect();
                lines += 9;
                dropped += 5;
                sink.write(Batch { lines: text.into_bytes(), dropped: 5, reopens: false }, LogFormat::Json);
            }
            disk.0.lock().unwrap().0 = usize::MAX;
            sink.write(Batch { lines: line(lines).into_bytes(), ..Batch::default() }, LogFormat::Json);
            let text = String::from_utf8(disk.0.lock().unwrap().1.clone()).unwrap();
            let whole =
                (0..=lines).filter(|number| text.lines().any(|found| found == line(*number).trim_end()));
            let counts = text.lines().filter_map(|line| {
                line.strip_suffix('}')?
                    .split_once(r#""event":"lines dropped","count":"#)?
                    .1
                    .parse::<usize>()
                    .ok()
            });
            let (whole, counted) = (whole.count(), counts.sum::<usize>());
            assert_eq!(whole + counted, lines + 1 + dropped, "with room for {room} bytes: {text}");
        }
    }
}
