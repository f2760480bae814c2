//! What a crawl shows while it runs, in every mode and in `crawler status`: how far it is, which hosts hold it up and why,
//! what was fetched last, and warnings.

pub mod disk_space;
pub mod layout;
mod lines;
pub mod remaining;
pub mod screen;
pub mod status;
pub mod warnings;
