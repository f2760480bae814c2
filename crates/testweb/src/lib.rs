//! A web server on loopback, for tests, benchmarks and demonstrations of programs that fetch pages.
//!
//! A [`Web`] serves [`Site`]s over HTTP and HTTPS from its own thread, until it is dropped:
//!
//! ```
//! use testweb::{Answer, Site, Web};
//!
//! let web = Web::builder()
//!     .host("a.test", Site::new().page("/", "<a href=/b>b</a>").redirect("/b", "/"))
//!     .site(Site::new().answer("/", Answer::text("hello").gzip()))
//!     .start();
//! assert_eq!(web.url("/"), format!("http://127.0.0.1:{}/", web.port()));
//! assert!(web.log().is_empty());
//! ```
//!
//! - A [`Site`] maps paths to responses ([`Answer`]): pages, redirects, slow or compressed responses, sequences.
//! - [`Site::seeded`] generates a site from a number, and [`Web::truth`] returns what a crawl of it must find.
//! - [`Hostile`] lists the ways in which a server can misbehave.
//! - [`Web::log`] is the server's log of all requests with their times; [`Log`] measures politeness.
//! - [`Certificate`]s, valid and invalid, are generated at start.

mod answer;
mod certificate;
mod connection;
mod demo;
mod demo_hosts;
mod hostile;
mod http2;
mod log;
mod request;
mod seeded;
mod site;
mod web;

pub use answer::{Answer, Turns};
pub use certificate::Certificate;
pub use demo::demo_site;
pub use demo_hosts::{DEMO_SEED, demo_hosts, demo_mirrored, demo_pages};
pub use hostile::Hostile;
pub use log::{Hit, Log};
pub use request::{Protocol, Request};
pub use seeded::Truth;
pub use site::Site;
pub use web::{Builder, Web};
