//! Options in the environment: `CRAWLER_MAX_PAGES` for `--max-pages`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use clap::Arg;
use clap::builder::ValueParser;
use crawler::internal::prioritizer::pagerank;

use super::file::Value;
use super::{Origin, Setting, is_repeatable, settable_options, tables};
use crate::args::suggestions::{did_you_mean, similar};
use crate::dashboard::access::TOKEN_VARIABLE;

/// What the names of the variables start with.
const PREFIX: &str = "CRAWLER_";

/// The variable that names the configuration file.
pub const CONFIG_VARIABLE: &str = "CRAWLER_CONFIG";

/// The variables that set no option: a secret, which must not be in a file by accident, or the address of Redis.
pub const OTHER_VARIABLES: [&str; 3] = ["CRAWLER_REDIS_PASSWORD", pagerank::KEY_VARIABLE, TOKEN_VARIABLE];

/// The configuration file that the environment names. An empty variable counts as not set, as for all variables.
pub fn config_file() -> Option<PathBuf> {
    value_of(CONFIG_VARIABLE).map(PathBuf::from)
}

/// The settings of a command in the environment.
pub fn settings(command: &clap::Command) -> Result<Vec<Setting>, String> {
    settable_options(command).filter_map(|option| setting(option).transpose()).collect()
}

fn setting(option: &Arg) -> Result<Option<Setting>, String> {
    let variable = variable_of(option);
    let Some(text) = value_of(&variable) else { return Ok(None) };
    let is_path = option.get_value_parser().type_id() == ValueParser::path_buf().type_id();
    if !is_path && text.to_str().is_none() {
        return Err(format!("{variable} is not UTF-8 text; set it to text"));
    }
    let value = if !option.get_action().takes_values() {
        Value::Switch(switch(&variable, &text)?)
    } else if is_repeatable(option) {
        let lines = text.as_bytes().split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        Value::Values(lines.map(|line| OsString::from_vec(line.to_vec())).collect())
    } else {
        Value::Values(vec![text])
    };
    Ok(Some(Setting::new(option, Origin::Variable(variable), value)))
}

fn switch(variable: &str, text: &OsStr) -> Result<bool, String> {
    let text = text.to_string_lossy();
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(format!("{variable}={text}: must be true or false")),
    }
}

fn value_of(variable: &str) -> Option<OsString> {
    env::var_os(variable).filter(|value| !value.is_empty())
}

/// The variable that sets an option.
pub fn variable_of(option: &Arg) -> String {
    variable_named(option.get_long().unwrap_or_default())
}

/// The variable that sets the option of this name.
pub fn variable_named(name: &str) -> String {
    format!("{PREFIX}{}", name.replace('-', "_").to_uppercase())
}

/// Whether a variable may set an option, or names the file that does.
pub fn is_option_variable(name: &OsStr) -> bool {
    let is_other = |name: &str| name == "CRAWLER_REDIS" || OTHER_VARIABLES.contains(&name);
    name.to_str().is_some_and(|name| name.starts_with(PREFIX) && !is_other(name))
}

/// A warning for each variable that sets nothing and whose name is close to one that does.
pub fn misspelt_variables(grammar: &clap::Command) -> Vec<String> {
    let options = tables(grammar).flat_map(|(_, command)| settable_options(command));
    let mut known: Vec<String> = options.map(variable_of).collect();
    known.extend(OTHER_VARIABLES.iter().chain([&CONFIG_VARIABLE]).map(|name| (*name).to_owned()));
    let suffix = |name: &str| name.strip_prefix(PREFIX).unwrap_or_default().to_owned();
    let suffixes: Vec<String> = known.iter().map(|name| suffix(name)).collect();
    let set = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut warnings: Vec<String> = set
        .filter(|name| name.starts_with(PREFIX) && !known.contains(name))
        .filter_map(|name| {
            let similar = similar(&suffix(&name), suffixes.iter().map(String::as_str));
            // An abbreviation is more likely a variable of another program.
            let meant = did_you_mean(&similar, PREFIX);
            (similar.len() == 1 && !similar[0].starts_with(&suffix(&name)))
                .then(|| format!("the variable {name} sets no option{meant}"))
        })
        .collect();
    warnings.sort();
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_booleans() {
        for (text, is_on) in [("1", true), ("TRUE", true), ("on", true), ("0", false), ("No", false)] {
            assert_eq!(switch("CRAWLER_QUIET", text.as_ref()), Ok(is_on));
        }
        let error = switch("CRAWLER_QUIET", "maybe".as_ref()).unwrap_err();
        assert_eq!(error, "CRAWLER_QUIET=maybe: must be true or false");
    }

    #[test]
    fn children_of_a_crawl_keep_secrets_only() {
        for name in ["CRAWLER_QUIET", "CRAWLER_CONFIG", "CRAWLER_STATE", "CRAWLER_ANYTHING"] {
            assert!(is_option_variable(name.as_ref()), "{name}");
        }
        for name in ["CRAWLER_REDIS", "CRAWLER_REDIS_PASSWORD", "CRAWLER_PAGERANK_KEY", "HTTP_PROXY"] {
            assert!(!is_option_variable(name.as_ref()), "{name}");
        }
    }
}
