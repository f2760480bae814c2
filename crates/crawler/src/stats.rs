//! Counts that add up: admitted URLs on one side, what became of them on the other.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::outcome::Outcome;
use crate::scope::RejectReason;

/// The counts of a crawl, during it and at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// URLs admitted; once the crawl is over, the sum of `outcomes`.
    pub admitted: u64,
    /// Admitted URLs by how they ended.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Bytes of the kept pages.
    pub bytes: u64,
    /// Links found on kept pages.
    pub links: u64,
    /// Links to URLs known already.
    pub duplicates: u64,
    /// Links refused before admission, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// How long the crawl took.
    pub elapsed: Duration,
}

impl Stats {
    /// Counts the end of an admitted URL.
    pub fn ended(&mut self, outcome: &Outcome) {
        *self.outcomes.entry(outcome.label()).or_default() += 1;
    }

    /// Counts a link that is not followed.
    pub fn refused(&mut self, why: RejectReason) {
        *self.refused.entry(why.label()).or_default() += 1;
    }

    /// How many URLs ended like this one.
    pub fn count(&self, outcome: &Outcome) -> u64 {
        self.outcomes.get(outcome.label()).copied().unwrap_or(0)
    }

    /// Pages kept.
    pub fn pages(&self) -> u64 {
        self.count(&Outcome::Page)
    }

    /// URLs admitted and not ended yet.
    pub fn outstanding(&self) -> u64 {
        self.admitted - self.outcomes.values().sum::<u64>()
    }

    /// URLs that ended neither kept nor redirected.
    pub fn failed(&self) -> u64 {
        self.outcomes.values().sum::<u64>()
            - self.pages()
            - self.count(&Outcome::Redirect { to: String::new() })
    }
}
