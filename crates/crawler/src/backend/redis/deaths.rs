//! Workers that are no more: what they had is routed anew, or taken up by who comes in their place.

use std::sync::atomic::{AtomicU64, Ordering};

use super::super::{BackendError, TaskId, WorkerId};
use super::connection::Call;
use super::moves::{Moves, milliseconds};
use super::scripts;

/// A step of a worker's leaving: where to go on, which is nowhere when all is done, and the loans that ended.
type Step = (String, Vec<(u64, u64)>);

/// Where leaving begins.
const BEGINNING: &str = "0";

impl Moves {
    /// Everything that a worker had goes to others. Whoever dies in the middle of this leaves the rest to the next who
    /// finds that worker dead.
    pub(super) async fn leave(&self, worker: WorkerId) -> Result<(), BackendError> {
        self.finish_settled(worker).await?;
        let mut left: Vec<(usize, String)> =
            (0..self.partitions()).map(|partition| (partition, BEGINNING.to_owned())).collect();
        while !left.is_empty() {
            let steps = left.iter().map(|(partition, go_on)| {
                let mut call = self.on(*partition, &scripts::LEAVE);
                self.tell_pauses(&mut call).arg(worker.0).arg(go_on);
                call
            });
            let steps: Vec<Step> = self.connection.each(steps.collect()).await?;
            let lost: Vec<(u64, u64)> = steps.iter().flat_map(|(_, lost)| lost).copied().collect();
            self.give_back(&lost).await?;
            let partitions = left.into_iter().map(|(partition, _)| partition);
            let next = partitions.zip(steps).map(|(partition, (go_on, _))| (partition, go_on));
            left = next.filter(|(_, go_on)| !go_on.is_empty()).collect();
        }
        self.desk(worker).clear();
        Ok(())
    }

    /// Tells a script the pauses that a host and a site get of which a request may have been in the middle.
    fn tell_pauses<'c>(&self, call: &'c mut Call) -> &'c mut Call {
        call.arg(milliseconds(self.delay)).arg(milliseconds(self.settings.hosts.site_delay))
    }

    /// This process has a worker's place since then: from here on, it alone is lent what is sent to that worker.
    pub(super) async fn enter(&self, worker: WorkerId, since: u64) -> Result<(), BackendError> {
        let enters = self.on_all(&scripts::ENTER, |call| {
            call.arg(worker.0).arg(self.holder()).arg(since);
        });
        self.connection.all(enters).await?;
        Ok(())
    }

    /// After a new connection, whatever Redis may have lost is put right before a worker goes on: what it has on loan and
    /// this process does not have is lent again, and nothing is taken for known that it may have forgotten.
    pub(super) async fn resync(&self, worker: WorkerId, synced: &AtomicU64) -> Result<(), BackendError> {
        let now = self.changes();
        // A worker that has not had anything yet has nothing to lose.
        let before = synced.swap(now, Ordering::Relaxed);
        if before == now || before == 0 {
            return Ok(());
        }
        self.recent.clear();
        self.kept.clear();
        let mut in_hand = vec![Vec::new(); self.partitions()];
        for (task_id, lease_id) in self.loans.all() {
            in_hand[self.keys.of_ticket(TaskId(task_id))].push((task_id, lease_id));
        }
        let resyncs = in_hand.iter().enumerate().map(|(partition, in_hand)| {
            let mut call = self.on(partition, &scripts::RESYNC);
            self.tell_pauses(&mut call).arg(worker.0).arg(self.holder()).arg(in_hand.len());
            for (task_id, lease_id) in in_hand {
                call.arg(*task_id).arg(*lease_id);
            }
            call
        });
        let lost: Vec<Vec<(u64, u64)>> = self.connection.each(resyncs.collect()).await?;
        self.give_back(&lost.concat()).await
    }

    /// Another number whenever Redis may have lost what it did last.
    pub(super) fn changes(&self) -> u64 {
        self.connection.connections() + self.loans.doubts()
    }

    /// A process takes up the queue and the domains of a dead worker, under its number.
    pub(super) async fn rejoin(&self, worker: WorkerId) -> Result<(), BackendError> {
        self.finish_settled(worker).await?;
        let rejoins = self.on_all(&scripts::REJOIN, |call| {
            self.tell_pauses(call).arg(worker.0);
        });
        let lost: Vec<Vec<(u64, u64)>> = self.connection.each(rejoins).await?;
        self.desk(worker).clear();
        self.give_back(&lost.concat()).await
    }
}
