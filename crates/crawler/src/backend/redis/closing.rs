//! The end of a crawl, and its going on after that: what is left of it in Redis, and for how long.

use std::time::Duration;

use super::super::BackendError;
use super::super::local::UNLIMITED_TTL;
use super::connection::Call;
use super::moves::{Moves, milliseconds};
use super::purge::{Sweep, pattern, sweep};
use super::scripts;

/// A crawl that was ended early can go on for at least so long.
const SHORTEST_KEEPING: Duration = Duration::from_secs(3600);

/// What waits for its domain's share, and the seen set, are kept so much longer than the rest: who finds the rest finds
/// them, too.
const LONGER: Duration = Duration::from_secs(600);

/// What the budgets are counted with, beside what was used.
const OF_BUDGETS: [&str; 4] = ["reservations", "settled", "hosts", "hosts_reserved"];
/// What is known of all stored pages together.
const OF_PAGES: [&str; 1] = ["stored"];

impl Moves {
    /// Ends the crawl as it was opened the so-manieth time, and tells how much is left of it.
    pub(super) async fn close(&self, opening: u64) -> Result<u64, BackendError> {
        let lifetime = milliseconds(self.settings.ttl).max(1);
        let keeping = milliseconds(self.settings.ttl.max(SHORTEST_KEEPING));
        let is_over = self.outstanding().await? == 0;
        let queues = self.settings.priority_queues.count();
        let closes = self.on_all(&scripts::CLOSE, |call| {
            call.arg(queues).arg(u8::from(is_over)).arg(keeping).arg(opening);
        });
        let left: u64 = self.connection.each::<u64>(closes).await?.into_iter().sum();
        let mut ends = Vec::new();
        for name in OF_BUDGETS {
            let key = format!("{}{name}", self.keys.budget);
            // How many pages of a host there are matters for as long as they do.
            ends.push(match left == 0 && name != "hosts" {
                true => unlink(key),
                false => expire(key, if left == 0 { lifetime } else { keeping }),
            });
        }
        for name in OF_PAGES {
            let keys = self.keys.contents.iter().map(|base| format!("{base}{name}"));
            ends.extend(keys.map(|key| expire(key, lifetime)));
        }
        self.connection.all(ends).await?;
        if self.settings.ttl < UNLIMITED_TTL {
            let rest = if left == 0 { lifetime } else { keeping + milliseconds(LONGER) };
            self.sweep(&pattern(&self.keys.crawl), Sweep::Expire(rest)).await?;
        }
        Ok(left)
    }

    /// Notes how often the crawl was opened: whoever is about to close an earlier opening comes too late.
    pub(super) async fn note_opening(&self, opening: u64) -> Result<(), BackendError> {
        let notes = self.keys.partitions.iter().map(|base| {
            let mut call = self.script(&scripts::OPENED, base);
            call.arg(opening);
            call
        });
        self.connection.all(notes.collect()).await?;
        Ok(())
    }

    /// Lets a crawl go on that was closed: everything that is still there stays.
    pub(super) async fn reopen(&self) -> Result<(), BackendError> {
        // What Redis was told of may have expired.
        self.recent.clear();
        // First what waits, then what tells that there is something to wait for: should this be the last that is heard of
        // this process, the next finds all of it or nothing.
        self.sweep(&pattern(&self.keys.crawl), Sweep::Persist).await?;
        let queues = self.settings.priority_queues.count();
        let mut reopens = self.on_all(&scripts::REOPEN, |call| {
            call.arg(queues);
        });
        reopens.push(self.script(&scripts::REOPEN_BUDGET, &self.keys.budget));
        let mut expired = self.connection.all(reopens).await?;
        expired.pop();
        for (base, expired) in self.keys.partitions.iter().zip(expired) {
            if self.connection.read::<u8>(expired)? == 1 {
                self.sweep(&format!("{base}*"), Sweep::Waiting).await?;
            }
        }
        self.begin_partitions().await
    }

    /// Begins the partitions that are not begun.
    pub(super) async fn begin_partitions(&self) -> Result<(), BackendError> {
        let opens = self.on_all(&scripts::OPEN, |call| {
            call.arg(self.settings.workers);
        });
        self.connection.all(opens).await?;
        Ok(())
    }

    async fn sweep(&self, pattern: &str, what: Sweep) -> Result<u64, BackendError> {
        sweep(&self.connection, &self.keys, pattern, what).await
    }
}

fn expire(key: String, milliseconds: u64) -> Call {
    let mut call = Call::plain("PEXPIRE");
    call.arg(key).arg(milliseconds);
    call
}

fn unlink(key: String) -> Call {
    let mut call = Call::plain("UNLINK");
    call.arg(key);
    call
}
