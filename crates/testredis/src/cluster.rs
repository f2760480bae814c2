//! A Redis Cluster of three primaries, each with a third of the slots, and each with a replica where that is asked for.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::reply::Reply;
use crate::server::{Builder, Server};

/// How many primaries: with fewer there is no majority when one is gone.
const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;
/// How long they may take to find each other, and to replace one of them.
const START: Duration = Duration::from_secs(90);
/// How long one that has replicas is silent before it is taken for dead, in milliseconds.
const NODE_TIMEOUT: &str = "1500";

/// A cluster. It ends when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    /// Its primaries at the beginning.
    pub nodes: Vec<Server>,
    /// A replica of each of them, or nothing.
    pub replicas: Vec<Server>,
}

impl Cluster {
    /// Starts one and waits until all of its nodes say that it is whole.
    pub fn start() -> Cluster {
        Cluster::of(Server::builder())
    }

    /// The same of nodes that have more settings.
    pub fn of(node: Builder) -> Cluster {
        let cluster = Cluster { nodes: primaries(&node.cluster()), replicas: Vec::new() };
        cluster.wait_until_whole();
        cluster
    }

    /// The same, and each has a replica that takes its place a moment after its death. Waits until they have everything.
    pub fn with_replicas(node: Builder) -> Cluster {
        let node = node.cluster().setting("cluster-node-timeout", NODE_TIMEOUT);
        // Otherwise a primary waits some seconds for more replicas to come.
        let node = node.setting("repl-diskless-sync-delay", "0");
        let nodes = primaries(&node);
        let replicas: Vec<Server> = (0..PRIMARIES).map(|_| node.clone().start()).collect();
        replicas.iter().for_each(|replica| meet(replica, &nodes[0]));
        let cluster = Cluster { nodes, replicas };
        let is_ok = |reply: Reply| reply == Reply::Bytes("OK".into());
        for (primary, replica) in cluster.nodes.iter().zip(&cluster.replicas) {
            let id: String = primary.ask("CLUSTER MYID");
            // It has to hear of its primary first.
            wait("a replica did not find its primary", || {
                replica.try_ask(&["CLUSTER", "REPLICATE", &id]).is_ok_and(is_ok)
            });
        }
        cluster.wait_until_whole();
        for replica in &cluster.replicas {
            wait("a replica did not get everything", || replica.info("master_link_status") == "up");
        }
        cluster
    }

    /// Waits until all of its nodes say that it is whole, and fails if that takes too long.
    pub fn wait_until_whole(&self) {
        let all = self.nodes.len() + self.replicas.len();
        wait("the nodes of the cluster did not find each other", || {
            self.nodes.iter().chain(&self.replicas).all(|node| is_whole(node, all))
        });
    }

    /// Kills a primary that has a replica, and waits until that has taken its place, which takes some seconds.
    pub fn fail_over(&self, number: usize) {
        self.nodes[number].kill();
        self.wait_until_replaced(number);
    }

    /// Waits until the replica of a primary has taken its place.
    pub fn wait_until_replaced(&self, number: usize) {
        let replica = &self.replicas[number];
        wait("the replica did not take the place of its primary", || replica.info("role") == "master");
    }

    /// Where it is: any node tells of the others.
    pub fn url(&self) -> String {
        self.nodes[0].url()
    }

    /// Where it is, with the addresses of all its nodes, any of which may be gone.
    pub fn url_of_all(&self) -> String {
        let all = self.nodes.iter().chain(&self.replicas);
        let addresses: Vec<String> = all.map(|node| node.address().to_string()).collect();
        format!("redis://{}/", addresses.join(","))
    }
}

/// Primaries that have met, each with its slots.
fn primaries(node: &Builder) -> Vec<Server> {
    let nodes: Vec<Server> = (0..PRIMARIES).map(|_| node.clone().start()).collect();
    for (number, node) in nodes.iter().enumerate() {
        let (first, last) = (SLOTS * number / PRIMARIES, SLOTS * (number + 1) / PRIMARIES - 1);
        // Epochs of their own spare them the quarrel about who is newer.
        node.ask::<()>(&format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1));
        node.ask::<()>(&format!("CLUSTER ADDSLOTSRANGE {first} {last}"));
    }
    nodes[1..].iter().for_each(|node| meet(node, &nodes[0]));
    nodes
}

fn meet(node: &Server, other: &Server) {
    node.ask::<()>(&format!("CLUSTER MEET 127.0.0.1 {} {}", other.port(), other.bus_port()));
}

fn is_whole(node: &Server, all: usize) -> bool {
    let info: String = node.ask("CLUSTER INFO");
    let known = format!("cluster_known_nodes:{all}");
    ["cluster_state:ok", &known, "cluster_size:3"].iter().all(|line| info.lines().any(|said| said == *line))
}

fn wait(failure: &str, is_there: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < START, "{failure}");
        sleep(Duration::from_millis(20));
    }
}
