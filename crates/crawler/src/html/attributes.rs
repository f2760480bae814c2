//! Reads the inside of a tag. Only this file knows where names, values and tags end.

use memchr::memchr;

/// The name of an element or attribute, lower-cased and packed into a number; every name of more than eight
/// bytes is [`Name::LONG`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name(u64);

impl Name {
    pub(super) const LONG: Name = Name(0);

    pub(super) const A: Name = Name::new(b"a");
    pub(super) const AREA: Name = Name::new(b"area");
    pub(super) const BASE: Name = Name::new(b"base");
    pub(super) const FRAME: Name = Name::new(b"frame");
    pub(super) const IFRAME: Name = Name::new(b"iframe");
    pub(super) const MATH: Name = Name::new(b"math");
    pub(super) const META: Name = Name::new(b"meta");
    pub(super) const NOEMBED: Name = Name::new(b"noembed");
    pub(super) const NOFRAMES: Name = Name::new(b"noframes");
    pub(super) const SCRIPT: Name = Name::new(b"script");
    pub(super) const STYLE: Name = Name::new(b"style");
    pub(super) const SVG: Name = Name::new(b"svg");
    pub(super) const TEMPLATE: Name = Name::new(b"template");
    pub(super) const TEXTAREA: Name = Name::new(b"textarea");
    pub(super) const TITLE: Name = Name::new(b"title");
    pub(super) const XMP: Name = Name::new(b"xmp");

    const CHARSET: Name = Name::new(b"charset");
    const CONTENT: Name = Name::new(b"content");
    const HREF: Name = Name::new(b"href");
    const SRC: Name = Name::new(b"src");

    const fn new(name: &[u8]) -> Name {
        let mut packed = 0;
        let mut at = name.len();
        if at > 8 {
            return Name::LONG;
        }
        while at > 0 {
            at -= 1;
            // Only letters become letters by this, so no other name can be taken for one of the above.
            packed = (packed << 8) | (name[at] | 0x20) as u64;
        }
        Name(packed)
    }

    /// The number of bytes, for a name that is not long.
    pub(super) fn len(self) -> usize {
        8 - self.0.leading_zeros() as usize / 8
    }

    /// The name as lower-case bytes, padded with zeros, for a name that is not long.
    pub(super) fn bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}

/// The attributes that say where a page leads and how it is encoded: of each the first in its tag, with its
/// value as it stands there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attributes<'p> {
    /// `href`
    pub href: Option<&'p [u8]>,
    /// `src`
    pub src: Option<&'p [u8]>,
    /// `charset`
    pub charset: Option<&'p [u8]>,
    /// `http-equiv`
    pub http_equiv: Option<&'p [u8]>,
    /// `content`
    pub content: Option<&'p [u8]>,
}

/// The end of a tag.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    /// Where the page goes on after it.
    pub(super) at: usize,
    pub(super) self_closing: bool,
}

/// The name of the tag beginning at `start`, which is a letter, and where it ends.
#[inline]
pub(super) fn tag_name(page: &[u8], start: usize) -> (Name, usize) {
    name(page, start, ENDS_TAG_NAME)
}

/// Reads on to the end of a tag from behind its name; `None` if the page ends before, and then there is no
/// such tag.
#[inline]
pub(super) fn skip(page: &[u8], at: usize) -> Option<End> {
    match page.get(at) {
        Some(b'>') => Some(End { at: at + 1, self_closing: false }),
        _ => each(page, at, |_, _, _| {}),
    }
}

/// Like [`skip`], with the attributes met on the way.
#[inline]
pub(super) fn collect(page: &[u8], at: usize) -> Option<(Attributes<'_>, End)> {
    let mut attributes = Attributes::default();
    let end = each(page, at, |name, spelled, value| {
        let attribute = match name {
            Name::HREF => &mut attributes.href,
            Name::SRC => &mut attributes.src,
            Name::CHARSET => &mut attributes.charset,
            Name::CONTENT => &mut attributes.content,
            Name::LONG if spelled.eq_ignore_ascii_case(b"http-equiv") => &mut attributes.http_equiv,
            _ => return,
        };
        attribute.get_or_insert(value);
    })?;
    Some((attributes, end))
}

/// Calls `attribute` with the packed name, the name as spelled and the value of every attribute up to the end
/// of the tag.
#[inline]
fn each<'p>(
    page: &'p [u8],
    mut at: usize,
    mut attribute: impl FnMut(Name, &'p [u8], &'p [u8]),
) -> Option<End> {
    loop {
        match *page.get(at)? {
            b'>' => return Some(End { at: at + 1, self_closing: false }),
            b'/' => {
                at += 1;
                if *page.get(at)? == b'>' {
                    return Some(End { at: at + 1, self_closing: true });
                }
                continue;
            }
            byte if is(byte, SPACE) => {
                at += 1;
                continue;
            }
            _ => {}
        }
        let (name, name_end) = name(page, at, ENDS_ATTRIBUTE_NAME);
        let spelled = &page[at..name_end];
        at = after_space(page, name_end);
        if *page.get(at)? != b'=' {
            attribute(name, spelled, &[]);
            continue;
        }
        at = after_space(page, at + 1);
        let value;
        (value, at) = match *page.get(at)? {
            quote @ (b'"' | b'\'') => {
                let rest = &page[at + 1..];
                let length = find(quote, rest)?;
                (&rest[..length], at + 1 + length + 1)
            }
            // For `>` the value is empty, and the tag ends in the next round.
            _ => {
                let end = at + page[at..].iter().position(|&byte| is(byte, ENDS_UNQUOTED_VALUE))?;
                (&page[at..end], end)
            }
        };
        attribute(name, spelled, value);
    }
}

#[inline]
fn after_space(page: &[u8], mut at: usize) -> usize {
    while page.get(at).is_some_and(|&byte| is(byte, SPACE)) {
        at += 1;
    }
    at
}

/// The name beginning at `start` and where it ends; its first byte belongs to it whatever it is.
#[inline]
fn name(page: &[u8], start: usize, ends: u8) -> (Name, usize) {
    if let Some(&bytes) = page.get(start..).and_then(|rest| rest.first_chunk::<8>()) {
        // Most names end within eight bytes: look at these at once. All bytes that can end a name are either
        // below `0` or among `<=>?`, and in most names no other such byte stands before.
        let word = u64::from_le_bytes(bytes);
        let below = word.wrapping_sub(EACH * b'0' as u64) & !word;
        let among = (word | (EACH * 3)) ^ (EACH * b'?' as u64);
        let found = (below | (among.wrapping_sub(EACH) & !among)) & (EACH << 7);
        let length = found.trailing_zeros() & !7;
        if length > 0 && length < 64 && is((word >> length) as u8, ends) {
            let packed = (word | (EACH * 0x20)) & ((1 << length) - 1);
            return (Name(packed), start + length as usize / 8);
        }
    }
    let rest = page.get(start + 1..).unwrap_or_default();
    let end = start + 1 + rest.iter().position(|&byte| is(byte, ends)).unwrap_or(rest.len());
    (Name::new(&page[start..end]), end)
}

/// Where a byte first stands. What is looked for inside and between tags is mostly near: within eight bytes
/// it is found without a call.
#[inline]
pub(super) fn find(byte: u8, text: &[u8]) -> Option<usize> {
    if let Some(&bytes) = text.first_chunk::<8>() {
        let differences = u64::from_le_bytes(bytes) ^ (EACH * byte as u64);
        let found = differences.wrapping_sub(EACH) & !differences & (EACH << 7);
        if found != 0 {
            return Some(found.trailing_zeros() as usize / 8);
        }
    }
    memchr(byte, text)
}

/// A byte with value one in each byte of a word.
const EACH: u64 = u64::from_le_bytes([1; 8]);

const SPACE: u8 = 1;
const ENDS_TAG_NAME: u8 = 2;
const ENDS_ATTRIBUTE_NAME: u8 = 4;
const ENDS_UNQUOTED_VALUE: u8 = 8;

/// What each byte means inside of a tag.
const MEANING: [u8; 256] = {
    let mut meaning = [0; 256];
    let mut spaces = b"\t\n\x0C\r ".as_slice();
    while let [space, rest @ ..] = spaces {
        meaning[*space as usize] = SPACE | ENDS_TAG_NAME | ENDS_ATTRIBUTE_NAME | ENDS_UNQUOTED_VALUE;
        spaces = rest;
    }
    meaning[b'/' as usize] = ENDS_TAG_NAME | ENDS_ATTRIBUTE_NAME;
    meaning[b'>' as usize] = ENDS_TAG_NAME | ENDS_ATTRIBUTE_NAME | ENDS_UNQUOTED_VALUE;
    meaning[b'=' as usize] = ENDS_ATTRIBUTE_NAME;
    meaning
};

#[inline]
fn is(byte: u8, meaning: u8) -> bool {
    MEANING[byte as usize] & meaning != 0
}

/// Whether a byte may stand behind the name of a tag.
#[inline]
pub(super) fn ends_tag_name(byte: u8) -> bool {
    is(byte, ENDS_TAG_NAME)
}
