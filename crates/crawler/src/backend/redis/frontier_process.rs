//! The frontier process of a distributed crawl: one at a time holds the state in memory, and any number of others wait to
//! take over.

use std::sync::Arc;

use redis::Value;
use tokio::task::JoinError;

use super::super::{BackendError, WorkerId};
use super::committer::Committer;
use super::connection::Call;
use super::control::Shared;
use super::home::AbortOnDrop;
use super::messages::Position;
use super::restore::{self, Restored};
use super::server::FrontierServer;
use super::storage::RedisStorage;
use crate::backend::local::LocalBackend;
use crate::backend::local::state::LocalState;
use crate::error::StorageErrorKind;

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
    server: Arc<FrontierServer>,
    committer: Arc<Committer>,
    applied: Position,
}

impl FrontierProcess {
    /// Takes over the frontier of a crawl. Earlier frontiers can change nothing any more.
    pub(super) async fn take_over(shared: &Arc<Shared>) -> Result<FrontierProcess, BackendError> {
        let at_home = Arc::clone(shared);
        // The clock of the thread is the crawl's.
        let take_over = async move {
            let Shared { connection, keys, confirmation, key, .. } = &*at_home;
            // A connection of its own, because a batch may wait for replicas.
            let (connection, keys, confirmation) = (connection.beside(), keys.clone(), *confirmation);
            let Restored { state, epoch, applied } = restore::take_over(&at_home, &connection).await?;
            let backend = Arc::new(LocalBackend::from_state(state, *key));
            let server = Arc::new(FrontierServer::new(Arc::clone(&backend), keys.clone()));
            let committer = Arc::new(Committer { backend, connection, keys, epoch, confirmation });
            Ok(FrontierProcess { server, committer, applied })
        };
        joined(shared.connection.spawn(take_over).await)
    }

    /// The queues and storages, for the prioritizer.
    pub fn backend(&self) -> &Arc<LocalBackend<RedisStorage>> {
        &self.server.backend
    }

    /// Serves the workers until another frontier takes over, or an error.
    pub async fn run(&self) -> Result<FrontierEnd, BackendError> {
        let (server, committer) = (Arc::clone(&self.server), Arc::clone(&self.committer));
        let (reading, applied) = (committer.connection.beside(), self.applied);
        let run = async move {
            tokio::select! {
                end = committer.run() => end,
                served = server.run(reading, applied) => served.map(|()| FrontierEnd::Superseded),
            }
        };
        // If nobody waits for it any more, it ends.
        let mut running = AbortOnDrop(self.committer.connection.spawn(run));
        joined((&mut running.0).await)
    }

    /// Whether all messages that were sent so far are applied and durable.
    pub async fn is_drained(&self) -> Result<bool, BackendError> {
        let Committer { connection, keys, .. } = &*self.committer;
        let last = Call::new("XREVRANGE", keys.messages()).arg("+").arg("-").arg("COUNT").arg(1);
        let last: Vec<(String, Value)> = connection.one(last).await?;
        let applied = self.backend().inspect(|state| state.storage.applied);
        let last: Option<Position> = last.first().and_then(|(id, _)| id.parse().ok());
        Ok(last.is_none_or(|last| last <= applied) && self.flush().await.is_ok())
    }

    /// Waits until everything that was applied is durable.
    pub async fn flush(&self) -> Result<(), BackendError> {
        let (_, commit) = self.backend().apply(|_| Ok(()))?;
        commit.wait().await
    }

    /// Lets a new prioritizer start, with the URLs that an earlier one had taken.
    pub fn restart_prioritizer(&self) -> Result<(), BackendError> {
        let restart = |state: &mut LocalState<RedisStorage>| {
            state.restart_prioritizer();
            Ok(())
        };
        self.backend().apply(restart).map(drop)
    }

    /// Sets whether URLs are leased. At first they are.
    pub fn set_leasing(&self, is_leasing: bool) {
        self.server.set_leasing(is_leasing);
    }

    /// Runs a future on the thread of the frontier, whose clock is the crawl's.
    pub async fn run_on_its_thread<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, BackendError>> + Send + 'static,
    ) -> Result<T, BackendError> {
        joined(self.committer.connection.spawn(future).await)
    }

    /// Ends the session of a dead worker, and requeues its URLs.
    pub fn remove_worker(&self, worker: WorkerId) -> Result<(), BackendError> {
        self.server.remove_worker(worker)
    }
}

/// The result of a task that was not aborted.
fn joined<T>(result: Result<Result<T, BackendError>, JoinError>) -> Result<T, BackendError> {
    result.unwrap_or_else(|failed| match failed.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Err(BackendError::redis(StorageErrorKind::Io, "the connection to Redis was closed")),
    })
}
