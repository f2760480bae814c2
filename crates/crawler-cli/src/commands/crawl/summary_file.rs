//! The file of `--summary`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Access, OFlags, access};

use super::json::SummaryJson;
use crate::atomic_file::AtomicFile;

/// How long a pipe may have no reader, or one that does not read.
const PIPE_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a pipe is tried again.
const PIPE_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Where the summary is written.
pub enum SummaryFile {
    /// A file, which is complete or as it was.
    File(AtomicFile),
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A pipe, a device or an open file. It is not replaced.
    Stream(PathBuf),
}

/// Whether a path means standard output.
pub fn is_stdout(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|stdout| path == Path::new(stdout))
}

/// Whether a path means standard error.
pub fn is_stderr(path: &Path) -> bool {
    ["/dev/stderr", "/dev/fd/2", "/proc/self/fd/2"].iter().any(|stderr| path == Path::new(stderr))
}

impl SummaryFile {
    /// Checks that the summary can be written to this path.
    pub fn new(path: &Path) -> Result<SummaryFile, String> {
        if is_stdout(path) {
            return Ok(SummaryFile::Stdout);
        }
        if is_stderr(path) {
            return Ok(SummaryFile::Stderr);
        }
        let is_stream = |kind: fs::FileType| kind.is_fifo() || kind.is_char_device();
        let is_open_file = path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd");
        if !is_open_file && !fs::metadata(path).is_ok_and(|found| is_stream(found.file_type())) {
            return AtomicFile::new("--summary", path, 0o666).map(SummaryFile::File);
        }
        access(path, Access::WRITE_OK).map_err(|error| {
            let error = io::Error::from(error);
            format!("cannot write --summary '{}': {error}; name a file that can be written", path.display())
        })?;
        Ok(SummaryFile::Stream(path.to_owned()))
    }

    /// Writes the summary, replacing an older one if it is in a file.
    pub fn write(&self, summary: &SummaryJson<'_>) -> Result<(), String> {
        let text = serde_json::to_vec_pretty(summary).map(|mut text| {
            text.push(b'\n');
            text
        });
        let text = text.map_err(|error| format!("cannot write the summary: {error}"))?;
        let (name, written) = match self {
            SummaryFile::File(file) => return file.write("the summary", |file| file.write_all(&text)),
            SummaryFile::Stdout => ("standard output", write_stdout(&text)),
            SummaryFile::Stderr => ("standard error", io::stderr().write_all(&text)),
            SummaryFile::Stream(path) => (&*path.display().to_string(), write_stream(path, &text)),
        };
        written.map_err(|error| format!("cannot write the summary to '{name}': {error}"))
    }
}

/// A reader that has closed standard output (`| head`) wants no more.
fn write_stdout(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Writes to a pipe or device without waiting forever for its reader.
fn write_stream(path: &Path, mut text: &[u8]) -> io::Result<()> {
    let deadline = Instant::now() + PIPE_TIMEOUT;
    let wait = |cause: &str| {
        if Instant::now() >= deadline {
            return Err(io::Error::new(ErrorKind::TimedOut, cause.to_owned()));
        }
        thread::sleep(PIPE_POLL_INTERVAL);
        Ok(())
    };
    let mut stream = loop {
        match open_stream(path) {
            // A pipe has no reader yet.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
                wait("no process reads it")?;
            }
            opened => break opened?,
        }
    };
    while !text.is_empty() {
        match stream.write(text) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => text = &text[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait("its reader does not read")?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn open_stream(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::APPEND;
    OpenOptions::new().write(true).custom_flags(flags.bits().cast_signed()).open(path)
}
