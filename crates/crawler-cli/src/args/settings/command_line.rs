//! A command line with the options that the environment and the configuration file add to it.

use std::ffi::{OsStr, OsString};
use std::mem::ManuallyDrop;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches};

use super::{CONFIG, Settings, Source, is_configurable, report};
use crate::EXIT_FAILED;
use crate::args::errors::{Explainer, UsageError};
use crate::args::join_negative_values;
use crate::printable::is_printed;

/// The arguments of a command, without the program's name.
pub struct CommandLine {
    /// As typed.
    pub typed: Vec<OsString>,
    /// With the settings.
    arguments: Vec<OsString>,
    pub settings: Settings,
    /// Not dropped: a process has one, and dropping it takes longer than parsing the arguments.
    pub grammar: ManuallyDrop<clap::Command>,
}

impl CommandLine {
    /// The arguments that were typed, without settings.
    pub fn without_settings(definition: clap::Command, mut typed: Vec<OsString>) -> CommandLine {
        let grammar = built(definition);
        join_negative_values(&grammar, &mut typed);
        CommandLine { arguments: typed.clone(), typed, settings: Settings::default(), grammar }
    }

    /// Adds the settings to the arguments that were typed.
    pub fn new(definition: &clap::Command, typed: Vec<OsString>) -> Result<CommandLine, UsageError> {
        let line = CommandLine::without_settings(definition.clone(), typed);
        // What is wrong with the arguments, and a request for help, is handled when all of them are parsed.
        let mut lenient = built(definition.clone().ignore_errors(true));
        let Ok(given) = lenient.try_get_matches_from_mut(full(&line.typed)) else {
            return Ok(line);
        };
        let given = given.subcommand().map_or(&given, |(_, given)| given);
        match line.find_settings(given) {
            Ok(settings) => Ok(line.with_settings(definition, settings)),
            Err(message) => Err(Explainer::new(&line).invalid(message)),
        }
    }

    fn find_settings(&self, given: &ArgMatches) -> Result<Settings, String> {
        let command = self.command().unwrap_or(&self.grammar);
        if !is_configurable(command) {
            return Ok(Settings::default());
        }
        let source = Source::read(&self.grammar, given.get_one(CONFIG).cloned())?;
        let is_given =
            |option: &Arg| given.value_source(option.get_id().as_str()) == Some(ValueSource::CommandLine);
        Settings::find(&self.grammar, command, is_given, &source)
    }

    fn with_settings(self, definition: &clap::Command, settings: Settings) -> CommandLine {
        let arguments = settings.add_to(&self.typed, self.command());
        // To build the grammar of all commands takes a millisecond.
        let grammar = match settings.have_missing_values() {
            true => built(self.completed(definition, &settings)),
            false => self.grammar,
        };
        CommandLine { typed: self.typed, arguments, settings, grammar }
    }

    /// The definition with the values that options without one get from the settings.
    fn completed(&self, definition: &clap::Command, settings: &Settings) -> clap::Command {
        let definition = definition.clone();
        match self.command() {
            Some(command) => {
                definition.mut_subcommand(command.get_name(), |command| settings.complete(command))
            }
            None => settings.complete(definition),
        }
    }

    /// The command, if the first argument is one.
    pub fn command(&self) -> Option<&clap::Command> {
        self.grammar.find_subcommand(self.typed.first()?)
    }

    /// Parses the arguments, settings included. `--help` and `--version` print and exit.
    pub fn matches(&mut self) -> Result<ArgMatches, clap::Error> {
        self.grammar.try_get_matches_from_mut(full(&self.arguments)).inspect_err(|error| {
            if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
                let printed = is_printed(error.print());
                std::process::exit(if printed { 0 } else { EXIT_FAILED.into() })
            }
        })
    }

    /// The options in force.
    pub fn report(&self, definition: &clap::Command) -> String {
        let mut lenient = built(self.completed(definition, &self.settings).ignore_errors(true));
        let matches = lenient.try_get_matches_from_mut(full(&self.arguments)).unwrap_or_default();
        let own = matches.subcommand().map_or(&matches, |(_, matches)| matches);
        report::report(&self.grammar, self.command().unwrap_or(&self.grammar), own, &self.settings)
    }
}

/// What the environment and the file set, for every command. `file` is the value of `--config`.
pub fn overview(definition: &clap::Command, file: Option<PathBuf>) -> Result<String, String> {
    let grammar = built(definition.clone());
    let source = Source::read(&grammar, file)?;
    report::overview(&grammar, |command| Settings::find(&grammar, command, |_| false, &source))
}

/// The arguments with the program's name.
fn full(arguments: &[OsString]) -> impl Iterator<Item = &OsStr> {
    std::iter::once(OsStr::new("crawler")).chain(arguments.iter().map(OsString::as_os_str))
}

/// Adds what clap adds by itself, such as the command 'help'.
fn built(mut command: clap::Command) -> ManuallyDrop<clap::Command> {
    command.build();
    ManuallyDrop::new(command)
}
