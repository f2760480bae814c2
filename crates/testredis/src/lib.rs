//! Real Redis servers on loopback for tests, with fault injection.
//!
//! A [`Server`] runs on a free port in a temporary directory until it is dropped:
//!
//! ```no_run
//! use testredis::{Fsync, Mode, Proxy, Server};
//!
//! let server = Server::builder().append_only(Fsync::EverySecond).start();
//! let proxy = Proxy::for_server(&server);
//! assert_eq!(server.query::<String>("PING"), "PONG");
//! proxy.set_mode(Mode::BlackHole); // clients of `proxy.url()` get no more replies
//! server.kill();
//! server.restart(); // on the same port, with the data of its append-only file
//! ```
//!
//! - [`Server`] has settings for a password, an append-only file, TLS, a memory limit and replication.
//! - [`Cluster`] is a Redis Cluster of three primaries, with or without replicas; [`Sentinels`] monitor a primary and
//!   its replica.
//! - [`Proxy`] forwards between clients and a server, and delays, drops, truncates or holds the traffic.
//! - [`ReservedPort`] is a port that stays free while its server is down.
//! - [`FromReply`] converts a reply to a Rust type.

mod cluster;
mod ports;
mod proxy;
mod reply;
mod sentinels;
mod server;
mod tls;

pub use cluster::Cluster;
pub use ports::ReservedPort;
pub use proxy::{Mode, Proxy};
pub use reply::{FromReply, Reply};
pub use sentinels::Sentinels;
pub use server::{Builder, Fsync, Server};
pub use tls::Tls;
