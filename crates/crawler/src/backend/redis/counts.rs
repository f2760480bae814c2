//! How things stand: counts and lengths, summed over the partitions.

use std::collections::BTreeMap;

use super::super::{BackendError, Budget, Snapshot};
use super::loans::budget;
use super::moves::Moves;
use super::scripts;

type Counts = BTreeMap<String, u64>;

/// A partition: counts, outcomes, links refused, the URL queue and its overflow, the priority queues, of each worker what
/// it has queued and on loan, what was returned, domains with an owner, hosts in hand, URLs known.
type Partition = (
    Counts,
    Counts,
    Counts,
    (usize, usize),
    Vec<usize>,
    Vec<(usize, usize, usize)>,
    usize,
    usize,
    usize,
    usize,
);

impl Moves {
    /// What was completed is read first: what was admitted until then has been by the time that is read.
    pub(super) async fn outstanding(&self) -> Result<u64, BackendError> {
        let completed = self.count_of("completed").await?;
        let admitted = self.count_of("admitted").await?;
        Ok(admitted.saturating_sub(completed))
    }

    async fn count_of(&self, name: &str) -> Result<u64, BackendError> {
        let counts = (0..self.partitions()).map(|partition| self.count(name, partition));
        let counts: Vec<Option<u64>> = self.connection.each(counts.collect()).await?;
        Ok(counts.into_iter().flatten().sum())
    }

    pub(super) async fn spent(&self) -> Result<Option<Budget>, BackendError> {
        let (_, _, _, spent) = self.used().await?;
        Ok(budget(&spent))
    }

    async fn used(&self) -> Result<(u64, u64, u64, String), BackendError> {
        self.connection.one(self.on_budget(&scripts::SPENT)).await
    }

    /// Adds the requests that no completion has reported to the crawl's count.
    pub(super) async fn report_requests(&self) -> Result<(), BackendError> {
        let requests = self.requests.take_unreported();
        if requests == 0 {
            return Ok(());
        }
        let mut report = self.script(&scripts::REQUESTS, &self.keys.partitions[0]);
        report.arg(requests);
        self.connection.one(report).await
    }

    pub(super) async fn snapshot(&self) -> Result<Snapshot, BackendError> {
        let queues = self.settings.priority_queues.count();
        let looks = self.on_all(&scripts::SNAPSHOT, |command| {
            command.arg(queues);
        });
        let partitions: Vec<Partition> = self.connection.each(looks).await?;
        let mut snapshot = Snapshot {
            priority_queues: vec![0; queues],
            workers: vec![(0, 0); usize::from(self.settings.workers)],
            ..Snapshot::default()
        };
        for partition in partitions {
            add(&mut snapshot, partition);
        }
        (snapshot.pages, snapshot.bytes, snapshot.received, _) = self.used().await?;
        let stored = self.keys.contents.iter().map(|base| {
            let mut stored = self.script(&scripts::STORED, base);
            stored.arg(self.content_lifetime());
            stored
        });
        for (pages, bytes) in self.connection.each::<(usize, u64)>(stored.collect()).await? {
            snapshot.stored_pages += pages;
            snapshot.stored_bytes += bytes;
        }
        Ok(snapshot)
    }
}

fn add(snapshot: &mut Snapshot, partition: Partition) {
    let (counts, outcomes, refused, url_queue, filed, workers, returned, owned, active, known) = partition;
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
    snapshot.admitted += count("admitted");
    snapshot.completed += count("completed");
    snapshot.revisits += count("revisits");
    snapshot.links_new += count("links_new");
    snapshot.links_seen += count("links_known");
    snapshot.requests += count("requests");
    snapshot.parked += count("waiting") as usize + returned;
    for (total, more) in [(&mut snapshot.outcomes, outcomes), (&mut snapshot.links_rejected, refused)] {
        for (name, count) in more {
            *total.entry(name).or_default() += count;
        }
    }
    snapshot.url_queue.0 += url_queue.0;
    snapshot.url_queue.1 += url_queue.1;
    for (total, more) in snapshot.priority_queues.iter_mut().zip(filed) {
        *total += more;
    }
    for (worker, queued, on_loan) in workers {
        if worker >= snapshot.workers.len() {
            snapshot.workers.resize(worker + 1, (0, 0));
        }
        snapshot.workers[worker].0 += queued;
        snapshot.workers[worker].1 += on_loan;
    }
    snapshot.owned_domains += owned;
    snapshot.active_hosts += active;
    snapshot.seen_urls += known;
}
