//! A web on loopback, for tests and benchmarks of anything that fetches pages.
//!
//! A [`Web`] serves [`Site`]s over http and https from a thread of its own, until it is dropped:
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
//! - A [`Site`] maps paths to [`Answer`]s: pages, redirects, slow ones, compressed ones, several in turn.
//! - [`Site::seeded`] makes a whole site from a number, and [`Web::truth`] tells what a crawl of it must find.
//! - [`Hostile`] is every way a server can misbehave that we know of.
//! - [`Web::log`] is the server's own account of what it was asked, by whom and when; [`Log`] answers the
//!   questions of politeness.
//! - [`Certificate`]s are made on the spot, good and bad.
//!
//! The server for plain HTTP/1.1 is that of the crate `demoweb`.

mod answer;
mod certificate;
mod hostile;
mod http2;
mod seeded;
mod site;
mod web;

pub use answer::{Answer, Turns};
pub use certificate::Certificate;
pub use demoweb::{Hit, Log, Protocol, Request};
pub use hostile::Hostile;
pub use seeded::Truth;
pub use site::Site;
pub use web::{Builder, Web};
