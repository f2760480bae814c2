//! Enforces the page and byte budgets. Requests reserve before they are sent, and responses before more of them is read,
//! so no number of workers exceeds a budget.
//!
//! A reservation takes a small part of what is left, but at least as many bytes as a page has on average. So requests
//! wait for bytes only when about as many are in flight as pages fit into the rest of the budget.

use std::collections::{BTreeSet, HashMap};

use super::super::{Budget, BudgetDecision, Lease};
use super::BackendConfig;
use crate::domain::Domain;
use crate::origin::throttle_key;
use crate::stats::BodyBytes;
use crate::task_kind::TaskKind;

/// A reservation takes this part of the bytes that are left, unless pages are larger. With more than 512 MB left, it is
/// a whole page of 500 KB, and no response needs another one.
const BYTE_SHARES: u64 = 1024;

/// The fewest bytes that a reservation takes, as long as they are left.
const MIN_BYTES: u64 = 4 * 1024;

/// The size of a page before the first ones are fetched. If pages are larger, a budget that is smaller than the first
/// requests need is exhausted by parts of pages.
const FIRST_PAGE_BYTES: u64 = 64 * 1024;

/// The newest page has a weight of 1/16 in the average.
const SMOOTHING: u64 = 16;

/// A lease reserves long before its request is sent only if this many times what is reserved then is left.
const AMPLE_FACTOR: u64 = 4;

/// A response that needs more bytes reserves at least this part of what it has read, so that a large one seldom requests more.
const GROWTH: u64 = 4;

/// What is used, and what requests in flight have reserved.
pub(crate) struct Budgets {
    max_pages: u64,
    max_bytes: u64,
    max_page_bytes: u64,
    max_pages_per_host: u64,
    max_pages_per_site: u64,
    pages: u64,
    pages_reserved: u64,
    bytes: BodyBytes,
    bytes_reserved: u64,
    /// Moving average of the bytes that the requests of a lease read, if they read any.
    page_bytes: u64,
    /// The leases, by their ids, whose responses have read all they reserved and wait for more. The oldest one is first.
    growing: BTreeSet<u64>,
    /// Requisites that are pending: when the pages are exhausted, those of the pages so far are still fetched.
    requisites: u64,
    /// Pages of hosts and of sites, by throttle key and by site key. Empty unless there is a limit per host or site.
    groups: HashMap<String, GroupPages>,
}

/// What a lease has reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BudgetReservation {
    lease_id: u64,
    bytes: u64,
    /// Bytes of earlier reservations that are read and counted.
    read: u64,
    /// The URL [may become a page](may_become_page).
    page: bool,
}

#[allow(dead_code, reason = "for a frontier that serves workers in other processes")]
impl BudgetReservation {
    /// The reservation of a lease, from its [parts](BudgetReservation::parts).
    pub(crate) fn from_parts(lease_id: u64, (bytes, read, page): (u64, u64, bool)) -> BudgetReservation {
        BudgetReservation { lease_id, bytes, read, page }
    }

    /// The bytes reserved, the bytes of earlier reservations that are counted, and whether a page is reserved.
    pub(crate) fn parts(self) -> (u64, u64, bool) {
        (self.bytes, self.read, self.page)
    }
}

/// What a request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BudgetWait {
    /// For a page and bytes, like every request that is not sent yet.
    Start,
    /// For more bytes, after all older responses, or for a page of its host or site.
    Turn,
}

/// Which waiting requests may reserve now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BudgetWakeups {
    /// One of those that wait for [`BudgetWait::Start`].
    pub(crate) start: bool,
    /// Some of those that wait for [`BudgetWait::Turn`].
    pub(crate) turn: bool,
}

#[derive(Default)]
struct GroupPages {
    pages: u64,
    reserved: u64,
}

/// A host or a site whose pages are limited.
struct LimitedGroup {
    key: String,
    max_pages: u64,
    /// The decision when all its pages are used.
    exhausted: BudgetDecision,
}

impl Budgets {
    pub(crate) fn new(config: &BackendConfig) -> Budgets {
        Budgets {
            max_pages: config.max_pages,
            max_bytes: config.max_bytes,
            max_page_bytes: config.max_page_bytes,
            max_pages_per_host: config.max_pages_per_host,
            max_pages_per_site: config.max_pages_per_site,
            pages: 0,
            pages_reserved: 0,
            bytes: BodyBytes::default(),
            bytes_reserved: 0,
            page_bytes: FIRST_PAGE_BYTES,
            growing: BTreeSet::new(),
            requisites: 0,
            groups: HashMap::new(),
        }
    }

    /// Changes the limits of the crawl.
    pub(crate) fn set_limits(&mut self, max_pages: u64, max_bytes: u64) {
        (self.max_pages, self.max_bytes) = (max_pages, max_bytes);
    }

    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    pub(crate) fn bytes(&self) -> BodyBytes {
        self.bytes
    }

    /// The budget that is exhausted, if any.
    pub(crate) fn exhausted(&self) -> Option<Budget> {
        match () {
            () if self.pages_exhausted() && self.requisites == 0 => Some(Budget::Pages),
            () if self.bytes.counted() >= self.max_bytes => Some(Budget::Bytes),
            () => None,
        }
    }

    /// Whether no further page can be fetched. The crawl continues while requisites are pending.
    pub(crate) fn pages_exhausted(&self) -> bool {
        self.pages >= self.max_pages
    }

    /// The requisites that are pending.
    pub(crate) fn requisites(&self) -> u64 {
        self.requisites
    }

    /// Restores the number of requisites that earlier processes left.
    pub(crate) fn restore_requisites(&mut self, requisites: u64) {
        self.requisites = requisites;
    }

    /// Counts a task that is admitted, also by an earlier process.
    pub(crate) fn admitted(&mut self, url: &str) {
        self.requisites += u64::from(TaskKind::from_task_url(url) == TaskKind::Requisite);
    }

    /// Counts a task that is completed.
    pub(crate) fn completed(&mut self, url: &str) {
        self.requisites =
            self.requisites.saturating_sub(u64::from(TaskKind::from_task_url(url) == TaskKind::Requisite));
    }

    /// Counts the bytes that a lease's requests `read` since its last reservation, and reserves more of them. The first
    /// reservation of a lease includes a page, if its URL may become one.
    pub(crate) fn reserve(
        &mut self,
        lease: &Lease,
        held: &mut Option<BudgetReservation>,
        read: BodyBytes,
    ) -> BudgetDecision {
        self.bytes += read;
        if let Some(held) = held {
            self.bytes_reserved -= std::mem::take(&mut held.bytes);
            held.read += read.counted();
        }
        match (self.exhausted(), held) {
            (Some(budget), _) => BudgetDecision::Exhausted(budget),
            (None, Some(held)) => self.grow(held),
            (None, held) => match self.start(lease) {
                Ok(reservation) => BudgetDecision::Granted(held.insert(reservation).bytes),
                Err(decision) => decision,
            },
        }
    }

    /// Reserves for a request before it is sent.
    fn start(&mut self, lease: &Lease) -> Result<BudgetReservation, BudgetDecision> {
        let page = may_become_page(lease);
        if !self.has_room(page) {
            return Err(BudgetDecision::RetryLater);
        }
        if page && let Some(decision) = self.group_decision(&lease.url) {
            return Err(decision);
        }
        let bytes = self.bytes_to_start().min(self.available());
        let reservation = BudgetReservation { lease_id: lease.lease_id, bytes, read: 0, page };
        self.add(&lease.url, &reservation);
        Ok(reservation)
    }

    /// Counts a reservation, also one that was granted by an earlier process.
    pub(crate) fn add(&mut self, url: &str, &BudgetReservation { bytes, page, .. }: &BudgetReservation) {
        self.bytes_reserved += bytes;
        if !page {
            return;
        }
        self.pages_reserved += 1;
        for group in self.limited_groups(url) {
            self.groups.entry(group.key).or_default().reserved += 1;
        }
    }

    /// Reserves more bytes for a response.
    fn grow(&mut self, held: &mut BudgetReservation) -> BudgetDecision {
        if !self.is_turn_of(held) {
            self.growing.insert(held.lease_id);
            return BudgetDecision::RetryLater;
        }
        self.growing.remove(&held.lease_id);
        let available = self.available();
        let bytes = (available / BYTE_SHARES).max(held.read / GROWTH).max(MIN_BYTES);
        held.bytes = bytes.min(self.max_page_bytes).min(available);
        self.bytes_reserved += held.bytes;
        BudgetDecision::Granted(held.bytes)
    }

    /// The bytes that are neither used nor reserved.
    fn available(&self) -> u64 {
        self.max_bytes.saturating_sub(self.bytes.counted() + self.bytes_reserved)
    }

    fn bytes_to_start(&self) -> u64 {
        let page_bytes = self.page_bytes.max(MIN_BYTES);
        (self.available() / BYTE_SHARES).max(page_bytes).min(self.max_page_bytes)
    }

    /// Whether a request can start. It gets less than it needs only if no other request has reserved any bytes:
    /// reservations are mostly returned, and a request that cannot be completed should not be sent.
    fn has_room(&self, page: bool) -> bool {
        let has_bytes = self.available() >= self.bytes_to_start() || self.bytes_reserved == 0;
        has_bytes && self.growing.is_empty() && !(page && self.pages + self.pages_reserved >= self.max_pages)
    }

    /// Whether a response may reserve more: bytes are left, and no older response waits for them. So the oldest ones are
    /// completed when the budget ends.
    fn is_turn_of(&self, held: &BudgetReservation) -> bool {
        self.available() > 0 && self.growing.first().is_none_or(|oldest| *oldest >= held.lease_id)
    }

    /// Lets younger responses go first: this one does not wait any longer.
    pub(crate) fn stop_growing(&mut self, lease: &Lease) {
        self.growing.remove(&lease.lease_id);
    }

    /// What a request has to wait for before it reserves; `None` if it need not wait.
    pub(crate) fn wait(&self, lease: &Lease, held: Option<&BudgetReservation>) -> Option<BudgetWait> {
        let page = may_become_page(lease);
        match held {
            _ if self.exhausted().is_some() || page && self.pages_exhausted() => None,
            Some(held) if self.is_turn_of(held) => None,
            Some(_) => Some(BudgetWait::Turn),
            None if !self.has_room(page) => Some(BudgetWait::Start),
            None if page && self.group_decision(&lease.url) == Some(BudgetDecision::RetryLater) => {
                Some(BudgetWait::Turn)
            }
            None => None,
        }
    }

    /// Why a URL cannot become a page of its host and site, if it cannot: their pages are used, or the rest is reserved.
    fn group_decision(&self, url: &str) -> Option<BudgetDecision> {
        let mut decision = None;
        for LimitedGroup { key, max_pages, exhausted } in self.limited_groups(url) {
            let Some(GroupPages { pages, reserved }) = self.groups.get(&key) else { continue };
            if *pages >= max_pages {
                return Some(exhausted);
            }
            if pages + reserved >= max_pages {
                decision = Some(BudgetDecision::RetryLater);
            }
        }
        decision
    }

    /// Which requests to wake after a change.
    pub(crate) fn wakeups(&self) -> BudgetWakeups {
        let is_exhausted = self.exhausted().is_some();
        let can_grow = !self.growing.is_empty() && self.available() > 0;
        let has_limited_groups = self.max_pages_per_host.min(self.max_pages_per_site) != u64::MAX;
        BudgetWakeups {
            start: is_exhausted || self.has_room(!self.pages_exhausted()),
            turn: is_exhausted || can_grow || has_limited_groups,
        }
    }

    /// Counts what a lease used and returns the rest of its reservation. Returns the page number of a page.
    pub(crate) fn commit(
        &mut self,
        url: &str,
        reserved: Option<BudgetReservation>,
        is_page: bool,
        bytes: BodyBytes,
    ) -> Option<u64> {
        self.bytes += bytes;
        let read = bytes.counted() + reserved.as_ref().map_or(0, |reserved| reserved.read);
        // A reservation that is returned unused says nothing about pages.
        if read > 0 && reserved.is_some() {
            self.page_bytes = self.page_bytes - self.page_bytes / SMOOTHING + read / SMOOTHING;
        }
        self.release(url, reserved);
        if !is_page {
            return None;
        }
        for group in self.limited_groups(url) {
            self.groups.entry(group.key).or_default().pages += 1;
        }
        self.pages += 1;
        Some(self.pages)
    }

    /// Returns a reservation.
    pub(crate) fn release(&mut self, url: &str, reserved: Option<BudgetReservation>) {
        let Some(BudgetReservation { lease_id, bytes, page, .. }) = reserved else { return };
        self.growing.remove(&lease_id);
        self.bytes_reserved -= bytes;
        if !page {
            return;
        }
        self.pages_reserved -= 1;
        for group in self.limited_groups(url) {
            if let Some(pages) = self.groups.get_mut(&group.key) {
                pages.reserved -= 1;
            }
        }
    }

    /// Whether enough is left that a lease can reserve long before its request is sent, and hold up no other.
    pub(crate) fn is_ample(&self) -> bool {
        let pages = self.max_pages.saturating_sub(self.pages + self.pages_reserved);
        let needed = AMPLE_FACTOR * (self.pages_reserved + 1);
        pages >= needed && self.available() / self.page_bytes.max(MIN_BYTES) >= needed
    }

    /// Restores what earlier processes of the crawl used.
    pub(crate) fn restore(&mut self, pages: u64, bytes: BodyBytes) {
        (self.pages, self.bytes) = (pages, bytes);
    }

    /// Restores the number of pages that earlier processes fetched from a host or a site.
    pub(crate) fn restore_group(&mut self, key: String, pages: u64) {
        self.groups.entry(key).or_default().pages = pages;
    }

    /// The numbers of pages of a URL's host and site, by their keys, as far as they are limited.
    pub(crate) fn pages_of_groups(&self, url: &str) -> Vec<(String, u64)> {
        let with_pages = |group: LimitedGroup| {
            let pages = self.groups.get(&group.key)?.pages;
            Some((group.key, pages))
        };
        self.limited_groups(url).filter_map(with_pages).collect()
    }

    /// The host and the site of a URL, as far as their pages are limited.
    fn limited_groups(&self, url: &str) -> impl Iterator<Item = LimitedGroup> + use<> {
        let limited = |max_pages, exhausted, key: &dyn Fn() -> String| {
            (max_pages != u64::MAX).then(|| LimitedGroup { key: key(), max_pages, exhausted })
        };
        let host = || throttle_key(url).to_owned();
        let site = || Domain::from_url_str(url).site_key();
        let groups = [
            limited(self.max_pages_per_host, BudgetDecision::HostExhausted, &host),
            limited(self.max_pages_per_site, BudgetDecision::SiteExhausted, &site),
        ];
        groups.into_iter().flatten()
    }
}

/// Whether a URL may become a page. A refetch does not, since its page is counted already, and neither does a task of another
/// kind.
fn may_become_page(lease: &Lease) -> bool {
    !lease.is_refetch && lease.kind() == TaskKind::Page
}

#[cfg(test)]
mod tests;
