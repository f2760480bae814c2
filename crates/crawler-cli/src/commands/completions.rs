//! Prints a completion script: `crawler completions SHELL`.

use clap::{Arg, Command};
use clap_complete::Shell;

use crate::EXIT_FAILED;
use crate::args::definition;
use crate::printable::print_stdout;

/// Follows the script for bash, which offers options and commands wherever an argument may be. Without a match, bash offers
/// files: what most arguments are.
const BASH_ARGUMENTS: &str = r#"
_crawler_arguments() {
    _crawler "$@"
    if [[ "$2" != -* && "${COMP_CWORD}" -gt 1 && "${COMPREPLY[0]}" == -* ]]; then
        COMPREPLY=()
    fi
}
complete -F _crawler_arguments -o bashdefault -o default crawler
"#;

/// Prints the script and returns the exit status.
pub fn run(shell: Shell) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible(&definition()), "crawler", &mut script);
    if shell == Shell::Bash {
        script.extend(BASH_ARGUMENTS.bytes());
    }
    if print_stdout(&String::from_utf8_lossy(&script)) { 0 } else { EXIT_FAILED }
}

/// The commands and options that the help lists. The generators of scripts do not leave the hidden ones out.
fn visible(command: &Command) -> Command {
    let mut copy = Command::new(command.get_name().to_owned());
    if let Some(about) = command.get_about() {
        copy = copy.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        copy = copy.version(version.to_owned());
    }
    let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set());
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
    copy.args(arguments.map(plain)).subcommands(commands.map(visible))
}

/// An argument without its relations to others, which may be hidden.
fn plain(argument: &Arg) -> Arg {
    let mut copy = Arg::new(argument.get_id().clone())
        .action(argument.get_action().clone())
        .value_parser(argument.get_value_parser().clone())
        .value_hint(argument.get_value_hint())
        .short(argument.get_short());
    if let Some(long) = argument.get_long() {
        copy = copy.long(long.to_owned());
    }
    if let Some(help) = argument.get_help() {
        copy = copy.help(help.clone());
    }
    if let Some(names) = argument.get_value_names() {
        copy = copy.value_names(names.to_vec());
    }
    match argument.get_num_args() {
        Some(count) => copy.num_args(count),
        None => copy,
    }
}
