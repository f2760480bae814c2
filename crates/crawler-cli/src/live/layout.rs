//! Fits text into the columns of a terminal: pieces of a line are dropped, and long text is shortened, but nothing wraps.

use std::borrow::Cow;
use std::collections::VecDeque;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Between the pieces of a line.
pub const SEPARATOR: &str = " · ";

/// Takes the place of what was left out.
const ELLIPSIS: char = '…';

/// A part of a line that is shown as a whole, or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    text: String,
    /// Shown instead of the text where that does not fit, the longest first.
    shorter: VecDeque<String>,
    /// Of two pieces, the one with the higher rank is dropped first. One with rank 0 is never dropped.
    rank: u8,
}

impl Piece {
    /// A piece that is dropped before those of a lower rank.
    pub fn new(rank: u8, text: impl Into<String>) -> Piece {
        Piece { text: text.into(), shorter: VecDeque::new(), rank }
    }

    /// With a shorter text.
    pub fn or(mut self, shorter: impl Into<String>) -> Piece {
        self.shorter.push_back(shorter.into());
        self
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The columns that a text takes on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

/// The pieces in one line of at most this many columns.
pub fn fitted(mut pieces: Vec<Piece>, columns: usize) -> String {
    loop {
        let line = joined(&pieces);
        let last = pieces.iter().enumerate().filter(|(_, piece)| piece.rank > 0 || !piece.shorter.is_empty());
        let Some((index, _)) = last.max_by_key(|(_, piece)| piece.rank).filter(|_| width(&line) > columns)
        else {
            return shortened(&line, columns).into_owned();
        };
        match pieces[index].shorter.pop_front() {
            Some(shorter) => pieces[index].text = shorter,
            None => drop(pieces.remove(index)),
        }
    }
}

/// The pieces in one line, however long.
pub fn joined(pieces: &[Piece]) -> String {
    pieces.iter().map(Piece::text).collect::<Vec<_>>().join(SEPARATOR)
}

/// A text that ends with an ellipsis if it is wider than this many columns.
pub fn shortened(text: &str, columns: usize) -> Cow<'_, str> {
    match width(text) <= columns {
        true => Cow::Borrowed(text),
        false => Cow::Owned(start_of(text, columns.saturating_sub(1)) + &ellipsis(columns)),
    }
}

/// A text with an ellipsis in its middle if it is wider than this many columns: the start and the end of a URL say most.
pub fn shortened_in_the_middle(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let room = columns.saturating_sub(1);
    let end: String = text.chars().rev().collect();
    let end: String = start_of(&end, room / 2).chars().rev().collect();
    Cow::Owned(start_of(text, room - width(&end)) + &ellipsis(columns) + &end)
}

fn ellipsis(columns: usize) -> String {
    String::from_iter((columns > 0).then_some(ELLIPSIS))
}

/// As much of the start of a text as fits.
fn start_of(text: &str, columns: usize) -> String {
    let mut used = 0;
    let fits = |character: &char| {
        used += character.width().unwrap_or(0);
        used <= columns
    };
    text.chars().take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces() -> Vec<Piece> {
        vec![
            Piece::new(0, "268 of 10,000 pages").or("268 pages"),
            Piece::new(4, "11.8 of 50 MB"),
            Piece::new(3, "0:06"),
            Piece::new(1, "42 pages/s"),
            Piece::new(2, "about 3 m left"),
        ]
    }

    #[test]
    fn least_important_pieces_are_dropped_first() {
        for (columns, line) in [
            (80, "268 of 10,000 pages · 11.8 of 50 MB · 0:06 · 42 pages/s · about 3 m left"),
            (60, "268 of 10,000 pages · 0:06 · 42 pages/s · about 3 m left"),
            (50, "268 of 10,000 pages · 42 pages/s · about 3 m left"),
            (40, "268 of 10,000 pages · 42 pages/s"),
            (20, "268 of 10,000 pages"),
            (10, "268 pages"),
            (5, "268 …"),
            (1, "…"),
            (0, ""),
        ] {
            assert_eq!(fitted(pieces(), columns), line);
        }
        assert_eq!(fitted(Vec::new(), 10), "");
    }

    #[test]
    fn shortened_text_fits_whatever_it_contains() {
        for text in ["plain", "漢字漢字漢字", "e\u{301}e\u{301}e\u{301}e\u{301}", "👩‍👩‍👧👩‍👩‍👧", "ﷺﷺﷺﷺ", ""]
        {
            for columns in 0..20 {
                assert!(width(&shortened(text, columns)) <= columns, "{text} {columns}");
                assert!(width(&shortened_in_the_middle(text, columns)) <= columns, "{text} {columns}");
            }
        }
        assert_eq!(shortened("https://example.org/", 10), "https://e…");
        assert_eq!(shortened_in_the_middle("https://example.org/a/b/last.html", 21), "https://ex…/last.html");
        assert_eq!(shortened_in_the_middle("漢字漢字漢字", 6), "漢…字");
    }
}
