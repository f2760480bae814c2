//! A polite, safe and fast web crawler with three modes.
//!
//! # Pipeline
//!
//! [`Crawler`] crawls many hosts within limits and processes each page: with modules, with outputs, or as a stream.
//!
//! ```no_run
//! # async fn example() -> Result<(), crawler::Error> {
//! let mut pages = crawler::Crawler::new("https://example.org/")?.max_depth(3).max_pages(500).pages()?;
//! while let Some(page) = pages.next().await {
//!     println!("{} {}", page.url, page.title);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Classic
//!
//! [`ClassicCrawl`] saves one site as numbered files.
//!
//! ```no_run
//! # fn example() -> Result<(), crawler::Error> {
//! let report = crawler::ClassicCrawl::new("https://example.org/", "pages", 2)?.run_blocking()?;
//! println!("{} pages saved", report.stats.pages);
//! # Ok(())
//! # }
//! ```
//!
//! # Callbacks
//!
//! [`crawl`] and [`CallbackCrawl`] call your own fetch function, and report every edge of the link graph, on pools of plain
//! threads.
//!
//! ```
//! let fetch = |link: &str| (link == "home").then_some("link:news link:about");
//! let report = crawler::crawl("home", 2, 1, 100, fetch, |from, to| println!("{from} -> {to}"))?;
//! assert_eq!((report.pages, report.broken), (1, 2));
//! # Ok::<(), crawler::StartError>(())
//! ```
//!
//! # Features
//!
//! `net`, on by default, is everything that uses the network. Without it, only the callback mode remains.
#![forbid(unsafe_code)]

#[cfg(feature = "net")]
mod backend;
mod callbacks;
#[cfg(feature = "net")]
mod captures;
#[cfg(feature = "net")]
mod classic;
#[cfg(feature = "net")]
mod config;
#[cfg(feature = "net")]
mod cookies;
#[cfg(test)]
mod cpu_time;
#[cfg(feature = "net")]
mod crawl_view;
#[cfg(feature = "net")]
mod distributed;
#[cfg(feature = "net")]
mod domain;
#[cfg(feature = "net")]
mod error;
#[cfg(feature = "net")]
mod event;
#[cfg(feature = "net")]
mod exchange;
#[cfg(feature = "net")]
mod fetch;
#[cfg(feature = "net")]
mod file_lock;
#[cfg(feature = "net")]
mod format;
#[cfg(feature = "net")]
mod frontier;
mod html;
#[doc(hidden)]
pub mod internal;
#[cfg(feature = "net")]
mod keyed_map;
#[cfg(feature = "net")]
mod live_settings;
#[cfg(feature = "net")]
mod log;
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
mod poll_once;
#[cfg(feature = "net")]
mod printable;
#[cfg(feature = "net")]
mod prioritizer;
#[cfg(feature = "net")]
mod proxy;
#[cfg(feature = "net")]
mod replay;
#[cfg(feature = "net")]
mod request_settings;
#[cfg(feature = "net")]
mod scope;
#[cfg(feature = "net")]
mod seed_list;
#[cfg(feature = "net")]
mod similarity;
#[cfg(feature = "net")]
mod sitemap;
#[cfg(feature = "net")]
mod statistics;
#[cfg(feature = "net")]
mod stats;
#[cfg(feature = "net")]
mod stop;
#[cfg(feature = "net")]
mod strip_query;
#[cfg(feature = "net")]
mod task;
#[cfg(feature = "net")]
mod task_kind;
#[cfg(feature = "net")]
mod time_text;
#[cfg(feature = "net")]
mod url_list;
#[cfg(feature = "net")]
mod url_record;
#[cfg(feature = "net")]
mod visit;
#[cfg(feature = "net")]
mod wacz;
#[cfg(feature = "net")]
mod warc;
#[cfg(feature = "net")]
mod worker;

#[cfg(feature = "net")]
pub use backend::{Budget, Snapshot, WorkerLoad};
pub use callbacks::{CallbackCrawl, CallbackReport, LinkRule, StartError, crawl};
#[cfg(feature = "net")]
pub use classic::{ClassicCrawl, ClassicReport};
#[cfg(feature = "net")]
pub use config::Oversize;
#[cfg(feature = "net")]
pub use cookies::CookieJar;
#[cfg(feature = "net")]
pub use domain::Domain;
#[cfg(feature = "net")]
pub use error::{Error, StorageError, StorageErrorKind};
#[cfg(feature = "net")]
pub use fetch::robots::directives::RobotsDirectives;
#[cfg(feature = "net")]
pub use html::BadLink;
#[cfg(feature = "net")]
pub use media::Media;
#[cfg(feature = "net")]
pub use modules::page_pipeline::ModuleFailures;
#[cfg(feature = "net")]
pub use modules::{Module, Output, OutputWrite, Target};
#[cfg(feature = "net")]
pub use outcome::{Outcome, OutcomeGroup};
#[cfg(feature = "net")]
pub use page::Page;
#[cfg(feature = "net")]
pub use pipeline::{CrawlEnd, CrawlReport, Crawler, PageStream, ResumeStatus};
#[cfg(feature = "net")]
pub use prioritizer::{Candidate, Priorities, Prioritizer, Priority, SourceLink};
#[cfg(feature = "net")]
pub use proxy::Proxies;
#[cfg(feature = "net")]
pub use request_settings::{Authentication, Politeness, RequestSettings};
#[cfg(feature = "net")]
pub use scope::{RejectReason, Scope};
#[cfg(feature = "net")]
pub use stats::Stats;
#[cfg(feature = "net")]
pub use stop::StopHandle;
#[cfg(feature = "net")]
pub use url_list::UrlList;
#[cfg(feature = "net")]
#[doc(no_inline)]
pub use {bytes::Bytes, url::Url};

/// The examples of the README compile.
#[cfg(all(doctest, feature = "net"))]
#[doc = include_str!("../README.md")]
struct Readme;
