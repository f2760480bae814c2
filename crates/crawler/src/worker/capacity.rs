//! Counts the leases that a worker works on. Leases that wait for their host do not count.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The number of leases that a worker works on.
#[derive(Debug, Default)]
pub(super) struct Capacity {
    active: AtomicUsize,
    freed: Notify,
}

/// One lease, from its start to the end of its fetch.
#[derive(Debug)]
pub(super) struct LeaseActivity {
    capacity: Arc<Capacity>,
    is_active: AtomicBool,
}

impl Capacity {
    /// The number of leases that the worker works on.
    pub(super) fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// Waits until a lease starts to wait.
    pub(super) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// A lease that the worker works on.
    pub(super) fn start(self: &Arc<Capacity>) -> LeaseActivity {
        self.active.fetch_add(1, Ordering::Relaxed);
        LeaseActivity { capacity: Arc::clone(self), is_active: AtomicBool::new(true) }
    }
}

impl LeaseActivity {
    /// Sets whether the worker works on the lease, or the lease waits.
    pub(super) fn set_active(&self, is_active: bool) {
        if self.is_active.swap(is_active, Ordering::Relaxed) == is_active {
            return;
        }
        if is_active {
            self.capacity.active.fetch_add(1, Ordering::Relaxed);
        } else {
            self.capacity.active.fetch_sub(1, Ordering::Relaxed);
            self.capacity.freed.notify_one();
        }
    }
}

impl Drop for LeaseActivity {
    fn drop(&mut self) {
        if *self.is_active.get_mut() {
            self.capacity.active.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
