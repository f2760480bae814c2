//! The sub-commands, one file each.

pub mod classic;
pub mod collect;
pub mod controller;
pub mod crawl;
pub mod demo;
pub mod inspect;
pub mod remote;
pub mod role;
mod supervisor;

use crawler::Error;

/// An error of the library with the option that helps. The library's own messages name no options.
pub fn with_hint(error: &Error) -> String {
    let hint = match error {
        Error::NotEmpty { .. } => " (--overwrite)",
        Error::SeedOutOfScope { .. } => " (--internal)",
        _ => "",
    };
    format!("{error}{hint}")
}
