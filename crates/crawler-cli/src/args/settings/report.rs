//! `crawler config`: prints the options in force as TOML, each with where it is set.

use std::borrow::Cow;
use std::ffi::OsStr;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches};
use crawler::Proxies;
use url::Url;

use super::environment::OTHER_VARIABLES;
use super::{
    Origin, Setting, Settings, has_optional_value, is_repeatable, settable_options, table_of, tables,
};
use crate::args::login::SECRET_OPTIONS;
use crate::printable::printable;

/// The options whose values are addresses that may contain a password.
const ADDRESS_OPTIONS: [&str; 3] = ["redis", "proxy", "pagerank-url"];

/// What is shown instead of a secret.
pub const MASK: &str = "***";

/// The commands that take options from an existing crawl.
const COMMANDS_WITH_SAVED_OPTIONS: [&str; 5] = ["resume", "recrawl", "submit", "frontier", "worker"];

/// The options of one command, of which `matches` has the values.
pub fn report(
    grammar: &clap::Command,
    command: &clap::Command,
    matches: &ArgMatches,
    settings: &Settings,
) -> String {
    let table = table_of(grammar, command);
    let form = if table == command.get_name() { format!("crawler {table}") } else { "crawler".into() };
    let mut text = format!("# The options of '{form}' in force, and where each is set.\n");
    text += &file_line(settings);
    if COMMANDS_WITH_SAVED_OPTIONS.contains(&table) {
        text += "# What is not set here, or only for all commands, is as saved in the crawl, if it exists.\n";
    }
    text += &format!("\n[{table}]\n");
    let mut options: Vec<&Arg> = settable_options(command).collect();
    options.sort_by_key(|option| option.get_display_order());
    let mut headings: Vec<Option<&str>> = Vec::new();
    for heading in options.iter().map(|option| option.get_help_heading()) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    options.sort_by_key(|option| {
        let heading = headings.iter().position(|heading| *heading == option.get_help_heading());
        (heading, option.get_display_order())
    });
    let mut current = None;
    for option in options {
        if option.get_help_heading() != current {
            current = option.get_help_heading();
            text += &format!("\n# {}\n", current.unwrap_or("Options"));
        }
        text += &Line::from_matches(option, matches, settings).text();
    }
    text + &variables()
}

/// What the environment and the file set, for every command. `settings_of` finds the settings of a command.
pub fn overview(
    grammar: &clap::Command,
    settings_of: impl Fn(&clap::Command) -> Result<Settings, String>,
) -> Result<String, String> {
    let mut text = String::from(
        "# What the environment and the config file set, for each command. For all options of a\n\
         # command and its command line: crawler config COMMAND …\n",
    );
    let mut file = String::new();
    let mut sections = String::new();
    for (table, command) in tables(grammar) {
        let settings = settings_of(command)?;
        file = file_line(&settings);
        let lines = settings.settings.iter().filter_map(|setting| Line::of_setting(command, setting));
        let lines: String = lines.map(|line| line.text()).collect();
        if !lines.is_empty() {
            sections += &format!("\n[{table}]\n{lines}");
        }
    }
    text += &file;
    if sections.is_empty() {
        text += "# No option is set.\n";
    }
    Ok(text + &sections + &variables())
}

fn file_line(settings: &Settings) -> String {
    match &settings.file {
        Some(path) => format!("# Config file: {}\n", printable(&path.display().to_string())),
        None => "# Config file: none (--config, CRAWLER_CONFIG)\n".into(),
    }
}

/// The variables that are set and are no options.
fn variables() -> String {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let lines: String =
        OTHER_VARIABLES.into_iter().filter(is_set).map(|name| format!("# {name} is set.\n")).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// A line of the report.
struct Line<'a> {
    option: &'a Arg,
    value: String,
    /// A comment: the line would not set the option as it is set now.
    is_comment: bool,
    origin: String,
}

impl<'a> Line<'a> {
    fn from_matches(option: &'a Arg, matches: &ArgMatches, settings: &Settings) -> Line<'a> {
        let (name, id) = (option.get_long().unwrap_or_default(), option.get_id().as_str());
        let setting = settings.settings.iter().find(|setting| setting.name == name);
        if let Some(setting) = setting {
            return Line::new(option, setting);
        }
        let raw: Vec<&OsStr> = matches.try_get_raw(id).ok().flatten().into_iter().flatten().collect();
        let has_flag = !option.get_action().takes_values();
        match matches.value_source(id) {
            Some(ValueSource::CommandLine) if has_flag => Line::set(option, "true".into(), "command line"),
            Some(ValueSource::CommandLine) => Line::with_values(option, &raw, "command line"),
            Some(_) if !has_flag && !option.is_hide_default_value_set() => {
                Line { is_comment: true, ..Line::with_values(option, &raw, "default") }
            }
            _ => match settings.missing_value(name) {
                Some(setting) => Line {
                    is_comment: true,
                    origin: format!("{}: the value of --{name} without one", describe(&setting.origin)),
                    ..Line::new(option, setting)
                },
                None => Line { is_comment: true, ..Line::set(option, placeholder(option), "not set") },
            },
        }
    }

    fn of_setting(command: &'a clap::Command, setting: &Setting) -> Option<Line<'a>> {
        super::option_named(command, &setting.name).map(|option| Line::new(option, setting))
    }

    fn new(option: &'a Arg, setting: &Setting) -> Line<'a> {
        let origin = describe(&setting.origin);
        if !setting.values().is_empty() {
            let values: Vec<&OsStr> = setting.values().iter().map(|value| value.as_os_str()).collect();
            return Line::with_values(option, &values, &origin);
        }
        let value = match (setting.is_on(), is_repeatable(option)) {
            (true, _) => "true",
            (false, true) => "[]",
            (false, false) => "false",
        };
        Line::set(option, value.into(), &origin)
    }

    fn set(option: &'a Arg, value: String, origin: &str) -> Line<'a> {
        Line { option, value, is_comment: false, origin: origin.to_owned() }
    }

    fn with_values(option: &'a Arg, values: &[&OsStr], origin: &str) -> Line<'a> {
        let name = option.get_long().unwrap_or_default();
        let is_lossy = values.iter().any(|value| value.to_str().is_none());
        let texts: Vec<Cow<str>> = values.iter().map(|value| value.to_string_lossy()).collect();
        let shown: Vec<(String, bool)> = texts.iter().map(|text| shown(name, text)).collect();
        let is_masked = shown.iter().any(|(_, is_masked)| *is_masked);
        let literals: Vec<String> = shown.iter().map(|(text, _)| literal(text)).collect();
        let value = match (is_repeatable(option), literals.as_slice()) {
            (false, [one]) if one == "\"\"" && has_optional_value(option) => "true".into(),
            (false, [one]) => one.clone(),
            _ => format!("[{}]", literals.join(", ")),
        };
        let origin = if is_masked { format!("{origin}; not shown") } else { origin.to_owned() };
        Line { option, value, is_comment: is_masked || is_lossy, origin }
    }

    fn text(&self) -> String {
        let comment = if self.is_comment { "# " } else { "" };
        let name = self.option.get_long().unwrap_or_default();
        format!("{comment}{name} = {}  # {}\n", self.value, printable(&self.origin))
    }
}

fn describe(origin: &Origin) -> String {
    match origin {
        Origin::Variable(variable) => variable.clone(),
        Origin::File { place, .. } => place.clone(),
    }
}

/// The value of an option that is not set, to be replaced.
fn placeholder(option: &Arg) -> String {
    let names = option.get_value_names().unwrap_or_default();
    let name = literal(names.first().map_or("VALUE", |name| name.as_str()));
    match option.get_action().takes_values() {
        false => "true".into(),
        true if is_repeatable(option) => format!("[{name}]"),
        true => name,
    }
}

/// A value as it may be printed, and whether a part of it is masked because it is secret.
pub fn shown(name: &str, value: &str) -> (String, bool) {
    // '@' is followed by the name of a file, and so is --cookies.
    if SECRET_OPTIONS.contains(&name) && name != "cookies" && !value.starts_with('@') {
        let kept =
            value.split_once(':').filter(|_| name == "header").map(|(header, _)| format!("{header}: "));
        return (kept.unwrap_or_default() + MASK, true);
    }
    let has_credentials = |url: &Url| !url.username().is_empty() || url.password().is_some();
    // Passwords in these addresses may have any character, and a proxy needs no scheme.
    if let Some((credentials, host)) = value.rsplit_once('@').filter(|_| ADDRESS_OPTIONS.contains(&name)) {
        let scheme = credentials.split_once("://").map(|(scheme, _)| format!("{scheme}://"));
        return (format!("{}{MASK}@{host}", scheme.unwrap_or_default()), true);
    }
    if name == "proxy" && Proxies::new(value).is_err() {
        return (MASK.into(), true);
    }
    match value.split_once("://") {
        Some((scheme, rest)) => match rest.split(['/', '?', '#']).next().unwrap_or_default().rfind('@') {
            Some(at) => (format!("{scheme}://{MASK}@{}", &rest[at + 1..]), true),
            None => (value.into(), false),
        },
        None if Url::parse(value).is_ok_and(|url| has_credentials(&url)) => (MASK.into(), true),
        None => (value.into(), false),
    }
}

/// A value as TOML: a number if it is written like one, otherwise a string.
fn literal(text: &str) -> String {
    let is_number = text.parse::<i64>().is_ok_and(|number| number.to_string() == text);
    if is_number {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            _ if printable(character.encode_utf8(&mut [0; 4])).len() == character.len_utf8() => {
                quoted.push(character);
            }
            _ => quoted.push_str(&format!("\\U{:08X}", u32::from(character))),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked() {
        for (name, value, expected) in [
            ("header", "Authorization: Bearer sesame", "Authorization: ***"),
            ("header", "sesame", "***"),
            ("auth", "me:sesame", "***"),
            ("proxy", "http://me:sesame@proxy.test:3128/", "http://***@proxy.test:3128/"),
            ("proxy", "me:sesame@proxy.test:3128", "***@proxy.test:3128"),
            ("proxy", "me:ses/ame@proxy.test:3128", "***@proxy.test:3128"),
            ("proxy", "http://me:ses/@me@proxy.test", "http://***@proxy.test"),
            ("proxy", "http://me:sesame", "***"),
            ("redis", "redis://:ses@me@host/0", "redis://***@host/0"),
            ("redis", "redis://:ses/a?m#e@host/0", "redis://***@host/0"),
            ("pagerank-url", "https://me:ses/ame@host/x", "https://***@host/x"),
            ("redis", "redis+sentinel://:sesame@a:1,b:2/main", "redis+sentinel://***@a:1,b:2/main"),
            ("pagerank-url", "https:/me:sesame@host/", "***@host/"),
            ("contact", "https:/me:sesame@host/", "***"),
        ] {
            assert_eq!(shown(name, value), (expected.into(), true), "{value}");
        }
        for (name, value) in [
            ("auth", "@login.txt"),
            ("contact", "https://a.test/@me"),
            ("module", "jsonl=a@b"),
            ("delay", "1s"),
        ] {
            assert_eq!(shown(name, value), (value.into(), false));
        }
    }

    #[test]
    fn values_are_valid_toml() {
        for (value, expected) in [
            ("10", "10"),
            ("-1", "-1"),
            ("010", "\"010\""),
            ("0.9", "\"0.9\""),
            ("a\"b\\c\n", r#""a\"b\\c\n""#),
            ("\u{1b}\u{7f}\u{202e}", r#""\U0000001B\U0000007F\U0000202E""#),
        ] {
            assert_eq!(literal(value), expected);
        }
    }
}
