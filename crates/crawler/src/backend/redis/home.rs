//! The thread of the connection to Redis, which outlives the runtimes of its users.

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

    pub(super) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Starts a future on the thread. While it has this `Home`, the thread does not end.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.handle.spawn(future)
    }
}

/// A task that ends when this is dropped.
pub(super) struct AbortOnDrop<T>(pub(super) JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
