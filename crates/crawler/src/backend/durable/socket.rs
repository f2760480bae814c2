//! The socket in the directory of a state through which the process that runs the crawl replies to queries about it.
//!
//! A connection has one query and one reply, each with its length before it.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::super::linking_pages::FoundLinks;
use super::lock;
use super::state_query::{StateQuery, StateReply};
use crate::error::{Error, StorageError, StorageErrorKind};

/// The name of the socket in the directory.
pub(super) const SOCKET_FILE: &str = "crawl.socket";

/// The longest path of a socket: the system's limit on Linux is 107 bytes and on others less.
const MAX_PATH_BYTES: usize = 100;

/// Precedes every query. Another version of the crawler has another number if its messages differ.
const PROTOCOL: u32 = 7;

/// The largest query, which has the IDs of many URLs.
const MAX_QUERY_BYTES: usize = 256 << 10;

/// The largest reply, which is a page.
const MAX_REPLY_BYTES: usize = 1 << 30;

/// How long a reader waits for its reply: the process replies to many readers one after another, and may search pages.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);

/// A reader waits only for this time for a process that is suspended: it may be continued at any moment, or never.
const SUSPENDED_TIMEOUT: Duration = Duration::from_secs(2);

/// How often a reader that waits looks whether the process is suspended.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Why a process did not reply.
pub(super) enum QueryError {
    /// No process listens on the socket of the directory.
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

/// Sends a query to the process that runs the crawl in a directory, and returns its reply.
pub(super) fn send(directory: &Path, query: &StateQuery) -> Result<StateReply, QueryError> {
    let Ok((path, _opened)) = short_path(directory) else { return Err(QueryError::NoProcess) };
    let mut wait = Wait::for_reply(directory);
    exchange(&path, query, &mut wait).map_err(|error| {
        use ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        // Or the process has ended since the connection was made.
        match error {
            None => QueryError::NoProcess,
            Some(error) if matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof) => {
                QueryError::NoProcess
            }
            Some(error) => QueryError::Failed(no_reply(directory, error, &wait)),
        }
    })
}

/// Why the process that runs the crawl does not reply.
fn no_reply(directory: &Path, error: io::Error, wait: &Wait<'_>) -> Error {
    if let Some(process) = wait.suspended {
        return suspended(directory, process);
    }
    let process = lock::holder(directory).map_or_else(String::new, |process| format!(" (pid {process})"));
    let what = format!(
        "cannot read the state in '{}': the process that runs the crawl{process} does not reply",
        directory.display()
    );
    let error = match error.kind() {
        ErrorKind::TimedOut => {
            let seconds = REPLY_TIMEOUT.as_secs();
            io::Error::new(ErrorKind::TimedOut, format!("it hangs, or is busy for more than {seconds} s"))
        }
        _ => error,
    };
    let remedy = "try again, or stop the crawl first";
    Error::State(StorageError::with_source(StorageErrorKind::Io, what, error, remedy))
}

/// The error for a state whose process is suspended.
pub(super) fn suspended(directory: &Path, process: u32) -> Error {
    let message = format!(
        "cannot read the state in '{}': the process that uses it (pid {process}) is suspended; continue it with \
         'fg' or 'kill -CONT {process}'",
        directory.display()
    );
    Error::State(StorageError::new(StorageErrorKind::Io, message))
}

/// The error is `None` if no process listens.
fn exchange(path: &Path, query: &StateQuery, wait: &mut Wait<'_>) -> Result<StateReply, Option<io::Error>> {
    // A process that is suspended for long has connections from which it reads nothing. When they are too many, another
    // one waits without an end.
    while wait.look()? {
        thread::sleep(LOOK_INTERVAL);
    }
    let stream = UnixStream::connect(path).map_err(|_| None)?;
    let message = postcard::to_allocvec(&(PROTOCOL, query)).map_err(io::Error::other)?;
    if message.len() > MAX_QUERY_BYTES {
        return Ok(StateReply::too_long(query));
    }
    write_message(&stream, &message, wait)?;
    let reply = read_message(&stream, MAX_REPLY_BYTES, wait)?;
    let reply = postcard::from_bytes(&reply);
    Ok(reply.map_err(|_| io::Error::new(ErrorKind::InvalidData, "it has another version"))?)
}

/// How long a connection is waited for.
struct Wait<'d> {
    deadline: Instant,
    /// The directory of a process that may be suspended.
    directory: Option<&'d Path>,
    suspended_since: Option<Instant>,
    /// The process, if it is suspended for too long.
    suspended: Option<u32>,
}

impl<'d> Wait<'d> {
    fn until(deadline: Instant) -> Wait<'d> {
        Wait { deadline, directory: None, suspended_since: None, suspended: None }
    }

    fn for_reply(directory: &'d Path) -> Wait<'d> {
        Wait { directory: Some(directory), ..Wait::until(Instant::now() + REPLY_TIMEOUT) }
    }

    /// The time to wait until [`Wait::look`] is to be called; an error if the deadline has passed.
    fn step(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match (left.is_zero(), self.directory) {
            (true, _) => Err(ErrorKind::TimedOut.into()),
            (false, None) => Ok(left),
            (false, Some(_)) => Ok(left.min(LOOK_INTERVAL)),
        }
    }

    /// Whether the process is suspended; an error if it is for too long.
    fn look(&mut self) -> io::Result<bool> {
        let Some(process) = self.directory.and_then(lock::suspended_holder) else {
            self.suspended_since = None;
            return Ok(false);
        };
        let since = *self.suspended_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= SUSPENDED_TIMEOUT {
            self.suspended = Some(process);
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(true)
    }
}

impl StateReply {
    /// The reply to a query with a URL that is too long to have been admitted.
    fn too_long(query: &StateQuery) -> StateReply {
        match query {
            StateQuery::Content(_) => StateReply::Content(None),
            StateQuery::LinkingPages(..) => StateReply::LinkingPages(FoundLinks::default(), None),
            StateQuery::Control(action) => {
                StateReply::Control(Err(action.error("it is too long; give a shorter one")))
            }
            _ => StateReply::History(None),
        }
    }
}

/// Reads a query from a connection; `None` if it has another version.
pub(super) fn read_query(stream: &UnixStream, deadline: Instant) -> io::Result<Option<StateQuery>> {
    let query = read_message(stream, MAX_QUERY_BYTES, &mut Wait::until(deadline))?;
    let Ok((PROTOCOL, rest)) = postcard::take_from_bytes::<u32>(&query) else { return Ok(None) };
    Ok(postcard::from_bytes(rest).ok())
}

/// Writes the reply to a query.
pub(super) fn write_reply(stream: &UnixStream, reply: &StateReply, deadline: Instant) -> io::Result<()> {
    let reply = postcard::to_allocvec(reply).map_err(io::Error::other)?;
    write_message(stream, &reply, &mut Wait::until(deadline))
}

fn read_message(stream: &UnixStream, max: usize, wait: &mut Wait<'_>) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    read_exact(stream, &mut length, wait)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > max {
        return Err(io::Error::new(ErrorKind::InvalidData, "a message is too long"));
    }
    let mut message = vec![0; length];
    read_exact(stream, &mut message, wait)?;
    Ok(message)
}

fn write_message(stream: &UnixStream, message: &[u8], wait: &mut Wait<'_>) -> io::Result<()> {
    let length = u32::try_from(message.len()).map_err(io::Error::other)?;
    let mut unwritten = &[&length.to_le_bytes(), message].concat()[..];
    while !unwritten.is_empty() {
        stream.set_write_timeout(Some(wait.step()?))?;
        match moved({ stream }.write(unwritten), wait)? {
            Some(0) => return Err(ErrorKind::WriteZero.into()),
            Some(written) => unwritten = &unwritten[written..],
            None => {}
        }
    }
    Ok(())
}

fn read_exact(stream: &UnixStream, mut unread: &mut [u8], wait: &mut Wait<'_>) -> io::Result<()> {
    while !unread.is_empty() {
        stream.set_read_timeout(Some(wait.step()?))?;
        match moved({ stream }.read(unread), wait)? {
            Some(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Some(read) => unread = &mut unread[read..],
            None => {}
        }
    }
    Ok(())
}

/// How many bytes were read or written; `None` if that is to be tried again.
fn moved(result: io::Result<usize>, wait: &mut Wait<'_>) -> io::Result<Option<usize>> {
    match result {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            wait.look()?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
