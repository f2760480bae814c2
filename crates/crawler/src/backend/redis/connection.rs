//! The connection to Redis: finds the servers, repeats commands whose reply was lost, and waits during outages.
//!
//! The client of the redis crate sends the commands and reads the replies. Its clients for Sentinel and Cluster are not used:
//! they follow a slot that is being moved, where a script finds only a part of its keys, and they accept replies of a primary
//! that has been replaced.

mod checks;
mod failure;
mod link;
mod outage;
mod servers;
#[cfg(test)]
mod tests;
mod transaction;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::{Arg, Cmd, FromRedisValue, Pipeline, ToRedisArgs, Value, cmd};
use rustls::pki_types::CertificateDer;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};

pub use self::checks::Persistence;
use self::failure::CommandFailure;
use self::link::ServerConnection;
pub use self::outage::Notice;
use self::outage::{Outage, WaitingCommand};
use self::servers::Servers;
pub(super) use self::transaction::Transaction;
use super::super::BackendError;
use super::Result;
use super::address::{Address, ServerAddress};
use super::home::Home;
use super::scripts::Lua;
use crate::error::{StorageError, StorageErrorKind};
use crate::statistics::Recorder;
use crate::stop::StopHandle;

/// The pauses between two attempts; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// How long an outage is waited for after a request to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// How often it is checked whether that time is over.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How often the Sentinels are asked for the primary.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

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

/// A command for Redis.
pub(super) struct Call {
    command: Cmd,
    /// Commands for one server that are sent and repeated together, instead of `command`.
    sequence: Option<Pipeline>,
    /// A transaction, instead of `command`.
    transaction: Option<Transaction>,
    target: CallTarget,
    /// The script that it runs.
    script: Option<&'static Lua>,
    /// Whether the server waits before it replies.
    waits: bool,
}

/// The server that a command is for.
enum CallTarget {
    /// The one that has this key.
    Key(String),
    Server(Arc<ServerAddress>),
}

impl Call {
    /// A command whose first argument is its key.
    pub(super) fn new(name: &str, key: impl Into<String>) -> Call {
        let key = key.into();
        Call::for_key(name, key.clone()).arg(key)
    }

    /// A command for the server that has a key. The key is no argument yet.
    pub(super) fn for_key(name: &str, key: impl Into<String>) -> Call {
        Call::with_target(name, CallTarget::Key(key.into()))
    }

    /// A command for one server.
    pub(super) fn for_server(name: &str, server: &Arc<ServerAddress>) -> Call {
        Call::with_target(name, CallTarget::Server(Arc::clone(server)))
    }

    fn with_target(name: &str, target: CallTarget) -> Call {
        Call { command: cmd(name), sequence: None, transaction: None, target, script: None, waits: false }
    }

    /// A script on keys with this base.
    pub(super) fn script(script: &'static Lua, base: &str) -> Call {
        let call = Call { script: Some(script), ..Call::for_key("EVALSHA", base) };
        call.arg(script.script.get_hash()).arg(1).arg(base)
    }

    /// A command for which the server waits before it replies. How long that takes says nothing about the server.
    pub(super) fn waiting(self) -> Call {
        Call { waits: true, ..self }
    }

    pub(super) fn arg(mut self, argument: impl ToRedisArgs) -> Call {
        self.command.arg(argument);
        self
    }

    /// The commands of calls for one server, none of them a script, in their order.
    fn sequence(calls: Vec<Call>) -> Option<Call> {
        let mut sequence = redis::pipe();
        let last = calls.into_iter().fold(None, |_, call| {
            sequence.add_command(call.command);
            Some(call.target)
        })?;
        Some(Call { sequence: Some(sequence), ..Call::with_target("", last) })
    }

    /// How many commands these are. A transaction counts as one, like a script.
    fn commands(&self) -> u64 {
        self.sequence.as_ref().map_or(1, |sequence| sequence.len() as u64)
    }

    /// The same script with its text, for a server that does not have it yet.
    fn with_text(&self, script: &Lua) -> Cmd {
        let mut command = cmd("EVAL");
        command.arg(script.text);
        for argument in self.command.args_iter().skip(2) {
            if let Arg::Simple(argument) = argument {
                command.arg(argument);
            }
        }
        command
    }
}

/// How many replicas should have what a command wrote, and how long that may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Confirmation {
    pub(super) replicas: u32,
    pub(super) timeout: Duration,
}

/// What was sent so far.
#[derive(Default)]
struct TrafficCounter {
    connections: AtomicU64,
    round_trips: AtomicU64,
    commands: AtomicU64,
    /// Records how long round trips take.
    recorder: Recorder,
}

/// A connection that reconnects after an outage. Clones share it.
#[derive(Clone)]
pub(super) struct RedisConnection {
    shared: Arc<ConnectionShared>,
    /// The links to the servers that were used so far.
    links: Arc<Mutex<Vec<Arc<ServerConnection>>>>,
    /// When to give up, while the connection is opened.
    deadline: Option<Instant>,
}

/// What the connections of a process have in common.
struct ConnectionShared {
    /// The address of Redis for messages, without user name and password.
    address: String,
    servers: Servers,
    outage: Arc<Outage>,
    home: Home,
    /// How long an outage may last; `None` for no limit.
    limit: Option<Duration>,
    stop: StopHandle,
    traffic: TrafficCounter,
}

impl RedisConnection {
    /// Connects, and checks that a crawl is safe there.
    pub(super) async fn open(address: &Address, options: RedisConnectOptions) -> Result<RedisConnection> {
        let RedisConnectOptions { connect_timeout, retry_forever, stop, notice, extra_roots } = options;
        let home = Home::new()?;
        let shared = Arc::new(ConnectionShared {
            address: address.to_string(),
            servers: Servers::new(address.clone(), &extra_roots),
            outage: Arc::new(Outage::new(address.to_string(), notice, home.handle())),
            home,
            limit: (!retry_forever).then_some(connect_timeout),
            stop,
            traffic: TrafficCounter::default(),
        });
        let deadline = Some(Instant::now() + connect_timeout);
        let opening = RedisConnection { shared, links: Arc::default(), deadline };
        opening.retry(|| opening.shared.servers.look_up(Instant::now())).await?;
        if address.primary.is_some() {
            opening.watch_primary();
        }
        opening.check().await?;
        Ok(RedisConnection { deadline: None, ..opening })
    }

    /// Another connection to the same servers, for commands that wait there: those of this one do not wait for them.
    pub(super) fn another(&self) -> RedisConnection {
        RedisConnection { links: Arc::default(), ..self.clone() }
    }

    /// The address of Redis, without user name and password.
    pub(super) fn address(&self) -> &str {
        &self.shared.address
    }

    /// How many connections were made so far, by all connections to these servers. After a new one, Redis may have lost its
    /// last writes: it may have restarted or failed over.
    pub(super) fn connections(&self) -> u64 {
        self.shared.traffic.connections.load(Ordering::Relaxed)
    }

    /// Round trips and commands so far, of all connections to these servers. Commands under way at the same time share a
    /// round trip.
    pub(super) fn traffic(&self) -> (u64, u64) {
        let TrafficCounter { round_trips, commands, .. } = &self.shared.traffic;
        (round_trips.load(Ordering::Relaxed), commands.load(Ordering::Relaxed))
    }

    /// Records the round trips.
    pub(super) fn recorder(&self) -> &Recorder {
        &self.shared.traffic.recorder
    }

    /// Starts a future on the thread of the connection, where commands are cheaper.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.shared.home.spawn(future)
    }

    /// Runs a command. It is repeated if its reply is lost, so it must be idempotent.
    pub(super) async fn one<T: FromRedisValue>(&self, call: Call) -> Result<T> {
        self.read(self.retry(|| self.send(&call, None)).await?)
    }

    /// Runs commands at the same time, whose replies all have one type. None may depend on another one.
    pub(super) async fn all<T: FromRedisValue>(&self, calls: Vec<Call>) -> Result<Vec<T>> {
        let mut running = JoinSet::new();
        for (index, call) in calls.into_iter().enumerate() {
            let connection = self.clone();
            running.spawn(async move { (index, connection.one::<Value>(call).await) });
        }
        let mut replies = running.join_all().await;
        replies.sort_unstable_by_key(|(index, _)| *index);
        replies.into_iter().map(|(_, reply)| self.read(reply?)).collect()
    }

    /// Runs commands, the last one after the others, also when they are repeated. Those before it may run at the same time.
    pub(super) async fn in_order(&self, mut calls: Vec<Call>) -> Result<()> {
        if self.shared.servers.is_cluster() {
            let last = calls.pop();
            self.all::<Value>(calls).await?;
            calls = last.into_iter().collect();
        }
        match Call::sequence(calls) {
            Some(sequence) => self.one(sequence).await,
            None => Ok(()),
        }
    }

    /// Runs a command, and waits for replicas to confirm it. If they do not in time, there is a notice, and the crawl
    /// continues: the confirmation only limits what a failover can lose. Other commands of this connection wait meanwhile.
    pub(super) async fn confirmed<T: FromRedisValue>(
        &self,
        call: Call,
        confirmation: Confirmation,
    ) -> Result<T> {
        let confirmation = (confirmation.replicas > 0).then_some(confirmation);
        self.read(self.retry(|| self.send(&call, confirmation)).await?)
    }

    fn read<T: FromRedisValue>(&self, value: Value) -> Result<T> {
        redis::from_redis_value(value).map_err(|error| {
            let what = format!("cannot use a reply of Redis at {}", self.address());
            let remedy = "run the same version of crawler in all processes";
            BackendError::Redis(StorageError::with_source(StorageErrorKind::Unsupported, what, error, remedy))
        })
    }

    async fn send(&self, call: &Call, confirmation: Option<Confirmation>) -> Result<Value, CommandFailure> {
        let servers = &self.shared.servers;
        let server = servers.server_for(&call.target)?;
        let sent = self.link(&server).send(&self.shared, call, confirmation).await;
        let value = sent.map_err(|failure| servers.with_name(failure, &server))?;
        match servers.has(&server) {
            true => Ok(value),
            // What the server wrote is lost.
            false => Err(CommandFailure::Disconnected("another server has become the primary".into())),
        }
    }

    fn link(&self, server: &Arc<ServerAddress>) -> Arc<ServerConnection> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = links.iter().find(|link| Arc::ptr_eq(&link.server, server)) {
            return Arc::clone(link);
        }
        links.retain(|link| self.shared.servers.has(&link.server));
        let link = Arc::new(ServerConnection::new(Arc::clone(server)));
        links.push(Arc::clone(&link));
        link
    }

    /// Repeats an operation until it succeeds or fails for good.
    async fn retry<T, F: Future<Output = Result<T, CommandFailure>>>(
        &self,
        attempt: impl Fn() -> F,
    ) -> Result<T> {
        let ConnectionShared { servers, outage, address, stop, .. } = &*self.shared;
        let (start, mut pause, mut waiting) = (Instant::now(), Duration::ZERO, None::<WaitingCommand>);
        let mut failure = CommandFailure::NoReply("no reply".into());
        loop {
            let attempted = Instant::now();
            tokio::select! {
                biased;
                result = attempt() => match result {
                    Ok(value) => {
                        waiting.into_iter().for_each(WaitingCommand::replied);
                        return Ok(value);
                    }
                    Err(failed) => failure = failed,
                },
                () = self.stop_waiting(), if waiting.is_some() || stop.is_stop_requested() => {
                    waiting.into_iter().for_each(WaitingCommand::give_up);
                    return Err(failure.error(address));
                }
            }
            if !failure.is_temporary() {
                waiting.into_iter().for_each(WaitingCommand::replied);
                return Err(failure.error(address));
            }
            match &waiting {
                Some(waiting) => waiting.set_cause(&failure),
                None => waiting = Some(outage.wait(start, &failure)),
            }
            if self.is_too_late(start) {
                waiting.into_iter().for_each(WaitingCommand::give_up);
                return Err(failure.error(address));
            }
            // After an idle connection was closed or a slot has moved, the next attempt succeeds.
            let is_short = matches!(failure, CommandFailure::NoReply(_) | CommandFailure::Disconnected(_))
                || failure.is("MOVED");
            let needs_pause = !is_short || !pause.is_zero();
            pause = (2 * pause).clamp(FIRST_PAUSE, MAX_PAUSE);
            if needs_pause {
                sleep(pause).await;
            }
            if !failure.is("OOM") {
                // If this fails, so does the next attempt.
                let _ = servers.look_up(attempted).await;
            }
        }
    }

    fn is_too_late(&self, start: Instant) -> bool {
        match self.deadline {
            Some(deadline) => Instant::now() > deadline,
            None => self.shared.limit.is_some_and(|limit| start.elapsed() > limit),
        }
    }

    /// Returns after a request to stop, when the outage has lasted for too long.
    async fn stop_waiting(&self) {
        self.shared.stop.stop_requested().await;
        while self.shared.outage.start().is_none_or(|start| start.elapsed() < STOP_TIMEOUT) {
            sleep(STOP_POLL_INTERVAL).await;
        }
    }

    /// Switches to another primary as soon as the Sentinels name it. The old one may still reply for many seconds, and
    /// everything that is written to it is lost.
    fn watch_primary(&self) {
        let shared = Arc::downgrade(&self.shared);
        self.spawn(async move {
            loop {
                sleep(WATCH_INTERVAL).await;
                let Some(shared) = shared.upgrade() else { return };
                // If no Sentinel replies, the primary stays.
                let _ = shared.servers.look_up(Instant::now()).await;
            }
        });
    }
}
