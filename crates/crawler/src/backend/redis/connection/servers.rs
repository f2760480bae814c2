//! The servers of a Redis, and which of them has a key: one server, the primary that the Sentinels name, or the primaries of a
//! cluster, each with its slots.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use redis::{Cmd, FromRedisValue, Value, cmd};
use rustls::pki_types::CertificateDer;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::super::address::{Address, ServerAddress};
use super::CallTarget;
use super::failure::CommandFailure;
use super::link::{Client, Login};

/// How long one server may take to say where the others are, before the next one is asked.
const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(2);

const SLOTS: u16 = 1 << 14;

/// The servers, as far as they are known.
pub(super) struct Servers {
    address: Address,
    pub(super) login: Login,
    table: RwLock<ServerTable>,
    /// When the servers were last looked up. One look-up is for all who wait.
    looked_up: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct ServerTable {
    is_cluster: bool,
    /// The servers that can be written to.
    primaries: Vec<Arc<ServerAddress>>,
    /// The first and the last slot of a range, and the index of the primary that has them, in order.
    slots: Vec<(u16, u16, usize)>,
}

impl Servers {
    pub(super) fn new(address: Address, extra_roots: &[CertificateDer<'static>]) -> Servers {
        let login = Login::new(&address, extra_roots);
        Servers { address, login, table: RwLock::default(), looked_up: Mutex::default() }
    }

    pub(super) fn primaries(&self) -> Vec<Arc<ServerAddress>> {
        self.read(|table| table.primaries.clone())
    }

    /// Whether it is one server without Sentinels.
    pub(super) fn is_single(&self) -> bool {
        self.address.primary.is_none() && !self.is_cluster()
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.read(|table| table.is_cluster)
    }

    /// Whether a server is still one of the primaries, and was all the time.
    pub(super) fn has(&self, server: &Arc<ServerAddress>) -> bool {
        self.read(|table| table.primaries.iter().any(|primary| Arc::ptr_eq(primary, server)))
    }

    /// The server for a command.
    pub(super) fn server_for(&self, target: &CallTarget) -> Result<Arc<ServerAddress>, CommandFailure> {
        self.read(|table| {
            let first = table.primaries.first();
            let server = match target {
                CallTarget::Server(server) => table.primaries.iter().find(|known| *known == server).or(first),
                CallTarget::Key(key) if table.is_cluster => {
                    let slot = slot(key.as_bytes());
                    let range = table.slots.iter().find(|(from, to, _)| (*from..=*to).contains(&slot));
                    range.and_then(|(_, _, primary)| table.primaries.get(*primary))
                }
                CallTarget::Key(_) => first,
            };
            server
                .cloned()
                .ok_or_else(|| CommandFailure::rejected("CLUSTERDOWN", "no node has this part of the crawl"))
        })
    }

    /// A failure with the name of its server, if there are several.
    pub(super) fn with_name(&self, failure: CommandFailure, server: &ServerAddress) -> CommandFailure {
        if self.address.primary.is_none() && self.address.nodes[..] == [server.clone()] {
            return failure;
        }
        failure.of(server)
    }

    /// Looks up the servers, unless that was done since.
    pub(super) async fn look_up(&self, since: Instant) -> Result<(), CommandFailure> {
        let mut looked_up = self.looked_up.lock().await;
        let known = self.primaries();
        if looked_up.is_some_and(|last| last > since) || self.is_single() && !known.is_empty() {
            return Ok(());
        }
        let known =
            known.iter().map(|node| ServerAddress::clone(node)).filter(|_| self.address.primary.is_none());
        let mut result = Err(CommandFailure::NoReply("no reply".into()));
        for node in known.chain(self.address.nodes.clone()) {
            let asked = timeout(LOOK_UP_TIMEOUT, self.ask(&node)).await;
            let asked = asked.unwrap_or_else(|_| Err(CommandFailure::NoReply("no reply".into())));
            let failure = match asked {
                Ok(()) => {
                    result = Ok(());
                    break;
                }
                Err(failure) if self.address.primary.is_some() => failure.of(&format!("Sentinel {node}")),
                Err(failure) => self.with_name(failure, &node),
            };
            // Of two failures, one that does not pass, or the later one.
            if result.as_ref().is_err_and(CommandFailure::is_temporary) {
                result = Err(failure);
            }
        }
        // After a failure too: those who wait need not try the same.
        *looked_up = Some(Instant::now());
        result
    }

    async fn ask(&self, node: &ServerAddress) -> Result<(), CommandFailure> {
        match &self.address.primary {
            Some(name) => self.ask_sentinel(node, name).await,
            None => self.ask_server(node).await,
        }
    }

    /// Asks a server for all nodes of the cluster, if it is in one.
    async fn ask_server(&self, server: &ServerAddress) -> Result<(), CommandFailure> {
        let client = self.login.connect(server).await?;
        let information: String = query(&client, cmd("INFO").arg("cluster")).await?;
        if !information.contains("cluster_enabled:1") {
            if self.address.nodes.len() > 1 {
                let details = "it is no cluster, and only a cluster has several addresses";
                return Err(CommandFailure::rejected("ERR", details));
            }
            self.set(false, vec![(server.clone(), Vec::new())]);
            return Ok(());
        }
        let mut primaries: Vec<(ServerAddress, Vec<(u16, u16)>)> = Vec::new();
        let ranges: Vec<Vec<Value>> = query(&client, cmd("CLUSTER").arg("SLOTS")).await?;
        for range in ranges {
            let mut range = range.into_iter();
            let (first, last) = (convert(range.next())?, convert(range.next())?);
            // The first node of a range is its primary.
            let Some(primary) = range.next() else { continue };
            let primary = node(primary, server)?;
            match primaries.iter_mut().find(|(known, _)| *known == primary) {
                Some((_, slots)) => slots.push((first, last)),
                None => primaries.push((primary, vec![(first, last)])),
            }
        }
        if primaries.is_empty() {
            return Err(CommandFailure::rejected("CLUSTERDOWN", "no node of the cluster has any slots"));
        }
        self.set(true, primaries);
        Ok(())
    }

    /// Asks a Sentinel for the primary.
    async fn ask_sentinel(&self, sentinel: &ServerAddress, name: &str) -> Result<(), CommandFailure> {
        let mut command = cmd("SENTINEL");
        command.arg("get-master-addr-by-name").arg(name);
        let ask = async |with_password| {
            let client = self.login.for_sentinel(with_password).connect(sentinel).await?;
            client.query(&command).await
        };
        let primary = match ask(false).await {
            Err(failure) if failure.is("NOAUTH") => ask(true).await?,
            reply => reply?,
        };
        if primary == Value::Nil {
            return Err(CommandFailure::rejected("ERR", &format!("it knows no primary named '{name}'")));
        }
        self.set(false, vec![(node(primary, sentinel)?, Vec::new())]);
        Ok(())
    }

    /// Replaces the servers. Those that were known stay the same.
    fn set(&self, is_cluster: bool, servers: Vec<(ServerAddress, Vec<(u16, u16)>)>) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let mut new = ServerTable { is_cluster, ..ServerTable::default() };
        for (index, (node, ranges)) in servers.into_iter().enumerate() {
            new.slots.extend(ranges.into_iter().map(|(first, last)| (first, last, index)));
            let known = table.primaries.iter().find(|known| ***known == node).cloned();
            new.primaries.push(known.unwrap_or_else(|| Arc::new(node)));
        }
        *table = new;
    }

    fn read<T>(&self, read: impl FnOnce(&ServerTable) -> T) -> T {
        read(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn query<T: FromRedisValue>(client: &Client, command: &Cmd) -> Result<T, CommandFailure> {
    convert(Some(client.query(command).await?))
}

fn convert<T: FromRedisValue>(value: Option<Value>) -> Result<T, CommandFailure> {
    redis::from_redis_value(value.unwrap_or_default())
        .map_err(|error| CommandFailure::NotRedis(error.to_string()))
}

/// A node as Redis describes it: host, port, and more. A node that does not know its own address has that of the server that
/// was asked.
fn node(description: Value, asked: &ServerAddress) -> Result<ServerAddress, CommandFailure> {
    let mut description = convert::<Vec<Value>>(Some(description))?.into_iter();
    let host: Option<String> = convert(description.next())?;
    let host = host.filter(|host| !host.is_empty() && host != "?").unwrap_or_else(|| asked.host.clone());
    Ok(ServerAddress { host, port: convert(description.next())? })
}

/// The slot of a key: of the text between its first braces, if there is any.
fn slot(key: &[u8]) -> u16 {
    let tag = memchr::memchr(b'{', key).and_then(|open| {
        let rest = &key[open + 1..];
        memchr::memchr(b'}', rest).filter(|close| *close > 0).map(|close| &rest[..close])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM, with which a cluster assigns keys to slots.
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
        assert_ne!(slot(b"foo{}{bar}"), slot(b"bar"));
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b"crawler:{news:p1}:tasks"), slot(b"news:p1"));
    }
}
