//! The end of a loan: children first, then the budgets, then the loan.

use std::sync::PoisonError;

use super::super::{Completed, Completion, Trouble};
use super::connection::Call;
use super::frontier::sum;
use super::moves::{Moves, milliseconds};
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
    /// Three round trips, however many: does the loan still hold; children and budgets; the end of the loan. A death
    /// in between leaves the loan: what was admitted is known then, what was settled is not settled again.
    pub(super) async fn complete(&self, completions: Vec<Completion>) -> Result<Vec<Completed>, Trouble> {
        let checks = completions.iter().map(|completion| self.check(&completion.lease)).collect();
        let holds: Vec<Vec<u8>> = self.connection.each(checks).await?;
        let held = holds.iter().map(|holds| *holds == [1]);
        let (mut held, lost): (Vec<_>, Vec<_>) =
            completions.into_iter().enumerate().zip(held).partition(|(_, holds)| *holds);
        let mut completed = vec![Completed::Refused; held.len() + lost.len()];
        // Children go in before the parent completes, so "outstanding" reaches zero only at the end.
        let counted = self.count(held.iter().map(|((_, completion), _)| completion)).await?;
        let finishes = held
            .iter_mut()
            .zip(&counted)
            .map(|(((_, completion), _), counted)| self.finish(completion, counted));
        let finished: Vec<u8> = self.connection.each(finishes.collect()).await?;
        for ((((index, completion), _), counted), finished) in held.into_iter().zip(counted).zip(finished) {
            if finished == 1 {
                let Counted { new, document, .. } = counted;
                completed[index] = Completed::Done { id: (document > 0).then_some(document), new };
                self.settled().push(completion.lease.ticket.0);
            }
        }
        Ok(completed)
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

    fn finish(&self, completion: &mut Completion, counted: &Counted) -> Call {
        let Completion { lease, outcome, refused, output, pacing, .. } = completion;
        let mut command = self.on(self.keys.of_ticket(lease.ticket), &scripts::FINISH);
        command.arg(lease.ticket.0).arg(lease.loan);
        if lease.again {
            // It was counted before.
            command.arg("").arg(0).arg(0).arg(0);
        } else {
            // A page that has its number is kept, whatever its second visit gave.
            let label = if counted.document > 0 { Outcome::Kept.label() } else { outcome.label() };
            command.arg(label).arg(counted.new).arg(counted.known).arg(refused.len());
            for (reason, links) in std::mem::take(refused) {
                command.arg(reason).arg(links);
            }
        }
        command.arg(pacing.map_or(0, |pacing| milliseconds(pacing.rest)));
        command.arg(counted.document).arg(if counted.document > 0 { recorded(output) } else { Vec::new() });
        command
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
