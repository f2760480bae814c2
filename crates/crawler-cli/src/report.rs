//! Writes a report on a crawl as one file.

pub mod content;
mod document;
#[cfg(test)]
mod example;
pub mod html;
pub mod markdown;
mod sections;

#[cfg(test)]
mod tests;
