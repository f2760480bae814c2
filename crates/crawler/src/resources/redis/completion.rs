//! The end of a loan: children first, then the budgets, then the loan.

use std::sync::PoisonError;

use super::super::{Completed, Completion, Ticket, Trouble, WorkerId};
use super::connection::Call;
use super::frontier::sum;
use super::moves::Moves;
use super::scripts;
use crate::modules::Addition;
use crate::origin::paced_host;
use crate::outcome::Outcome;

/// What is known of a completion before its loan ends.
struct Counted {
    new: u64,
    known: u64,
    document: u64,
}

impl Moves {
    /// Three round trips, however many: does the loan still hold, and how does it end; children and budgets; the end of
    /// the loan. A death in between leaves the loan: what was admitted is known then, and what was settled is brought to
    /// its end when the worker is found dead.
    pub(super) async fn complete(&self, completions: Vec<Completion>) -> Result<Vec<Completed>, Trouble> {
        let prepares = completions.iter().map(|completion| self.prepare(completion)).collect();
        let holds: Vec<u8> = self.connection.each(prepares).await?;
        let mut completed = vec![Completed::Refused; holds.len()];
        let held: Vec<(usize, &Completion)> =
            completions.iter().enumerate().filter(|(index, _)| holds[*index] == 1).collect();
        // Children go in before the parent completes, so "outstanding" reaches zero only at the end.
        let counted = self.count(held.iter().map(|(_, completion)| *completion)).await?;
        let finishes = held.iter().zip(&counted);
        let finishes = finishes
            .map(|((_, Completion { lease, .. }), counted)| self.finish(lease.ticket, lease.loan, counted));
        let finished: Vec<u8> = self.connection.each(finishes.collect()).await?;
        for (((index, completion), counted), finished) in held.into_iter().zip(counted).zip(finished) {
            if finished == 1 {
                let Counted { new, document, .. } = counted;
                completed[index] = Completed::Done { id: (document > 0).then_some(document), new };
                self.settled().push(completion.lease.ticket.0);
            }
        }
        Ok(completed)
    }

    /// Brings the loans of a dead worker to their end that were settled: their pages have their numbers, and what they
    /// add to the outputs is recorded. How many of their links were new is not known any more.
    pub(super) async fn finish_settled(&self, worker: WorkerId) -> Result<(), Trouble> {
        let ending = self.on_all(&scripts::ENDING, |call| {
            call.arg(worker.0);
        });
        let ending = self.connection.each::<Vec<(u64, u64)>>(ending).await?.concat();
        if ending.is_empty() {
            return Ok(());
        }
        let mut look = Call::plain("HMGET");
        look.arg(format!("{}settled", self.keys.budget));
        look.arg(ending.iter().map(|(ticket, _)| *ticket).collect::<Vec<u64>>());
        let settled: Vec<Option<String>> = self.connection.one(look).await?;
        let mut finishes = Vec::new();
        for ((ticket, loan), settled) in ending.into_iter().zip(settled) {
            let by_and_document = settled.as_deref().and_then(|settled| settled.split_once(' '));
            if let Some((by, document)) = by_and_document
                && by == loan.to_string()
            {
                let document = document.parse().unwrap_or(0);
                finishes.push(self.finish(Ticket(ticket), loan, &Counted { new: 0, known: 0, document }));
                self.settled().push(ticket);
            }
        }
        self.connection.all(finishes).await?;
        Ok(())
    }

    /// Admits the children and settles the budgets.
    async fn count<'a>(
        &self,
        completions: impl ExactSizeIterator<Item = &'a Completion> + Clone,
    ) -> Result<Vec<Counted>, Trouble> {
        if completions.len() == 0 {
            return Ok(Vec::new());
        }
        let forget = std::mem::take(&mut *self.settled());
        let mut settle = self.on_budget(&scripts::SETTLE);
        settle.arg(forget.len()).arg(&forget).arg(completions.len());
        let (mut commands, mut admissions) = (Vec::new(), Vec::new());
        for Completion { lease, outcome, bytes, children, linked, .. } in completions {
            let is_kept = *outcome == Outcome::Kept && !lease.again;
            settle
                .arg(lease.ticket.0)
                .arg(lease.loan)
                .arg(u8::from(is_kept))
                .arg(*bytes)
                .arg(paced_host(&lease.url));
            let linked = if lease.again { &[] } else { linked.as_slice() };
            let admits = self.admissions(children, linked);
            admissions.push(admits.len());
            commands.extend(admits);
        }
        commands.push(settle);
        let mut answers = self.connection.all(commands).await?;
        let documents: Vec<u64> = self.connection.read(answers.pop().unwrap_or_default())?;
        let mut answers = answers.into_iter();
        let mut counted = Vec::with_capacity(documents.len());
        for (admissions, document) in admissions.into_iter().zip(documents) {
            let counts = answers.by_ref().take(admissions).map(|counts| self.connection.read(counts));
            let admitted = sum(&counts.collect::<Result<Vec<_>, _>>()?);
            counted.push(Counted { new: admitted.new, known: admitted.known, document });
        }
        Ok(counted)
    }

    /// The script that records how a loan ends, if it still holds.
    fn prepare(&self, completion: &Completion) -> Call {
        let Completion { lease, outcome, refused, output, pacing, .. } = completion;
        let mut call = self.on(self.keys.of_ticket(lease.ticket), &scripts::PREPARE);
        call.arg(lease.ticket.0).arg(lease.loan);
        // One that was visited again was counted before.
        call.arg(if lease.again { "" } else { outcome.label() });
        let (rest, delay) = pacing.map_or((0, 0), |pacing| self.pacing(pacing));
        call.arg(rest)
            .arg(delay)
            .arg(u8::from(outcome.has_links()))
            .arg(lease.depth)
            .arg(recorded(output))
            .arg(refused.len());
        for (reason, links) in refused {
            call.arg(*reason).arg(*links);
        }
        call
    }

    /// The script that ends a loan.
    fn finish(&self, ticket: Ticket, loan: u64, counted: &Counted) -> Call {
        let Counted { new, known, document } = counted;
        let mut call = self.on(self.keys.of_ticket(ticket), &scripts::FINISH);
        call.arg(ticket.0).arg(loan).arg(*document).arg(*new).arg(*known);
        call
    }

    fn settled(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.completed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a page adds to the outputs: of each its number, its kind, its length and its bytes.
fn recorded(output: &[(usize, Addition)]) -> Vec<u8> {
    let mut record = Vec::new();
    for (number, addition) in output {
        let (kind, bytes) = match addition {
            Addition::Append(bytes) => (0u8, bytes),
            Addition::File(bytes) => (1, bytes),
        };
        record.extend((*number as u32).to_le_bytes());
        record.push(kind);
        record.extend((bytes.len() as u32).to_le_bytes());
        record.extend(bytes);
    }
    record
}
