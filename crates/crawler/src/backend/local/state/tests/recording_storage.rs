//! A storage in memory that records its operations on leases.

use std::sync::Arc;
use std::time::Duration;

use super::super::super::super::{BackendError, Lease, TaskId, WorkerId};
use super::super::super::budgets::BudgetReservation;
use super::super::super::memory_storage::{MemoryStorage, operations_in_memory};
use super::super::super::storage::{Body, Commit, CompletedUrl, QueuedTask, SeenStatus, Storage, TaskRef};
use super::super::NewPage;
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

impl Storage for RecordingStorage {
    operations_in_memory!();

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

    fn set_lastmod(&mut self, id: u64, lastmod: u32) {
        self.memory.set_lastmod(id, lastmod);
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

    fn mark_seen(&mut self, id: u64, depth: Depth) -> Result<SeenStatus, BackendError> {
        self.memory.mark_seen(id, depth)
    }

    fn admit(&mut self, id: u64, task: TaskRef, queue: Option<&mut Self::Parked>) {
        self.memory.admit(id, task, queue);
    }

    fn complete(&mut self, id: u64, task: &QueuedTask, completed: CompletedUrl) {
        self.memory.complete(id, task, completed);
    }

    fn remove_page(&mut self, id: u64) -> Result<(), BackendError> {
        self.memory.remove_page(id)
    }

    fn fail(&mut self, error: &BackendError) {
        self.memory.fail(error);
    }

    fn commit(&mut self) -> Commit {
        self.memory.commit()
    }
}
