//! The decoded bytes of an archive: as they are, or in gzip members or zstd frames, usually one for each record.

use std::io;

use flate2::{Decompress, FlushDecompress, Status};
use memchr::memmem;
use zstd::stream::raw::{DParameter, Decoder as RawZstd, InBuffer, Operation, OutBuffer};

use super::header::starts_record;
use super::input::ArchiveInput;

/// The decoded bytes that are kept at a time.
const DECODED_BYTES: usize = 128 * 1024;

/// The first bytes of a gzip member, with deflate as its method.
pub(super) const GZIP_MAGIC: [u8; 3] = [0x1F, 0x8B, 8];

/// The first bytes of a zstd frame, and of one with a dictionary.
pub(super) const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
const ZSTD_DICTIONARY_MAGIC: [u8; 4] = [0x5D, 0x2A, 0x4D, 0x18];

/// The longest window of a zstd frame, which the decoder holds in memory: 8 MB, as RFC 8878 recommends, and as the `zstd` command
/// writes at all levels up to 19.
const MAX_ZSTD_WINDOW_LOG: u32 = 23;

/// What zstd says of a frame with a longer window.
const WINDOW_TOO_LONG: &str = "Frame requires too much memory for decoding";

/// The largest dictionary of a file.
const MAX_DICTIONARY: usize = 16 << 20;

/// The longest header of a gzip member that matters, and more than the start of a record.
const PEEK: usize = 64;

/// Why no bytes can be decoded.
#[derive(Debug)]
pub(super) enum StreamError {
    /// The file cannot be read.
    Io(io::Error),
    /// The compressed data is damaged.
    Damaged(String),
}

impl From<io::Error> for StreamError {
    fn from(error: io::Error) -> StreamError {
        StreamError::Io(error)
    }
}

enum ArchiveFormat {
    Plain,
    Gzip,
    Zstd { dictionary: Vec<u8> },
}

enum ArchiveCodec {
    Gzip(Decompress),
    Zstd(RawZstd<'static>),
}

/// Decodes an archive.
pub(super) struct Stream {
    input: ArchiveInput,
    format: ArchiveFormat,
    /// Decodes the current member; `None` after its end.
    codec: Option<ArchiveCodec>,
    member_start: u64,
    /// Whether bytes of the current member were taken.
    is_member_begun: bool,
    /// What is wrong with the current member. Said when all that was decoded before is read.
    failure: Option<String>,
    decoded: Vec<u8>,
    /// Where the unread bytes start and end in it.
    start: usize,
    end: usize,
}

impl Stream {
    /// Finds out how the archive is compressed.
    pub(super) fn new(mut input: ArchiveInput) -> io::Result<Stream> {
        let start = input.peek(PEEK)?;
        let format = match start {
            start if start.starts_with(&GZIP_MAGIC) => ArchiveFormat::Gzip,
            start if start.starts_with(&ZSTD_MAGIC) => ArchiveFormat::Zstd { dictionary: Vec::new() },
            start if start.starts_with(&ZSTD_DICTIONARY_MAGIC) => {
                ArchiveFormat::Zstd { dictionary: read_dictionary(&mut input)? }
            }
            _ => ArchiveFormat::Plain,
        };
        let decoded =
            if matches!(format, ArchiveFormat::Plain) { Vec::new() } else { vec![0; DECODED_BYTES] };
        Ok(Stream {
            input,
            format,
            codec: None,
            member_start: 0,
            is_member_begun: false,
            failure: None,
            decoded,
            start: 0,
            end: 0,
        })
    }

    pub(super) fn is_plain(&self) -> bool {
        matches!(self.format, ArchiveFormat::Plain)
    }

    /// Whether the bytes read last are verified by a checksum: their gzip member has ended.
    pub(super) fn is_verified(&self) -> bool {
        matches!(self.format, ArchiveFormat::Gzip) && self.codec.is_none()
    }

    /// The unread bytes of the current member: at least as many as wanted, which must be few, unless the member ends before.
    pub(super) fn peek(&mut self, wanted: usize) -> Result<&[u8], StreamError> {
        if self.is_plain() {
            return Ok(self.input.peek(wanted)?);
        }
        while self.end - self.start < wanted && self.codec.is_some() && self.failure.is_none() {
            if self.end == self.decoded.len() {
                self.decoded.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            self.decode()?;
        }
        match &self.failure {
            Some(cause) if self.start == self.end => Err(StreamError::Damaged(cause.clone())),
            _ => Ok(&self.decoded[self.start..self.end]),
        }
    }

    /// Decodes some more bytes of the member.
    fn decode(&mut self) -> io::Result<()> {
        let compressed = self.input.peek(1)?;
        if compressed.is_empty() {
            self.failure = Some("the compressed data is incomplete".into());
            return Ok(());
        }
        let out = &mut self.decoded[self.end..];
        let result = match &mut self.codec {
            Some(ArchiveCodec::Gzip(inflate)) => {
                let before = (inflate.total_in(), inflate.total_out());
                let status = inflate.decompress(compressed, out, FlushDecompress::None);
                let counts =
                    ((inflate.total_in() - before.0) as usize, (inflate.total_out() - before.1) as usize);
                status.map(|status| (counts, status == Status::StreamEnd)).map_err(|error| error.to_string())
            }
            Some(ArchiveCodec::Zstd(raw)) => {
                let (mut input, mut output) = (InBuffer::around(compressed), OutBuffer::around(out));
                let hint = raw.run(&mut input, &mut output);
                let counts = (input.pos(), output.pos());
                hint.map(|hint| (counts, hint == 0)).map_err(|error| error.to_string())
            }
            None => return Ok(()),
        };
        match result {
            Ok(((consumed, produced), has_ended)) => {
                self.input.consume(consumed);
                self.end += produced;
                if has_ended {
                    self.codec = None;
                } else if consumed == 0 && produced == 0 {
                    self.failure = Some("the compressed data is damaged".into());
                }
            }
            Err(cause) if cause.contains(WINDOW_TOO_LONG) => {
                self.failure = Some(
                    "its zstd frame needs a window of more than 8 MB; compress the archive again, with a shorter one".into(),
                );
            }
            Err(cause) => self.failure = Some(format!("the compressed data is damaged: {cause}")),
        }
        Ok(())
    }

    /// Takes bytes that were peeked.
    pub(super) fn consume(&mut self, bytes: usize) {
        if self.is_plain() {
            return self.input.consume(bytes);
        }
        self.is_member_begun |= bytes > 0;
        self.start += bytes.min(self.end - self.start);
    }

    /// Whether the next byte is the first of its member. The bytes of an archive that is not compressed have no members.
    pub(super) fn is_at_member_start(&self) -> bool {
        self.is_plain() || !self.is_member_begun
    }

    /// Where the member that started at this offset ends, if all of it was taken and nothing after it.
    pub(super) fn end_of_member(&self, start: u64) -> Option<u64> {
        let has_ended = self.codec.is_none() && self.failure.is_none() && self.start == self.end;
        (has_ended && self.member_start == start).then(|| self.input.position())
    }

    /// Continues at the offset of a member, or of a record if the archive is not compressed.
    pub(super) fn seek_to(&mut self, offset: u64) -> io::Result<()> {
        self.input.seek(offset)?;
        (self.codec, self.failure, self.start, self.end) = (None, None, 0, 0);
        self.member_start = offset;
        Ok(())
    }

    /// Skips bytes of an archive that is not compressed.
    pub(super) fn skip_plain(&mut self, bytes: u64) -> io::Result<()> {
        self.input.skip(bytes)
    }

    /// The bytes of the file after this position, if the archive is not compressed and that is known.
    pub(super) fn plain_bytes_left(&self) -> Option<u64> {
        if self.is_plain() { self.input.left() } else { None }
    }

    /// Where the next byte, or its member, is in the file.
    pub(super) fn position(&self) -> u64 {
        if self.is_plain() { self.input.position() } else { self.member_start }
    }

    /// Keeps what follows, so that an archive that is not compressed can be [read again](Stream::rewind_plain) from here.
    pub(super) fn mark(&mut self) {
        if self.is_plain() {
            self.input.mark();
        }
    }

    pub(super) fn rewind_plain(&mut self, to: u64) -> io::Result<()> {
        self.input.rewind(to)
    }

    /// Starts the next member, when the current one has ended. Returns false at the end of the file.
    pub(super) fn next_member(&mut self) -> Result<bool, StreamError> {
        if self.is_plain() {
            return Ok(!self.input.peek(1)?.is_empty());
        }
        loop {
            self.member_start = self.input.position();
            self.input.mark();
            let start = self.input.peek(PEEK)?;
            match &self.format {
                _ if start.is_empty() => return Ok(false),
                ArchiveFormat::Gzip if start.starts_with(&GZIP_MAGIC) => {}
                ArchiveFormat::Zstd { .. } if start.starts_with(&ZSTD_MAGIC) => {}
                ArchiveFormat::Zstd { .. } if let Some(length) = skippable_length(start) => {
                    self.input.skip(length)?;
                    continue;
                }
                _ => {
                    let cause = "what follows is not compressed as the rest is";
                    (self.codec, self.failure) = (None, Some(cause.into()));
                    return Err(StreamError::Damaged(cause.into()));
                }
            }
            self.start_member()?;
            return Ok(true);
        }
    }

    fn start_member(&mut self) -> io::Result<()> {
        (self.start, self.end, self.failure, self.is_member_begun) = (0, 0, None, false);
        self.codec = Some(match &self.format {
            ArchiveFormat::Zstd { dictionary } => {
                let mut raw = RawZstd::with_dictionary(dictionary)?;
                raw.set_parameter(DParameter::WindowLogMax(MAX_ZSTD_WINDOW_LOG))?;
                ArchiveCodec::Zstd(raw)
            }
            _ => ArchiveCodec::Gzip(Decompress::new_gzip(15)),
        });
        Ok(())
    }

    /// After damage, finds the next member that starts with a record, and starts it. Returns false if there is none.
    pub(super) fn recover(&mut self) -> io::Result<bool> {
        let magic = if let ArchiveFormat::Gzip = self.format { &GZIP_MAGIC[..] } else { &ZSTD_MAGIC };
        self.input.rewind(self.member_start + 1)?;
        loop {
            let bytes = self.input.peek(PEEK)?;
            let Some(found) = memmem::find(bytes, magic) else {
                let searched = bytes.len().saturating_sub(magic.len() - 1);
                if searched == 0 {
                    let rest = bytes.len();
                    self.input.consume(rest);
                    (self.codec, self.failure, self.start, self.end) = (None, None, 0, 0);
                    self.member_start = self.input.position();
                    return Ok(false);
                }
                self.input.consume(searched);
                continue;
            };
            self.input.consume(found);
            self.member_start = self.input.position();
            self.input.mark();
            self.start_member()?;
            match self.peek(PEEK) {
                Ok(start) if !start.is_empty() && starts_record(start) != Some(false) => return Ok(true),
                Err(StreamError::Io(error)) => return Err(error),
                _ => self.input.rewind(self.member_start + 1)?,
            }
        }
    }
}

/// The length of a skippable zstd frame, with its header.
fn skippable_length(start: &[u8]) -> Option<u64> {
    match start {
        [0x50..=0x5F, 0x2A, 0x4D, 0x18, a, b, c, d, ..] => {
            Some(u64::from(u32::from_le_bytes([*a, *b, *c, *d])) + 8)
        }
        _ => None,
    }
}

/// Reads the dictionary at the start of a file, which may be compressed itself.
fn read_dictionary(input: &mut ArchiveInput) -> io::Result<Vec<u8>> {
    let invalid = |cause: &str| io::Error::new(io::ErrorKind::InvalidData, cause);
    let length =
        skippable_length(input.peek(PEEK)?).ok_or_else(|| invalid("its dictionary is incomplete"))?;
    let length = usize::try_from(length - 8).unwrap_or(usize::MAX);
    if length > MAX_DICTIONARY {
        return Err(invalid("its dictionary is too large"));
    }
    input.consume(8);
    let mut dictionary = Vec::new();
    while dictionary.len() < length {
        let bytes = input.peek(1)?;
        let taken = bytes.len().min(length - dictionary.len());
        if taken == 0 {
            return Err(invalid("its dictionary is incomplete"));
        }
        dictionary.extend_from_slice(&bytes[..taken]);
        input.consume(taken);
    }
    if dictionary.starts_with(&ZSTD_MAGIC) {
        let mut decoded = Vec::new();
        let decoder = zstd::stream::read::Decoder::new(&dictionary[..])?;
        io::Read::read_to_end(&mut io::Read::take(decoder, MAX_DICTIONARY as u64 + 1), &mut decoded)?;
        if decoded.len() > MAX_DICTIONARY {
            return Err(invalid("its dictionary is too large"));
        }
        return Ok(decoded);
    }
    Ok(dictionary)
}
