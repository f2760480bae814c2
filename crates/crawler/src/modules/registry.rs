//! The built-in modules by name: parses `--module NAME[=ARGS]`.

use std::fmt;
use std::path::Path;

use super::check::Check;
use super::edges::Edges;
use super::exec::Exec;
use super::extract::Extract;
use super::fields::Fields;
use super::graphml::GraphMl;
use super::jsonl::Jsonl;
use super::markdown::Markdown;
use super::mirror::Mirror;
use super::noop::Noop;
use super::pages::Pages;
#[cfg(feature = "parquet")]
use super::parquet::ParquetTable;
use super::spec::{Spec, unknown_option};
use super::stdout::StdoutOutput;
use super::table::CsvTable;
use super::urls::Urls;
use super::warc::Warc;
use super::words::{self, WordCount};
use super::{BuiltinModule, BuiltinOutput, OutputSpec, Target};

/// The syntax of each module and what it does.
pub const MODULES: &[(&str, &str)] = &[
    ("noop", "does nothing; the default"),
    ("pages=DIR", "page N as file N of a directory: its URL, its depth, its bytes"),
    ("jsonl=FILE[,fields=NAME,...]", "one JSON object per page, with these fields; '-' is standard output"),
    ("csv=FILE[,fields=NAME,...]", "one CSV line per page, with the same fields; '-' is standard output"),
    (
        "extract=FILE,NAME=SELECTOR,...",
        "one JSON object per page, with the texts of the elements that CSS selectors match; '-' is standard output",
    ),
    ("markdown=DIR", "page N as file N.md of a directory: its main content as Markdown, after front matter"),
    (
        "urls=FILE",
        "every URL with its outcome: CSV if FILE ends with .csv, otherwise JSON lines; '-' is standard output",
    ),
    ("parquet=FILE[,fields=NAME,...]", "a Parquet table with the same fields, made when the crawl ends"),
    (
        "edges=FILE[,columns=NAME,...][,distinct][,redirects]",
        "the link graph as CSV: from, to, text, rel, kind (default: from,to); '-' is standard output",
    ),
    ("graphml=FILE", "the link graph as GraphML, for Gephi and networkx, made when the crawl ends"),
    (
        "mirror=DIR",
        "the site as files that a browser can open, with the images, stylesheets, scripts and fonts that pages need",
    ),
    (
        "warc=FILE[,no-requisites]",
        "a web archive of all requests and responses, with what pages need to be shown, in files FILE-00001.warc.gz, ...",
    ),
    (
        "check=FILE[,format=NAME][,accept=CODES][,fragments][,redirects]",
        "a report of broken links, for which links out of scope are requested, too",
    ),
    ("words[=N]", "the N most frequent words (20 by default), in the summary"),
    ("exec=COMMAND", "pages as JSON lines to the standard input of a program, run with sh"),
];

/// The modules that can print to standard output, as `NAME=-`.
pub const PRINTING: [&str; 5] = ["jsonl", "csv", "extract", "urls", "edges"];

/// The largest N of `words=N`. More would not be a summary.
const MAX_TOP_WORDS: usize = 1000;

/// A module or output made from its name.
pub enum RegisteredModule {
    /// A side effect, at least once per page.
    Module(Box<dyn BuiltinModule>),
    /// Writes to files, exactly once per page.
    Output(OutputSpec),
}

impl RegisteredModule {
    /// The name used in messages.
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

/// Parses `NAME` or `NAME=ARGS`. Does not open files or start programs.
pub fn parse(spec: &str) -> Result<RegisteredModule, String> {
    let module = parse_any_path(spec)?;
    if let RegisteredModule::Output(OutputSpec { output, target }) = &module
        && let Some(option) = target.path().to_str().and_then(unknown_option)
    {
        let name = output.name();
        let usage =
            MODULES.iter().map(|(usage, _)| *usage).find(|usage| usage.split('=').next() == Some(name));
        return Err(format!(
            "cannot use module '{name}': it has no option '{option}'; use {}, or a name without a comma before '{option}'",
            usage.unwrap_or(name)
        ));
    }
    Ok(module)
}

/// As [`parse`], with paths that may end with unknown options.
fn parse_any_path(spec: &str) -> Result<RegisteredModule, String> {
    let (name, arguments) = match spec.split_once('=') {
        Some((name, arguments)) => (name, Some(arguments)),
        None => (spec, None),
    };
    let arguments = arguments.filter(|arguments| !arguments.is_empty());
    if let Some(module) = arguments.and_then(|arguments| with_options(name, arguments)) {
        return module.map_err(|cause| format!("cannot use module '{name}': {cause}"));
    }
    let module = match (name, arguments) {
        ("graphml", Some(path)) if path != "-" => {
            let (output, target) = (Box::<GraphMl>::default(), Target::File(path.into()));
            Ok(RegisteredModule::Output(OutputSpec { output, target }))
        }
        ("parquet" | "graphml", _) => Err("it needs a file"),
        ("noop", None) => Ok(RegisteredModule::Module(Box::new(Noop))),
        ("noop", Some(_)) => Err("it takes no arguments"),
        ("pages", Some(path)) if path != "-" => Ok(directory(Pages, path)),
        ("markdown", Some(path)) if path != "-" => Ok(directory(Markdown, path)),
        ("pages" | "markdown", _) => Err("it needs a directory"),
        ("mirror", path) => Mirror::output(path).map(RegisteredModule::Output),
        ("urls", Some(path)) => Ok(file_or_stdout(Urls::for_file(Path::new(path)), path)),
        ("jsonl" | "csv" | "extract" | "urls" | "edges", None) => {
            Err("it needs a file, or '-' for standard output")
        }
        ("check" | "warc", _) => Err("it needs a file"),
        ("words", None) => Ok(RegisteredModule::Module(Box::new(WordCount::new(words::DEFAULT_TOP)))),
        ("words", Some(top)) => match top.parse() {
            Ok(top) if (1..=MAX_TOP_WORDS).contains(&top) => {
                Ok(RegisteredModule::Module(Box::new(WordCount::new(top))))
            }
            _ => Err("it takes a number of words from 1 to 1000"),
        },
        ("exec", Some(command)) => Ok(RegisteredModule::Module(Box::new(Exec::new(command)))),
        ("exec", None) => Err("it needs a command"),
        _ => Err("there is no such module"),
    };
    module.map_err(|cause| format!("cannot use module '{name}': {cause}; modules are {}", list()))
}

/// A module that takes options after its path. `None` if it is another one, or has no file.
fn with_options(name: &str, arguments: &str) -> Option<Result<RegisteredModule, String>> {
    Some(match name {
        "parquet" | "check" | "warc" if arguments == "-" => return None,
        "jsonl" | "csv" | "parquet" => page_table(name, arguments),
        "extract" => {
            let Spec { path, options } = Spec::split(arguments, Extract::is_name);
            Extract::new(&options).map(|extract| file_or_stdout(extract, path))
        }
        "edges" => Edges::parse(arguments).map(|(edges, path)| file_or_stdout(edges, path)),
        "check" => Check::parse(arguments),
        "warc" => Warc::output(arguments).map(RegisteredModule::Output),
        _ => return None,
    })
}

/// The output of this [format](BuiltinOutput::format) with this target.
pub(crate) fn output_of_format(format: &str, target: &Path) -> Option<OutputSpec> {
    let (name, options) =
        format.split_once(',').map_or((format, None), |(name, options)| (name, Some(options)));
    // The path is only a placeholder, since it need not be UTF-8.
    let spec = match options {
        Some(options) => format!("{name}=target,{options}"),
        None => format!("{name}=target"),
    };
    match parse(&spec) {
        Ok(RegisteredModule::Output(mut spec)) => {
            spec.output.use_recorded_options();
            let target = match spec.target {
                Target::File(_) => Target::File(target.to_owned()),
                Target::Directory(_) => Target::Directory(target.to_owned()),
            };
            Some(OutputSpec { target, ..spec })
        }
        _ => None,
    }
}

/// An output with a record per page, from `PATH[,fields=NAME,…]`.
fn page_table(name: &str, arguments: &str) -> Result<RegisteredModule, String> {
    let Spec { path, options } = Spec::split(arguments, |key| key == "fields");
    let fields = match options[..] {
        [] => Fields::default(),
        [(_, Some(names))] => Fields::parse(names)?,
        [(_, None)] => Fields::parse("")?,
        _ => return Err("fields are given twice".into()),
    };
    Ok(match name {
        "csv" => file_or_stdout(CsvTable::new(fields), path),
        "parquet" => parquet_table(fields, path)?,
        _ => file_or_stdout(Jsonl::new(fields), path),
    })
}

#[cfg(feature = "parquet")]
fn parquet_table(fields: Fields, path: &str) -> Result<RegisteredModule, String> {
    if path == "-" {
        return Err("it needs a file".into());
    }
    let (output, target) = (Box::new(ParquetTable::new(fields)), Target::File(path.into()));
    Ok(RegisteredModule::Output(OutputSpec { output, target }))
}

#[cfg(not(feature = "parquet"))]
fn parquet_table(_: Fields, _: &str) -> Result<RegisteredModule, String> {
    Err("this program was built without it; build it with the feature 'parquet'".into())
}

fn directory(output: impl BuiltinOutput + 'static, path: &str) -> RegisteredModule {
    RegisteredModule::Output(OutputSpec { output: Box::new(output), target: Target::Directory(path.into()) })
}

/// An output to a file, or to standard output if the path is `-`.
pub(crate) fn file_or_stdout(
    output: impl BuiltinOutput + 'static,
    path: impl AsRef<Path>,
) -> RegisteredModule {
    let path = path.as_ref();
    match path == Path::new("-") {
        true => RegisteredModule::Module(Box::new(StdoutOutput::new(output))),
        false => RegisteredModule::Output(OutputSpec {
            output: Box::new(output),
            target: Target::File(path.to_owned()),
        }),
    }
}

fn list() -> String {
    MODULES.iter().map(|(usage, _)| *usage).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_module_can_be_parsed() {
        for (usage, _) in MODULES {
            let spec = usage
                .replace("[=N]", "=7")
                .replace("COMMAND", "cat > 'a=b'")
                .replace("[,fields=NAME,...]", "")
                .replace("[,columns=NAME,...][,distinct][,redirects]", "")
                .replace("[,format=NAME][,accept=CODES][,fragments][,redirects]", "")
                .replace("[,no-requisites]", "")
                .replace("NAME=SELECTOR,...", "title=h1");
            let module = parse(&spec).unwrap();
            assert!(usage.starts_with(module.name()), "{module:?}");
        }
    }

    #[test]
    fn files_are_outputs_and_a_dash_is_standard_output() {
        let RegisteredModule::Output(spec) = parse("jsonl=a=b.jsonl").unwrap() else {
            panic!("a file is an output")
        };
        assert_eq!(spec.target, Target::File("a=b.jsonl".into()));
        let RegisteredModule::Output(spec) = parse("csv=a,b.csv,fields=url,title").unwrap() else {
            panic!("a file is an output")
        };
        assert_eq!(spec.target, Target::File("a,b.csv".into()));
        let RegisteredModule::Output(spec) = parse("pages=dir").unwrap() else {
            panic!("a directory is an output")
        };
        assert_eq!(spec.target, Target::Directory("dir".into()));
        for spec in
            ["jsonl=-", "csv=-", "edges=-", "jsonl=-,fields=url", "csv=-,fields=url,title", "extract=-,t=h1"]
        {
            assert!(matches!(parse(spec).unwrap(), RegisteredModule::Module(_)), "{spec}");
        }
    }

    #[test]
    fn error_names_the_module_the_cause_and_all_modules() {
        for (spec, error) in [
            ("", "cannot use module '': there is no such module"),
            ("json=x", "cannot use module 'json': there is no such module"),
            ("noop=x", "cannot use module 'noop': it takes no arguments"),
            ("pages", "cannot use module 'pages': it needs a directory"),
            ("pages=-", "cannot use module 'pages': it needs a directory"),
            ("markdown=-", "cannot use module 'markdown': it needs a directory"),
            ("extract", "cannot use module 'extract': it needs a file, or '-' for standard output"),
            ("mirror=", "cannot use module 'mirror': it needs a directory"),
            ("mirror=../..", "cannot use module 'mirror': it needs a directory with a name"),
            ("jsonl=", "cannot use module 'jsonl': it needs a file, or '-' for standard output"),
            ("csv", "cannot use module 'csv': it needs a file, or '-' for standard output"),
            ("edges", "cannot use module 'edges': it needs a file, or '-' for standard output"),
            ("parquet=-", "cannot use module 'parquet': it needs a file"),
            ("graphml", "cannot use module 'graphml': it needs a file"),
            ("check=-", "cannot use module 'check': it needs a file"),
            ("warc", "cannot use module 'warc': it needs a file"),
            ("warc=-", "cannot use module 'warc': it needs a file"),
            ("words=0", "cannot use module 'words': it takes a number of words from 1 to 1000"),
            ("words=many", "cannot use module 'words': it takes a number of words from 1 to 1000"),
            ("exec=", "cannot use module 'exec': it needs a command"),
        ] {
            assert_eq!(parse(spec).unwrap_err(), format!("{error}; modules are {}", list()));
        }
        let error = parse("csv=x,fields=url,colour").unwrap_err();
        assert!(
            error.starts_with("cannot use module 'csv': there is no field 'colour'; fields are url, "),
            "{error}"
        );
        let error = parse("extract=x,title=h1[").unwrap_err();
        assert!(
            error.starts_with("cannot use module 'extract': field 'title': 'h1[' is not a CSS selector: "),
            "{error}"
        );
        assert_eq!(parse("check=-,format=json").unwrap_err(), "cannot use module 'check': it needs a file");
        for (spec, option, usage) in [
            ("jsonl=f.jsonl,foo=1", "foo", "jsonl=FILE[,fields=NAME,...]"),
            ("jsonl=/a,b/f,feilds=url,title", "feilds", "jsonl=FILE[,fields=NAME,...]"),
            ("jsonl=f.jsonl,url,fields=url", "url", "jsonl=FILE[,fields=NAME,...]"),
            ("urls=u.csv,foo", "foo", "urls=FILE"),
            ("graphml=g.graphml,distinct", "distinct", "graphml=FILE"),
            ("mirror=dir,all", "all", "mirror=DIR"),
            ("warc=a.warc.gz,size=1", "size", "warc=FILE[,no-requisites]"),
            ("pages=dir,n=1.5", "n", "pages=DIR"),
        ] {
            let error = format!(
                "it has no option '{option}'; use {usage}, or a name without a comma before '{option}'"
            );
            let name = spec.split('=').next().unwrap();
            assert_eq!(parse(spec).unwrap_err(), format!("cannot use module '{name}': {error}"));
        }
        let error = parse("jsonl=x,fields=url,fields=title").unwrap_err();
        assert_eq!(error, "cannot use module 'jsonl': fields are given twice");
    }
}
