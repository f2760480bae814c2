//! How the records of an archive file are stored: each in a gzip member or zstd frame of its own, or as they are.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::path::Path;

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

use super::stream::GZIP_MAGIC;

/// The level of gzip members. On pages of documentation, level 3 takes 0.7 × the CPU time of level 6 for 4 % more bytes; level 2
/// takes 0.5 × of it for 10 % more.
const GZIP_LEVEL: u32 = 3;

/// The level of zstd frames, the default of the `zstd` command: half the time of gzip to compress, and as many bytes.
const ZSTD_LEVEL: i32 = 3;

/// The rest of a member's header after its first bytes: no flags and no time, so that equal records give equal bytes; an
/// unknown operating system.
const GZIP_HEADER_END: [u8; 7] = [0, 0, 0, 0, 0, 0, 255];

/// Room for the end of a member, beyond what its content takes.
const MIN_ROOM: usize = 512;

/// How records are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// As they are: `.warc`.
    Plain,
    /// In gzip members: `.warc.gz`.
    Gzip,
    /// In zstd frames: `.warc.zst`.
    Zstd,
}

impl Encoding {
    const ALL: [Encoding; 3] = [Encoding::Gzip, Encoding::Zstd, Encoding::Plain];

    /// The end of the names of such files.
    pub fn extension(self) -> &'static str {
        match self {
            Encoding::Plain => ".warc",
            Encoding::Gzip => ".warc.gz",
            Encoding::Zstd => ".warc.zst",
        }
    }

    /// The encoding that the name of a file says, and the name without its extension. `None` if it has another one.
    pub fn from_path(path: &Path) -> Option<(Encoding, &str)> {
        let name = path.file_name().and_then(OsStr::to_str)?;
        Encoding::ALL.into_iter().find_map(|encoding| {
            let stem = name.strip_suffix(encoding.extension()).filter(|stem| !stem.is_empty())?;
            Some((encoding, stem))
        })
    }

    /// Appends a record, given in pieces.
    pub(super) fn push(self, out: &mut Vec<u8>, pieces: &[&[u8]]) {
        match self {
            Encoding::Plain => pieces.iter().for_each(|piece| out.extend_from_slice(piece)),
            Encoding::Gzip => GZIP.with_borrow_mut(|codec| push_gzip(codec, out, pieces)),
            Encoding::Zstd => ZSTD.with_borrow_mut(|codec| push_zstd(codec.as_mut(), out, pieces)),
        }
    }
}

thread_local! {
    // A codec has some hundred kilobytes of tables, which take longer to allocate than a small record to compress.
    static GZIP: RefCell<Compress> = RefCell::new(Compress::new(Compression::new(GZIP_LEVEL), false));
    static ZSTD: RefCell<Option<zstd::bulk::Compressor<'static>>> = RefCell::new(zstd::bulk::Compressor::new(ZSTD_LEVEL).ok());
}

fn push_gzip(codec: &mut Compress, out: &mut Vec<u8>, pieces: &[&[u8]]) {
    out.extend_from_slice(&GZIP_MAGIC);
    out.extend_from_slice(&GZIP_HEADER_END);
    codec.reset();
    let mut checksum = Crc::new();
    for piece in pieces {
        checksum.update(piece);
        let mut rest = *piece;
        while !rest.is_empty() {
            out.reserve(rest.len() / 2 + MIN_ROOM);
            let before = codec.total_in();
            let compressed = codec.compress_vec(rest, out, FlushCompress::None);
            compressed.expect("a new stream takes any bytes");
            rest = &rest[usize::try_from(codec.total_in() - before).unwrap_or(rest.len())..];
        }
    }
    loop {
        out.reserve(MIN_ROOM);
        let finished = codec.compress_vec(&[], out, FlushCompress::Finish);
        if finished.expect("a stream can be finished once") == Status::StreamEnd {
            break;
        }
    }
    out.extend_from_slice(&checksum.sum().to_le_bytes());
    out.extend_from_slice(&checksum.amount().to_le_bytes());
}

/// A frame without compression would be a defect, so that a codec that cannot be used is one, too.
fn push_zstd(codec: Option<&mut zstd::bulk::Compressor>, out: &mut Vec<u8>, pieces: &[&[u8]]) {
    let codec = codec.expect("level 3 is a level of zstd");
    let frame = codec.compress(&pieces.concat());
    out.extend(frame.expect("the buffer of a frame is as large as the frame can be"));
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn name_of_a_file_says_how_it_is_stored() {
        for (name, expected) in [
            ("/a/crawl.warc.gz", Some((Encoding::Gzip, "crawl"))),
            ("crawl.warc", Some((Encoding::Plain, "crawl"))),
            ("a.b.warc.zst", Some((Encoding::Zstd, "a.b"))),
            ("crawl", None),
            ("crawl.gz", None),
            (".warc.gz", None),
        ] {
            assert_eq!(Encoding::from_path(Path::new(name)), expected, "{name}");
        }
    }

    #[test]
    fn record_is_a_member_of_its_own_and_always_the_same_bytes() {
        let noise: Vec<u8> = (0..200_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let zeros = vec![0; 3_000_000];
        for content in [&b""[..], b"a record", &noise, &zeros] {
            let halves = content.split_at(content.len() / 3);
            let mut out = Vec::new();
            Encoding::Gzip.push(&mut out, &[halves.0, halves.1]);
            let length = out.len();
            Encoding::Gzip.push(&mut out, &[halves.0, halves.1]);
            assert_eq!(out[..length], out[length..]);
            let mut decoded = Vec::new();
            // It stops after one member, whose checksum it verifies.
            flate2::read::GzDecoder::new(&out[..]).read_to_end(&mut decoded).unwrap();
            assert!(decoded == content, "{} bytes", content.len());
            let mut frame = Vec::new();
            Encoding::Zstd.push(&mut frame, &[halves.0, halves.1]);
            assert!(zstd::decode_all(&frame[..]).unwrap() == content);
        }
    }
}
