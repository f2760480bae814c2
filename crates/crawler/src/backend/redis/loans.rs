//! A worker's loans: how they are made, what they may use, and how they return.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::super::{BackendError, Budget, BudgetDecision, HostDelay, Lease, TaskId, WorkerId};
use super::connection::Call;
use super::keys::Keys;
use super::moves::{GATHERING, Moves, Waiting, milliseconds};
use super::scripts;
use crate::domain::Domain;
use crate::fetch::http::AddressKinds;
use crate::origin::throttle_key;
use crate::stats::BodyBytes;

/// No lease takes more at a time.
const MOST: usize = 1 << 20;

/// With so many in hand a worker does not hurry to take more: one script for many costs Redis less than one for each few.
const ENOUGH_IN_HAND: usize = 48;

/// A lease as the script tells it: ticket, loan, URL, depth, redirects, whether again, rest in milliseconds.
type Lent = (u64, u64, String, u32, u8, u8, u64);

impl Moves {
    pub(super) async fn lease(
        &self,
        worker: WorkerId,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Lease>, BackendError> {
        let desk = self.desk(worker);
        let mut waiting = Waiting::up_to(wait, &desk.pause);
        if !wait.is_zero() && self.loans.count() >= ENOUGH_IN_HAND {
            desk.gather().await;
        }
        loop {
            self.resync(worker, &desk.synced).await?;
            let leases = self.lease_now(worker, max.min(MOST)).await?;
            self.loans.take_up(&leases);
            desk.state().last = Some(Instant::now());
            if waiting.is_over(!leases.is_empty()).await {
                return Ok(leases);
            }
        }
    }

    async fn lease_now(&self, worker: WorkerId, max: usize) -> Result<Vec<Lease>, BackendError> {
        let wanted = match self.partitions() {
            // Where there is one place there is no need to look first where something is.
            1 => vec![(0, max)],
            _ => self.queued(worker, max).await?,
        };
        let commands = wanted.into_iter().map(|(partition, count)| {
            let mut command = self.on(partition, &scripts::LEASE);
            command.arg(worker.0).arg(count).arg(self.holder());
            command
        });
        let lent: Vec<Vec<Lent>> = self.connection.each(commands.collect()).await?;
        let leases =
            lent.into_iter().flatten().map(|(task_id, lease_id, url, depth, redirects, is_revisit, rest)| {
                Lease {
                    task_id: TaskId(task_id),
                    lease_id,
                    url: url.into(),
                    depth,
                    redirects,
                    is_revisit: is_revisit == 1,
                    cooldown: Duration::from_millis(rest),
                    unreachable: None,
                }
            });
        Ok(leases.collect())
    }

    /// From which partitions to take how many.
    async fn queued(&self, worker: WorkerId, max: usize) -> Result<Vec<(usize, usize)>, BackendError> {
        let lengths = self.keys.partitions.iter().map(|base| {
            let mut length = Call::plain("HGET");
            length.arg(format!("{base}lengths")).arg(worker.0);
            length
        });
        let lengths: Vec<Option<usize>> = self.connection.each(lengths.collect()).await?;
        let available: Vec<usize> = lengths.iter().map(|length| length.unwrap_or(0)).collect();
        let wanted = self.allot(&available, max).into_iter().zip(&lengths).enumerate();
        // Where it is not known it says that it is there, although there is nothing for it yet.
        let wanted = wanted.filter(|(_, (count, length))| *count > 0 || length.is_none());
        Ok(wanted.map(|(partition, (count, _))| (partition, count.max(1))).collect())
    }

    /// The script that tells whether a loan still holds.
    pub(super) fn check(&self, lease: &Lease) -> Call {
        let mut command = self.on(self.keys.of_ticket(lease.task_id), &scripts::CHECK);
        command.arg(1).arg(lease.task_id.0).arg(lease.lease_id);
        command
    }

    /// One round trip: does the loan still hold, and what may it use. What is asked meanwhile goes together.
    pub(super) async fn reserve(
        &self,
        lease: Lease,
        read: BodyBytes,
    ) -> Result<BudgetDecision, BackendError> {
        let (task_id, lease_id) = (lease.task_id.0, lease.lease_id);
        let grant = self.reserve_for(lease, read).await?;
        if grant == BudgetDecision::LeaseLost {
            self.loans.lose(task_id, lease_id);
        }
        Ok(grant)
    }

    async fn reserve_for(&self, lease: Lease, read: BodyBytes) -> Result<BudgetDecision, BackendError> {
        if self.partitions() == 1 {
            let reserve = async |all: Vec<(Lease, BodyBytes)>| {
                let grants: Vec<(String, u64)> = self.connection.one(self.reservation(&all, true)).await?;
                Ok(grants.iter().map(granted).collect())
            };
            return self.reserving.make((lease, read), self.loans.count(), |_| 1, reserve).await;
        }
        let check = self.check(&lease);
        let lease_id = (lease.task_id.0, lease.lease_id);
        let calls = vec![self.reservation(&[(lease, read)], false), check];
        let mut answers = self.connection.all(calls).await?.into_iter();
        let grants: Vec<(String, u64)> = self.connection.read(answers.next().unwrap_or_default())?;
        let holds: Vec<u8> = self.connection.read(answers.next().unwrap_or_default())?;
        if holds != [1] {
            self.give_back(&[lease_id]).await?;
            return Ok(BudgetDecision::LeaseLost);
        }
        Ok(grants.first().map_or(BudgetDecision::RetryLater, granted))
    }

    /// The script that reserves for loans, which looks itself whether they hold if they are in the same place.
    fn reservation(&self, loans: &[(Lease, BodyBytes)], are_here: bool) -> Call {
        // Elsewhere than its loan, a copy that comes late would reserve for what has ended.
        let is_once = !are_here || loans.iter().any(|(_, read)| *read != BodyBytes::default());
        let script = if is_once { &scripts::RESERVE_AGAIN } else { &scripts::RESERVE };
        let mut call = self.on_budget(script);
        call.arg(u8::from(are_here)).arg(u8::from(is_once)).arg(loans.len());
        call.arg(loans.iter().map(|(lease, _)| lease.task_id.0).collect::<Vec<u64>>());
        for (lease, read) in loans {
            // What is visited again for its links is a page already.
            call.arg(lease.lease_id).arg(read.decoded).arg(read.received).arg(u8::from(!lease.is_revisit));
            call.arg(throttle_key(&lease.url)).arg(Domain::from_url_str(&lease.url).site_key());
        }
        call
    }

    pub(super) async fn release(&self, lease: &Lease, read: BodyBytes) -> Result<(), BackendError> {
        let mut release = self.on_budget(&scripts::RELEASE);
        release.arg(lease.task_id.0).arg(lease.lease_id).arg(read.decoded).arg(read.received);
        self.connection.all(vec![release]).await?;
        Ok(())
    }

    /// How long a host is to be left alone, and the pause it gets if that is longer than everybody's, or else 0: in
    /// milliseconds.
    pub(super) fn host_delay(&self, HostDelay { delay, cooldown: rest }: HostDelay) -> (u64, u64) {
        let delay = if delay > self.delay { milliseconds(delay) } else { 0 };
        (milliseconds(rest), delay)
    }

    /// Stores the kinds of address that a seed's host has beside the settings, unless some are there already.
    pub(super) async fn pin_address_kinds(
        &self,
        host: &str,
        kinds: AddressKinds,
    ) -> Result<AddressKinds, BackendError> {
        let mut pin = self.script(&scripts::PIN, &Keys::settings(&self.keys.crawl));
        pin.arg(format!("addresses of {host}")).arg(kinds.bits());
        let bits: String = self.connection.one(pin).await?;
        Ok(AddressKinds::from_bits(bits.parse().unwrap_or_default()))
    }

    pub(super) async fn pace(&self, host: &str, host_delay: HostDelay) -> Result<(), BackendError> {
        let (rest, delay) = self.host_delay(host_delay);
        if rest == 0 && delay == 0 {
            return Ok(());
        }
        let partition = self.keys.of_domain(&Domain::from_throttle_key(host));
        let mut command = self.on(partition, &scripts::PACE);
        command.arg(host).arg(rest).arg(delay);
        self.connection.all(vec![command]).await?;
        Ok(())
    }

    /// Returns what was reserved for loans that ended. Should this not happen, the next loan of the URL sees to it.
    pub(super) async fn give_back(&self, loans: &[(u64, u64)]) -> Result<(), BackendError> {
        if loans.is_empty() {
            return Ok(());
        }
        let mut command = self.on_budget(&scripts::GIVE_BACK);
        command.arg(loans.len());
        for (task_id, lease_id) in loans {
            command.arg(*task_id).arg(*lease_id);
        }
        self.connection.all(vec![command]).await?;
        Ok(())
    }
}

/// What a script has granted.
fn granted((grant, bytes): &(String, u64)) -> BudgetDecision {
    match grant.as_str() {
        "granted" => BudgetDecision::Granted(*bytes),
        "host" => BudgetDecision::HostExhausted,
        "site" => BudgetDecision::SiteExhausted,
        "later" => BudgetDecision::RetryLater,
        "lost" => BudgetDecision::LeaseLost,
        spent => budget(spent).map_or(BudgetDecision::RetryLater, BudgetDecision::Exhausted),
    }
}

/// The budget of this name, if it is one.
pub(super) fn budget(name: &str) -> Option<Budget> {
    match name {
        "pages" => Some(Budget::Pages),
        "bytes" => Some(Budget::Bytes),
        _ => None,
    }
}

/// Where leases wait for their worker: it may turn to something else while they are on their way.
#[derive(Default)]
pub(super) struct Desk {
    state: Mutex<OnDesk>,
    news: Notify,
    /// How long was waited before the last look, in milliseconds.
    pause: AtomicU64,
    /// What had changed when it was last made sure that Redis has lost nothing.
    synced: AtomicU64,
}

#[derive(Default)]
struct OnDesk {
    leases: VecDeque<Lease>,
    trouble: Option<BackendError>,
    /// Somebody is on the way.
    fetching: bool,
    /// When somebody was last there.
    last: Option<Instant>,
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, OnDesk> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is worth while to look again.
    async fn gather(&self) {
        let last = self.state().last;
        if let Some(last) = last {
            sleep_until(last + GATHERING).await;
        }
    }

    /// Whether somebody has to go and fetch leases: then the caller must.
    pub(super) fn must_fetch(&self) -> bool {
        let mut state = self.state();
        let must = state.leases.is_empty() && state.trouble.is_none() && !state.fetching;
        state.fetching |= must;
        must
    }

    /// Puts down what was fetched.
    pub(super) fn fetched(&self, fetched: Result<Vec<Lease>, BackendError>) {
        let mut state = self.state();
        state.fetching = false;
        match fetched {
            Ok(leases) => state.leases.extend(leases),
            Err(trouble) => state.trouble = Some(trouble),
        }
        drop(state);
        self.news.notify_one();
    }

    /// Takes up to so many leases; waits for them while they are on their way, and a while longer.
    pub(super) async fn take(&self, max: usize, wait: Duration) -> Result<Vec<Lease>, BackendError> {
        let until = Instant::now().checked_add(wait).filter(|_| !wait.is_zero());
        loop {
            {
                let mut state = self.state();
                if let Some(trouble) = state.trouble.take() {
                    return Err(trouble);
                }
                if !state.leases.is_empty() || !state.fetching {
                    let count = max.min(state.leases.len());
                    return Ok(state.leases.drain(..count).collect());
                }
            }
            match until {
                // Without a wait it is at most one round trip.
                None => self.news.notified().await,
                Some(until) if timeout_at(until, self.news.notified()).await.is_err() => {
                    return Ok(Vec::new());
                }
                Some(_) => {}
            }
        }
    }

    /// Its worker is no more.
    pub(super) fn clear(&self) {
        self.state().leases.clear();
    }
}
