//! The state of the Redis server itself.

use serde::{Deserialize, Serialize};

/// The state of Redis. Fields that a server does not report are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RedisHealth {
    /// The version of the server.
    pub version: Option<String>,
    /// The memory in use, in bytes.
    pub used_memory: Option<u64>,
    /// The memory that it may use, in bytes; `None` if that is not limited.
    pub max_memory: Option<u64>,
    /// The number of clients.
    pub connected_clients: Option<u64>,
    /// Commands per second.
    pub ops_per_second: Option<u64>,
    /// Whether the last write of the append-only file succeeded; `None` without such a file.
    pub aof_ok: Option<bool>,
    /// Whether the last snapshot was saved.
    pub last_save_ok: Option<bool>,
    /// How long the server took to reply, in milliseconds.
    pub rtt_ms: Option<u64>,
}
