//! Removes the rows of URLs that are requested again from the outputs that have one row per URL.
//!
//! The state and the files change as one, whenever the process is killed: a copy without the rows is written next to the file,
//! the state records its length and that the URLs are to be queued again, and the copy is renamed. The next process renames it
//! if this one could not.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::Path;

use super::durable_outputs::WrittenOutputs;
use crate::backend::durable::StateOutputs;
use crate::error::{Error, StorageError, StorageErrorKind};
use crate::modules::output::new_file::{sibling, sync_parent};
use crate::modules::{BuiltinOutput, OutputSpec, Target};

/// The copy of `urls.csv` is `.urls.csv.retried`.
const COPY_END: &str = ".retried";

/// Replaces the files whose copies an earlier process had recorded, but not renamed.
pub(super) fn replace_files(state: &StateOutputs) -> Result<(), Error> {
    if !state.is_retrying()? {
        return Ok(());
    }
    state
        .outputs()?
        .iter()
        .filter(|output| !output.is_directory)
        .try_for_each(|output| replace_by_copy(&output.path))
}

/// Removes the rows of the URLs that failed and may succeed. The state queues them again when it is opened.
pub(super) fn remove(outputs: &[OutputSpec], state: &StateOutputs) -> Result<(), Error> {
    let files = outputs.iter().enumerate().filter_map(|(index, spec)| match &spec.target {
        Target::File(path) if spec.output.wants_urls() && spec.output.finisher().is_none() => {
            Some(RowFile { index, path, output: &*spec.output })
        }
        _ => None,
    });
    let files: Vec<RowFile> = files.collect();
    if files.is_empty() || state.is_retrying()? {
        return Ok(());
    }
    let failed = state.failed_urls()?;
    if failed.is_empty() {
        return Ok(());
    }
    let mut lengths = WrittenOutputs::new(state, &state.outputs()?)?.complete_all()?;
    for file in &files {
        lengths[file.index] =
            file.copy_without(lengths[file.index], |url| failed.contains(&state.url_id(url)))?;
    }
    state.start_retry(&lengths)?;
    files.iter().try_for_each(|file| replace_by_copy(file.path))
}

/// An output file with one row per URL.
struct RowFile<'o> {
    index: usize,
    path: &'o Path,
    output: &'o dyn BuiltinOutput,
}

impl RowFile<'_> {
    /// Copies the file without the rows of some tasks, and returns the length of the copy, which survives a power failure.
    fn copy_without(&self, length: u64, is_removed: impl Fn(&str) -> bool) -> Result<u64, Error> {
        let copy = || -> io::Result<u64> {
            let mut rows = BufReader::new(File::open(self.path)?).take(length);
            let mut copy = BufWriter::new(File::create(sibling(self.path, COPY_END))?);
            let (mut row, mut written) = (Vec::new(), 0);
            while rows.read_until(b'\n', &mut row)? > 0 {
                if !self.output.task_url_of_row(&row).is_some_and(|url| is_removed(&url)) {
                    copy.write_all(&row)?;
                    written += row.len() as u64;
                }
                row.clear();
            }
            copy.into_inner()?.sync_all()?;
            Ok(written)
        };
        copy().map_err(|error| not_removed(self.path, error))
    }
}

/// Replaces a file by its copy, if there is one.
fn replace_by_copy(path: &Path) -> Result<(), Error> {
    match fs::rename(sibling(path, COPY_END), path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(not_removed(path, error)),
        _ => {
            sync_parent(path);
            Ok(())
        }
    }
}

fn not_removed(path: &Path, error: io::Error) -> Error {
    let what = format!("cannot remove the rows of failed URLs from '{}'", path.display());
    let remedy = "fix that, then resume (nothing is lost)";
    Error::Output(StorageError::with_source(StorageErrorKind::Io, what, error, remedy))
}

#[cfg(test)]
mod tests {
    use testweb::{Response, Site, Web};

    use super::super::Crawler;
    use super::*;
    use crate::backend::durable::{self, ResumedScope, StateOptions};
    use crate::error::Error;

    fn crawler(web: &Web, directory: &Path) -> Crawler {
        let urls = format!("urls={}", directory.join("urls").display());
        let crawler = Crawler::new(&web.url("/")).unwrap().state_dir(directory.join("state"));
        let mut crawler = crawler.module_from_spec(&urls).unwrap().near_duplicates(None).unwrap();
        crawler.config.requests.allow_private = true;
        crawler.config.delay = std::time::Duration::ZERO;
        crawler
    }

    fn rows(directory: &Path) -> Vec<(String, String)> {
        let rows = fs::read_to_string(directory.join("urls")).unwrap();
        let text = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap().to_owned();
        let mut rows: Vec<(String, String)> = rows
            .lines()
            .map(|row| serde_json::from_str(row).unwrap())
            .map(|row| (text(&row, "url").rsplit_once('/').unwrap().1.to_owned(), text(&row, "outcome")))
            .collect();
        rows.sort();
        rows
    }

    fn expected(rows: &[(&str, &str)]) -> Vec<(String, String)> {
        rows.iter().map(|(path, outcome)| (path.to_string(), outcome.to_string())).collect()
    }

    /// Opens the outputs to retry failed URLs, as a process does that is killed in this step.
    fn killed_in(crawler: Crawler, directory: &Path, step: impl FnOnce(&[OutputSpec], &StateOutputs)) {
        let mut crawler = crawler.retry_failed(true);
        crawler.derive_settings();
        let options = StateOptions {
            recrawl: None,
            clock_interval: durable::CLOCK_INTERVAL,
            config: crawler.settings.clone(),
            delay: crawler.config.longest_delay(),
            recorded_settings: crawler.recorded_settings(),
            metadata: Vec::new(),
            retry_failed: true,
        };
        let scope = ResumedScope { scope: &crawler.scope, on_outcome: &|_, _| {} };
        let killed = durable::open_in_scope(&directory.join("state"), options, &scope, |state| {
            step(&crawler.outputs, state);
            Err::<(), Error>(Error::InvalidSetting("killed".into()))
        });
        assert!(killed.is_err());
    }

    #[test]
    fn retry_that_is_killed_at_any_step_leaves_one_row_per_url() {
        let busy =
            || Response::sequence(vec![Response::status(503), Response::status(503), Response::page("up")]);
        for step in 0..4 {
            let links = "<a href=/busy></a><a href=/gone></a>";
            let web = Web::builder()
                .site(Site::new().page("/", links).response("/busy", busy()).status("/gone", 404))
                .start();
            let directory = tempfile::tempdir().unwrap();
            crawler(&web, directory.path()).run_blocking().unwrap();
            let failed = expected(&[("", "page"), ("busy", "HTTP 503"), ("gone", "HTTP 404")]);
            assert_eq!(rows(directory.path()), failed);
            killed_in(crawler(&web, directory.path()), directory.path(), |outputs, state| {
                let Target::File(path) = &outputs[0].target else { panic!("a file") };
                let file = RowFile { index: 0, path, output: &*outputs[0].output };
                let length = fs::metadata(path).unwrap().len();
                let copied =
                    file.copy_without(length / (1 + u64::from(step == 0)), |url| url.ends_with("/busy"));
                if step > 1 {
                    state.start_retry(&[copied.unwrap()]).unwrap();
                }
                if step > 2 {
                    replace_by_copy(path).unwrap();
                }
            });
            // Once it is recorded, the retry continues, whether it is requested again or not.
            let resumed = crawler(&web, directory.path()).retry_failed(step < 2).run_blocking().unwrap();
            assert_eq!(resumed.retried, 1, "killed in step {step}");
            let retried = expected(&[("", "page"), ("busy", "page"), ("gone", "HTTP 404")]);
            assert_eq!(rows(directory.path()), retried, "killed in step {step}");
            assert_eq!(crawler(&web, directory.path()).run_blocking().unwrap().retried, 0);
            assert_eq!(rows(directory.path()), retried);
            assert!(!sibling(&directory.path().join("urls"), COPY_END).exists());
        }
    }
}
