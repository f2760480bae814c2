//! Decodes content encodings as the bytes arrive, up to a size limit.

use std::io::{self, Write};

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder as RawZstd, InBuffer, Operation, OutBuffer};

/// What the Accept-Encoding header offers.
pub const ACCEPTED: &str = "gzip, deflate, br, zstd";

/// Size of a decoder's output buffer.
const SCRATCH_BYTES: usize = 16 * 1024;

/// How many decoded bytes a [pausing](Decoder::pausing) decoder returns at a time, and the most that are reserved before any is
/// decoded.
pub const STEP_BYTES: usize = 256 * 1024;

/// The same for bytes that a sink takes, which may be compressed once more.
const SINK_STEP_BYTES: usize = SCRATCH_BYTES;

/// The maximum window of gzip and deflate.
const MAX_WINDOW_BITS: u8 = 15;

/// The maximum window of a zstd stream: 8 MB, the limit of RFC 9659.
const MAX_ZSTD_WINDOW_LOG: u32 = 23;

/// The most members or frames of a stream. Each costs the time to set up a decoder, even if it is empty. A server that
/// compresses blocks of 64 KB by themselves needs 800 for 50 MB.
const MAX_PARTS: usize = 10_000;

/// The first bytes of a gzip member, with deflate as compression method, the only one there is.
const GZIP_MAGIC: [u8; 3] = [0x1F, 0x8B, 8];

/// The first bytes of a zstd frame.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// Why decoding failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodeError {
    /// The decoded body is larger than the limit. The bytes up to the limit are available.
    TooLarge,
    /// The body is not valid in its encoding.
    Corrupt(String),
}

/// Takes decoded bytes as they come. Returns whether more are wanted.
pub type DecodedSink<'s> = &'s (dyn Fn(&[u8]) -> bool + Sync);

/// Decodes one body.
pub struct Decoder<'s> {
    codec: Codec,
    out: LimitedBuffer<'s>,
    stage: StreamStage,
    /// Number of parts that were started after the first.
    more_parts: usize,
    /// The encoded bytes that are left, while the decoder pauses.
    paused: Option<Bytes>,
}

/// The position in the encoded stream. gzip and zstd streams may have several parts (members or frames), each complete
/// in itself, whose contents are concatenated.
enum StreamStage {
    /// No bytes were received yet. An empty body is an empty page in every encoding.
    Empty,
    InsidePart,
    /// A part is complete. Holds the bytes after it while they are too few to show whether another part follows.
    BetweenParts(Vec<u8>),
    /// The stream is complete. Bytes after it are ignored, as in browsers.
    Ended,
}

/// How far the bytes of a part were decoded. What is left are bytes that were not.
enum Fed {
    All,
    /// The part has ended.
    Ended {
        left: usize,
    },
    /// There is more to decode, also if no bytes are left.
    Paused {
        left: usize,
    },
}

enum Codec {
    /// Not encoded. A body that arrives in one chunk, as most do, is returned without a copy.
    Identity {
        only_chunk: Bytes,
    },
    Gzip(Decompress),
    Inflate(Decompress),
    /// "deflate" means zlib, but some servers send raw deflate. The first two bytes decide.
    UndeterminedDeflate {
        head: Vec<u8>,
    },
    Brotli(Box<Brotli>),
    Zstd(RawZstd<'static>),
}

type Brotli = BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>;

/// The decoded bytes, up to a limit.
#[derive(Default)]
struct LimitedBuffer<'s> {
    bytes: Vec<u8>,
    /// Gets the bytes instead of the buffer.
    sink: Option<DecodedSink<'s>>,
    limit: usize,
    /// Capacity to reserve when the first bytes arrive.
    expected: usize,
    overflowed: bool,
    /// How many more bytes are written before the decoder pauses. `None` if it does not.
    until_pause: Option<usize>,
}

impl LimitedBuffer<'_> {
    fn is_pause_due(&self) -> bool {
        self.until_pause == Some(0)
    }
}

impl Write for LimitedBuffer<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if let Some(bytes) = &mut self.until_pause {
            *bytes = bytes.saturating_sub(buffer.len());
        }
        if let Some(sink) = self.sink {
            if buffer.len() > self.limit || !sink(buffer) {
                self.overflowed = true;
                return Err(io::Error::other("size limit"));
            }
            self.limit -= buffer.len();
            return Ok(buffer.len());
        }
        if self.bytes.is_empty() {
            self.bytes.reserve(self.expected);
        }
        let room = self.limit - self.bytes.len();
        let taken = buffer.len().min(room);
        let free = self.bytes.capacity() - self.bytes.len();
        if taken > free {
            // Doubles the capacity as `Vec` does, but not beyond the limit.
            self.bytes.reserve_exact(taken.max(self.bytes.len()).min(room));
        }
        self.bytes.extend_from_slice(&buffer[..taken]);
        if buffer.len() > room {
            self.overflowed = true;
            return Err(io::Error::other("size limit"));
        }
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'s> Decoder<'s> {
    /// A decoder for a Content-Encoding header and at most `limit` decoded bytes. It reserves memory for `expected`
    /// bytes, but not for many. `Err` names the unsupported encoding.
    pub fn new(encoding: Option<&str>, limit: usize, expected: usize) -> Result<Decoder<'s>, String> {
        let expected = expected.min(limit).min(STEP_BYTES);
        let out = LimitedBuffer { limit, expected, ..LimitedBuffer::default() };
        let names = encoding.unwrap_or("").to_ascii_lowercase();
        let mut codings =
            names.split(',').map(str::trim).filter(|name| !["", "identity", "none"].contains(name));
        let coding = codings.next();
        if codings.next().is_some() {
            return Err(names);
        }
        let codec = match coding.unwrap_or("identity") {
            "identity" => Codec::Identity { only_chunk: Bytes::new() },
            "gzip" | "x-gzip" => Codec::Gzip(Decompress::new_gzip(MAX_WINDOW_BITS)),
            "deflate" => Codec::UndeterminedDeflate { head: Vec::new() },
            "br" => Codec::Brotli(brotli_decoder()),
            "zstd" => Codec::Zstd(zstd_decoder().map_err(|error| error.to_string())?),
            unknown => return Err(unknown.to_owned()),
        };
        Ok(Decoder { codec, out, stage: StreamStage::Empty, more_parts: 0, paused: None })
    }

    /// Hands the decoded bytes to a sink instead of keeping them. When the sink wants no more, the body counts as too large.
    pub fn into_sink(mut self, sink: DecodedSink<'s>) -> Decoder<'s> {
        self.out.sink = Some(sink);
        self
    }

    /// Pauses about every [`STEP_BYTES`] of decoded bytes, or less for a sink: a few bytes of a stream may be megabytes.
    pub fn pausing(mut self) -> Decoder<'s> {
        self.start_step();
        self
    }

    fn start_step(&mut self) {
        self.out.until_pause = Some(if self.out.sink.is_some() { SINK_STEP_BYTES } else { STEP_BYTES });
    }

    /// Whether not all bytes that were fed are decoded. [`resume`](Decoder::resume) comes next.
    pub fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Decodes more of the bytes that were fed.
    pub fn resume(&mut self) -> Result<(), DecodeError> {
        let Some(bytes) = self.paused.take() else { return Ok(()) };
        self.start_step();
        self.decode(bytes)
    }

    /// Decodes the next bytes of the stream.
    pub fn feed(&mut self, bytes: Bytes) -> Result<(), DecodeError> {
        if bytes.is_empty() { Ok(()) } else { self.decode(bytes) }
    }

    fn decode(&mut self, mut bytes: Bytes) -> Result<(), DecodeError> {
        loop {
            if self.out.is_pause_due() {
                self.paused = Some(bytes);
                return Ok(());
            }
            match &mut self.stage {
                StreamStage::Empty => self.stage = StreamStage::InsidePart,
                StreamStage::InsidePart => {}
                StreamStage::BetweenParts(start) => {
                    if !start.is_empty() {
                        bytes = [&start[..], &bytes].concat().into();
                    }
                    match self.codec.starts_new_part(&bytes) {
                        None => {
                            *start = bytes.to_vec();
                            return Ok(());
                        }
                        Some(false) => self.stage = StreamStage::Ended,
                        Some(true) => {
                            self.more_parts += 1;
                            if self.more_parts >= MAX_PARTS {
                                let cause = format!("the stream has more than {MAX_PARTS} parts");
                                return Err(DecodeError::Corrupt(cause));
                            }
                            self.codec.restart().map_err(|error| self.decode_error(error))?;
                            self.stage = StreamStage::InsidePart;
                        }
                    }
                }
                StreamStage::Ended => return Ok(()),
            }
            if matches!(self.stage, StreamStage::InsidePart) {
                match self.feed_part(&bytes).map_err(|error| self.decode_error(error))? {
                    Fed::All => return Ok(()),
                    Fed::Paused { left } => bytes = bytes.split_off(bytes.len() - left),
                    Fed::Ended { left } => {
                        bytes = bytes.split_off(bytes.len() - left);
                        self.stage = StreamStage::BetweenParts(Vec::new());
                    }
                }
            }
        }
    }

    /// Decodes up to the end of the part, or the next pause.
    fn feed_part(&mut self, bytes: &Bytes) -> io::Result<Fed> {
        match &mut self.codec {
            Codec::Identity { only_chunk }
                if self.out.sink.is_none()
                    && only_chunk.is_empty()
                    && self.out.bytes.is_empty()
                    && bytes.len() <= self.out.limit =>
            {
                *only_chunk = bytes.clone();
                Ok(Fed::All)
            }
            Codec::Identity { only_chunk } => {
                let first = std::mem::take(only_chunk);
                self.out.write_all(&first).and_then(|()| self.out.write_all(bytes)).map(|()| Fed::All)
            }
            Codec::UndeterminedDeflate { head } => {
                head.extend_from_slice(bytes);
                if head.len() < 2 {
                    return Ok(Fed::All);
                }
                let head = Bytes::from(std::mem::take(head));
                let is_zlib =
                    head[0] & 0x0f == 8 && u16::from_be_bytes([head[0], head[1]]).is_multiple_of(31);
                self.codec = Codec::Inflate(Decompress::new(is_zlib));
                self.feed_part(&head)
            }
            Codec::Gzip(inflate) | Codec::Inflate(inflate) => feed_inflate(inflate, bytes, &mut self.out),
            Codec::Zstd(raw) => feed_zstd(raw, bytes, &mut self.out),
            Codec::Brotli(state) => feed_brotli(state, bytes, &mut self.out),
        }
    }

    /// The bytes decoded so far.
    pub fn decoded(&self) -> &[u8] {
        match &self.codec {
            Codec::Identity { only_chunk } if !only_chunk.is_empty() => only_chunk,
            _ => &self.out.bytes,
        }
    }

    /// Takes the bytes decoded so far. They still count against the limit.
    pub fn take_decoded(&mut self) -> Vec<u8> {
        let decoded = std::mem::take(&mut self.out.bytes);
        self.out.limit -= decoded.len();
        decoded
    }

    /// Whether the encoded stream has ended, so that further bytes do not belong to the body.
    pub fn has_ended(&self) -> bool {
        matches!(self.stage, StreamStage::Ended)
    }

    /// Returns the decoded body, or an error if the stream is incomplete.
    pub fn finish(self) -> Result<Bytes, DecodeError> {
        let is_identity = matches!(self.codec, Codec::Identity { .. });
        if is_identity || !matches!(self.stage, StreamStage::InsidePart) {
            Ok(self.into_partial())
        } else {
            Err(DecodeError::Corrupt("the stream is truncated".into()))
        }
    }

    /// Returns the bytes decoded so far, even if the stream is incomplete.
    pub fn into_partial(self) -> Bytes {
        match self.codec {
            Codec::Identity { only_chunk } if !only_chunk.is_empty() => only_chunk,
            _ => self.out.bytes.into(),
        }
    }

    fn decode_error(&self, error: io::Error) -> DecodeError {
        if self.out.overflowed { DecodeError::TooLarge } else { DecodeError::Corrupt(error.to_string()) }
    }
}

impl Codec {
    /// Whether the bytes after a complete part start another one; `None` if they are too few to show it.
    fn starts_new_part(&self, bytes: &[u8]) -> Option<bool> {
        match (self, bytes) {
            (Codec::Gzip(_), _) => starts_with_magic(bytes, GZIP_MAGIC),
            // One of the sixteen magic numbers of a skippable frame.
            (Codec::Zstd(_), [kind @ 0x50..=0x5F, ..]) => starts_with_magic(bytes, [*kind, 0x2A, 0x4D, 0x18]),
            (Codec::Zstd(_), _) => starts_with_magic(bytes, ZSTD_MAGIC),
            _ => Some(false),
        }
    }

    /// Resets the codec for the next part.
    fn restart(&mut self) -> io::Result<()> {
        match self {
            Codec::Gzip(inflate) => *inflate = Decompress::new_gzip(MAX_WINDOW_BITS),
            Codec::Zstd(raw) => raw.reinit()?,
            _ => {}
        }
        Ok(())
    }
}

/// Whether the bytes start with a magic number; `None` if they are too few to show it.
fn starts_with_magic<const LENGTH: usize>(bytes: &[u8], magic: [u8; LENGTH]) -> Option<bool> {
    match bytes.get(..LENGTH) {
        Some(start) => Some(start == magic),
        None if magic.starts_with(bytes) => None,
        None => Some(false),
    }
}

fn feed_inflate(inflate: &mut Decompress, bytes: &[u8], out: &mut LimitedBuffer) -> io::Result<Fed> {
    let mut scratch = [0; SCRATCH_BYTES];
    let mut rest = bytes;
    loop {
        let (consumed_before, produced_before) = (inflate.total_in(), inflate.total_out());
        let status = inflate.decompress(rest, &mut scratch, FlushDecompress::None)?;
        rest = &rest[(inflate.total_in() - consumed_before) as usize..];
        let produced = (inflate.total_out() - produced_before) as usize;
        out.write_all(&scratch[..produced])?;
        if status == Status::StreamEnd {
            return Ok(Fed::Ended { left: rest.len() });
        }
        // A full buffer means that there may be more output for the input already consumed.
        if rest.is_empty() && produced < SCRATCH_BYTES {
            return Ok(Fed::All);
        }
        if out.is_pause_due() {
            return Ok(Fed::Paused { left: rest.len() });
        }
    }
}

fn feed_zstd(raw: &mut RawZstd<'static>, bytes: &[u8], out: &mut LimitedBuffer) -> io::Result<Fed> {
    let mut scratch = [0; SCRATCH_BYTES];
    let mut input = InBuffer::around(bytes);
    loop {
        let mut output = OutBuffer::around(&mut scratch[..]);
        let ended = raw.run(&mut input, &mut output)? == 0;
        let produced = output.pos();
        out.write_all(&scratch[..produced])?;
        if ended {
            return Ok(Fed::Ended { left: bytes.len() - input.pos() });
        }
        if input.pos() == bytes.len() && produced < SCRATCH_BYTES {
            return Ok(Fed::All);
        }
        if out.is_pause_due() {
            return Ok(Fed::Paused { left: bytes.len() - input.pos() });
        }
    }
}

fn feed_brotli(state: &mut Brotli, bytes: &[u8], out: &mut LimitedBuffer) -> io::Result<Fed> {
    let mut scratch = [0; SCRATCH_BYTES];
    let (mut left, mut consumed, mut total_out) = (bytes.len(), 0, 0);
    loop {
        let (mut room, mut produced) = (SCRATCH_BYTES, 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut consumed,
            bytes,
            &mut room,
            &mut produced,
            &mut scratch,
            &mut total_out,
            state,
        );
        out.write_all(&scratch[..produced])?;
        match result {
            BrotliResult::ResultSuccess => return Ok(Fed::Ended { left }),
            // A full buffer means that there may be more output for the input already consumed.
            BrotliResult::NeedsMoreInput if room > 0 => return Ok(Fed::All),
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput if out.is_pause_due() => {
                return Ok(Fed::Paused { left });
            }
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultFailure => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "invalid brotli stream"));
            }
        }
    }
}

/// A decoder without the extension for windows of more than 16 MB, which HTTP does not allow.
fn brotli_decoder() -> Box<Brotli> {
    let alloc = StandardAlloc::default;
    Box::new(BrotliState::new_strict(alloc(), alloc(), alloc()))
}

fn zstd_decoder() -> io::Result<RawZstd<'static>> {
    let mut raw = RawZstd::new()?;
    raw.set_parameter(DParameter::WindowLogMax(MAX_ZSTD_WINDOW_LOG))?;
    Ok(raw)
}

#[cfg(test)]
mod tests;
