//! The socket in the directory of a state through which the process that runs the crawl answers questions about it.
//!
//! A connection has one question and one answer, each with its length before it.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::linking_pages::FoundLinks;
use super::inquiry::{Answer, Inquiry};
use crate::error::{Error, StorageError, StorageErrorKind};

/// The name of the socket in the directory.
pub(super) const SOCKET_FILE: &str = "crawl.socket";

/// The longest path of a socket: the system's limit on Linux is 107 bytes and on others less.
const MAX_PATH_BYTES: usize = 100;

/// Precedes every question. Another version of the crawler has another number if its messages differ.
const PROTOCOL: u32 = 5;

/// The largest question, which has the IDs of many URLs.
const MAX_QUESTION_BYTES: usize = 256 << 10;

/// The largest answer, which is a page.
const MAX_ANSWER_BYTES: usize = 1 << 30;

/// How long a reader waits for its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Why a process did not answer.
pub(super) enum AskError {
    /// No process answers for the directory.
    NoProcess,
    /// A process did, but failed.
    Failed(Error),
}

/// A path of the socket that is short enough for the system. The directory must stay open while the path is used.
fn short_path(directory: &Path) -> io::Result<(PathBuf, Option<File>)> {
    let path = directory.join(SOCKET_FILE);
    if path.as_os_str().len() <= MAX_PATH_BYTES {
        return Ok((path, None));
    }
    let opened = File::open(directory)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd())).join(SOCKET_FILE);
    Ok((path, Some(opened)))
}

/// Creates the socket, for its owner only. This process has locked the directory, so a socket that is there is left from a
/// process that was killed.
pub(super) fn create(directory: &Path) -> io::Result<UnixListener> {
    let path = directory.join(SOCKET_FILE);
    match fs::symlink_metadata(&path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(&path)?,
        Ok(_) => return Err(io::Error::new(ErrorKind::AlreadyExists, "a file of that name is not a socket")),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let (short, _directory) = short_path(directory)?;
    let listener = UnixListener::bind(short)?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Removes the socket.
pub(super) fn remove(directory: &Path) {
    // A socket that is left is replaced by the next process.
    let _ = fs::remove_file(directory.join(SOCKET_FILE));
}

/// Asks the process that runs the crawl in a directory.
pub(super) fn ask(directory: &Path, inquiry: &Inquiry) -> Result<Answer, AskError> {
    let Ok((path, _directory)) = short_path(directory) else { return Err(AskError::NoProcess) };
    let Ok(stream) = UnixStream::connect(path) else { return Err(AskError::NoProcess) };
    let answered = exchange(&stream, inquiry);
    answered.map_err(|error| {
        use ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        // The process has ended since the connection was made.
        if matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof) {
            return AskError::NoProcess;
        }
        let what = format!(
            "cannot read the state in '{}': the process that runs the crawl does not answer",
            directory.display()
        );
        let remedy = "try again, or stop the crawl first";
        AskError::Failed(Error::State(StorageError::with_source(StorageErrorKind::Io, what, error, remedy)))
    })
}

fn exchange(stream: &UnixStream, inquiry: &Inquiry) -> io::Result<Answer> {
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    let question = postcard::to_allocvec(&(PROTOCOL, inquiry)).map_err(io::Error::other)?;
    if question.len() > MAX_QUESTION_BYTES {
        return Ok(Answer::too_long(inquiry));
    }
    write_message(stream, &question, deadline)?;
    let answer = read_message(stream, MAX_ANSWER_BYTES, deadline)?;
    postcard::from_bytes(&answer)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is of another version"))
}

impl Answer {
    /// The answer to a question with a URL that is too long to have been admitted.
    fn too_long(inquiry: &Inquiry) -> Answer {
        match inquiry {
            Inquiry::Content(_) => Answer::Content(None),
            Inquiry::LinkingPages(..) => Answer::LinkingPages(FoundLinks::default(), None),
            Inquiry::Control(action) => {
                Answer::Control(Err(action.error("it is too long; give a shorter one")))
            }
            _ => Answer::History(None),
        }
    }
}

/// Reads a question from a connection; `None` if it is none of this version.
pub(super) fn read_question(stream: &UnixStream, deadline: Instant) -> io::Result<Option<Inquiry>> {
    let question = read_message(stream, MAX_QUESTION_BYTES, deadline)?;
    let Ok((PROTOCOL, rest)) = postcard::take_from_bytes::<u32>(&question) else { return Ok(None) };
    Ok(postcard::from_bytes(rest).ok())
}

/// Writes the answer to a question.
pub(super) fn write_answer(stream: &UnixStream, answer: &Answer, deadline: Instant) -> io::Result<()> {
    let answer = postcard::to_allocvec(answer).map_err(io::Error::other)?;
    write_message(stream, &answer, deadline)
}

fn read_message(stream: &UnixStream, max: usize, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    read_exact(stream, &mut length, deadline)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > max {
        return Err(io::Error::new(ErrorKind::InvalidData, "a message is too long"));
    }
    let mut message = vec![0; length];
    read_exact(stream, &mut message, deadline)?;
    Ok(message)
}

fn write_message(stream: &UnixStream, message: &[u8], deadline: Instant) -> io::Result<()> {
    let length = u32::try_from(message.len()).map_err(io::Error::other)?;
    let mut unwritten = &[&length.to_le_bytes(), message].concat()[..];
    while !unwritten.is_empty() {
        stream.set_write_timeout(Some(time_left(deadline)?))?;
        match { stream }.write(unwritten) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => unwritten = &unwritten[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn read_exact(stream: &UnixStream, mut unread: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !unread.is_empty() {
        stream.set_read_timeout(Some(time_left(deadline)?))?;
        match { stream }.read(unread) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => unread = &mut unread[read..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The time until a deadline; an error if it has passed.
fn time_left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}
