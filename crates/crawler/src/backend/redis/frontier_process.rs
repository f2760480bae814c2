//! The frontier process of a distributed crawl: one at a time holds the state in memory, and any number of others wait to
//! take over.

use std::sync::Arc;

use redis::Value;
use tokio::task::JoinHandle;

use super::super::{BackendError, WorkerId};
use super::committer::{CommitEnd, Committer};
use super::connection::{Call, Connection};
use super::control::Shared;
use super::home::Home;
use super::messages::Position;
use super::restore;
use super::server::FrontierServer;
use super::storage::RedisStorage;
use crate::backend::local::LocalBackend;
use crate::backend::local::state::LocalState;

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
    reading: Connection,
    applied: Position,
    home: Arc<Home>,
}

impl FrontierProcess {
    /// Takes over the frontier of a crawl. Earlier frontiers can change nothing any more.
    pub(super) async fn take_over(
        shared: Arc<Shared>,
        home: Arc<Home>,
    ) -> Result<FrontierProcess, BackendError> {
        let at_home = Arc::clone(&home);
        let take_over = async move {
            // Connections of its own: one for reads that wait, and one that does not wait for other operations.
            let connection = shared.place.connect_beside(&shared.connection).await?;
            let reading = shared.place.connect_beside(&shared.connection).await?;
            let restored = restore::take_over(&shared, &connection).await?;
            let (keys, epoch, replicas) = (shared.keys.clone(), restored.epoch, shared.replicas);
            let backend = Arc::new(LocalBackend::from_state(restored.state, shared.key));
            let server = Arc::new(FrontierServer::new(Arc::clone(&backend), keys.clone()));
            let committer = Arc::new(Committer { backend, connection, keys, epoch, replicas });
            Ok(FrontierProcess { server, committer, reading, applied: restored.applied, home: at_home })
        };
        home.run(take_over).await
    }

    /// The queues and storages, for the prioritizer.
    pub fn backend(&self) -> &Arc<LocalBackend<RedisStorage>> {
        &self.server.backend
    }

    /// Serves the workers until another frontier takes over, or an error.
    pub async fn run(&self) -> Result<FrontierEnd, BackendError> {
        let (server, committer) = (Arc::clone(&self.server), Arc::clone(&self.committer));
        let (reading, applied) = (self.reading.clone(), self.applied);
        let run = async move {
            tokio::select! {
                end = committer.run() => Ok(match end? {
                    CommitEnd::Superseded => FrontierEnd::Superseded,
                    CommitEnd::DataLost => FrontierEnd::DataLost,
                }),
                served = server.run(reading, applied) => served.map(|()| FrontierEnd::Superseded),
            }
        };
        // If nobody waits for it any more, it ends.
        let mut running = AbortOnDrop(self.home.host(run));
        match (&mut running.0).await {
            Ok(ended) => ended,
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        }
    }

    /// Whether all messages that were sent so far are applied and durable.
    pub async fn is_drained(&self) -> Result<bool, BackendError> {
        let (connection, keys) = (self.committer.connection.clone(), self.committer.keys.clone());
        let backend = Arc::clone(self.backend());
        let last = async move {
            let mut last = Call::plain("XREVRANGE");
            last.arg(keys.messages()).arg("+").arg("-").arg("COUNT").arg(1);
            let last: Vec<(String, Value)> = connection.one(last).await?;
            let applied = backend.inspect(|state| state.storage.applied);
            Ok(last.first().and_then(|(id, _)| id.parse().ok()).is_none_or(|id: Position| id <= applied))
        };
        Ok(self.home.run(last).await? && self.flush().await.is_ok())
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

    /// Round trips and commands so far.
    pub fn traffic(&self) -> (u64, u64) {
        let (reads, writes) = (self.reading.traffic(), self.committer.connection.traffic());
        (reads.0 + writes.0, reads.1 + writes.1)
    }

    /// Runs a future on the thread of the frontier, whose clock is the crawl's.
    pub async fn run_on_its_thread<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, BackendError>> + Send + 'static,
    ) -> Result<T, BackendError> {
        self.home.run(future).await
    }

    /// Ends the session of a dead worker, and requeues its URLs.
    pub fn remove_worker(&self, worker: WorkerId) -> Result<(), BackendError> {
        self.server.remove_worker(worker)
    }
}

/// A task that ends when this is dropped.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
