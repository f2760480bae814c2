//! The arguments of `crawler config`, and its result.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;

use super::errors::{Explainer, UsageError};
use super::settings::{self, CommandLine};
use super::{definition, help};

/// The arguments as parsed.
#[derive(clap::Args)]
pub struct ConfigArgs {
    #[arg(long, value_name = "FILE", help = help::CONFIG_OPTION)]
    config: Option<PathBuf>,
    /// Command line to explain: a command with its options, or 'classic' for the form without a command
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    command_line: Vec<OsString>,
}

impl ConfigArgs {
    /// The options in force for the command line; without one, those that are set for each command. The error is one line.
    pub fn report(self) -> Result<String, String> {
        self.try_report(&definition()).map_err(UsageError::into_line)
    }

    fn try_report(self, definition: &clap::Command) -> Result<String, UsageError> {
        let ConfigArgs { config: file, mut command_line } = self;
        if command_line.is_empty() {
            return settings::overview(definition, file)
                .map_err(|message| UsageError::new(message, "crawler config"));
        }
        let is_classic = definition.find_subcommand(&command_line[0]).is_none();
        if command_line[0] == settings::CLASSIC_TABLE {
            command_line.remove(0);
        }
        if let Some(file) = file {
            let after_command = usize::from(!is_classic).min(command_line.len());
            command_line.splice(after_command..after_command, [OsString::from("--config"), file.into()]);
        }
        let mut line = CommandLine::new(definition, command_line)?;
        if let Some(error) = Explainer::new(&line).unknown_command_error() {
            return Err(error);
        }
        if let Some(command) = line.command().filter(|command| !settings::is_configurable(command)) {
            let message = format!("'{}' has no options that can be set", command.get_name());
            return Err(UsageError::new(message, "crawler config"));
        }
        match line.matches() {
            // The report needs no URLs and no other arguments.
            Err(error) if error.kind() != ErrorKind::MissingRequiredArgument => {
                Err(Explainer::new(&line).parse_error(&error))
            }
            _ => Ok(line.report(definition)),
        }
    }
}
