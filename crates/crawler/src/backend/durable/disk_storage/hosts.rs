//! What is stored about hosts. A host with the default delay has no row, because a crawl has millions of them.

use std::time::Duration;

use super::super::super::BackendError;
use super::super::Batch;
use super::super::records::HostRow;
use super::DiskStorage;

impl DiskStorage {
    /// Changes the row of a host. A row with default values is removed.
    pub(super) fn change_host_row(
        &mut self,
        host: &str,
        change: impl FnOnce(&mut HostRow, Duration),
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
        if let Some(changed) = row.change(|row| change(row, self.default_delay)) {
            self.batch.hosts.insert(host.to_owned(), changed);
        }
        Ok(())
    }
}
