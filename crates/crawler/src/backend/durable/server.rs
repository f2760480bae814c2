//! Replies to queries about a running crawl, for processes that read its state.
//!
//! Queries about URLs are served from the last commit, without the lock of the crawl; only the counts take it, for a moment.
//! One query is served from the tables at a time, and every connection has a time limit.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use super::super::{Snapshot, SnapshotInternals as _, WaitReason};
use super::disk_storage::DiskStorage;
use super::file_reader::FileReader;
use super::open::StateWriter;
use super::state_query::{StateQuery, StateReply};
use super::state_reader::StateStatus;
use super::{Tables, socket};
use crate::backend::local::SharedState;
use crate::crawl_view::CrawlMonitor;
use crate::error::Error;
use crate::live_settings::CrawlControl;

/// How many readers are connected at a time. The others wait.
const MAX_READERS: usize = 4;

/// How long a reader may take to send its query, and to receive the reply.
const QUERY_TIMEOUT: Duration = Duration::from_secs(1);
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves until it is dropped.
pub struct StateServer {
    shared: Arc<ServerShared>,
    /// The threads end when it is closed.
    running: Option<UnixStream>,
    threads: Vec<JoinHandle<()>>,
}

struct ServerShared {
    state: Arc<SharedState<DiskStorage>>,
    tables: Arc<Tables>,
    directory: PathBuf,
    listener: UnixListener,
    stopped: UnixStream,
    /// Held while a query is served from the tables.
    reading: Mutex<()>,
    /// The last progress.
    progress: Mutex<Snapshot>,
    monitor: Arc<CrawlMonitor>,
    /// Changes the crawl.
    control: CrawlControl,
    /// The connection of each thread.
    connections: [Mutex<Option<UnixStream>>; MAX_READERS],
}

impl StateWriter {
    /// Replies to queries about the crawl that this process runs, and changes it.
    pub(crate) fn serve(&self, monitor: Arc<CrawlMonitor>, control: CrawlControl) -> io::Result<StateServer> {
        let listener = socket::create(&self.directory)?;
        let (running, stopped) = UnixStream::pair()?;
        let shared = Arc::new(ServerShared {
            state: Arc::clone(&self.shared),
            tables: Arc::clone(&self.tables),
            directory: self.directory.clone(),
            listener,
            stopped,
            reading: Mutex::default(),
            progress: Mutex::default(),
            monitor,
            control,
            connections: Default::default(),
        });
        let mut server = StateServer { shared, running: Some(running), threads: Vec::new() };
        for reader in 0..MAX_READERS {
            let shared = Arc::clone(&server.shared);
            let thread = thread::Builder::new().name("state reader".into());
            server.threads.push(thread.spawn(move || shared.serve(reader))?);
        }
        Ok(server)
    }
}

impl StateServer {
    /// A callback that takes what only the progress has, and passes the progress on.
    pub fn observe<F: Fn(&Snapshot) + Send + Sync>(
        &self,
        on_progress: F,
    ) -> impl Fn(&Snapshot) + Send + Sync + use<F> {
        let shared = Arc::clone(&self.shared);
        move |snapshot| {
            *unpoisoned(&shared.progress) = snapshot.clone();
            on_progress(snapshot);
        }
    }
}

impl Drop for StateServer {
    fn drop(&mut self) {
        socket::remove(&self.shared.directory);
        drop(self.running.take());
        for connection in &self.shared.connections {
            if let Some(connection) = &*unpoisoned(connection) {
                let _ = connection.shutdown(std::net::Shutdown::Both);
            }
        }
        for thread in self.threads.drain(..) {
            // A reader that panicked has not replied, which is all.
            let _ = thread.join();
        }
    }
}

impl ServerShared {
    /// Serves one connection after the other.
    fn serve(&self, reader: usize) {
        while self.wait_for_connection() {
            let Ok((stream, _)) = self.listener.accept() else { continue };
            // A reader that is gone, or too slow, gets no reply.
            let _ = self.serve_connection(&stream, reader);
            *unpoisoned(&self.connections[reader]) = None;
        }
    }

    /// Waits until a connection can be accepted. Returns false when the server stops.
    fn wait_for_connection(&self) -> bool {
        loop {
            let mut waiting =
                [PollFd::new(&self.stopped, PollFlags::IN), PollFd::new(&self.listener, PollFlags::IN)];
            match poll(&mut waiting, None) {
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
                Ok(_) => return waiting[0].revents().is_empty(),
            }
        }
    }

    fn serve_connection(&self, stream: &UnixStream, reader: usize) -> io::Result<()> {
        // Only on some systems an accepted socket is blocking.
        stream.set_nonblocking(false)?;
        *unpoisoned(&self.connections[reader]) = Some(stream.try_clone()?);
        let query = socket::read_query(stream, Instant::now() + QUERY_TIMEOUT)?;
        let reply = match query {
            None => StateReply::Failed(
                "cannot read the state: another version of the crawler runs the crawl".into(),
            ),
            Some(query) => self.reply(query),
        };
        socket::write_reply(stream, &reply, Instant::now() + REPLY_TIMEOUT)
    }

    fn reply(&self, query: StateQuery) -> StateReply {
        if let StateQuery::Status = query {
            // The process knows more of these than the state.
            let Snapshot { network_down, prioritizer_service, waiting_hosts, .. } =
                unpoisoned(&self.progress).clone();
            let now = self.state.state().snapshot();
            let snapshot = Snapshot { network_down, prioritizer_service, waiting_hosts, ..now };
            let (view, live) = (self.monitor.view(snapshot), self.monitor.live_settings());
            return StateReply::Status(Box::new(StateStatus::of_this_process(view, live)));
        }
        if let StateQuery::WaitReason(host) = query {
            // The state does not know of robots.txt.
            let listed = unpoisoned(&self.progress).why_waiting(&host);
            let of_robots = listed.filter(|why| matches!(why, WaitReason::RobotsTxt(_)));
            let why = of_robots.or_else(|| self.state.state().wait_reason(&host));
            return StateReply::WaitReason(why);
        }
        if let StateQuery::Control(action) = query {
            return StateReply::Control(self.control.apply(action));
        }
        let _reading = unpoisoned(&self.reading);
        let reader = FileReader::new(Arc::clone(&self.tables), &self.directory);
        let reply = reader.and_then(|mut reader| query.reply(&mut reader));
        reply.unwrap_or_else(|error| StateReply::Failed(format!("{:#}", Error::from(error))))
    }
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
