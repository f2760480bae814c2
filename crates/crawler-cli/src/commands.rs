//! The sub-commands, one file each.

pub mod archives;
pub mod change;
pub mod check;
pub mod classic;
pub mod collect;
pub mod completions;
pub mod config;
pub mod controller;
pub mod cookie_file;
pub mod crawl;
mod damage;
pub mod dashboard;
pub mod demo;
pub mod diff;
pub mod health;
pub mod inspect;
pub mod manual;
pub mod remote;
pub mod replay;
pub mod report;
pub mod role;
pub mod state_status;
pub mod stored_crawl;
mod supervisor;
mod watch;

use std::process;

use crawler::{Error, Outcome, StorageErrorKind};

use crate::args::settings::is_option_variable;

/// An error of the library with all its causes, and with the option or command for its remedy. The library's messages
/// name none.
pub fn with_hint(error: &Error) -> String {
    let message = format!("{error:#}");
    if let Error::State(storage) | Error::Redis(storage) = error
        && storage.kind() == StorageErrorKind::SettingsDiffer
    {
        return with_option(&message).unwrap_or(message);
    }
    let hint = match error {
        Error::SeedOutOfScope { .. } => " (--internal)",
        Error::Proxy(_) => " (--proxy, --no-proxy)",
        _ => hint(&message),
    };
    message + hint
}

/// The message about a setting that differs, with the name of its option: recorded settings have the names of the options.
fn with_option(message: &str) -> Option<String> {
    let before = ["cannot resume: ", "was started with another setting: "];
    let end = before.iter().find_map(|words| Some(message.find(words)? + words.len()))?;
    let (before, setting) = message.split_at(end);
    // An output is no option of its own.
    (!setting.starts_with("the output")).then(|| format!("{before}--{setting}"))
}

/// How to crawl a seed that redirects out of scope to this URL, with this command.
pub fn start_there(command: &str, to: &str) -> String {
    // Quoted, because it is from the web and will be pasted into a shell.
    format!("; start there: {command} '{}' …", to.replace('\'', "%27"))
}

/// The option or command for the remedy in a message of the library.
pub fn hint(message: &str) -> &'static str {
    let hints = [
        ("make the output from it, name", " ('crawler collect --of', --overwrite)"),
        ("make the output from it", " ('crawler collect --of')"),
        ("overwrite", " (--overwrite)"),
        ("make the file from it later", " ('crawler index', 'crawler wacz')"),
        ("keep them for merging", " ('crawler collect')"),
        ("to make it later", " ('crawler collect')"),
        ("purge what is left", " ('crawler purge')"),
        ("start it, or give the name of another one", " ('crawler submit', --crawl)"),
        ("give a user name and password", " (or the variable CRAWLER_REDIS_PASSWORD)"),
    ];
    hints.iter().find(|(remedy, _)| message.contains(remedy)).map_or("", |(_, hint)| hint)
}

/// Removes the variables that set options from the environment of a child, which gets its options as arguments.
pub fn without_options(command: &mut process::Command) -> &mut process::Command {
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_option_variable(name)) {
        command.env_remove(name);
    }
    command
}

/// What to do about the outcome of a URL, to follow it in a message. Empty if nothing is known to help.
pub fn remedy(url: &str, outcome: &Outcome) -> String {
    match outcome {
        Outcome::RobotsUnavailable { .. } => {
            "; try again later, or use --ignore-robots if the site is yours".into()
        }
        Outcome::RobotsDisallowed => "; use --ignore-robots if the site is yours".into(),
        Outcome::BlockedAddress { .. } => "; use --allow-private to allow such addresses".into(),
        Outcome::TlsFailed { cause, .. } if cause.ends_with("does not speak TLS") => {
            format!("; try {}", url.replacen("https://", "http://", 1))
        }
        Outcome::TlsFailed { cause, .. }
            if cause.contains("self-signed") || cause.contains("unknown authority") =>
        {
            "; if you trust it, give its certificate with --ca-file, or use --insecure".into()
        }
        Outcome::TlsFailed { cause, .. } if cause.starts_with("the certificate ") => {
            "; use --insecure if you trust the server nevertheless".into()
        }
        _ => String::new(),
    }
}
