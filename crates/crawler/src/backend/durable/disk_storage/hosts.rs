//! What is stored about hosts. A host with the default delay has no row, because a crawl has millions of them.

use super::super::super::{BackendError, HostDelay};
use super::super::Batch;
use super::super::records::HostRow;
use super::{DiskStorage, unix_millis};

impl DiskStorage {
    /// Stores when the next request to a host is allowed, if that is later than the default delay after a restart.
    pub(super) fn update_host_delay(
        &mut self,
        host: &str,
        host_delay: HostDelay,
    ) -> Result<(), BackendError> {
        let default_delay = self.default_delay;
        self.change_host(host, |row| row.set_delay(host_delay, default_delay, unix_millis()))
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
        let mut row = match row {
            Some(row) => HostRow::from_bytes(&row).ok_or_else(|| self.view.damaged())?,
            None => HostRow::default(),
        };
        if let Some(changed) = row.change(change) {
            self.batch.hosts.insert(host.to_owned(), changed);
        }
        Ok(())
    }
}
