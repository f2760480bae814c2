//! A distributed crawl over Redis 7 or Valkey, for any number of processes and machines.
//!
//! Only this file and those below it know Redis. The frontier process has the state of the crawl in memory (`LocalState`, as
//! a crawl in one process has) and writes every change to Redis, batch after batch. The workers and the frontier exchange
//! messages through streams. If the frontier dies, another one reads the state back and continues; workers and their leases
//! stay. `redis/README.md` has the details.

mod address;
mod batch;
mod client;
mod committer;
mod connection;
mod control;
mod data;
mod frontier_process;
mod health;
mod home;
mod keys;
mod members;
mod messages;
mod opening;
mod reader;
mod records;
mod restore;
mod scripts;
mod server;
mod standbys;
mod storage;
mod write_if;

use std::fmt;
use std::time::Duration;

pub use self::address::Address;
pub use self::client::RemoteBackend;
use self::connection::RedisConnection;
pub use self::connection::{Notice, Persistence, RedisConnectOptions};
pub use self::control::{DistributedCrawl, Stored};
use self::data::CrawlData;
pub use self::frontier_process::{FrontierEnd, FrontierProcess};
pub use self::health::RedisHealth;
use self::keys::CrawlKeys;
pub use self::keys::is_name;
pub use self::members::{CrawlInfo, CrawlState, JoinResult, Member, Phase, Processes, Role, crawl_info};
pub use self::opening::no_such_crawl;
pub use self::standbys::Standby;
use super::BackendError;
use crate::error::StorageErrorKind;

type Result<T, E = BackendError> = std::result::Result<T, E>;

/// The name of a crawl, and the Redis that has it.
#[derive(Clone)]
pub struct RedisCrawl {
    /// The address of Redis.
    pub address: Address,
    /// Options for the connection.
    pub connect_options: RedisConnectOptions,
    /// The name of the crawl: letters, digits, dots, dashes and underscores.
    pub crawl: String,
    /// How many replicas must confirm a batch of changes before the next one is written. Default: one, if there are any.
    pub replicas: Option<u8>,
    /// The delay after each request to a host, unless the host has a longer one.
    pub delay: Duration,
}

impl RedisCrawl {
    /// A crawl of this name at this address.
    pub fn new(address: Address, crawl: impl Into<String>) -> RedisCrawl {
        RedisCrawl {
            address,
            connect_options: RedisConnectOptions::default(),
            crawl: crawl.into(),
            replicas: None,
            delay: Duration::ZERO,
        }
    }

    async fn connect(&self) -> Result<CrawlData> {
        if !is_name(&self.crawl) {
            let message = format!(
                "'{}' cannot be the name of a crawl; use 1 to 64 letters, digits, dots, dashes and underscores",
                self.crawl
            );
            return Err(BackendError::redis(StorageErrorKind::Unusable, message));
        }
        let connection = RedisConnection::open(&self.address, self.connect_options.clone()).await?;
        Ok(CrawlData { connection, keys: CrawlKeys::new(&self.crawl) })
    }
}

impl fmt::Debug for RedisCrawl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the crawl '{}' at {}", self.crawl, self.address)
    }
}
