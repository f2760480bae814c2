//! A plain HTTP/1.1 server on loopback, and the sites that `crawler demo` crawls.
//!
//! A [`Server`] calls a handler for each request, from a thread of its own, until it is dropped:
//!
//! ```
//! use demoweb::{Answer, Server};
//!
//! let server = Server::start(|request| Answer::text(format!("you asked for {}", request.path)))?;
//! assert_eq!(server.url("/"), format!("http://127.0.0.1:{}/", server.port()));
//! assert!(server.log().is_empty());
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! - [`one_site`] and [`many_hosts`] are the handlers of the demos.
//! - [`Server::log`] lists the requests with their times; [`Log`] computes from them how polite a client was.
//! - [`Answer::scripted`] sends arbitrary bytes, so that tests can break HTTP on purpose.
//!
//! Only what the command needs is here: it is compiled into the command. The crate `testweb` adds https, HTTP/2,
//! compression, generated sites and hostile servers for tests.

mod answer;
mod connection;
mod log;
pub mod many_hosts;
pub mod one_site;
mod random;
mod request;
mod server;

pub use answer::{Answer, End, Framing, Script};
pub use connection::serve;
pub use log::{Entry, Hit, Log};
pub use random::Random;
pub use request::{Protocol, Request, host_of};
pub use server::{Listener, Options, Server};
