//! Decides which workers transfer domains to which: a worker that is underloaded for a while gets some
//! domains of a busier one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::backend::{TransferTarget, WorkerId};

/// A worker gets domains once it has been underloaded for this long. URLs that are being routed to it arrive
/// sooner.
const MIN_UNDERLOADED: Duration = Duration::from_millis(900);

/// How long both workers of a transfer take part in no other: the effect takes a moment to show.
const COOLDOWN: Duration = Duration::from_secs(5);

/// A worker with URLs is underloaded if another has this many times as many URLs …
const MIN_LOAD_RATIO: usize = 4;
/// … and more than this many URLs more: a transferred domain costs another fetch of robots.txt, and new
/// connections.
const MIN_LOAD_DIFFERENCE: usize = 128;

/// The load of a worker.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkerLoad {
    pub(super) id: WorkerId,
    /// Queued for it and leased to it.
    pub(super) urls: usize,
    /// The number of domains of which it has leases.
    pub(super) domains: usize,
}

impl WorkerLoad {
    fn can_give(&self) -> bool {
        self.domains > 1
    }

    fn is_underloaded_next_to(&self, other: &WorkerLoad) -> bool {
        match self.urls {
            0 => other.urls > 0,
            urls => other.urls >= MIN_LOAD_RATIO * urls && other.urls - urls > MIN_LOAD_DIFFERENCE,
        }
    }
}

/// A worker, and the workers it should transfer domains to.
pub(super) type RebalanceOrder = (WorkerId, Vec<TransferTarget>);

/// Decides on transfers from the loads of the workers over time.
#[derive(Debug, Default)]
pub(super) struct Rebalancer {
    underloaded_since: HashMap<WorkerId, Instant>,
    cooldown_until: HashMap<WorkerId, Instant>,
}

impl Rebalancer {
    /// The transfers to start now, given the current loads. Call it regularly.
    pub(super) fn update(&mut self, loads: &[WorkerLoad]) -> Vec<RebalanceOrder> {
        self.update_at(loads, Instant::now())
    }

    fn update_at(&mut self, loads: &[WorkerLoad], now: Instant) -> Vec<RebalanceOrder> {
        let is_underloaded = |load: &WorkerLoad| {
            loads.iter().any(|other| other.can_give() && load.is_underloaded_next_to(other))
        };
        let underloaded: Vec<WorkerLoad> = loads.iter().copied().filter(is_underloaded).collect();
        self.underloaded_since.retain(|id, _| underloaded.iter().any(|load| load.id == *id));
        self.cooldown_until.retain(|_, until| *until > now);
        let mut receivers: Vec<WorkerLoad> = Vec::new();
        for load in &underloaded {
            let since = *self.underloaded_since.entry(load.id).or_insert(now);
            if now.duration_since(since) >= MIN_UNDERLOADED && !self.cooldown_until.contains_key(&load.id) {
                receivers.push(*load);
            }
        }
        // The least loaded is matched first, with the most loaded.
        receivers.sort_by_key(|load| (load.urls, load.id));
        let orders = match_workers(&receivers, &self.givers(loads));
        for (giver, targets) in &orders {
            self.cooldown_until.insert(*giver, now + COOLDOWN);
            self.cooldown_until.extend(targets.iter().map(|target| (target.id, now + COOLDOWN)));
        }
        orders
    }

    /// The workers that can give domains and have at least half the load of the most loaded of them, most
    /// loaded first.
    fn givers(&self, loads: &[WorkerLoad]) -> Vec<WorkerLoad> {
        let can_give = |load: &WorkerLoad| load.can_give() && !self.cooldown_until.contains_key(&load.id);
        let mut givers: Vec<WorkerLoad> = loads.iter().copied().filter(can_give).collect();
        givers.sort_by_key(|load| (std::cmp::Reverse(load.urls), load.id));
        let most = givers.first().map_or(0, |load| load.urls);
        givers.retain(|load| 2 * load.urls >= most);
        givers
    }
}

/// Assigns each receiver to the giver with the fewest receivers. Each giver keeps at least one domain.
fn match_workers(receivers: &[WorkerLoad], givers: &[WorkerLoad]) -> Vec<RebalanceOrder> {
    let mut orders: Vec<(WorkerLoad, Vec<TransferTarget>)> =
        givers.iter().map(|giver| (*giver, Vec::new())).collect();
    for receiver in receivers {
        let fits = |(giver, targets): &&mut (WorkerLoad, Vec<TransferTarget>)| {
            receiver.is_underloaded_next_to(giver) && targets.len() + 1 < giver.domains
        };
        if let Some((_, targets)) = orders.iter_mut().filter(fits).min_by_key(|(_, targets)| targets.len()) {
            targets.push(TransferTarget { id: receiver.id, load: receiver.urls });
        }
    }
    orders.retain(|(_, targets)| !targets.is_empty());
    orders.into_iter().map(|(giver, targets)| (giver.id, targets)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(all: &[(usize, usize)]) -> Vec<WorkerLoad> {
        all.iter()
            .zip(0..)
            .map(|((urls, domains), id)| WorkerLoad { id: WorkerId(id), urls: *urls, domains: *domains })
            .collect()
    }

    /// The transfers that the second of two updates with the same loads starts, a second after the first.
    fn decided(all: &[(usize, usize)]) -> Vec<(u16, Vec<u16>)> {
        let (mut rebalancer, now, loads) = (Rebalancer::default(), Instant::now(), loads(all));
        assert!(rebalancer.update_at(&loads, now).is_empty(), "one update is not enough");
        ids(rebalancer.update_at(&loads, now + Duration::from_secs(1)))
    }

    fn ids(orders: Vec<RebalanceOrder>) -> Vec<(u16, Vec<u16>)> {
        orders
            .into_iter()
            .map(|(giver, targets)| (giver.0, targets.into_iter().map(|target| target.id.0).collect()))
            .collect()
    }

    #[test]
    fn idle_worker_gets_domains_from_the_busiest() {
        assert_eq!(decided(&[(300, 5), (700, 11), (0, 0)]), [(1, vec![2])]);
        assert_eq!(decided(&[(12, 12), (0, 0)]), [(0, vec![1])]);
    }

    #[test]
    fn single_domain_is_not_split() {
        assert_eq!(decided(&[(64, 1), (0, 0)]), []);
        assert_eq!(decided(&[(64, 1), (0, 0), (2, 2)]), [(2, vec![1])]);
    }

    #[test]
    fn similar_loads_are_not_rebalanced() {
        assert_eq!(decided(&[(700, 11), (300, 5)]), []);
        assert_eq!(decided(&[(100, 4), (1, 1)]), []);
        assert_eq!(decided(&[(700, 11), (64, 1)]), [(0, vec![1])]);
    }

    #[test]
    fn idle_workers_are_spread_over_givers_and_each_giver_keeps_a_domain() {
        assert_eq!(decided(&[(640, 10), (0, 0), (0, 0), (600, 10)]), [(0, vec![1]), (3, vec![2])]);
        assert_eq!(decided(&[(640, 10), (0, 0), (0, 0), (200, 3)]), [(0, vec![1, 2])]);
        assert_eq!(decided(&[(64, 2), (0, 0), (0, 0)]), [(0, vec![1])]);
    }

    #[test]
    fn workers_of_a_transfer_take_part_in_no_other_during_the_cooldown() {
        let (mut rebalancer, start) = (Rebalancer::default(), Instant::now());
        let second = |seconds| start + Duration::from_secs(seconds);
        let all = loads(&[(640, 10), (0, 0), (600, 10)]);
        let decided: Vec<_> = (0..8).map(|now| ids(rebalancer.update_at(&all, second(now)))).collect();
        let when: Vec<usize> = (0..8).filter(|now| !decided[*now].is_empty()).collect();
        assert_eq!(when, [1, 6], "{decided:?}");
    }

    #[test]
    fn work_in_between_resets_the_underload_timer() {
        let (mut rebalancer, start) = (Rebalancer::default(), Instant::now());
        let second = |seconds| start + Duration::from_secs(seconds);
        for now in 0..6 {
            let urls = usize::from(now % 2 == 0);
            assert!(rebalancer.update_at(&loads(&[(64, 10), (urls, urls)]), second(now)).is_empty());
        }
    }
}
