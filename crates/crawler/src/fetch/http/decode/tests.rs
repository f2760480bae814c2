//! Tests of content decoding.

use super::*;

const LIMIT: usize = 100_000;

fn decode(encoding: &str, bytes: &[u8], chunk: usize) -> Result<Bytes, DecodeError> {
    let mut decoder = Decoder::new(Some(encoding), LIMIT, 0).unwrap();
    for part in bytes.chunks(chunk) {
        decoder.feed(Bytes::copy_from_slice(part))?;
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

/// A brotli stream of uncompressed meta-blocks, which needs no compressor.
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
fn every_accepted_encoding_is_decoded_however_the_bytes_are_split() {
    let text: Vec<u8> = (0..60_000u32).flat_map(|n| n.to_string().into_bytes()).take(LIMIT).collect();
    for (name, encoded) in encodings_of(&text) {
        for chunk in [1, 7, 4096, usize::MAX] {
            assert!(decode(name, &encoded, chunk).as_deref() == Ok(&text[..]), "{name} in chunks of {chunk}");
        }
    }
    for chunk in [1, 2, 5] {
        assert_eq!(decode("identity", b"as is", chunk).unwrap(), &b"as is"[..]);
    }
}

#[test]
fn output_stops_at_the_limit_and_one_byte_more_is_too_large() {
    for size in [LIMIT + 1, 5_000_000] {
        let mut encodings = encodings_of(&vec![b'x'; size]);
        encodings.push(("identity", vec![b'x'; size]));
        for (name, encoded) in encodings {
            assert_eq!(decode(name, &encoded, usize::MAX), Err(DecodeError::TooLarge), "{name}");
            let mut decoder = Decoder::new(Some(name), LIMIT, usize::MAX).unwrap();
            let _ = decoder.feed(encoded.into());
            assert!(decoder.into_partial().len() <= LIMIT, "{name}");
        }
    }
}

#[test]
fn truncated_or_invalid_stream_is_corrupt() {
    for (name, encoded) in encodings_of(b"a page that is long enough to be truncated in its middle") {
        let cut = decode(name, &encoded[..encoded.len() - 3], usize::MAX);
        assert!(matches!(cut, Err(DecodeError::Corrupt(_))), "{name}: {cut:?}");
    }
    for name in ["gzip", "br", "zstd"] {
        assert!(matches!(decode(name, &[0xF7; 64], 64), Err(DecodeError::Corrupt(_))), "{name}");
    }
}

#[test]
fn trailing_bytes_are_ignored() {
    for (name, mut encoded) in encodings_of(b"a page") {
        encoded.extend_from_slice(b"trailing");
        assert_eq!(decode(name, &encoded, 5).as_deref(), Ok(&b"a page"[..]), "{name}");
    }
}

#[test]
fn end_of_the_stream_is_known_as_soon_as_it_is_there() {
    for (name, encoded) in encodings_of(b"a page") {
        let mut decoder = Decoder::new(Some(name), LIMIT, 0).unwrap();
        decoder.feed(encoded.into()).unwrap();
        // Another gzip member or zstd frame may follow.
        assert_eq!(decoder.has_ended(), ["deflate", "br"].contains(&name), "{name}");
        decoder.feed(Bytes::from_static(b"trailing")).unwrap();
        assert!(decoder.has_ended(), "{name}");
        assert_eq!(decoder.decoded(), b"a page", "{name}");
    }
}

#[test]
fn feeding_decodes_everything_and_reports_the_limit() {
    for size in [LIMIT - 1, LIMIT, LIMIT + 1, LIMIT + SCRATCH_BYTES, 5 * LIMIT] {
        let text: Vec<u8> = (0..size).map(|n| (n * n / 8) as u8).collect();
        for (name, encoded) in encodings_of(&text) {
            let mut decoder = Decoder::new(Some(name), LIMIT, 0).unwrap();
            let fed = decoder.feed(encoded.into());
            assert_eq!(fed, if size > LIMIT { Err(DecodeError::TooLarge) } else { Ok(()) }, "{name} {size}");
            assert_eq!(decoder.decoded().len(), size.min(LIMIT), "{name} {size}");
            assert!(size > LIMIT || decoder.finish().is_ok(), "{name} {size}");
        }
    }
}

#[test]
fn number_of_members_and_frames_is_limited() {
    let skippable = vec![0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0];
    let empty = encodings_of(b"").into_iter().filter(|(name, _)| ["gzip", "zstd"].contains(name));
    for (name, part) in empty.chain([("zstd", skippable)]) {
        assert_eq!(decode(name, &part.repeat(MAX_PARTS), usize::MAX).as_deref(), Ok(&b""[..]), "{name}");
        let more = decode(name, &part.repeat(MAX_PARTS + 1), 1_000);
        assert!(matches!(more, Err(DecodeError::Corrupt(_))), "{name}: {more:?}");
    }
}

#[test]
fn memory_for_the_output_stays_within_the_limit() {
    for (name, encoded) in encodings_of(&vec![b'x'; 5 * LIMIT]) {
        let mut decoder = Decoder::new(Some(name), LIMIT, 0).unwrap();
        encoded.chunks(1_000).take_while(|chunk| decoder.feed(Bytes::copy_from_slice(chunk)).is_ok()).count();
        assert_eq!((decoder.out.bytes.len(), decoder.out.bytes.capacity()), (LIMIT, LIMIT), "{name}");
    }
}

#[test]
fn brotli_with_a_window_that_http_does_not_allow_is_corrupt() {
    // WBITS of the large window extension: 0x11, then 30 bits.
    assert!(matches!(decode("br", &[0x11, 30, 3], 1), Err(DecodeError::Corrupt(_))));
}

#[test]
fn gzip_members_and_zstd_frames_are_concatenated() {
    let (one, two) = (encodings_of(b"one, "), encodings_of(b"two"));
    for ((name, first), (_, second)) in one.into_iter().zip(two) {
        if !["gzip", "zstd"].contains(&name) {
            continue;
        }
        let mut parts = vec![first, second];
        if name == "zstd" {
            for kind in [0x50, 0x5F] {
                parts.insert(
                    usize::from(kind == 0x5F),
                    vec![kind, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, b'a', b'b', b'c'],
                );
            }
        }
        let mut stream = parts.concat();
        for trailing in [&b""[..], b"\x1F", b"\x28\xB5\x2F", b"\0\0\0\0\0", b"trailing"] {
            let with_trailing = [&stream[..], trailing].concat();
            for chunk in [1, 2, 3, 7, usize::MAX] {
                let decoded = decode(name, &with_trailing, chunk);
                assert_eq!(decoded.as_deref(), Ok(&b"one, two"[..]), "{name} in chunks of {chunk}");
            }
        }
        stream.pop();
        assert!(
            matches!(decode(name, &stream, 5), Err(DecodeError::Corrupt(_))),
            "{name}: the last part is truncated"
        );
    }
}

#[test]
fn gzip_members_and_zstd_frames_share_one_limit() {
    for (name, encoded) in encodings_of(&vec![b'x'; LIMIT - 1]) {
        if ["gzip", "zstd"].contains(&name) {
            assert_eq!(decode(name, &encoded.repeat(2), usize::MAX), Err(DecodeError::TooLarge), "{name}");
        }
    }
}

#[test]
fn empty_body_is_an_empty_page_in_every_encoding() {
    for name in ["identity", "gzip", "deflate", "br", "zstd"] {
        assert_eq!(decode(name, b"", 1).as_deref(), Ok(&b""[..]), "{name}");
        let mut decoder = Decoder::new(Some(name), LIMIT, 0).unwrap();
        decoder.feed(Bytes::new()).unwrap();
        assert_eq!(decoder.finish().as_deref(), Ok(&b""[..]), "{name} in an empty chunk");
        let short = decode(name, b"\x1F", 1);
        assert!(name == "identity" || matches!(short, Err(DecodeError::Corrupt(_))), "{name}: {short:?}");
    }
}

#[test]
fn identity_in_an_encoding_list_is_ignored() {
    for (name, encoded) in encodings_of(b"a page") {
        for list in [format!("identity, {name}"), format!("{name},identity"), format!(", {name} ,")] {
            assert_eq!(decode(&list, &encoded, 5).as_deref(), Ok(&b"a page"[..]), "{list}");
        }
    }
    assert_eq!(decode("identity, identity", b"a page", 5).as_deref(), Ok(&b"a page"[..]));
}

#[test]
fn error_names_the_unknown_encoding() {
    assert_eq!(Decoder::new(Some("Compress"), 1, 0).err().as_deref(), Some("compress"));
    assert!(Decoder::new(Some("gzip, br"), 1, 0).is_err());
}

#[test]
fn pausing_decoder_decodes_the_same_bytes_in_steps() {
    let large = vec![b'x'; 8 * STEP_BYTES + 5];
    let members =
        encodings_of(&[b'x'; 10_000]).into_iter().filter(|(name, _)| ["gzip", "zstd"].contains(name));
    let members = members.map(|(name, member)| (name, 10_000 * 100, member.repeat(100)));
    for (name, size, encoded) in
        encodings_of(&large).into_iter().map(|(name, encoded)| (name, large.len(), encoded)).chain(members)
    {
        for chunk in [1_000, usize::MAX] {
            let mut decoder = Decoder::new(Some(name), size, usize::MAX).unwrap().pausing();
            let mut steps = Vec::new();
            for chunk in encoded.chunks(chunk) {
                let before = decoder.decoded().len();
                decoder.feed(Bytes::copy_from_slice(chunk)).unwrap();
                steps.push(decoder.decoded().len() - before);
                while decoder.is_paused() {
                    let before = decoder.decoded().len();
                    decoder.resume().unwrap();
                    steps.push(decoder.decoded().len() - before);
                }
            }
            assert!(steps.iter().all(|step| *step < STEP_BYTES + 2 * SCRATCH_BYTES), "{name}: {steps:?}");
            assert_eq!(decoder.finish().unwrap().len(), size, "{name}");
        }
    }
}

#[test]
fn declared_length_alone_takes_little_memory() {
    let mut decoder = Decoder::new(None, 100 * STEP_BYTES, 100 * STEP_BYTES).unwrap();
    for _ in 0..2 {
        decoder.feed(Bytes::from_static(b"x")).unwrap();
    }
    assert!(decoder.out.bytes.capacity() <= STEP_BYTES);
}
