//! The state of the Redis server itself.

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::super::BackendError;
use super::connection::RedisConnection;

/// The state of Redis; of a cluster, of all its servers together, but the memory of one. What a server does not report is `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RedisHealth {
    /// The version of the server.
    pub version: Option<String>,
    /// The memory in use, in bytes: of a cluster, that of the server whose memory is the fullest.
    pub used_memory: Option<u64>,
    /// The memory that this server may use, in bytes; `None` if that is not limited.
    pub max_memory: Option<u64>,
    /// The number of clients.
    pub connected_clients: Option<u64>,
    /// Commands per second.
    pub ops_per_second: Option<u64>,
    /// Whether the last write of the append-only file succeeded; `None` without such a file.
    pub aof_ok: Option<bool>,
    /// Whether the last snapshot was saved.
    pub last_save_ok: Option<bool>,
    /// How long the server took to reply, in milliseconds, to the hundredth.
    pub rtt_ms: Option<f64>,
}

impl RedisHealth {
    /// Adds what a server says about itself.
    fn add(&mut self, information: &str) {
        let field = |name: &str| {
            let value = information.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.map(str::trim).filter(|value| !value.is_empty())
        };
        let number = |name| field(name).and_then(|value| value.parse::<u64>().ok());
        let add = |sum: &mut Option<u64>, value: Option<u64>| {
            *sum = [*sum, value].into_iter().flatten().reduce(u64::saturating_add);
        };
        let is_ok = |name| field(name).map(|value| value == "ok");
        let version = field("valkey_version").or_else(|| field("redis_version")).map(str::to_owned);
        self.version = self.version.take().or(version);
        let (used, max) = (number("used_memory"), number("maxmemory").filter(|bytes| *bytes > 0));
        if fullness(used, max) > fullness(self.used_memory, self.max_memory) {
            (self.used_memory, self.max_memory) = (used, max);
        }
        add(&mut self.connected_clients, number("connected_clients"));
        add(&mut self.ops_per_second, number("instantaneous_ops_per_sec"));
        let has_aof = number("aof_enabled") == Some(1);
        self.aof_ok = both(self.aof_ok, is_ok("aof_last_write_status").filter(|_| has_aof));
        self.last_save_ok = both(self.last_save_ok, is_ok("rdb_last_bgsave_status"));
    }
}

/// How full the memory of a server is. One without a limit is less full than any that has one.
fn fullness(used: Option<u64>, max: Option<u64>) -> (f64, Option<u64>) {
    let part = used.zip(max).map_or(0.0, |(used, max)| used as f64 / max as f64);
    (part, used)
}

fn both(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    [one, other].into_iter().flatten().reduce(|one, other| one && other)
}

/// Asks the servers.
pub(super) async fn health(connection: &RedisConnection) -> Result<RedisHealth, BackendError> {
    let (mut health, asked) = (RedisHealth::default(), Instant::now());
    let information = connection.information().await?;
    // All servers are asked at the same time.
    health.rtt_ms = Some((asked.elapsed().as_secs_f64() * 1e5).round() / 100.0);
    for (_, information) in information {
        health.add(&information);
    }
    Ok(health)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_of_a_cluster_are_added_up_and_the_fullest_memory_counts() {
        let mut health = RedisHealth::default();
        health.add("# Server\r\nredis_version:7.2.4\r\nused_memory:100\r\nused_memory_human:1M\r\nmaxmemory:0\r\nconnected_clients:3\r\naof_enabled:1\r\naof_last_write_status:ok\r\nrdb_last_bgsave_status:ok\r\n");
        health.add("redis_version:7.2.4\r\nused_memory:990\r\nmaxmemory:1000\r\ninstantaneous_ops_per_sec:7\r\naof_enabled:1\r\naof_last_write_status:err\r\n");
        health.add("redis_version:7.2.4\r\nused_memory:5000\r\nmaxmemory:10000\r\n");
        let expected = RedisHealth {
            version: Some("7.2.4".into()),
            used_memory: Some(990),
            max_memory: Some(1000),
            connected_clients: Some(3),
            ops_per_second: Some(7),
            aof_ok: Some(false),
            last_save_ok: Some(true),
            rtt_ms: None,
        };
        assert_eq!(health, expected);
        let mut unknown = RedisHealth::default();
        unknown.add("aof_enabled:0\r\naof_last_write_status:ok\r\nused_memory:x\r\n");
        assert_eq!(unknown, RedisHealth::default());
    }
}
