//! A real `redis-server` for a test: on a free port of loopback, with a directory of its own, gone afterwards.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A running server.
pub struct RedisServer {
    child: Child,
    port: u16,
    _directory: TempDir,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    pub fn start() -> RedisServer {
        RedisServer::start_with(&[])
    }

    /// Starts a server with more settings.
    pub fn start_with(arguments: &[&str]) -> RedisServer {
        // Somebody else may take the port before the server does.
        let started = (0..5).find_map(|_| Self::try_start(arguments));
        started.expect("redis-server did not start on any of five free ports")
    }

    fn try_start(arguments: &[&str]) -> Option<RedisServer> {
        let directory = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(directory.path())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect(
                "cannot start redis-server; install it (apt-get install redis-server), `make test` does that",
            );
        let mut server = RedisServer { child, port, _directory: directory };
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(server);
            }
            if server.child.try_wait().unwrap().is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    /// Asks it something.
    #[allow(dead_code, reason = "not every test does")]
    pub fn ask<T: redis::FromRedisValue>(&self, command: &str) -> T {
        let mut connection = redis::Client::open(self.url()).unwrap().get_connection().unwrap();
        let mut words = command.split(' ');
        let mut asked = redis::cmd(words.next().unwrap());
        for word in words {
            asked.arg(word);
        }
        asked.query(&mut connection).unwrap()
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
