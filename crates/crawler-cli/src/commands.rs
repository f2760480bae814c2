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
    if let Error::InvalidSetting(message) = error
        && let Some(setting) = message.strip_prefix("cannot resume: ")
        && !["seed ", "bounds ", "adaptive-delay "].iter().any(|name| setting.starts_with(name))
    {
        // Recorded settings have the names of the options.
        return format!("cannot resume: --{setting}");
    }
    let hint = match error {
        Error::SeedOutOfScope { .. } => " (--internal)",
        _ => overwrite_hint(&error.to_string()),
    };
    format!("{error}{hint}")
}

/// The option for a message that proposes to overwrite something.
pub fn overwrite_hint(message: &str) -> &'static str {
    if message.contains("overwrite") { " (--overwrite)" } else { "" }
}
