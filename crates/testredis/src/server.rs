//! A `redis-server` process on a free loopback port, with a temporary directory that a drop removes.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::ports::ReservedPort;
use crate::reply::{Client, FromReply, Reply};
use crate::tls::Tls;

/// Timeout for the first reply of a server, which may have much data to load on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How many free ports are tried: another process may take one before the server does.
const ATTEMPTS: u32 = 5;

/// When the append-only file is fsynced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// Every second: a power failure loses up to a second of writes, a crash of the server loses nothing.
    EverySecond,
    /// Before every reply.
    Always,
}

/// Configures a server.
#[derive(Debug, Clone, Default)]
pub struct Builder {
    settings: Vec<(String, String)>,
    password: Option<String>,
    tls: Option<Tls>,
    cluster: bool,
    sentinel: Option<String>,
}

/// A running server. A drop kills it and removes its directory.
#[derive(Debug)]
pub struct Server {
    builder: Builder,
    directory: TempDir,
    port: ReservedPort,
    tls_port: ReservedPort,
    bus_port: ReservedPort,
    child: Mutex<Option<Child>>,
}

impl Builder {
    /// Enables the append-only file, from which a restart loads the data.
    pub fn append_only(self, fsync: Fsync) -> Self {
        let fsync = if fsync == Fsync::Always { "always" } else { "everysec" };
        self.setting("appendonly", "yes").setting("appendfsync", fsync)
    }

    /// Requires a password. Letters, digits and hyphens only, because it becomes part of a URL.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.setting("requirepass", password).setting("masterauth", password)
    }

    /// Limits the memory, as in `100mb`. Writes beyond it fail.
    pub fn max_memory(self, memory: &str) -> Self {
        self.setting("maxmemory", memory).setting("maxmemory-policy", "noeviction")
    }

    /// Makes the server a read-only replica of another.
    pub fn replica_of(self, primary: &Server) -> Self {
        self.setting("replicaof", &format!("127.0.0.1 {}", primary.port()))
    }

    /// Uses TLS on the port of [`Server::url`]. The port of [`Server::port`] stays without TLS.
    pub fn tls(mut self, tls: &Tls) -> Self {
        self.tls = Some(tls.clone());
        self
    }

    /// Makes the server a cluster node that does not know other nodes yet.
    pub fn cluster(mut self) -> Self {
        self.cluster = true;
        self.setting("cluster-enabled", "yes").setting("cluster-node-timeout", "5000")
    }

    /// Makes the server a sentinel with these configuration lines.
    pub(crate) fn sentinel(mut self, configuration: String) -> Self {
        self.sentinel = Some(configuration);
        self
    }

    /// Any setting of `redis.conf`.
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts the server and waits until it replies.
    pub fn start(self) -> Server {
        for _ in 0..ATTEMPTS {
            let server = Server {
                builder: self.clone(),
                directory: tempfile::Builder::new().prefix("testredis").tempdir().unwrap(),
                port: ReservedPort::new(),
                tls_port: ReservedPort::new(),
                bus_port: ReservedPort::new(),
                child: Mutex::default(),
            };
            if server.spawn() {
                return server;
            }
        }
        panic!("cannot start redis-server on any of {ATTEMPTS} free ports");
    }
}

impl Server {
    /// Starts a server without persistence.
    pub fn start() -> Server {
        Server::builder().start()
    }

    /// Configures a server.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The URL of the server, with its password.
    pub fn url(&self) -> String {
        let password =
            self.builder.password.as_ref().map_or(String::new(), |password| format!(":{password}@"));
        match self.builder.tls {
            Some(_) => format!("rediss://{password}127.0.0.1:{}/", self.tls_port.number()),
            None => format!("redis://{password}127.0.0.1:{}/", self.port()),
        }
    }

    /// The port without TLS.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The address without TLS.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port()).into()
    }

    /// The address of [`Server::url`]: the port with TLS, if enabled.
    pub(crate) fn url_address(&self) -> SocketAddr {
        let port = if self.builder.tls.is_some() { &self.tls_port } else { &self.port };
        (Ipv4Addr::LOCALHOST, port.number()).into()
    }

    /// The port of the cluster bus.
    pub(crate) fn bus_port(&self) -> u16 {
        self.bus_port.number()
    }

    /// The process id while the server runs.
    pub fn pid(&self) -> Option<u32> {
        self.child().as_ref().map(Child::id)
    }

    /// Kills the server (SIGKILL).
    pub fn kill(&self) {
        if let Some(mut child) = self.child().take() {
            let _ = (child.kill(), child.wait());
        }
    }

    /// Shuts the server down (SIGTERM) and waits: it writes its files first.
    pub fn stop(&self) {
        self.signal(Signal::TERM);
        if let Some(mut child) = self.child().take() {
            child.wait().unwrap();
        }
    }

    /// Kills the server if it runs, and starts it again on the same port, with the data of its append-only file.
    pub fn restart(&self) {
        self.kill();
        assert!(self.spawn(), "cannot restart redis-server on port {}", self.port());
    }

    /// Suspends the server (SIGSTOP): the system still accepts connections, but nothing replies.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Resumes a suspended server (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Sends a command whose arguments are separated by single spaces. Panics if the reply has another type.
    pub fn query<T: FromReply>(&self, command: &str) -> T {
        self.query_args(&command.split(' ').collect::<Vec<_>>())
    }

    /// Sends a command. Panics if the reply has another type.
    pub fn query_args<T: FromReply>(&self, arguments: &[&str]) -> T {
        let command = arguments.first().unwrap_or(&"");
        let reply = self.try_query(arguments).unwrap_or_else(|error| panic!("{command}: {error}"));
        T::from_reply(reply).unwrap_or_else(|reply| panic!("{command}: unexpected reply {reply:?}"))
    }

    /// Sends a command that may fail.
    pub fn try_query(&self, arguments: &[&str]) -> std::io::Result<Reply> {
        let mut client = Client::connect(self.address())?;
        if let Some(password) = &self.builder.password {
            client.query(&["AUTH", password])?;
        }
        client.query(arguments)
    }

    /// A field of `INFO`.
    pub fn info(&self, name: &str) -> String {
        let info: String = self.query("INFO");
        let found = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.unwrap_or_else(|| panic!("INFO has no field {name}")).to_owned()
    }

    /// Starts the process. Returns whether it replies in time.
    fn spawn(&self) -> bool {
        let child = self.command().spawn().expect(
            "cannot start redis-server; install it (apt-get install redis-server), `make test` does that",
        );
        let pid = child.id();
        *self.child() = Some(child);
        let start_time = Instant::now();
        while start_time.elapsed() < START_TIMEOUT {
            // A server that is still loading its data replies to INFO, but not to PING.
            let is_loading =
                matches!(self.try_query(&["PING"]), Ok(Reply::Error(error)) if error.starts_with("LOADING"));
            // Another server may have taken the port first.
            if !is_loading && self.replying_pid() == Some(pid) {
                return true;
            }
            if self.child().as_mut().is_none_or(|child| child.try_wait().unwrap().is_some()) {
                return false;
            }
            sleep(Duration::from_millis(5));
        }
        false
    }

    /// The process that replies on the port.
    fn replying_pid(&self) -> Option<u32> {
        let Ok(Reply::Bytes(info)) = self.try_query(&["INFO", "server"]) else { return None };
        let info = String::from_utf8_lossy(&info).into_owned();
        info.lines().find_map(|line| line.strip_prefix("process_id:")?.trim().parse().ok())
    }

    fn command(&self) -> Command {
        let Builder { settings, tls, cluster, sentinel, .. } = &self.builder;
        let mut command = Command::new("redis-server");
        if let Some(configuration) = sentinel {
            let file = self.directory.path().join("sentinel.conf");
            // A restarted sentinel keeps the state that it has written to the file.
            if !file.exists() {
                std::fs::write(&file, configuration).unwrap();
            }
            command.arg(file).arg("--sentinel");
        }
        command.args(["--port", &self.port().to_string(), "--bind", "127.0.0.1"]);
        if sentinel.is_none() {
            command.args(["--save", ""]);
        }
        if *cluster {
            command.args(["--cluster-port", &self.bus_port().to_string()]);
        }
        if let Some(Tls { certificate, key, root }) = tls {
            command.args(["--tls-port", &self.tls_port.number().to_string(), "--tls-auth-clients", "no"]);
            command.arg("--tls-cert-file").arg(certificate).arg("--tls-key-file").arg(key);
            command.arg("--tls-ca-cert-file").arg(root);
        }
        command.arg("--dir").arg(self.directory.path());
        for (name, value) in settings {
            command.arg(format!("--{name}")).args(value.split(' ').filter(|_| name == "replicaof"));
            command.args((name != "replicaof").then_some(value));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid().and_then(|pid| Pid::from_raw(pid as i32)) {
            kill_process(pid, signal).unwrap();
        }
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
