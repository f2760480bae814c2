//! The workers of a crawl, which join and leave at any time, and the leases that they have.

use std::time::Duration;

use tokio::time::Instant;

use super::super::super::{
    BackendError, DomainTransfer, HostClaim, HostDelay, Lease, TaskId, TransferResult, WorkerId,
};
use super::super::budgets::BudgetReservation;
use super::super::storage::{QueuedTask, Storage};
use super::{ActiveLease, LocalState};
use crate::domain::Domain;
use crate::origin::throttle_key;

impl<S: Storage> LocalState<S> {
    /// Adds a worker, unless it is there. A worker that was removed can be added again.
    pub(crate) fn add_worker(&mut self, worker: WorkerId) {
        self.waiting.add_worker(worker);
        self.leased_to(worker);
    }

    /// Records that a worker takes no URLs until it requests some, so that it gets no new domains.
    pub(crate) fn accept_no_urls(&mut self, worker: WorkerId) {
        self.waiting.set_wants_urls(worker, false);
    }

    /// The number of leases of a worker.
    pub(super) fn leased_to(&mut self, WorkerId(worker): WorkerId) -> &mut usize {
        let index = usize::from(worker);
        if index >= self.leased.len() {
            self.leased.resize(index + 1, 0);
        }
        &mut self.leased[index]
    }

    /// Removes a dead worker. Its leases end, and their URLs wait again.
    pub(crate) fn remove_worker(&mut self, worker: WorkerId) {
        let is_lost =
            |(task_id, active): (&TaskId, &ActiveLease)| (active.worker == worker).then_some(*task_id);
        let lost: Vec<TaskId> = self.leases.iter().filter_map(is_lost).collect();
        if !self.config.hosts.workers_share_throttle {
            self.cool_down_hosts_of(worker, &lost);
        }
        for task_id in lost {
            self.requeue(task_id);
        }
        self.waiting.remove_worker(worker);
    }

    /// Ends a lease, and lets the URL wait in front of the other URLs of its host.
    fn requeue(&mut self, task_id: TaskId) {
        if let Some(active) = self.end_lease(task_id) {
            self.budgets.release(&active.task.url, active.reservation);
            self.requeue_ended(active, Duration::ZERO);
        }
    }

    /// Transfers a domain to another worker, with all leases that its owner has of it.
    pub(crate) fn transfer_domain(
        &mut self,
        from: WorkerId,
        DomainTransfer { domain, to, leases, cooldowns }: &DomainTransfer,
    ) -> Result<TransferResult, BackendError> {
        let is_active = |lease: &&Lease| {
            let active = self.leases.get(&lease.task_id);
            active.is_some_and(|active| (active.lease_id, active.worker) == (lease.lease_id, from))
        };
        let returned: Vec<TaskId> = leases.iter().filter(is_active).map(|lease| lease.task_id).collect();
        match self.waiting.owner_and_leases(domain) {
            Some((owner, _)) if owner != from || !self.waiting.has_worker(*to) => {
                return Ok(TransferResult::Declined);
            }
            Some((_, leased)) if leased > returned.len() => return Ok(TransferResult::RetryLater),
            Some(_) => {}
            None => return Ok(TransferResult::Declined),
        }
        let site_key = domain.site_key();
        for (host, host_delay) in cooldowns {
            match *host == site_key {
                true => self.waiting.cool_down_domain(domain, host_delay.cooldown),
                false => self.set_host_delay(host, *host_delay)?,
            }
        }
        self.waiting.transfer_domain(domain, *to);
        for task_id in returned {
            self.requeue(task_id);
        }
        Ok(TransferResult::Moved)
    }

    /// Starts the cooldown of the hosts and domains of a dead worker: the worker may have just sent a request.
    fn cool_down_hosts_of(&mut self, worker: WorkerId, leases: &[TaskId]) {
        let limits = &self.config.hosts;
        self.waiting.cool_down_domains_of(worker, limits.delay.max(limits.site_delay));
        for active in leases.iter().filter_map(|task_id| self.leases.get(task_id)) {
            let host = throttle_key(&active.task.url);
            let delay = limits.delay.max(self.waiting.delay(host));
            self.cooldowns.set(host.to_owned(), HostDelay { delay, cooldown: delay });
        }
    }

    /// Makes a worker the owner of a host's domain, unless another worker owns it.
    pub(crate) fn claim_host(&mut self, worker: WorkerId, host: &str) -> HostClaim {
        if !self.waiting.has_worker(worker) {
            return HostClaim::LeaseLost;
        }
        match self.waiting.claim(worker, &Domain::from_throttle_key(host)) {
            Ok(next) => {
                let until = self.cooldowns.until(host).max(Some(next));
                let remaining = |until: Instant| until.saturating_duration_since(Instant::now());
                HostClaim::Granted { cooldown: until.map_or(Duration::ZERO, remaining) }
            }
            Err(owner) => HostClaim::OwnedBy(owner),
        }
    }

    /// Restores a lease that an earlier process granted: the URL stays leased to the worker. The storage has the lease
    /// already.
    pub(crate) fn restore_lease(
        &mut self,
        mut task: QueuedTask,
        worker: WorkerId,
        lease_id: u64,
        reservation: Option<BudgetReservation>,
    ) {
        if self.leases.contains_key(&task.task_id) {
            return;
        }
        task.queue = match Self::is_requisite(&task.url) {
            true => self.requisite_queue(),
            false => task.queue.min(self.requisite_queue() - 1),
        };
        self.budgets.admitted(&task.url);
        self.waiting.restore_lease(&task, worker);
        if let Some(reservation) = &reservation {
            self.budgets.add(&task.url, reservation);
        }
        *self.leased_to(worker) += 1;
        self.set_next_lease_id(lease_id + 1);
        let active = ActiveLease { task, worker, lease_id, is_blocked: false, turn: None, reservation };
        self.leases.insert(active.task.task_id, active);
    }

    /// Gives later leases larger ids than earlier processes did: this one or larger ones.
    pub(crate) fn set_next_lease_id(&mut self, lease_id: u64) {
        self.next_lease_id = self.next_lease_id.max(lease_id);
    }

    /// Restores when the next request to a host is allowed. The delay is remembered as long as URLs of the host are
    /// waiting or leased, so leases are to be restored before.
    pub(crate) fn restore_host_delay(&mut self, host: &str, host_delay: HostDelay) {
        self.cooldowns.set(host.to_owned(), host_delay);
        self.waiting.set_delay(host, host_delay.delay);
    }
}
