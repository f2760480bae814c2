//! Sorts any number of lines by their bytes, as `LC_ALL=C sort -u` does, in bounded memory.
//!
//! Lines are sorted in memory, and written to a file without a name when there are many. Each sorted *run* is a range of that
//! file. At the end, the runs are merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use memchr::memchr;

/// The bytes of lines that are sorted in memory.
const RUN_BYTES: usize = 32 << 20;

/// What a line takes in memory in addition to its bytes.
const LINE_OVERHEAD: usize = 40;

/// The memory for the buffers of all runs.
const MERGE_BYTES: usize = 16 << 20;

/// The smallest and the largest buffer of a run.
const BUFFER_BYTES: (usize, usize) = (4 << 10, 256 << 10);

/// Collects lines and sorts them.
pub struct SortedLines {
    lines: Vec<Vec<u8>>,
    bytes: usize,
    run_bytes: usize,
    /// Where the file of runs is created.
    directory: PathBuf,
    runs: Option<RunFile>,
}

struct RunFile {
    file: File,
    length: u64,
    /// Where each run ends.
    ends: Vec<u64>,
}

impl SortedLines {
    /// Sorts lines. A directory gets the file of those that do not fit into memory.
    pub fn new(directory: &Path) -> SortedLines {
        SortedLines {
            lines: Vec::new(),
            bytes: 0,
            run_bytes: RUN_BYTES,
            directory: directory.to_owned(),
            runs: None,
        }
    }

    /// Adds a line, with its end.
    pub fn push(&mut self, line: Vec<u8>) -> io::Result<()> {
        self.bytes += line.len() + LINE_OVERHEAD;
        self.lines.push(line);
        if self.bytes >= self.run_bytes { self.write_run() } else { Ok(()) }
    }

    fn write_run(&mut self) -> io::Result<()> {
        self.lines.sort_unstable();
        let runs = match &mut self.runs {
            Some(runs) => runs,
            none => {
                none.insert(RunFile { file: unnamed_file(&self.directory)?, length: 0, ends: Vec::new() })
            }
        };
        let mut writer = BufWriter::new(&runs.file);
        for line in &self.lines {
            writer.write_all(line)?;
            runs.length += line.len() as u64;
        }
        writer.flush()?;
        runs.ends.push(runs.length);
        (self.lines, self.bytes) = (Vec::new(), 0);
        Ok(())
    }

    /// Calls the function with each line, in order. Equal lines come once.
    pub fn finish(mut self, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        if self.runs.is_some() && !self.lines.is_empty() {
            self.write_run()?;
        }
        let Some(runs) = self.runs else {
            self.lines.sort_unstable();
            self.lines.dedup();
            return self.lines.iter().try_for_each(|line| each(line));
        };
        let buffer_bytes = (MERGE_BYTES / runs.ends.len()).clamp(BUFFER_BYTES.0, BUFFER_BYTES.1);
        let starts = std::iter::once(0).chain(runs.ends.iter().copied());
        let mut readers: Vec<RunReader> = starts
            .zip(&runs.ends)
            .map(|(start, end)| RunReader::new(&runs.file, start, *end, buffer_bytes))
            .collect();
        let mut heap = BinaryHeap::new();
        for (index, reader) in readers.iter_mut().enumerate() {
            heap.extend(reader.next()?.map(|line| Reverse((line, index))));
        }
        let mut last = Vec::new();
        while let Some(Reverse((line, index))) = heap.pop() {
            heap.extend(readers[index].next()?.map(|line| Reverse((line, index))));
            if line != last {
                each(&line)?;
                last = line;
            }
        }
        Ok(())
    }
}

/// Reads the lines of a run.
struct RunReader<'f> {
    file: &'f File,
    position: u64,
    end: u64,
    buffer: Vec<u8>,
    /// Where the unread bytes start in the buffer.
    start: usize,
    step: usize,
}

impl<'f> RunReader<'f> {
    fn new(file: &'f File, position: u64, end: u64, step: usize) -> RunReader<'f> {
        RunReader { file, position, end, buffer: Vec::new(), start: 0, step }
    }

    /// The next line, with its end.
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let unread = &self.buffer[self.start..];
            if let Some(end) = memchr(b'\n', unread) {
                let line = unread[..=end].to_vec();
                self.start += end + 1;
                return Ok(Some(line));
            }
            let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
            if left == 0 {
                let rest = self.buffer.split_off(self.start);
                self.buffer.truncate(0);
                self.start = 0;
                return Ok(Some(rest).filter(|rest| !rest.is_empty()));
            }
            self.buffer.drain(..self.start);
            self.start = 0;
            let (filled, wanted) = (self.buffer.len(), self.step.min(left));
            self.buffer.resize(filled + wanted, 0);
            self.file.read_exact_at(&mut self.buffer[filled..], self.position)?;
            self.position += wanted as u64;
        }
    }
}

/// A file that has no name any more, so that nothing of it stays when the process ends.
pub(crate) fn unnamed_file(directory: &Path) -> io::Result<File> {
    let name = |number: u32| directory.join(format!(".crawler-{}-{number}.tmp", std::process::id()));
    let mut number = 0;
    loop {
        let path = name(number);
        let created = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path);
        match created {
            Ok(file) => {
                fs::remove_file(path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 100 => number += 1,
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sorted_by_bytes_in_any_number_of_runs() {
        let directory = tempfile::tempdir().unwrap();
        let mut expected: Vec<Vec<u8>> = Vec::new();
        for number in 0..5_000_u32 {
            let hash = number.wrapping_mul(2_654_435_761) % 4_000;
            let width = (hash % 300) as usize;
            expected.push(format!("{hash:width$}\u{e9} {hash}\n").into_bytes());
        }
        expected.push(b"\n".to_vec());
        for run_bytes in [usize::MAX, 100_000, 5_000, 1] {
            let mut sorted = SortedLines::new(directory.path());
            sorted.run_bytes = run_bytes;
            for line in &expected {
                sorted.push(line.clone()).unwrap();
            }
            let mut found = Vec::new();
            sorted
                .finish(|line| {
                    found.push(line.to_vec());
                    Ok(())
                })
                .unwrap();
            let mut expected = expected.clone();
            expected.sort();
            expected.dedup();
            assert!(found == expected, "runs of {run_bytes} bytes");
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        }
        let empty = SortedLines::new(Path::new("/nowhere"));
        empty.finish(|_| panic!("there is no line")).unwrap();
    }
}
