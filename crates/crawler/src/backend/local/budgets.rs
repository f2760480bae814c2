//! Enforces the page and byte budgets. Requests reserve before they are sent, so no number of workers exceeds a budget.

use std::collections::HashMap;

use super::super::{Budget, BudgetDecision};
use super::BackendConfig;
use crate::origin::throttle_key;
use crate::stats::BodyBytes;

/// What is used, and what requests in flight have reserved.
pub(crate) struct Budgets {
    max_pages: u64,
    max_bytes: u64,
    max_page_bytes: u64,
    max_pages_per_host: u64,
    pages: u64,
    pages_reserved: u64,
    bytes: BodyBytes,
    bytes_reserved: u64,
    /// Pages by host. Empty unless there is a limit per host.
    hosts: HashMap<String, HostBudget>,
}

/// What a request has reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BudgetReservation {
    bytes: u64,
    /// The URL may become a page. A revisit does not: its page is counted already.
    page: bool,
}

impl BudgetReservation {
    pub(crate) fn bytes(self) -> u64 {
        self.bytes
    }
}

#[derive(Default)]
struct HostBudget {
    pages: u64,
    reserved: u64,
}

impl Budgets {
    pub(crate) fn new(config: &BackendConfig) -> Budgets {
        Budgets {
            max_pages: config.max_pages,
            max_bytes: config.max_bytes,
            max_page_bytes: config.max_page_bytes,
            max_pages_per_host: config.max_pages_per_host,
            pages: 0,
            pages_reserved: 0,
            bytes: BodyBytes::default(),
            bytes_reserved: 0,
            hosts: HashMap::new(),
        }
    }

    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    pub(crate) fn bytes(&self) -> BodyBytes {
        self.bytes
    }

    /// The budget that is used up, if any.
    pub(crate) fn exhausted(&self) -> Option<Budget> {
        match () {
            () if self.pages >= self.max_pages => Some(Budget::Pages),
            () if self.bytes.counted() >= self.max_bytes => Some(Budget::Bytes),
            () => None,
        }
    }

    /// Reserves one page, if the URL may become one, and as many bytes as a page may have or as are left.
    ///
    /// Grants less than a full page only if no more is left and no other request has reserved any of it. Reservations
    /// are mostly returned, and a page must not be truncated because of them.
    pub(crate) fn reserve(&mut self, url: &str, page: bool) -> Result<BudgetReservation, BudgetDecision> {
        if let Some(budget) = self.exhausted() {
            return Err(BudgetDecision::Exhausted(budget));
        }
        let left = self.max_bytes - self.bytes.counted();
        let bytes = self.max_page_bytes.min(left);
        if self.bytes_reserved + bytes > left || page && self.pages + self.pages_reserved >= self.max_pages {
            return Err(BudgetDecision::RetryLater);
        }
        if let Some(host) = self.limited_host(url).filter(|_| page) {
            let host_budget = self.hosts.entry(host).or_default();
            if host_budget.pages >= self.max_pages_per_host {
                return Err(BudgetDecision::HostExhausted);
            }
            if host_budget.pages + host_budget.reserved >= self.max_pages_per_host {
                return Err(BudgetDecision::RetryLater);
            }
            host_budget.reserved += 1;
        }
        self.pages_reserved += u64::from(page);
        self.bytes_reserved += bytes;
        Ok(BudgetReservation { bytes, page })
    }

    /// Counts what a request used and returns the rest of its reservation. Returns the page number of a page.
    pub(crate) fn commit(
        &mut self,
        url: &str,
        reserved: Option<BudgetReservation>,
        is_page: bool,
        bytes: BodyBytes,
    ) -> Option<u64> {
        self.bytes += bytes;
        self.release(url, reserved);
        if !is_page {
            return None;
        }
        if let Some(host) = self.limited_host(url) {
            self.hosts.entry(host).or_default().pages += 1;
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
            && let Some(host_budget) = self.hosts.get_mut(&host)
        {
            host_budget.reserved -= 1;
        }
    }

    /// Restores what earlier processes of the crawl used.
    pub(crate) fn restore(&mut self, pages: u64, bytes: BodyBytes) {
        (self.pages, self.bytes) = (pages, bytes);
    }

    /// Restores the number of pages that earlier processes fetched from a host.
    pub(crate) fn restore_host(&mut self, host: String, pages: u64) {
        self.hosts.entry(host).or_default().pages = pages;
    }

    /// The host of a URL and its number of pages, if pages per host are limited.
    pub(crate) fn pages_of_host(&self, url: &str) -> Option<(String, u64)> {
        let host = self.limited_host(url)?;
        let pages = self.hosts.get(&host)?.pages;
        Some((host, pages))
    }

    /// The host whose pages are counted. `None` if pages per host are not limited.
    fn limited_host(&self, url: &str) -> Option<String> {
        if self.max_pages_per_host == u64::MAX {
            return None;
        }
        Some(throttle_key(url).to_owned())
    }
}
