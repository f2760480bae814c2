//! The socket in the directory of a state through which the process that runs the crawl replies to queries about it.
//!
//! A connection has one query and one reply, each with its length before it.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::linking_pages::FoundLinks;
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

/// How long a reader waits for its reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);

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
    let Ok((path, _directory)) = short_path(directory) else { return Err(QueryError::NoProcess) };
    let Ok(stream) = UnixStream::connect(path) else { return Err(QueryError::NoProcess) };
    let replied = exchange(&stream, query);
    replied.map_err(|error| {
        use ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        // The process has ended since the connection was made.
        if matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof) {
            return QueryError::NoProcess;
        }
        let what = format!(
            "cannot read the state in '{}': the process that runs the crawl does not reply",
            directory.display()
        );
        let remedy = "try again, or stop the crawl first";
        QueryError::Failed(Error::State(StorageError::with_source(StorageErrorKind::Io, what, error, remedy)))
    })
}

fn exchange(stream: &UnixStream, query: &StateQuery) -> io::Result<StateReply> {
    let deadline = Instant::now() + REPLY_TIMEOUT;
    let message = postcard::to_allocvec(&(PROTOCOL, query)).map_err(io::Error::other)?;
    if message.len() > MAX_QUERY_BYTES {
        return Ok(StateReply::too_long(query));
    }
    write_message(stream, &message, deadline)?;
    let reply = read_message(stream, MAX_REPLY_BYTES, deadline)?;
    postcard::from_bytes(&reply).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it has another version"))
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
    let query = read_message(stream, MAX_QUERY_BYTES, deadline)?;
    let Ok((PROTOCOL, rest)) = postcard::take_from_bytes::<u32>(&query) else { return Ok(None) };
    Ok(postcard::from_bytes(rest).ok())
}

/// Writes the reply to a query.
pub(super) fn write_reply(stream: &UnixStream, reply: &StateReply, deadline: Instant) -> io::Result<()> {
    let reply = postcard::to_allocvec(reply).map_err(io::Error::other)?;
    write_message(stream, &reply, deadline)
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
