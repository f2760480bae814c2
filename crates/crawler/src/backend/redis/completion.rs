//! The end of a loan: children first, then the budgets, then the loan.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use super::super::{BackendError, CompleteResult, Completion, TaskId, WorkerId};
use super::admission::{Batch, Sorted, on_page, sum};
use super::connection::Call;
use super::ended::Ended;
use super::loans::budget;
use super::moves::{Moves, milliseconds};
use super::scripts;
use crate::domain::Domain;
use crate::origin::throttle_key;
use crate::outcome::Outcome;

/// So many loans are ended by one script, and what the end of one weighs in links.
const AT_ONCE: usize = 32;
const LOAN_WEIGHT: usize = 16;

/// How long replicas may take to have the children of a page before it is completed without them.
pub(super) const CONFIRMATION: Duration = Duration::from_secs(1);

/// A completion under way across partitions.
struct Ending<'a> {
    completion: &'a Completion,
    /// The id of its URL.
    page: u64,
    sorted: Sorted<'a>,
    /// The children that belong to its own partition: they are admitted with its end.
    own: Batch<'a>,
    admissions: usize,
}

/// How many links of a page were new and known when its end was told.
#[derive(Default)]
struct Links {
    new: u64,
    known: u64,
}

impl Moves {
    pub(super) async fn complete(
        &self,
        mut completions: Vec<Completion>,
    ) -> Result<Vec<CompleteResult>, BackendError> {
        if self.partitions() == 1
            && completions.len() == 1
            && let Some(completion) = completions.pop()
        {
            // What is completed meanwhile goes together.
            let weight = |completion: &Completion| LOAN_WEIGHT + completion.outlinks.urls.len();
            let complete = async |all: Vec<Completion>| self.complete_all(&all).await;
            return Ok(vec![self.completing.make(completion, self.loans.count(), weight, complete).await?]);
        }
        let mut completed = Vec::with_capacity(completions.len());
        for some in completions.chunks(AT_ONCE) {
            completed.extend(self.complete_all(some).await?);
        }
        Ok(completed)
    }

    async fn complete_all(&self, completions: &[Completion]) -> Result<Vec<CompleteResult>, BackendError> {
        let completed = match self.partitions() {
            1 => self.complete_here(completions).await,
            _ => self.complete_across(completions).await,
        };
        self.loans.put_down(completions.iter().map(|completion| &completion.lease));
        completed
    }

    /// One round trip, where everything is in one place; another before it for a page of very many links.
    async fn complete_here(&self, completions: &[Completion]) -> Result<Vec<CompleteResult>, BackendError> {
        let mut call = self.on(0, &scripts::COMPLETE);
        self.tell_budgets(&mut call);
        call.arg(self.requests.take_unreported()).arg(completions.len());
        // What is looked up together comes together.
        for Completion { lease, .. } in completions {
            call.arg(lease.task_id.0).arg(lease.lease_id).arg(self.key.short_url_id(&lease.url));
        }
        let mut all = Vec::with_capacity(completions.len());
        for completion in completions {
            let mut sorted = self.sorted(on_page(&completion.outlinks), linked(completion));
            let own = sorted.take_last(0);
            let page = Some(self.key.short_url_id(&completion.lease.url));
            let before = sum(&self.connection.each(self.admissions(&sorted, page)).await?);
            call.arg(u8::from(is_kept(completion)))
                .arg(completion.bytes.decoded)
                .arg(completion.bytes.received);
            call.arg(before.new).arg(before.seen + sorted.known);
            self.tell_ending(&mut call, completion);
            own.tell(&mut call, page);
            all.push((sorted, before.new));
        }
        let (ended, spent): (Vec<(u8, u64, u64)>, String) = self.connection.one(call).await?;
        let completed = ended.into_iter().zip(all).map(|((held, document, new), (sorted, before))| {
            if held == 0 {
                return CompleteResult::StaleLease;
            }
            self.acknowledged(sorted);
            let id = (document > 0).then_some(document);
            CompleteResult::Applied { id, new: new + before, exhausted: budget(&spent) }
        });
        Ok(completed.collect())
    }

    /// Three round trips, however many: does the loan still hold, how does it end, and the children that belong elsewhere;
    /// then the budgets; then the other children and the end of the loan. A death in between leaves the loan: what was
    /// admitted is known then, and what was settled is brought to its end when the worker is found dead.
    async fn complete_across(&self, completions: &[Completion]) -> Result<Vec<CompleteResult>, BackendError> {
        let (mut calls, mut endings) = (Vec::new(), Vec::new());
        for completion in completions {
            let mut sorted = self.sorted(on_page(&completion.outlinks), linked(completion));
            let own = sorted.take_last(self.keys.of_ticket(completion.lease.task_id));
            let page = self.key.short_url_id(&completion.lease.url);
            let admissions = self.admissions(&sorted, Some(page));
            let own_is_empty = own.is_empty();
            endings.push(Ending { completion, page, sorted, own, admissions: admissions.len() });
            calls.push(self.prepare(completion, !own_is_empty));
            calls.extend(admissions);
        }
        // What a failover loses of the parent is visited again; what it loses of the children must not be forgotten.
        let confirmed = self.connection.all_confirmed(calls, self.replicas, CONFIRMATION).await?;
        let mut answers = confirmed.into_iter();
        let mut completed = vec![CompleteResult::StaleLease; completions.len()];
        let mut held = Vec::new();
        for (index, ending) in endings.into_iter().enumerate() {
            let holds: u8 = self.connection.read(answers.next().unwrap_or_default())?;
            let counts = answers.by_ref().take(ending.admissions).map(|counts| self.connection.read(counts));
            let admitted = sum(&counts.collect::<Result<Vec<_>, _>>()?);
            if holds == 1 {
                let known = admitted.seen + ending.sorted.known;
                held.push((index, ending, Links { new: admitted.new, known }));
            }
        }
        if !held.is_empty() {
            self.end(held, &mut completed).await?;
        }
        Ok(completed)
    }

    /// The other round trips: what is settled and not ended is brought to its end by whoever buries the worker, and not the
    /// other way round.
    async fn end(
        &self,
        held: Vec<(usize, Ending<'_>, Links)>,
        completed: &mut [CompleteResult],
    ) -> Result<(), BackendError> {
        // What one node has counted and another has ended: a failover that loses one of the two would count it twice, or not.
        let settle = vec![self.settle(held.iter().map(|(_, ending, _)| ending.completion))];
        let settled = self.connection.all_confirmed(settle, self.replicas, CONFIRMATION).await?;
        let (documents, spent): (Vec<u64>, String) =
            self.connection.read(settled.into_iter().next().unwrap_or_default())?;
        let finishes = held.iter().map(|(_, Ending { completion, page, own, .. }, links)| {
            let mut finish = self.finish(completion.lease.task_id, completion.lease.lease_id, false, links);
            own.tell(&mut finish, Some(*page));
            finish
        });
        let finished = self.connection.all_confirmed(finishes.collect(), self.replicas, CONFIRMATION).await?;
        let mut recounts = Vec::new();
        for (((index, ending, links), document), finished) in held.into_iter().zip(documents).zip(finished) {
            let (held, new): (u8, u64) = self.connection.read(finished)?;
            let Ending { completion, sorted, .. } = ending;
            if held != 1 {
                if held == 2 {
                    self.loans.doubt();
                }
                continue;
            }
            let id = (document > 0).then_some(document);
            if id.is_some() && !is_kept(completion) {
                let partition = self.keys.of_ticket(completion.lease.task_id);
                let mut recount = self.script(&scripts::RECOUNT, &self.keys.partitions[partition]);
                recount.arg(&*completion.outcome.label());
                recounts.push(recount);
            }
            completed[index] =
                CompleteResult::Applied { id, new: links.new + new, exhausted: budget(&spent) };
            self.settled().push(completion.lease.task_id.0);
            self.acknowledged(sorted);
        }
        self.connection.all(recounts).await?;
        Ok(())
    }

    /// Brings the loans of a dead worker to their end that were settled: their pages have their numbers. How many of
    /// their links were new is not known any more.
    pub(super) async fn finish_settled(&self, worker: WorkerId) -> Result<(), BackendError> {
        if self.partitions() == 1 {
            return Ok(());
        }
        let ending = self.on_all(&scripts::ENDING, |call| {
            call.arg(worker.0);
        });
        let ending = self.connection.each::<Vec<(u64, u64)>>(ending).await?.concat();
        if ending.is_empty() {
            return Ok(());
        }
        let mut look = Call::plain("HMGET");
        look.arg(format!("{}settled", self.keys.budget));
        look.arg(ending.iter().map(|(task_id, _)| *task_id).collect::<Vec<u64>>());
        let settled: Vec<Option<String>> = self.connection.one(look).await?;
        let mut finishes = Vec::new();
        for ((task_id, lease_id), settled) in ending.into_iter().zip(settled) {
            let by_and_document = settled.as_deref().and_then(|settled| settled.split_once(' '));
            if let Some((by, document)) = by_and_document
                && by == lease_id.to_string()
            {
                let is_page = document != "0";
                let mut finish = self.finish(TaskId(task_id), lease_id, is_page, &Links::default());
                Batch::default().tell(&mut finish, None);
                finishes.push(finish);
                self.settled().push(task_id);
            }
        }
        self.connection.all(finishes).await?;
        Ok(())
    }

    /// The script that records how a loan ends, if it still holds.
    fn prepare(&self, completion: &Completion, has_own_children: bool) -> Call {
        let lease = &completion.lease;
        let mut call = self.on(self.keys.of_ticket(lease.task_id), &scripts::PREPARE);
        call.arg(lease.task_id.0).arg(lease.lease_id).arg(self.key.short_url_id(&lease.url));
        self.tell_ending(&mut call, completion);
        call.arg(u8::from(has_own_children));
        call
    }

    /// Tells a script how a loan ends.
    fn tell_ending(&self, call: &mut Call, completion: &Completion) {
        let Completion { lease, outcome, rejected_links: refused, host_delay, site_cooldown, .. } =
            completion;
        call.arg(u8::from(lease.is_revisit));
        call.arg(Domain::from_url_str(&lease.url).as_str()).arg(throttle_key(&lease.url)).arg(lease.depth);
        call.arg(&*outcome.label());
        let ended = Ended::of(outcome, lease.redirects > 0);
        call.arg(ended.byte).arg(ended.status);
        let (rest, delay) = host_delay.map_or((0, 0), |host_delay| self.host_delay(host_delay));
        call.arg(rest).arg(delay).arg(milliseconds(*site_cooldown)).arg(refused.len());
        for (reason, links) in refused {
            call.arg(*reason).arg(*links);
        }
    }

    /// The script that counts what loans used.
    fn settle<'a>(&self, completions: impl ExactSizeIterator<Item = &'a Completion> + Clone) -> Call {
        let forget = std::mem::take(&mut *self.settled());
        let mut settle = self.on_budget(&scripts::SETTLE);
        settle.arg(forget.len()).arg(&forget).arg(completions.len());
        settle.arg(completions.clone().map(|completion| completion.lease.task_id.0).collect::<Vec<u64>>());
        for completion in completions {
            let Completion { lease, bytes, .. } = completion;
            settle
                .arg(lease.lease_id)
                .arg(u8::from(is_kept(completion)))
                .arg(bytes.decoded)
                .arg(bytes.received);
            settle.arg(throttle_key(&lease.url)).arg(Domain::from_url_str(&lease.url).site_key());
        }
        settle
    }

    /// The script that ends a loan; it has yet to be told the children.
    fn finish(&self, task_id: TaskId, lease_id: u64, is_page: bool, links: &Links) -> Call {
        let mut call = self.on(self.keys.of_ticket(task_id), &scripts::FINISH);
        call.arg(task_id.0).arg(lease_id).arg(u8::from(is_page)).arg(links.new).arg(links.known);
        call
    }

    /// Completed, so that nobody has to remember that they were settled.
    fn settled(&self) -> MutexGuard<'_, Vec<u64>> {
        self.completed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether it becomes a page. What is visited again for its links is one already.
fn is_kept(Completion { lease, outcome, .. }: &Completion) -> bool {
    *outcome == Outcome::Page && !lease.is_revisit
}

/// The domains for which the page counts: once.
fn linked(Completion { lease, linked_domains: linked, .. }: &Completion) -> &[Domain] {
    if lease.is_revisit { &[] } else { linked }
}
