//! A web server on loopback, for tests and benchmarks of programs that fetch pages.
//!
//! A [`Web`] serves [`Site`]s over HTTP and HTTPS from its own thread, until it is dropped:
//!
//! ```
//! use testweb::{Response, Site, Web};
//!
//! let web = Web::builder()
//!     .host("a.test", Site::new().page("/", "<a href=/b>b</a>").redirect("/b", "/"))
//!     .site(Site::new().response("/", Response::text("hello").gzip()))
//!     .start();
//! assert_eq!(web.url("/"), format!("http://127.0.0.1:{}/", web.port()));
//! assert!(web.log().is_empty());
//! ```
//!
//! - A [`Site`] maps paths to [`Response`]s: pages, redirects, slow or compressed responses, sequences.
//! - [`Site::seeded`] generates a site from a number, and [`Web::truth`] returns what a crawl of it must find.
//! - [`ChangingSite`] is a site whose pages change while it is served, with and without validators.
//! - [`Hostile`] lists the ways in which a server can misbehave.
//! - [`Web::log`] is the server's log of all requests with their times; [`Log`] measures politeness.
//! - [`Proxy`] is an HTTP or SOCKS5 proxy with a log of its own.
//! - [`Certificate`]s, valid and invalid, are generated at start.
//!
//! The plain HTTP/1.1 server is that of the crate `demoweb`.

mod certificate;
mod changing;
mod hostile;
mod http2;
mod proxy;
mod response;
mod seeded;
mod site;
mod web;

pub use certificate::Certificate;
pub use changing::{ChangingSite, Validator};
pub use demoweb::{Log, LoggedRequest, Protocol, Request};
pub use hostile::Hostile;
pub use proxy::{Proxy, ProxyBuilder, ProxyFault, ProxyRequest};
pub use response::{Response, ResponseSequence};
pub use seeded::Truth;
pub use site::Site;
pub use web::{Builder, Web};
