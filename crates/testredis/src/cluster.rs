//! A Redis Cluster of three primaries with a third of the slots each, and optionally a replica each.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::reply::Reply;
use crate::server::{Builder, Server};

/// With fewer primaries there is no majority when one fails.
const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;
/// Timeout for the nodes to form the cluster, and for a failover.
const START_TIMEOUT: Duration = Duration::from_secs(90);
/// How long a primary with replicas may be unreachable before it is considered failed, in milliseconds.
const NODE_TIMEOUT: &str = "1500";

/// A running cluster. A drop stops it.
#[derive(Debug)]
pub struct Cluster {
    /// The primaries at the start.
    pub nodes: Vec<Server>,
    /// A replica of each primary, or empty.
    pub replicas: Vec<Server>,
}

impl Cluster {
    /// Starts a cluster and waits until all nodes report it ok.
    pub fn start() -> Cluster {
        Cluster::start_with(Server::builder())
    }

    /// The same with nodes of these settings.
    pub fn start_with(node: Builder) -> Cluster {
        let cluster = Cluster { nodes: primaries(&node.cluster()), replicas: Vec::new() };
        cluster.wait_until_ok();
        cluster
    }

    /// The same, with a replica of each primary that takes over soon after the primary fails. Waits until the replicas
    /// are in sync.
    pub fn with_replicas(node: Builder) -> Cluster {
        let node = node.cluster().setting("cluster-node-timeout", NODE_TIMEOUT);
        // Otherwise a primary waits some seconds for more replicas.
        let node = node.setting("repl-diskless-sync-delay", "0");
        let nodes = primaries(&node);
        let replicas: Vec<Server> = (0..PRIMARIES).map(|_| node.clone().start()).collect();
        replicas.iter().for_each(|replica| cluster_meet(replica, &nodes[0]));
        let cluster = Cluster { nodes, replicas };
        let accepted = |reply: Reply| reply == Reply::Bytes("OK".into());
        for (primary, replica) in cluster.nodes.iter().zip(&cluster.replicas) {
            let id: String = primary.query("CLUSTER MYID");
            // Refused until the replica knows its primary.
            wait("timeout: a replica did not find its primary", || {
                replica.try_query(&["CLUSTER", "REPLICATE", &id]).is_ok_and(accepted)
            });
        }
        cluster.wait_until_ok();
        for replica in &cluster.replicas {
            wait("timeout: a replica is not in sync", || replica.info("master_link_status") == "up");
        }
        cluster
    }

    /// Waits until all nodes report the cluster ok. Panics after a timeout.
    pub fn wait_until_ok(&self) {
        let all = self.nodes.len() + self.replicas.len();
        wait("timeout: the nodes of the cluster did not find each other", || {
            self.nodes.iter().chain(&self.replicas).all(|node| is_ok(node, all))
        });
    }

    /// Kills a primary and waits some seconds until its replica has taken over.
    pub fn fail_over(&self, number: usize) {
        self.nodes[number].kill();
        self.wait_for_failover(number);
    }

    /// Waits until the replica of a primary has taken over.
    pub fn wait_for_failover(&self, number: usize) {
        let replica = &self.replicas[number];
        wait("timeout: the replica did not take over", || replica.info("role") == "master");
    }

    /// The URL of one node, from which a client discovers the others.
    pub fn url(&self) -> String {
        self.nodes[0].url()
    }

    /// A URL with the addresses of all nodes, for clients that must connect while some nodes are down.
    pub fn url_of_all_nodes(&self) -> String {
        let all = self.nodes.iter().chain(&self.replicas);
        let addresses: Vec<String> = all.map(|node| node.address().to_string()).collect();
        format!("redis://{}/", addresses.join(","))
    }
}

/// Starts connected primaries with their slots.
fn primaries(node: &Builder) -> Vec<Server> {
    let nodes: Vec<Server> = (0..PRIMARIES).map(|_| node.clone().start()).collect();
    for (number, node) in nodes.iter().enumerate() {
        let (first, last) = (SLOTS * number / PRIMARIES, SLOTS * (number + 1) / PRIMARIES - 1);
        // Distinct epochs avoid a conflict about which node is newer.
        node.query::<()>(&format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1));
        node.query::<()>(&format!("CLUSTER ADDSLOTSRANGE {first} {last}"));
    }
    nodes[1..].iter().for_each(|node| cluster_meet(node, &nodes[0]));
    nodes
}

fn cluster_meet(node: &Server, other: &Server) {
    node.query::<()>(&format!("CLUSTER MEET 127.0.0.1 {} {}", other.port(), other.bus_port()));
}

fn is_ok(node: &Server, all: usize) -> bool {
    let info: String = node.query("CLUSTER INFO");
    let known = format!("cluster_known_nodes:{all}");
    ["cluster_state:ok", &known, "cluster_size:3"]
        .iter()
        .all(|line| info.lines().any(|reported| reported == *line))
}

fn wait(failure: &str, is_done: impl Fn() -> bool) {
    let start_time = Instant::now();
    while !is_done() {
        assert!(start_time.elapsed() < START_TIMEOUT, "{failure}");
        sleep(Duration::from_millis(20));
    }
}
