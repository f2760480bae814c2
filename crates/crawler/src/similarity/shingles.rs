//! Splits text into words and hashes every two that follow each other. Only this file knows what a word is.
//!
//! A word is a maximal run of letters and digits, in lower case; markup ends it. Words are never copied: the
//! hash of one grows byte by byte, from a table where it is ASCII.

use super::hash::{HashKey, fold};

/// Receives the sequences of a page by their hashes, each as often as it is met.
pub(super) trait ShingleSink {
    fn add(&mut self, sequence: u64);
}

/// The sequences of a page that is read piece by piece.
pub(super) struct ShingleHasher<S> {
    key: HashKey,
    pub(super) sequences: S,
    /// The hash of the word before this one.
    previous: Option<u64>,
    /// The hash of this word so far.
    word: u64,
}

impl<S: ShingleSink> ShingleHasher<S> {
    pub(super) fn new(key: HashKey, sequences: S) -> Self {
        ShingleHasher { key, sequences, previous: None, word: key.start }
    }

    /// Adds the text between two tags: UTF-8, with character references.
    #[inline]
    pub(super) fn html_text(&mut self, run: &[u8]) {
        if !run.is_empty() {
            self.run::<true>(run);
        }
    }

    /// Adds text that is only text: UTF-8, in which `&` means itself.
    pub(super) fn plain_text(&mut self, text: &[u8]) {
        self.run::<false>(text);
    }

    /// Adds where the page points to. A target is a sequence by itself: a URL is a name, and to share half of
    /// it with another means nothing.
    pub(super) fn target(&mut self, url: &str) {
        self.sequences.add(self.key.hash(url.as_bytes()) as u64);
    }

    #[inline(never)]
    fn run<const REFERENCES: bool>(&mut self, run: &[u8]) {
        let mut rest = run.iter();
        loop {
            // Most bytes do no more than this.
            let mut word = self.word;
            let meaning = loop {
                match rest.next().map(|&byte| MEANING[usize::from(byte)]) {
                    Some(lower @ LETTERS..) => word = self.key.append(word, lower),
                    other => break other,
                }
            };
            self.word = word;
            let after = rest.len();
            let from_here = || &run[run.len() - after - 1..];
            match meaning {
                Some(REFERENCE) if REFERENCES => rest = self.reference(from_here()).iter(),
                Some(BEYOND_ASCII) => rest = self.beyond_ascii(from_here()).iter(),
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
            self.sequences.add(fold(previous ^ self.key.first, word ^ self.key.second));
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

    /// Reads the bytes at the start that are not ASCII; returns those after.
    #[inline(never)]
    fn beyond_ascii<'r>(&mut self, run: &'r [u8]) -> &'r [u8] {
        let (these, rest) = run.split_at(run.iter().position(u8::is_ascii).unwrap_or(run.len()));
        for piece in these.utf8_chunks() {
            piece.valid().chars().for_each(|character| self.character(character));
            if !piece.invalid().is_empty() {
                self.character(char::REPLACEMENT_CHARACTER);
            }
        }
        rest
    }

    /// Reads the `&` at the start and what belongs to it; returns the bytes after.
    #[inline(never)]
    fn reference<'r>(&mut self, run: &'r [u8]) -> &'r [u8] {
        let start = if run.get(1) == Some(&b'#') { 2 } else { 1 };
        let length = run[start..].iter().position(|byte| !byte.is_ascii_alphanumeric());
        let mut end = length.map_or(run.len(), |length| start + length);
        end += usize::from(run.get(end) == Some(&b';'));
        let (reference, rest) = run.split_at(end);
        match reference {
            // By far the most of all references, and none is part of a word.
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
const BEYOND_ASCII: u8 = 2;
/// The first byte that means itself.
const LETTERS: u8 = b'0';

/// What each byte means in text: for letters and digits, themselves in lower case.
const MEANING: [u8; 256] = {
    let mut meaning = [SEPARATOR; 256];
    let mut byte = 0;
    while byte < 256 {
        if byte >= 128 {
            meaning[byte] = BEYOND_ASCII;
        } else if (byte as u8).is_ascii_alphanumeric() {
            meaning[byte] = (byte as u8).to_ascii_lowercase();
        }
        byte += 1;
    }
    meaning[b'&' as usize] = REFERENCE;
    meaning
};

#[cfg(test)]
mod tests;
