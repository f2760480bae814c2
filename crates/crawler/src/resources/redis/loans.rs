//! A worker's loans: how they are made, what they may use, and how they return.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::super::{Budget, Grant, Lease, Pacing, Ticket, Trouble, WorkerId};
use super::connection::Call;
use super::moves::{Moves, Waiting, milliseconds};
use super::scripts;
use crate::domain::Domain;
use crate::origin::paced_host;

/// No lease takes more at a time.
const MOST: usize = 1 << 20;

/// A lease as the script tells it: ticket, loan, URL, depth, redirects, whether again, rest in milliseconds.
type Lent = (u64, u64, String, u32, u8, u8, u64);

impl Moves {
    pub(super) async fn lease(
        &self,
        worker: WorkerId,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Lease>, Trouble> {
        let mut waiting = Waiting::up_to(wait);
        loop {
            let leases = self.lease_now(worker, max.min(MOST)).await?;
            if !leases.is_empty() || !waiting.pause().await {
                return Ok(leases);
            }
        }
    }

    async fn lease_now(&self, worker: WorkerId, max: usize) -> Result<Vec<Lease>, Trouble> {
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
        let commands = wanted.map(|(partition, (count, _))| {
            let mut command = self.on(partition, &scripts::LEASE);
            command.arg(worker.0).arg(count.max(1));
            command
        });
        let lent: Vec<Vec<Lent>> = self.connection.each(commands.collect()).await?;
        let leases =
            lent.into_iter().flatten().map(|(ticket, loan, url, depth, redirects, again, rest)| Lease {
                ticket: Ticket(ticket),
                loan,
                url,
                depth,
                redirects,
                again: again == 1,
                rest: Duration::from_millis(rest),
            });
        Ok(leases.collect())
    }

    /// The script that tells whether a loan still holds.
    pub(super) fn check(&self, lease: &Lease) -> Call {
        let mut command = self.on(self.keys.of_ticket(lease.ticket), &scripts::CHECK);
        command.arg(1).arg(lease.ticket.0).arg(lease.loan);
        command
    }

    pub(super) async fn reserve(&self, lease: &Lease, read: u64) -> Result<Grant, Trouble> {
        let mut reserve = self.on_budget(&scripts::RESERVE);
        // What is visited again for its links is a page already.
        reserve.arg(lease.ticket.0).arg(lease.loan).arg(read).arg(u8::from(!lease.again));
        reserve.arg(paced_host(&lease.url));
        let mut answers = self.connection.all(vec![self.check(lease), reserve]).await?.into_iter();
        let holds: Vec<u8> = self.connection.read(answers.next().unwrap_or_default())?;
        let (grant, bytes): (String, u64) = self.connection.read(answers.next().unwrap_or_default())?;
        if holds != [1] {
            self.give_back(&[(lease.ticket.0, lease.loan)]).await?;
            return Ok(Grant::Lost);
        }
        Ok(match grant.as_str() {
            "bytes" => Grant::Bytes(bytes),
            "host" => Grant::HostSpent,
            "later" => Grant::NotNow,
            "lost" => Grant::Lost,
            spent => Grant::Spent(budget(spent)),
        })
    }

    pub(super) async fn release(&self, lease: &Lease, read: u64) -> Result<(), Trouble> {
        let mut release = self.on_budget(&scripts::RELEASE);
        release.arg(lease.ticket.0).arg(lease.loan).arg(read);
        self.connection.all(vec![release]).await?;
        Ok(())
    }

    /// How long a host is to be left alone, and the pause it gets if that is longer than everybody's, or else 0: in
    /// milliseconds.
    pub(super) fn pacing(&self, Pacing { delay, rest }: Pacing) -> (u64, u64) {
        let delay = if delay > self.delay { milliseconds(delay) } else { 0 };
        (milliseconds(rest), delay)
    }

    pub(super) async fn pace(&self, host: &str, pacing: Pacing) -> Result<(), Trouble> {
        let (rest, delay) = self.pacing(pacing);
        if rest == 0 && delay == 0 {
            return Ok(());
        }
        let partition = self.keys.of_domain(&Domain::of_paced_host(host));
        let mut command = self.on(partition, &scripts::PACE);
        command.arg(host).arg(rest).arg(delay);
        self.connection.all(vec![command]).await?;
        Ok(())
    }

    /// Returns what was reserved for loans that ended. Should this not happen, the next loan of the URL sees to it.
    pub(super) async fn give_back(&self, loans: &[(u64, u64)]) -> Result<(), Trouble> {
        if loans.is_empty() {
            return Ok(());
        }
        let mut command = self.on_budget(&scripts::GIVE_BACK);
        command.arg(loans.len());
        for (ticket, loan) in loans {
            command.arg(*ticket).arg(*loan);
        }
        self.connection.all(vec![command]).await?;
        Ok(())
    }
}

/// The budget of this name.
pub(super) fn budget(name: &str) -> Budget {
    if name == "pages" { Budget::Pages } else { Budget::Bytes }
}

/// Where leases wait for their worker: it may turn to something else while they are on their way.
#[derive(Default)]
pub(super) struct Desk {
    state: Mutex<OnDesk>,
    news: Notify,
}

#[derive(Default)]
struct OnDesk {
    leases: VecDeque<Lease>,
    trouble: Option<Trouble>,
    /// Somebody is on the way.
    fetching: bool,
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, OnDesk> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody has to go and fetch leases: then the caller must.
    pub(super) fn must_fetch(&self) -> bool {
        let mut state = self.state();
        let must = state.leases.is_empty() && state.trouble.is_none() && !state.fetching;
        state.fetching |= must;
        must
    }

    /// Puts down what was fetched.
    pub(super) fn fetched(&self, fetched: Result<Vec<Lease>, Trouble>) {
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
    pub(super) async fn take(&self, max: usize, wait: Duration) -> Result<Vec<Lease>, Trouble> {
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
