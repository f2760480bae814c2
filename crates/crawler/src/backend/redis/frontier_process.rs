//! The frontier process of a distributed crawl: one at a time holds the state in memory and serves the workers, and any number
//! of others wait to take over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::Value;
use tokio::sync::mpsc;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep_until};

use super::super::{Backend, BackendError, WorkerId};
use super::Result;
use super::connection::Confirmation;
use super::control::OpenedCrawl;
use super::data::CrawlData;
use super::home::AbortOnDrop;
use super::messages::{Position, Reply};
use super::restore;
use super::server::{self, BudgetWaiter, DONE, FrontierState};
use super::storage::RedisStorage;
use super::write_if::WriteIf;
use crate::backend::local::LocalBackend;
use crate::error::StorageErrorKind;

/// How long the frontier waits for something to do.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// How many messages are read at a time.
const MAX_MESSAGES: usize = 64;

/// Why a frontier process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrontierEnd {
    /// Another one has taken over.
    Superseded,
    /// Redis has lost the last changes, so the state in memory is ahead of it. The frontier has to take over again.
    DataLost,
}

/// A frontier that has taken over.
pub struct FrontierProcess {
    pub(super) backend: Arc<LocalBackend<RedisStorage>>,
    /// With a connection of its own, because a batch may wait for replicas.
    pub(super) data: CrawlData,
    /// The number of this frontier.
    pub(super) epoch: u64,
    /// What must confirm a batch before the next one is written.
    pub(super) confirmation: Confirmation,
    /// The crawl is about to end, so no URL is leased.
    is_ending: AtomicBool,
}

impl FrontierProcess {
    /// Takes over the frontier of a crawl. Earlier frontiers can change nothing any more.
    pub(super) async fn take_over(shared: &Arc<OpenedCrawl>) -> Result<Arc<FrontierProcess>> {
        let at_home = Arc::clone(shared);
        // The clock of the thread is the crawl's.
        let take_over = async move {
            let data = at_home.data.with_another_connection();
            let (state, epoch) = restore::take_over(&at_home, &data).await?;
            Ok(Arc::new(FrontierProcess {
                backend: Arc::new(LocalBackend::from_state(state, at_home.key)),
                data,
                epoch,
                confirmation: at_home.confirmation,
                is_ending: AtomicBool::new(false),
            }))
        };
        joined(shared.data.connection.spawn(take_over).await)
    }

    /// The queues and storages, for the prioritizer.
    pub fn backend(&self) -> &Arc<LocalBackend<RedisStorage>> {
        &self.backend
    }

    /// Serves the workers until another frontier takes over, or an error.
    pub async fn run(self: &Arc<Self>) -> Result<FrontierEnd> {
        let process = Arc::clone(self);
        let run = async move {
            tokio::select! {
                end = process.commit() => end,
                served = process.serve() => served.map(|()| FrontierEnd::Superseded),
            }
        };
        // It ends when no task waits for it any more.
        let mut running = AbortOnDrop(self.data.connection.spawn(run));
        joined((&mut running.0).await)
    }

    /// Serves the workers until an error.
    async fn serve(self: &Arc<Self>) -> Result<()> {
        let (sender, mut messages) = mpsc::channel(1);
        let serve = async {
            loop {
                let timer = self.lease()?;
                tokio::select! {
                    biased;
                    read = messages.recv() => match read {
                        Some(read) => self.apply(read).await?,
                        None => return Ok(()),
                    },
                    () = self.backend.leasable() => {}
                    () = sleep_until(timer) => {}
                }
            }
        };
        tokio::select! {
            served = serve => served,
            failed = self.read_messages(sender) => failed,
        }
    }

    /// Reads the workers' messages until an error.
    async fn read_messages(&self, messages: mpsc::Sender<Vec<(Position, Vec<u8>)>>) -> Result<()> {
        let (data, stream) = (self.data.with_another_connection(), self.data.keys.of("urls"));
        let mut position = self.backend.inspect(|state| state.storage.applied);
        loop {
            let read = data.read_stream(&stream, position, MAX_MESSAGES).await?;
            let Some((last, _)) = read.last() else { continue };
            position = *last;
            if messages.send(read).await.is_err() {
                return Ok(());
            }
        }
    }

    /// Leases URLs to the workers that accept some. Returns when to try again.
    fn lease(&self) -> Result<Instant> {
        let (next_timer, _) = self.backend.apply(|state| {
            state.run_timers();
            self.lease_to_all(state)?;
            Ok(state.next_timer())
        })?;
        Ok(next_timer.unwrap_or_else(|| Instant::now() + MAX_WAIT))
    }

    /// At the end of the crawl or of a budget there is no use in leases.
    fn lease_to_all(&self, state: &mut FrontierState) -> Result<()> {
        match self.is_ending.load(Ordering::Relaxed) || state.budgets.exhausted().is_some() {
            true => Ok(()),
            false => server::lease_to_all(state),
        }
    }

    /// Applies messages, and leases what they allow. Waits for the committer where a batch would become too large.
    async fn apply(self: &Arc<Self>, messages: Vec<(Position, Vec<u8>)>) -> Result<()> {
        let mut messages = messages.into_iter();
        while !messages.as_slice().is_empty() {
            let mut committed = self.backend.inspect(|state| state.storage.committed.subscribe());
            while !self.backend.inspect(|state| state.storage.batch.has_room()) {
                if committed.changed().await.is_err() {
                    break;
                }
            }
            let (waiters, _) = self.backend.apply(|state| {
                let mut waiters = Vec::new();
                while state.storage.batch.has_room()
                    && let Some((position, message)) = messages.next()
                {
                    server::apply(state, position, &message, &mut waiters)?;
                }
                self.lease_to_all(state)?;
                Ok(waiters)
            })?;
            for waiter in waiters {
                tokio::spawn(Arc::clone(self).wait_for_budget(waiter));
            }
        }
        Ok(())
    }

    async fn wait_for_budget(self: Arc<Self>, waiter: BudgetWaiter) {
        let BudgetWaiter { worker, session, request, lease } = waiter;
        // If the storage fails, so does the next batch, and with it the frontier.
        let _ = self.backend.wait_for_budget(&lease).await;
        let _ = self.backend.apply(|state| {
            if state.storage.sessions.get(&worker).is_some_and(|current| current.session == session) {
                state.storage.batch.reply(worker, session, Reply::To(request, DONE));
            }
            Ok(())
        });
    }

    /// Whether all messages that were sent so far are applied and durable.
    pub async fn is_drained(&self) -> Result<bool> {
        let last = self.data.call("XREVRANGE", "urls").arg(("+", "-", "COUNT", 1));
        let last: Vec<(String, Value)> = self.data.connection.one(last).await?;
        let applied = self.backend.inspect(|state| state.storage.applied);
        let last: Option<Position> = last.first().and_then(|(id, _)| id.parse().ok());
        Ok(last.is_none_or(|last| last <= applied) && self.flush().await.is_ok())
    }

    /// Waits until everything that was applied is durable.
    pub async fn flush(&self) -> Result<()> {
        let (_, commit) = self.backend.apply(|_| Ok(()))?;
        commit.wait().await
    }

    /// Stores the counts and queue lengths as they are now, for displays of a crawl that ends before they are due.
    pub async fn write_status(&self) -> Result<()> {
        let status = self.backend.inspect(|state| serde_json::to_vec(&state.snapshot()).unwrap_or_default());
        let keys = &self.data.keys;
        let write = WriteIf::default().condition(("GET", keys.of("epoch")), self.epoch);
        let write = write.write(("SET", keys.of("status"), status));
        self.data.connection.one::<u8>(write.call(&keys.base)).await.map(drop)
    }

    /// Lets a new prioritizer start, with the URLs that an earlier one had taken.
    pub fn restart_prioritizer(&self) -> Result<()> {
        self.change(FrontierState::restart_prioritizer)
    }

    /// Sets whether URLs are leased. At first they are.
    pub fn set_leasing(&self, is_leasing: bool) {
        self.is_ending.store(!is_leasing, Ordering::Relaxed);
    }

    /// Ends the session of a dead worker, and requeues its URLs.
    pub fn remove_worker(&self, worker: WorkerId) -> Result<()> {
        self.change(|state| server::end_session(state, worker))
    }

    fn change(&self, change: impl FnOnce(&mut FrontierState)) -> Result<()> {
        let change = |state: &mut FrontierState| {
            change(state);
            Ok(())
        };
        self.backend.apply(change).map(drop)
    }

    /// Runs a future on the thread of the frontier, whose clock is the crawl's.
    pub async fn run_on_its_thread<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        joined(self.data.connection.spawn(future).await)
    }
}

/// The result of a task that was not aborted.
fn joined<T>(result: Result<Result<T>, JoinError>) -> Result<T> {
    result.unwrap_or_else(|failed| match failed.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Err(BackendError::redis(StorageErrorKind::Io, "the connection to Redis was closed")),
    })
}
