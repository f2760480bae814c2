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

/// Why no more can be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// More bytes than the limit; those up to it are there.
    TooLarge,
    /// Not what the encoding says.
    Corrupt(String),
}

/// One body on its way in.
pub struct Decoder {
    method: Method,
    out: Capped,
    /// The encoded stream said that it is complete; browsers ignore what follows, and so do we.
    ended: bool,
}

enum Method {
    /// Not encoded. A body that comes in one piece, as most do, is handed on as it is.
    Identity {
        only_piece: Bytes,
    },
    Inflate(Decompress),
    /// "deflate" means zlib, and often enough raw deflate: the first two bytes tell.
    SomeDeflate {
        head: Vec<u8>,
    },
    /// The decoder hands its output on in pieces of the scratch size.
    Brotli(Box<DecompressorWriter<Capped>>),
    Zstd(RawZstd<'static>),
}

/// The decoded bytes, up to a limit.
#[derive(Debug, Default)]
struct Capped {
    bytes: Vec<u8>,
    limit: usize,
    /// Set aside when the first bytes arrive.
    expected: usize,
    overflowed: bool,
}

impl Write for Capped {
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
        let out = Capped { bytes: Vec::new(), limit, expected: expected.min(limit), overflowed: false };
        let name = encoding.unwrap_or("").trim().to_ascii_lowercase();
        let method = match name.as_str() {
            "" | "identity" | "none" => Method::Identity { only_piece: Bytes::new() },
            "gzip" | "x-gzip" => Method::Inflate(Decompress::new_gzip(MAX_WINDOW_BITS)),
            "deflate" => Method::SomeDeflate { head: Vec::new() },
            "br" => {
                let out = Capped { bytes: Vec::new(), ..out };
                Method::Brotli(Box::new(DecompressorWriter::new(out, SCRATCH_BYTES)))
            }
            "zstd" => Method::Zstd(zstd_decoder().map_err(|error| error.to_string())?),
            _ => return Err(name),
        };
        Ok(Decoder { method, out, ended: false })
    }

    /// Takes in the next bytes as they came.
    pub fn feed(&mut self, bytes: Bytes) -> Result<(), Broken> {
        if let Method::SomeDeflate { head } = &mut self.method {
            head.extend_from_slice(&bytes);
            if head.len() < 2 {
                return Ok(());
            }
            let head = std::mem::take(head);
            let is_zlib = head[0] & 0x0f == 8 && u16::from_be_bytes([head[0], head[1]]).is_multiple_of(31);
            self.method = Method::Inflate(Decompress::new(is_zlib));
            return self.feed(head.into());
        }
        if self.ended {
            return Ok(());
        }
        let fed = match &mut self.method {
            Method::Identity { only_piece }
                if only_piece.is_empty() && self.out.bytes.is_empty() && bytes.len() <= self.out.limit =>
            {
                *only_piece = bytes;
                Ok(())
            }
            Method::Identity { only_piece } => {
                let first = std::mem::take(only_piece);
                self.out.write_all(&first).and_then(|()| self.out.write_all(&bytes))
            }
            Method::Inflate(inflate) => feed_inflate(inflate, &bytes, &mut self.out, &mut self.ended),
            Method::Zstd(raw) => feed_zstd(raw, &bytes, &mut self.out, &mut self.ended),
            Method::Brotli(decoder) => feed_brotli(decoder, &bytes, &mut self.ended),
            Method::SomeDeflate { .. } => unreachable!("decided above"),
        };
        fed.map_err(|error| self.broken(error))
    }

    /// What is decoded so far; some bytes fed may still be on their way through.
    pub fn so_far(&self) -> &[u8] {
        match &self.method {
            Method::Identity { only_piece } if !only_piece.is_empty() => only_piece,
            _ => &self.out().bytes,
        }
    }

    /// The decoded body, if it is complete.
    pub fn finish(mut self) -> Result<Bytes, Broken> {
        let complete = match &mut self.method {
            Method::Identity { .. } => true,
            Method::SomeDeflate { head } => head.is_empty(),
            Method::Brotli(decoder) => decoder.close().map_err(|error| self.broken(error)).map(|()| true)?,
            Method::Inflate(_) | Method::Zstd(_) => self.ended,
        };
        if complete { Ok(self.cut()) } else { Err(Broken::Corrupt("it ends too early".into())) }
    }

    /// Whatever is decoded, complete or not.
    pub fn cut(self) -> Bytes {
        match self.method {
            Method::Identity { only_piece } if !only_piece.is_empty() => only_piece,
            Method::Brotli(mut decoder) => std::mem::take(&mut decoder.get_mut().bytes).into(),
            _ => self.out.bytes.into(),
        }
    }

    fn out(&self) -> &Capped {
        match &self.method {
            Method::Brotli(decoder) => decoder.get_ref(),
            _ => &self.out,
        }
    }

    fn broken(&self, error: io::Error) -> Broken {
        if self.out().overflowed { Broken::TooLarge } else { Broken::Corrupt(error.to_string()) }
    }
}

fn feed_inflate(
    inflate: &mut Decompress,
    bytes: &[u8],
    out: &mut Capped,
    ended: &mut bool,
) -> io::Result<()> {
    let mut scratch = [0; SCRATCH_BYTES];
    let mut rest = bytes;
    loop {
        let (taken_before, made_before) = (inflate.total_in(), inflate.total_out());
        let status = inflate.decompress(rest, &mut scratch, FlushDecompress::None)?;
        rest = &rest[(inflate.total_in() - taken_before) as usize..];
        let made = (inflate.total_out() - made_before) as usize;
        out.write_all(&scratch[..made])?;
        *ended = status == Status::StreamEnd;
        // A full scratch means that there may be more to come from the bytes already taken.
        if *ended || (rest.is_empty() && made < SCRATCH_BYTES) {
            return Ok(());
        }
    }
}

fn feed_zstd(raw: &mut RawZstd<'static>, bytes: &[u8], out: &mut Capped, ended: &mut bool) -> io::Result<()> {
    let mut scratch = [0; SCRATCH_BYTES];
    let mut input = InBuffer::around(bytes);
    loop {
        let mut output = OutBuffer::around(&mut scratch[..]);
        *ended = raw.run(&mut input, &mut output)? == 0;
        let made = output.pos();
        out.write_all(&scratch[..made])?;
        if *ended || (input.pos() == bytes.len() && made < SCRATCH_BYTES) {
            return Ok(());
        }
    }
}

fn feed_brotli(decoder: &mut DecompressorWriter<Capped>, bytes: &[u8], ended: &mut bool) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() && !*ended {
        match decoder.write(rest)? {
            0 => *ended = true,
            taken => rest = &rest[taken..],
        }
    }
    Ok(())
}

fn zstd_decoder() -> io::Result<RawZstd<'static>> {
    let mut raw = RawZstd::new()?;
    raw.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))?;
    Ok(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 100_000;

    fn decode(encoding: &str, bytes: &[u8], chunk: usize) -> Result<Bytes, Broken> {
        let mut decoder = Decoder::new(Some(encoding), LIMIT, 0).unwrap();
        for piece in bytes.chunks(chunk) {
            decoder.feed(Bytes::copy_from_slice(piece))?;
        }
        decoder.finish()
    }

    fn encodings_of(text: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
        use flate2::{Compression, write};
        let mut gzip = write::GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(text).unwrap();
        let mut zlib = write::ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(text).unwrap();
        let mut raw = write::DeflateEncoder::new(Vec::new(), Compression::default());
        raw.write_all(text).unwrap();
        vec![
            ("gzip", gzip.finish().unwrap()),
            ("deflate", zlib.finish().unwrap()),
            ("deflate", raw.finish().unwrap()),
            ("br", brotli_uncompressed(text)),
            ("zstd", zstd::encode_all(text, 3).unwrap()),
        ]
    }

    /// A brotli stream of uncompressed meta-blocks: enough to test with, without a compressor.
    fn brotli_uncompressed(text: &[u8]) -> Vec<u8> {
        // WBITS = 16 is a single 0 bit; then per block ISLAST = 0, MNIBBLES = 4 (00), MLEN - 1, ISUNCOMPRESSED = 1.
        let mut out = Vec::new();
        for (index, block) in text.chunks(1 << 16).enumerate() {
            let skip = u32::from(index == 0);
            let header = ((block.len() as u32 - 1) << 3 | 1 << 19) << skip;
            out.extend_from_slice(&header.to_le_bytes()[..3]);
            out.extend_from_slice(block);
        }
        // ISLAST and ISEMPTY.
        out.push(3);
        out
    }

    #[test]
    fn every_offered_encoding_is_undone_however_the_bytes_are_split() {
        let text: Vec<u8> = (0..60_000u32).flat_map(|n| n.to_string().into_bytes()).take(LIMIT).collect();
        for (name, encoded) in encodings_of(&text) {
            for chunk in [1, 7, 4096, usize::MAX] {
                assert!(
                    decode(name, &encoded, chunk).as_deref() == Ok(&text[..]),
                    "{name} in pieces of {chunk}"
                );
            }
        }
        for chunk in [1, 2, 5] {
            assert_eq!(decode("identity", b"as is", chunk).unwrap(), &b"as is"[..]);
        }
    }

    #[test]
    fn one_byte_over_the_limit_is_too_large_and_the_rest_is_never_made() {
        for size in [LIMIT + 1, 5_000_000] {
            let mut encodings = encodings_of(&vec![b'x'; size]);
            encodings.push(("identity", vec![b'x'; size]));
            for (name, encoded) in encodings {
                assert_eq!(decode(name, &encoded, usize::MAX), Err(Broken::TooLarge), "{name}");
                let mut decoder = Decoder::new(Some(name), LIMIT, usize::MAX).unwrap();
                let _ = decoder.feed(encoded.into());
                assert!(decoder.cut().len() <= LIMIT, "{name}");
            }
        }
    }

    #[test]
    fn a_stream_that_stops_early_or_holds_garbage_is_corrupt() {
        for (name, encoded) in encodings_of(b"a page that is long enough to be cut somewhere in its middle") {
            let cut = decode(name, &encoded[..encoded.len() - 3], usize::MAX);
            assert!(matches!(cut, Err(Broken::Corrupt(_))), "{name}: {cut:?}");
        }
        for name in ["gzip", "br", "zstd"] {
            assert!(matches!(decode(name, &[0xF7; 64], 64), Err(Broken::Corrupt(_))), "{name}");
        }
    }

    #[test]
    fn bytes_after_the_end_are_ignored() {
        for (name, mut encoded) in encodings_of(b"a page") {
            encoded.extend_from_slice(b"trailing");
            assert_eq!(decode(name, &encoded, 5).as_deref(), Ok(&b"a page"[..]), "{name}");
        }
    }

    #[test]
    fn an_unknown_encoding_is_named() {
        assert_eq!(Decoder::new(Some("Compress"), 1, 0).err().as_deref(), Some("compress"));
        assert!(Decoder::new(Some("gzip, br"), 1, 0).is_err());
    }
}
