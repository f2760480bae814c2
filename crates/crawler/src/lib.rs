//! A polite, safe, fast web crawler.
#![forbid(unsafe_code)]

pub mod crawl;
pub mod worker;
