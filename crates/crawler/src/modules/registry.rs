//! The delivered modules by name: what `--module NAME[=ARGS]` means.

use std::fmt;

use super::edges::Edges;
use super::exec::Exec;
use super::jsonl::Jsonl;
use super::noop::Noop;
use super::pages::Pages;
use super::stdout::StdoutOutput;
use super::words::{self, WordCount};
use super::{Module, Output, OutputSpec, Target};

/// How each module is written, and what it does.
pub const MODULES: [(&str, &str); 6] = [
    ("noop", "does nothing; the default"),
    ("pages=DIR", "page N as the file N of a directory: its URL, its depth, its bytes"),
    ("jsonl=FILE", "one JSON object a page; '-' is standard output"),
    ("edges=FILE", "the link graph as CSV, from,to; '-' is standard output"),
    ("words[=N]", "the N most frequent words (20), in the summary"),
    ("exec=COMMAND", "pages as JSON lines to the standard input of a program, run by sh"),
];

/// The largest number of words that can be asked for: more would not be a summary.
const MOST_TOP_WORDS: usize = 1000;

/// What a module's name stands for.
pub enum RegisteredModule {
    /// A side effect, at least once a page.
    Module(Box<dyn Module>),
    /// Additions to files, exactly once a page.
    Output(OutputSpec),
}

impl RegisteredModule {
    /// What it is called in messages.
    pub fn name(&self) -> &str {
        match self {
            RegisteredModule::Module(module) => module.name(),
            RegisteredModule::Output(spec) => spec.output.name(),
        }
    }
}

impl fmt::Debug for RegisteredModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegisteredModule::Module(module) => f.debug_tuple("Module").field(&module.name()).finish(),
            RegisteredModule::Output(spec) => {
                f.debug_tuple("Output").field(&spec.output.name()).field(&spec.target).finish()
            }
        }
    }
}

/// Reads `NAME` or `NAME=ARGS`. Nothing is opened or started yet.
pub fn parse(spec: &str) -> Result<RegisteredModule, String> {
    let (name, arguments) = match spec.split_once('=') {
        Some((name, arguments)) => (name, Some(arguments)),
        None => (spec, None),
    };
    let given = arguments.filter(|arguments| !arguments.is_empty());
    let module = match (name, given) {
        ("noop", None) => Ok(RegisteredModule::Module(Box::new(Noop))),
        ("noop", Some(_)) => Err("takes no arguments"),
        ("pages", Some(path)) if path != "-" => {
            let target = Target::Directory(path.into());
            Ok(RegisteredModule::Output(OutputSpec { output: Box::new(Pages), target }))
        }
        ("pages", _) => Err("needs a directory"),
        ("jsonl", Some(path)) => Ok(file_or_stdout(Jsonl, path)),
        ("edges", Some(path)) => Ok(file_or_stdout(Edges, path)),
        ("jsonl" | "edges", None) => Err("needs a file, or '-' for standard output"),
        ("words", None) => Ok(RegisteredModule::Module(Box::new(WordCount::new(words::DEFAULT_TOP)))),
        ("words", Some(top)) => match top.parse() {
            Ok(top) if (1..=MOST_TOP_WORDS).contains(&top) => {
                Ok(RegisteredModule::Module(Box::new(WordCount::new(top))))
            }
            _ => Err("takes a number of words from 1 to 1000"),
        },
        ("exec", Some(command)) => Ok(RegisteredModule::Module(Box::new(Exec::new(command)))),
        ("exec", None) => Err("needs a command"),
        _ => Err("is not known"),
    };
    module.map_err(|wrong| format!("module '{name}' {wrong}; modules are {}", list()))
}

fn file_or_stdout(output: impl Output + 'static, path: &str) -> RegisteredModule {
    match path {
        "-" => RegisteredModule::Module(Box::new(StdoutOutput::new(output))),
        path => RegisteredModule::Output(OutputSpec {
            output: Box::new(output),
            target: Target::File(path.into()),
        }),
    }
}

fn list() -> String {
    MODULES.map(|(usage, _)| usage).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_module_can_be_had_as_it_is_listed() {
        for (usage, _) in MODULES {
            let spec = usage.replace("[=N]", "=7").replace("COMMAND", "cat > 'a=b'");
            let installed = parse(&spec).unwrap();
            assert!(usage.starts_with(installed.name()), "{installed:?}");
        }
    }

    #[test]
    fn files_are_outputs_and_a_dash_is_standard_output() {
        let RegisteredModule::Output(spec) = parse("jsonl=a=b.jsonl").unwrap() else {
            panic!("a file is an output")
        };
        assert_eq!(spec.target, Target::File("a=b.jsonl".into()));
        let RegisteredModule::Output(spec) = parse("pages=dir").unwrap() else { panic!("so is a directory") };
        assert_eq!(spec.target, Target::Directory("dir".into()));
        for spec in ["jsonl=-", "edges=-"] {
            assert!(matches!(parse(spec).unwrap(), RegisteredModule::Module(_)), "{spec}");
        }
    }

    #[test]
    fn an_error_names_the_module_what_is_wrong_and_the_modules_there_are() {
        for (spec, wrong) in [
            ("", "module '' is not known"),
            ("json=x", "module 'json' is not known"),
            ("noop=x", "module 'noop' takes no arguments"),
            ("pages", "module 'pages' needs a directory"),
            ("pages=-", "module 'pages' needs a directory"),
            ("jsonl=", "module 'jsonl' needs a file, or '-' for standard output"),
            ("edges", "module 'edges' needs a file, or '-' for standard output"),
            ("words=0", "module 'words' takes a number of words from 1 to 1000"),
            ("words=many", "module 'words' takes a number of words from 1 to 1000"),
            ("exec=", "module 'exec' needs a command"),
        ] {
            let expected = format!(
                "{wrong}; modules are noop, pages=DIR, jsonl=FILE, edges=FILE, words[=N], exec=COMMAND"
            );
            assert_eq!(parse(spec).unwrap_err(), expected);
        }
    }
}
