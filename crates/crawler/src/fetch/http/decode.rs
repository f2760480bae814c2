//! Undoes content encodings as the bytes arrive, never past the size limit.

use std::io::{self, Write};

use brotli_decompressor::DecompressorWriter;
use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder as RawZstd, InBuffer, Operation, OutBuffer};

/// What the Accept-Encoding header offers.
pub const ACCEPTED: &str = "gzip, deflate, br, zstd";

/// The decoders' own working space, per download.
const SCRATCH_BYTES: usize = 16 * 1024;

/// What gzip allows, and all that deflate can use.
const MAX_WINDOW_BITS: u8 = 15;

/// The largest window a zstd stream may ask for: 8 MB, the most that HTTP permits.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// How a member of a gzip stream begins; deflate is the only method there is.
const GZIP_MAGIC: [u8; 3] = [0x1F, 0x8B, 8];

/// How a frame of a zstd stream begins.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// Why no more can be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodeError {
    /// More bytes than the limit; those up to it are there.
    TooLarge,
    /// Not what the encoding says.
    Corrupt(String),
}

/// One body on its way in.
pub struct Decoder {
    method: Method,
    out: LimitedBuffer,
    stage: Stage,
}

/// Where in the encoded stream the bytes are. gzip and zstd streams may have several parts, each complete in
/// itself, whose contents are one after the other.
enum Stage {
    /// Nothing has come yet. An empty body is an empty page, whatever its encoding.
    Empty,
    Inside,
    /// A part is complete; here are the bytes after it, as long as they are too few to tell whether they
    /// begin another.
    Between(Vec<u8>),
    /// The stream is complete; browsers ignore what follows, and so do we.
    Ended,
}

enum Method {
    /// Not encoded. A body that comes in one piece, as most do, is handed on as it is.
    Identity {
        only_piece: Bytes,
    },
    Gzip(Decompress),
    Inflate(Decompress),
    /// "deflate" means zlib, and often enough raw deflate: the first two bytes tell.
    SomeDeflate {
        head: Vec<u8>,
    },
    /// The decoder hands its output on in pieces of the scratch size.
    Brotli(Box<DecompressorWriter<LimitedBuffer>>),
    Zstd(RawZstd<'static>),
}

/// The decoded bytes, up to a limit.
#[derive(Debug, Default)]
struct LimitedBuffer {
    bytes: Vec<u8>,
    limit: usize,
    /// Set aside when the first bytes arrive.
    expected: usize,
    overflowed: bool,
}

impl Write for LimitedBuffer {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if self.bytes.is_empty() {
            self.bytes.reserve(self.expected);
        }
        let room = self.limit - self.bytes.len();
        self.bytes.extend_from_slice(&buffer[..buffer.len().min(room)]);
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

impl Decoder {
    /// A decoder for a Content-Encoding header, for at most `limit` decoded bytes, of which `expected` may be
    /// set aside at once. `Err` names the encoding that is not understood.
    pub fn new(encoding: Option<&str>, limit: usize, expected: usize) -> Result<Decoder, String> {
        let out =
            LimitedBuffer { bytes: Vec::new(), limit, expected: expected.min(limit), overflowed: false };
        let names = encoding.unwrap_or("").to_ascii_lowercase();
        let mut codings =
            names.split(',').map(str::trim).filter(|name| !["", "identity", "none"].contains(name));
        let coding = codings.next();
        if codings.next().is_some() {
            return Err(names);
        }
        let method = match coding.unwrap_or("identity") {
            "identity" => Method::Identity { only_piece: Bytes::new() },
            "gzip" | "x-gzip" => Method::Gzip(Decompress::new_gzip(MAX_WINDOW_BITS)),
            "deflate" => Method::SomeDeflate { head: Vec::new() },
            "br" => {
                let out = LimitedBuffer { bytes: Vec::new(), ..out };
                Method::Brotli(Box::new(DecompressorWriter::new(out, SCRATCH_BYTES)))
            }
            "zstd" => Method::Zstd(zstd_decoder().map_err(|error| error.to_string())?),
            unknown => return Err(unknown.to_owned()),
        };
        Ok(Decoder { method, out, stage: Stage::Empty })
    }

    /// Takes in the next bytes as they came.
    pub fn feed(&mut self, mut bytes: Bytes) -> Result<(), DecodeError> {
        if bytes.is_empty() {
            return Ok(());
        }
        loop {
            match &mut self.stage {
                Stage::Empty => self.stage = Stage::Inside,
                Stage::Inside => {}
                Stage::Between(start) => {
                    if !start.is_empty() {
                        bytes = [&start[..], &bytes].concat().into();
                    }
                    match self.method.goes_on(&bytes) {
                        None => {
                            *start = bytes.to_vec();
                            return Ok(());
                        }
                        Some(false) => self.stage = Stage::Ended,
                        Some(true) => {
                            self.method.restart().map_err(|error| self.broken(error))?;
                            self.stage = Stage::Inside;
                        }
                    }
                }
                Stage::Ended => return Ok(()),
            }
            if matches!(self.stage, Stage::Inside) {
                let Some(left) = self.feed_part(&bytes).map_err(|error| self.broken(error))? else {
                    return Ok(());
                };
                bytes = bytes.split_off(bytes.len() - left);
                self.stage = Stage::Between(Vec::new());
            }
        }
    }

    /// Decodes up to the end of the part; if that is among the bytes, tells how many are left after it.
    fn feed_part(&mut self, bytes: &Bytes) -> io::Result<Option<usize>> {
        match &mut self.method {
            Method::Identity { only_piece }
                if only_piece.is_empty() && self.out.bytes.is_empty() && bytes.len() <= self.out.limit =>
            {
                *only_piece = bytes.clone();
                Ok(None)
            }
            Method::Identity { only_piece } => {
                let first = std::mem::take(only_piece);
                self.out.write_all(&first).and_then(|()| self.out.write_all(bytes)).map(|()| None)
            }
            Method::SomeDeflate { head } => {
                head.extend_from_slice(bytes);
                if head.len() < 2 {
                    return Ok(None);
                }
                let head = Bytes::from(std::mem::take(head));
                let is_zlib =
                    head[0] & 0x0f == 8 && u16::from_be_bytes([head[0], head[1]]).is_multiple_of(31);
                self.method = Method::Inflate(Decompress::new(is_zlib));
                self.feed_part(&head)
            }
            Method::Gzip(inflate) | Method::Inflate(inflate) => feed_inflate(inflate, bytes, &mut self.out),
            Method::Zstd(raw) => feed_zstd(raw, bytes, &mut self.out),
            Method::Brotli(decoder) => feed_brotli(decoder, bytes),
        }
    }

    /// What is decoded so far; some bytes fed may still be on their way through.
    pub fn so_far(&self) -> &[u8] {
        match &self.method {
            Method::Identity { only_piece } if !only_piece.is_empty() => only_piece,
            _ => &self.out().bytes,
        }
    }

    /// The decoded body, if it is complete.
    pub fn finish(mut self) -> Result<Bytes, DecodeError> {
        let complete = match (&self.stage, &mut self.method) {
            (Stage::Empty, _) | (_, Method::Identity { .. }) => true,
            (_, Method::Brotli(decoder)) => {
                decoder.close().map_err(|error| self.broken(error)).map(|()| true)?
            }
            (stage, _) => !matches!(stage, Stage::Inside),
        };
        if complete { Ok(self.cut()) } else { Err(DecodeError::Corrupt("it ends too early".into())) }
    }

    /// Whatever is decoded, complete or not.
    pub fn cut(self) -> Bytes {
        match self.method {
            Method::Identity { only_piece } if !only_piece.is_empty() => only_piece,
            Method::Brotli(mut decoder) => std::mem::take(&mut decoder.get_mut().bytes).into(),
            _ => self.out.bytes.into(),
        }
    }

    fn out(&self) -> &LimitedBuffer {
        match &self.method {
            Method::Brotli(decoder) => decoder.get_ref(),
            _ => &self.out,
        }
    }

    fn broken(&self, error: io::Error) -> DecodeError {
        if self.out().overflowed { DecodeError::TooLarge } else { DecodeError::Corrupt(error.to_string()) }
    }
}

impl Method {
    /// Whether the bytes after a complete part begin another; `None` if they are too few to tell.
    fn goes_on(&self, bytes: &[u8]) -> Option<bool> {
        match (self, bytes) {
            (Method::Gzip(_), _) => begins(bytes, GZIP_MAGIC),
            // A frame to be skipped, of which there are sixteen kinds.
            (Method::Zstd(_), [kind @ 0x50..=0x5F, ..]) => begins(bytes, [*kind, 0x2A, 0x4D, 0x18]),
            (Method::Zstd(_), _) => begins(bytes, ZSTD_MAGIC),
            _ => Some(false),
        }
    }

    /// Makes ready for another part.
    fn restart(&mut self) -> io::Result<()> {
        match self {
            Method::Gzip(inflate) => *inflate = Decompress::new_gzip(MAX_WINDOW_BITS),
            Method::Zstd(raw) => raw.reinit()?,
            _ => {}
        }
        Ok(())
    }
}

fn begins<const LENGTH: usize>(bytes: &[u8], magic: [u8; LENGTH]) -> Option<bool> {
    match bytes.get(..LENGTH) {
        Some(start) => Some(start == magic),
        None if magic.starts_with(bytes) => None,
        None => Some(false),
    }
}

fn feed_inflate(
    inflate: &mut Decompress,
    bytes: &[u8],
    out: &mut LimitedBuffer,
) -> io::Result<Option<usize>> {
    let mut scratch = [0; SCRATCH_BYTES];
    let mut rest = bytes;
    loop {
        let (taken_before, made_before) = (inflate.total_in(), inflate.total_out());
        let status = inflate.decompress(rest, &mut scratch, FlushDecompress::None)?;
        rest = &rest[(inflate.total_in() - taken_before) as usize..];
        let made = (inflate.total_out() - made_before) as usize;
        out.write_all(&scratch[..made])?;
        if status == Status::StreamEnd {
            return Ok(Some(rest.len()));
        }
        // A full scratch means that there may be more to come from the bytes already taken.
        if rest.is_empty() && made < SCRATCH_BYTES {
            return Ok(None);
        }
    }
}

fn feed_zstd(raw: &mut RawZstd<'static>, bytes: &[u8], out: &mut LimitedBuffer) -> io::Result<Option<usize>> {
    let mut scratch = [0; SCRATCH_BYTES];
    let mut input = InBuffer::around(bytes);
    loop {
        let mut output = OutBuffer::around(&mut scratch[..]);
        let ended = raw.run(&mut input, &mut output)? == 0;
        let made = output.pos();
        out.write_all(&scratch[..made])?;
        if ended {
            return Ok(Some(bytes.len() - input.pos()));
        }
        if input.pos() == bytes.len() && made < SCRATCH_BYTES {
            return Ok(None);
        }
    }
}

fn feed_brotli(decoder: &mut DecompressorWriter<LimitedBuffer>, bytes: &[u8]) -> io::Result<Option<usize>> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match decoder.write(rest)? {
            0 => return Ok(Some(rest.len())),
            taken => rest = &rest[taken..],
        }
    }
    Ok(None)
}

fn zstd_decoder() -> io::Result<RawZstd<'static>> {
    let mut raw = RawZstd::new()?;
    raw.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))?;
    Ok(raw)
}

#[cfg(test)]
mod tests;
