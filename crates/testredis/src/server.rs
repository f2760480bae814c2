//! One `redis-server`: on a free port of loopback, with a directory of its own, gone with all it had when it is dropped.

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

/// How long a server may take to answer the first time: it may have much to read, on a busy machine.
const START: Duration = Duration::from_secs(60);
/// Another program may take a free port before the server does.
const ATTEMPTS: u32 = 5;

/// How often the append-only file reaches the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// Every second: as much is lost when the machine goes, and nothing when only the server does.
    EverySecond,
    /// Before every answer.
    Always,
}

/// A server to be started.
#[derive(Debug, Clone, Default)]
pub struct Builder {
    settings: Vec<(String, String)>,
    password: Option<String>,
    tls: Option<Tls>,
    cluster: bool,
    sentinel: Option<String>,
}

/// A server. It is killed, and its directory removed, when this is dropped.
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
    /// Everything is written to a file, and read from it at a restart.
    pub fn append_only(self, fsync: Fsync) -> Self {
        let fsync = if fsync == Fsync::Always { "always" } else { "everysec" };
        self.setting("appendonly", "yes").setting("appendfsync", fsync)
    }

    /// Only who knows this is let in. It is letters and digits, as it is part of a URL.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.setting("requirepass", password).setting("masterauth", password)
    }

    /// It takes no more memory than this, like `100mb`; when that is full, writes are refused.
    pub fn max_memory(self, memory: &str) -> Self {
        self.setting("maxmemory", memory).setting("maxmemory-policy", "noeviction")
    }

    /// It repeats what another server does, and can only be read.
    pub fn replica_of(self, primary: &Server) -> Self {
        self.setting("replicaof", &format!("127.0.0.1 {}", primary.port()))
    }

    /// It speaks TLS where [`Server::url`] leads, and plainly where [`Server::port`] does.
    pub fn tls(mut self, tls: &Tls) -> Self {
        self.tls = Some(tls.clone());
        self
    }

    /// It is a node of a cluster, of which it knows nobody yet.
    pub fn cluster(mut self) -> Self {
        self.cluster = true;
        self.setting("cluster-enabled", "yes").setting("cluster-node-timeout", "5000")
    }

    /// It is a sentinel, with these lines of its configuration.
    pub(crate) fn sentinel(mut self, configuration: String) -> Self {
        self.sentinel = Some(configuration);
        self
    }

    /// Any setting of `redis.conf`.
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts it and waits until it answers.
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
        panic!("redis-server did not start on any of {ATTEMPTS} free ports");
    }
}

impl Server {
    /// A server that forgets everything when it ends.
    pub fn start() -> Server {
        Server::builder().start()
    }

    /// A server with more settings than that.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Where it is, with the password if it has one.
    pub fn url(&self) -> String {
        let password = self.builder.password.as_ref().map_or(String::new(), |word| format!(":{word}@"));
        match self.builder.tls {
            Some(_) => format!("rediss://{password}127.0.0.1:{}/", self.tls_port.number()),
            None => format!("redis://{password}127.0.0.1:{}/", self.port()),
        }
    }

    /// The port where it speaks plainly.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The same as an address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port()).into()
    }

    /// Where the address of [`Server::url`] is: the port with TLS, if it has one.
    pub(crate) fn url_address(&self) -> SocketAddr {
        let port = if self.builder.tls.is_some() { &self.tls_port } else { &self.port };
        (Ipv4Addr::LOCALHOST, port.number()).into()
    }

    /// The port where the nodes of a cluster talk to each other.
    pub(crate) fn bus_port(&self) -> u16 {
        self.bus_port.number()
    }

    /// The number of its process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child().as_ref().map(Child::id)
    }

    /// Ends it at once, whatever it is doing.
    pub fn kill(&self) {
        if let Some(mut child) = self.child().take() {
            let _ = (child.kill(), child.wait());
        }
    }

    /// Asks it to end, and waits for it: what it keeps in a file is written first.
    pub fn stop(&self) {
        self.signal(Signal::TERM);
        if let Some(mut child) = self.child().take() {
            child.wait().unwrap();
        }
    }

    /// Kills it if it runs, and starts it again: on the same port, with what it had written down.
    pub fn restart(&self) {
        self.kill();
        assert!(self.spawn(), "redis-server does not start again on port {}", self.port());
    }

    /// Lets it stand still: connections are accepted by the system, and nothing is answered.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on after a pause.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Asks it something, in words separated by one space, and fails if that is not what it answers.
    pub fn ask<T: FromReply>(&self, command: &str) -> T {
        self.cli(&command.split(' ').collect::<Vec<_>>())
    }

    /// Asks it something, and fails if that is not what it answers.
    pub fn cli<T: FromReply>(&self, words: &[&str]) -> T {
        let command = words.first().unwrap_or(&"");
        let reply = self.try_ask(words).unwrap_or_else(|error| panic!("{command}: {error}"));
        T::from_reply(reply).unwrap_or_else(|reply| panic!("{command} was answered by {reply:?}"))
    }

    /// Asks it something that it may refuse, or not be there to answer.
    pub fn try_ask(&self, words: &[&str]) -> std::io::Result<Reply> {
        let mut client = Client::connect(self.address())?;
        if let Some(password) = &self.builder.password {
            client.ask(&["AUTH", password])?;
        }
        client.ask(words)
    }

    /// A line of `INFO`.
    pub fn info(&self, name: &str) -> String {
        let info: String = self.ask("INFO");
        let found = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.unwrap_or_else(|| panic!("INFO has no line {name}")).to_owned()
    }

    /// Starts the process and waits until it replies; returns whether it does.
    fn spawn(&self) -> bool {
        let child = self.command().spawn().expect(
            "cannot start redis-server; install it (apt-get install redis-server), `make test` does that",
        );
        let pid = child.id();
        *self.child() = Some(child);
        let begun = Instant::now();
        while begun.elapsed() < START {
            // A server that is still loading its data replies to INFO, but not to PING.
            let is_loading =
                matches!(self.try_ask(&["PING"]), Ok(Reply::Wrong(why)) if why.starts_with("LOADING"));
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
        let Ok(Reply::Bytes(info)) = self.try_ask(&["INFO", "server"]) else { return None };
        let info = String::from_utf8_lossy(&info).into_owned();
        info.lines().find_map(|line| line.strip_prefix("process_id:")?.trim().parse().ok())
    }

    fn command(&self) -> Command {
        let Builder { settings, tls, cluster, sentinel, .. } = &self.builder;
        let mut command = Command::new("redis-server");
        if let Some(configuration) = sentinel {
            let file = self.directory.path().join("sentinel.conf");
            // A sentinel that was there before has written into it what it learned.
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
