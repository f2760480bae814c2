//! What every move stands on: the connection, the names of the keys, and how a script is called.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::super::{BudgetDecision, CompleteResult, Completion, Lease, WorkerId};
use super::connection::{Call, Connection};
use super::contents::{self, Page, Turn};
use super::in_hand::InHand;
use super::kept::Kept;
use super::keys::Keys;
use super::loans::Desk;
use super::recent::Recent;
use super::scripts::Lua;
use super::together::Batcher;
use crate::backend::local::{BackendConfig, secret};
use crate::similarity::HashKey;
use crate::stats::{BodyBytes, RequestCounter};

/// Pauses between two looks at queues that were empty; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// How many reservations one script makes, and of how many links it completes pages: nobody must wait long for it.
const MOST_RESERVATIONS: usize = 64;
const MOST_LINKS: usize = 500;

/// How long moves wait for others: one script for many costs Redis far less than one for each. That is short beside the
/// time that a page takes on its way; for those that nobody waits for it may be longer.
pub(super) const GATHERING: Duration = Duration::from_millis(5);
const SHORT_GATHERING: Duration = Duration::from_millis(2);

/// The moves of a crawl's URLs.
pub(super) struct Moves {
    pub(super) connection: Connection,
    pub(super) keys: Keys,
    pub(super) settings: BackendConfig,
    pub(super) key: HashKey,
    /// The pause that every host gets after a request, unless it has a longer one of its own.
    pub(super) delay: Duration,
    /// How many replicas must have a page's links before it is completed.
    pub(super) replicas: u32,
    /// Tells the moves of this process from those of others.
    process: String,
    next_move: AtomicU64,
    /// How far the crawl's clock is ahead of Redis's, in milliseconds.
    ahead: AtomicU64,
    /// Which partition is first in turn.
    turn: AtomicUsize,
    /// Held by who lends to the prioritizer.
    pub(super) prioritizing: tokio::sync::Mutex<()>,
    /// Everything lent to the prioritizer has reached it.
    handed_over: AtomicBool,
    /// What had changed when the prioritizer was last lent anything.
    prioritizer_synced: AtomicU64,
    /// What workers of this process have on loan.
    pub(super) loans: InHand,
    desks: Mutex<HashMap<WorkerId, Arc<Desk>>>,
    /// Completed, so that nobody has to remember that they were settled.
    pub(super) completed: Mutex<Vec<u64>>,
    pub(super) recent: Recent,
    pub(super) kept: Kept,
    pub(super) reserving: Batcher<(Lease, BodyBytes), BudgetDecision>,
    pub(super) completing: Batcher<Completion, CompleteResult>,
    pub(super) remembering: Batcher<Page, (Page, Turn)>,
    /// Something was filed, for whoever routes it.
    pub(super) filed: Notify,
    /// HTTP requests that this process has sent.
    pub(super) requests: RequestCounter,
    /// How long each of these waits before it looks again, in milliseconds.
    pub(super) prioritizer_pause: AtomicU64,
    pub(super) router_pause: AtomicU64,
    begun: Instant,
}

impl Moves {
    pub(super) fn new(
        connection: Connection,
        keys: Keys,
        settings: BackendConfig,
        key: HashKey,
        delay: Duration,
    ) -> Moves {
        let recent = Recent::new(settings.keep_depths);
        let kept = Kept::new(settings.similarity, contents::lifetime(&settings));
        Moves {
            connection,
            keys,
            settings,
            key,
            delay,
            replicas: 0,
            process: format!("{:x}", secret()),
            next_move: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
            turn: AtomicUsize::new(0),
            prioritizing: tokio::sync::Mutex::default(),
            handed_over: AtomicBool::new(false),
            prioritizer_synced: AtomicU64::new(0),
            loans: InHand::default(),
            desks: Mutex::default(),
            completed: Mutex::default(),
            recent,
            kept,
            reserving: Batcher::new(MOST_RESERVATIONS, SHORT_GATHERING),
            completing: Batcher::new(MOST_LINKS, GATHERING),
            remembering: Batcher::new(contents::MOST_BYTES, SHORT_GATHERING),
            filed: Notify::new(),
            requests: RequestCounter::default(),
            prioritizer_pause: AtomicU64::new(0),
            router_pause: AtomicU64::new(0),
            begun: Instant::now(),
        }
    }

    /// Who has the places of workers that this process has entered; nobody in particular, where all workers are in one
    /// process.
    pub(super) fn holder(&self) -> &str {
        if self.settings.workers == 0 { &self.process } else { "" }
    }

    pub(super) fn advance(&self, time: Duration) {
        self.ahead.fetch_add(milliseconds(time), Ordering::Relaxed);
    }

    pub(super) fn ahead(&self) -> u64 {
        self.ahead.load(Ordering::Relaxed)
    }

    /// Milliseconds since this process began, by the crawl's clock.
    pub(super) fn clock(&self) -> u64 {
        milliseconds(self.begun.elapsed()) + self.ahead()
    }

    /// Tells whether what was lent to the prioritizer before has to be lent anew: to somebody new, or to somebody who
    /// did not wait for it.
    pub(super) fn begin_incoming(&self) -> bool {
        let changes = self.changes();
        // Redis may have lost that it was filed.
        let may_be_lost = self.prioritizer_synced.swap(changes, Ordering::Relaxed) != changes;
        !self.handed_over.swap(false, Ordering::Relaxed) || may_be_lost
    }

    pub(super) fn end_incoming(&self) {
        self.handed_over.store(true, Ordering::Relaxed);
    }

    /// Where a worker's leases wait for it.
    pub(super) fn desk(&self, worker: WorkerId) -> Arc<Desk> {
        let mut desks = self.desks.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(desks.entry(worker).or_default())
    }

    pub(super) fn partitions(&self) -> usize {
        self.keys.partitions.len()
    }

    /// A script under names that begin so. It has a name of its own, under which it is made once.
    pub(super) fn script(&self, script: &Lua, base: &str) -> Call {
        let number = self.next_move.fetch_add(1, Ordering::Relaxed);
        self.connection.script(script, base, format!("{}-{number:x}", self.process), self.ahead())
    }

    /// A script on a partition.
    pub(super) fn on(&self, partition: usize, script: &Lua) -> Call {
        let BackendConfig { queue_size, ttl, domain_ttl, keep_depths, .. } = &self.settings;
        let mut command = self.script(script, &self.keys.partitions[partition]);
        command
            .arg(share(*queue_size, self.partitions(), partition))
            .arg(milliseconds(*ttl).max(1))
            .arg(milliseconds(*domain_ttl))
            .arg(u8::from(*keep_depths))
            .arg(partition)
            .arg(self.partitions());
        command
    }

    /// A script on every partition.
    pub(super) fn on_all(&self, script: &Lua, tell: impl Fn(&mut Call)) -> Vec<Call> {
        let commands = (0..self.partitions()).map(|partition| {
            let mut command = self.on(partition, script);
            tell(&mut command);
            command
        });
        commands.collect()
    }

    /// A script on the budgets.
    pub(super) fn on_budget(&self, script: &Lua) -> Call {
        let mut command = self.script(script, &self.keys.budget);
        self.tell_budgets(&mut command);
        command
    }

    /// Tells a script how large the budgets are.
    pub(super) fn tell_budgets(&self, command: &mut Call) {
        let BackendConfig { max_pages, max_bytes, max_page_bytes, .. } = &self.settings;
        // Lua's numbers are exact up to there.
        let exact = |number: &u64| (*number).min(1 << 53);
        command.arg(exact(max_pages)).arg(exact(max_bytes)).arg(exact(max_page_bytes));
        for pages in [self.settings.max_pages_per_host, self.settings.max_pages_per_site] {
            match pages {
                u64::MAX => command.arg(""),
                pages => command.arg(pages),
            };
        }
    }

    /// One of the counts of a partition.
    pub(super) fn count(&self, name: &str, partition: usize) -> Call {
        let mut count = Call::plain("HGET");
        count.arg(format!("{}counts", self.keys.partitions[partition])).arg(name);
        count
    }

    /// Divides so many among the partitions that have something, which are first in turn.
    pub(super) fn allot(&self, available: &[usize], max: usize) -> Vec<usize> {
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % available.len().max(1);
        allot(available, max, first)
    }
}

fn allot(available: &[usize], mut max: usize, first: usize) -> Vec<usize> {
    let mut given = vec![0; available.len()];
    while max > 0 {
        let have_more: Vec<usize> = (first..available.len())
            .chain(0..first)
            .filter(|partition| given[*partition] < available[*partition])
            .collect();
        if have_more.is_empty() {
            break;
        }
        let share = (max / have_more.len()).max(1);
        for partition in have_more {
            let more = share.min(available[partition] - given[partition]).min(max);
            given[partition] += more;
            max -= more;
        }
    }
    given
}

/// A partition's part of what a queue holds; the parts are the whole, where there are not more partitions than places.
fn share(queue_size: usize, partitions: usize, partition: usize) -> usize {
    let (part, rest) = (queue_size / partitions, queue_size % partitions);
    (part + usize::from(partition < rest)).max(1)
}

pub(super) fn milliseconds(time: Duration) -> u64 {
    // What is longer than Lua can count is for ever.
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).min(1 << 50)
}

/// Waits for something that may come, and looks again after longer and longer pauses.
pub(super) struct Waiting<'a> {
    until: Instant,
    /// The last pause, in milliseconds: whoever waited in vain goes on like that when it comes back.
    pause: &'a AtomicU64,
}

impl Waiting<'_> {
    pub(super) fn up_to(wait: Duration, pause: &AtomicU64) -> Waiting<'_> {
        let now = Instant::now();
        Waiting { until: now.checked_add(wait).unwrap_or(now + Duration::from_secs(3600)), pause }
    }

    /// Whether something came, or there is no use in looking again; pauses if there is.
    pub(super) async fn is_over(&mut self, came: bool) -> bool {
        self.is_over_unless(came, std::future::pending()).await
    }

    /// The same, and looks again at once when there is news.
    pub(super) async fn is_over_unless(&mut self, came: bool, news: impl Future<Output = ()>) -> bool {
        if came {
            self.pause.store(0, Ordering::Relaxed);
            return true;
        }
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        let pause = Duration::from_millis(2 * self.pause.load(Ordering::Relaxed));
        let pause = pause.clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.pause.store(milliseconds(pause), Ordering::Relaxed);
        if timeout(pause.min(left), news).await.is_ok() {
            self.pause.store(0, Ordering::Relaxed);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_allotted_is_there_and_all_that_is_wanted(
            available in proptest::collection::vec(0usize..50, 1..20), max in 0usize..500, first in 0usize..20,
        ) {
            let given = allot(&available, max, first % available.len());
            prop_assert!(given.iter().zip(&available).all(|(given, available)| given <= available));
            prop_assert_eq!(given.iter().sum::<usize>(), max.min(available.iter().sum()));
        }

        #[test]
        fn the_shares_of_the_partitions_are_the_whole_queue(queue_size in 1usize..20_000, partitions in 1usize..64) {
            let partitions = partitions.min(queue_size);
            let shares: Vec<usize> = (0..partitions).map(|partition| share(queue_size, partitions, partition)).collect();
            prop_assert_eq!(shares.iter().sum::<usize>(), queue_size);
            prop_assert!(shares.iter().all(|share| *share >= 1));
        }
    }
}
