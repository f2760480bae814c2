//! A polite, safe, fast web crawler, with faces for different users:
//!
//! - [`classic`]: a site as files. [`classic::Classic`] visits every internal page within so many hops of a seed
//!   and saves each; the command `crawler` is a thin layer over it.
//! - [`crawl`]: your own fetch function, every edge of the link graph, on pools of plain threads. It needs no network:
//!   all that does stands behind the feature `net`, which is on by default.
//! - [`run`]: the pipeline, for crawls of many hosts, with modules that do something with each page.
//!
//! The classic face, as a program:
//!
//! ```no_run
//! use crawler::{Classic, FetchConfig, PageFiles, NoopObserver, StopHandle};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let seed = "https://example.org/".parse()?;
//! let pages = PageFiles::open("pages".as_ref(), false)?;
//! let report = Classic::new(seed, None, 2, FetchConfig::default())?.run(pages, &NoopObserver, &StopHandle::new()).await?;
//! println!("{} pages saved, {} URLs failed", report.stats.kept(), report.stats.failed());
//! # Ok(())
//! # }
//! ```
//!
//! What happens to one URL is [`fetch::fetcher::Fetcher::visit`]: pace, robots.txt, download; then its page is saved, and
//! [`html`] finds where it points. ARCHITECTURE.md has the whole picture.
#![forbid(unsafe_code)]

#[cfg(feature = "net")]
pub mod backend;
pub mod callbacks;
#[cfg(feature = "net")]
pub mod classic;
#[cfg(feature = "net")]
pub mod config;
#[cfg(test)]
mod cpu_time;
#[cfg(feature = "net")]
pub mod distributed;
#[cfg(feature = "net")]
pub mod domain;
#[cfg(feature = "net")]
pub mod error;
#[cfg(feature = "net")]
pub mod event;
#[cfg(feature = "net")]
pub mod fetch;
#[cfg(feature = "net")]
pub mod frontier;
pub mod html;
pub mod media;
#[cfg(feature = "net")]
pub mod modules;
#[cfg(feature = "net")]
pub mod origin;
#[cfg(feature = "net")]
pub mod outcome;
#[cfg(feature = "net")]
pub mod page;
#[cfg(feature = "net")]
mod panics;
#[cfg(feature = "net")]
pub mod pipeline;
#[cfg(feature = "net")]
pub mod prioritizer;
#[cfg(feature = "net")]
pub mod scope;
#[cfg(feature = "net")]
pub mod similarity;
#[cfg(feature = "net")]
pub mod stats;
#[cfg(feature = "net")]
pub mod stop;
#[cfg(feature = "net")]
pub mod task;
#[cfg(feature = "net")]
pub mod worker;

#[cfg(feature = "net")]
pub use backend::durable::StateReader;
#[cfg(feature = "net")]
pub use classic::{ClassicCrawl, ClassicReport};
#[cfg(feature = "net")]
pub use config::FetchConfig;
#[cfg(feature = "net")]
pub use error::Error;
#[cfg(feature = "net")]
pub use event::{Event, NoopObserver, Observer};
#[cfg(feature = "net")]
pub use modules::pages::PageFiles;
#[cfg(feature = "net")]
pub use outcome::Outcome;
#[cfg(feature = "net")]
pub use pipeline::Crawler;
#[cfg(feature = "net")]
pub use stats::Stats;
#[cfg(feature = "net")]
pub use stop::StopHandle;
