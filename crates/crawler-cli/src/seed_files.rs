//! Reads seed lists: one URL per line, from files or standard input. Lines that are not URLs are reported and skipped.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use crawler::Error;
use url::Url;

use crate::format::{counted, number};
use crate::printable::{print_error, printable};
use crate::values;

/// The name of standard input.
pub const STDIN: &str = "-";

/// How many bad lines of a list are named.
const MAX_NAMED: u64 = 20;

/// The longest line. No URL is as long; of a longer line, only the start is kept in memory.
const MAX_LINE_BYTES: u64 = 16 * 1024;

/// The seeds in files. They are opened one after the other when they are read.
pub struct SeedFiles {
    names: std::vec::IntoIter<String>,
    current: Option<SeedFile>,
    is_quiet: bool,
    /// Whether the lists belong to an earlier process, so that standard input is not what that one had.
    is_resumed: bool,
    good: u64,
}

struct SeedFile {
    name: String,
    lines: Box<dyn BufRead + Send>,
    line_number: u64,
    bad: u64,
    /// The lines without a scheme, and the first of them.
    completed: u64,
    first_completed: String,
}

impl SeedFiles {
    /// The seeds in files of these names. Unless it is quiet, says on standard error what it skips and completes.
    pub fn new(names: Vec<String>, is_quiet: bool, is_resumed: bool) -> SeedFiles {
        SeedFiles { names: names.into_iter(), current: None, is_quiet, is_resumed, good: 0 }
    }
}

impl Iterator for SeedFiles {
    type Item = Result<Url, Error>;

    fn next(&mut self) -> Option<Result<Url, Error>> {
        loop {
            let Some(file) = &mut self.current else {
                let name = self.names.next()?;
                if name == STDIN && self.is_resumed {
                    let message = "cannot resume the crawl: it was stopped while it read its seeds from standard input; run the \
                                   full command again, with the list";
                    return Some(Err(Error::InvalidSetting(message.into())));
                }
                match SeedFile::open(name) {
                    Ok(file) => self.current = Some(file),
                    Err(error) => return Some(Err(error)),
                }
                continue;
            };
            match file.next_url(self.is_quiet) {
                Ok(Some(url)) => {
                    self.good += 1;
                    return Some(Ok(url));
                }
                Ok(None) => {
                    if !self.is_quiet {
                        file.report();
                    }
                    self.current = None;
                    if self.names.len() == 0 && self.good == 0 {
                        let message = "cannot start the crawl: no line of the seed list is a URL; give one URL per line";
                        return Some(Err(Error::InvalidSetting(message.into())));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl SeedFile {
    fn open(name: String) -> Result<SeedFile, Error> {
        let lines: Box<dyn BufRead + Send> = match name.as_str() {
            STDIN => Box::new(BufReader::new(io::stdin())),
            path => match File::open(path) {
                Ok(file) => Box::new(BufReader::with_capacity(1 << 16, file)),
                Err(error) => return Err(unreadable(&name, &error)),
            },
        };
        let name = if name == STDIN { "standard input".into() } else { name };
        Ok(SeedFile { name, lines, line_number: 0, bad: 0, completed: 0, first_completed: String::new() })
    }

    /// The next URL; `None` at the end.
    fn next_url(&mut self, is_quiet: bool) -> Result<Option<Url>, Error> {
        let mut line = Vec::new();
        while let Some(is_complete) = self.read_line(&mut line)? {
            self.line_number += 1;
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_start_matches('\u{feff}').trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let seed = match is_complete {
                true => self.seed(text),
                false => Err(format!("the line is longer than {MAX_LINE_BYTES} bytes")),
            };
            match seed {
                Ok(url) => return Ok(Some(url)),
                Err(reason) => {
                    self.bad += 1;
                    if self.bad <= MAX_NAMED && !is_quiet {
                        print_error(&format!("{}:{}: {reason}; skipped", self.name, self.line_number));
                    }
                }
            }
        }
        Ok(None)
    }

    fn seed(&mut self, text: &str) -> Result<Url, String> {
        let completed = values::completed_seed(text);
        let url = match &completed {
            Some(url) => values::seed(url.as_str()),
            None => values::seed(text),
        };
        let url = url.map_err(|error| error.of("the URL"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("a URL in a seed list must not contain a user name or password".into());
        }
        if let Some(completed) = completed {
            self.completed += 1;
            if self.completed == 1 {
                self.first_completed = format!("line {}: {text} is {completed}", self.line_number);
            }
        }
        Ok(url)
    }

    /// Reads a line, and skips what is too long of it. Returns whether it is complete; `None` at the end.
    fn read_line(&mut self, line: &mut Vec<u8>) -> Result<Option<bool>, Error> {
        line.clear();
        let read = (&mut self.lines).take(MAX_LINE_BYTES).read_until(b'\n', line);
        let is_complete = (line.len() as u64) < MAX_LINE_BYTES || line.ends_with(b"\n");
        let skipped = if is_complete { Ok(0) } else { self.lines.skip_until(b'\n') };
        let read =
            read.and_then(|read| skipped.map(|_| read)).map_err(|error| unreadable(&self.name, &error))?;
        Ok((read > 0).then_some(is_complete))
    }

    /// Says how many lines were skipped and completed.
    fn report(&self) {
        if self.bad > MAX_NAMED {
            let message =
                format!("{}: {} are not URLs and were skipped", self.name, counted(self.bad, "line"));
            print_error(&message);
        }
        if self.completed > 0 {
            let lines = if self.completed == 1 {
                "1 line has".into()
            } else {
                format!("{} lines have", number(self.completed))
            };
            let message =
                format!("{}: {lines} no scheme, which was added ({})", self.name, self.first_completed);
            print_error(&printable(&message));
        }
    }
}

fn unreadable(name: &str, error: &io::Error) -> Error {
    Error::InvalidSetting(format!(
        "cannot read the seed list '{name}': {error}; give a file with one URL per line"
    ))
}
