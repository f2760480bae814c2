//! A plain HTTP/1.1 server on loopback, and the sites that `crawler demo` crawls.
//!
//! A [`Server`] calls a handler for each request, on its own thread, until it is dropped:
//!
//! ```
//! use demoweb::{Response, Server};
//!
//! let server = Server::start(|request| Response::text(format!("the path is {}", request.path)))?;
//! assert_eq!(server.url("/"), format!("http://127.0.0.1:{}/", server.port()));
//! assert!(server.log().is_empty());
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! - [`one_site`] and [`many_hosts`] are the handlers of the demos.
//! - [`Server::log`] lists the requests with their times; [`Log`] measures politeness.
//! - [`Response::scripted`] sends arbitrary bytes, so that tests can violate HTTP.
//!
//! This crate is compiled into the command, so it has only what the command needs. The crate `testweb` adds HTTPS,
//! HTTP/2, compression, generated sites and hostile servers for tests.

mod connection;
mod log;
pub mod many_hosts;
pub mod one_site;
mod random;
mod request;
mod response;
mod server;

pub use connection::serve;
pub use log::{Entry, Log, LoggedRequest};
pub use random::Random;
pub use request::{Protocol, Request, host_of};
pub use response::{ConnectionEnd, Framing, Response, Script};
pub use server::{Listener, Options, Server};
