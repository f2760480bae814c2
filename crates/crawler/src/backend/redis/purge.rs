//! Walks through all keys of a crawl, wherever they are, in small steps: to remove them, or to say how long they live.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::BackendError;
use super::connection::{Call, Connection};
use super::keys::{CLUSTER_PARTITIONS, Keys};
use super::scripts;

/// How long those who are at work on a crawl that is removed can see that it was: without that, they would look for a while
/// whether Redis finds it again.
const MARK: Duration = Duration::from_secs(60);

/// What happens to the keys of a crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sweep {
    /// All are removed.
    Purge,
    /// What would stay for ever, and is not its result, stays for so many milliseconds.
    Expire(u64),
    /// What would expire with the crawl stays.
    Persist,
    /// What waits for its domain's share is removed.
    Waiting,
}

/// Where a server is to go on with a sweep.
type Step = (String, u64);

/// Removes everything of a crawl, whatever state it is in, and tells how many keys that were.
pub(super) async fn purge(connection: &Connection, crawl: &str) -> Result<u64, BackendError> {
    // Should nothing tell how many parts it has, it has as many as most.
    let mut look = Call::plain("HGET");
    look.arg(format!("{}settings", Keys::settings(crawl))).arg("partitions");
    let partitions: Option<u16> = connection.one(look).await?;
    let keys = Keys::new(crawl, partitions.unwrap_or(0).max(CLUSTER_PARTITIONS));
    let mut members = Call::plain("HLEN");
    members.arg(format!("{}members", keys.crew));
    if connection.one::<u64>(members).await? > 0 {
        let mut mark = Call::plain("SET");
        mark.arg(format!("{}purged", keys.crew)).arg(1).arg("EX").arg(MARK.as_secs());
        connection.all(vec![mark]).await?;
    }
    sweep(connection, &keys, &pattern(crawl), Sweep::Purge).await
}

/// What the names of all keys of a crawl are like, and those of no other.
pub(super) fn pattern(crawl: &str) -> String {
    format!("crawler:{{{crawl}:*")
}

/// Does something with those keys whose names are like this, and tells how many they were.
pub(super) async fn sweep(
    connection: &Connection,
    keys: &Keys,
    pattern: &str,
    sweep: Sweep,
) -> Result<u64, BackendError> {
    let (what, time) = match sweep {
        Sweep::Purge => ("purge", 0),
        Sweep::Expire(time) => ("expire", time),
        Sweep::Persist => ("persist", 0),
        Sweep::Waiting => ("waiting", 0),
    };
    let mut left: Vec<(String, String)> =
        servers(connection, keys).await?.into_iter().map(|base| (base, "0".to_owned())).collect();
    let mut done = 0;
    while !left.is_empty() {
        let steps = left.iter().map(|(base, cursor)| {
            let mut call = connection.script(&scripts::SWEEP, base, String::new(), 0);
            call.arg(cursor).arg(pattern).arg(what).arg(time);
            call
        });
        let steps: Vec<Step> = connection.each(steps.collect()).await?;
        done += steps.iter().map(|(_, done)| done).sum::<u64>();
        let next = left.into_iter().zip(steps).map(|((base, _), (cursor, _))| (base, cursor));
        left = next.filter(|(_, cursor)| cursor != "0").collect();
    }
    Ok(done)
}

/// For each server that has keys of a crawl, a name under which it is asked.
async fn servers(connection: &Connection, keys: &Keys) -> Result<Vec<String>, BackendError> {
    let bases: Vec<String> = keys.all().collect();
    let asks = bases.iter().map(|base| connection.script(&scripts::NODE, base, String::new(), 0));
    let servers: Vec<String> = connection.each(asks.collect()).await?;
    let named: BTreeMap<String, String> = servers.into_iter().zip(bases).collect();
    Ok(named.into_values().collect())
}
