//! Domains that one worker passes on to another, with all that it has of them.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::super::{BackendError, DomainTransfer, HostClaim, TransferResult, WorkerId};
use super::connection::Call;
use super::moves::Moves;
use super::scripts;
use crate::domain::Domain;

/// How long a robots.txt is kept for others.
const ROBOTS_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// What waits in a worker's queue, as tickets and messages.
type Queued = Vec<(u64, String)>;

/// A look into a worker's queue: where to go on, which is nowhere at the end, and what was found, by domain.
type Step = (String, Vec<(String, u64, String)>);

impl Moves {
    pub(super) async fn pass_on(
        &self,
        from: WorkerId,
        handovers: Vec<DomainTransfer>,
    ) -> Result<Vec<TransferResult>, BackendError> {
        let all: Vec<usize> = (0..handovers.len()).collect();
        let mut passed = vec![TransferResult::Declined; handovers.len()];
        self.pass(from, &handovers, &all, &HashMap::new(), &mut passed).await?;
        // More of these is in the queue, unless it is on its way into hands.
        let late: Vec<usize> =
            all.into_iter().filter(|index| passed[*index] == TransferResult::RetryLater).collect();
        if !late.is_empty() {
            let queued = self.queued_of(from, &handovers, &late).await?;
            let late: Vec<usize> = late
                .into_iter()
                .filter(|index| queued.contains_key(handovers[*index].domain.as_str()))
                .collect();
            self.pass(from, &handovers, &late, &queued, &mut passed).await?;
        }
        for (handover, passed) in handovers.iter().zip(&passed) {
            if *passed == TransferResult::Moved {
                self.loans.put_down(&handover.leases);
            }
        }
        Ok(passed)
    }

    /// Makes the worker the owner of a host's domain, unless another one is.
    pub(super) async fn claim(&self, worker: WorkerId, host: &str) -> Result<HostClaim, BackendError> {
        let domain = Domain::from_throttle_key(host);
        let mut call = self.on(self.keys.of_domain(&domain), &scripts::CLAIM);
        call.arg(worker.0).arg(self.holder()).arg(domain.as_str()).arg(host);
        let claim: Vec<u64> = self.connection.one(call).await?;
        Ok(match claim[..] {
            [owner, rest] if owner == u64::from(worker.0) => {
                HostClaim::Granted { cooldown: Duration::from_millis(rest) }
            }
            [owner, _] => HostClaim::OwnedBy(WorkerId(u16::try_from(owner).unwrap_or(u16::MAX))),
            _ => HostClaim::LeaseLost,
        })
    }

    pub(super) async fn load_robots(&self, url: &str) -> Result<Option<Vec<u8>>, BackendError> {
        let mut call = Call::plain("GET");
        call.arg(self.robots_key(url));
        self.connection.one(call).await
    }

    pub(super) async fn store_robots(&self, url: &str, file: &[u8]) -> Result<(), BackendError> {
        let mut call = Call::plain("SET");
        call.arg(self.robots_key(url)).arg(file).arg("EX").arg(ROBOTS_LIFETIME.as_secs());
        self.connection.all(vec![call]).await?;
        Ok(())
    }

    fn robots_key(&self, url: &str) -> String {
        let partition = self.keys.of_domain(&Domain::from_url_str(url));
        format!("{}robots:{url}", self.keys.partitions[partition])
    }

    /// Passes on some of the domains, with what is known to wait of each in the queue.
    async fn pass(
        &self,
        from: WorkerId,
        handovers: &[DomainTransfer],
        which: &[usize],
        queued: &HashMap<String, Queued>,
        passed: &mut [TransferResult],
    ) -> Result<(), BackendError> {
        let parts = self.by_partition(handovers, which);
        let calls = parts.iter().map(|(partition, which)| {
            let mut call = self.on(*partition, &scripts::PASS_ON);
            call.arg(from.0).arg(self.holder()).arg(which.len());
            for index in which {
                let handover = &handovers[*index];
                self.tell_handover(&mut call, handover, queued.get(handover.domain.as_str()));
            }
            call
        });
        let answers: Vec<Vec<u8>> = self.connection.each(calls.collect()).await?;
        for ((_, which), answers) in parts.iter().zip(answers) {
            for (index, answer) in which.iter().zip(answers) {
                passed[*index] = match answer {
                    1 => TransferResult::Moved,
                    2 => TransferResult::RetryLater,
                    _ => TransferResult::Declined,
                };
            }
        }
        Ok(())
    }

    fn tell_handover(&self, call: &mut Call, handover: &DomainTransfer, queued: Option<&Queued>) {
        let DomainTransfer { domain, to, leases, cooldowns: resting } = handover;
        call.arg(domain.as_str()).arg(to.0).arg(leases.len());
        for lease in leases {
            call.arg(lease.task_id.0).arg(lease.lease_id);
        }
        let queued = queued.map_or(&[][..], Vec::as_slice);
        call.arg(queued.len());
        for (task_id, message) in queued {
            call.arg(*task_id).arg(message);
        }
        call.arg(resting.len());
        for (host, host_delay) in resting {
            let (rest, delay) = self.host_delay(*host_delay);
            call.arg(host).arg(rest).arg(delay);
        }
    }

    /// What waits of some of the domains in the worker's queue, by domain. A queue may be long, so it is looked at in steps.
    async fn queued_of(
        &self,
        worker: WorkerId,
        handovers: &[DomainTransfer],
        which: &[usize],
    ) -> Result<HashMap<String, Queued>, BackendError> {
        let mut found: HashMap<String, Queued> = HashMap::new();
        for (partition, which) in self.by_partition(handovers, which) {
            let mut go_on = String::new();
            loop {
                let mut call = self.on(partition, &scripts::QUEUED);
                call.arg(worker.0).arg(&go_on).arg(which.len());
                for index in &which {
                    call.arg(handovers[*index].domain.as_str());
                }
                let (next, some): Step = self.connection.one(call).await?;
                for (domain, task_id, message) in some {
                    found.entry(domain).or_default().push((task_id, message));
                }
                if next.is_empty() {
                    break;
                }
                go_on = next;
            }
        }
        Ok(found)
    }

    fn by_partition(&self, handovers: &[DomainTransfer], which: &[usize]) -> BTreeMap<usize, Vec<usize>> {
        let mut parts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for index in which {
            parts.entry(self.keys.of_domain(&handovers[*index].domain)).or_default().push(*index);
        }
        parts
    }
}
