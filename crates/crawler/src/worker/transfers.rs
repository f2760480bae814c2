//! Transfers domains to less loaded workers: pauses each domain until it has no requests in flight, then
//! hands it over.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::domain_claims::DomainClaims;
use super::host_queues::HostQueues;
use super::joined;
use crate::backend::{
    Backend, BackendError, DomainTransfer, HostDelay, TransferResult, TransferTarget, WorkerId,
};
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

    /// Pauses a fair share of the worker's domains, to transfer them to `targets`. Does nothing while an
    /// earlier request is in progress.
    pub(super) fn start(&mut self, hosts: &mut HostQueues, targets: &[TransferTarget]) {
        if targets.is_empty() || self.is_active() {
            return;
        }
        let domains = hosts.leases_by_domain();
        let tied = self.claims.tied(|domain| domains.iter().any(|(owned, _)| owned == domain));
        let (tied, domains): (Vec<_>, Vec<_>) =
            domains.into_iter().partition(|(domain, _)| tied.contains(domain));
        let own_load = tied.iter().map(|(_, urls)| urls).sum();
        for (domain, to) in distribute(domains, own_load, targets) {
            self.pause(hosts, domain, to);
        }
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

/// Distributes domains, given with their numbers of URLs, over the worker itself and the targets: the largest
/// first, each to the least loaded. Returns those that go to a target. A worker's only domain stays.
fn distribute(
    mut domains: Vec<(Domain, usize)>,
    mut own_load: usize,
    targets: &[TransferTarget],
) -> Vec<(Domain, WorkerId)> {
    domains.sort_by(|(one, urls), (other, others)| others.cmp(urls).then_with(|| one.cmp(other)));
    let mut targets = targets.to_vec();
    let mut transferred = Vec::new();
    for (domain, urls) in domains {
        match targets.iter_mut().min_by_key(|target| target.load) {
            Some(target) if target.load < own_load => {
                target.load += urls;
                transferred.push((domain, target.id));
            }
            _ => own_load += urls,
        }
    }
    transferred
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distributed(domains: &[usize], loads: &[usize]) -> Vec<(String, u16)> {
        let domains =
            domains.iter().enumerate().map(|(n, urls)| (Domain::named(&format!("h{n}")), *urls)).collect();
        let targets: Vec<TransferTarget> = loads
            .iter()
            .zip(1..)
            .map(|(load, id)| TransferTarget { id: WorkerId(id), load: *load })
            .collect();
        let transferred = distribute(domains, 0, &targets);
        transferred.into_iter().map(|(domain, to)| (domain.as_str().to_owned(), to.0)).collect()
    }

    fn assert_transfers(transferred: Vec<(String, u16)>, expected: &[(&str, u16)]) {
        assert_eq!(
            transferred,
            expected.iter().map(|(name, to)| ((*name).to_owned(), *to)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn only_domain_stays() {
        assert_transfers(distributed(&[64], &[0]), &[]);
        assert_transfers(distributed(&[], &[0]), &[]);
    }

    #[test]
    fn idle_target_gets_half_and_the_largest_domain_stays() {
        assert_transfers(distributed(&[1, 64], &[0]), &[("h0", 1)]);
        assert_transfers(distributed(&[64, 64, 64, 64], &[0]), &[("h1", 1), ("h3", 1)]);
        assert_transfers(distributed(&[1; 5], &[0]), &[("h1", 1), ("h3", 1)]);
    }

    #[test]
    fn targets_get_equal_shares_less_their_own_load() {
        assert_transfers(distributed(&[10; 6], &[0, 0]), &[("h1", 1), ("h2", 2), ("h4", 1), ("h5", 2)]);
        assert_transfers(distributed(&[10; 6], &[30, 0]), &[("h1", 2), ("h3", 2), ("h5", 2)]);
        assert_transfers(distributed(&[10; 3], &[30]), &[]);
    }
}
