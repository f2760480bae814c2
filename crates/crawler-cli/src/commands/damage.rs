//! Messages about damaged records of archives: the first ones are printed, all are logged.

use std::sync::atomic::{AtomicU64, Ordering};

use crawler::internal::log::NOTICE;

use crate::live::screen;
use crate::log;

/// How many damaged records are named. The others are counted.
const MAX_NAMED: u64 = 20;

/// Prints and logs messages about damaged records.
pub struct DamageMessages {
    count: AtomicU64,
    names_all: bool,
    remark: &'static str,
}

impl DamageMessages {
    /// Prints the first messages, and then a remark; or all of them.
    pub fn new(names_all: bool, remark: &'static str) -> DamageMessages {
        DamageMessages { count: AtomicU64::new(0), names_all, remark }
    }

    /// Prints a message, unless there were many.
    pub fn report(&self, message: &str) {
        tracing::warn!(target: NOTICE, "{message}");
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        match number {
            _ if log::is_on_stderr() => {}
            _ if number < MAX_NAMED || self.names_all => screen::print(&format!("crawler: {message}")),
            MAX_NAMED => screen::print(&format!("crawler: {}", self.remark)),
            _ => {}
        }
    }
}
