//! Reads the streams of messages on Redis.

use std::time::Duration;

use super::super::BackendError;
use super::connection::{Call, Connection};
use super::messages::Position;

/// How long a read of the stream waits for a message.
const BLOCK: Duration = Duration::from_secs(1);

/// Reads the entries of a stream after a position. Waits for the first one for a while, and so do other commands of the
/// connection.
pub(super) async fn read_stream(
    connection: &Connection,
    stream: &str,
    after: Position,
    max: usize,
) -> Result<Vec<(Position, Vec<u8>)>, BackendError> {
    type Entries = Vec<(String, Vec<(String, (String, Vec<u8>))>)>;
    let read =
        Call::for_key("XREAD", stream).arg("COUNT").arg(max).arg("BLOCK").arg(BLOCK.as_millis() as u64);
    let read = read.arg("STREAMS").arg(stream).arg(after.to_string()).waiting();
    let entries: Option<Entries> = connection.one(read).await?;
    let entries = entries.into_iter().flatten().flat_map(|(_, entries)| entries);
    Ok(entries.filter_map(|(id, (_, message))| Some((id.parse().ok()?, message))).collect())
}
