//! The thread of the connection to Redis. The connection has a thread of its own, because it outlives the runtimes of its
//! users.

use std::thread;

use tokio::runtime::{self, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::super::BackendError;
use crate::error::{StorageError, StorageErrorKind};

/// The thread. It ends when this is dropped.
pub(super) struct Home {
    handle: Handle,
    _ends: oneshot::Sender<()>,
}

impl Home {
    pub(super) fn new() -> Result<Home, BackendError> {
        let cannot = |error: std::io::Error| {
            let what = "cannot start a thread for Redis";
            BackendError::Redis(StorageError::with_source(StorageErrorKind::Io, what, error, ""))
        };
        let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
        let (handle, (ends, ended)) = (runtime.handle().clone(), oneshot::channel());
        let run = move || drop(runtime.block_on(ended));
        thread::Builder::new().name("redis".into()).spawn(run).map_err(cannot)?;
        Ok(Home { handle, _ends: ends })
    }

    /// Starts a future on the thread.
    pub(super) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(future);
    }

    /// Starts a future on the thread, and returns a handle to it. Operations are cheaper on the thread of the connection.
    pub(super) fn host<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.handle.spawn(future)
    }

    /// Runs a future on the thread, and waits for its result.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, BackendError>> + Send + 'static,
    ) -> Result<T, BackendError> {
        match self.handle.spawn(future).await {
            Ok(result) => result,
            Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
            Err(_) => Err(BackendError::redis(StorageErrorKind::Io, "the connection to Redis was closed")),
        }
    }
}
