//! The places of the server's connections. Those that have not sent a request yet take no place of those that have, and
//! monitoring has places of its own.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

use super::routes::MAX_STREAMS;

/// Connections at a time that have not sent the head of their request. When another one comes, the oldest is closed.
const MAX_WAITING: usize = 32;

/// Requests at a time, with those for streams. Further ones are refused.
const MAX_REQUESTS: usize = MAX_STREAMS + 32;

/// Requests of monitoring at a time, in addition to these.
const MAX_MONITORING: usize = 8;

/// The connections of a server.
pub struct Connections {
    /// How many there were.
    count: AtomicU64,
    /// The numbers of those without a request, the oldest first, and their tasks.
    waiting: Mutex<VecDeque<(u64, AbortHandle)>>,
    requests: Arc<Semaphore>,
    monitoring: Arc<Semaphore>,
}

/// A connection. Its place is free again when it is dropped.
pub struct Connection {
    number: u64,
    all: Arc<Connections>,
    place: OnceLock<OwnedSemaphorePermit>,
}

impl Connections {
    pub fn new() -> Connections {
        Connections {
            count: AtomicU64::new(0),
            waiting: Mutex::default(),
            requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
            monitoring: Arc::new(Semaphore::new(MAX_MONITORING)),
        }
    }

    /// Adds a connection that has not sent anything yet, and starts the task that serves it.
    pub fn add(self: &Arc<Self>, serve: impl FnOnce(Connection) -> AbortHandle) {
        let mut waiting = self.waiting();
        if waiting.len() >= MAX_WAITING
            && let Some((_, oldest)) = waiting.pop_front()
        {
            oldest.abort();
        }
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let connection = Connection { number, all: Arc::clone(self), place: OnceLock::new() };
        // The task runs later, on this thread.
        waiting.push_back((number, serve(connection)));
    }

    /// Closes the connections that have not sent a request, and waits for the end of the others.
    pub async fn finish(&self) {
        self.waiting().drain(..).for_each(|(_, task)| task.abort());
        // They are never closed.
        let _ = self.requests.acquire_many(MAX_REQUESTS as u32).await;
        let _ = self.monitoring.acquire_many(MAX_MONITORING as u32).await;
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<(u64, AbortHandle)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// The head of the request has arrived: the connection takes a place among the requests. False if there is none.
    pub fn begin(&self, is_for_monitoring: bool) -> bool {
        self.stop_waiting();
        let places = if is_for_monitoring { &self.all.monitoring } else { &self.all.requests };
        Arc::clone(places).try_acquire_owned().is_ok_and(|place| self.place.set(place).is_ok())
    }

    fn stop_waiting(&self) {
        self.all.waiting().retain(|(number, _)| *number != self.number);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.stop_waiting();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn oldest_connection_without_a_request_gives_way_and_monitoring_has_its_own_places() {
        let connections = Arc::new(Connections::new());
        let (sender, mut closed) = tokio::sync::mpsc::unbounded_channel();
        /// Says which connection was dropped.
        struct Dropped(usize, tokio::sync::mpsc::UnboundedSender<usize>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                let _ = self.1.send(self.0);
            }
        }
        let add = |number: usize, resource: Option<bool>| {
            let dropped = Dropped(number, sender.clone());
            let (reply, has_place) = tokio::sync::oneshot::channel();
            connections.add(|connection| {
                let task = tokio::spawn(async move {
                    let _dropped = dropped;
                    if let Some(is_for_monitoring) = resource {
                        let _ = reply.send(connection.begin(is_for_monitoring));
                    }
                    std::future::pending::<()>().await;
                    drop(connection);
                });
                task.abort_handle()
            });
            has_place
        };
        for number in 0..MAX_REQUESTS {
            assert_eq!(add(number, Some(false)).await, Ok(true), "{number}");
        }
        assert_eq!(add(1_000, Some(false)).await, Ok(false));
        for number in 0..MAX_WAITING + 2 {
            add(2_000 + number, None);
        }
        assert_eq!((closed.recv().await, closed.recv().await), (Some(2_000), Some(2_001)));
        assert_eq!(add(3_000, Some(true)).await, Ok(true));
        assert_eq!(closed.recv().await, Some(2_002), "it waited for a moment");
        assert!(closed.is_empty());
    }
}
