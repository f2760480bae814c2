//! What outlives the process of what is known of hosts: little, so that millions of ordinary ones leave no trace.

use std::time::Duration;

use super::super::super::{BackendError, HostDelay};
use super::super::Batch;
use super::super::records::HostRow;
use super::{DiskStorage, milliseconds_since_1970};

impl DiskStorage {
    /// Notes when a host may be asked again, if that is not what everybody gets after a death.
    pub(super) fn pace_host(
        &mut self,
        host: &str,
        HostDelay { delay, cooldown: rest }: HostDelay,
    ) -> Result<(), BackendError> {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (now, everybody) = (milliseconds_since_1970(), self.delay);
        // Rounded up: a little too late is polite.
        let until = now.saturating_add(milliseconds(rest)).saturating_add(1);
        self.change_host(host, |row| {
            // What was learnt first may be told last: the longer rest is the one that is owed.
            let is_owed_more = row.until > now.saturating_add(milliseconds(everybody));
            row.until = match is_owed_more || rest > everybody {
                true => row.until.max(until),
                false => 0,
            };
            row.delay = if delay > everybody { milliseconds(delay) } else { 0 };
        })
    }

    /// Changes what is known of a host. What says nothing has no row.
    pub(super) fn change_host(
        &mut self,
        host: &str,
        change: impl FnOnce(&mut HostRow),
    ) -> Result<(), BackendError> {
        let gathered = |batch: &Batch| batch.hosts.get(host).cloned();
        let row = match gathered(&self.batch).or_else(|| self.committing.as_deref().and_then(gathered)) {
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
