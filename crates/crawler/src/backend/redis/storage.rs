//! Storage of the frontier process of a distributed crawl: everything is in memory, and every change goes into the next
//! batch that is written to Redis.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

use super::super::durable::records::{BodyLocation, HostRow, PageRow, TaskRow};
use super::super::{BackendError, Lease, TaskId, WorkerId};
use super::batch::RedisBatch;
use super::messages::{Position, Session, WorkerMessage, encode};
use super::records::{CompletedRecord, LeaseRow, ReasonRow};
use crate::backend::local::budgets::BudgetReservation;
use crate::backend::local::memory_storage::{MemoryStorage, operations_in_memory};
use crate::backend::local::state::NewPage;
use crate::backend::local::storage::{Body, Commit, CompletedUrl, QueuedTask, SeenStatus, Storage, TaskRef};
use crate::domain::Domain;
use crate::task::Depth;
use crate::url_record::Discovery;

/// Storage in memory, with a copy on Redis.
pub struct RedisStorage {
    pub(super) memory: MemoryStorage,
    /// The changes since the last batch was taken.
    pub(super) batch: RedisBatch,
    pub(super) committed: watch::Sender<Result<u64, BackendError>>,
    /// Wakes the committer: the batch may not be empty any more.
    pub(super) changed: Arc<Notify>,
    keep_depths: bool,
    /// The delay of every host, which also holds after a crash.
    default_delay: Duration,
    /// The hosts that differ from the default.
    pub(super) hosts: HashMap<String, HostRow>,
    /// How far the workers' messages are applied.
    pub(super) applied: Position,
    /// The workers.
    pub(super) sessions: BTreeMap<WorkerId, WorkerSession>,
    /// The leases, with the IDs of their URLs.
    pub(super) leases: HashMap<TaskId, (u64, LeaseRow)>,
}

/// What the frontier knows about a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WorkerSession {
    pub(super) session: Session,
    /// The number of its latest message.
    pub(super) number: u64,
    /// The last of its requests that is applied.
    pub(super) last_request: u64,
    /// How far it has read the replies.
    pub(super) read: Position,
    /// How many leases it accepts, and has got, from the start of the session.
    pub(super) max_leases: u64,
    pub(super) leases_sent: u64,
    /// How many HTTP requests it has sent.
    pub(super) http_requests: u64,
    /// It got leases with reservations since it last had to return those that it has not used.
    pub(super) has_reservations: bool,
}

impl WorkerSession {
    pub(super) fn new(session: Session) -> WorkerSession {
        WorkerSession { session, ..WorkerSession::default() }
    }

    /// Whether the worker has received nothing that the frontier does not know of: no reply to a request before those of
    /// its message, and no lease.
    pub(super) fn covers(&self, message: &WorkerMessage) -> bool {
        message.first_request <= self.last_request + 1 && message.leases_received <= self.leases_sent
    }

    /// How many more leases the worker accepts.
    pub(super) fn room(&self) -> u64 {
        self.max_leases.saturating_sub(self.leases_sent)
    }
}

impl RedisStorage {
    pub(super) fn new(
        memory: MemoryStorage,
        keep_depths: bool,
        default_delay: Duration,
        last_batch: u64,
    ) -> RedisStorage {
        RedisStorage {
            memory,
            batch: RedisBatch::new(last_batch + 1),
            committed: watch::Sender::new(Ok(last_batch)),
            changed: Arc::default(),
            keep_depths,
            default_delay,
            hosts: HashMap::new(),
            applied: Position::default(),
            sessions: BTreeMap::new(),
            leases: HashMap::new(),
        }
    }
}

impl Storage for RedisStorage {
    operations_in_memory!();

    fn mark_seen(&mut self, id: u64, depth: Depth) -> Result<SeenStatus, BackendError> {
        if self.keep_depths
            && let Some(before) = self.memory.pending_depth(id)
            && depth < before
        {
            self.batch.depths.insert(id, Some(depth.to_le_bytes().to_vec()));
        }
        self.memory.mark_seen(id, depth)
    }

    fn admit(&mut self, id: u64, task: TaskRef, queue: Option<&mut Self::Parked>) {
        // The page on which a URL was found is known by the ID of its URL. The ID of its task means nothing once it has
        // completed.
        let from = match self.leases.get(&task.from) {
            Some((from, _)) => TaskId(*from),
            None if task.from == task.task_id => TaskId(id),
            None => task.from,
        };
        let task = TaskRef { from, ..task };
        self.batch.tasks.insert(task.task_id.0, Some(TaskRow::bytes_of(&task)));
        self.memory.admit(id, task, queue);
    }

    fn complete(&mut self, id: u64, task: &QueuedTask, completed: CompletedUrl) {
        self.batch.complete(&CompletedRecord::new(id, task, &completed));
        if let Some(reason) = ReasonRow::from_outcome(&task.url, completed.outcome) {
            self.batch.reasons.insert(id, Some(encode(&reason)));
        } else if task.is_refetch {
            // The first visit may have had one.
            self.batch.reasons.insert(id, None);
        }
        self.batch.tasks.insert(task.task_id.0, None);
        if self.keep_depths {
            self.batch.depths.insert(id, None);
        }
        self.memory.complete(id, task, completed);
    }

    fn set_lastmod(&mut self, id: u64, lastmod: u32) {
        self.batch.lastmods.insert(id, lastmod);
        self.memory.set_lastmod(id, lastmod);
    }

    fn store_page(&mut self, id: u64, page: &NewPage, _: bool, now: Duration) -> Result<(), BackendError> {
        let NewPage { url, fingerprint, body_bytes, .. } = *page;
        // The worker stores the body, so only its size is known here.
        let body = body_bytes.map(|bytes| BodyLocation {
            segment: 0,
            offset: 0,
            length: u32::try_from(bytes).unwrap_or(u32::MAX),
            is_compressed: false,
        });
        let stored_at = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let (url, fingerprint) = (url.to_owned(), fingerprint.clone());
        let row = PageRow { stored_at, body, similarity: None, url, fingerprint };
        self.batch.pages.insert(id, Some(row.to_bytes()));
        Ok(())
    }

    fn body(&self, _: u64) -> Result<Option<Body<'static>>, BackendError> {
        Ok(None)
    }

    fn remove_page(&mut self, id: u64) -> Result<(), BackendError> {
        self.batch.pages.insert(id, None);
        Ok(())
    }

    fn change_host(
        &mut self,
        host: &str,
        change: impl FnOnce(&mut HostRow, Duration),
    ) -> Result<(), BackendError> {
        let mut row = self.hosts.get(host).copied().unwrap_or_default();
        let Some(changed) = row.change(|row| change(row, self.default_delay)) else { return Ok(()) };
        match changed {
            Some(_) => self.hosts.insert(host.to_owned(), row),
            None => self.hosts.remove(host),
        };
        self.batch.hosts.insert(host.to_owned(), changed);
        Ok(())
    }

    fn set_linking_pages(&mut self, domain: &Domain, pages: u32) {
        match self.batch.domains.get_mut(domain.as_str()) {
            Some(before) => *before = pages,
            None => drop(self.batch.domains.insert(domain.as_str().to_owned(), pages)),
        }
    }

    fn lease(&mut self, task: &QueuedTask, lease: &Lease, worker: WorkerId) {
        let row = LeaseRow {
            worker: worker.0,
            lease_id: lease.lease_id,
            queue: task.queue,
            attempts: task.attempts,
            reservation: None,
        };
        self.batch.leases.insert(task.task_id.0, Some(row));
        self.leases.insert(task.task_id, (self.id(&task.url), row));
    }

    fn set_reservation(&mut self, task_id: TaskId, reservation: Option<&BudgetReservation>) {
        if let Some((_, row)) = self.leases.get_mut(&task_id) {
            row.reservation = reservation.map(|reservation| reservation.parts());
            self.batch.leases.insert(task_id.0, Some(*row));
        }
    }

    fn end_lease(&mut self, task_id: TaskId) {
        self.leases.remove(&task_id);
        self.batch.leases.insert(task_id.0, None);
    }

    fn fail(&mut self, error: &BackendError) {
        self.batch = RedisBatch::new(self.batch.number);
        Commit::fail_all(&self.committed, error);
        self.changed.notify_one();
    }

    fn commit(&mut self) -> Commit {
        if !self.batch.is_empty() {
            self.changed.notify_one();
        }
        Commit::of_batch(self.batch.number, self.batch.is_empty(), &self.committed)
    }
}
