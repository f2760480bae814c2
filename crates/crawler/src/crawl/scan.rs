//! Finds the links in a page's text; only this file knows what counts as a link.

use super::workers::Scanner;
use memchr::memmem;
use std::borrow::Cow;

/// What counts as a link on a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// A word that begins with `link:`, at the start of the text or after white space. Blanks (spaces and tabs)
    /// after the colon are skipped, and the target is everything up to the next white space (space, tab, line
    /// feed, vertical tab, form feed, carriage return). An empty target is no link. Targets are opaque bytes:
    /// case-sensitive, of any length, not necessarily UTF-8, never processed as URLs.
    #[default]
    Words,
}

const LINK_WORD: &[u8] = b"link:";

impl Links {
    pub(super) fn scanner(self) -> Scanner {
        match self {
            Links::Words => words,
        }
    }

    /// The start link as it would be written if it were found on a page, so that it is not fetched again then.
    pub(super) fn start(self, link: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Links::Words => Cow::Borrowed(link),
        }
    }
}

/// The `link:` rule.
fn words(_page: &[u8], text: &[u8], found: &mut dyn FnMut(&[u8])) {
    let finder = memmem::Finder::new(LINK_WORD);
    let mut at = 0;
    while let Some(distance) = finder.find(&text[at..]) {
        let word = at + distance;
        at = word + LINK_WORD.len();
        if word > 0 && !is_white_space(text[word - 1]) {
            continue;
        }
        let start = end_of(text, at, |byte| matches!(byte, b' ' | b'\t'));
        at = end_of(text, start, |byte| !is_white_space(byte));
        if start < at {
            found(&text[start..at]);
        }
    }
}

/// Where the run of bytes that are `within` ends that begins at `start`.
fn end_of(text: &[u8], start: usize, within: impl Fn(u8) -> bool) -> usize {
    text[start..].iter().position(|&byte| !within(byte)).map_or(text.len(), |length| start + length)
}

/// As `isspace` in the C locale: unlike `is_ascii_whitespace`, with the vertical tab.
fn is_white_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}
