//! Which servers a Redis is made of, and which of them is asked for what: a server that stands alone, the primary that
//! the Sentinels know, or the primaries of a cluster, each with its slots.

use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use redis::{FromRedisValue, Value, cmd};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::super::address::{Address, Node};
use super::failure::Failure;
use super::link::{Common, Link};
use super::wire::Wire;

/// How long one server may take to tell where the others are, before another is asked.
const LOOK_UP: Duration = Duration::from_secs(2);

const SLOTS: u16 = 1 << 14;

/// What kind of a Redis it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A server that stands alone.
    Plain,
    /// A primary with replicas, one of which takes its place when the Sentinels say so.
    Sentinel,
    /// A cluster, in which every primary has a part.
    Cluster,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Plain => "a server that stands alone",
            Kind::Sentinel => "a primary watched by Sentinel",
            Kind::Cluster => "a cluster",
        })
    }
}

/// A server that may be written to.
pub(super) struct Primary {
    pub(super) node: Node,
    /// It is one of several, and failures tell which.
    is_named: bool,
    link: Link,
    /// A second one for what replicas have to confirm: who needs no confirmation does not wait for it.
    confirming: OnceLock<Link>,
}

/// The servers, as far as they are known.
pub(super) struct Nodes {
    address: Address,
    common: Arc<Common>,
    table: RwLock<Table>,
    /// One looks for all; when that was done last.
    looked_up: Mutex<Option<Instant>>,
}

struct Table {
    kind: Kind,
    primaries: Vec<Arc<Primary>>,
    /// The first and the last of some slots, and the primary that has them, in order.
    slots: Vec<(u16, u16, usize)>,
}

impl Nodes {
    /// Nothing is known yet.
    pub(super) fn new(address: Address, common: Arc<Common>) -> Nodes {
        let kind = if address.primary.is_some() { Kind::Sentinel } else { Kind::Plain };
        let table = Table { kind, primaries: Vec::new(), slots: Vec::new() };
        Nodes { address, common, table: RwLock::new(table), looked_up: Mutex::default() }
    }

    pub(super) fn kind(&self) -> Kind {
        self.read(|table| table.kind)
    }

    pub(super) fn primaries(&self) -> Vec<Arc<Primary>> {
        self.read(|table| table.primaries.clone())
    }

    /// Whether it is still one of them.
    pub(super) fn has(&self, primary: &Arc<Primary>) -> bool {
        self.read(|table| table.primaries.iter().any(|known| Arc::ptr_eq(known, primary)))
    }

    /// Who is asked for a key, or for what has none; or this one server, while it is there.
    pub(super) fn for_call(&self, node: Option<&Node>, key: Option<&[u8]>) -> Result<Arc<Primary>, Failure> {
        self.read(|table| {
            let primary = match (table.kind, key) {
                _ if node.is_some() => {
                    let wanted = table.primaries.iter().find(|primary| Some(&primary.node) == node);
                    wanted.or(table.primaries.first())
                }
                (Kind::Cluster, Some(key)) => {
                    let slot = slot(key);
                    let next = table.slots.partition_point(|(first, _, _)| *first <= slot);
                    let part = table.slots[..next].last().filter(|(_, last, _)| slot <= *last);
                    part.and_then(|(_, _, primary)| table.primaries.get(*primary))
                }
                _ => table.primaries.first(),
            };
            primary
                .cloned()
                .ok_or_else(|| Failure::answered("CLUSTERDOWN no node has this part of the crawl"))
        })
    }

    /// Looks where the servers are, unless somebody did since then.
    pub(super) async fn look_up(&self, since: Instant) -> Result<(), Failure> {
        let mut looked_up = self.looked_up.lock().await;
        if looked_up.is_some_and(|last| last > since) {
            return Ok(());
        }
        let found = match &self.address.primary {
            Some(name) => self.by_sentinel(name).await,
            None => self.by_seed().await,
        };
        // Also where nothing was found: all who are waiting need not try the same again.
        *looked_up = Some(Instant::now());
        found
    }

    /// Asks the nodes that are known, and then the seeds, for all nodes of the cluster, if it is one.
    async fn by_seed(&self) -> Result<(), Failure> {
        let is_known = !self.primaries().is_empty();
        if is_known && self.kind() == Kind::Plain {
            return Ok(());
        }
        let known = self.primaries().into_iter().map(|primary| primary.node.clone());
        let mut failure = Failure::answered("CLUSTERDOWN no node of it is known");
        for node in known.chain(self.address.nodes.clone()) {
            match timeout(LOOK_UP, self.ask_seed(&node, is_known)).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(failed)) => failure = worse(failure, self.named(failed, &node)),
                Err(_) => failure = worse(failure, self.named(Failure::Cut("no answer".into()), &node)),
            }
        }
        Err(failure)
    }

    fn named(&self, failure: Failure, node: &Node) -> Failure {
        match self.address.nodes[..] == [node.clone()] {
            true => failure,
            false => failure.of(node),
        }
    }

    async fn ask_seed(&self, seed: &Node, is_cluster: bool) -> Result<(), Failure> {
        let mut wire = Wire::open(seed, &self.common.access).await?;
        if !is_cluster {
            let information: String = ask(&mut wire, cmd("INFO").arg("cluster")).await?;
            if !information.contains("cluster_enabled:1") {
                return match self.address.nodes.len() {
                    1 => {
                        self.found(Kind::Plain, vec![(seed.clone(), Vec::new())]);
                        Ok(())
                    }
                    _ => Err(Failure::answered(
                        "ERR it is no cluster, and only a cluster has several addresses",
                    )),
                };
            }
        }
        let parts: Vec<(u16, u16, Vec<Value>)> = shards(&mut wire).await?;
        let mut primaries: Vec<(Node, Vec<(u16, u16)>)> = Vec::new();
        for (first, last, mut nodes) in parts {
            if nodes.is_empty() {
                continue;
            }
            let node = node(nodes.swap_remove(0), &seed.host)?;
            match primaries.iter_mut().find(|(known, _)| *known == node) {
                Some((_, slots)) => slots.push((first, last)),
                None => primaries.push((node, vec![(first, last)])),
            }
        }
        if primaries.is_empty() {
            return Err(Failure::answered("CLUSTERDOWN no node of the cluster has anything"));
        }
        self.found(Kind::Cluster, primaries);
        Ok(())
    }

    /// Asks one Sentinel after the other for the primary.
    async fn by_sentinel(&self, name: &str) -> Result<(), Failure> {
        let mut failure = Failure::Cut("no Sentinel answers".into());
        for sentinel in &self.address.nodes {
            match timeout(LOOK_UP, self.ask_sentinel(sentinel, name)).await {
                Ok(Ok(primary)) => {
                    self.found(Kind::Sentinel, vec![(primary, Vec::new())]);
                    return Ok(());
                }
                Ok(Err(failed)) => failure = worse(failure, failed.of(&format!("Sentinel {sentinel}"))),
                Err(_) => failure = worse(failure, Failure::Cut(format!("Sentinel {sentinel}: no answer"))),
            }
        }
        Err(failure)
    }

    async fn ask_sentinel(&self, sentinel: &Node, name: &str) -> Result<Node, Failure> {
        let access = &self.common.access;
        let mut where_is = cmd("SENTINEL");
        where_is.arg("get-master-addr-by-name").arg(name);
        let mut wire = Wire::open(sentinel, &access.anonymous()).await?;
        let answer: Result<Value, Failure> = ask(&mut wire, &where_is).await;
        let answer = match answer {
            Err(failure) if failure.is("NOAUTH") => {
                ask(&mut Wire::open(sentinel, &access.to_sentinel()).await?, &where_is).await?
            }
            answer => answer?,
        };
        match answer {
            Value::Nil => Err(Failure::answered(&format!("ERR it knows no primary named '{name}'"))),
            answer => node(answer, &sentinel.host),
        }
    }

    /// Takes note of the servers; those that were known keep their connections.
    fn found(&self, kind: Kind, found: Vec<(Node, Vec<(u16, u16)>)>) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let is_named = self.address.nodes.len() > 1 || kind != Kind::Plain;
        let mut slots = Vec::new();
        let mut primaries = Vec::new();
        for (index, (node, parts)) in found.into_iter().enumerate() {
            slots.extend(parts.into_iter().map(|(first, last)| (first, last, index)));
            let known = table.primaries.iter().find(|primary| primary.node == node).cloned();
            primaries.push(known.unwrap_or_else(|| {
                let link = Link::new(node.clone(), is_named, Arc::clone(&self.common));
                Arc::new(Primary { node, is_named, link, confirming: OnceLock::new() })
            }));
        }
        slots.sort_unstable();
        *table = Table { kind, primaries, slots };
    }

    /// The way to a server.
    pub(super) fn link<'a>(&self, primary: &'a Primary, confirms: bool) -> &'a Link {
        match confirms {
            false => &primary.link,
            true => primary
                .confirming
                .get_or_init(|| Link::new(primary.node.clone(), primary.is_named, Arc::clone(&self.common))),
        }
    }

    /// Whoever answers for that name may be somebody else now.
    pub(super) fn reconnect(&self) {
        for primary in self.primaries() {
            primary.link.reconnect();
            if let Some(link) = primary.confirming.get() {
                link.reconnect();
            }
        }
    }

    fn read<T>(&self, look: impl FnOnce(&Table) -> T) -> T {
        look(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Of two reasons the one that does not pass, or the later.
fn worse(one: Failure, other: Failure) -> Failure {
    if one.passes() { other } else { one }
}

async fn shards(wire: &mut Wire) -> Result<Vec<(u16, u16, Vec<Value>)>, Failure> {
    let parts: Vec<Vec<Value>> = ask(wire, cmd("CLUSTER").arg("SLOTS")).await?;
    let part = |mut part: Vec<Value>| {
        let nodes = part.split_off(part.len().min(2));
        let mut ends = part.into_iter().map(meant::<u16>);
        let first = ends.next().transpose()?.unwrap_or_default();
        Ok((first, ends.next().transpose()?.unwrap_or(first), nodes))
    };
    parts.into_iter().map(part).collect()
}

async fn ask<T: FromRedisValue>(wire: &mut Wire, command: &redis::Cmd) -> Result<T, Failure> {
    let reply = wire.ask(std::slice::from_ref(command)).await?.pop();
    meant(reply.unwrap_or(Ok(Value::Nil))?)
}

fn meant<T: FromRedisValue>(value: Value) -> Result<T, Failure> {
    redis::from_redis_value(value).map_err(|error| Failure::Foreign(error.to_string()))
}

/// A node as Redis describes it: where it is, and what more there is to know. One that does not know its own address is
/// where it was asked.
fn node(described: Value, asked: &str) -> Result<Node, Failure> {
    let mut described = meant::<Vec<Value>>(described)?.into_iter();
    let host: Option<String> = meant(described.next().unwrap_or(Value::Nil))?;
    let host = host.filter(|host| !host.is_empty() && host != "?").unwrap_or_else(|| asked.to_owned());
    Ok(Node { host, port: meant(described.next().unwrap_or(Value::Nil))? })
}

/// The slot of a key: of what is between its first braces, if there is anything.
fn slot(key: &[u8]) -> u16 {
    let tag = memchr::memchr(b'{', key).and_then(|open| {
        let rest = &key[open + 1..];
        memchr::memchr(b'}', rest).filter(|close| *close > 0).map(|close| &rest[..close])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM, by which a cluster divides its keys.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        // As CLUSTER KEYSLOT says.
        assert_eq!(slot(b"somekey"), 11058);
        assert_eq!(slot(b"foo{hash_tag}"), 2515);
        assert_eq!(slot(b"foo{}{bar}"), slot(b"foo{}{bar}"));
        assert_ne!(slot(b"foo{}{bar}"), slot(b"bar"));
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b"crawler:{news:p1}:tasks"), slot(b"news:p1"));
    }
}
