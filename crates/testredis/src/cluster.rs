//! A Redis Cluster of three primaries, each with a third of the slots.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::server::{Builder, Server};

/// How many primaries: with fewer there is no majority when one is gone.
const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;
/// How long they may take to find each other.
const START: Duration = Duration::from_secs(30);

/// A cluster. It ends when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    /// Its nodes.
    pub nodes: Vec<Server>,
}

impl Cluster {
    /// Starts one and waits until all of its nodes say that it is whole.
    pub fn start() -> Cluster {
        Cluster::of(Server::builder())
    }

    /// The same of nodes that have more settings.
    pub fn of(node: Builder) -> Cluster {
        let nodes: Vec<Server> = (0..PRIMARIES).map(|_| node.clone().cluster().start()).collect();
        for (number, node) in nodes.iter().enumerate() {
            let (first, last) = (SLOTS * number / PRIMARIES, SLOTS * (number + 1) / PRIMARIES - 1);
            // Epochs of their own spare them the quarrel about who is newer.
            node.ask::<()>(&format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1));
            node.ask::<()>(&format!("CLUSTER ADDSLOTSRANGE {first} {last}"));
        }
        for node in &nodes[1..] {
            let (port, bus_port) = (nodes[0].port(), nodes[0].bus_port());
            node.ask::<()>(&format!("CLUSTER MEET 127.0.0.1 {port} {bus_port}"));
        }
        let cluster = Cluster { nodes };
        cluster.wait_until_whole();
        cluster
    }

    /// Waits until all of its nodes say that it is whole, and fails if that takes too long.
    pub fn wait_until_whole(&self) {
        let begun = Instant::now();
        while !self.nodes.iter().all(is_whole) {
            assert!(begun.elapsed() < START, "the nodes of the cluster did not find each other");
            sleep(Duration::from_millis(20));
        }
    }

    /// Where it is: any node tells of the others.
    pub fn url(&self) -> String {
        self.nodes[0].url()
    }
}

fn is_whole(node: &Server) -> bool {
    let info: String = node.ask("CLUSTER INFO");
    ["cluster_state:ok", "cluster_known_nodes:3", "cluster_size:3"]
        .iter()
        .all(|line| info.lines().any(|said| said == *line))
}
