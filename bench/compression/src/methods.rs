//! The compression methods.

use std::io;

use lz4_flex::block::{self, CompressTable};
use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};

/// Compresses or decompresses a page. May keep state between pages.
type Step<Result> = Box<dyn FnMut(&[u8]) -> Result>;

pub struct Method {
    pub name: String,
    pub compress: Step<Box<[u8]>>,
    pub decompress: Step<Vec<u8>>,
}

const LEVELS: [i32; 5] = [-7, -5, -3, -1, 1];

/// The levels with a dictionary.
const DICTIONARY_LEVELS: [i32; 3] = [-7, -5, -1];

/// Small, because it competes for the CPU cache.
const DICTIONARY_BYTES: usize = 16 << 10;

/// All methods. Dictionaries are trained on `own` pages of the site, the best case, and on pages of `other` sites, like
/// a dictionary shipped with the program.
pub fn all(own: &[Vec<u8>], other: &[Vec<u8>]) -> io::Result<Vec<Method>> {
    let mut methods = vec![raw(), lz4_fresh(), lz4_reused()];
    methods.extend(LEVELS.map(zstd_fresh));
    for level in LEVELS {
        methods.push(zstd_reused(level)?);
    }
    for (kind, samples) in [("own", own), ("other", other)] {
        if samples.is_empty() {
            continue;
        }
        let dictionary = zstd::dict::from_samples(samples, DICTIONARY_BYTES)?;
        for level in DICTIONARY_LEVELS {
            methods.push(zstd_dictionary(level, kind, &dictionary)?);
        }
    }
    Ok(methods)
}

fn raw() -> Method {
    Method {
        name: "raw".into(),
        compress: Box::new(|page| page.into()),
        decompress: Box::new(<[u8]>::to_vec),
    }
}

fn lz4_fresh() -> Method {
    Method {
        name: "lz4 fresh".into(),
        compress: Box::new(|page| block::compress_prepend_size(page).into_boxed_slice()),
        decompress: Box::new(lz4_decompress),
    }
}

fn lz4_reused() -> Method {
    // The small table is faster to clear, but supports only small pages.
    let (mut small, mut large) = (CompressTable::small(), CompressTable::large());
    let mut buffer = Vec::new();
    Method {
        name: "lz4 reused".into(),
        compress: Box::new(move |page| {
            let room = 4 + block::get_maximum_output_size(page.len());
            if buffer.len() < room {
                buffer.resize(room, 0);
            }
            buffer[..4].copy_from_slice(&(page.len() as u32).to_le_bytes());
            let table = if page.len() < usize::from(u16::MAX) { &mut small } else { &mut large };
            let length = block::compress_into_with_table(page, &mut buffer[4..], table).expect("the buffer is large enough");
            buffer[..4 + length].into()
        }),
        decompress: Box::new(lz4_decompress),
    }
}

fn lz4_decompress(stored: &[u8]) -> Vec<u8> {
    block::decompress_size_prepended(stored).expect("a valid page")
}

fn zstd_fresh(level: i32) -> Method {
    Method {
        name: format!("zstd {level} fresh"),
        compress: Box::new(move |page| {
            zstd::bulk::compress(page, level).expect("the buffer is large enough").into_boxed_slice()
        }),
        decompress: Box::new(|stored| zstd::stream::decode_all(stored).expect("a valid page")),
    }
}

fn zstd_reused(level: i32) -> io::Result<Method> {
    Ok(zstd_with(format!("zstd {level} reused"), Compressor::new(level)?, Decompressor::new()?))
}

fn zstd_dictionary(level: i32, kind: &str, dictionary: &[u8]) -> io::Result<Method> {
    // Dictionaries live as long as the process.
    let encoder = Box::leak(Box::new(EncoderDictionary::try_copy(dictionary, level)?));
    let decoder = Box::leak(Box::new(DecoderDictionary::try_copy(dictionary)?));
    Ok(zstd_with(
        format!("zstd {level} {kind} dictionary"),
        Compressor::with_prepared_dictionary(encoder)?,
        Decompressor::with_prepared_dictionary(decoder)?,
    ))
}

fn zstd_with(
    name: String,
    mut compressor: Compressor<'static>,
    mut decompressor: Decompressor<'static>,
) -> Method {
    let mut buffer = Vec::new();
    Method {
        name,
        compress: Box::new(move |page| {
            buffer.clear();
            buffer.reserve(zstd::zstd_safe::compress_bound(page.len()));
            compressor.compress_to_buffer(page, &mut buffer).expect("the buffer is large enough");
            buffer.as_slice().into()
        }),
        decompress: Box::new(move |stored| {
            let length = zstd::zstd_safe::get_frame_content_size(stored);
            let length = length.ok().flatten().expect("a content size") as usize;
            decompressor.decompress(stored, length).expect("a valid page")
        }),
    }
}
