//! The connection to Redis: many commands in one round trip, made again where their answer was lost, for as long as it
//! takes.

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

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// How many arrived answers a script is told of.
const MOST_ARRIVED: usize = 200;

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
    /// The one server that is to be asked; otherwise it is who has the key.
    node: Option<Node>,
    /// Where and under which name a script's answer is remembered until it has arrived.
    answer: Option<(String, String)>,
}

impl Call {
    /// A command of Redis. Its first argument, if it has one, is its key.
    pub(super) fn plain(name: &str) -> Call {
        Call { command: cmd(name), node: None, answer: None }
    }

    pub(super) fn arg(&mut self, argument: impl ToRedisArgs) -> &mut Call {
        self.command.arg(argument);
        self
    }

    fn key(&self) -> Option<&[u8]> {
        let mut words = self.command.args_iter().map(|word| match word {
            Arg::Simple(word) => word,
            _ => b"",
        });
        // A script's hash and the number of its keys come before them.
        let skipped = if words.next() == Some(b"EVALSHA") { 2 } else { 0 };
        words.nth(skipped)
    }
}

/// A connection that comes back.
#[derive(Clone)]
pub(super) struct Connection {
    inner: Arc<Inner>,
}

struct Inner {
    /// Where Redis is, for messages: without user name and password.
    address: String,
    nodes: Nodes,
    common: Arc<Common>,
    /// Until when an outage may last at first.
    deadline: Instant,
    /// How long one may last afterwards, if not for ever.
    limit: Option<Duration>,
    stop: StopHandle,
    is_open: AtomicBool,
    /// The names of the answers that have arrived, by where they are remembered.
    arrived: Mutex<HashMap<String, Vec<String>>>,
}

/// A call that has not been answered yet, and its place among those it was made with.
struct Pending {
    place: usize,
    call: Call,
}

/// Calls, each with what came of it.
type Answered = Vec<(Pending, Reply)>;

impl Connection {
    /// Connects, and makes sure that a crawl is safe there.
    pub(super) async fn open(
        address: &Address,
        options: RedisConnectOptions,
    ) -> Result<Connection, BackendError> {
        let shown = address.to_string();
        let common = Arc::new(Common {
            access: Access::new(address, &options.extra_roots),
            patience: Arc::new(Patience::new(shown.clone(), options.notice)),
            traffic: Default::default(),
            asks_for_role: address.primary.is_some(),
        });
        let nodes = Nodes::new(address.clone(), Arc::clone(&common));
        let deadline = Instant::now() + options.connect_timeout;
        let limit = (!options.retry_forever).then_some(options.connect_timeout);
        let (is_open, arrived) = (AtomicBool::new(false), Mutex::default());
        let stop = options.stop;
        let inner = Inner { address: shown, nodes, common, deadline, limit, stop, is_open, arrived };
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

    /// Since when Redis has not answered as it should, if it does not.
    fn in_trouble_since(&self) -> Option<Instant> {
        self.inner.common.patience.since()
    }

    /// How many connections were made so far. After another one, Redis may have lost what it did last: it may have been
    /// started again, or another may have taken its place.
    pub(super) fn connections(&self) -> u64 {
        self.inner.common.traffic.connections.load(Ordering::Relaxed)
    }

    /// How many batches were sent so far, each a round trip, and how many commands were in them.
    pub(super) fn traffic(&self) -> (u64, u64) {
        let traffic = &self.inner.common.traffic;
        (traffic.batches.load(Ordering::Relaxed), traffic.commands.load(Ordering::Relaxed))
    }

    /// A script under names that begin so, made once under its nonce, for the crawl's clock that is so far ahead.
    pub(super) fn script(&self, lua: &Lua, base: &str, nonce: String, ahead: u64) -> Call {
        let mut command = cmd("EVALSHA");
        command.arg(lua.script.get_hash()).arg(1).arg(base).arg(ahead).arg(&nonce);
        let mut arrived = self.arrived();
        let names =
            arrived.get_mut(base).map(|names| names.split_off(names.len().saturating_sub(MOST_ARRIVED)));
        command.arg(names.unwrap_or_default().join(" "));
        Call { command, node: None, answer: lua.is_once.then(|| (base.to_owned(), nonce)) }
    }

    fn arrived(&self) -> MutexGuard<'_, HashMap<String, Vec<String>>> {
        self.inner.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out commands in one round trip. Where the answer is lost they are carried out again: so they must be
    /// harmless when repeated. None may rely on another of them having been carried out before it.
    pub(super) async fn all(&self, calls: Vec<Call>) -> Result<Vec<Value>, BackendError> {
        self.carry_out(calls, None).await
    }

    /// Carries out commands, and waits until so many replicas have what they wrote, but not longer than that. If they
    /// do not have it by then a notice is given and the crawl goes on: it is a matter of what a failover can lose, and
    /// not of what is right. No replicas, no wait.
    pub(super) async fn all_confirmed(
        &self,
        calls: Vec<Call>,
        replicas: u32,
        within: Duration,
    ) -> Result<Vec<Value>, BackendError> {
        // Redis takes no time to mean for ever.
        let within = self.inner.common.patience.wait_for_replicas(within).max(Duration::from_millis(1));
        self.carry_out(calls, (replicas > 0).then_some(Confirmation { replicas, within })).await
    }

    /// Carries out commands in one round trip, whose answers are all of one kind.
    pub(super) async fn each<T: FromRedisValue>(&self, calls: Vec<Call>) -> Result<Vec<T>, BackendError> {
        self.all(calls).await?.into_iter().map(|value| self.read(value)).collect()
    }

    /// Carries out one command.
    pub(super) async fn one<T: FromRedisValue>(&self, call: Call) -> Result<T, BackendError> {
        let value = self.all(vec![call]).await?.pop().unwrap_or_default();
        self.read(value)
    }

    /// The meaning of an answer.
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
            for (mut call, reply) in answered {
                match reply {
                    Ok(value) => {
                        values[call.place] = value;
                        self.note_arrival(call.call.answer);
                    }
                    Err(failure) => {
                        if let Failure::Cut(_) = failure {
                            // What was sent may still be on its way: its answer must be remembered as long as can be.
                            call.call.answer = None;
                        }
                        failures.push((call, failure));
                    }
                }
            }
            if let Some(failure) = self.worst(&failures) {
                match &stuck {
                    Some(stuck) => stuck.still(&failure),
                    // The server has yet to learn the scripts, which is soon done.
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

    fn note_arrival(&self, answer: Option<(String, String)>) {
        if let Some((base, nonce)) = answer {
            self.arrived().entry(base).or_default().push(nonce);
        }
    }

    /// The failure that decides what is done about all of them: one that does not pass, if there is any.
    fn worst(&self, failures: &[(Pending, Failure)]) -> Option<Failure> {
        let all = || failures.iter().map(|(_, failure)| failure);
        all().find(|failure| !failure.passes()).or(all().next()).cloned()
    }

    /// Waits before another try, or gives up.
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
            // The first one is mostly soon over: a server learns the scripts, a key that has moved is found.
            Failure::Cut(_) if is_first => {}
            _ if is_first && (failure.is("NOSCRIPT") || failure.is("MOVED")) => {}
            // Who lost the connection is made to wait already when a new one is made.
            Failure::Cut(_) => sleep(longer(Duration::ZERO)).await,
            _ => sleep(*pause).await,
        }
        if !failure.is("NOSCRIPT") && !failure.is("OOM") {
            // What is found out about the servers shows at the next try, also when it is nothing.
            let _ = inner.nodes.look_up(failed).await;
        }
        Ok(())
    }

    /// Sends calls to the servers that are to carry them out, all at the same time, and returns them with the replies.
    async fn send(&self, pending: Vec<Pending>, confirmation: Option<Confirmation>) -> Answered {
        let (parcels, mut answered) = self.sort(pending);
        let nodes = &self.inner.nodes;
        let sent = parcels.into_iter().map(|parcel| {
            let Parcel { primary, calls, bytes } = parcel;
            let order = Order { bytes, commands: calls.len(), confirmation };
            (calls, nodes.link(&primary, confirmation.is_some()).send(order), primary)
        });
        // All are sent before the first answer is waited for. Until then the primary is kept, and with it the link.
        let sent: Vec<_> = sent.collect();
        let mut fewest = i64::MAX;
        for (calls, delivered, primary) in sent {
            let delivered = delivered.await.unwrap_or_else(|_| Err(Failure::Cut("connection closed".into())));
            match delivered {
                // It was replaced meanwhile: what it did is lost, and whoever has its place is asked.
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

    /// Sorts calls by the server that is to carry them out, in parcels that are not too large. Where nobody is known,
    /// that is the answer.
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
