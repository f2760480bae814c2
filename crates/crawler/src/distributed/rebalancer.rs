//! Decides who passes on a part of its domains to whom: a worker that has little to do for a while is given some of
//! another's, and nobody is asked often.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::backend::{TransferTarget, WorkerId};

/// A worker that has had little to do for so long is to have more. Whoever is about to be sent something has had it by then.
const LIGHT_FOR: Duration = Duration::from_millis(900);

/// So long after they were told of, neither who passes on nor who takes is told of again: it takes a moment to show.
const REST: Duration = Duration::from_secs(5);

/// One who has something is light if others have so many times as much, and more by so many URLs: moving a domain costs
/// another look at its robots.txt, and other connections.
const TIMES: usize = 4;
const MORE: usize = 128;

/// What a worker has to do.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkerLoad {
    pub(super) id: WorkerId,
    /// In its queue and in hand.
    pub(super) urls: usize,
    /// Of how many domains it has URLs in hand.
    pub(super) domains: usize,
}

impl WorkerLoad {
    fn can_give(&self) -> bool {
        self.domains > 1
    }

    fn is_light_beside(&self, other: &WorkerLoad) -> bool {
        match self.urls {
            0 => other.urls > 0,
            urls => other.urls >= TIMES * urls && other.urls - urls > MORE,
        }
    }
}

/// Somebody, and to whom it shall pass on what.
pub(super) type RebalanceOrder = (WorkerId, Vec<TransferTarget>);

/// What is known of workers from one look to the next.
#[derive(Debug, Default)]
pub(super) struct Rebalancer {
    light_since: HashMap<WorkerId, Instant>,
    rests_until: HashMap<WorkerId, Instant>,
}

impl Rebalancer {
    /// Who is to pass on something, as things stand. To be asked again and again.
    pub(super) fn look(&mut self, loads: &[WorkerLoad]) -> Vec<RebalanceOrder> {
        self.look_at(loads, Instant::now())
    }

    fn look_at(&mut self, loads: &[WorkerLoad], now: Instant) -> Vec<RebalanceOrder> {
        let is_light =
            |load: &WorkerLoad| loads.iter().any(|other| other.can_give() && load.is_light_beside(other));
        let light: Vec<WorkerLoad> = loads.iter().copied().filter(is_light).collect();
        self.light_since.retain(|id, _| light.iter().any(|load| load.id == *id));
        self.rests_until.retain(|_, until| *until > now);
        let mut takers: Vec<WorkerLoad> = Vec::new();
        for load in &light {
            let since = *self.light_since.entry(load.id).or_insert(now);
            if now.duration_since(since) >= LIGHT_FOR && !self.rests_until.contains_key(&load.id) {
                takers.push(*load);
            }
        }
        // Who has least comes first, and to the one who has most.
        takers.sort_by_key(|load| (load.urls, load.id));
        let reliefs = matched(&takers, &self.givers(loads));
        for (giver, takers) in &reliefs {
            self.rests_until.insert(*giver, now + REST);
            self.rests_until.extend(takers.iter().map(|taker| (taker.id, now + REST)));
        }
        reliefs
    }

    /// Those who can pass on something, and have the most or not much less.
    fn givers(&self, loads: &[WorkerLoad]) -> Vec<WorkerLoad> {
        let can_give = |load: &WorkerLoad| load.can_give() && !self.rests_until.contains_key(&load.id);
        let mut givers: Vec<WorkerLoad> = loads.iter().copied().filter(can_give).collect();
        givers.sort_by_key(|load| (std::cmp::Reverse(load.urls), load.id));
        let most = givers.first().map_or(0, |load| load.urls);
        givers.retain(|load| 2 * load.urls >= most);
        givers
    }
}

/// Shares takers out among those who can give: each of these keeps a domain for itself.
fn matched(takers: &[WorkerLoad], givers: &[WorkerLoad]) -> Vec<RebalanceOrder> {
    let mut reliefs: Vec<(WorkerLoad, Vec<TransferTarget>)> =
        givers.iter().map(|giver| (*giver, Vec::new())).collect();
    for taker in takers {
        let fits = |(giver, takers): &&mut (WorkerLoad, Vec<TransferTarget>)| {
            taker.is_light_beside(giver) && takers.len() + 1 < giver.domains
        };
        if let Some((_, takers)) = reliefs.iter_mut().filter(fits).min_by_key(|(_, takers)| takers.len()) {
            takers.push(TransferTarget { id: taker.id, load: taker.urls });
        }
    }
    reliefs.retain(|(_, takers)| !takers.is_empty());
    reliefs.into_iter().map(|(giver, takers)| (giver.id, takers)).collect()
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

    /// What is decided by the second of two looks, a second apart.
    fn decided(all: &[(usize, usize)]) -> Vec<(u16, Vec<u16>)> {
        let (mut balance, now, loads) = (Rebalancer::default(), Instant::now(), loads(all));
        assert!(balance.look_at(&loads, now).is_empty(), "one look is not enough");
        told(balance.look_at(&loads, now + Duration::from_secs(1)))
    }

    fn told(reliefs: Vec<RebalanceOrder>) -> Vec<(u16, Vec<u16>)> {
        reliefs
            .into_iter()
            .map(|(giver, takers)| (giver.0, takers.into_iter().map(|taker| taker.id.0).collect()))
            .collect()
    }

    #[test]
    fn one_who_has_nothing_for_a_while_is_given_some_by_who_has_most() {
        assert_eq!(decided(&[(300, 5), (700, 11), (0, 0)]), [(1, vec![2])]);
        assert_eq!(decided(&[(12, 12), (0, 0)]), [(0, vec![1])]);
    }

    #[test]
    fn one_domain_is_not_divided() {
        assert_eq!(decided(&[(64, 1), (0, 0)]), []);
        assert_eq!(decided(&[(64, 1), (0, 0), (2, 2)]), [(2, vec![1])]);
    }

    #[test]
    fn those_who_have_about_as_much_keep_what_they_have() {
        assert_eq!(decided(&[(700, 11), (300, 5)]), []);
        assert_eq!(decided(&[(100, 4), (1, 1)]), []);
        assert_eq!(decided(&[(700, 11), (64, 1)]), [(0, vec![1])]);
    }

    #[test]
    fn several_who_have_nothing_are_shared_out_and_each_giver_keeps_a_domain() {
        assert_eq!(decided(&[(640, 10), (0, 0), (0, 0), (600, 10)]), [(0, vec![1]), (3, vec![2])]);
        assert_eq!(decided(&[(640, 10), (0, 0), (0, 0), (200, 3)]), [(0, vec![1, 2])]);
        assert_eq!(decided(&[(64, 2), (0, 0), (0, 0)]), [(0, vec![1])]);
    }

    #[test]
    fn nobody_is_told_of_again_before_it_can_show() {
        let (mut balance, begin) = (Rebalancer::default(), Instant::now());
        let second = |seconds| begin + Duration::from_secs(seconds);
        let all = loads(&[(640, 10), (0, 0), (600, 10)]);
        let decided: Vec<_> = (0..8).map(|now| told(balance.look_at(&all, second(now)))).collect();
        let when: Vec<usize> = (0..8).filter(|now| !decided[*now].is_empty()).collect();
        assert_eq!(when, [1, 6], "{decided:?}");
    }

    #[test]
    fn one_who_has_had_something_meanwhile_is_looked_at_anew() {
        let (mut balance, begin) = (Rebalancer::default(), Instant::now());
        let second = |seconds| begin + Duration::from_secs(seconds);
        for now in 0..6 {
            let urls = usize::from(now % 2 == 0);
            assert!(balance.look_at(&loads(&[(64, 10), (urls, urls)]), second(now)).is_empty());
        }
    }
}
