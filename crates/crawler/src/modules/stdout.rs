//! Prints an output to standard output. A page may be printed twice after a crash and a resume.

use std::io::{self, ErrorKind, Write};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{BuiltinModule, BuiltinOutput, OutputWrite};
use crate::format::counted;
use crate::html::parts::PageParts;
use crate::page::Page;
use crate::url_record::UrlRecord;

/// The cause in the summary of an output whose reader has closed standard output.
pub const STDOUT_CLOSED: &str = "the reader closed standard output";

/// Whether the reader of standard output has closed it.
pub fn is_stdout_closed() -> bool {
    poll_stdout(Some(&Timespec::default()))
}

/// Waits until the reader of standard output closes it, possibly forever. A file or a terminal has no reader that does.
pub fn wait_until_stdout_closed() {
    while !poll_stdout(None) {}
}

fn poll_stdout(timeout: Option<&Timespec>) -> bool {
    let stdout = io::stdout();
    let mut stream = [PollFd::new(&stdout, PollFlags::empty())];
    // An interrupted wait finds nothing.
    let _ = poll(&mut stream, timeout);
    stream[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// A module that prints the pages of an output. Pages of concurrent threads are not mixed.
pub struct StdoutOutput<O, W = io::Stdout> {
    output: O,
    stream: Mutex<StdoutState<W>>,
}

struct StdoutState<W> {
    writer: W,
    /// Whether the header has been printed.
    started: bool,
    /// How many pages or URLs were not printed because the reader has closed standard output.
    dropped: u64,
    /// Why a page could not be printed otherwise. None is printed after it.
    failure: Option<String>,
}

impl<O: BuiltinOutput> StdoutOutput<O> {
    /// Prints to the standard output of the process.
    pub fn new(output: O) -> StdoutOutput<O> {
        StdoutOutput::to(output, io::stdout())
    }
}

impl<O: BuiltinOutput, W: Write + Send> StdoutOutput<O, W> {
    fn to(output: O, writer: W) -> StdoutOutput<O, W> {
        StdoutOutput {
            output,
            stream: Mutex::new(StdoutState { writer, started: false, dropped: 0, failure: None }),
        }
    }
}

impl<O: BuiltinOutput, W: Write + Send> BuiltinModule for StdoutOutput<O, W> {
    fn name(&self) -> &str {
        self.output.name()
    }

    fn wants(&self) -> PageParts {
        self.output.wants()
    }

    fn process_page(&self, page: &Page) -> Result<(), String> {
        let (OutputWrite::Append(bytes) | OutputWrite::File(bytes)) = self.output.render(page);
        if self.output.wants_urls() && bytes.is_empty() { Ok(()) } else { self.print(&bytes) }
    }

    fn wants_found_on(&self) -> bool {
        self.output.wants_found_on()
    }

    fn wants_urls(&self) -> bool {
        self.output.wants_urls()
    }

    fn process_url(&self, record: &UrlRecord) -> Result<(), String> {
        self.print(&self.output.render_url(record))
    }

    fn failure(&self) -> Option<String> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).failure.clone()
    }

    fn wants_pages(&self) -> bool {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).dropped == 0
    }

    fn summary(&self) -> Option<String> {
        let dropped = self.stream.lock().unwrap_or_else(PoisonError::into_inner).dropped;
        let were = if dropped == 1 { "was" } else { "were" };
        let dropped = (dropped > 0).then(|| counted(dropped, self.noun()))?;
        Some(format!("{dropped} {were} not printed: {STDOUT_CLOSED}"))
    }
}

impl<O: BuiltinOutput, W: Write + Send> StdoutOutput<O, W> {
    /// What the output has lines for.
    fn noun(&self) -> &'static str {
        if self.output.wants_urls() { "URL" } else { "page" }
    }

    /// Prints what a page or another URL adds to the output.
    fn print(&self, bytes: &[u8]) -> Result<(), String> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if stream.dropped > 0 {
            // The closed pipe was reported with the first page.
            stream.dropped += 1;
            return Ok(());
        }
        let printed = stream.print(self.output.header(), bytes);
        if printed.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
            stream.dropped = 1;
            return Err(format!(
                "cannot write to standard output: its reader has closed it; no further {}s are printed",
                self.noun()
            ));
        }
        printed.map_err(|error| {
            let cause = format!("cannot write to standard output: {error}");
            stream.failure = Some(cause.clone());
            cause
        })
    }
}

impl<W: Write> StdoutState<W> {
    fn print(&mut self, header: &[u8], bytes: &[u8]) -> io::Result<()> {
        if !self.started {
            self.writer.write_all(header)?;
            self.started = true;
        }
        self.writer.write_all(bytes)?;
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::edges::Edges;
    use crate::modules::example;
    use std::io::Read;

    #[test]
    fn pages_of_concurrent_threads_are_not_mixed_and_follow_one_header() {
        let (mut reader, writer) = io::pipe().unwrap();
        let printed = StdoutOutput::to(Edges::default(), writer);
        let links = vec!["http://b.test/"; 1000];
        let read = std::thread::scope(|threads| {
            let read = threads.spawn(move || {
                let mut read = String::new();
                reader.read_to_string(&mut read).unwrap();
                read
            });
            std::thread::scope(|writers| {
                for number in 0..4 {
                    let page = example::page(&format!("http://a.test/{number}"), b"", &links);
                    let printed = &printed;
                    writers.spawn(move || printed.process_page(&page).unwrap());
                }
            });
            drop(printed);
            read.join().unwrap()
        });
        let lines: Vec<&str> = read.lines().collect();
        assert_eq!((lines[0], lines.len()), ("from,to", 4001));
        for page in lines[1..].chunks(1000) {
            assert!(page.iter().all(|line| *line == page[0]), "pages are not mixed");
        }
    }

    #[test]
    fn closed_pipe_is_reported_once_and_dropped_pages_are_counted() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let printed = StdoutOutput::to(Edges::default(), writer);
        let page = example::page("http://a.test/", b"", &["http://b.test/"]);
        assert!(printed.wants_pages());
        assert!(printed.process_page(&page).unwrap_err().contains("its reader has closed it"));
        assert!(!printed.wants_pages());
        printed.process_page(&page).unwrap();
        printed.process_page(&page).unwrap();
        assert!(printed.summary().unwrap().starts_with("3 pages were not printed"));
    }
}
