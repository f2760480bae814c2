//! Workers that are no more: what they had is routed anew, or taken up by who comes in their place.

use super::super::{Trouble, WorkerId};
use super::moves::{Moves, milliseconds};
use super::scripts;

/// A step of a worker's leaving: where to go on, which is nowhere when all is done, and the loans that ended.
type Step = (String, Vec<(u64, u64)>);

/// Where leaving begins.
const BEGINNING: &str = "0";

impl Moves {
    /// Everything that a worker had goes to others. Whoever dies in the middle of this leaves the rest to the next who
    /// finds that worker dead.
    pub(super) async fn leave(&self, worker: WorkerId) -> Result<(), Trouble> {
        self.finish_settled(worker).await?;
        let mut left: Vec<(usize, String)> =
            (0..self.partitions()).map(|partition| (partition, BEGINNING.to_owned())).collect();
        while !left.is_empty() {
            let steps = left.iter().map(|(partition, go_on)| {
                let mut call = self.on(*partition, &scripts::LEAVE);
                call.arg(milliseconds(self.delay)).arg(worker.0).arg(go_on);
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

    /// A process takes up the queue and the domains of a dead worker, under its number.
    pub(super) async fn rejoin(&self, worker: WorkerId) -> Result<(), Trouble> {
        self.finish_settled(worker).await?;
        let rejoins = self.on_all(&scripts::REJOIN, |call| {
            call.arg(milliseconds(self.delay)).arg(worker.0);
        });
        let lost: Vec<Vec<(u64, u64)>> = self.connection.each(rejoins).await?;
        self.desk(worker).clear();
        self.give_back(&lost.concat()).await
    }
}
