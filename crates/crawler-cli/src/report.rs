//! Writes a report on a crawl as one file.

pub mod content;
