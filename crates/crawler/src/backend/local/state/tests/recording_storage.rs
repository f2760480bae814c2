//! A storage in memory that records what it is told about leases.

use std::sync::Arc;
use std::time::Duration;

use super::super::super::super::{BackendError, HostDelay, Lease, TaskId, WorkerId};
use super::super::super::budgets::BudgetReservation;
use super::super::super::memory_storage::MemoryStorage;
use super::super::super::storage::{Body, Commit, CompletedUrl, QueuedTask, SeenStatus, Storage, TaskRef};
use super::super::NewPage;
use crate::domain::Domain;
use crate::fetch::http::AddressKinds;
use crate::modules::output::{OutputPosition, OutputWrite};
use crate::task::Depth;
use crate::url_record::Discovery;

#[derive(Debug, PartialEq)]
pub(super) enum Recorded {
    Lease(TaskId, u64, WorkerId),
    Reservation(TaskId, Option<(u64, u64, bool)>),
    End(TaskId),
}

pub(super) struct RecordingStorage {
    pub(super) memory: MemoryStorage,
    pub(super) recorded: Vec<Recorded>,
}

/// Operations that the storage in memory does.
macro_rules! in_memory {
    ($(fn $name:ident(&mut self $(, $argument:ident: $kind:ty)*) $(-> $result:ty)?;)*) => {
        $(fn $name(&mut self $(, $argument: $kind)*) $(-> $result)? {
            self.memory.$name($($argument),*)
        })*
    };
}

impl Storage for RecordingStorage {
    type Parked = <MemoryStorage as Storage>::Parked;

    fn lease(&mut self, task: &QueuedTask, lease: &Lease, worker: WorkerId) {
        assert_eq!(task.url, lease.url);
        self.recorded.push(Recorded::Lease(task.task_id, lease.lease_id, worker));
    }

    fn set_reservation(&mut self, task_id: TaskId, reservation: Option<&BudgetReservation>) {
        let parts = reservation.map(|reservation| reservation.parts());
        self.recorded.push(Recorded::Reservation(task_id, parts));
    }

    fn end_lease(&mut self, task_id: TaskId) {
        self.recorded.push(Recorded::End(task_id));
    }

    fn id(&self, url: &str) -> u64 {
        self.memory.id(url)
    }

    fn overflow_len(&self) -> usize {
        self.memory.overflow_len()
    }

    fn depth(&self, task: &QueuedTask) -> Depth {
        self.memory.depth(task)
    }

    fn set_lastmod(&mut self, id: u64, lastmod: u32) {
        self.memory.set_lastmod(id, lastmod);
    }

    fn lastmod(&self, task: &QueuedTask) -> Result<Option<u32>, BackendError> {
        self.memory.lastmod(task)
    }

    fn discovery(&self, task: &QueuedTask) -> Result<Option<Arc<Discovery>>, BackendError> {
        self.memory.discovery(task)
    }

    fn seen_len(&self) -> usize {
        self.memory.seen_len()
    }

    fn body(&self, id: u64) -> Result<Option<Body<'static>>, BackendError> {
        self.memory.body(id)
    }

    fn store_page(
        &mut self,
        id: u64,
        page: &NewPage,
        has_earlier: bool,
        now: Duration,
    ) -> Result<(), BackendError> {
        self.memory.store_page(id, page, has_earlier, now)
    }

    in_memory! {
        fn mark_seen(&mut self, id: u64, depth: Depth) -> Result<SeenStatus, BackendError>;
        fn admit(&mut self, id: u64, task: TaskRef, queue: Option<&mut Self::Parked>);
        fn take_overflow(&mut self, max: usize) -> Result<Vec<QueuedTask>, BackendError>;
        fn park(&mut self, queue: &mut Self::Parked, task: QueuedTask);
        fn unpark(&mut self, queue: &mut Self::Parked) -> Result<Option<QueuedTask>, BackendError>;
        fn complete(&mut self, id: u64, task: &QueuedTask, completed: CompletedUrl);
        fn remove_page(&mut self, id: u64) -> Result<(), BackendError>;
        fn set_host_delay(&mut self, host: &str, host_delay: HostDelay) -> Result<(), BackendError>;
        fn set_group_pages(&mut self, host: &str, pages: u64) -> Result<(), BackendError>;
        fn set_address_kinds(&mut self, host: &str, kinds: AddressKinds) -> Result<(), BackendError>;
        fn set_linking_pages(&mut self, domain: &Domain, pages: u32);
        fn record_writes(&mut self, sequence: u64, page: Option<u64>, writes: Vec<(usize, OutputWrite)>);
        fn record_outputs_written(&mut self, written: OutputPosition, lengths: Vec<u64>);
        fn fail(&mut self, error: &BackendError);
        fn commit(&mut self) -> Commit;
    }
}
