//! An output on standard output. What was printed cannot be taken back, so a page may be there twice after a crash.

use std::io::{self, ErrorKind, Write};
use std::sync::{Mutex, PoisonError};

use super::{Module, Output, OutputWrite};
use crate::page::Page;

/// In the summary of a module whose standard output was closed by its reader (`| head`).
pub const STDOUT_CLOSED: &str = "the reader closed standard output";

/// A module that prints what an output would add to its file, whole pages at a time.
pub struct StdoutOutput<O, W = io::Stdout> {
    output: O,
    stream: Mutex<StdoutState<W>>,
}

struct StdoutState<W> {
    writer: W,
    /// The head of the output has been printed.
    begun: bool,
    /// How many pages nobody could read any more.
    unread: u64,
}

impl<O: Output> StdoutOutput<O> {
    /// Prints to the standard output of the process.
    pub fn new(output: O) -> StdoutOutput<O> {
        StdoutOutput::to(output, io::stdout())
    }
}

impl<O: Output, W: Write + Send> StdoutOutput<O, W> {
    fn to(output: O, writer: W) -> StdoutOutput<O, W> {
        StdoutOutput { output, stream: Mutex::new(StdoutState { writer, begun: false, unread: 0 }) }
    }
}

impl<O: Output, W: Write + Send> Module for StdoutOutput<O, W> {
    fn name(&self) -> &str {
        self.output.name()
    }

    fn process_page(&self, page: &Page) -> Result<(), String> {
        let (OutputWrite::Append(bytes) | OutputWrite::File(bytes)) = self.output.render(page);
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if stream.unread > 0 {
            // Its reader has gone, which has been said once and is not going to change.
            stream.unread += 1;
            return Ok(());
        }
        let printed = stream.print(self.output.header(), &bytes);
        if printed.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
            stream.unread = 1;
            return Err(
                "nobody reads standard output any more; this and all further pages are not printed".into()
            );
        }
        printed.map_err(|error| format!("cannot write to standard output: {error}"))
    }

    fn summary(&self) -> Option<String> {
        let unread = self.stream.lock().unwrap_or_else(PoisonError::into_inner).unread;
        (unread > 0).then(|| format!("{unread} pages were not printed: {STDOUT_CLOSED}"))
    }
}

impl<W: Write> StdoutState<W> {
    fn print(&mut self, head: &[u8], bytes: &[u8]) -> io::Result<()> {
        if !self.begun {
            self.writer.write_all(head)?;
            self.begun = true;
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
    fn pages_of_many_threads_are_printed_whole_under_one_head() {
        let (mut reader, writer) = io::pipe().unwrap();
        let printed = StdoutOutput::to(Edges, writer);
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
    fn a_reader_that_has_gone_is_reported_once_and_what_it_missed_is_counted() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let printed = StdoutOutput::to(Edges, writer);
        let page = example::page("http://a.test/", b"", &["http://b.test/"]);
        assert!(printed.process_page(&page).unwrap_err().contains("nobody reads"));
        printed.process_page(&page).unwrap();
        printed.process_page(&page).unwrap();
        assert!(printed.summary().unwrap().starts_with("3 pages were not printed"));
    }
}
