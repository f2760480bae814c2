//! Tells who is dead: whoever was not heard of for long enough, while we could have heard.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::backend::redis::Member;

/// How long members have been silent, by this process's own clock. While Redis is away nobody can be heard, and nobody
/// counts as dead until it has had its full time again.
pub(super) struct FailureDetector {
    dead_after: Duration,
    heard: HashMap<String, LastHeartbeat>,
    last_look: Instant,
}

struct LastHeartbeat {
    /// The sign of life, and when it was first seen.
    sign: u64,
    since: Instant,
}

impl FailureDetector {
    pub(super) fn new(dead_after: Duration) -> FailureDetector {
        FailureDetector { dead_after, heard: HashMap::new(), last_look: Instant::now() }
    }

    /// Whether a member has been silent for too long. To be asked again and again.
    pub(super) fn is_dead(&mut self, member: &Member) -> bool {
        self.is_dead_at(member, Instant::now())
    }

    fn is_dead_at(&mut self, member: &Member, now: Instant) -> bool {
        // We did not look for a while, so we cannot know who was silent.
        if now.duration_since(self.last_look) > self.dead_after / 3 {
            self.heard.clear();
        }
        self.last_look = now;
        let heard = self
            .heard
            .entry(member.token.clone())
            .or_insert(LastHeartbeat { sign: member.heard, since: now });
        if heard.sign != member.heard {
            *heard = LastHeartbeat { sign: member.heard, since: now };
        }
        now.duration_since(heard.since) > self.dead_after
    }

    /// Forgets those who are not there any more.
    pub(super) fn keep(&mut self, members: &[Member]) {
        self.heard.retain(|token, _| members.iter().any(|member| member.token == *token));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::WorkerId;
    use crate::backend::redis::Role;

    fn member(heard: u64) -> Member {
        let role = Role::Worker(WorkerId(0));
        Member {
            role,
            token: "a".into(),
            place: String::new(),
            is_dead: false,
            heard,
            silent: Duration::ZERO,
            domains: None,
        }
    }

    fn second(deaths: &FailureDetector, second: u64) -> Instant {
        deaths.last_look.max(Instant::now()) + Duration::from_secs(second)
    }

    #[test]
    fn one_who_is_silent_for_fifteen_seconds_is_dead() {
        let mut deaths = FailureDetector::new(Duration::from_secs(15));
        let begin = second(&deaths, 0);
        let dead: Vec<bool> = (0..=16)
            .map(|second| deaths.is_dead_at(&member(7), begin + Duration::from_secs(second)))
            .collect();
        assert_eq!(dead.iter().position(|dead| *dead), Some(16));
    }

    #[test]
    fn one_who_was_heard_meanwhile_is_not() {
        let mut deaths = FailureDetector::new(Duration::from_secs(15));
        let begin = second(&deaths, 0);
        assert!(
            (0..60).all(|second| {
                !deaths.is_dead_at(&member(second / 10), begin + Duration::from_secs(second))
            })
        );
    }

    #[test]
    fn after_an_outage_everybody_has_the_full_time_again() {
        let mut deaths = FailureDetector::new(Duration::from_secs(15));
        let begin = second(&deaths, 0);
        assert!(!deaths.is_dead_at(&member(7), begin));
        assert!((30..=45).all(|second| !deaths.is_dead_at(&member(7), begin + Duration::from_secs(second))));
        assert!(deaths.is_dead_at(&member(7), begin + Duration::from_secs(46)));
    }
}
