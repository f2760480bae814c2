//! Transfers domains to the only workers that can fetch from them: pauses each domain until it has no requests in flight,
//! then hands it over.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::domain_claims::DomainClaims;
use super::host_queues::HostQueues;
use super::joined;
use crate::backend::{Backend, BackendError, DomainTransfer, HostDelay, TransferResult, WorkerId};
use crate::domain::Domain;
use crate::fetch::throttle::HostThrottle;

/// How often paused domains are checked for requests in flight.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A domain that is not idle by then is not transferred: one slow host must not hold up the domain's other
/// hosts for longer.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// The most URLs of one transfer operation, so that other operations do not wait long for it.
const MAX_URLS: usize = 1_000;

/// Transfers and their results.
type TransferResults = Result<Vec<(DomainTransfer, TransferResult)>, BackendError>;

/// A domain that is paused until it has no requests in flight.
struct PendingTransfer {
    to: WorkerId,
    deadline: Instant,
}

/// The domains that this worker is transferring.
pub(super) struct PendingTransfers {
    /// The paused domains.
    pending: HashMap<Domain, PendingTransfer>,
    next_poll: Instant,
    /// The backend operation in progress, at most one.
    operation: JoinSet<TransferResults>,
    claims: Arc<DomainClaims>,
}

impl PendingTransfers {
    pub(super) fn new(claims: Arc<DomainClaims>) -> PendingTransfers {
        PendingTransfers {
            pending: HashMap::new(),
            next_poll: Instant::now(),
            operation: JoinSet::new(),
            claims,
        }
    }

    /// Whether domains are being transferred.
    pub(super) fn is_active(&self) -> bool {
        !self.pending.is_empty() || !self.operation.is_empty()
    }

    /// Pauses a domain, to transfer it to the only worker that can fetch from it.
    pub(super) fn start_required(&mut self, hosts: &mut HostQueues, domain: Domain, to: WorkerId) {
        if !self.pending.contains_key(&domain) {
            self.pause(hosts, domain, to);
        }
    }

    fn pause(&mut self, hosts: &mut HostQueues, domain: Domain, to: WorkerId) {
        let now = Instant::now();
        self.next_poll = now;
        hosts.pause(domain.clone());
        self.claims.start_transfer(domain.clone(), to);
        self.pending.insert(domain, PendingTransfer { to, deadline: now + IDLE_TIMEOUT });
    }

    /// Waits for the results of the operation in progress, or for the next poll, which has no results.
    pub(super) async fn next(&mut self) -> TransferResults {
        tokio::select! {
            biased;
            Some(results) = self.operation.join_next() => joined(results),
            () = sleep_until(self.next_poll), if self.operation.is_empty() => Ok(Vec::new()),
        }
    }

    /// Removes the leases of transferred domains, and resumes the domains that are not transferred.
    pub(super) fn apply_results(
        &mut self,
        results: Vec<(DomainTransfer, TransferResult)>,
        hosts: &mut HostQueues,
    ) {
        for (DomainTransfer { domain, leases, .. }, result) in results {
            if result == TransferResult::Moved {
                hosts.remove(&domain, &leases);
            }
            if result != TransferResult::RetryLater {
                self.end(&domain, hosts);
            }
        }
        if self.operation.is_empty() {
            let now = Instant::now();
            let is_late = |(_, transfer): &(&Domain, &PendingTransfer)| transfer.deadline <= now;
            let late: Vec<Domain> =
                self.pending.iter().filter(is_late).map(|(domain, _)| domain.clone()).collect();
            late.iter().for_each(|domain| self.end(domain, hosts));
        }
    }

    fn end(&mut self, domain: &Domain, hosts: &mut HostQueues) {
        self.pending.remove(domain);
        self.claims.end_transfer(domain);
        hosts.resume(domain);
    }

    /// Hands over the paused domains that have no requests in flight, if the last poll was long enough ago.
    pub(super) fn send_idle_domains<R: Backend>(
        &mut self,
        from: WorkerId,
        backend: &Arc<R>,
        hosts: &HostQueues,
        throttle: &HostThrottle,
    ) {
        let now = Instant::now();
        if !self.operation.is_empty() || self.next_poll > now {
            return;
        }
        self.next_poll = now + POLL_INTERVAL;
        let mut transfers: HashMap<Domain, DomainTransfer> = HashMap::new();
        let mut urls = 0;
        for (domain, leases) in hosts.idle_domains(self.pending.keys()) {
            if self.claims.is_claimed(&domain) {
                continue;
            }
            if urls > 0 && urls + leases.len() > MAX_URLS {
                break;
            }
            urls += leases.len();
            let to = self.pending[&domain].to;
            transfers.insert(domain.clone(), DomainTransfer { domain, to, leases, cooldowns: Vec::new() });
        }
        if transfers.is_empty() {
            return;
        }
        for (host, host_delay) in throttle.cooldowns() {
            if let Some(transfer) = transfers.get_mut(&Domain::from_throttle_key(&host)) {
                transfer.cooldowns.push((host, host_delay));
            }
        }
        for transfer in transfers.values_mut() {
            let cooldown = throttle.site_cooldown(&transfer.domain);
            if !cooldown.is_zero() {
                let host_delay = HostDelay { delay: Duration::ZERO, cooldown };
                transfer.cooldowns.push((transfer.domain.site_key(), host_delay));
            }
        }
        let transfers: Vec<DomainTransfer> = transfers.into_values().collect();
        let backend = Arc::clone(backend);
        self.operation.spawn(async move {
            let results = backend.transfer_domains(from, transfers.clone()).await?;
            Ok(transfers.into_iter().zip(results).collect())
        });
    }
}
