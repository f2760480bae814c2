//! Writes a report on a crawl as one file.

pub mod asked;
pub mod at_end;
mod collect;
pub mod content;
mod document;
#[cfg(test)]
mod example;
pub mod file;
mod html;
mod live;
mod markdown;
mod sections;
pub mod stored;
mod structure;

#[cfg(test)]
mod tests;
