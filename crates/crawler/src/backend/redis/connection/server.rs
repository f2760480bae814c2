//! Makes sure at the beginning that a Redis is one that a crawl is safe on, and tells what it is.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::super::address::Node;
use super::super::scripts;
use super::link::loads;
use super::nodes::{Kind, Primary};
use super::patience::{Stuck, longer};
use super::{Call, Connection};
use crate::backend::BackendError;
use crate::error::StorageErrorKind;

/// The oldest Redis whose scripts and streams are as ours need them.
const OLDEST: u32 = 7;

/// How often the Sentinels are asked who is the primary.
const WATCH: Duration = Duration::from_secs(1);

/// What Redis is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its version, and its name where that is another than Redis.
    pub version: String,
    /// Where it is, without user name and password.
    pub address: String,
    /// How it is made up.
    pub kind: Kind,
}

/// What a server, or the most forgetful one of a cluster, writes to its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Persistence {
    /// Nothing: with the process everything is gone.
    Nothing,
    /// Nobody may know.
    Unknown,
    /// Everything, now and then: a crash loses minutes.
    Snapshots,
    /// Every change: a crash loses a second or nothing.
    AppendOnlyFile,
}

impl Connection {
    /// Finds the servers.
    pub(super) async fn find(&self) -> Result<(), BackendError> {
        let (mut pause, asked, mut stuck) = (longer(Duration::ZERO), Instant::now(), None::<Stuck>);
        loop {
            let Err(failure) = self.inner.nodes.look_up(Instant::now()).await else { return Ok(()) };
            if !failure.passes() || Instant::now() + pause > self.inner.deadline {
                return Err(self.give_up(&failure, stuck));
            }
            match &stuck {
                Some(stuck) => stuck.still(&failure),
                None => stuck = Some(self.inner.common.patience.wait(asked, &failure)),
            }
            tokio::select! {
                () = self.asked_to_end() => return Err(self.give_up(&failure, stuck)),
                () = sleep(pause) => {}
            }
            pause = longer(pause);
        }
    }

    /// Goes to another primary as soon as the Sentinels name it. One that they took for dead, or were told to replace, may go on
    /// answering for many seconds, until they have made a replica of it: all that it is told in this time is lost.
    pub(super) fn watch_primary(&self) {
        let inner = Arc::downgrade(&self.inner);
        tokio::spawn(async move {
            loop {
                sleep(WATCH).await;
                let Some(inner) = inner.upgrade() else { return };
                // Where no Sentinel answers, whoever was the primary is as good as any.
                let _ = inner.nodes.look_up(Instant::now()).await;
            }
        });
    }

    /// Refuses a Redis that is too old, or that throws away what it is asked to keep.
    pub(super) async fn check(&self) -> Result<(), BackendError> {
        let address = self.address();
        for information in self.information().await? {
            let version = field(&information, "redis_version");
            let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
            if major < OLDEST {
                let message = format!(
                    "Redis at {address} is version {version}; the crawl needs {OLDEST}.0 or later, or Valkey"
                );
                return Err(BackendError::redis(StorageErrorKind::Unsupported, message));
            }
            let policy = field(&information, "maxmemory_policy");
            if field(&information, "maxmemory") != "0" && policy != "noeviction" && !policy.is_empty() {
                let message = format!(
                    "Redis at {address} throws keys away when its memory is full (maxmemory-policy {policy}), and \
                     with them URLs that are still to be visited; set maxmemory-policy to noeviction"
                );
                return Err(BackendError::redis(StorageErrorKind::Unsupported, message));
            }
            if field(&information, "role") == "slave" && self.inner.nodes.kind() == Kind::Plain {
                let message = format!(
                    "Redis at {address} is a replica, and what is written to a replica is lost; give the address of its \
                     primary, or of the Sentinels that know it: redis+sentinel://host:26379/NAME"
                );
                return Err(BackendError::redis(StorageErrorKind::Unsupported, message));
            }
        }
        Ok(())
    }

    /// Teaches every server the scripts that every crawl needs and it does not know. Most know them, from whoever came before.
    pub(super) async fn load(&self) -> Result<(), BackendError> {
        let nodes = self.inner.nodes.primaries();
        let asked = nodes.iter().map(|primary| {
            let mut exist = Call { node: Some(primary.node.clone()), ..Call::plain("SCRIPT") };
            exist.arg("EXISTS");
            for lua in scripts::all() {
                exist.arg(lua.script.get_hash());
            }
            exist
        });
        let known: Vec<Vec<bool>> = self.each(asked.collect()).await?;
        let calls = nodes.iter().zip(known).flat_map(|(primary, known)| {
            let unknown = loads(scripts::all()).into_iter().zip(known).filter(|(_, is_known)| !is_known);
            unknown.map(|(command, _)| Call { command, key: None, node: Some(primary.node.clone()) })
        });
        self.all(calls.collect()).await?;
        Ok(())
    }

    /// What Redis is there.
    #[cfg(test)]
    pub(super) async fn server(&self) -> Result<Server, BackendError> {
        let information = self.information().await?;
        let first = information.first().map_or("", String::as_str);
        let version = match field(first, "valkey_version") {
            "" => field(first, "redis_version").to_owned(),
            valkey => format!("Valkey {valkey}"),
        };
        Ok(Server { version, address: self.address().to_owned(), kind: self.inner.nodes.kind() })
    }

    /// What is on the disks of the servers, for a warning.
    pub(in super::super) async fn persistence(&self) -> Result<Persistence, BackendError> {
        let mut weakest = Persistence::AppendOnlyFile;
        for primary in self.inner.nodes.primaries() {
            let to_it = |name: &str| Call { node: Some(primary.node.clone()), ..Call::plain(name) };
            let information: String = self.one(to_it("INFO")).await?;
            if field(&information, "aof_enabled") == "1" {
                continue;
            }
            let mut save = to_it("CONFIG");
            save.arg("GET").arg("save");
            // Who may not ask is told so, and cannot be told more.
            let save = self.one::<Vec<String>>(save).await.ok();
            weakest = weakest.min(match save.as_deref() {
                Some([_, save]) if save.is_empty() => Persistence::Nothing,
                Some([_, _]) => Persistence::Snapshots,
                _ => Persistence::Unknown,
            });
        }
        Ok(weakest)
    }

    /// All servers that store data.
    pub(in super::super) fn servers(&self) -> Vec<Node> {
        self.inner.nodes.primaries().iter().map(|primary| primary.node.clone()).collect()
    }

    /// A command for one server.
    pub(in super::super) fn on_server(&self, name: &str, server: &Node) -> Call {
        Call { node: Some(server.clone()), ..Call::plain(name) }
    }

    /// How many replicas every server has, at the least.
    pub(in super::super) async fn replicas(&self) -> Result<u32, BackendError> {
        let information = self.information().await?;
        let replicas =
            information.iter().map(|server| field(server, "connected_slaves").parse().unwrap_or(0));
        Ok(replicas.min().unwrap_or(0))
    }

    /// What each server says of itself.
    async fn information(&self) -> Result<Vec<String>, BackendError> {
        let primaries = self.inner.nodes.primaries();
        let ask = |primary: &Arc<Primary>| Call { node: Some(primary.node.clone()), ..Call::plain("INFO") };
        self.each(primaries.iter().map(ask).collect()).await
    }
}

fn field<'a>(information: &'a str, name: &str) -> &'a str {
    let line = information.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().trim()
}
