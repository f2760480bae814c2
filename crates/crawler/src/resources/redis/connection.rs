//! The connection to Redis: many commands in one round trip, made again where their answer was lost, and what went
//! wrong in words. Only this file knows what can go wrong.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{
    Client, Cmd, ConnectionInfo, ErrorKind, FromRedisValue, IntoConnectionInfo, Pipeline, RedisError,
    ToRedisArgs, Value, cmd,
};
use tokio::time::{Instant, sleep, timeout};

use super::super::Trouble;
use super::scripts::{self, Lua};

/// How long Redis may take to answer: far longer than any script takes, so that only an outage does.
const RESPONSE: Duration = Duration::from_secs(5);

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// How long moves are tried again while Redis cannot be reached: long enough for a restart or a failover, and shorter
/// than the minute for which the scripts remember their answers.
const PATIENCE: Duration = Duration::from_secs(30);

/// The pause between two tries, which doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The oldest Redis whose scripts and streams are as ours need them.
const OLDEST: u32 = 7;

/// How many arrived answers a script is told of.
const MOST_ARRIVED: usize = 200;

/// A command on its way to Redis.
pub(super) struct Call {
    command: Cmd,
    /// Where and under which name a script's answer is remembered until it has arrived.
    answer: Option<(String, String)>,
}

impl Call {
    /// A command of Redis.
    pub(super) fn plain(name: &str) -> Call {
        Call { command: cmd(name), answer: None }
    }

    pub(super) fn arg(&mut self, argument: impl ToRedisArgs) -> &mut Call {
        self.command.arg(argument);
        self
    }
}

/// A connection that comes back.
#[derive(Clone)]
pub(super) struct Connection {
    manager: ConnectionManager,
    /// Where Redis is, for messages: without user name and password.
    address: String,
    /// The names of the answers that have arrived, by where they are remembered.
    arrived: Arc<Mutex<HashMap<String, Vec<String>>>>,
}

impl Connection {
    /// Connects, and makes sure that a crawl is safe there.
    pub(super) async fn open(url: &str) -> Result<Connection, Trouble> {
        let info = url.into_connection_info().map_err(|error| {
            let why = error.detail().unwrap_or("it is no address of Redis").to_owned();
            Trouble(format!("cannot use the address of Redis: {why}; give one like redis://host:6379/0"))
        })?;
        let address = shown(&info);
        let client = Client::open(info).map_err(|error| trouble(&address, &error))?;
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(RESPONSE))
            .set_connection_timeout(Some(CONNECT))
            .set_number_of_retries(1);
        let manager = timeout(2 * CONNECT, client.get_connection_manager_with_config(config)).await;
        let manager = manager.map_err(|_| Trouble(unreachable_message(&address, &"no answer")))?;
        let manager = manager.map_err(|error| trouble(&address, &error))?;
        let connection = Connection { manager, address, arrived: Arc::default() };
        connection.check().await?;
        connection.load().await.map_err(|error| connection.trouble(&error))?;
        Ok(connection)
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// A script under names that begin so, made once under its nonce, for the crawl's clock that is so far ahead.
    pub(super) fn script(&self, lua: &Lua, base: &str, nonce: String, ahead: u64) -> Call {
        let mut command = cmd("EVALSHA");
        command.arg(lua.script.get_hash()).arg(1).arg(base).arg(ahead).arg(&nonce);
        let mut arrived = self.arrived();
        let names =
            arrived.get_mut(base).map(|names| names.split_off(names.len().saturating_sub(MOST_ARRIVED)));
        command.arg(names.unwrap_or_default().join(" "));
        Call { command, answer: lua.is_once.then(|| (base.to_owned(), nonce)) }
    }

    fn note_arrival(&self, answers: Vec<(String, String)>) {
        let mut arrived = self.arrived();
        for (base, nonce) in answers {
            arrived.entry(base).or_default().push(nonce);
        }
    }

    fn arrived(&self) -> MutexGuard<'_, HashMap<String, Vec<String>>> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out commands in one round trip. Where the answer is lost they are carried out again: so they must be
    /// harmless when repeated.
    pub(super) async fn all(&self, calls: Vec<Call>) -> Result<Vec<Value>, Trouble> {
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipeline = Pipeline::with_capacity(calls.len());
        let mut answers = Vec::new();
        for Call { command, answer } in calls {
            pipeline.add_command(command);
            answers.extend(answer);
        }
        let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            let error = match pipeline.query_async(&mut self.manager.clone()).await {
                Ok(values) => {
                    self.note_arrival(answers);
                    return Ok(values);
                }
                Err(error) => error,
            };
            if error.code() == Some("NOSCRIPT") {
                // It was started anew, or another took its place, and has yet to learn the scripts.
                self.load().await.map_err(|error| self.trouble(&error))?;
            } else if !passes(&error) || begun.elapsed() > PATIENCE {
                return Err(self.trouble(&error));
            } else {
                // What was sent before may still be on its way: the answer is remembered for its whole minute.
                answers.clear();
                sleep(pause).await;
                pause = (2 * pause).min(LONGEST_PAUSE);
            }
        }
    }

    /// Carries out commands in one round trip, whose answers are all of one kind.
    pub(super) async fn each<T: FromRedisValue>(&self, calls: Vec<Call>) -> Result<Vec<T>, Trouble> {
        self.all(calls).await?.into_iter().map(|value| self.read(value)).collect()
    }

    /// Carries out one command.
    pub(super) async fn one<T: FromRedisValue>(&self, call: Call) -> Result<T, Trouble> {
        let value = self.all(vec![call]).await?.pop().unwrap_or_default();
        self.read(value)
    }

    /// The meaning of an answer.
    pub(super) fn read<T: FromRedisValue>(&self, value: Value) -> Result<T, Trouble> {
        redis::from_redis_value(value).map_err(|error| {
            let address = &self.address;
            Trouble(format!(
                "Redis at {address} answered what nobody expected: {error}; do all processes of the crawl have \
                 the same version?"
            ))
        })
    }

    async fn load(&self) -> Result<(), RedisError> {
        let mut pipeline = Pipeline::new();
        for lua in scripts::all() {
            pipeline.cmd("SCRIPT").arg("LOAD").arg(lua.text).ignore();
        }
        pipeline.exec_async(&mut self.manager.clone()).await
    }

    /// Refuses a Redis that is too old, or that throws away what it is asked to keep.
    async fn check(&self) -> Result<(), Trouble> {
        let address = &self.address;
        let information: String = self.one(Call::plain("INFO")).await?;
        let field = |name: &str| {
            let line = information.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_default().trim()
        };
        let version = field("redis_version");
        let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
        if major < OLDEST {
            return Err(Trouble(format!(
                "Redis at {address} is version {version}; the crawl needs {OLDEST}.0 or later, or Valkey"
            )));
        }
        let policy = field("maxmemory_policy");
        if field("maxmemory") != "0" && policy != "noeviction" && !policy.is_empty() {
            return Err(Trouble(format!(
                "Redis at {address} throws keys away when its memory is full (maxmemory-policy {policy}), and with \
                 them URLs that are still to be visited; set maxmemory-policy to noeviction"
            )));
        }
        Ok(())
    }

    fn trouble(&self, error: &RedisError) -> Trouble {
        trouble(&self.address, error)
    }
}

/// What went wrong, where, and what helps.
fn trouble(address: &str, error: &RedisError) -> Trouble {
    Trouble(match error.code() {
        _ if error.kind() == ErrorKind::AuthenticationFailed => refused(address, error),
        Some("NOAUTH" | "WRONGPASS" | "NOPERM") => refused(address, error),
        Some("OOM") => format!(
            "the memory of Redis at {address} is full: {error}; give it more (maxmemory), or let links and pages live \
             shorter"
        ),
        Some("CROSSSLOT" | "MOVED") => format!(
            "Redis at {address} is one node of a cluster: {error}; give the address of a Redis that stands alone"
        ),
        Some(_) => format!("Redis at {address} cannot do what it is asked: {error}"),
        None => unreachable_message(address, error),
    })
}

fn refused(address: &str, error: &RedisError) -> String {
    format!(
        "Redis at {address} refuses: {error}; give a user name and password that may use scripts and the keys of the \
         crawl: redis://user:password@host:port/"
    )
}

fn unreachable_message(address: &str, why: &dyn std::fmt::Display) -> String {
    format!("cannot reach Redis at {address}: {why}; is it running, and can it be reached from here?")
}

/// Whether it may well go otherwise in a moment.
fn passes(error: &RedisError) -> bool {
    let in_a_moment = ["LOADING", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "BUSY"];
    match error.code() {
        Some(code) => in_a_moment.contains(&code),
        None => {
            error.is_io_error()
                || error.is_timeout()
                || error.is_connection_dropped()
                || error.is_connection_refusal()
        }
    }
}

/// The address as it may be shown: what is secret is left out.
fn shown(info: &ConnectionInfo) -> String {
    match info.redis_settings().db() {
        0 => format!("redis://{}", info.addr()),
        database => format!("redis://{}/{database}", info.addr()),
    }
}
