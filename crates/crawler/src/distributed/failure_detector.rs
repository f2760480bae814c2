//! Decides which members are dead: those without a new heartbeat for long enough, while Redis could be
//! queried.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::backend::redis::Member;

/// Measures the time since each member's last heartbeat with this process's own clock. A Redis outage resets
/// all timers, because no heartbeat can arrive during it.
pub struct FailureDetector {
    dead_after: Duration,
    /// By the member's token.
    heartbeats: HashMap<String, LastHeartbeat>,
    last_check: Instant,
}

#[derive(Clone, Copy)]
struct LastHeartbeat {
    /// Redis's time of the heartbeat, only compared for equality.
    redis_time: u64,
    /// When this process first saw it.
    first_seen: Instant,
}

impl FailureDetector {
    /// A detector that declares a member dead after this time.
    pub fn new(dead_after: Duration) -> FailureDetector {
        FailureDetector { dead_after, heartbeats: HashMap::new(), last_check: Instant::now() }
    }

    /// The time after which a member is declared dead.
    pub fn dead_after(&self) -> Duration {
        self.dead_after
    }

    /// Whether a member has sent no heartbeat for too long. Call it regularly: a long time between calls
    /// resets all timers.
    pub fn is_dead(&mut self, member: &Member) -> bool {
        self.is_dead_at(member, Instant::now())
    }

    fn is_dead_at(&mut self, member: &Member, now: Instant) -> bool {
        // Heartbeats may have been missed since the last check.
        if now.duration_since(self.last_check) > self.dead_after / 3 {
            self.heartbeats.clear();
        }
        self.last_check = now;
        let current = LastHeartbeat { redis_time: member.last_heartbeat, first_seen: now };
        let last = self.heartbeats.entry(member.token.clone()).or_insert(current);
        if last.redis_time != member.last_heartbeat {
            *last = current;
        }
        now.duration_since(last.first_seen) > self.dead_after
    }

    /// Drops the timers of all but these members.
    pub(super) fn retain(&mut self, members: &[Member]) {
        self.heartbeats.retain(|token, _| members.iter().any(|member| member.token == *token));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::WorkerId;
    use crate::backend::redis::Role;

    fn member(last_heartbeat: u64) -> Member {
        let role = Role::Worker(WorkerId(0));
        Member {
            role,
            token: "a".into(),
            location: String::new(),
            is_dead: false,
            last_heartbeat,
            since_heartbeat: Duration::ZERO,
        }
    }

    fn start(detector: &FailureDetector) -> Instant {
        detector.last_check.max(Instant::now())
    }

    #[test]
    fn member_without_heartbeat_for_the_timeout_is_dead() {
        let mut detector = FailureDetector::new(Duration::from_secs(15));
        let start = start(&detector);
        let dead: Vec<bool> = (0..=16)
            .map(|second| detector.is_dead_at(&member(7), start + Duration::from_secs(second)))
            .collect();
        assert_eq!(dead.iter().position(|dead| *dead), Some(16));
    }

    #[test]
    fn member_with_regular_heartbeats_is_alive() {
        let mut detector = FailureDetector::new(Duration::from_secs(15));
        let start = start(&detector);
        assert!((0..60).all(|second| {
            !detector.is_dead_at(&member(second / 10), start + Duration::from_secs(second))
        }));
    }

    #[test]
    fn redis_outage_resets_all_heartbeat_timers() {
        let mut detector = FailureDetector::new(Duration::from_secs(15));
        let start = start(&detector);
        assert!(!detector.is_dead_at(&member(7), start));
        assert!(
            (30..=45).all(|second| !detector.is_dead_at(&member(7), start + Duration::from_secs(second)))
        );
        assert!(detector.is_dead_at(&member(7), start + Duration::from_secs(46)));
    }
}
