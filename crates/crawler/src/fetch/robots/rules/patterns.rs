//! Finds the longest rule that matches a path; only here are `*`, `$` and percent-encoding known.
//!
//! A pattern is a literal *head* up to its first `*`, and a *tail* from there on. A rule can only match a
//! path that begins with its head, so rules are kept by head, in order, each head pointing at the longest
//! other head it begins with. The heads a path begins with are then a chain that one binary search finds,
//! and no other rule is looked at: ten thousand rules cost little more than ten.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

use super::allocated;

/// Stands for `*` in a compiled pattern, where `*` itself may be an octet to compare. No text in normal
/// form contains it.
const ANYTHING: u8 = 0;

/// How much a rule counts: the longest first, and Allow before Disallow of the same length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Weight {
    octets: usize,
    allow: bool,
}

/// One Allow or Disallow line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    head: Box<[u8]>,
    tail: Tail,
    weight: Weight,
}

impl Rule {
    pub(super) fn compile(pattern: &[u8], allow: bool) -> Rule {
        let (pattern, anchored) = match pattern.strip_suffix(b"$") {
            Some(pattern) => (pattern, true),
            None => (pattern, false),
        };
        let mut compiled = Vec::with_capacity(pattern.len());
        let mut repeated = 0;
        let mut at = 0;
        while at < pattern.len() {
            if pattern[at] != b'*' {
                at += push_normal(&pattern[at..], &mut compiled);
                continue;
            }
            at += 1;
            if compiled.last() == Some(&ANYTHING) {
                repeated += 1;
            } else {
                compiled.push(ANYTHING);
            }
        }
        let octets = compiled.len() + repeated + usize::from(anchored);
        let (head, tail) = compiled.split_at(memchr::memchr(ANYTHING, &compiled).unwrap_or(compiled.len()));
        Rule {
            head: head.into(),
            tail: Tail { pieces: tail.into(), anchored },
            weight: Weight { octets, allow },
        }
    }
}

/// What a pattern wants of the path after its head: nothing, or `ANYTHING` and a piece, again and again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Tail {
    pieces: Box<[u8]>,
    anchored: bool,
}

impl Tail {
    /// As anything may stand between two pieces, the first place where a piece is found leaves the most
    /// room for the others: there is never a reason to go back, and the path is passed over once.
    fn matches(&self, mut rest: &[u8]) -> bool {
        let Some((&ANYTHING, pieces)) = self.pieces.split_first() else {
            return rest.is_empty() || !self.anchored;
        };
        let mut pieces = pieces.split(|octet| *octet == ANYTHING);
        let last = pieces.next_back().unwrap_or_default();
        for piece in pieces {
            match memmem::find(rest, piece) {
                Some(found) => rest = &rest[found + piece.len()..],
                None => return false,
            }
        }
        if self.anchored { rest.ends_with(last) } else { memmem::find(rest, last).is_some() }
    }
}

/// All rules of a group, ready to be asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Patterns {
    /// In the order of their octets, each once.
    heads: Vec<Head>,
    /// By head, the weightiest of each head first.
    rules: Vec<(Weight, Tail)>,
}

#[derive(Clone, Debug)]
struct Head {
    text: Box<[u8]>,
    rules: Range<usize>,
    /// The longest other head that this one begins with.
    parent: Option<usize>,
}

impl Patterns {
    pub(super) fn new(mut rules: Vec<Rule>) -> Patterns {
        rules.sort_unstable_by(|a, b| (&a.head, b.weight, &a.tail).cmp(&(&b.head, a.weight, &b.tail)));
        rules.dedup();

        let mut patterns = Patterns::default();
        for Rule { head, tail, weight } in rules {
            patterns.rules.push((weight, tail));
            let end = patterns.rules.len();
            match patterns.heads.last_mut() {
                Some(last) if last.text == head => last.rules.end = end,
                _ => {
                    let parent = patterns.chain(patterns.heads.len().checked_sub(1), &head).next();
                    patterns.heads.push(Head { text: head, rules: end - 1..end, parent });
                }
            }
        }
        // They are kept for long, and files of sixty thousand rules exist.
        patterns.heads.shrink_to_fit();
        patterns.rules.shrink_to_fit();
        patterns
    }

    /// How many bytes they take besides the struct itself.
    pub(super) fn bytes(&self) -> usize {
        let heads = self.heads.iter().map(|head| size_of::<Head>() + allocated(head.text.len()));
        let rules =
            self.rules.iter().map(|(_, tail)| size_of::<(Weight, Tail)>() + allocated(tail.pieces.len()));
        heads.sum::<usize>() + rules.sum::<usize>()
    }

    /// Whether a page with this path and query may be fetched.
    pub(super) fn allow(&self, path: &[u8]) -> bool {
        let path = normal_form(path);
        // Every head that the path begins with is in order before the path, and whatever lies in order
        // between the two begins with it as well: so the last head before the path has them all as
        // ancestors, or is one itself.
        let nearest = self.heads.partition_point(|head| *head.text <= *path).checked_sub(1);
        let mut best: Option<Weight> = None;
        for index in self.chain(nearest, &path) {
            let head = &self.heads[index];
            let rest = &path[head.text.len()..];
            let matching = self.rules[head.rules.clone()]
                .iter()
                .take_while(|(weight, _)| Some(*weight) > best)
                .find(|(_, tail)| tail.matches(rest));
            best = matching.map(|(weight, _)| *weight).or(best);
        }
        best.is_none_or(|weight| weight.allow)
    }

    /// Those of a head and its ancestors that `text` begins with, the longest first.
    fn chain(&self, from: Option<usize>, text: &[u8]) -> impl Iterator<Item = usize> {
        let shared = from.map_or(0, |index| shared_octets(&self.heads[index].text, text));
        std::iter::successors(from, |index| self.heads[*index].parent)
            .skip_while(move |index| self.heads[*index].text.len() > shared)
    }
}

fn shared_octets(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The one spelling under which paths and patterns are compared, so that `/%7Ea`, `/%7ea` and `/~a` are one.
///
/// What a URL may not contain as it stands is percent-encoded, in upper case; what need not be encoded is
/// not; what means something else when encoded (`%2F` and `/`) stays as it was written.
fn normal_form(path: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = first_abnormal(path) else {
        return Cow::Borrowed(path);
    };
    let mut normal = Vec::with_capacity(path.len() + 16);
    normal.extend_from_slice(&path[..first]);
    let mut at = first;
    while at < path.len() {
        at += push_normal(&path[at..], &mut normal);
    }
    Cow::Owned(normal)
}

/// Where a text stops being in normal form. Most never do, and then nothing needs to be copied.
fn first_abnormal(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < text.len() {
        at += match (text[at], escaped(&text[at..])) {
            (_, Some(octet)) if !is_plain(octet) && !text[at..at + 3].iter().any(u8::is_ascii_lowercase) => 3,
            (b'%', None) => 1,
            (octet, None) if STANDS[usize::from(octet)] => 1,
            _ => return Some(at),
        };
    }
    None
}

/// Appends the normal form of the first octet of `text`, and returns how long it was there.
fn push_normal(text: &[u8], normal: &mut Vec<u8>) -> usize {
    match (text[0], escaped(text)) {
        (_, Some(octet)) => {
            if is_plain(octet) {
                normal.push(octet);
            } else {
                push_escaped(octet, normal);
            }
            return 3;
        }
        // Kept, so that `/*%` can speak of all paths with something encoded.
        (b'%', None) => normal.push(b'%'),
        (octet, None) if STANDS[usize::from(octet)] => normal.push(octet),
        (octet, None) => push_escaped(octet, normal),
    }
    1
}

fn push_escaped(octet: u8, normal: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    normal.extend([b'%', DIGITS[usize::from(octet >> 4)], DIGITS[usize::from(octet & 15)]]);
}

/// The octet that a text beginning with `%` and two digits begins with.
fn escaped(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = text else {
        return None;
    };
    let digit = |octet: u8| char::from(octet).to_digit(16);
    u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()
}

/// What is the same encoded or not: RFC 3986's unreserved octets, and three more. `*` and `$` can be meant
/// literally in a pattern only by encoding them, and `'` is encoded by the URL standard in queries alone.
const fn is_plain(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.' | b'_' | b'~' | b'*' | b'$' | b'\'')
}

/// The octets that may stand in a URL as they are: plain or reserved.
const STANDS: [bool; 256] = {
    let mut stands = [false; 256];
    let mut octet = 0;
    while octet < 128 {
        let code = octet as u8;
        stands[octet] = is_plain(code)
            || matches!(code, b':' | b'/' | b'?' | b'#' | b'[' | b']' | b'@')
            || matches!(code, b'!' | b'&' | b'(' | b')' | b'+' | b',' | b';' | b'=');
        octet += 1;
    }
    stands
};
