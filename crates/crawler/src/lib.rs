//! A polite, safe and fast web crawler with three modes:
//!
//! - **Pipeline** ([`Crawler`]): crawls many hosts and runs modules on each page.
//! - **Classic** ([`ClassicCrawl`]): saves one site as numbered files.
//! - **Callbacks** ([`crawl`], [`CallbackCrawl`]): your own fetch function, every edge of the link graph, on pools of
//!   plain threads. It needs no network: everything that does is behind the feature `net`, which is on by default.
#![forbid(unsafe_code)]

#[cfg(feature = "net")]
mod backend;
mod callbacks;
#[cfg(feature = "net")]
mod classic;
#[cfg(feature = "net")]
mod config;
#[cfg(test)]
mod cpu_time;
#[cfg(feature = "net")]
mod distributed;
#[cfg(feature = "net")]
mod domain;
#[cfg(feature = "net")]
mod error;
#[cfg(feature = "net")]
mod event;
#[cfg(feature = "net")]
mod fetch;
#[cfg(feature = "net")]
mod frontier;
mod html;
#[doc(hidden)]
pub mod internal;
mod media;
#[cfg(feature = "net")]
mod modules;
#[cfg(feature = "net")]
mod origin;
#[cfg(feature = "net")]
mod outcome;
#[cfg(feature = "net")]
mod page;
#[cfg(feature = "net")]
mod panics;
#[cfg(feature = "net")]
mod pipeline;
#[cfg(feature = "net")]
mod prioritizer;
#[cfg(feature = "net")]
mod scope;
#[cfg(feature = "net")]
mod similarity;
#[cfg(feature = "net")]
mod stats;
#[cfg(feature = "net")]
mod stop;
#[cfg(feature = "net")]
mod task;
#[cfg(feature = "net")]
mod worker;

#[cfg(feature = "net")]
pub use backend::durable::{StateReader, UrlHistory, UrlStatus};
pub use callbacks::{CallbackCrawl, CallbackReport, LinkRule, StartError};
#[cfg(feature = "net")]
pub use classic::{ClassicCrawl, ClassicReport};
#[cfg(feature = "net")]
pub use error::Error;
#[cfg(feature = "net")]
pub use event::{Event, NoopObserver, Observer};
#[cfg(feature = "net")]
pub use modules::{Module, Output};
#[cfg(feature = "net")]
pub use outcome::{Outcome, OutcomeGroup};
#[cfg(feature = "net")]
pub use page::Page;
#[cfg(feature = "net")]
pub use pipeline::{CrawlEnd, CrawlReport, Crawler};
#[cfg(feature = "net")]
pub use prioritizer::{Candidate, Prioritizer, Priority};
#[cfg(feature = "net")]
pub use scope::Scope;
#[cfg(feature = "net")]
pub use stop::StopHandle;
