//! What a command writes, and the rule that no two of its options write to the same place.
//!
//! An option that writes a file needs one line in [`CrawlOptions::written`] or [`ClassicJob::written`].

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crawler::internal::backend::durable::STATE_FILES;
use crawler::internal::modules::Target;
use crawler::internal::modules::output::OutputSpec;
use crawler::internal::modules::output::files::{check_distinct as check_outputs, identity};
use crawler::internal::modules::registry::{self, RegisteredModule};
use crawler::internal::modules::warc::made_files::{index_path, wacz_path};

use super::outputs::{is_program, writes_to_stdout};
use super::{ClassicJob, CollectJob, CollectOutput, Command, CrawlOptions, LogArgs, ProgressForm, ReplayJob};
use crate::commands::crawl::options_on_resume;
use crate::commands::crawl::summary_file::{is_stderr, is_stdout};

/// A file, a directory or a stream to which an option writes.
pub struct Written {
    /// The option, as it is named in messages.
    option: String,
    place: Place,
}

enum Place {
    Stdout,
    Stderr,
    /// A device, such as /dev/null, to which any number of options may write.
    Device,
    File(Location),
    /// A directory with files named 1, 2, 3 …, each with this end.
    Numbered(Location, String),
    /// A directory that is made as a whole when the crawl ends.
    Tree(Location),
    /// The directory of `--state`.
    State(Location),
}

struct Location {
    given: PathBuf,
    /// Without symbolic links.
    real: PathBuf,
}

impl Location {
    fn new(path: &Path) -> Location {
        Location { given: path.to_owned(), real: identity(path) }
    }
}

impl Written {
    /// The file that was given to an option; `-` is standard output.
    pub fn file(option: &str, path: &Path) -> Written {
        let is_device = || fs::metadata(path).is_ok_and(|found| found.file_type().is_char_device());
        match () {
            () if is_stdout(path) => Written::stdout(format!("{option} {}", path.display())),
            () if is_stderr(path) => Written::stderr(format!("{option} {}", path.display())),
            () if is_device() => Written { option: option.into(), place: Place::Device },
            () => Written { option: option.into(), place: Place::File(Location::new(path)) },
        }
    }

    pub fn stdout(option: impl Into<String>) -> Written {
        Written { option: option.into(), place: Place::Stdout }
    }

    pub fn stderr(option: impl Into<String>) -> Written {
        Written { option: option.into(), place: Place::Stderr }
    }

    fn numbered(option: &str, path: &Path, end: &str) -> Written {
        Written { option: option.into(), place: Place::Numbered(Location::new(path), end.into()) }
    }

    /// What an output writes while the crawl runs, and what it makes of that at the end.
    fn output(module: &str, spec: &OutputSpec) -> Vec<Written> {
        let option = format!("--module {module}");
        let Target::Directory(path) = &spec.target else {
            let (Target::File(made), Target::File(records)) = (&spec.target, spec.written()) else {
                return Vec::new();
            };
            let records = (records != *made).then(|| Written::file(&option, &records));
            let others = spec.output.made_files(made);
            let others = others.iter().map(|path| Written::file(&option, path));
            return [Written::file(&option, made)].into_iter().chain(records).chain(others).collect();
        };
        match spec.written() {
            Target::File(records) => {
                let tree = Written { option: option.clone(), place: Place::Tree(Location::new(path)) };
                vec![tree, Written::file(&option, &records)]
            }
            _ => {
                vec![Written::numbered(&option, path, spec.output.extension())]
            }
        }
    }

    fn location(&self) -> Option<&Location> {
        match &self.place {
            Place::Stdout | Place::Stderr | Place::Device => None,
            Place::File(location)
            | Place::Numbered(location, _)
            | Place::Tree(location)
            | Place::State(location) => Some(location),
        }
    }

    /// The option and its path, for messages.
    fn name(&self, Location { given, .. }: &Location) -> String {
        let path = given.display().to_string();
        if self.option.contains(&path) { self.option.clone() } else { format!("{} '{path}'", self.option) }
    }
}

/// Where these are written, as it was given.
fn paths(written: &[Written]) -> Vec<PathBuf> {
    written.iter().filter_map(|written| Some(written.location()?.given.clone())).collect()
}

/// Rejects two that write to the same place.
fn check_distinct(written: &[Written]) -> Result<(), String> {
    for (index, second) in written.iter().enumerate() {
        if let Some(message) = written[..index].iter().find_map(|first| conflict(first, second)) {
            return Err(message);
        }
    }
    Ok(())
}

/// Why two cannot both be written.
fn conflict(first: &Written, second: &Written) -> Option<String> {
    let both = format!("{} and {}", first.option, second.option);
    match (&first.place, &second.place) {
        (Place::Stdout, Place::Stdout) => {
            Some(format!("{both} both write to standard output; give one of them a file"))
        }
        (Place::Stderr, Place::Stderr) => {
            Some(format!("{both} both write to standard error; give one of them a file"))
        }
        (Place::File(one), Place::File(two)) if is_same(&one.real, &two.real) => {
            Some(format!("{both} write the same file; give different files"))
        }
        _ => inside(first, second).or_else(|| inside(second, first)),
    }
}

/// Whether two paths are the same file, also under two names.
fn is_same(one: &Path, two: &Path) -> bool {
    let id = |path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    one == two || id(one).is_some_and(|one| Some(one) == id(two))
}

/// Why one cannot be written, because it is in the file or directory of the other.
fn inside(inner: &Written, outer: &Written) -> Option<String> {
    let (location, directory) = (inner.location()?, outer.location()?);
    let below = location.real.strip_prefix(&directory.real).ok()?;
    let name = below.to_str().unwrap_or_default();
    let is_file = matches!(inner.place, Place::File(_));
    let why = match &outer.place {
        // A directory cannot be written as a file, which is reported for any directory.
        Place::File(file) if name.is_empty() || file.real.is_dir() => return None,
        Place::File(file) => format!("'{}' is the file of {}", file.given.display(), outer.option),
        _ if name.is_empty() && is_file => format!("it is the directory of {}", outer.option),
        Place::Numbered(_, end) if is_number(name.strip_suffix(end.as_str())?) => {
            "pages have names of this form there".into()
        }
        Place::Tree(_) if !name.is_empty() => format!("{} makes that directory", outer.option),
        Place::State(_) if STATE_FILES.contains(&name) => "the state has a file of that name".into(),
        _ => return None,
    };
    Some(format!("cannot write {}: {why}; give another name or directory", inner.name(location)))
}

fn is_number(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

impl CrawlOptions {
    /// What the crawl writes, except for the log.
    fn written(&self) -> Vec<Written> {
        let mut written = Vec::new();
        written.extend(self.summary.as_deref().map(|path| Written::file("--summary", path)));
        written.extend(self.report.as_deref().map(|path| Written::file("--report", path)));
        let report = self.check.iter().filter(|check| check.is_printed);
        written.extend(report.map(|_| Written::stdout("the report (without --output)")));
        written.extend(of_modules(&self.module));
        written.extend(self.archive().filter(|_| self.fetch.wacz).map(wacz));
        let state = self.state.as_deref().map(Location::new);
        written.extend(state.map(|state| Written { option: "--state".into(), place: Place::State(state) }));
        written.extend(self.fetch.login.save_cookies().map(|path| Written::file("--save-cookies", path)));
        if self.progress == ProgressForm::Json {
            written.push(Written::stderr("--progress json"));
        }
        written
    }

    /// The files and directories that the crawl writes, except for the log. The largest first.
    pub fn written_paths(&self) -> Vec<PathBuf> {
        let mut written = self.written();
        written.sort_by_key(|written| written.option != "--state" && !written.option.starts_with("--module"));
        paths(&written)
    }

    /// Checks that no two outputs use the same file, or standard output.
    pub(super) fn check_outputs(&self) -> Result<(), String> {
        check_modules(&self.module, &self.written())
    }

    /// Checks that nothing else is written to the log.
    pub fn check_log(&self, log: &LogArgs) -> Result<(), String> {
        log.check_distinct(&self.written().into_iter().chain(programs(&self.module)).collect::<Vec<_>>())
    }
}

impl ReplayJob {
    /// Checks that nothing else is written to the log.
    fn check_log(&self, log: &LogArgs) -> Result<(), String> {
        log.check_distinct(&of_modules(&self.modules).chain(programs(&self.modules)).collect::<Vec<_>>())
    }
}

/// What modules and outputs write.
pub(super) fn of_modules(modules: &[String]) -> impl Iterator<Item = Written> {
    modules.iter().flat_map(|module| match registry::parse(module) {
        _ if writes_to_stdout(module) => vec![Written::stdout(format!("--module {module}"))],
        Ok(RegisteredModule::Output(spec)) => Written::output(module, &spec),
        _ => Vec::new(),
    })
}

/// The WACZ file of an archive.
fn wacz(archive: &Path) -> Written {
    Written::file("--wacz", &wacz_path(archive))
}

/// Programs, which may print to standard output.
fn programs(modules: &[String]) -> impl Iterator<Item = Written> {
    let programs = modules.iter().filter(|module| is_program(module));
    programs.map(|module| Written::stdout(format!("--module {module}")))
}

/// Checks that no two of a command's modules, and nothing else that it writes, use the same file, or standard output.
pub(super) fn check_modules(modules: &[String], written: &[Written]) -> Result<(), String> {
    let outputs = modules.iter().filter_map(|module| match registry::parse(module) {
        Ok(RegisteredModule::Output(spec)) => Some(spec),
        _ => None,
    });
    check_outputs(&outputs.collect::<Vec<_>>()).map_err(|error| error.to_string())?;
    check_distinct(written)
}

impl ClassicJob {
    /// What the crawl writes, except for the log.
    fn written(&self) -> Vec<Written> {
        let mut written = vec![Written::numbered("the pages", &self.directory, "")];
        let files = [
            ("--urls", &self.urls),
            ("--warc", &self.warc),
            ("--summary", &self.summary),
            ("--report", &self.report),
            ("--save-cookies", &self.save_cookies),
        ];
        let files =
            files.into_iter().filter_map(|(option, path)| Some(Written::file(option, path.as_deref()?)));
        written.extend(files);
        if let Some(archive) = &self.warc {
            written.push(Written::file("--warc", &index_path(archive)));
            written.extend(self.makes_wacz.then(|| wacz(archive)));
        }
        written
    }

    /// The files and directories that the crawl writes, except for the log.
    pub fn written_paths(&self) -> Vec<PathBuf> {
        paths(&self.written())
    }

    /// Checks that no two outputs use the same file.
    pub(super) fn check_outputs(&self) -> Result<(), String> {
        check_distinct(&self.written())
    }
}

impl LogArgs {
    /// Rejects a log that one of these is written to.
    fn check_distinct(&self, others: &[Written]) -> Result<(), String> {
        let Some(log) = self.written() else { return Ok(()) };
        others.iter().find_map(|other| conflict(&log, other)).map_or(Ok(()), Err)
    }

    fn written(&self) -> Option<Written> {
        let path = self.log.as_deref()?;
        Some(match self.is_on_stderr() {
            true => Written::stderr(format!("--log {}", path.display())),
            false => Written::file("--log", path),
        })
    }
}

impl CollectJob {
    /// What is read and written, except for the log.
    fn written(&self) -> Vec<Written> {
        let mut written: Vec<Written> =
            self.parts.iter().map(|part| Written::file("a part file", part)).collect();
        written.push(match &self.output {
            CollectOutput::Stdout => Written::stdout("--output -"),
            CollectOutput::Path(path) => Written::file("--output", path),
        });
        written
    }
}

impl Command {
    /// Checks that nothing else is written to the log.
    pub(super) fn check_log(&self, log: &LogArgs) -> Result<(), String> {
        match self {
            Command::Crawl(job) => job.options.check_log(log),
            Command::ClassicCrawl(job) => log.check_distinct(&job.written()),
            Command::Collect(job) => log.check_distinct(&job.written()),
            Command::Replay(job) => job.check_log(log),
            Command::Resume(resume) if log.file().is_some() => {
                match options_on_resume(resume.as_ref().clone()) {
                    Ok((options, _)) => options.check_log(log),
                    // The error is reported when the crawl is resumed.
                    Err(_) => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}
