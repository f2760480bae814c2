//! Domains on their way to workers that have less to do: held back until nothing of them is in flight, then passed on.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::host_queues::HostQueues;
use super::joined;
use crate::backend::{Backend, BackendError, DomainTransfer, TransferResult, TransferTarget, WorkerId};
use crate::domain::Domain;
use crate::fetch::throttle::HostThrottle;

/// How often it is looked which domains have nothing in flight any more.
const LOOK: Duration = Duration::from_millis(50);

/// What cannot be passed on for so long stays: one slow host of a domain must not hold up its others for longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// So many URLs are passed on at a time: nobody must wait long for it.
const MOST: usize = 1_000;

/// Handovers, and what came of each.
type Answer = Result<Vec<(DomainTransfer, TransferResult)>, BackendError>;

/// Domains on their way.
pub(super) struct PendingTransfers {
    /// Whose each shall be.
    bound: HashMap<Domain, WorkerId>,
    until: Instant,
    next_look: Instant,
    /// The handovers under way: one move at a time.
    moves: JoinSet<Answer>,
}

impl PendingTransfers {
    /// Nothing is on its way yet.
    pub(super) fn new() -> PendingTransfers {
        let now = Instant::now();
        PendingTransfers { bound: HashMap::new(), until: now, next_look: now, moves: JoinSet::new() }
    }

    /// Whether there is anything to wait for.
    pub(super) fn is_under_way(&self) -> bool {
        !self.bound.is_empty() || !self.moves.is_empty()
    }

    /// Begins to pass on a fair part of what is in hand. Who is asked again while it is at that need not do more.
    pub(super) fn begin(&mut self, hosts: &mut HostQueues, takers: &[TransferTarget]) {
        if takers.is_empty() || self.is_under_way() {
            return;
        }
        self.bound = deal(hosts.by_domain(), takers).into_iter().collect();
        for domain in self.bound.keys() {
            hosts.hold_back(domain.clone());
        }
        self.next_look = Instant::now();
        self.until = self.next_look + PATIENCE;
    }

    /// Returns when there is something to do: what came of handovers, or it is time to look for more.
    pub(super) async fn next(&mut self) -> Answer {
        tokio::select! {
            biased;
            Some(answer) = self.moves.join_next() => joined(answer),
            () = sleep_until(self.next_look), if self.moves.is_empty() => Ok(Vec::new()),
        }
    }

    /// Lets go of what was passed on, and goes on with what was not.
    pub(super) fn passed(&mut self, answers: Vec<(DomainTransfer, TransferResult)>, hosts: &mut HostQueues) {
        for (DomainTransfer { domain, leases, .. }, passed) in answers {
            if passed == TransferResult::Moved {
                hosts.let_go(&domain, &leases);
            }
            if passed != TransferResult::RetryLater {
                self.bound.remove(&domain);
                hosts.release(&domain);
            }
        }
        if self.until <= Instant::now() && self.moves.is_empty() {
            for (domain, _) in self.bound.drain() {
                hosts.release(&domain);
            }
        }
    }

    /// Passes on the domains that have nothing in flight any more.
    pub(super) fn go_on<R: Backend>(
        &mut self,
        from: WorkerId,
        backend: &Arc<R>,
        hosts: &HostQueues,
        pace: &HostThrottle,
    ) {
        let now = Instant::now();
        if !self.moves.is_empty() || self.next_look > now {
            return;
        }
        self.next_look = now + LOOK;
        let mut handovers: HashMap<Domain, DomainTransfer> = HashMap::new();
        let mut count = 0;
        for (domain, leases) in hosts.at_rest(self.bound.keys()) {
            if count > 0 && count + leases.len() > MOST {
                break;
            }
            count += leases.len();
            let to = self.bound[&domain];
            handovers.insert(domain.clone(), DomainTransfer { domain, to, leases, cooldowns: Vec::new() });
        }
        if handovers.is_empty() {
            return;
        }
        for (host, host_delay) in pace.cooldowns() {
            if let Some(handover) = handovers.get_mut(&Domain::from_throttle_key(&host)) {
                handover.cooldowns.push((host, host_delay));
            }
        }
        let handovers: Vec<DomainTransfer> = handovers.into_values().collect();
        let backend = Arc::clone(backend);
        self.moves.spawn(async move {
            let passed = backend.transfer_domains(from, handovers.clone()).await?;
            Ok(handovers.into_iter().zip(passed).collect())
        });
    }
}

/// Deals domains of so many URLs, the largest first, each to whoever has least by then; what falls to the one who has them
/// stays. Whoever has one domain keeps it.
fn deal(mut domains: Vec<(Domain, usize)>, takers: &[TransferTarget]) -> Vec<(Domain, WorkerId)> {
    domains.sort_by(|(one, urls), (other, others)| others.cmp(urls).then_with(|| one.cmp(other)));
    let mut own = 0;
    let mut takers = takers.to_vec();
    let mut dealt = Vec::new();
    for (domain, urls) in domains {
        match takers.iter_mut().min_by_key(|taker| taker.load) {
            Some(taker) if taker.load < own => {
                taker.load += urls;
                dealt.push((domain, taker.id));
            }
            _ => own += urls,
        }
    }
    dealt
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dealt(domains: &[usize], takers: &[usize]) -> Vec<(String, u16)> {
        let domains =
            domains.iter().enumerate().map(|(n, urls)| (Domain::named(&format!("h{n}")), *urls)).collect();
        let takers: Vec<TransferTarget> =
            takers.iter().zip(1..).map(|(has, id)| TransferTarget { id: WorkerId(id), load: *has }).collect();
        let dealt = deal(domains, &takers);
        dealt.into_iter().map(|(domain, to)| (domain.as_str().to_owned(), to.0)).collect()
    }

    fn is(dealt: Vec<(String, u16)>, expected: &[(&str, u16)]) {
        assert_eq!(dealt, expected.iter().map(|(name, to)| ((*name).to_owned(), *to)).collect::<Vec<_>>());
    }

    #[test]
    fn who_has_one_domain_keeps_it() {
        is(dealt(&[64], &[0]), &[]);
        is(dealt(&[], &[0]), &[]);
    }

    #[test]
    fn half_of_what_is_there_goes_to_one_who_has_nothing_and_the_largest_stays() {
        is(dealt(&[1, 64], &[0]), &[("h0", 1)]);
        is(dealt(&[64, 64, 64, 64], &[0]), &[("h1", 1), ("h3", 1)]);
        is(dealt(&[1; 5], &[0]), &[("h1", 1), ("h3", 1)]);
    }

    #[test]
    fn several_takers_get_equal_parts_and_who_has_something_gets_less() {
        is(dealt(&[10; 6], &[0, 0]), &[("h1", 1), ("h2", 2), ("h4", 1), ("h5", 2)]);
        is(dealt(&[10; 6], &[30, 0]), &[("h1", 2), ("h3", 2), ("h5", 2)]);
        is(dealt(&[10; 3], &[30]), &[]);
    }
}
