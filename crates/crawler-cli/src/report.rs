//! Writes a report on a crawl as one file.

pub mod at_end;
mod collect;
pub mod content;
mod document;
#[cfg(test)]
mod example;
pub mod file;
pub mod given_options;
mod html;
mod live;
mod markdown;
mod sections;
pub mod stored;
mod structure;

#[cfg(test)]
mod tests;
