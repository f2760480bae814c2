//! Turns an error in the command line into one line: what is wrong, what to do, and which help to read.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::settings::{CommandLine, Settings};
use super::suggestions::{did_you_mean, is_last_word, listed, other_crawlers_name, similar};
use super::{RECRAWL, RESUME, help, resume};

/// An error in the command line, and the command whose help explains it.
pub struct UsageError {
    message: String,
    /// The words before `--help`.
    help_of: String,
}

impl UsageError {
    /// An error that the help of `help_of` explains.
    pub fn new(message: String, help_of: &str) -> UsageError {
        UsageError { message, help_of: help_of.into() }
    }

    /// The line that is printed, without a period.
    pub fn into_line(self) -> String {
        let UsageError { message, help_of } = self;
        match message.ends_with('?') {
            true => format!("{message} Try '{help_of} --help'"),
            false => format!("{message}; try '{help_of} --help'"),
        }
    }
}

/// Explains errors in one command line.
pub struct Explainer<'a> {
    grammar: &'a clap::Command,
    arguments: &'a [OsString],
    settings: &'a Settings,
}

impl<'a> Explainer<'a> {
    pub fn new(line: &'a CommandLine) -> Explainer<'a> {
        Explainer { grammar: &line.grammar, arguments: &line.typed, settings: &line.settings }
    }

    /// An error that was found after parsing, while checking values.
    pub fn invalid(&self, message: String) -> UsageError {
        let message = || self.settings.with_origins(&message);
        self.error(self.misspelt_command(false).unwrap_or_else(message))
    }

    /// An error that clap found.
    pub fn parse_error(&self, error: &clap::Error) -> UsageError {
        let context = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => Some(text.as_str()),
            _ => None,
        };
        let unknown = context(ContextKind::InvalidArg).filter(|_| error.kind() == ErrorKind::UnknownArgument);
        // Everything else may follow from a command that is misspelt or comes too late.
        if let Some(message) = self.misplaced_command(error.kind()).or_else(|| self.misspelt_command(true)) {
            return self.error(message);
        }
        if let Some(option) = unknown.filter(|unknown| unknown.starts_with('-')) {
            return self.unknown_option(option);
        }
        let message = match error.kind() {
            ErrorKind::UnknownArgument => self.unexpected(unknown.unwrap_or_default()),
            // In the classic form, clap takes a fourth argument for a command.
            ErrorKind::ArgumentConflict if context(ContextKind::InvalidSubcommand).is_some() => {
                self.unexpected(context(ContextKind::InvalidSubcommand).unwrap_or_default())
            }
            ErrorKind::ArgumentConflict => self.settings.with_origins(&conflict(error)),
            ErrorKind::InvalidSubcommand => {
                self.unknown_command(context(ContextKind::InvalidSubcommand).unwrap_or_default())
            }
            ErrorKind::MissingRequiredArgument => self.missing(error),
            ErrorKind::InvalidValue | ErrorKind::ValueValidation => self.invalid_value(error),
            _ => one_line(error),
        };
        self.error(message)
    }

    /// An error if the first argument can only be meant as a command, and is none.
    pub fn unknown_command_error(&self) -> Option<UsageError> {
        self.misspelt_command(true).map(|message| self.error(message))
    }

    fn error(&self, message: String) -> UsageError {
        let help_of = match self.command() {
            Some(command) if command.get_name() != "help" => format!("crawler {}", command.get_name()),
            _ => "crawler".to_owned(),
        };
        UsageError { message, help_of }
    }

    /// The first argument, which is the only place for a command.
    fn first(&self) -> Option<&'a str> {
        self.arguments.first()?.to_str()
    }

    /// The command, if the first argument is one.
    fn command(&self) -> Option<&'a clap::Command> {
        self.grammar.find_subcommand(self.first()?)
    }

    /// Reports a command that comes after options. A word after a URL is a directory.
    fn misplaced_command(&self, kind: ErrorKind) -> Option<String> {
        let may_follow = matches!(kind, ErrorKind::MissingRequiredArgument | ErrorKind::UnknownArgument);
        if !may_follow || !self.first()?.starts_with('-') {
            return None;
        }
        let words = self.arguments.iter().skip(1).filter_map(|argument| argument.to_str());
        let mut words = words.take_while(|word| !word.contains("://"));
        let command = words.find(|word| self.grammar.find_subcommand(word).is_some())?;
        Some(format!("'{command}' must be the first argument; put options after it"))
    }

    /// Reports a first argument that looks like a command and is none. No seed URL looks like one, because a URL has a
    /// colon. A word that resembles no command is only reported if `is_certain`: it may be a host name.
    fn misspelt_command(&self, is_certain: bool) -> Option<String> {
        let word = self.first().filter(|_| self.command().is_none())?;
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if !word.starts_with(|letter: char| letter.is_ascii_alphabetic()) || !word.bytes().all(is_word) {
            return None;
        }
        (is_certain || !self.similar_commands(word).is_empty()).then(|| self.unknown_command(word))
    }

    fn similar_commands(&self, word: &str) -> Vec<&'a str> {
        similar(word, self.grammar.get_subcommands().map(clap::Command::get_name))
    }

    fn unknown_command(&self, word: &str) -> String {
        format!("unknown command '{word}'{}", did_you_mean(&self.similar_commands(word), ""))
    }

    fn unknown_option(&self, option: &str) -> UsageError {
        let written = option.split('=').next().unwrap_or(option);
        let own = self.command().unwrap_or(self.grammar);
        if let Some(remedy) = self.option_of_other_crawlers(own, written) {
            return self.error(format!("unknown option '{written}'{remedy}"));
        }
        let names = || options_of(own).filter_map(clap::Arg::get_long);
        let name = written.strip_prefix("--").unwrap_or_default();
        let has_longer_name = names().any(|own| is_last_word(name, own));
        match self.other_command_with(own, written).filter(|_| !has_longer_name) {
            Some(other) => self.option_of(other, own, written),
            None => {
                let similar = similar(name, names());
                self.error(format!("unknown option '{written}'{}", did_you_mean(&similar, "--")))
            }
        }
    }

    /// What to use instead of an option that other crawlers have, to follow a message.
    fn option_of_other_crawlers(&self, own: &clap::Command, written: &str) -> Option<String> {
        let is_classic = own.get_name() == self.grammar.get_name();
        if ["--version", "-V"].contains(&written) && !is_classic {
            return Some("; run 'crawler --version'".into());
        }
        let names = other_crawlers_name(written)?;
        let of = |command: &clap::Command| {
            let names = names.options.iter().filter(|name| has_option(command, name)).copied();
            did_you_mean(&names.collect::<Vec<_>>(), "")
        };
        let instead = match (of(own), names.classic) {
            (own, _) if !own.is_empty() => own,
            (_, argument) if is_classic && !argument.is_empty() => format!("; {argument}"),
            _ if is_classic => {
                let of_crawl = self.grammar.find_subcommand("crawl").map(of).unwrap_or_default();
                of_crawl.replace('?', " of 'crawler crawl'?")
            }
            _ => return None,
        };
        (!instead.is_empty()).then_some(instead)
    }

    /// Reports an option that this command lacks and another one has.
    fn option_of(&self, other: &clap::Command, own: &clap::Command, written: &str) -> UsageError {
        match own.get_name() {
            "status" if written == "--state" => self.error(without_state_option("status")),
            "crawl" if ["--warc", "--urls"].contains(&written) => {
                let module = written.trim_start_matches('-');
                self.error(format!("{written} is an option of the classic mode; use --module {module}=FILE"))
            }
            name if name == self.grammar.get_name() && written == "--module" => self.error(
                "--module is an option of 'crawler crawl'; in the classic mode, --warc FILE writes a web archive, and \
                 --urls FILE all URLs"
                    .into(),
            ),
            _ if other.get_name() == self.grammar.get_name() => UsageError {
                message: format!("{written} is an option of '{}'", help::CLASSIC_USAGE),
                help_of: "crawler".into(),
            },
            _ => belongs_to(written, &[other.get_name()]),
        }
    }

    /// Whether the command's help lists all these options.
    pub fn lists_all(&self, given: &[String]) -> bool {
        let own = self.command().unwrap_or(self.grammar);
        given.iter().all(|name| options_of(own).any(|option| option.get_long() == Some(name)))
    }

    /// Reports an option that the command accepts only because it shares a type with `crawl`: its help does not list the
    /// option. `given` are the names of the options that were given.
    pub fn foreign_option(&self, given: &[String]) -> Option<UsageError> {
        let own = self.command()?;
        let is_listed = |name: &&String| options_of(own).any(|option| option.get_long() == Some(name));
        let is_resume = [RESUME, RECRAWL].contains(&own.get_name());
        given.iter().filter(|name| !is_listed(name)).find_map(|name| {
            match name.as_str() {
                "state" if is_resume => return Some(self.error(without_state_option(own.get_name()))),
                name if is_resume && resume::accepts(name) => return None,
                _ => {}
            }
            let foreign = format!("--{name}");
            let owners = self.commands_with(&foreign).map(clap::Command::get_name);
            // These share their options.
            let owners: Vec<&str> =
                owners.filter(|name| ["crawl", "submit", "frontier", "worker"].contains(name)).collect();
            // No help lists an option for tests.
            (!owners.is_empty()).then(|| belongs_to(&foreign, &owners))
        })
    }

    /// Another command, or the classic form, that has this option.
    fn other_command_with(&self, own: &clap::Command, written: &str) -> Option<&'a clap::Command> {
        let others = self.commands_with(written).chain([self.grammar]);
        let mut others = others.filter(|command| command.get_name() != own.get_name());
        others.find(|command| options_of(command).any(|option| is_written(option, written)))
    }

    /// The commands that have this option. Most options are options of `crawl`, which comes first.
    fn commands_with(&self, written: &str) -> impl Iterator<Item = &'a clap::Command> {
        let written = written.to_owned();
        let crawl = self.grammar.find_subcommand("crawl");
        let others = self.grammar.get_subcommands().filter(|command| command.get_name() != "crawl");
        let commands = crawl.into_iter().chain(others);
        commands.filter(move |command| options_of(command).any(|option| is_written(option, &written)))
    }

    fn unexpected(&self, argument: &str) -> String {
        format!("unexpected argument '{argument}'; usage: {}", self.usage())
    }

    fn missing(&self, error: &clap::Error) -> String {
        let names = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(names)) => {
                names.iter().map(|name| missing_name(name)).collect::<Vec<_>>().join(", ")
            }
            _ => "an argument".into(),
        };
        // URLs are optional for clap, because a list can replace them.
        let usage = match names.contains("<URL>...") {
            true => self.usage().replace("[URL]...", "<URL>..."),
            false => self.usage(),
        };
        format!("missing {names}; usage: {usage}")
    }

    fn invalid_value(&self, error: &clap::Error) -> String {
        let option = argument_name(error.get(ContextKind::InvalidArg));
        let value = match error.get(ContextKind::InvalidValue) {
            Some(ContextValue::String(value)) => value.as_str(),
            _ => "",
        };
        let valid = match error.get(ContextKind::ValidValue) {
            Some(ContextValue::Strings(values)) if !values.is_empty() => Some(listed(values, "or")),
            _ => None,
        };
        let expected = match (valid, std::error::Error::source(error)) {
            (Some(valid), _) => format!("must be {valid}"),
            (None, Some(reason)) => reason.to_string(),
            (None, None) => return self.settings.with_origins(&format!("{option} needs a value")),
        };
        match (self.settings.invalid_value(&option, value, &expected), value) {
            (Some(message), _) => message,
            (None, "") => format!("{option}: {expected}"),
            (None, value) => format!("invalid value '{value}' for {option}: {expected}"),
        }
    }

    /// The usage in one line.
    fn usage(&self) -> String {
        let Some(command) = self.command() else { return help::CLASSIC_USAGE.into() };
        let usage =
            command.clone().bin_name(format!("crawler {}", command.get_name())).render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ");
        usage.lines().map(str::trim).collect::<Vec<_>>().join(" or ")
    }
}

/// Reports an option that only these commands have.
fn belongs_to(option: &str, commands: &[&str]) -> UsageError {
    let quoted: Vec<String> = commands.iter().map(|command| format!("'crawler {command}'")).collect();
    UsageError {
        message: format!("{option} is an option of {}", listed(&quoted, "and")),
        help_of: commands.first().map_or("crawler".into(), |command| format!("crawler {command}")),
    }
}

/// Whether an option is written so: `--delay`, `-v`.
fn is_written(option: &clap::Arg, written: &str) -> bool {
    match (written.strip_prefix("--"), option.get_short()) {
        (Some(name), _) => option.get_long() == Some(name),
        (None, Some(short)) => written.strip_prefix('-') == Some(short.encode_utf8(&mut [0; 4])),
        (None, None) => false,
    }
}

/// Whether a command lists an option, and accepts this value of it: `--summary FILE`, `--format json`.
fn has_option(command: &clap::Command, written: &str) -> bool {
    let (name, value) = written.split_once(' ').unwrap_or((written, ""));
    options_of(command).filter(|option| is_written(option, name)).any(|option| {
        let values = option.get_possible_values();
        value.is_empty() || values.is_empty() || values.iter().any(|possible| possible.get_name() == value)
    })
}

/// Reports `--state`, given to a command that takes the directory without it.
fn without_state_option(command: &str) -> String {
    format!("'crawler {command}' takes the directory without --state")
}

/// The options that the help of a command lists.
pub fn options_of(command: &clap::Command) -> impl Iterator<Item = &clap::Arg> {
    command.get_arguments().filter(|option| !option.is_hide_set() && !option.is_positional())
}

/// The name of a missing argument, and the variable that can replace it.
fn missing_name(name: &str) -> String {
    match name {
        // A value that the environment can give is optional for clap, but not for a user without it.
        name if name.starts_with("--redis") => "--redis <URL> (or the variable CRAWLER_REDIS)".into(),
        name => name.to_owned(),
    }
}

fn conflict(error: &clap::Error) -> String {
    let option = argument_name(error.get(ContextKind::InvalidArg));
    let others = match error.get(ContextKind::PriorArg) {
        Some(ContextValue::Strings(others)) => others.iter().map(|other| name_of(other)).collect(),
        other => vec![argument_name(other)],
    };
    if others.iter().all(|other| *other == option) {
        return format!("{option} cannot be used multiple times");
    }
    format!("{option} cannot be used with {}", others.join(" and "))
}

/// The name of an argument in an error: `--delay` of `--delay <TIME>`, `maxDepth` of `<maxDepth>`.
fn argument_name(context: Option<&ContextValue>) -> String {
    match context {
        Some(ContextValue::String(argument)) => name_of(argument),
        _ => "an argument".into(),
    }
}

fn name_of(argument: &str) -> String {
    let name = argument.trim_start_matches(['<', '[']);
    name.split([' ', '=', '[', '>', ']']).next().unwrap_or(name).to_owned()
}

/// Clap's own message in one line, without its usage and hints.
fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let message = text.split("\n\nUsage:").next().unwrap_or(&text);
    let message = message.split("\n\nFor more information").next().unwrap_or(message);
    let lines: Vec<&str> = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join(" ").trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_named_without_their_values() {
        for (argument, name) in [
            ("--delay <TIME>", "--delay"),
            ("<maxDepth>", "maxDepth"),
            ("[PART]...", "PART"),
            ("--redis[=<URL>]", "--redis"),
        ] {
            assert_eq!(name_of(argument), name);
        }
    }
}
