//! What is stored about hosts. A host with the default delay has no row, because a crawl has millions of them.

use std::time::Duration;

use super::super::super::{BackendError, HostDelay};
use super::super::Batch;
use super::super::records::HostRow;
use super::{DiskStorage, unix_millis};

impl DiskStorage {
    /// Stores when the next request to a host is allowed, if that is later than the default delay after a restart.
    pub(super) fn update_host_delay(
        &mut self,
        host: &str,
        HostDelay { delay, cooldown }: HostDelay,
    ) -> Result<(), BackendError> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (now, default_delay) = (unix_millis(), self.default_delay);
        // Round up: too late is polite.
        let not_before = now.saturating_add(millis(cooldown)).saturating_add(1);
        self.change_host(host, |row| {
            // Updates can arrive out of order, so keep the later deadline.
            let has_longer_cooldown = row.not_before > now.saturating_add(millis(default_delay));
            row.not_before = match has_longer_cooldown || cooldown > default_delay {
                true => row.not_before.max(not_before),
                false => 0,
            };
            row.delay = if delay > default_delay { millis(delay) } else { 0 };
        })
    }

    /// Changes the row of a host. A row with default values is removed.
    pub(super) fn change_host(
        &mut self,
        host: &str,
        change: impl FnOnce(&mut HostRow),
    ) -> Result<(), BackendError> {
        let in_batch = |batch: &Batch| batch.hosts.get(host).cloned();
        let row = match in_batch(&self.batch).or_else(|| self.committing.as_deref().and_then(in_batch)) {
            Some(row) => row,
            None => self.view.host(host)?,
        };
        let before = match row {
            Some(row) => HostRow::from_bytes(&row).ok_or_else(|| self.view.damaged())?,
            None => HostRow::default(),
        };
        let mut after = before;
        change(&mut after);
        if after != before {
            let row = (after != HostRow::default()).then(|| after.to_bytes());
            self.batch.hosts.insert(host.to_owned(), row);
        }
        Ok(())
    }
}
