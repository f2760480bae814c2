//! A polite, safe, fast web crawler, with faces for different users:
//!
//! - [`classic`]: a site as files. [`classic::Classic`] visits every internal page within so many hops of a seed
//!   and saves each; the command `crawler` is a thin layer over it.
//! - [`crawl`]: your own fetch function, every edge of the link graph, on pools of plain threads.
//!
//! The classic face, as a program:
//!
//! ```no_run
//! use crawler::{Classic, Config, PageFiles, Silent, Stop};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let seed = "https://example.org/".parse()?;
//! let pages = PageFiles::open("pages".as_ref(), false)?;
//! let report = Classic::new(seed, None, 2, Config::default())?.run(pages, &Silent, &Stop::new()).await?;
//! println!("{} pages saved, {} URLs failed", report.stats.kept(), report.stats.failed());
//! # Ok(())
//! # }
//! ```
//!
//! What happens to one URL is [`worker::visit::Visitor::visit`]: pace, robots.txt, download; then its page is saved, and
//! [`worker::links`] finds where it points. ARCHITECTURE.md has the whole picture.
#![forbid(unsafe_code)]

pub mod classic;
pub mod config;
pub mod crawl;
pub mod domain;
pub mod error;
pub mod event;
pub mod frontier;
pub mod installed;
pub mod media;
pub mod modules;
pub mod origin;
pub mod outcome;
pub mod page;
pub mod prioritizer;
pub mod resources;
pub mod run;
pub mod scope;
pub mod stats;
pub mod stop;
pub mod task;
pub mod worker;

pub use classic::{Classic, Report};
pub use config::Config;
pub use error::Error;
pub use event::{Event, Observer, Silent};
pub use modules::pages::PageFiles;
pub use outcome::Outcome;
pub use run::Crawler;
pub use stats::Stats;
pub use stop::Stop;
