//! The options of the log, which all commands that crawl have.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::commands::crawl::summary_file::is_stderr;
use crate::log::{Filter, LogFormat};

/// The heading of these options in the help.
const HEADING: &str = "Log";

/// The commands that have a log, in addition to the classic form.
const COMMANDS: [&str; 11] = [
    "crawl",
    "check",
    "resume",
    "recrawl",
    "frontier",
    "worker",
    "submit",
    "collect",
    "dashboard",
    "report",
    "replay",
];

// Where the log is written, and what is in it. Not a documentation comment: clap would describe the commands with it.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct LogArgs {
    /// Append a line for each event to this file; '-' is standard error
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub log: Option<PathBuf>,
    /// Format of the lines
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, help_heading = HEADING)]
    log_format: LogFormat,
    /// Events to log: those of a level (error, warn, info, debug, trace) and above; for single targets: info,request=debug
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = Filter::parse, help_heading = HEADING)]
    log_level: Filter,
}

impl LogArgs {
    /// Whether a command has these options.
    pub fn are_of(command: &str) -> bool {
        COMMANDS.contains(&command)
    }

    /// Adds the options to a command that has a log.
    pub fn add_to(command: clap::Command) -> clap::Command {
        match Self::are_of(command.get_name()) {
            true => <LogArgs as clap::Args>::augment_args(command),
            false => command,
        }
    }

    /// Whether an option is one of these. They belong to a process, not to a crawl.
    pub fn has(option: &str) -> bool {
        ["log", "log-format", "log-level"].contains(&option)
    }

    /// Checks that options were not given in vain.
    pub fn check(&self, typed: &[OsString]) -> Result<(), String> {
        let is_typed = |option: &str| {
            let starts = |argument: &OsString| argument.as_encoded_bytes().starts_with(option.as_bytes());
            typed.iter().take_while(|argument| *argument != "--").any(starts)
        };
        match ["--log-format", "--log-level"].iter().find(|option| is_typed(option)) {
            Some(option) if self.log.is_none() => Err(format!("{option} needs --log <FILE>")),
            _ => Ok(()),
        }
    }

    /// The form of the lines.
    pub fn format(&self) -> LogFormat {
        self.log_format
    }

    /// Which events are logged.
    pub fn filter(&self) -> &Filter {
        &self.log_level
    }

    /// The file; `None` if there is no log, or it goes to standard error.
    pub fn file(&self) -> Option<&Path> {
        self.log.as_deref().filter(|path| !is_on_stderr(path))
    }

    /// Whether the log goes to standard error.
    pub fn is_on_stderr(&self) -> bool {
        self.log.as_deref().is_some_and(is_on_stderr)
    }

    /// The arguments with which another process logs to the same place.
    pub fn arguments(&self) -> Vec<OsString> {
        let Some(log) = &self.log else { return Vec::new() };
        let mut arguments: Vec<OsString> = vec!["--log".into(), log.into()];
        arguments.extend(["--log-format", self.log_format.name()].map(OsString::from));
        arguments.extend(["--log-level", self.log_level.text()].map(OsString::from));
        arguments
    }
}

fn is_on_stderr(path: &Path) -> bool {
    path == Path::new("-") || is_stderr(path)
}
