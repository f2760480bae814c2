//! A polite, safe, fast web crawler.
#![forbid(unsafe_code)]

pub mod classic;
pub mod config;
pub mod crawl;
pub mod domain;
pub mod error;
pub mod event;
pub mod media;
pub mod modules;
pub mod origin;
pub mod outcome;
pub mod page;
pub mod prioritizer;
pub mod scope;
pub mod stats;
pub mod stop;
pub mod task;
pub mod worker;
