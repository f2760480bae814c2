//! Reads a sitemap while it is downloaded, in bounded memory: decompresses it, decodes its characters, and collects its URLs.

use bytes::Bytes;
use encoding_rs::{CoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE};
use url::Url;

pub use super::document::Contents;
use super::document::Document;
use crate::fetch::http::decode::Decoder;

/// The most bytes of a file after decompression, by the sitemap protocol.
pub const MAX_BYTES: usize = 50 << 20;

/// The first bytes of a gzip file.
const GZIP_MAGIC: [u8; 3] = [0x1F, 0x8B, 8];

/// How much of a file is searched for the name of its encoding.
const MAX_DECLARATION: usize = 1024;

/// How many bytes are decoded at a time.
const PIECE_BYTES: usize = 16 << 10;

/// How many compressed bytes are decompressed at a time. They become at most 4 MB.
const COMPRESSED_PIECE_BYTES: usize = 4 << 10;

const DAMAGED: &str = "its compressed data is damaged, truncated or in too many parts";

/// Reads one sitemap.
pub struct SitemapReader {
    url: Url,
    input: Input,
    /// The number of bytes before decompression.
    received: usize,
}

enum Input {
    /// The first bytes do not show yet whether the file is compressed.
    Start(Vec<u8>, Box<TextDecoder>),
    Plain(Box<TextDecoder>),
    Gzip(Box<Decoder<'static>>, Box<TextDecoder>),
}

/// Decodes the characters of a sitemap.
struct TextDecoder {
    /// The start of the file, until its encoding is known.
    start: Vec<u8>,
    decoder: Option<encoding_rs::Decoder>,
    bytes: usize,
    document: Document,
}

impl SitemapReader {
    /// A reader of the sitemap at this URL.
    pub fn new(url: &Url) -> SitemapReader {
        let input = Input::Start(Vec::new(), Box::new(TextDecoder::new(url)));
        SitemapReader { url: url.clone(), input, received: 0 }
    }

    /// Reads the next bytes of the file, whatever their number. Returns whether more are wanted.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        self.received += bytes.len();
        if let Input::Start(start, _) = &mut self.input {
            start.extend(bytes);
            return start.len() < GZIP_MAGIC.len() || self.begin();
        }
        self.write(bytes)
    }

    /// The number of bytes read, before or after decompression, whichever is more.
    pub fn bytes(&self) -> usize {
        let (Input::Start(_, text) | Input::Plain(text) | Input::Gzip(_, text)) = &self.input;
        text.bytes.max(self.received)
    }

    /// What the file contains. `is_complete` is false if its end is missing.
    pub fn finish(mut self, is_complete: bool) -> Contents {
        if matches!(self.input, Input::Start(..)) {
            self.begin();
        }
        let mut text = match self.input {
            Input::Start(_, text) | Input::Plain(text) => *text,
            Input::Gzip(gzip, mut text) => {
                if gzip.finish().is_err() {
                    text.document.fail(DAMAGED);
                }
                *text
            }
        };
        text.finish();
        if !is_complete {
            text.document.fail("it is truncated");
        }
        text.document.contents
    }

    /// Decides from the first bytes whether the file is compressed.
    fn begin(&mut self) -> bool {
        let nothing = Input::Start(Vec::new(), Box::new(TextDecoder::new(&self.url)));
        let Input::Start(start, text) = std::mem::replace(&mut self.input, nothing) else { return true };
        let gzip = start.starts_with(&GZIP_MAGIC).then(|| Decoder::new(Some("gzip"), MAX_BYTES + 1, 0).ok());
        self.input = match gzip.flatten() {
            Some(gzip) => Input::Gzip(Box::new(gzip), text),
            None => Input::Plain(text),
        };
        self.write(&start)
    }

    fn write(&mut self, bytes: &[u8]) -> bool {
        match &mut self.input {
            Input::Start(_, text) | Input::Plain(text) => text.push(bytes),
            Input::Gzip(gzip, text) => {
                bytes.chunks(COMPRESSED_PIECE_BYTES).all(|piece| decompress(gzip, text, piece))
            }
        }
    }
}

/// Decompresses the next bytes of a file. Returns whether more are wanted.
fn decompress(gzip: &mut Decoder, text: &mut TextDecoder, bytes: &[u8]) -> bool {
    let fed = gzip.feed(Bytes::copy_from_slice(bytes));
    if !text.push(&gzip.take_decoded()) {
        return false;
    }
    if fed.is_err() {
        text.document.fail(DAMAGED);
    }
    fed.is_ok()
}

impl TextDecoder {
    fn new(url: &Url) -> TextDecoder {
        TextDecoder { start: Vec::new(), decoder: None, bytes: 0, document: Document::new(url.clone()) }
    }

    fn begin(&mut self) -> bool {
        let encoding = encoding_of(&self.start);
        self.decoder = Some(encoding.new_decoder_with_bom_removal());
        let start = std::mem::take(&mut self.start);
        self.decode(&start, false)
    }

    fn decode(&mut self, mut bytes: &[u8], is_last: bool) -> bool {
        let Some(decoder) = &mut self.decoder else { return true };
        loop {
            let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
            let is_last = is_last && piece.len() == bytes.len();
            let buffer = self.document.buffer();
            buffer.reserve(decoder.max_utf8_buffer_length(piece.len()).unwrap_or(4 * PIECE_BYTES));
            let (result, read, _) = decoder.decode_to_string(piece, buffer, is_last);
            bytes = &bytes[read..];
            if !self.document.read(is_last && result == CoderResult::InputEmpty) {
                return false;
            }
            if bytes.is_empty() && result == CoderResult::InputEmpty {
                return true;
            }
        }
    }

    /// Reads the next bytes. Returns whether more are wanted.
    fn push(&mut self, bytes: &[u8]) -> bool {
        self.bytes += bytes.len();
        if self.bytes > MAX_BYTES {
            self.document.fail(format!("it has more than {} MB", MAX_BYTES >> 20));
            return false;
        }
        if self.decoder.is_some() {
            return self.decode(bytes, false);
        }
        self.start.extend(bytes);
        self.start.len() < MAX_DECLARATION || self.begin()
    }

    fn finish(&mut self) {
        if self.decoder.is_none() {
            self.begin();
        }
        self.decode(&[], true);
    }
}

/// The encoding of a file: by its byte order mark, the zeros of UTF-16, or its XML declaration; otherwise UTF-8.
fn encoding_of(start: &[u8]) -> &'static Encoding {
    if let Some((encoding, _)) = Encoding::for_bom(start) {
        return encoding;
    }
    match start {
        [b'<' | b'h' | b' ' | b'\n', 0, ..] => return UTF_16LE,
        [0, b'<' | b'h' | b' ' | b'\n', ..] => return UTF_16BE,
        _ => {}
    }
    let declaration = start.strip_prefix(b"<?xml").and_then(|rest| rest.get(..memchr::memchr(b'>', rest)?));
    let named = declaration.and_then(|declaration| {
        let name = &declaration[memchr::memmem::find(declaration, b"encoding")? + "encoding".len()..];
        let quote = *name.iter().find(|byte| matches!(byte, b'"' | b'\''))?;
        Encoding::for_label(name.split(|byte| *byte == quote).nth(1)?)
    });
    // A declaration that can be read is not in UTF-16, whatever it says.
    named.filter(|encoding| ![UTF_16LE, UTF_16BE].contains(encoding)).unwrap_or(UTF_8)
}

#[cfg(test)]
mod tests;
