//! A primary, its replica, and sentinels that promote the replica when the primary fails.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::reply::Reply;
use crate::server::{Fsync, Server};

/// The name of the primary in the sentinels' configuration.
const NAME: &str = "main";
/// Timeout for the sentinels to discover each other and the replica, and for a failover.
const START_TIMEOUT: Duration = Duration::from_secs(90);

/// A primary and a replica monitored by sentinels. A drop stops them all.
#[derive(Debug)]
pub struct Sentinels {
    /// The primary at the start, and its replica.
    pub servers: [Server; 2],
    /// The sentinels.
    pub sentinels: Vec<Server>,
}

impl Sentinels {
    /// Starts a primary and a replica with append-only files, and `count` sentinels. Waits until the sentinels know
    /// each other and the replica.
    pub fn start(count: usize) -> Sentinels {
        let append_only = || Server::builder().append_only(Fsync::EverySecond);
        let primary = append_only().setting("repl-diskless-sync-delay", "0").start();
        let replica = append_only().replica_of(&primary).start();
        let quorum = count / 2 + 1;
        let port = primary.port();
        let configuration = format!(
            "sentinel monitor {NAME} 127.0.0.1 {port} {quorum}\n\
             sentinel down-after-milliseconds {NAME} 2000\n\
             sentinel failover-timeout {NAME} 5000\n"
        );
        let sentinel = || Server::builder().sentinel(configuration.clone()).start();
        let sentinels = (0..count).map(|_| sentinel()).collect();
        let started = Sentinels { servers: [primary, replica], sentinels };
        started.wait("timeout: the sentinels did not discover each other and the replica", |sentinel| {
            let Reply::Array(fields) = sentinel.query(&format!("SENTINEL MASTER {NAME}")) else {
                return false;
            };
            let has = |name: &str, number: usize| {
                let value = fields.iter().skip_while(|field| **field != Reply::Bytes(name.into())).nth(1);
                value == Some(&Reply::Bytes(number.to_string().into()))
            };
            has("num-slaves", 1) && has("num-other-sentinels", count - 1)
        });
        started
    }

    /// The name of the primary in the sentinels' configuration.
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// The addresses of the sentinels.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sentinels.iter().map(Server::address).collect()
    }

    /// The current primary, according to the first sentinel.
    pub fn primary(&self) -> &Server {
        let port = primary_port(&self.sentinels[0]);
        self.servers.iter().find(|server| server.port() == port).expect("the primary is one of the two")
    }

    /// Kills the primary and waits some seconds until all sentinels report the replica as the primary.
    pub fn fail_over(&self) {
        let before = self.primary();
        before.kill();
        let port = before.port();
        self.wait("timeout: the sentinels did not promote the replica", |sentinel| {
            primary_port(sentinel) != port
        });
    }

    /// Starts a manual failover while the primary runs, as for maintenance, and returns as soon as the replica is
    /// promoted. For some seconds there are two primaries: the old one still replies, and what it is sent is lost.
    pub fn manual_failover(&self) {
        let replica = self.servers.iter().find(|server| server.port() != self.primary().port());
        let replica = replica.expect("one of the two is not the primary");
        let start_time = Instant::now();
        let is_ok = |reply: Reply| reply == Reply::Bytes("OK".into());
        // Refused until the sentinels consider the replica suitable.
        while !self.sentinels[0].try_query(&["SENTINEL", "FAILOVER", NAME]).is_ok_and(is_ok) {
            assert!(
                start_time.elapsed() < START_TIMEOUT,
                "timeout: the sentinels refuse to promote the replica"
            );
            sleep(Duration::from_millis(20));
        }
        let is_primary = |reply: Reply| matches!(reply, Reply::Array(role) if role.first() == Some(&Reply::Bytes("master".into())));
        // A promoted server closes its client connections, so the query may fail.
        while !replica.try_query(&["ROLE"]).is_ok_and(is_primary) {
            assert!(
                start_time.elapsed() < START_TIMEOUT,
                "timeout: the sentinels did not promote the replica"
            );
            sleep(Duration::from_millis(5));
        }
    }

    fn wait(&self, failure: &str, is_done: impl Fn(&Server) -> bool) {
        let start_time = Instant::now();
        while !self.sentinels.iter().all(&is_done) {
            assert!(start_time.elapsed() < START_TIMEOUT, "{failure}");
            sleep(Duration::from_millis(50));
        }
    }
}

fn primary_port(sentinel: &Server) -> u16 {
    let address: Vec<String> = sentinel.query(&format!("SENTINEL GET-MASTER-ADDR-BY-NAME {NAME}"));
    address[1].parse().expect("a port")
}
