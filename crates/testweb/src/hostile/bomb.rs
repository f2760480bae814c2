//! Decompression bombs: small bodies that decompress to a gigabyte of zeros, made without compressing a gigabyte.

use std::io::Write;
use std::sync::OnceLock;

use bytes::Bytes;

/// The decompressed size of each bomb.
pub(super) const UNPACKED: usize = 1 << 30;

const MEGABYTE: usize = 1 << 20;

/// One gzip member. A flushed deflate stream ends at a byte boundary, so it can be repeated.
pub(super) fn gzip() -> Bytes {
    static BOMB: OnceLock<Bytes> = OnceLock::new();
    BOMB.get_or_init(|| gzip_of(UNPACKED / MEGABYTE).into()).clone()
}

fn gzip_of(megabytes: usize) -> Vec<u8> {
    let zeros = vec![0; MEGABYTE];
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    let flushed = encoder.write_all(&zeros).and_then(|()| encoder.flush());
    flushed.expect("writing to memory cannot fail");
    let block = encoder.get_ref();

    let (mut one, mut all) = (flate2::Crc::new(), flate2::Crc::new());
    one.update(&zeros);
    (0..megabytes).for_each(|_| all.combine(&one));

    let mut bomb = b"\x1f\x8b\x08\0\0\0\0\0\0\xff".to_vec();
    bomb.extend(block.repeat(megabytes));
    bomb.extend(b"\x03\0"); // an empty last block
    bomb.extend(all.sum().to_le_bytes());
    bomb.extend(((megabytes * MEGABYTE) as u32).to_le_bytes());
    bomb
}

/// A zstd frame of run-length blocks, each one byte repeated 128 KB times (RFC 8878, section 3.1.1.2). `unpacked` is
/// rounded down to whole blocks.
pub(super) fn zstd(unpacked: usize) -> Vec<u8> {
    const BLOCK: usize = 128 << 10;
    const RUN: u32 = 1 << 1;
    const LAST: u32 = 1;
    // No content size, no checksum; a window of 128 KB.
    let mut bomb = b"\x28\xb5\x2f\xfd\x00\x38".to_vec();
    let blocks = unpacked / BLOCK;
    for n in 1..=blocks {
        let header = (BLOCK as u32) << 3 | RUN | if n == blocks { LAST } else { 0 };
        bomb.extend(&header.to_le_bytes()[..3]);
        bomb.push(0);
    }
    bomb
}

/// A brotli stream whose meta-blocks each hold one literal and one copy of it, 16 MB long (RFC 7932, section 9).
/// Every prefix code has a single symbol, so choosing it costs no bits. `unpacked` is rounded down to whole blocks.
pub(super) fn brotli(unpacked: usize) -> Vec<u8> {
    const BLOCK: u64 = 1 << 24;
    // Insert code 1 (one literal) with copy code 23 (2,118 bytes and up, the excess in 24 bits).
    const INSERT_ONE_COPY_MANY: u64 = 384 + (1 << 3) + 7;
    // The first distance symbol that is not about earlier distances; with its one bit at 0 it means 1.
    const ONE_BACK: u64 = 16;
    let simple_code = 1; // in two bits, followed by the number of symbols less one in two bits

    let mut bits = Bits::default();
    bits.put(0, 1); // a window of 64 KB
    for _ in 0..unpacked as u64 / BLOCK {
        bits.put(0, 1); // not the last
        bits.put(2, 2); // six digits of length
        bits.put(BLOCK - 1, 24);
        bits.put(0, 1); // compressed
        bits.put(0, 3); // one block type each for literals, commands, distances
        bits.put(0, 6); // no postfix, no direct distances
        bits.put(0, 2); // the context mode of literals, which has no effect here
        bits.put(0, 2); // one prefix code each for literals and distances
        for (symbol, width) in [(0, 8), (INSERT_ONE_COPY_MANY, 10), (ONE_BACK, 6)] {
            bits.put(simple_code, 4);
            bits.put(symbol, width);
        }
        bits.put(BLOCK - 1 - 2118, 24);
        bits.put(0, 1); // the distance's one bit
    }
    bits.put(3, 2); // last and empty
    bits.bytes
}

/// Bits packed from the least significant end, as in brotli.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: usize,
}

impl Bits {
    fn put(&mut self, value: u64, width: usize) {
        for bit in 0..width {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            let set = (value >> bit & 1) as u8;
            self.bytes[self.used / 8] |= set << (self.used % 8);
            self.used += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// The length of a decoder's output, which must be all zeros.
    fn zeros(mut decoder: impl Read) -> usize {
        let (mut length, mut buffer) = (0, vec![1; 1 << 16]);
        loop {
            let read = decoder.read(&mut buffer).expect("a well-formed stream");
            if read == 0 {
                return length;
            }
            assert!(buffer[..read].iter().all(|byte| *byte == 0));
            length += read;
        }
    }

    #[test]
    fn bombs_are_well_formed_and_have_the_stated_size() {
        assert_eq!(zeros(flate2::read::GzDecoder::new(gzip_of(16).as_slice())), 16 << 20);
        assert_eq!(zeros(zstd::Decoder::new(zstd(16 << 20).as_slice()).unwrap()), 16 << 20);
        let brotli = brotli(16 << 20);
        assert_eq!(zeros(brotli_decompressor::Decompressor::new(brotli.as_slice(), 4096)), 16 << 20);
    }

    #[test]
    fn bombs_are_small() {
        assert!(gzip().len() < 1_200_000, "{}", gzip().len());
        assert!(zstd(UNPACKED).len() < 40_000);
        assert!(brotli(UNPACKED).len() < 1_000);
    }
}
