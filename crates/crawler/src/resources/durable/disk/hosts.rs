//! What outlives the process of what is known of hosts.

use super::super::super::Trouble;
use super::super::Batch;
use super::super::records::HostRow;
use super::Disk;

impl Disk {
    pub(super) fn host(&mut self, host: &str, change: impl FnOnce(&mut HostRow)) -> Result<(), Trouble> {
        let gathered = |batch: &Batch| batch.hosts.get(host).cloned();
        let row = match gathered(&self.batch).or_else(|| self.committing.as_deref().and_then(gathered)) {
            Some(row) => Some(row),
            None => self.view.host(host)?,
        };
        let mut row = match row {
            Some(row) => HostRow::from_bytes(&row).ok_or_else(|| self.view.damaged())?,
            None => HostRow::default(),
        };
        change(&mut row);
        self.batch.hosts.insert(host.to_owned(), row.to_bytes());
        Ok(())
    }
}
