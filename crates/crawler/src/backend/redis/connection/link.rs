//! The link to one server: connects to it on demand, sends commands, and waits for the replies for a limited time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisConnectionInfo, Value, cmd};
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::super::address::{Address, ServerAddress};
use super::super::home::AbortOnDrop;
use super::failure::CommandFailure;
use super::{Call, Confirmation, ConnectionShared};
use crate::fetch::http::connect::describe_io_error;
use crate::fetch::http::tls::tls_client_config;

/// How long a connection and a reply may take: much longer than usual, so that only an outage takes longer. After a timeout
/// they may take twice as long, because the server may be slow. Not longer: what was sent while the network was down may
/// never arrive, while a new connection gets replies at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// The name under which servers list their connections.
const CLIENT_NAME: &str = "crawler";

/// How to log in to a server.
#[derive(Clone)]
pub(super) struct Login {
    tls: Option<TlsConnector>,
    user: Option<String>,
    password: Option<String>,
    database: u32,
    /// Whether a server that is no primary is an error: another server has said that it is one.
    is_primary: bool,
}

impl Login {
    pub(super) fn new(address: &Address, extra_roots: &[CertificateDer<'static>]) -> Login {
        let tls = address.tls.then(|| TlsConnector::from(Arc::new(tls_client_config(extra_roots))));
        let Address { user, password, database, .. } = address.clone();
        Login { tls, user, password, database, is_primary: address.primary.is_some() }
    }

    /// For a Sentinel, which has no databases. Many have no password either.
    pub(super) fn for_sentinel(&self, with_password: bool) -> Login {
        let login = Login { database: 0, is_primary: false, ..self.clone() };
        if with_password { login } else { Login { user: None, password: None, ..login } }
    }

    /// Connects to a server.
    pub(super) async fn connect(&self, server: &ServerAddress) -> Result<Client, CommandFailure> {
        let stream = TcpStream::connect((server.host.as_str(), server.port)).await.map_err(disconnected)?;
        // If this fails, commands take a little longer.
        let _ = stream.set_nodelay(true);
        match &self.tls {
            None => self.log_in(stream).await,
            Some(tls) => {
                let name = ServerName::try_from(server.host.clone());
                let name =
                    name.map_err(|error| CommandFailure::NotRedis(format!("{}: {error}", server.host)))?;
                self.log_in(tls.connect(name, stream).await.map_err(tls_failure)?).await
            }
        }
    }

    async fn log_in(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Client, CommandFailure> {
        // It sends nothing by itself, so that all errors are those of commands.
        let settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let (connection, driver) = MultiplexedConnection::new_with_config(&settings, stream, config).await?;
        let driver = Arc::new(AbortOnDrop(tokio::spawn(driver)));
        let client = Client { connection, driver, watched: Arc::default() };
        if let Some(password) = &self.password {
            client.query(cmd("AUTH").arg(&self.user).arg(password)).await?;
        }
        if self.database != 0 {
            client.query(cmd("SELECT").arg(self.database)).await?;
        }
        // A server that forbids this is used all the same.
        match client.query(cmd("CLIENT").arg("SETNAME").arg(CLIENT_NAME)).await {
            Ok(_) | Err(CommandFailure::Rejected { .. }) => {}
            Err(failure) => return Err(failure),
        }
        if self.is_primary
            && let Ok(Value::Array(role)) = client.query(&cmd("ROLE")).await
            && role.first() != Some(&Value::BulkString(b"master".into()))
        {
            return Err(CommandFailure::rejected(
                "READONLY",
                "the server is not the primary any more, or not yet",
            ));
        }
        Ok(client)
    }
}

/// A connection of the redis crate.
#[derive(Clone)]
pub(super) struct Client {
    connection: MultiplexedConnection,
    /// The task that reads and writes. By itself it would wait for replies that never come.
    driver: Arc<AbortOnDrop<()>>,
    /// What the keys of the last transaction have since. The connection watches them.
    pub(super) watched: Arc<std::sync::Mutex<Option<Value>>>,
}

impl Client {
    pub(super) async fn query(&self, command: &Cmd) -> Result<Value, CommandFailure> {
        Ok(command.query_async(&mut self.connection.clone()).await?)
    }

    /// Sends the commands of a call. The reply is that of the last one, unless one of them fails.
    async fn query_all(&self, call: &Call) -> Result<Value, CommandFailure> {
        match call {
            Call { transaction: Some(transaction), .. } => self.transact(transaction).await,
            Call { sequence: Some(sequence), .. } => {
                Ok(self.query_pipeline(sequence).await?.pop().unwrap_or(Value::Nil))
            }
            Call { command, .. } => self.query(command).await,
        }
    }

    /// Sends commands, and returns their replies, unless one is an error.
    pub(super) async fn query_pipeline(&self, commands: &Pipeline) -> Result<Vec<Value>, CommandFailure> {
        let mut connection = self.connection.clone();
        let replies = connection.send_packed_commands(commands, 0, commands.len()).await?;
        Ok(replies.into_iter().map(Value::extract_error).collect::<Result<_, _>>()?)
    }
}

/// The link to a server.
pub(super) struct ServerConnection {
    pub(super) server: Arc<ServerAddress>,
    state: Mutex<ConnectionState>,
    /// Whether the last command timed out.
    is_slow: AtomicBool,
}

enum ConnectionState {
    Closed,
    Open(Client),
    Failed(Instant, CommandFailure),
}

impl ServerConnection {
    pub(super) fn new(server: Arc<ServerAddress>) -> ServerConnection {
        ServerConnection {
            server,
            state: Mutex::new(ConnectionState::Closed),
            is_slow: AtomicBool::new(false),
        }
    }

    /// Sends a command, and returns its reply.
    pub(super) async fn send(
        &self,
        shared: &ConnectionShared,
        call: &Call,
        confirmation: Option<Confirmation>,
    ) -> Result<Value, CommandFailure> {
        let client = self.client(shared).await?;
        shared.traffic.commands.fetch_add(call.commands(), Ordering::Relaxed);
        // Every command under way has a clone.
        let is_first = Arc::strong_count(&client.driver) == 2;
        if is_first {
            shared.traffic.round_trips.fetch_add(1, Ordering::Relaxed);
        }
        let started = Instant::now();
        let sent = self.send_to(&client, shared, call, confirmation).await;
        if is_first && !call.waits && sent.is_ok() {
            shared.traffic.recorder.record_redis_round_trip(started.elapsed());
        }
        if let Err(failure) = &sent
            && failure.ends_connection()
        {
            let mut state = self.state.lock().await;
            if matches!(&*state, ConnectionState::Open(current) if Arc::ptr_eq(&current.driver, &client.driver))
            {
                *state = ConnectionState::Closed;
            }
        }
        sent
    }

    async fn send_to(
        &self,
        client: &Client,
        shared: &ConnectionShared,
        call: &Call,
        confirmation: Option<Confirmation>,
    ) -> Result<Value, CommandFailure> {
        let reply = match (self.limited(REPLY_TIMEOUT, client.query_all(call)).await, call.script) {
            (Err(failure), Some(script)) if failure.is("NOSCRIPT") => {
                self.limited(REPLY_TIMEOUT, client.query(&call.with_text(script))).await?
            }
            (reply, _) => reply?,
        };
        let Some(Confirmation { replicas, timeout }) = confirmation else { return Ok(reply) };
        // For Redis, a timeout of 0 is no limit.
        let timeout = shared.outage.confirm_timeout(timeout).max(Duration::from_millis(1));
        let mut wait = cmd("WAIT");
        wait.arg(replicas).arg(timeout.as_millis() as u64);
        let confirmed = match self.limited(REPLY_TIMEOUT + timeout, client.query(&wait)).await {
            Ok(Value::Int(confirmed)) => u32::try_from(confirmed).unwrap_or(0),
            Err(failure) if failure.is_of_new_replica() => {
                return Err(CommandFailure::Disconnected(
                    "it became a replica, and what it wrote is lost".into(),
                ));
            }
            Err(CommandFailure::Rejected { .. }) | Ok(_) => 0,
            Err(failure) => return Err(failure),
        };
        shared.outage.confirmed(confirmed, replicas);
        Ok(reply)
    }

    /// The connection, which is made if there is none.
    async fn client(&self, shared: &ConnectionShared) -> Result<Client, CommandFailure> {
        let start = Instant::now();
        let mut state = self.state.lock().await;
        match &*state {
            ConnectionState::Open(client) => return Ok(client.clone()),
            // Another command made this attempt while this one waited.
            ConnectionState::Failed(at, failure) if *at > start => return Err(failure.clone()),
            ConnectionState::Closed | ConnectionState::Failed(..) => {}
        }
        let (login, server) = (shared.servers.login.clone(), Arc::clone(&self.server));
        // The thread outlives the caller's runtime. A server that never replies must not leave a task for each attempt.
        let mut connecting = AbortOnDrop(shared.home.spawn(async move { login.connect(&server).await }));
        let closed = |_| Err(CommandFailure::NoReply("connection closed".into()));
        let connected =
            self.limited(CONNECT_TIMEOUT, async { (&mut connecting.0).await.unwrap_or_else(closed) }).await;
        *state = match &connected {
            Ok(client) => ConnectionState::Open(client.clone()),
            Err(failure) => ConnectionState::Failed(Instant::now(), failure.clone()),
        };
        if connected.is_ok() {
            shared.traffic.connections.fetch_add(1, Ordering::Relaxed);
        }
        connected
    }

    /// Waits for a server for a limited time.
    async fn limited<T>(
        &self,
        limit: Duration,
        reply: impl Future<Output = Result<T, CommandFailure>>,
    ) -> Result<T, CommandFailure> {
        let limit = if self.is_slow.load(Ordering::Relaxed) { 2 * limit } else { limit };
        let start = Instant::now();
        match timeout(limit, reply).await {
            Ok(reply) => {
                if start.elapsed() < limit / 4 {
                    self.is_slow.store(false, Ordering::Relaxed);
                }
                reply
            }
            Err(_) => {
                self.is_slow.store(true, Ordering::Relaxed);
                Err(CommandFailure::NoReply(format!("no reply within {} s", limit.as_secs())))
            }
        }
    }
}

fn disconnected(error: io::Error) -> CommandFailure {
    let cause = describe_io_error(&error);
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            CommandFailure::NoReply(cause)
        }
        _ => CommandFailure::Disconnected(cause),
    }
}

fn tls_failure(error: io::Error) -> CommandFailure {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(cause) => CommandFailure::NotRedis(cause.to_string()),
        None => disconnected(error),
    }
}
