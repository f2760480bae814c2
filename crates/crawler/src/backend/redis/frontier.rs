//! The moves from the URL queue to a worker's queue.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::{BackendError, TaskId, UnprioritizedUrl};
use super::connection::Call;
use super::moves::{Moves, Waiting};
use super::scripts;
use crate::domain::Domain;
use crate::prioritizer::Priority;

/// No move takes more at a time: Redis counts what it is told to take in 32 bits.
const MOST: usize = 1 << 20;

/// What a partition looks like to the frontier: URLs that come in, URLs to be routed, URLs outstanding, and how long the
/// queues of its workers are.
type Look = (usize, usize, u64, Vec<(u16, usize)>);

/// What the prioritizer is lent: ticket, URL, domain, depth, and how many pages link to the domain.
type Lent = (u64, String, String, u32, u32);

impl Moves {
    pub(super) async fn incoming(
        &self,
        max: usize,
        wait: Duration,
        anew: bool,
    ) -> Result<Vec<UnprioritizedUrl>, BackendError> {
        let mut waiting = Waiting::up_to(wait, &self.prioritizer_pause);
        loop {
            let wanted = match self.partitions() {
                // Where there is one place there is no need to look first where something is.
                1 => vec![max.min(MOST)],
                _ => {
                    let looks = self.look().await?;
                    let available: Vec<usize> = looks.iter().map(|(incoming, ..)| *incoming).collect();
                    self.allot(&available, max.min(MOST))
                }
            };
            let taken = wanted.iter().enumerate().filter(|(_, count)| **count > 0 || anew);
            let commands = taken.map(|(partition, count)| {
                let mut command = self.on(partition, &scripts::INCOMING);
                command.arg(*count).arg(self.settings.priority_queues.count()).arg(u8::from(anew));
                command
            });
            let lent: Vec<Vec<Lent>> = self.connection.each(commands.collect()).await?;
            let incoming: Vec<UnprioritizedUrl> = lent
                .into_iter()
                .flatten()
                .map(|(task_id, url, domain, depth, linking_pages)| UnprioritizedUrl {
                    task_id: TaskId(task_id),
                    url: url.into(),
                    domain: Domain::named(&domain),
                    depth,
                    linking_pages,
                    source_link: None,
                })
                .collect();
            if waiting.is_over(!incoming.is_empty()).await {
                return Ok(incoming);
            }
        }
    }

    pub(super) async fn file(&self, filed: Vec<(TaskId, Priority)>) -> Result<(), BackendError> {
        let mut parts: BTreeMap<usize, Vec<(TaskId, Priority)>> = BTreeMap::new();
        for filed in filed {
            parts.entry(self.keys.of_ticket(filed.0)).or_default().push(filed);
        }
        let commands = parts.into_iter().map(|(partition, filed)| {
            let mut command = self.on(partition, &scripts::FILE);
            command.arg(filed.len());
            for (TaskId(task_id), priority) in filed {
                command.arg(task_id).arg(self.settings.priority_queues.of(priority));
            }
            command
        });
        self.connection.all(commands.collect()).await?;
        self.filed.notify_one();
        Ok(())
    }

    pub(super) async fn route(&self, draws: Vec<Priority>, wait: Duration) -> Result<usize, BackendError> {
        let mut waiting = Waiting::up_to(wait, &self.router_pause);
        loop {
            let (moved, is_over) = match self.partitions() {
                1 => {
                    let mut moved = vec![self.routing(0, &draws, &BTreeMap::new(), &[])];
                    moved.extend([self.count("completed", 0), self.count("admitted", 0)]);
                    let answers: Vec<Option<u64>> = self.connection.each(moved).await?;
                    (answers[0].unwrap_or(0) as usize, answers[1] == answers[2])
                }
                _ => {
                    let looks = self.look().await?;
                    let is_over = looks.iter().all(|(_, _, outstanding, _)| *outstanding == 0);
                    (self.route_now(&draws, &looks).await?, is_over)
                }
            };
            // Nobody waits for what will not come: the crawl seems to be over.
            if is_over || waiting.is_over_unless(moved > 0, self.filed.notified()).await {
                return Ok(moved);
            }
        }
    }

    async fn route_now(&self, draws: &[Priority], looks: &[Look]) -> Result<usize, BackendError> {
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
        let drawn: Vec<u8> = draws.iter().map(|draw| queues.of(*draw) as u8).collect();
        command.arg(queues.count()).arg(drawn).arg(lengths.len());
        for (worker, length) in lengths {
            let here = here.iter().find(|(other, _)| other == worker).map_or(0, |(_, length)| *length);
            command.arg(*worker).arg(length - here);
        }
        command
    }

    async fn look(&self) -> Result<Vec<Look>, BackendError> {
        self.connection.each(self.on_all(&scripts::LOOK, |_| {})).await
    }
}
