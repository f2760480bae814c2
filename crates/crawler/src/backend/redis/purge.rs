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
    let (members, marker) = (keys.of_members("members"), keys.of_members("purged"));
    if connection.one::<u64>(Call::new("HLEN", &members)).await? > 0 {
        connection.one::<()>(Call::new("SET", &marker).arg(1).arg("EX").arg(MARKER_TTL.as_secs())).await?;
    }
    // The frontier and the workers can write nothing more from here on.
    let mut removed = unlink(connection, [keys.of("epoch"), members, keys.of_members("crawl")]).await?;
    for server in connection.servers() {
        let mut cursor = 0u64;
        loop {
            let scan = Call::for_server("SCAN", &server).arg(cursor).arg("MATCH").arg(keys.pattern());
            let (next, found): (_, Vec<String>) =
                connection.one(scan.arg("COUNT").arg(KEYS_PER_STEP)).await?;
            removed += unlink(connection, found.into_iter().filter(|key| *key != marker)).await?;
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
    }
    // A message of a worker may have come behind the cursor.
    removed += unlink(connection, [keys.messages()]).await?;
    Ok(removed)
}

/// Removes keys, and returns how many there were.
async fn unlink(
    connection: &Connection,
    keys: impl IntoIterator<Item = String>,
) -> Result<u64, BackendError> {
    // The keys of one command would have to be in one slot of a cluster.
    let unlinks = keys.into_iter().map(|key| Call::new("UNLINK", key));
    Ok(connection.all::<u64>(unlinks.collect()).await?.into_iter().sum())
}
