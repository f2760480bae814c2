//! Reads the streams of messages on Redis.

use std::time::Duration;

use redis::Value;

use super::super::BackendError;
use super::connection::{Call, Connection};
use super::messages::Position;

/// How long a read of the stream waits for a message.
const BLOCK: Duration = Duration::from_secs(1);

/// Reads the entries of a stream after a position. Waits for the first one for a while.
pub(super) async fn read_stream(
    connection: &Connection,
    stream: &str,
    after: Position,
    max: usize,
) -> Result<Vec<(Position, Vec<u8>)>, BackendError> {
    let mut read = Call::keyed("XREAD", stream);
    read.arg("COUNT").arg(max).arg("BLOCK").arg(BLOCK.as_millis() as u64);
    read.arg("STREAMS").arg(stream).arg(after.to_string());
    let value: Value = connection.one(read).await?;
    if value == Value::Nil {
        return Ok(Vec::new());
    }
    type Entries = Vec<(String, Vec<(String, (String, Vec<u8>))>)>;
    let entries: Entries = connection.read(value)?;
    let entries = entries.into_iter().flat_map(|(_, entries)| entries);
    Ok(entries.filter_map(|(id, (_, message))| Some((id.parse().ok()?, message))).collect())
}
