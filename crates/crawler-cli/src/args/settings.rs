//! Options that are not on the command line: finds them in the environment and the configuration file, and adds them.
//!
//! Each becomes an argument before those of the command line, so that clap parses and checks all options in the same way.

mod command_line;
mod environment;
mod file;
mod messages;
mod report;

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction};

pub use self::command_line::{CommandLine, overview};
pub use self::environment::{is_option_variable, misspelt_variables, variable_named};
pub use self::report::{MASK, shown};

use self::environment::CONFIG_VARIABLE;
use self::file::{ConfigFile, Entry, Value};
use super::crawl::saved_option_names;
use super::errors::options_of;
use super::{RECRAWL, RESUME};

/// The option that names the configuration file.
pub const CONFIG: &str = "config";

/// The table of the classic form, which has no command.
pub const CLASSIC_TABLE: &str = "classic";

/// Where an option is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In this environment variable.
    Variable(String),
    /// In the configuration file.
    File {
        /// `FILE:LINE`.
        place: String,
        /// In the table of the command, rather than for all commands.
        in_table: bool,
    },
}

/// An option that the environment or the file sets.
#[derive(Debug, Clone)]
struct Setting {
    /// The option, without its dashes.
    name: String,
    value: Value,
    origin: Origin,
}

/// The options of one command line that the environment and the file set.
#[derive(Default)]
pub struct Settings {
    settings: Vec<Setting>,
    /// The values of options that are given without one, such as `--redis`.
    missing_values: Vec<Setting>,
    /// The configuration file.
    file: Option<PathBuf>,
}

/// The configuration file of a command line, read once: it may be a pipe.
#[derive(Default)]
pub struct Source {
    path: Option<PathBuf>,
    file: ConfigFile,
}

impl Source {
    /// Reads the file that the command line (`typed`) or the environment names.
    pub fn read(grammar: &clap::Command, typed: Option<PathBuf>) -> Result<Source, String> {
        let named_by = if typed.is_some() { "--config" } else { CONFIG_VARIABLE };
        let path = typed.or_else(environment::config_file);
        let file = match &path {
            Some(path) => ConfigFile::load(path, named_by, grammar)?,
            None => ConfigFile::default(),
        };
        Ok(Source { path, file })
    }
}

impl Settings {
    /// The settings of a command. `is_given` returns which of its options are on the command line.
    pub fn find(
        grammar: &clap::Command,
        command: &clap::Command,
        is_given: impl Fn(&Arg) -> bool,
        source: &Source,
    ) -> Result<Settings, String> {
        let environment = environment::settings(command)?;
        let in_table = source.file.settings(command, Some(table_of(grammar, command)));
        let for_all = source.file.settings(command, None);
        let mut settings = Settings { file: source.path.clone(), ..Settings::default() };
        settings.add_optional_values(command, [&environment, &in_table, &for_all]);
        let given: Vec<&Arg> = command.get_arguments().filter(|option| is_given(option)).collect();
        settings.add_layers(command, given, [environment, in_table, for_all]);
        // A resumed crawl keeps its options, unless they are set for this command.
        if [RESUME, RECRAWL].contains(&command.get_name()) {
            settings.leave_out_general(&saved_option_names());
        }
        Ok(settings)
    }

    /// Finds the values of options that can be given without one, such as `--redis`.
    fn add_optional_values(&mut self, command: &clap::Command, layers: [&Vec<Setting>; 3]) {
        for option in settable_options(command).filter(|option| has_optional_value(option)) {
            let name = option.get_long().unwrap_or_default();
            let found =
                layers.into_iter().flatten().find(|setting| setting.name == name && setting.has_value());
            self.missing_values.extend(found.cloned());
        }
    }

    /// Adds the settings of each layer that no higher one sets, and that conflict with none of a higher one.
    fn add_layers<'a>(&mut self, command: &'a clap::Command, given: Vec<&'a Arg>, layers: [Vec<Setting>; 3]) {
        let mut decided: HashSet<String> =
            given.iter().filter_map(|option| option.get_long()).map(str::to_owned).collect();
        let mut enabled = given;
        for layer in layers {
            let mut added = Vec::new();
            for mut setting in layer {
                let Some(option) = option_named(command, &setting.name) else { continue };
                if has_optional_value(option) {
                    if is_chosen(command, option) && !setting.is_of_table() {
                        continue;
                    }
                    if setting.is_on()
                        && let Some(value) = self.missing_value(&setting.name)
                    {
                        setting.value = value.value.clone();
                    }
                }
                let is_overruled = setting.is_on() && conflicts_with_any(command, option, &enabled);
                if is_overruled || !decided.insert(setting.name.clone()) {
                    continue;
                }
                if setting.is_on() {
                    added.push(option);
                }
                self.settings.push(setting);
            }
            enabled.extend(added);
        }
    }

    fn missing_value(&self, name: &str) -> Option<&Setting> {
        self.missing_values.iter().find(|setting| setting.name == name)
    }

    fn have_missing_values(&self) -> bool {
        !self.missing_values.is_empty()
    }

    /// The command with the values for options that are given without one.
    pub fn complete(&self, command: clap::Command) -> clap::Command {
        self.missing_values.iter().fold(command, |command, setting| {
            let id = option_named(&command, &setting.name).map(|option| option.get_id().clone());
            match (id, setting.values()) {
                (Some(id), [value, ..]) => {
                    let value = value.clone();
                    command.mut_arg(id, |option| option.default_missing_value(value))
                }
                _ => command,
            }
        })
    }

    /// The command line with the settings added, which come after the name of the command.
    pub fn add_to(&self, arguments: &[OsString], command: Option<&clap::Command>) -> Vec<OsString> {
        let (name, rest) = arguments.split_at(usize::from(command.is_some()).min(arguments.len()));
        let added = self.settings.iter().flat_map(Setting::arguments);
        name.iter().cloned().chain(added).chain(rest.iter().cloned()).collect()
    }

    /// Where an option is set, unless it is given on the command line or not set at all.
    fn origin_of(&self, name: &str) -> Option<&Origin> {
        self.settings.iter().find(|setting| setting.name == name).map(|setting| &setting.origin)
    }

    /// Whether an option is set by a key for all commands. These are defaults for new crawls, and do not change an
    /// existing one.
    pub fn is_general(&self, name: &str) -> bool {
        matches!(self.origin_of(name), Some(Origin::File { in_table: false, .. }))
    }

    /// The flags that are turned off, except by keys for all commands.
    pub fn turned_off(&self) -> impl Iterator<Item = &str> {
        let is_off =
            |setting: &&Setting| setting.value == Value::Switch(false) && !self.is_general(&setting.name);
        self.settings.iter().filter(is_off).map(|setting| &*setting.name)
    }

    /// Leaves out keys for all commands that set one of these options.
    fn leave_out_general(&mut self, names: &[String]) {
        let is_left_out = |setting: &Setting| {
            matches!(setting.origin, Origin::File { in_table: false, .. }) && names.contains(&setting.name)
        };
        self.settings.retain(|setting| !is_left_out(setting));
    }
}

impl Setting {
    fn new(option: &Arg, origin: Origin, value: Value) -> Setting {
        let name = option.get_long().unwrap_or_default().to_owned();
        let value = match value {
            // Given without a value.
            Value::Switch(true) if has_optional_value(option) => Value::Values(vec![OsString::new()]),
            value => value,
        };
        Setting { name, value, origin }
    }

    /// The arguments that set it; none if it is turned off.
    fn arguments(&self) -> Vec<OsString> {
        let name = format!("--{}", self.name);
        let with_value = |value: &OsString| {
            let mut argument = OsString::from(format!("{name}="));
            argument.push(value);
            argument
        };
        match &self.value {
            Value::Switch(false) => Vec::new(),
            Value::Switch(true) => vec![name.into()],
            Value::Values(values) => values.iter().map(with_value).collect(),
        }
    }

    fn values(&self) -> &[OsString] {
        match &self.value {
            Value::Switch(_) => &[],
            Value::Values(values) => values,
        }
    }

    fn is_on(&self) -> bool {
        self.value == Value::Switch(true) || !self.values().is_empty()
    }

    fn has_value(&self) -> bool {
        self.values().iter().any(|value| !value.is_empty())
    }

    fn is_of_table(&self) -> bool {
        matches!(self.origin, Origin::File { in_table: true, .. })
    }
}

impl ConfigFile {
    /// The entries of a table, or those for all commands, that set options of this command.
    fn settings(&self, command: &clap::Command, table: Option<&str>) -> Vec<Setting> {
        let entries = self.entries.iter().filter(|entry| entry.table.as_deref() == table);
        let setting = |entry: &Entry| {
            let origin = Origin::File { place: self.place(entry.line), in_table: table.is_some() };
            let option = option_named(command, &entry.name)?;
            Some(Setting::new(option, origin, entry.value.clone()))
        };
        entries.filter_map(setting).collect()
    }
}

/// Whether options of this command can be set in the environment and in a file.
pub fn is_configurable(command: &clap::Command) -> bool {
    command.get_name() != CONFIG && command.get_arguments().any(|option| option.get_id() == CONFIG)
}

/// The tables of a file, each with its command, in the order of the help.
fn tables(grammar: &clap::Command) -> impl Iterator<Item = (&str, &clap::Command)> {
    let mut commands: Vec<_> = grammar.get_subcommands().filter(|command| is_configurable(command)).collect();
    commands.sort_by_key(|command| command.get_display_order());
    let commands = commands.into_iter().map(|command| (command.get_name(), command));
    std::iter::once((CLASSIC_TABLE, grammar)).chain(commands)
}

/// The table of a command.
fn table_of<'a>(grammar: &clap::Command, command: &'a clap::Command) -> &'a str {
    if command.get_name() == grammar.get_name() { CLASSIC_TABLE } else { command.get_name() }
}

/// The options that can be set in the environment and in a file.
fn settable_options(command: &clap::Command) -> impl Iterator<Item = &Arg> {
    let is_settable = |option: &&Arg| {
        let prints = matches!(
            option.get_action(),
            ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
        );
        option.get_long().is_some() && !prints && option.get_id() != CONFIG
    };
    options_of(command).filter(is_settable)
}

fn option_named<'a>(command: &'a clap::Command, name: &str) -> Option<&'a Arg> {
    settable_options(command).find(|option| option.get_long() == Some(name))
}

/// Whether an option can be given with and without a value.
fn has_optional_value(option: &Arg) -> bool {
    option.get_action().takes_values() && option.get_num_args().is_some_and(|count| count.min_values() == 0)
}

/// Whether the command runs without this option, and does something else with it: a distributed crawl. The environment and
/// the keys for all commands then do not decide that.
fn is_chosen(command: &clap::Command, option: &Arg) -> bool {
    option.get_id() == "redis" && ["crawl", "check", "show", "why", "demo"].contains(&command.get_name())
}

/// Whether an option can be given several times.
fn is_repeatable(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::Append)
}

fn conflicts_with_any(command: &clap::Command, option: &Arg, others: &[&Arg]) -> bool {
    let names = |option: &Arg, other: &Arg| {
        command.get_arg_conflicts_with(option).iter().any(|named| named.get_id() == other.get_id())
    };
    others.iter().any(|other| names(option, other) || names(other, option))
}
