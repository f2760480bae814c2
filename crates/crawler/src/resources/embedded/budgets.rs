//! Keeps the budgets: what is reserved is promised back or used, so that no number of workers exceeds them.

use std::collections::HashMap;

use url::Url;

use super::super::{Budget, Grant};
use super::Settings;
use crate::origin::Origin;

/// What has been used, and what is reserved by requests in flight.
pub(super) struct Budgets {
    max_pages: u64,
    max_bytes: u64,
    max_page_bytes: u64,
    max_pages_per_host: u64,
    pages: u64,
    pages_reserved: u64,
    bytes: u64,
    bytes_reserved: u64,
    /// Pages kept and reserved by host, where there is a limit to them.
    hosts: HashMap<String, u64>,
}

impl Budgets {
    pub(super) fn new(settings: &Settings) -> Budgets {
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

    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The budget of which nothing is left.
    pub(super) fn spent(&self) -> Option<Budget> {
        match () {
            () if self.pages >= self.max_pages => Some(Budget::Pages),
            () if self.bytes >= self.max_bytes => Some(Budget::Bytes),
            () => None,
        }
    }

    /// Reserves one page, and as many bytes as a page may have or as are left. Decides first, takes second.
    pub(super) fn reserve(&mut self, url: &str) -> Grant {
        if let Some(budget) = self.spent() {
            return Grant::Spent(budget);
        }
        if self.pages + self.pages_reserved >= self.max_pages
            || self.bytes + self.bytes_reserved >= self.max_bytes
        {
            return Grant::NotNow;
        }
        if let Some(host) = self.limited_host(url) {
            let kept = self.hosts.entry(host).or_default();
            if *kept >= self.max_pages_per_host {
                return Grant::HostSpent;
            }
            *kept += 1;
        }
        let bytes = self.max_page_bytes.min(self.max_bytes - self.bytes - self.bytes_reserved);
        self.pages_reserved += 1;
        self.bytes_reserved += bytes;
        Grant::Bytes(bytes)
    }

    /// Counts what a request used and returns the rest; a kept page gets its number.
    pub(super) fn settle(&mut self, url: &str, reserved: Option<u64>, kept: bool, bytes: u64) -> Option<u64> {
        self.bytes += bytes;
        if !kept {
            self.give_back(url, reserved);
            return None;
        }
        if let Some(bytes_reserved) = reserved {
            self.pages_reserved -= 1;
            self.bytes_reserved -= bytes_reserved;
        }
        self.pages += 1;
        Some(self.pages)
    }

    /// Returns a reservation of which nothing was kept.
    pub(super) fn give_back(&mut self, url: &str, reserved: Option<u64>) {
        let Some(bytes) = reserved else { return };
        self.pages_reserved -= 1;
        self.bytes_reserved -= bytes;
        if let Some(host) = self.limited_host(url)
            && let Some(kept) = self.hosts.get_mut(&host)
        {
            *kept -= 1;
        }
    }

    /// The host whose pages are counted; nobody counts where there is no limit.
    fn limited_host(&self, url: &str) -> Option<String> {
        if self.max_pages_per_host == u64::MAX {
            return None;
        }
        Url::parse(url).ok().map(|url| Origin::of(&url).paced_host())
    }
}
