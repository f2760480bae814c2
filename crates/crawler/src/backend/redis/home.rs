//! Where the connection lives: a thread of its own, because those who make moves come and go with their runtimes.

use std::thread;

use tokio::runtime::{self, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::super::BackendError;
use crate::error::{StorageError, StorageErrorKind};

/// The thread; it ends when this is dropped.
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
        let live = move || drop(runtime.block_on(ended));
        thread::Builder::new().name("redis".into()).spawn(live).map_err(cannot)?;
        Ok(Home { handle, _ends: ends })
    }

    /// Lets something happen here, to its end.
    pub(super) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(future);
    }

    /// Lets somebody live here too: who makes many moves makes them more cheaply where the connection is.
    pub(super) fn host<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.handle.spawn(future)
    }

    /// Lets something happen here, and waits for it.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, BackendError>> + Send + 'static,
    ) -> Result<T, BackendError> {
        match self.handle.spawn(future).await {
            Ok(made) => made,
            Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
            Err(_) => Err(BackendError::redis(StorageErrorKind::Io, "the connection to Redis was closed")),
        }
    }
}
