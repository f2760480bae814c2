//! Removes all keys of a crawl, wherever they are, in small steps.

use std::time::Duration;

use super::super::BackendError;
use super::connection::{Call, Connection};
use super::keys::CrawlKeys;

/// How long the processes of a crawl that is removed can see that it was. Without that, they would wait for Redis to find it
/// again.
const MARKER_TTL: Duration = Duration::from_secs(60);

/// How many keys of a server are looked at in one step.
const KEYS_PER_STEP: usize = 2_000;

/// Removes everything of a crawl, whatever state it is in, and returns how many keys that were.
pub(super) async fn purge(connection: &Connection, crawl: &str) -> Result<u64, BackendError> {
    let keys = CrawlKeys::new(crawl);
    let (mut members, marker) = (Call::plain("HLEN"), format!("{}purged", keys.members));
    members.arg(format!("{}members", keys.members));
    if connection.one::<u64>(members).await? > 0 {
        let mut set = Call::plain("SET");
        set.arg(&marker).arg(1).arg("EX").arg(MARKER_TTL.as_secs());
        connection.all(vec![set]).await?;
    }
    // The frontier and the workers can write nothing more from here on.
    let first = [keys.of("epoch"), format!("{}members", keys.members), format!("{}crawl", keys.members)];
    let mut removed = unlink(connection, &first).await?;
    let mut cursors: Vec<_> =
        connection.servers().into_iter().map(|server| (server, "0".to_owned())).collect();
    while !cursors.is_empty() {
        let scans = cursors.iter().map(|(server, cursor)| {
            let mut scan = connection.on_server("SCAN", server);
            scan.arg(cursor).arg("MATCH").arg(keys.pattern()).arg("COUNT").arg(KEYS_PER_STEP);
            scan
        });
        let scanned: Vec<(String, Vec<String>)> = connection.each(scans.collect()).await?;
        let found = scanned.iter().flat_map(|(_, keys)| keys).filter(|key| **key != marker);
        removed += unlink(connection, found).await?;
        let next = cursors.into_iter().zip(scanned).map(|((server, _), (cursor, _))| (server, cursor));
        cursors = next.filter(|(_, cursor)| cursor != "0").collect();
    }
    // A message of a worker may have come behind the cursor.
    removed += unlink(connection, [&keys.messages()]).await?;
    Ok(removed)
}

/// Removes keys, and returns how many there were.
async fn unlink<'k>(
    connection: &Connection,
    keys: impl IntoIterator<Item = &'k String>,
) -> Result<u64, BackendError> {
    // The keys of one command would have to be in one slot of a cluster.
    let unlinks = keys.into_iter().map(|key| {
        let mut unlink = Call::plain("UNLINK");
        unlink.arg(key);
        unlink
    });
    Ok(connection.each::<u64>(unlinks.collect()).await?.into_iter().sum())
}
