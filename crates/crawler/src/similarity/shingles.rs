//! Splits text into words and hashes every two consecutive words as a shingle.
//!
//! A word is a maximal run of letters and digits, in lower case; markup ends it. Words are never copied: their hashes
//! are computed byte by byte, for ASCII with a table.

use super::hash::{HashKey, fold};

/// Receives the hashes of the shingles of a page, with repetitions.
pub(super) trait ShingleSink {
    fn add(&mut self, shingle: u64);
}

/// Hashes the shingles of a page that is passed in runs of text.
pub(super) struct ShingleHasher<S> {
    key: HashKey,
    pub(super) shingles: S,
    /// The hash of the previous word.
    previous: Option<u64>,
    /// The hash of the current word so far.
    word: u64,
}

impl<S: ShingleSink> ShingleHasher<S> {
    pub(super) fn new(key: HashKey, shingles: S) -> Self {
        ShingleHasher { key, shingles, previous: None, word: key.start }
    }

    /// Adds the text between two tags: UTF-8 with character references.
    #[inline]
    pub(super) fn html_text(&mut self, run: &[u8]) {
        if !run.is_empty() {
            self.run::<true>(run);
        }
    }

    /// Adds plain text: UTF-8 without character references.
    pub(super) fn plain_text(&mut self, text: &[u8]) {
        self.run::<false>(text);
    }

    /// Adds a link target, given by its hash. It is one shingle: two URLs with a common part are different.
    pub(super) fn link_target(&mut self, hash: u128) {
        self.shingles.add(hash as u64);
    }

    #[inline(never)]
    fn run<const REFERENCES: bool>(&mut self, run: &[u8]) {
        let mut rest = run.iter();
        loop {
            // Most bytes take only this loop.
            let mut word = self.word;
            let class = loop {
                match rest.next().map(|&byte| CLASSES[usize::from(byte)]) {
                    Some(lower @ LETTERS..) => word = self.key.append(word, lower),
                    other => break other,
                }
            };
            self.word = word;
            let remaining = rest.len();
            let from_here = || &run[run.len() - remaining - 1..];
            match class {
                Some(REFERENCE) if REFERENCES => rest = self.reference(from_here()).iter(),
                Some(NON_ASCII) => rest = self.non_ascii(from_here()).iter(),
                Some(_) => self.end_word(),
                None => return self.end_word(),
            }
        }
    }

    #[inline]
    fn end_word(&mut self) {
        if self.word == self.key.start {
            return;
        }
        let word = fold(std::mem::replace(&mut self.word, self.key.start), self.key.end);
        if let Some(previous) = self.previous.replace(word) {
            self.shingles.add(fold(previous ^ self.key.first, word ^ self.key.second));
        }
    }

    fn character(&mut self, character: char) {
        if !character.is_alphanumeric() {
            return self.end_word();
        }
        for character in character.to_lowercase() {
            character
                .encode_utf8(&mut [0; 4])
                .bytes()
                .for_each(|byte| self.word = self.key.append(self.word, byte));
        }
    }

    /// Hashes the non-ASCII bytes at the start and returns the remaining ones.
    #[inline(never)]
    fn non_ascii<'r>(&mut self, run: &'r [u8]) -> &'r [u8] {
        let (text, rest) = run.split_at(run.iter().position(u8::is_ascii).unwrap_or(run.len()));
        for chunk in text.utf8_chunks() {
            chunk.valid().chars().for_each(|character| self.character(character));
            if !chunk.invalid().is_empty() {
                self.character(char::REPLACEMENT_CHARACTER);
            }
        }
        rest
    }

    /// Hashes the character reference at the start and returns the remaining bytes.
    #[inline(never)]
    fn reference<'r>(&mut self, run: &'r [u8]) -> &'r [u8] {
        let start = if run.get(1) == Some(&b'#') { 2 } else { 1 };
        let length = run[start..].iter().position(|byte| !byte.is_ascii_alphanumeric());
        let mut end = length.map_or(run.len(), |length| start + length);
        end += usize::from(run.get(end) == Some(&b';'));
        let (reference, rest) = run.split_at(end);
        match reference {
            // The most frequent references, none of which is part of a word.
            b"&lt;" | b"&gt;" | b"&amp;" | b"&quot;" | b"&nbsp;" => self.end_word(),
            _ => {
                let reference = str::from_utf8(reference).unwrap_or_default();
                htmlize::unescape(reference).chars().for_each(|character| self.character(character));
            }
        }
        rest
    }
}

const SEPARATOR: u8 = 0;
const REFERENCE: u8 = 1;
const NON_ASCII: u8 = 2;
/// The first class that is a letter or digit.
const LETTERS: u8 = b'0';

/// The class of each byte in text. The class of a letter or digit is its lower case.
const CLASSES: [u8; 256] = {
    let mut classes = [SEPARATOR; 256];
    let mut byte = 0;
    while byte < 256 {
        if byte >= 128 {
            classes[byte] = NON_ASCII;
        } else if (byte as u8).is_ascii_alphanumeric() {
            classes[byte] = (byte as u8).to_ascii_lowercase();
        }
        byte += 1;
    }
    classes[b'&' as usize] = REFERENCE;
    classes
};

#[cfg(test)]
mod tests;
