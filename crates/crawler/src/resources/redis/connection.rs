//! The connection to Redis: many commands in one round trip, made again where their answer was lost, and what went
//! wrong in words. Only this file knows what can go wrong.

use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{
    Client, Cmd, ConnectionInfo, FromRedisValue, IntoConnectionInfo, Pipeline, RedisError, Value, cmd,
};
use tokio::time::{Instant, sleep, timeout};

use super::super::Trouble;
use super::scripts;

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

/// A connection that comes back.
#[derive(Clone)]
pub(super) struct Connection {
    manager: ConnectionManager,
    /// Where Redis is, for messages: without user name and password.
    address: String,
}

impl Connection {
    /// Connects, and makes sure that a crawl is safe there.
    pub(super) async fn open(url: &str) -> Result<Connection, Trouble> {
        let info = url.into_connection_info().map_err(|error| {
            let why = error.detail().unwrap_or("it is no address of Redis").to_owned();
            Trouble(format!("cannot use the address of Redis: {why}; give one like redis://host:6379/0"))
        })?;
        let address = shown(&info);
        let cannot = |why: &dyn std::fmt::Display| Trouble(unreachable_message(&address, why));
        let client = Client::open(info).map_err(|error| cannot(&error))?;
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(RESPONSE))
            .set_connection_timeout(Some(CONNECT))
            .set_number_of_retries(1);
        let manager = timeout(2 * CONNECT, client.get_connection_manager_with_config(config)).await;
        let manager = manager.map_err(|_| cannot(&"no answer"))?.map_err(|error| cannot(&error))?;
        let connection = Connection { manager, address };
        connection.check().await?;
        connection.load().await.map_err(|error| connection.trouble(&error))?;
        Ok(connection)
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Carries out commands in one round trip. Where the answer is lost they are carried out again: so they must be
    /// harmless when repeated.
    pub(super) async fn all(&self, commands: Vec<Cmd>) -> Result<Vec<Value>, Trouble> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipeline = Pipeline::with_capacity(commands.len());
        for command in commands {
            pipeline.add_command(command);
        }
        let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            let error = match pipeline.query_async(&mut self.manager.clone()).await {
                Ok(values) => return Ok(values),
                Err(error) => error,
            };
            if error.code() == Some("NOSCRIPT") {
                // It was started anew, or another took its place, and has yet to learn the scripts.
                self.load().await.map_err(|error| self.trouble(&error))?;
            } else if !passes(&error) || begun.elapsed() > PATIENCE {
                return Err(self.trouble(&error));
            } else {
                sleep(pause).await;
                pause = (2 * pause).min(LONGEST_PAUSE);
            }
        }
    }

    /// Carries out commands in one round trip, whose answers are all of one kind.
    pub(super) async fn each<T: FromRedisValue>(&self, commands: Vec<Cmd>) -> Result<Vec<T>, Trouble> {
        self.all(commands).await?.into_iter().map(|value| self.read(value)).collect()
    }

    /// Carries out one command.
    pub(super) async fn one<T: FromRedisValue>(&self, command: Cmd) -> Result<T, Trouble> {
        let value = self.all(vec![command]).await?.pop().unwrap_or_default();
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
        for script in scripts::all() {
            script.load_async(&mut self.manager.clone()).await?;
        }
        Ok(())
    }

    /// Refuses a Redis that is too old, or that throws away what it is asked to keep.
    async fn check(&self) -> Result<(), Trouble> {
        let address = &self.address;
        let information: String = self.one(cmd("INFO")).await?;
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
        let address = &self.address;
        match error.code() {
            Some("OOM") => Trouble(format!(
                "the memory of Redis at {address} is full: {error}; give it more (maxmemory), or let links and \
                 pages live shorter"
            )),
            Some("NOAUTH" | "WRONGPASS" | "NOPERM") => Trouble(format!(
                "Redis at {address} refuses: {error}; give a user name and password that may use scripts and all keys \
                 of the crawl: redis://user:password@host:port/"
            )),
            Some("CROSSSLOT" | "MOVED") => Trouble(format!(
                "Redis at {address} is one node of a cluster: {error}; give the address of a Redis that stands alone"
            )),
            Some(_) => Trouble(format!("Redis at {address} cannot do what it is asked: {error}")),
            None => Trouble(unreachable_message(address, error)),
        }
    }
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
