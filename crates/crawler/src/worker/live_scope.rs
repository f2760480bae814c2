//! The scope and the seeds of a running crawl, which may change: a worker has to know a seed before it fetches it, since seeds
//! extend the scope.

use std::sync::Arc;

use tokio::sync::{Notify, watch};
use url::Url;

use super::Worker;
use crate::backend::{Backend, Lease};
use crate::scope::{RejectReason, Scope};
use crate::seed_list::SeedIndex;
use crate::task_kind::{TaskKind, shown_url};

/// Lets a worker request the seeds that other processes have added, and wait for them.
#[derive(Debug, Default)]
pub struct SeedUpdates {
    wanted: Notify,
    /// How often the seeds were looked up.
    lookups: watch::Sender<u64>,
}

impl SeedUpdates {
    /// Waits until a worker wants to know the seeds.
    pub(crate) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Records that the seeds were looked up, and that the worker knows them.
    pub(crate) fn looked_up(&self) {
        self.lookups.send_modify(|lookups| *lookups += 1);
    }

    /// Waits until the seeds were looked up: one that started before this call may have ended too early.
    async fn look_up(&self) {
        let mut lookups = self.lookups.subscribe();
        let enough = *lookups.borrow_and_update() + 2;
        loop {
            self.wanted.notify_one();
            let is_done = lookups.borrow_and_update().ge(&enough);
            if is_done || lookups.changed().await.is_err() {
                return;
            }
        }
    }
}

impl<R: Backend> Worker<R> {
    /// Changes the listed seeds.
    pub(crate) fn set_seed_index(&self, index: Option<Arc<SeedIndex>>) {
        self.fetcher.set_seed_index(index);
    }

    /// Which URLs belong to the crawl now.
    pub(super) fn scope(&self) -> Arc<Scope> {
        self.context.gate.scope()
    }

    /// Whether links to the URL are followed now: it may have been admitted with other settings. Of seeds, and of sitemaps that the
    /// user names, it is only checked that they are not blocked.
    pub(super) fn check_scope(&self, lease: &Lease) -> Result<(), RejectReason> {
        let is_given = match lease.kind() {
            TaskKind::Page => lease.is_seed() && lease.redirects == 0,
            _ => lease.discovery.is_none(),
        };
        match is_given {
            true => self.scope().check_blocked(shown_url(&lease.url)),
            false => self.scope().check_task(&lease.url, lease.found_by()),
        }
    }

    /// Whether a lease is no seed, or one that the worker knows: in scope, with the addresses and headers of seeds.
    pub(super) fn knows_seed(&self, lease: &Lease) -> bool {
        if self.context.seed_updates.is_none() || !lease.is_seed() || lease.redirects > 0 {
            return true;
        }
        let is_own = |url: Url| self.fetcher.is_seed_origin(&url);
        self.scope().contains(&lease.url) && Url::parse(&lease.url).is_ok_and(is_own)
    }

    /// Looks for seeds that were added to the crawl. Returns false if the crawl stops first.
    pub(super) async fn learn_seeds(&self) -> bool {
        let Some(updates) = &self.context.seed_updates else { return true };
        tokio::select! {
            biased;
            () = self.context.stop.stop_requested() => false,
            () = updates.look_up() => true,
        }
    }
}
