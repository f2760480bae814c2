//! Keeps the budgets: what is reserved is promised back or used, so that no number of workers exceeds them.

use std::collections::HashMap;

use super::super::{Budget, BudgetDecision};
use super::BackendConfig;
use crate::origin::throttle_key;

/// What has been used, and what is reserved by requests in flight.
pub(crate) struct Budgets {
    max_pages: u64,
    max_bytes: u64,
    max_page_bytes: u64,
    max_pages_per_host: u64,
    pages: u64,
    pages_reserved: u64,
    bytes: u64,
    bytes_reserved: u64,
    /// By host, where there is a limit to its pages.
    hosts: HashMap<String, HostBudget>,
}

/// What a request has reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BudgetReservation {
    bytes: u64,
    /// It may become a page. One that is visited again for its links is a page already.
    page: bool,
}

impl BudgetReservation {
    pub(crate) fn bytes(self) -> u64 {
        self.bytes
    }
}

#[derive(Default)]
struct HostBudget {
    kept: u64,
    reserved: u64,
}

impl Budgets {
    pub(crate) fn new(settings: &BackendConfig) -> Budgets {
        Budgets {
            max_pages: settings.max_pages,
            max_bytes: settings.max_bytes,
            max_page_bytes: settings.max_page_bytes,
            max_pages_per_host: settings.max_pages_per_host,
            pages: 0,
            pages_reserved: 0,
            bytes: 0,
            bytes_reserved: 0,
            hosts: HashMap::new(),
        }
    }

    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The budget of which nothing is left.
    pub(crate) fn exhausted(&self) -> Option<Budget> {
        match () {
            () if self.pages >= self.max_pages => Some(Budget::Pages),
            () if self.bytes >= self.max_bytes => Some(Budget::Bytes),
            () => None,
        }
    }

    /// Reserves one page, if it may become one, and as many bytes as a page may have or as are left. Decides first,
    /// takes second.
    ///
    /// Less than a page may have is given only where no more is left and nobody has reserved any of it: what others
    /// have reserved mostly comes back, and a page must not be cut for it.
    pub(crate) fn reserve(&mut self, url: &str, page: bool) -> Result<BudgetReservation, BudgetDecision> {
        if let Some(budget) = self.exhausted() {
            return Err(BudgetDecision::Exhausted(budget));
        }
        let left = self.max_bytes - self.bytes;
        let bytes = self.max_page_bytes.min(left);
        if self.bytes_reserved + bytes > left || page && self.pages + self.pages_reserved >= self.max_pages {
            return Err(BudgetDecision::RetryLater);
        }
        if let Some(host) = self.limited_host(url).filter(|_| page) {
            let pages = self.hosts.entry(host).or_default();
            if pages.kept >= self.max_pages_per_host {
                return Err(BudgetDecision::HostExhausted);
            }
            if pages.kept + pages.reserved >= self.max_pages_per_host {
                return Err(BudgetDecision::RetryLater);
            }
            pages.reserved += 1;
        }
        self.pages_reserved += u64::from(page);
        self.bytes_reserved += bytes;
        Ok(BudgetReservation { bytes, page })
    }

    /// Counts what a request used and returns the rest; a kept page gets its number.
    pub(crate) fn commit(
        &mut self,
        url: &str,
        reserved: Option<BudgetReservation>,
        kept: bool,
        bytes: u64,
    ) -> Option<u64> {
        self.bytes += bytes;
        self.release(url, reserved);
        if !kept {
            return None;
        }
        if let Some(host) = self.limited_host(url) {
            self.hosts.entry(host).or_default().kept += 1;
        }
        self.pages += 1;
        Some(self.pages)
    }

    /// Returns a reservation.
    pub(crate) fn release(&mut self, url: &str, reserved: Option<BudgetReservation>) {
        let Some(BudgetReservation { bytes, page }) = reserved else { return };
        self.bytes_reserved -= bytes;
        if !page {
            return;
        }
        self.pages_reserved -= 1;
        if let Some(host) = self.limited_host(url)
            && let Some(pages) = self.hosts.get_mut(&host)
        {
            pages.reserved -= 1;
        }
    }

    /// Goes on from what an earlier process used.
    pub(crate) fn restore(&mut self, pages: u64, bytes: u64) {
        (self.pages, self.bytes) = (pages, bytes);
    }

    /// Goes on from what an earlier process kept of a host.
    pub(crate) fn restore_host(&mut self, host: String, pages: u64) {
        self.hosts.entry(host).or_default().kept = pages;
    }

    /// The host of a URL and how many of its pages were kept, where there is a limit to them.
    pub(crate) fn pages_of_host(&self, url: &str) -> Option<(String, u64)> {
        let host = self.limited_host(url)?;
        let pages = self.hosts.get(&host)?.kept;
        Some((host, pages))
    }

    /// The host whose pages are counted; nobody counts where there is no limit.
    fn limited_host(&self, url: &str) -> Option<String> {
        if self.max_pages_per_host == u64::MAX {
            return None;
        }
        Some(throttle_key(url).to_owned())
    }
}
