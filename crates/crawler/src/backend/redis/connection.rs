//! The connection to Redis: sends many commands in one round trip, reconnects, and repeats commands whose reply was lost.

mod failure;
mod limits;
mod link;
mod nodes;
mod patience;
mod reply;
mod server;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::{Arg, Cmd, FromRedisValue, ToRedisArgs, Value, cmd};
use rustls::pki_types::CertificateDer;
use tokio::time::{Instant, sleep};

use self::failure::Failure;
use self::link::{Common, Confirmation, Delivery, MOST_BYTES, Order};
pub use self::nodes::Kind;
use self::nodes::{Nodes, Primary};
pub use self::patience::Notice;
use self::patience::{Patience, Stuck, longer};
use self::reply::Reply;
pub use self::server::{Persistence, Server};
use self::wire::Access;
use super::super::BackendError;
use super::address::{Address, Node};
use super::scripts::Lua;
use crate::error::{StorageError, StorageErrorKind};
use crate::stop::StopHandle;

/// Options for the connection to Redis.
#[derive(Clone)]
pub struct RedisConnectOptions {
    /// Timeout for the first connection.
    pub connect_timeout: Duration,
    /// Whether to wait without a limit in a later outage. Otherwise `connect_timeout` applies.
    pub retry_forever: bool,
    /// After a request to stop, an outage is waited for only briefly.
    pub stop: StopHandle,
    /// Receives messages about the start and the end of outages.
    pub notice: Notice,
    /// CA certificates to trust in addition to the well-known roots, for `rediss://`.
    pub extra_roots: Vec<CertificateDer<'static>>,
}

impl Default for RedisConnectOptions {
    fn default() -> RedisConnectOptions {
        RedisConnectOptions {
            connect_timeout: Duration::from_secs(5),
            retry_forever: true,
            stop: StopHandle::new(),
            notice: Arc::new(|_| {}),
            extra_roots: Vec::new(),
        }
    }
}

/// A command on its way to Redis.
pub(super) struct Call {
    command: Cmd,
    /// The key, if it is not the first argument.
    key: Option<String>,
    /// The server to send it to; otherwise the one that has the key.
    node: Option<Node>,
}

impl Call {
    /// A command of Redis. Its first argument, if it has one, is its key.
    pub(super) fn plain(name: &str) -> Call {
        Call { command: cmd(name), key: None, node: None }
    }

    /// A command of Redis whose key is not its first argument.
    pub(super) fn keyed(name: &str, key: &str) -> Call {
        Call { key: Some(key.to_owned()), ..Call::plain(name) }
    }

    pub(super) fn arg(&mut self, argument: impl ToRedisArgs) -> &mut Call {
        self.command.arg(argument);
        self
    }

    fn key(&self) -> Option<&[u8]> {
        if let Some(key) = &self.key {
            return Some(key.as_bytes());
        }
        let mut words = self.command.args_iter().map(|word| match word {
            Arg::Simple(word) => word,
            _ => b"",
        });
        // A script's hash and the number of its keys come before them.
        let skipped = if words.next() == Some(b"EVALSHA") { 2 } else { 0 };
        words.nth(skipped)
    }
}

/// A connection that reconnects after an outage.
#[derive(Clone)]
pub(super) struct Connection {
    inner: Arc<Inner>,
}

struct Inner {
    /// The address of Redis for messages, without user name and password.
    address: String,
    nodes: Nodes,
    common: Arc<Common>,
    /// The deadline of the first connection.
    deadline: Instant,
    /// How long a later outage may last; `None` for no limit.
    limit: Option<Duration>,
    stop: StopHandle,
    is_open: AtomicBool,
}

/// A call without a reply, and its index among the calls of its operation.
struct Pending {
    place: usize,
    call: Call,
}

/// Calls with their replies.
type Answered = Vec<(Pending, Reply)>;

impl Connection {
    /// Connects, and checks that a crawl is safe there.
    pub(super) async fn open(
        address: &Address,
        options: RedisConnectOptions,
    ) -> Result<Connection, BackendError> {
        let patience = Patience::new(address.to_string(), Arc::clone(&options.notice));
        Connection::open_with(address, options, Arc::new(patience)).await
    }

    /// Connects once more. Outages are reported once for both connections.
    pub(super) async fn open_beside(
        &self,
        address: &Address,
        options: RedisConnectOptions,
    ) -> Result<Connection, BackendError> {
        Connection::open_with(address, options, Arc::clone(&self.inner.common.patience)).await
    }

    async fn open_with(
        address: &Address,
        options: RedisConnectOptions,
        patience: Arc<Patience>,
    ) -> Result<Connection, BackendError> {
        let shown = address.to_string();
        let common = Arc::new(Common {
            access: Access::new(address, &options.extra_roots),
            patience,
            traffic: Default::default(),
            asks_for_role: address.primary.is_some(),
        });
        let nodes = Nodes::new(address.clone(), Arc::clone(&common));
        let deadline = Instant::now() + options.connect_timeout;
        let limit = (!options.retry_forever).then_some(options.connect_timeout);
        let is_open = AtomicBool::new(false);
        let stop = options.stop;
        let inner = Inner { address: shown, nodes, common, deadline, limit, stop, is_open };
        let connection = Connection { inner: Arc::new(inner) };
        connection.find().await?;
        if address.primary.is_some() {
            connection.watch_primary();
        }
        connection.check().await?;
        connection.load().await?;
        connection.inner.is_open.store(true, Ordering::Relaxed);
        Ok(connection)
    }

    pub(super) fn address(&self) -> &str {
        &self.inner.address
    }

    /// The start of the current outage, if there is one.
    fn in_trouble_since(&self) -> Option<Instant> {
        self.inner.common.patience.since()
    }

    /// How many connections were made so far. After a new one, Redis may have lost its last writes: it may have restarted or
    /// failed over.
    pub(super) fn connections(&self) -> u64 {
        self.inner.common.traffic.connections.load(Ordering::Relaxed)
    }

    /// How many batches were sent so far, each a round trip, and how many commands were in them.
    pub(super) fn traffic(&self) -> (u64, u64) {
        let traffic = &self.inner.common.traffic;
        (traffic.batches.load(Ordering::Relaxed), traffic.commands.load(Ordering::Relaxed))
    }

    /// A script on keys with this base.
    pub(super) fn script(&self, lua: &Lua, base: &str) -> Call {
        let mut command = cmd("EVALSHA");
        command.arg(lua.script.get_hash()).arg(1).arg(base);
        Call { command, key: None, node: None }
    }

    /// Runs commands in one round trip. Commands whose reply is lost are repeated, so they must be idempotent. None may
    /// depend on an earlier one of them.
    pub(super) async fn all(&self, calls: Vec<Call>) -> Result<Vec<Value>, BackendError> {
        self.carry_out(calls, None).await
    }

    /// Runs commands, and waits until so many replicas have what they wrote, for a limited time. After that it prints a
    /// notice, and the crawl continues: the confirmation only limits what a failover can lose.
    pub(super) async fn all_confirmed(
        &self,
        calls: Vec<Call>,
        replicas: u32,
        within: Duration,
    ) -> Result<Vec<Value>, BackendError> {
        // For Redis, a timeout of 0 means no limit.
        let within = self.inner.common.patience.wait_for_replicas(within).max(Duration::from_millis(1));
        self.carry_out(calls, (replicas > 0).then_some(Confirmation { replicas, within })).await
    }

    /// Runs commands in one round trip, whose replies all have one type.
    pub(super) async fn each<T: FromRedisValue>(&self, calls: Vec<Call>) -> Result<Vec<T>, BackendError> {
        self.all(calls).await?.into_iter().map(|value| self.read(value)).collect()
    }

    /// Runs one command.
    pub(super) async fn one<T: FromRedisValue>(&self, call: Call) -> Result<T, BackendError> {
        let value = self.all(vec![call]).await?.pop().unwrap_or_default();
        self.read(value)
    }

    /// Converts a reply.
    pub(super) fn read<T: FromRedisValue>(&self, value: Value) -> Result<T, BackendError> {
        redis::from_redis_value(value).map_err(|error| {
            let address = self.address();
            let what = format!("Redis at {address} answered what nobody expected");
            let remedy = "do all processes of the crawl have the same version?";
            BackendError::Redis(StorageError::with_source(StorageErrorKind::Unsupported, what, error, remedy))
        })
    }

    async fn carry_out(
        &self,
        calls: Vec<Call>,
        confirmation: Option<Confirmation>,
    ) -> Result<Vec<Value>, BackendError> {
        let mut values = vec![Value::Nil; calls.len()];
        let pending = |(place, call)| Pending { place, call };
        let mut pending: Vec<Pending> = calls.into_iter().enumerate().map(pending).collect();
        let (asked, mut stuck, mut pause) = (Instant::now(), None::<Stuck>, Duration::ZERO);
        let mut last = Failure::Cut("no answer".into());
        while !pending.is_empty() {
            let mut failures = Vec::new();
            let answered = tokio::select! {
                biased;
                answered = self.send(pending, confirmation) => answered,
                () = self.asked_to_end(), if stuck.is_some() || self.inner.stop.is_stop_requested() => {
                    return Err(self.give_up(&last, stuck));
                }
            };
            for (call, reply) in answered {
                match reply {
                    Ok(value) => values[call.place] = value,
                    Err(failure) => failures.push((call, failure)),
                }
            }
            if let Some(failure) = self.worst(&failures) {
                match &stuck {
                    Some(stuck) => stuck.still(&failure),
                    // The server does not have the scripts yet. They are loaded before the next try.
                    None if failure.is("NOSCRIPT") && pause.is_zero() => {}
                    None => stuck = Some(self.inner.common.patience.wait(asked, &failure)),
                }
                if self.is_too_late(asked) {
                    return Err(self.give_up(&failure, stuck));
                }
                self.pause(&failure, &mut pause).await?;
                last = failure;
            }
            pending = failures.into_iter().map(|(call, _)| call).collect();
        }
        Ok(values)
    }

    /// The failure that decides what happens next: one that is permanent, if there is any.
    fn worst(&self, failures: &[(Pending, Failure)]) -> Option<Failure> {
        let all = || failures.iter().map(|(_, failure)| failure);
        all().find(|failure| !failure.passes()).or(all().next()).cloned()
    }

    /// Waits before the next try, or gives up.
    async fn pause(&self, failure: &Failure, pause: &mut Duration) -> Result<(), BackendError> {
        let inner = &self.inner;
        if !failure.passes() {
            return Err(failure.trouble(&inner.address));
        }
        let failed = Instant::now();
        if failure.is("READONLY") {
            inner.nodes.reconnect();
        }
        let is_first = pause.is_zero();
        *pause = longer(*pause);
        match failure {
            // The first failure is mostly short: a server loads the scripts, or a key has moved.
            Failure::Cut(_) if is_first => {}
            _ if is_first && (failure.is("NOSCRIPT") || failure.is("MOVED")) => {}
            // Reconnecting has a pause of its own.
            Failure::Cut(_) => sleep(longer(Duration::ZERO)).await,
            _ => sleep(*pause).await,
        }
        if !failure.is("NOSCRIPT") && !failure.is("OOM") {
            // If looking for the servers fails, so does the next try.
            let _ = inner.nodes.look_up(failed).await;
        }
        Ok(())
    }

    /// Sends calls to their servers, all at the same time, and returns them with the replies.
    async fn send(&self, pending: Vec<Pending>, confirmation: Option<Confirmation>) -> Answered {
        let (parcels, mut answered) = self.sort(pending);
        let nodes = &self.inner.nodes;
        let sent = parcels.into_iter().map(|parcel| {
            let Parcel { primary, calls, bytes } = parcel;
            let order = Order { bytes, commands: calls.len(), confirmation };
            (calls, nodes.link(&primary, confirmation.is_some()).send(order), primary)
        });
        // All are sent before the first reply is awaited. Until then the primary is kept, and with it the link.
        let sent: Vec<_> = sent.collect();
        let mut fewest = i64::MAX;
        for (calls, delivered, primary) in sent {
            let delivered = delivered.await.unwrap_or_else(|_| Err(Failure::Cut("connection closed".into())));
            match delivered {
                // It was replaced meanwhile, so its writes are lost. The calls are sent to the new primary.
                Ok(_) if !nodes.has(&primary) => {
                    let lost = || Err(Failure::Cut("another has taken its place".into()));
                    answered.extend(calls.into_iter().map(|call| (call, lost())));
                }
                Ok(Delivery { replies, confirmed }) => {
                    answered.extend(calls.into_iter().zip(replies));
                    fewest = fewest.min(confirmed);
                }
                Err(failure) => {
                    answered.extend(calls.into_iter().map(|call| (call, Err(failure.clone()))));
                }
            }
        }
        match confirmation {
            Some(Confirmation { replicas, .. }) if fewest < i64::from(replicas) => {
                self.inner.common.patience.unconfirmed(fewest, replicas);
            }
            Some(_) if fewest < i64::MAX => self.inner.common.patience.confirmed(),
            _ => {}
        }
        answered
    }

    /// Groups calls by server, in parcels of limited size. A call whose server is unknown fails.
    fn sort(&self, pending: Vec<Pending>) -> (Vec<Parcel>, Answered) {
        let (mut parcels, mut homeless) = (Vec::<Parcel>::new(), Answered::new());
        for call in pending {
            let primary = match self.inner.nodes.for_call(call.call.node.as_ref(), call.call.key()) {
                Ok(primary) => primary,
                Err(failure) => {
                    homeless.push((call, Err(failure)));
                    continue;
                }
            };
            let fits = |parcel: &&mut Parcel| {
                Arc::ptr_eq(&parcel.primary, &primary) && parcel.bytes.len() < MOST_BYTES
            };
            let parcel = match parcels.iter_mut().rev().find(fits) {
                Some(parcel) => parcel,
                None => {
                    parcels.push(Parcel { primary, calls: Vec::new(), bytes: Vec::new() });
                    parcels.last_mut().expect("it was just put there")
                }
            };
            call.call.command.write_packed_command(&mut parcel.bytes);
            parcel.calls.push(call);
        }
        (parcels, homeless)
    }
}

/// Calls that go to one server together.
struct Parcel {
    primary: Arc<Primary>,
    calls: Vec<Pending>,
    bytes: Vec<u8>,
}
