//! Reads the records of an archive one after the other. Damaged records are reported and skipped.

use std::io;

use memchr::{memchr, memmem};

use super::header::{MAX_HEADER_BYTES, RecordHeader, starts_record};
use super::input::ArchiveInput;
use super::stream::{Stream, StreamError};

/// Enough bytes to recognise the start of a record.
const PEEK: usize = 64;

/// What is wrong with a record whose header does not end.
const NO_HEADER_END: &str = "the end of its header is missing";

/// A record.
#[derive(Debug)]
pub struct WarcRecord {
    /// Its header.
    pub header: RecordHeader,
    /// Where it is in the file, or its compressed member.
    pub offset: u64,
    /// The bytes that it takes in the file from there: up to the end of its block, or of its member. `None` if it does not have a
    /// member of its own, so that it cannot be read from its offset.
    pub length: Option<u64>,
    /// The bytes of its block, as many as were wanted.
    pub block: Vec<u8>,
    /// The number of bytes of the whole block.
    pub block_length: u64,
    /// Whether a checksum has shown that the block is as it was written.
    pub is_verified: bool,
}

impl WarcRecord {
    /// Whether `block` is only the start of the block.
    pub fn is_cut(&self) -> bool {
        self.block_length > self.block.len() as u64
    }
}

/// A place in a file where there is no record that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Where it is in the file, or its compressed member.
    pub offset: u64,
    /// What is wrong.
    pub cause: String,
}

/// What is in an archive.
#[derive(Debug)]
pub enum ArchiveItem {
    /// A record.
    Record(WarcRecord),
    /// A record that cannot be read, or bytes that are no record. The next item is the next record that can be found.
    Damage(Damage),
}

/// Reads an archive in bounded memory: one record, as much of it as is wanted, and a buffer.
pub struct WarcReader {
    stream: Stream,
}

/// Gets the bytes of a block as they are read. Returns whether it wants more of this block.
pub type Tap<'t> = &'t mut dyn FnMut(&RecordHeader, &[u8]) -> bool;

/// Why a record was not read, and where the next one is to be looked for.
enum ReadFailure {
    Io(io::Error),
    /// Its compressed data is damaged: at the next member.
    Compression(String),
    /// Its bytes are wrong: after them.
    Content(String),
    /// The next record starts before its end: here.
    Truncated(String),
}

impl From<StreamError> for ReadFailure {
    fn from(error: StreamError) -> ReadFailure {
        match error {
            StreamError::Io(error) => ReadFailure::Io(error),
            StreamError::Damaged(cause) => ReadFailure::Compression(cause),
        }
    }
}

impl From<io::Error> for ReadFailure {
    fn from(error: io::Error) -> ReadFailure {
        ReadFailure::Io(error)
    }
}

impl WarcReader {
    /// Reads an archive, compressed or not. Its first bytes say how.
    pub fn new(input: ArchiveInput) -> io::Result<WarcReader> {
        Ok(WarcReader { stream: Stream::new(input)? })
    }

    /// The first decoded bytes, to find out what the file is. Fewer if it is shorter or damaged.
    pub fn first_bytes(&mut self) -> io::Result<Vec<u8>> {
        let first = match self.stream.next_member() {
            Ok(true) => self.stream.peek(PEEK).map(<[u8]>::to_vec),
            Ok(false) => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        match first {
            Ok(bytes) => Ok(bytes),
            Err(StreamError::Io(error)) => Err(error),
            Err(StreamError::Damaged(_)) => Ok(Vec::new()),
        }
    }

    /// Continues at the offset of a record. Fails if the archive cannot seek, as standard input cannot.
    pub fn seek_to(&mut self, offset: u64) -> io::Result<()> {
        self.stream.seek_to(offset)
    }

    /// The next record, or the next damaged place; `None` at the end. `wanted` says how many bytes of a block are kept. An error
    /// means that the file cannot be read any further.
    pub fn next(&mut self, wanted: &dyn Fn(&RecordHeader) -> usize) -> io::Result<Option<ArchiveItem>> {
        self.next_tapped(wanted, &mut |_, _| false)
    }

    /// Does the same, and hands the bytes of the block to `tap` as they are read, for as long as it returns true.
    pub fn next_tapped(
        &mut self,
        wanted: &dyn Fn(&RecordHeader) -> usize,
        tap: Tap<'_>,
    ) -> io::Result<Option<ArchiveItem>> {
        let offset = match self.skip_to_record() {
            Ok(false) => return Ok(None),
            Ok(true) => self.stream.position(),
            Err(failure) => return self.resynchronize(self.stream.position(), failure).map(Some),
        };
        self.stream.mark();
        match self.read_record(offset, wanted, tap) {
            Ok(record) => Ok(Some(ArchiveItem::Record(record))),
            Err(failure) => self.resynchronize(offset, failure).map(Some),
        }
    }

    /// Skips the empty lines between records. Returns false at the end of the file.
    fn skip_to_record(&mut self) -> Result<bool, ReadFailure> {
        loop {
            let bytes = self.stream.peek(1)?;
            if bytes.is_empty() {
                if !self.stream.next_member()? {
                    return Ok(false);
                }
                continue;
            }
            let newlines = count_newlines(bytes);
            if newlines < bytes.len() {
                self.stream.consume(newlines);
                return Ok(true);
            }
            self.stream.consume(newlines);
        }
    }

    fn read_record(
        &mut self,
        offset: u64,
        wanted: &dyn Fn(&RecordHeader) -> usize,
        tap: Tap<'_>,
    ) -> Result<WarcRecord, ReadFailure> {
        let starts_member = self.stream.is_at_member_start();
        if starts_record(self.stream.peek(PEEK)?) == Some(false) {
            return Err(ReadFailure::Content("no record starts here".into()));
        }
        let header = RecordHeader::parse(&self.read_header()?).map_err(ReadFailure::Content)?;
        let block_length = header
            .content_length()
            .ok_or_else(|| ReadFailure::Content("its header has no valid Content-Length".into()))?;
        let block = self.read_block(block_length, wanted(&header), &mut |bytes| tap(&header, bytes))?;
        let plain_end = self.stream.position();
        self.check_end()?;
        let end = if self.stream.is_plain() { Some(plain_end) } else { self.stream.end_of_member(offset) };
        let length = end.filter(|_| starts_member).map(|end| end - offset);
        let is_verified = self.stream.is_verified();
        Ok(WarcRecord { header, offset, length, block, block_length, is_verified })
    }

    /// Reads up to the empty line after the header.
    fn read_header(&mut self) -> Result<Vec<u8>, ReadFailure> {
        let (mut header, mut line_start) = (Vec::new(), 0);
        loop {
            let bytes = self.stream.peek(PEEK)?;
            if bytes.is_empty() {
                self.continue_in_next_member(NO_HEADER_END)?;
                continue;
            }
            if line_start > 0 && line_start == header.len() && starts_record(bytes) == Some(true) {
                return Err(ReadFailure::Truncated(NO_HEADER_END.into()));
            }
            let line_end = memchr(b'\n', bytes);
            let taken = line_end.map_or(bytes.len(), |end| end + 1);
            header.extend_from_slice(&bytes[..taken]);
            self.stream.consume(taken);
            if header.len() > MAX_HEADER_BYTES {
                return Err(ReadFailure::Content("its header is too long".into()));
            }
            if line_end.is_some() {
                if matches!(&header[line_start..], b"\n" | b"\r\n") {
                    return Ok(header);
                }
                line_start = header.len();
            }
        }
    }

    /// Reads a block, and keeps its first bytes.
    fn read_block(
        &mut self,
        length: u64,
        wanted: usize,
        tap: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Vec<u8>, ReadFailure> {
        if let Some(left) = self.stream.plain_bytes_left().filter(|left| *left < length) {
            return Err(ReadFailure::Content(missing(length, left)));
        }
        let kept = usize::try_from(length).unwrap_or(usize::MAX).min(wanted);
        let mut block = Vec::with_capacity(kept.min(1 << 20));
        let (mut left, mut is_tapped) = (length, true);
        while left > 0 {
            if block.len() == kept && !is_tapped && self.stream.plain_bytes_left().is_some() {
                self.stream.skip_plain(left)?;
                break;
            }
            let bytes = self.stream.peek(1)?;
            if bytes.is_empty() {
                self.continue_in_next_member(&missing(length, length - left))?;
                continue;
            }
            let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
            block.extend_from_slice(&bytes[..taken.min(kept - block.len())]);
            is_tapped = is_tapped && tap(&bytes[..taken]);
            self.stream.consume(taken);
            left -= taken as u64;
        }
        Ok(block)
    }

    /// Some writers cut an archive into members of equal size. If a record starts in the next member, the current one is truncated.
    fn continue_in_next_member(&mut self, missing: &str) -> Result<(), ReadFailure> {
        let truncated = || ReadFailure::Truncated(missing.to_owned());
        if self.stream.is_plain() {
            return Err(ReadFailure::Content(missing.to_owned()));
        }
        match self.stream.next_member() {
            Ok(true) => {}
            Ok(false) => return Err(truncated()),
            Err(StreamError::Damaged(_)) => return Err(ReadFailure::Compression(missing.to_owned())),
            Err(StreamError::Io(error)) => return Err(ReadFailure::Io(error)),
        }
        match self.stream.peek(PEEK) {
            Ok(start) if starts_record(start) == Some(true) => Err(truncated()),
            // What is damaged in the next member is said when it is read.
            _ => Ok(()),
        }
    }

    /// Checks what follows a block: two empty lines, or at least the next record or the end. The rest of a gzip member is decoded,
    /// which verifies it.
    fn check_end(&mut self) -> Result<(), ReadFailure> {
        let is_plain = self.stream.is_plain();
        let bytes = self.stream.peek(PEEK)?;
        let newlines = count_newlines(bytes);
        // What follows two empty lines may be damaged itself, except in a member, which a checksum verifies.
        let is_separated = is_plain && (bytes.starts_with(b"\r\n\r\n") || bytes.starts_with(b"\n\n"));
        self.stream.consume(newlines);
        let next = self.stream.peek(PEEK)?;
        match is_separated || next.is_empty() || starts_record(next) != Some(false) {
            true => Ok(()),
            false => Err(ReadFailure::Content("its Content-Length is wrong: no record follows".into())),
        }
    }

    /// Goes to the next record that can be found.
    fn resynchronize(&mut self, offset: u64, failure: ReadFailure) -> io::Result<ArchiveItem> {
        let cause = match failure {
            ReadFailure::Io(error) => return Err(error),
            ReadFailure::Compression(cause) => {
                self.stream.recover()?;
                cause
            }
            ReadFailure::Truncated(cause) => cause,
            ReadFailure::Content(cause) => {
                if self.stream.is_plain() {
                    self.stream.rewind_plain(offset + 1)?;
                }
                self.search_record()?;
                cause
            }
        };
        Ok(ArchiveItem::Damage(Damage { offset, cause }))
    }

    /// Searches for the start of a record.
    fn search_record(&mut self) -> io::Result<()> {
        loop {
            let bytes = match self.stream.peek(PEEK) {
                Ok(bytes) => bytes,
                Err(StreamError::Io(error)) => return Err(error),
                Err(StreamError::Damaged(_)) => return self.stream.recover().map(drop),
            };
            let available = bytes.len();
            match memmem::find(bytes, b"WARC/") {
                Some(found) if starts_record(&bytes[found..]) == Some(true) => {
                    self.stream.consume(found);
                    return Ok(());
                }
                // Too few bytes to decide, though more may follow.
                Some(found @ 1..) if starts_record(&bytes[found..]).is_none() => self.stream.consume(found),
                Some(found) => self.stream.consume(found + 1),
                None if available >= PEEK => self.stream.consume(available - (b"WARC/".len() - 1)),
                None if available > 0 => self.stream.consume(available),
                None => match self.stream.next_member() {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(StreamError::Io(error)) => return Err(error),
                    Err(StreamError::Damaged(_)) => return self.stream.recover().map(drop),
                },
            }
        }
    }
}

fn count_newlines(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len())
}

fn missing(length: u64, found: u64) -> String {
    format!("it is incomplete: its Content-Length is {length}, and {found} bytes are left")
}

#[cfg(test)]
mod tests;
