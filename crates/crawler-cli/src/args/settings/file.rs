//! The configuration file: TOML with a key per option, checked against the options that exist.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use clap::Arg;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::{CONFIG, has_optional_value, is_repeatable, option_named, settable_options, tables};
use crate::args::suggestions::{did_you_mean, listed, similar};

/// The largest file. All options together take a few kilobytes; this leaves room for long lists of patterns.
const MAX_BYTES: u64 = 1_000_000;

/// A configuration file, all of whose keys are options.
#[derive(Default)]
pub struct ConfigFile {
    path: String,
    pub entries: Vec<Entry>,
}

/// A key and its value.
pub struct Entry {
    /// The table; `None` for all commands.
    pub table: Option<String>,
    /// The option, without its dashes.
    pub name: String,
    pub line: usize,
    pub value: Value,
}

/// The value of an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Whether it is on.
    Switch(bool),
    /// The values that it is given with.
    Values(Vec<OsString>),
}

impl ConfigFile {
    /// Reads a file, and checks the names and types of all its keys. `named_by` is the option or variable with its path.
    pub fn load(path: &Path, named_by: &str, grammar: &clap::Command) -> Result<ConfigFile, String> {
        ConfigFile::parse(path.display().to_string(), &read(path, named_by)?, grammar)
    }

    fn parse(path: String, text: &str, grammar: &clap::Command) -> Result<ConfigFile, String> {
        let document = DeTable::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_at(text, span.start));
            format!("{path}:{line}: not valid TOML: {}", error.message().replace('\n', ", "))
        })?;
        let reader = Reader { path: &path, text, grammar };
        let entries = reader.entries(document.get_ref())?;
        Ok(ConfigFile { path, entries })
    }

    /// `FILE:LINE`.
    pub fn place(&self, line: usize) -> String {
        format!("{}:{line}", self.path)
    }
}

fn read(path: &Path, named_by: &str) -> Result<String, String> {
    let cannot = |cause: &dyn std::fmt::Display| {
        format!("cannot read the config file '{}' ({named_by}): {cause}", path.display())
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| cannot(&error))?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| cannot(&error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(cannot(&"it is larger than 1 MB; give a TOML file of options"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
        cannot(&format!("line {line} is not UTF-8; save it as UTF-8"))
    })
}

fn line_at(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// The keys of a table in the order of the file, so that the first error is reported.
fn in_order<'a, 'i>(
    table: &'a DeTable<'i>,
) -> impl Iterator<Item = (&'a Spanned<DeString<'i>>, &'a Spanned<DeValue<'i>>)> {
    let mut keys: Vec<_> = table.iter().collect();
    keys.sort_by_key(|(key, _)| key.span().start);
    keys.into_iter()
}

/// Turns the tables of a document into entries. Each error starts with the file and the line.
struct Reader<'a> {
    path: &'a str,
    text: &'a str,
    grammar: &'a clap::Command,
}

impl Reader<'_> {
    fn entries(&self, document: &DeTable) -> Result<Vec<Entry>, String> {
        let mut entries = Vec::new();
        for (key, value) in in_order(document) {
            let name = key.get_ref().as_ref();
            let table = tables(self.grammar).find(|(table, _)| *table == name);
            match (table, value.get_ref()) {
                (Some((table, command)), DeValue::Table(keys)) => {
                    for (key, value) in in_order(keys) {
                        entries.push(self.entry(key, value, Some((table, command)))?);
                    }
                }
                (Some((table, _)), value) => {
                    let found = found(value);
                    let problem = format!("[{table}] must be a table of options, not {found}");
                    let remedy = match name {
                        "crawl" => "; set the name of a crawl as 'crawl' in the tables of the commands",
                        _ => "",
                    };
                    return Err(self.error(key, &(problem + remedy)));
                }
                (None, _) => entries.push(self.entry(key, value, None)?),
            }
        }
        Ok(entries)
    }

    fn entry(
        &self,
        key: &Spanned<DeString>,
        value: &Spanned<DeValue>,
        table: Option<(&str, &clap::Command)>,
    ) -> Result<Entry, String> {
        let name = key.get_ref().as_ref();
        let option = match table {
            Some((_, command)) => option_named(command, name),
            None => tables(self.grammar).find_map(|(_, command)| option_named(command, name)),
        };
        let option = option.ok_or_else(|| self.error(key, &self.unknown(name, table)))?;
        let value = option_value(option, value.get_ref()).map_err(|problem| self.error(value, &problem))?;
        let line = line_at(self.text, key.span().start);
        Ok(Entry { table: table.map(|(name, _)| name.to_owned()), name: name.to_owned(), line, value })
    }

    fn unknown(&self, name: &str, table: Option<(&str, &clap::Command)>) -> String {
        if name == CONFIG {
            return "a config file cannot name another one".into();
        }
        let owners = tables(self.grammar).filter(|(_, command)| option_named(command, name).is_some());
        let owners: Vec<String> = owners.map(|(owner, _)| format!("[{owner}]")).collect();
        if let Some((table, _)) = table
            && !owners.is_empty()
        {
            return format!("[{table}] has no key '{name}'; it is a key of {}", listed(&owners, "and"));
        }
        // As typed on the command line, or as in a program.
        let meant = name.trim_start_matches('-').replace('_', "-").to_lowercase();
        let options: Vec<&clap::Command> = match table {
            Some((_, command)) => vec![command],
            None => tables(self.grammar).map(|(_, command)| command).collect(),
        };
        let mut known: Vec<&str> =
            options.into_iter().flat_map(settable_options).filter_map(Arg::get_long).collect();
        if table.is_none() {
            known.extend(tables(self.grammar).map(|(table, _)| table));
        }
        known.sort_unstable();
        known.dedup();
        format!("unknown key '{name}'{}", did_you_mean(&similar(&meant, known.into_iter()), ""))
    }

    /// The error with the file and the line.
    fn error<T>(&self, at: &Spanned<T>, problem: &str) -> String {
        format!("{}:{}: {problem}", self.path, line_at(self.text, at.span().start))
    }
}

/// Checks the type of a value.
fn option_value(option: &Arg, value: &DeValue) -> Result<Value, String> {
    let name = option.get_long().unwrap_or_default();
    let takes_values = option.get_action().takes_values();
    match value {
        DeValue::Boolean(is_on) if !takes_values || has_optional_value(option) => Ok(Value::Switch(*is_on)),
        DeValue::Array(elements) if is_repeatable(option) => {
            let texts = elements.iter().map(|element| {
                text_of(element.get_ref()).ok_or_else(|| {
                    format!("{name} must be an array of strings; it contains {}", found(element.get_ref()))
                })
            });
            Ok(Value::Values(texts.collect::<Result<_, _>>()?))
        }
        value => match text_of(value).filter(|_| takes_values) {
            Some(text) => Ok(Value::Values(vec![text])),
            None => Err(format!("{name} must be {}, not {}", expected(option), found(value))),
        },
    }
}

/// A string or a number as it would be typed.
fn text_of(value: &DeValue) -> Option<OsString> {
    let text = match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix()).ok()?.to_string(),
        DeValue::Float(number) => number.as_str().parse::<f64>().ok()?.to_string(),
        _ => return None,
    };
    Some(text.into())
}

fn expected(option: &Arg) -> &'static str {
    match option.get_action().takes_values() {
        false => "true or false",
        true if has_optional_value(option) => "a string, or true or false",
        true if is_repeatable(option) => "a string or an array of strings",
        true => "a string or a number",
    }
}

fn found(value: &DeValue) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(true) => "true",
        DeValue::Boolean(false) => "false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::args::definition;

    /// Pieces of files: keys, values and punctuation in any order.
    fn pieces() -> impl Strategy<Value = String> {
        let known = vec![
            "delay",
            "[crawl]",
            "[worker]\n",
            "exclude",
            "quiet",
            "redis",
            "crawl",
            "=",
            " = ",
            "\n",
            "true",
            "'a'",
            "\"b\"",
            "[",
            "]",
            "{",
            "}",
            ".",
            ",",
            "1",
            "-0x1",
            "1e999",
            "nan",
            "1979-05-27",
            "'''",
            "#",
            "\u{feff}",
            "\r",
            "\0",
            "ü",
            "99999999999999999999999999999999999999999",
        ];
        let piece = prop_oneof![prop::sample::select(known).prop_map(str::to_owned), any::<String>()];
        prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    fn grammar() -> clap::Command {
        let mut grammar = definition();
        grammar.build();
        grammar
    }

    #[test]
    fn every_file_is_read_or_refused_with_its_line() {
        let grammar = grammar();
        proptest!(|(text in pieces())| {
            if let Err(error) = ConfigFile::parse("c.toml".into(), &text, &grammar) {
                let line = error.strip_prefix("c.toml:").and_then(|rest| rest.split(':').next());
                let line: usize = line.and_then(|line| line.parse().ok()).unwrap();
                prop_assert!((1..=text.matches('\n').count() + 1).contains(&line), "{error}");
            }
        });
    }

    #[test]
    fn numbers_are_read_as_they_would_be_typed() {
        let grammar = grammar();
        for (number, typed) in
            [("1_000", "1000"), ("0x10", "16"), ("-1", "-1"), ("+5", "5"), ("0.50", "0.5"), ("1e3", "1000")]
        {
            let file = ConfigFile::parse("c".into(), &format!("delay = {number}"), &grammar);
            let value = file.ok().and_then(|mut file| file.entries.pop()).map(|entry| entry.value);
            assert_eq!(value, Some(Value::Values(vec![typed.into()])), "{number}");
        }
    }
}
