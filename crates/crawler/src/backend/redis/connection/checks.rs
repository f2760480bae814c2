//! Checks that a crawl is safe on a Redis, and what Redis writes to its disk.

use std::sync::Arc;

use super::super::address::ServerAddress;
use super::{Call, RedisConnection};
use crate::backend::BackendError;
use crate::error::StorageErrorKind;

/// The oldest Redis with the scripts and streams that a crawl needs.
const MIN_VERSION: u32 = 7;

/// What a server writes to its disk; in a cluster, the server that writes least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Persistence {
    /// Nothing: if the process stops, everything is lost.
    Nothing,
    /// The user may not ask.
    Unknown,
    /// Everything, at intervals: a crash loses minutes.
    Snapshots,
    /// Every change: a crash loses a second or nothing.
    AppendOnlyFile,
}

impl RedisConnection {
    /// Rejects a Redis that is too old, a replica, or without permission for scripts, and one that evicts keys.
    pub(super) async fn check(&self) -> Result<(), BackendError> {
        for (server, information) in self.information().await? {
            let unsupported = |what: String| {
                let message = format!("Redis at {} {what}", self.address());
                Err(BackendError::redis(StorageErrorKind::Unsupported, message))
            };
            let version = field(&information, "redis_version");
            let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
            if major < MIN_VERSION {
                return unsupported(format!(
                    "is version {version}; the crawl needs {MIN_VERSION}.0 or later, or Valkey"
                ));
            }
            let policy = field(&information, "maxmemory_policy");
            if field(&information, "maxmemory") != "0" && policy != "noeviction" && !policy.is_empty() {
                return unsupported(format!(
                    "throws keys away when its memory is full (maxmemory-policy {policy}), and with them URLs that are \
                     still to be visited; set maxmemory-policy to noeviction"
                ));
            }
            if field(&information, "role") == "slave" && self.shared.servers.is_single() {
                return unsupported(
                    "is a replica, and what is written to a replica is lost; give the address of its primary, or of the \
                     Sentinels that know it: redis+sentinel://host:26379/NAME"
                        .into(),
                );
            }
            let script = Call::for_server("SCRIPT", &server).arg("EXISTS").arg("0");
            self.one::<Vec<bool>>(script).await?;
        }
        Ok(())
    }

    /// What is on the disks of the servers.
    pub(in super::super) async fn persistence(&self) -> Result<Persistence, BackendError> {
        let mut weakest = Persistence::AppendOnlyFile;
        for (server, information) in self.information().await? {
            if field(&information, "aof_enabled") == "1" {
                continue;
            }
            let save = Call::for_server("CONFIG", &server).arg("GET").arg("save");
            weakest = weakest.min(match self.one::<Vec<String>>(save).await.as_deref() {
                Ok([_, save]) if save.is_empty() => Persistence::Nothing,
                Ok([_, _]) => Persistence::Snapshots,
                _ => Persistence::Unknown,
            });
        }
        Ok(weakest)
    }

    /// All servers that store data.
    pub(in super::super) fn servers(&self) -> Vec<Arc<ServerAddress>> {
        self.shared.servers.primaries()
    }

    /// How many replicas every server has, at least.
    pub(in super::super) async fn replicas(&self) -> Result<u32, BackendError> {
        let information = self.information().await?;
        let replicas =
            information.iter().map(|(_, server)| field(server, "connected_slaves").parse().unwrap_or(0));
        Ok(replicas.min().unwrap_or(0))
    }

    /// What each server says about itself.
    pub(in super::super) async fn information(
        &self,
    ) -> Result<Vec<(Arc<ServerAddress>, String)>, BackendError> {
        let servers = self.servers();
        let calls = servers.iter().map(|server| Call::for_server("INFO", server)).collect();
        let information = self.all(calls).await?;
        Ok(servers.into_iter().zip(information).collect())
    }
}

fn field<'a>(information: &'a str, name: &str) -> &'a str {
    let line = information.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().trim()
}
