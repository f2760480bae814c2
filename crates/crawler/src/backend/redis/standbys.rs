//! The processes that wait for a role of a crawl, for displays.

use std::collections::BTreeMap;
use std::time::Duration;

use super::members::{Role, process_of};

/// A process that has not asked for a role for this time, in milliseconds, is no standby any more.
const STANDBY_TTL: u64 = 5_000;

/// How often the record of a standby is renewed, in milliseconds.
const STANDBY_INTERVAL: u64 = 1_000;

/// The most records of standbys.
const MAX_STANDBYS: u64 = 100;

/// The same, as the script gets them that records standbys.
pub(super) const LIMITS: (u64, u64, u64) = (STANDBY_TTL, STANDBY_INTERVAL, MAX_STANDBYS);

/// A process that waits for a role which another process has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standby {
    /// The role for which it waits.
    pub role: Role,
    /// Identifies the process.
    pub token: String,
    /// The process id and host, for people.
    pub location: String,
    /// The time since its last heartbeat; it sends one about every second.
    pub since_heartbeat: Duration,
}

impl Standby {
    /// The standby of a record: its last heartbeat, role and location. `None` if it is none any more.
    fn from_record(token: String, record: &str, now: u64) -> Option<Standby> {
        let mut parts = record.splitn(3, ' ');
        let (heartbeat, role, location) = (parts.next()?, parts.next()?, parts.next()?);
        let age = now.checked_sub(heartbeat.parse().ok()?).filter(|age| *age <= STANDBY_TTL)?;
        let (role, since_heartbeat) = (Role::named(role)?, Duration::from_millis(age));
        Some(Standby { role, token, location: location.to_owned(), since_heartbeat })
    }

    /// The process id.
    pub fn process(&self) -> Option<u32> {
        process_of(&self.token)
    }
}

/// The standbys of records by their tokens, those that wait for the same role in a constant order.
pub(super) fn from_records(records: BTreeMap<String, String>, now: u64) -> Vec<Standby> {
    let standby = |(token, record): (String, String)| Standby::from_record(token, &record, now);
    let mut standbys: Vec<Standby> = records.into_iter().filter_map(standby).collect();
    standbys.sort_by(|one, other| (one.role, &one.token).cmp(&(other.role, &other.token)));
    standbys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_processes_that_are_gone_or_from_the_future_are_ignored() {
        let now = 100_000;
        let record = |at: u64| format!("{at} frontier pid 7 on host h 1");
        let records = [("old", now - STANDBY_TTL - 1), ("new", now - 700), ("later", now + 1)];
        let records = records.map(|(token, at)| (token.to_owned(), record(at)));
        let damaged = ("damaged".to_owned(), "x frontier".to_owned());
        let standbys = from_records(records.into_iter().chain([damaged]).collect(), now);
        let since_heartbeat = Duration::from_millis(700);
        let (token, location) = ("new".into(), "pid 7 on host h 1".into());
        assert_eq!(standbys, [Standby { role: Role::Frontier, token, location, since_heartbeat }]);
    }
}
