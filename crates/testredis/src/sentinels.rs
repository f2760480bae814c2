//! A primary, its replica, and the sentinels that make the replica the primary when the first one is gone.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::reply::Reply;
use crate::server::{Fsync, Server};

/// What the sentinels call it.
const NAME: &str = "main";
/// How long they may take to know each other and the replica.
const START: Duration = Duration::from_secs(90);

/// Servers watched over by sentinels. They end when this is dropped.
#[derive(Debug)]
pub struct Sentinels {
    /// The primary at the beginning, and its replica.
    pub servers: [Server; 2],
    /// Who watches over them.
    pub sentinels: Vec<Server>,
}

impl Sentinels {
    /// Starts a primary and a replica, with append-only files, and so many sentinels; waits until each knows all.
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
        started.wait("the sentinels did not get to know each other and the replica", |sentinel| {
            let Reply::Many(said) = sentinel.ask(&format!("SENTINEL MASTER {NAME}")) else { return false };
            let says = |name: &str, number: usize| {
                let said = said.iter().skip_while(|word| **word != Reply::Bytes(name.into())).nth(1);
                said == Some(&Reply::Bytes(number.to_string().into()))
            };
            says("num-slaves", 1) && says("num-other-sentinels", count - 1)
        });
        started
    }

    /// What the sentinels call the primary.
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// Where the sentinels are.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sentinels.iter().map(Server::address).collect()
    }

    /// Who is the primary now, as the first sentinel says.
    pub fn primary(&self) -> &Server {
        let port = primary_port(&self.sentinels[0]);
        self.servers.iter().find(|server| server.port() == port).expect("the primary is one of the two")
    }

    /// Kills the primary and waits until all sentinels name the other, which takes some seconds.
    pub fn fail_over(&self) {
        let before = self.primary();
        before.kill();
        let port = before.port();
        self.wait("the sentinels did not make the replica the primary", |sentinel| {
            primary_port(sentinel) != port
        });
    }

    /// Has the sentinels make the replica the primary while the first one goes on, as somebody does who wants to look after
    /// it, and returns as soon as there are two: for some seconds the first one answers as before, and what it is told is
    /// lost.
    pub fn replace(&self) {
        let replica = self.servers.iter().find(|server| server.port() != self.primary().port());
        let replica = replica.expect("one of the two is not the primary");
        let begun = Instant::now();
        let is_ok = |reply: Reply| reply == Reply::Bytes("OK".into());
        // Some time passes before they think well enough of a replica.
        while !self.sentinels[0].try_ask(&["SENTINEL", "FAILOVER", NAME]).is_ok_and(is_ok) {
            assert!(begun.elapsed() < START, "the sentinels do not want to make the replica the primary");
            sleep(Duration::from_millis(20));
        }
        let is_primary = |reply: Reply| matches!(reply, Reply::Many(role) if role.first() == Some(&Reply::Bytes("master".into())));
        // It cuts everybody off when it becomes the primary.
        while !replica.try_ask(&["ROLE"]).is_ok_and(is_primary) {
            assert!(begun.elapsed() < START, "the sentinels did not make the replica the primary");
            sleep(Duration::from_millis(5));
        }
    }

    fn wait(&self, failure: &str, is_there: impl Fn(&Server) -> bool) {
        let begun = Instant::now();
        while !self.sentinels.iter().all(&is_there) {
            assert!(begun.elapsed() < START, "{failure}");
            sleep(Duration::from_millis(50));
        }
    }
}

fn primary_port(sentinel: &Server) -> u16 {
    let address: Vec<String> = sentinel.ask(&format!("SENTINEL GET-MASTER-ADDR-BY-NAME {NAME}"));
    address[1].parse().expect("a port")
}
