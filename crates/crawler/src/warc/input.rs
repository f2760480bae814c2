//! The bytes of an archive, buffered, with their offsets. Some of what was read can be read again.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much is read at a time.
const READ_BYTES: usize = 256 * 1024;

/// How much is kept to be read again, if the source cannot seek.
const MAX_KEPT: usize = 1 << 20;

/// How many bytes of an archive are read twice. A damaged one could make the reader go back again and again.
const MAX_REREAD: u64 = 1 << 30;

/// Where the bytes come from.
pub trait ArchiveSource: Read + Send {
    /// The number of bytes, if the source can [seek](ArchiveSource::seek_to).
    fn length(&self) -> Option<u64> {
        None
    }

    /// Continues at this offset.
    fn seek_to(&mut self, _offset: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A source that cannot seek.
pub struct Unseekable<R>(pub R);

impl<R: Read> Read for Unseekable<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<R: Read + Send> ArchiveSource for Unseekable<R> {}

/// A part of a file.
pub struct FileSection {
    file: File,
    start: u64,
    length: u64,
    position: u64,
}

impl FileSection {
    /// This many bytes from an offset of a file.
    pub fn new(mut file: File, start: u64, length: u64) -> io::Result<FileSection> {
        file.seek(SeekFrom::Start(start))?;
        Ok(FileSection { file, start, length, position: 0 })
    }
}

impl Read for FileSection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.length - self.position).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let read = self.file.read(&mut buffer[..wanted])?;
        self.position += read as u64;
        Ok(read)
    }
}

impl ArchiveSource for FileSection {
    fn length(&self) -> Option<u64> {
        Some(self.length)
    }

    fn seek_to(&mut self, offset: u64) -> io::Result<()> {
        self.position = offset.min(self.length);
        self.file.seek(SeekFrom::Start(self.start + self.position)).map(drop)
    }
}

/// Buffers a source. What follows the [mark](ArchiveInput::mark) can be read again.
pub struct ArchiveInput {
    source: Box<dyn ArchiveSource>,
    buffer: Vec<u8>,
    /// The offset of the buffer's first byte in the source.
    offset: u64,
    /// Where the unread bytes start and end in the buffer.
    start: usize,
    end: usize,
    /// Nothing before it is needed again.
    mark: usize,
    reread: u64,
    /// The bytes read from the source, for the progress display.
    counter: Arc<AtomicU64>,
}

impl ArchiveInput {
    /// Reads a source, and adds the bytes that it reads to the counter.
    pub fn new(source: Box<dyn ArchiveSource>, counter: Arc<AtomicU64>) -> ArchiveInput {
        let buffer = vec![0; READ_BYTES];
        ArchiveInput { source, buffer, offset: 0, start: 0, end: 0, mark: 0, reread: 0, counter }
    }

    /// The unread bytes in the buffer. Reads more if there are fewer than `wanted`, which must be few; there are fewer at the end.
    pub fn peek(&mut self, wanted: usize) -> io::Result<&[u8]> {
        while self.end - self.start < wanted {
            if self.end == self.buffer.len() {
                self.make_room();
            }
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(read) => {
                    self.end += read;
                    self.counter.fetch_add(read as u64, Ordering::Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Moves what is needed to the start of the buffer, or enlarges it. If too much is needed, what was read is given up.
    fn make_room(&mut self) {
        if self.mark < self.buffer.len() / 2 && self.buffer.len() < MAX_KEPT && self.source.length().is_none()
        {
            self.buffer.resize(self.buffer.len() * 2, 0);
            return;
        }
        let is_small = self.end - self.mark <= self.buffer.len() / 2;
        let from = if is_small { self.mark } else { self.start };
        self.buffer.copy_within(from..self.end, 0);
        self.offset += from as u64;
        (self.mark, self.start, self.end) =
            (self.mark.saturating_sub(from), self.start - from, self.end - from);
    }

    /// Takes bytes that were peeked.
    pub fn consume(&mut self, bytes: usize) {
        self.start += bytes.min(self.end - self.start);
    }

    /// The offset of the next byte.
    pub fn position(&self) -> u64 {
        self.offset + self.start as u64
    }

    /// Keeps what follows, to be read again.
    pub fn mark(&mut self) {
        self.mark = self.start;
    }

    /// The bytes that are left, if that is known.
    pub fn left(&self) -> Option<u64> {
        self.source.length().map(|length| length.saturating_sub(self.position()))
    }

    /// Goes back to an offset after the mark. Of a source that cannot seek, or that was read again too often, it may be a later one.
    pub fn rewind(&mut self, to: u64) -> io::Result<()> {
        let behind = self.position().saturating_sub(to);
        let buffered = usize::try_from(to.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        self.reread += behind;
        if self.reread > MAX_REREAD {
            return Ok(());
        }
        if to >= self.offset && buffered <= self.end {
            self.start = buffered;
        } else if self.source.length().is_some() {
            self.seek(to)?;
        } else {
            self.start = self.mark.min(self.start);
        }
        Ok(())
    }

    /// Skips bytes, without reading them if the source can seek.
    pub fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let buffered = ((self.end - self.start) as u64).min(bytes);
        self.consume(buffered as usize);
        if bytes > buffered && self.source.length().is_some() {
            let to = self.position() + (bytes - buffered);
            self.counter.fetch_add(bytes - buffered, Ordering::Relaxed);
            return self.seek(to);
        }
        let mut left = bytes - buffered;
        while left > 0 {
            let taken = (self.peek(1)?.len() as u64).min(left);
            if taken == 0 {
                break;
            }
            self.consume(taken as usize);
            left -= taken;
        }
        Ok(())
    }

    /// Continues at an offset. Fails if the source cannot seek.
    pub fn seek(&mut self, to: u64) -> io::Result<()> {
        self.source.seek_to(to)?;
        (self.offset, self.start, self.end, self.mark) = (to, 0, 0, 0);
        Ok(())
    }
}
