//! Real Redis servers on loopback, for tests, and every trouble with them that can be made on purpose.
//!
//! A [`Server`] runs on a free port in a scratch directory until it is dropped:
//!
//! ```no_run
//! use testredis::{Fsync, Mode, Proxy, Server};
//!
//! let server = Server::builder().append_only(Fsync::EverySecond).start();
//! let proxy = Proxy::before(&server);
//! assert_eq!(server.ask::<String>("PING"), "PONG");
//! proxy.set(Mode::BlackHole); // whoever came through `proxy.url()` hears nothing any more
//! server.kill();
//! server.restart(); // on the same port, with what it had written down
//! ```
//!
//! - [`Server`] has every setting a test asks for: a password, an append-only file, TLS, little memory, a primary.
//! - [`Cluster`] is three primaries, with or without replicas; [`Sentinels`] watch over a primary and its replica.
//! - [`Proxy`] stands between a client and a server and delays, cuts, swallows and holds what passes.
//! - [`ReservedPort`] is a port that stays free while its server is down.
//! - [`FromReply`] is what an answer can be read as.

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
