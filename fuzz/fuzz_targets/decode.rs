//! Decoding of response bodies: the outcome does not depend on how the network splits the body, the decoded bytes never
//! exceed the limit, nothing is decoded after the end of the stream, and decoding undoes encoding.
#![no_main]

use std::io::Write;

use bytes::Bytes;
use crawler::internal::fetch::http::decode::{DecodeError, Decoder};
use flate2::{Compression, write};
use libfuzzer_sys::fuzz_target;

/// The name of a coding in the Content-Encoding header, and an encoder.
type Coding = (&'static str, fn(&[u8]) -> Vec<u8>);

const CODINGS: [Coding; 6] = [
    ("identity", <[u8]>::to_vec),
    ("gzip", gzip),
    ("deflate", zlib),
    ("deflate", raw_deflate),
    ("br", brotli),
    ("zstd", zstd),
];

/// The first bytes of the input; the rest is the body.
struct Choices {
    coding: Coding,
    /// Whether the body is to be encoded first, how often it is repeated, and whether some bytes follow it.
    is_plain: bool,
    repeats: usize,
    has_trailing_bytes: bool,
    limit: usize,
    chunk_seed: u8,
}

impl Choices {
    fn new([coding, body, limit, chunk_seed]: [u8; 4]) -> Choices {
        Choices {
            coding: CODINGS[usize::from(coding) % CODINGS.len()],
            is_plain: body & 1 == 1,
            repeats: 1 << (body >> 1 & 7),
            has_trailing_bytes: body & 16 == 16,
            limit: usize::from(limit).pow(2),
            chunk_seed,
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((choices, body)) = input.split_first_chunk() else { return };
    let choices = Choices::new(*choices);
    if choices.is_plain {
        check_plain_body(&choices, body);
    } else {
        let _ = check_any_chunks(&choices, body);
    }
});

/// Encodes the body, and decodes it completely, truncated, and in two parts.
fn check_plain_body(choices: &Choices, body: &[u8]) {
    let (name, encode) = choices.coding;
    let text = body.repeat(choices.repeats);
    let limited = |text: Vec<u8>| match text.len() <= choices.limit {
        true => Ok(text.into()),
        false => Err(Failure::TooLarge(Bytes::copy_from_slice(&text[..choices.limit]))),
    };
    let mut encoded = encode(&text);
    let complete = encoded.len();
    if choices.has_trailing_bytes && name != "identity" {
        encoded.extend(b"trailing bytes");
    }
    assert_eq!(check_any_chunks(choices, &encoded), limited(text.clone()), "{name}");

    encoded.truncate(complete * usize::from(choices.chunk_seed) / 256);
    match check_any_chunks(choices, &encoded) {
        Ok(_) => {
            assert!(encoded.is_empty() || name == "identity", "{name}: a truncated body is not complete")
        }
        Err(Failure::TooLarge(start)) => assert!(text.starts_with(&start), "{name}"),
        Err(Failure::Corrupt) => {}
    }

    if matches!(name, "gzip" | "zstd") {
        let (one, two) = text.split_at(text.len() / 3);
        let parts = [encode(one), encode(two)].concat();
        assert_eq!(check_any_chunks(choices, &parts), limited(text), "{name} in two parts");
    }
}

/// Why a body cannot be decoded. The crawler uses the first bytes of a body that is too large.
#[derive(Debug, PartialEq)]
enum Failure {
    TooLarge(Bytes),
    Corrupt,
}

/// Decodes a body in one piece and in chunks, and compares the outcomes. A body that is both too large and corrupt may
/// fail for either reason: decoders drop the bytes that they decoded in the same call before an error.
fn check_any_chunks(choices: &Choices, body: &[u8]) -> Result<Bytes, Failure> {
    let (name, limit) = (choices.coding.0, choices.limit);
    let outcome = decode(name, limit, [body].into_iter());
    let chunked = decode(name, limit, Chunks { rest: body, seed: u32::from(choices.chunk_seed) + 1 });
    match (&outcome, &chunked) {
        (Err(Failure::Corrupt), Err(_)) | (Err(_), Err(Failure::Corrupt)) => {}
        _ => assert_eq!(outcome, chunked, "{name}: chunks of seed {}", choices.chunk_seed),
    }
    outcome
}

fn decode<'b>(name: &str, limit: usize, chunks: impl Iterator<Item = &'b [u8]>) -> Result<Bytes, Failure> {
    let mut decoder = Decoder::new(Some(name), limit, limit / 2).expect("a supported coding");
    let mut decoded = 0;
    for chunk in chunks {
        let had_ended = decoder.has_ended();
        let fed = decoder.feed(Bytes::copy_from_slice(chunk));
        assert!((decoded..=limit).contains(&decoder.decoded().len()), "{name}");
        assert!(
            !had_ended || decoder.has_ended() && decoder.decoded().len() == decoded,
            "{name}: after its end"
        );
        decoded = decoder.decoded().len();
        match fed {
            Ok(()) => {}
            Err(DecodeError::TooLarge) => return Err(Failure::TooLarge(decoder.into_partial())),
            Err(DecodeError::Corrupt(_)) => return Err(Failure::Corrupt),
        }
    }
    match decoder.finish() {
        Ok(body) => {
            assert_eq!(body.len(), decoded, "{name}: feeding decodes everything");
            Ok(body)
        }
        Err(DecodeError::TooLarge) => panic!("{name}: feeding reports the limit"),
        Err(DecodeError::Corrupt(_)) => Err(Failure::Corrupt),
    }
}

/// Splits a body into chunks of pseudo-random lengths, most of them short.
struct Chunks<'b> {
    rest: &'b [u8],
    seed: u32,
}

impl<'b> Iterator for Chunks<'b> {
    type Item = &'b [u8];

    fn next(&mut self) -> Option<&'b [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        self.seed = self.seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let longest = [1, 4, 64, 8192][(self.seed >> 30) as usize];
        let length = ((self.seed >> 8) as usize % (longest + 1)).min(self.rest.len());
        let (chunk, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some(chunk)
    }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = write::GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).and_then(|()| encoder.finish()).expect("memory takes all bytes")
}

fn zlib(text: &[u8]) -> Vec<u8> {
    let mut encoder = write::ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).and_then(|()| encoder.finish()).expect("memory takes all bytes")
}

fn raw_deflate(text: &[u8]) -> Vec<u8> {
    let mut encoder = write::DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).and_then(|()| encoder.finish()).expect("memory takes all bytes")
}

fn brotli(text: &[u8]) -> Vec<u8> {
    let parameters = brotli::enc::BrotliEncoderParams { quality: 1, lgwin: 16, ..Default::default() };
    let mut encoded = Vec::new();
    brotli::BrotliCompress(&mut &text[..], &mut encoded, &parameters).expect("memory takes all bytes");
    encoded
}

fn zstd(text: &[u8]) -> Vec<u8> {
    zstd::encode_all(text, 1).expect("memory takes all bytes")
}
