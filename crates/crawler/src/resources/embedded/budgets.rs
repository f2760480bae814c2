//! Keeps the budgets: what is reserved is promised back or used, so that no number of workers exceeds them.

use std::collections::HashMap;

use super::super::{Budget, Grant};
use super::Settings;
use crate::origin::paced_host;

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
    hosts: HashMap<String, OfHost>,
}

#[derive(Default)]
struct OfHost {
    kept: u64,
    reserved: u64,
}

impl Budgets {
    pub(crate) fn new(settings: &Settings) -> Budgets {
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
    pub(crate) fn spent(&self) -> Option<Budget> {
        match () {
            () if self.pages >= self.max_pages => Some(Budget::Pages),
            () if self.bytes >= self.max_bytes => Some(Budget::Bytes),
            () => None,
        }
    }

    /// Reserves one page, and as many bytes as a page may have or as are left. Decides first, takes second.
    pub(crate) fn reserve(&mut self, url: &str) -> Grant {
        if let Some(budget) = self.spent() {
            return Grant::Spent(budget);
        }
        if self.pages + self.pages_reserved >= self.max_pages
            || self.bytes + self.bytes_reserved >= self.max_bytes
        {
            return Grant::NotNow;
        }
        if let Some(host) = self.limited_host(url) {
            let pages = self.hosts.entry(host).or_default();
            if pages.kept >= self.max_pages_per_host {
                return Grant::HostSpent;
            }
            if pages.kept + pages.reserved >= self.max_pages_per_host {
                return Grant::NotNow;
            }
            pages.reserved += 1;
        }
        let bytes = self.max_page_bytes.min(self.max_bytes - self.bytes - self.bytes_reserved);
        self.pages_reserved += 1;
        self.bytes_reserved += bytes;
        Grant::Bytes(bytes)
    }

    /// Counts what a request used and returns the rest; a kept page gets its number.
    pub(crate) fn settle(&mut self, url: &str, reserved: Option<u64>, kept: bool, bytes: u64) -> Option<u64> {
        self.bytes += bytes;
        self.give_back(url, reserved);
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
    pub(crate) fn give_back(&mut self, url: &str, reserved: Option<u64>) {
        let Some(bytes) = reserved else { return };
        self.pages_reserved -= 1;
        self.bytes_reserved -= bytes;
        if let Some(host) = self.limited_host(url)
            && let Some(pages) = self.hosts.get_mut(&host)
        {
            pages.reserved -= 1;
        }
    }

    /// Goes on from what an earlier process used.
    pub(crate) fn resume(&mut self, pages: u64, bytes: u64) {
        (self.pages, self.bytes) = (pages, bytes);
    }

    /// Goes on from what an earlier process kept of a host.
    pub(crate) fn resume_host(&mut self, host: String, pages: u64) {
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
        Some(paced_host(url).to_owned())
    }
}
