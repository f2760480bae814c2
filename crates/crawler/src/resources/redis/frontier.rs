//! The moves from admission to a worker's queue.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::super::{Admitted, Found, Incoming, Ticket, Trouble};
use super::connection::Call;
use super::moves::{Moves, Waiting};
use super::scripts;
use crate::domain::Domain;
use crate::origin::paced_host;
use crate::prioritizer::Priority;

/// So many URLs are admitted by one script, so that nobody waits long for it.
const ADMIT_AT_ONCE: usize = 500;

/// No move takes more at a time: Redis counts what it is told to take in 32 bits.
const MOST: usize = 1 << 20;

/// What a partition looks like to the frontier: URLs that come in, URLs to be routed, URLs outstanding, and how long the
/// queues of its workers are.
type Look = (usize, usize, u64, Vec<(u16, usize)>);

impl Moves {
    pub(super) async fn admit(&self, found: Vec<Found>) -> Result<Admitted, Trouble> {
        let counts: Vec<(u64, u64)> = self.connection.each(self.admissions(&found, &[])).await?;
        Ok(sum(&counts))
    }

    /// The scripts that admit what was found on a page, partition by partition, and count the page for the domains
    /// that it links to.
    pub(super) fn admissions(&self, found: &[Found], linked: &[Domain]) -> Vec<Call> {
        let mut domains: HashMap<&str, Domain> = HashMap::new();
        let mut parts: BTreeMap<usize, (Vec<&Domain>, Vec<&Found>)> = BTreeMap::new();
        for domain in linked {
            parts.entry(self.keys.of_domain(domain)).or_default().0.push(domain);
        }
        for found in found {
            // Many links of a page have the same host.
            let host = paced_host(&found.url);
            let domain = domains.entry(host).or_insert_with(|| Domain::of_text(&found.url));
            parts.entry(self.keys.of_domain(domain)).or_default().1.push(found);
        }
        let mut commands = Vec::new();
        for (partition, (linked, found)) in parts {
            let mut chunks = found.chunks(ADMIT_AT_ONCE);
            let mut linked = linked.as_slice();
            loop {
                let chunk = chunks.next().unwrap_or_default();
                if chunk.is_empty() && linked.is_empty() {
                    break;
                }
                let mut command = self.on(partition, &scripts::ADMIT);
                command.arg(linked.len());
                for domain in std::mem::take(&mut linked) {
                    command.arg(domain.as_str());
                }
                command.arg(chunk.len());
                for Found { url, depth, redirects } in chunk {
                    let host = paced_host(url);
                    command.arg(self.key.url_id(url)).arg(*depth).arg(*redirects);
                    command.arg(domains[host].as_str()).arg(host).arg(url);
                }
                commands.push(command);
            }
        }
        commands
    }

    pub(super) async fn incoming(
        &self,
        max: usize,
        wait: Duration,
        anew: bool,
    ) -> Result<Vec<Incoming>, Trouble> {
        let mut waiting = Waiting::up_to(wait);
        loop {
            let looks = self.look().await?;
            let available: Vec<usize> = looks.iter().map(|(incoming, ..)| *incoming).collect();
            let wanted = self.allot(&available, max.min(MOST));
            let taken = wanted.iter().enumerate().filter(|(_, count)| **count > 0 || anew);
            let commands = taken.map(|(partition, count)| {
                let mut command = self.on(partition, &scripts::INCOMING);
                command.arg(*count).arg(self.settings.priority_queues.count()).arg(u8::from(anew));
                command
            });
            let lent: Vec<Vec<(u64, String, u32, u32)>> = self.connection.each(commands.collect()).await?;
            let incoming: Vec<Incoming> = lent
                .into_iter()
                .flatten()
                .map(|(ticket, domain, depth, linking_pages)| Incoming {
                    ticket: Ticket(ticket),
                    domain: Domain::named(&domain),
                    depth,
                    linking_pages,
                })
                .collect();
            if !incoming.is_empty() || !waiting.pause().await {
                return Ok(incoming);
            }
        }
    }

    pub(super) async fn file(&self, filed: Vec<(Ticket, Priority)>) -> Result<(), Trouble> {
        let mut parts: BTreeMap<usize, Vec<(Ticket, Priority)>> = BTreeMap::new();
        for filed in filed {
            parts.entry(self.keys.of_ticket(filed.0)).or_default().push(filed);
        }
        let commands = parts.into_iter().map(|(partition, filed)| {
            let mut command = self.on(partition, &scripts::FILE);
            command.arg(filed.len());
            for (Ticket(ticket), priority) in filed {
                command.arg(ticket).arg(self.settings.priority_queues.of(priority));
            }
            command
        });
        self.connection.all(commands.collect()).await?;
        Ok(())
    }

    pub(super) async fn route(&self, draws: Vec<Priority>, wait: Duration) -> Result<usize, Trouble> {
        let mut waiting = Waiting::up_to(wait);
        loop {
            let looks = self.look().await?;
            let moved = self.route_now(&draws, &looks).await?;
            // Nobody waits for what will not come: the crawl seems to be over.
            let is_over = looks.iter().all(|(_, _, outstanding, _)| *outstanding == 0);
            if moved > 0 || is_over || !waiting.pause().await {
                return Ok(moved);
            }
        }
    }

    async fn route_now(&self, draws: &[Priority], looks: &[Look]) -> Result<usize, Trouble> {
        let mut lengths: BTreeMap<u16, usize> = BTreeMap::new();
        for (worker, length) in looks.iter().flat_map(|(.., workers)| workers) {
            *lengths.entry(*worker).or_default() += length;
        }
        let mut untried: Vec<usize> = looks.iter().map(|(_, filed, ..)| *filed).collect();
        // Those that are first in turn may be full: then it is the others' turn.
        loop {
            let allotted = self.allot(&untried, draws.len());
            let (mut draws, mut commands) = (draws, Vec::new());
            for (partition, count) in allotted.into_iter().enumerate().filter(|(_, count)| *count > 0) {
                let (here, rest) = draws.split_at(count);
                commands.push(self.routing(partition, here, &lengths, &looks[partition].3));
                (draws, untried[partition]) = (rest, 0);
            }
            if commands.is_empty() {
                return Ok(0);
            }
            let moved = self.connection.each::<usize>(commands).await?.into_iter().sum();
            if moved > 0 {
                return Ok(moved);
            }
        }
    }

    fn routing(
        &self,
        partition: usize,
        draws: &[Priority],
        lengths: &BTreeMap<u16, usize>,
        here: &[(u16, usize)],
    ) -> Call {
        let queues = self.settings.priority_queues;
        let mut command = self.on(partition, &scripts::ROUTE);
        command.arg(queues.count()).arg(lengths.len());
        for (worker, length) in lengths {
            let here = here.iter().find(|(other, _)| other == worker).map_or(0, |(_, length)| *length);
            command.arg(*worker).arg(length - here);
        }
        command.arg(draws.len());
        for draw in draws {
            command.arg(queues.of(*draw));
        }
        command
    }

    async fn look(&self) -> Result<Vec<Look>, Trouble> {
        self.connection.each(self.on_all(&scripts::LOOK, |_| {})).await
    }
}

pub(super) fn sum(counts: &[(u64, u64)]) -> Admitted {
    Admitted {
        new: counts.iter().map(|(new, _)| new).sum(),
        known: counts.iter().map(|(_, known)| known).sum(),
    }
}
