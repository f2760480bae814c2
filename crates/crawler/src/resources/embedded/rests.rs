//! When hosts may be asked again, whoever asked them last.

use std::collections::HashMap;

use tokio::time::Instant;

use super::super::Pacing;
use super::paced_host;

/// So many hosts that may be asked by now are forgotten at a time.
const SWEEP_AT: usize = 10_000;

/// The hosts that have to be left alone for a while.
#[derive(Default)]
pub(super) struct Rests {
    until: HashMap<String, Instant>,
    sweep_at: usize,
}

impl Rests {
    pub(super) fn note(&mut self, host: String, pacing: Pacing) {
        if pacing.rest.is_zero() {
            return;
        }
        if self.until.len() >= self.sweep_at.max(SWEEP_AT) {
            let now = Instant::now();
            self.until.retain(|_, until| *until > now);
            self.sweep_at = 2 * self.until.len();
        }
        self.until.insert(host, Instant::now() + pacing.rest);
    }

    /// How long the host of a URL must still be left alone.
    pub(super) fn of(&self, url: &str) -> std::time::Duration {
        if self.until.is_empty() {
            return std::time::Duration::ZERO;
        }
        let until = self.until.get(&paced_host(url));
        until.map_or(std::time::Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }
}
