//! Finds the longest rule that matches a path. `*`, `$` and percent-encoding are known only here.
//!
//! A pattern consists of a literal *head* up to its first `*`, and a *tail* from there on. A rule can match a path only
//! if its head is a prefix of the path. So the heads are sorted, and each refers to its parent, the longest other head
//! that is a prefix of it. The heads that are prefixes of a path are then a chain that one binary search finds, and no
//! other rule is checked: ten thousand rules cost little more than ten. Where many rules have the same head, an index of
//! their tails finds those that may match.

mod tail_index;

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

use self::tail_index::TailIndex;
use super::allocation_size;

/// How many literals are searched for in one path, unless the last rule has more. If none of them decides, the URL counts as
/// disallowed. Without a limit, a hostile file would cost milliseconds for each of the site's URLs. Files of real sites need
/// some tens.
const MAX_SEARCHES: usize = 1_000;

/// Represents the wildcard `*` in a compiled pattern, where `*` itself is a literal. No normalized text contains it.
const WILDCARD: u8 = 0;

/// The precedence of a rule: longer before shorter, and Allow before Disallow of the same length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Precedence {
    bytes: usize,
    allow: bool,
}

/// One Allow or Disallow line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    head: Box<[u8]>,
    tail: Tail,
    precedence: Precedence,
}

impl Rule {
    pub(super) fn compile(pattern: &[u8], allow: bool) -> Rule {
        let (pattern, anchored) = match pattern.strip_suffix(b"$") {
            Some(pattern) => (pattern, true),
            None => (pattern, false),
        };
        let mut compiled = Vec::with_capacity(pattern.len());
        let mut repeated = 0;
        let mut position = 0;
        while position < pattern.len() {
            if pattern[position] != b'*' {
                position += push_normalized(&pattern[position..], &mut compiled);
                continue;
            }
            position += 1;
            if compiled.last() == Some(&WILDCARD) {
                repeated += 1;
            } else {
                compiled.push(WILDCARD);
            }
        }
        let bytes = compiled.len() + repeated + usize::from(anchored);
        let (head, tail) = compiled.split_at(memchr::memchr(WILDCARD, &compiled).unwrap_or(compiled.len()));
        Rule {
            head: head.into(),
            tail: Tail { literals: tail.into(), anchored },
            precedence: Precedence { bytes, allow },
        }
    }
}

/// The pattern after its head: empty, or literals that each follow a `WILDCARD`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Tail {
    literals: Box<[u8]>,
    anchored: bool,
}

impl Tail {
    /// Whether the tail matches the remaining path. Taking the first occurrence of each literal leaves the most room
    /// for the others, so no backtracking is needed and the path is scanned once. Counts the searches.
    fn matches(&self, mut rest: &[u8], searches: &mut usize) -> bool {
        *searches += 1;
        let mut literals = self.literals_to_find();
        let Some(last) = literals.next_back() else {
            return rest.is_empty() || !self.anchored;
        };
        for literal in literals {
            *searches += 1;
            match memmem::find(rest, literal) {
                Some(position) => rest = &rest[position + literal.len()..],
                None => return false,
            }
        }
        if self.anchored { rest.ends_with(last) } else { memmem::find(rest, last).is_some() }
    }

    /// The literals, each after a wildcard. They may be empty.
    fn literals_to_find(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        let literals = self.literals.split_first().map(|(_, literals)| literals);
        literals.into_iter().flat_map(|literals| literals.split(|byte| *byte == WILDCARD))
    }
}

/// All rules of a group, compiled.
#[derive(Clone, Debug, Default)]
pub(super) struct Patterns {
    /// Sorted, without duplicates.
    heads: Vec<PatternHead>,
    /// By head, those with the highest precedence first.
    rules: Vec<(Precedence, Tail)>,
}

#[derive(Clone, Debug)]
struct PatternHead {
    text: Box<[u8]>,
    rules: Range<usize>,
    /// Finds its rules, if they are many.
    index: Option<Box<TailIndex>>,
    /// The longest other head that is a prefix of this one.
    parent: Option<usize>,
}

impl Patterns {
    pub(super) fn new(mut rules: Vec<Rule>) -> Patterns {
        rules
            .sort_unstable_by(|a, b| (&a.head, b.precedence, &a.tail).cmp(&(&b.head, a.precedence, &b.tail)));
        rules.dedup();

        let mut patterns = Patterns::default();
        for Rule { head, tail, precedence } in rules {
            patterns.rules.push((precedence, tail));
            let end = patterns.rules.len();
            match patterns.heads.last_mut() {
                Some(last) if last.text == head => last.rules.end = end,
                _ => {
                    let parent = patterns.chain(patterns.heads.len().checked_sub(1), &head).next();
                    patterns.heads.push(PatternHead { text: head, rules: end - 1..end, index: None, parent });
                }
            }
        }
        for head in &mut patterns.heads {
            head.index = TailIndex::new(patterns.rules[head.rules.clone()].iter().map(|(_, tail)| tail));
        }
        // Rules are cached for a day, and files with sixty thousand rules exist.
        patterns.heads.shrink_to_fit();
        patterns.rules.shrink_to_fit();
        patterns
    }

    /// Memory used in addition to the struct itself, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let heads = self.heads.iter().map(|head| {
            let index = head.index.as_ref().map_or(0, |index| index.bytes());
            size_of::<PatternHead>() + allocation_size(head.text.len()) + index
        });
        let rules = self
            .rules
            .iter()
            .map(|(_, tail)| size_of::<(Precedence, Tail)>() + allocation_size(tail.literals.len()));
        heads.sum::<usize>() + rules.sum::<usize>()
    }

    /// Whether the rules allow this path and query.
    pub(super) fn allow(&self, path: &[u8]) -> bool {
        self.decide(path, &mut 0)
    }

    /// The same, and counts the searches for literals.
    pub(super) fn decide(&self, path: &[u8], searches: &mut usize) -> bool {
        let path = normalize(path);
        // Every head that is a prefix of the path sorts before the path, and is a prefix of everything that sorts
        // between the two. So they are all ancestors of the last head before the path, or that head itself.
        let last_before = self.heads.partition_point(|head| *head.text <= *path).checked_sub(1);
        let mut best: Option<Precedence> = None;
        for index in self.chain(last_before, &path) {
            let head = &self.heads[index];
            let (rules, rest) = (&self.rules[head.rules.clone()], &path[head.text.len()..]);
            let found = match &head.index {
                Some(index) => {
                    let candidates = index.candidates(rest, MAX_SEARCHES + 1);
                    let candidates = candidates.iter().map(|rule| &rules[*rule as usize]);
                    best_match(candidates, rest, best, searches)
                }
                None => best_match(rules.iter(), rest, best, searches),
            };
            match found {
                Ok(found) => best = found,
                Err(TooManySearches) => return false,
            }
        }
        best.is_none_or(|precedence| precedence.allow)
    }

    /// The head and its ancestors that are prefixes of `text`, the longest first.
    fn chain(&self, from: Option<usize>, text: &[u8]) -> impl Iterator<Item = usize> {
        let common = from.map_or(0, |index| common_prefix_len(&self.heads[index].text, text));
        std::iter::successors(from, |index| self.heads[*index].parent)
            .skip_while(move |index| self.heads[*index].text.len() > common)
    }
}

/// There was no match before [`MAX_SEARCHES`].
struct TooManySearches;

/// The precedence of the first rule that matches the remaining path, or `best` if none of a higher precedence does. The rules are
/// sorted by precedence.
fn best_match<'r>(
    rules: impl Iterator<Item = &'r (Precedence, Tail)>,
    rest: &[u8],
    best: Option<Precedence>,
    searches: &mut usize,
) -> Result<Option<Precedence>, TooManySearches> {
    for (precedence, tail) in rules.take_while(|(precedence, _)| Some(*precedence) > best) {
        if *searches >= MAX_SEARCHES {
            return Err(TooManySearches);
        }
        if tail.matches(rest, searches) {
            return Ok(Some(*precedence));
        }
    }
    Ok(best)
}

fn common_prefix_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Normalizes a path for comparison, so that `/%7Ea`, `/%7ea` and `/~a` are equal.
///
/// Bytes that a URL must encode are percent-encoded in upper case, bytes that need no encoding are decoded, and
/// reserved characters, which mean something else when encoded (`%2F` and `/`), stay as they are.
fn normalize(path: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = first_unnormalized(path) else {
        return Cow::Borrowed(path);
    };
    let mut normalized = Vec::with_capacity(path.len() + 16);
    normalized.extend_from_slice(&path[..first]);
    let mut position = first;
    while position < path.len() {
        position += push_normalized(&path[position..], &mut normalized);
    }
    Cow::Owned(normalized)
}

/// The position from which a text is not normalized; `None` for most texts, which then need no copy.
fn first_unnormalized(text: &[u8]) -> Option<usize> {
    let mut position = 0;
    while position < text.len() {
        position += match (text[position], percent_decoded(&text[position..])) {
            (_, Some(byte))
                if !is_unreserved(byte)
                    && !text[position..position + 3].iter().any(u8::is_ascii_lowercase) =>
            {
                3
            }
            (b'%', None) => 1,
            (byte, None) if NEEDS_NO_ENCODING[usize::from(byte)] => 1,
            _ => return Some(position),
        };
    }
    None
}

/// Appends the normalized first character of `text`, and returns its length in `text`.
fn push_normalized(text: &[u8], normalized: &mut Vec<u8>) -> usize {
    match (text[0], percent_decoded(text)) {
        (_, Some(byte)) => {
            if is_unreserved(byte) {
                normalized.push(byte);
            } else {
                push_percent_encoded(byte, normalized);
            }
            return 3;
        }
        // Unchanged, so that `/*%` matches all paths with a percent-encoded byte.
        (b'%', None) => normalized.push(b'%'),
        (byte, None) if NEEDS_NO_ENCODING[usize::from(byte)] => normalized.push(byte),
        (byte, None) => push_percent_encoded(byte, normalized),
    }
    1
}

fn push_percent_encoded(byte: u8, normalized: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    normalized.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// The byte that the percent-encoding at the start of a text represents, if there is one.
fn percent_decoded(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = text else {
        return None;
    };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()
}

/// Whether a byte means the same encoded or not: RFC 3986's unreserved characters and three more. `*` and `$` are
/// literals in a pattern only if encoded, and the URL standard encodes `'` in queries only.
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'*' | b'$' | b'\'')
}

/// The bytes that need no encoding in a URL: unreserved and reserved characters.
const NEEDS_NO_ENCODING: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        let code = byte as u8;
        table[byte] = is_unreserved(code)
            || matches!(code, b':' | b'/' | b'?' | b'#' | b'[' | b']' | b'@')
            || matches!(code, b'!' | b'&' | b'(' | b')' | b'+' | b',' | b';' | b'=');
        byte += 1;
    }
    table
};
