//! Parses the inside of a tag: name, attributes and end. Their syntax is known only here.

use memchr::memchr;

/// The name of an element or attribute, in lower case and packed into a number. All names longer than eight bytes are
/// [`Name::LONG`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name(u64);

impl Name {
    pub(super) const LONG: Name = Name(0);

    pub(super) const A: Name = Name::new(b"a");
    pub(super) const AREA: Name = Name::new(b"area");
    pub(super) const AUDIO: Name = Name::new(b"audio");
    pub(super) const BASE: Name = Name::new(b"base");
    pub(super) const BODY: Name = Name::new(b"body");
    pub(super) const BUTTON: Name = Name::new(b"button");
    pub(super) const BR: Name = Name::new(b"br");
    pub(super) const DESC: Name = Name::new(b"desc");
    pub(super) const EMBED: Name = Name::new(b"embed");
    pub(super) const FEIMAGE: Name = Name::new(b"feimage");
    pub(super) const FONT: Name = Name::new(b"font");
    pub(super) const FORM: Name = Name::new(b"form");
    pub(super) const FRAME: Name = Name::new(b"frame");
    pub(super) const HEAD: Name = Name::new(b"head");
    pub(super) const HTML: Name = Name::new(b"html");
    pub(super) const IFRAME: Name = Name::new(b"iframe");
    pub(super) const IMAGE: Name = Name::new(b"image");
    pub(super) const IMG: Name = Name::new(b"img");
    pub(super) const INPUT: Name = Name::new(b"input");
    pub(super) const LINK: Name = Name::new(b"link");
    pub(super) const MATH: Name = Name::new(b"math");
    pub(super) const META: Name = Name::new(b"meta");
    pub(super) const MGLYPH: Name = Name::new(b"mglyph");
    pub(super) const MI: Name = Name::new(b"mi");
    pub(super) const MN: Name = Name::new(b"mn");
    pub(super) const MO: Name = Name::new(b"mo");
    pub(super) const MS: Name = Name::new(b"ms");
    pub(super) const MTEXT: Name = Name::new(b"mtext");
    pub(super) const NOEMBED: Name = Name::new(b"noembed");
    pub(super) const NOFRAMES: Name = Name::new(b"noframes");
    pub(super) const NOSCRIPT: Name = Name::new(b"noscript");
    pub(super) const OBJECT: Name = Name::new(b"object");
    pub(super) const P: Name = Name::new(b"p");
    pub(super) const PRE: Name = Name::new(b"pre");
    pub(super) const SCRIPT: Name = Name::new(b"script");
    pub(super) const SOURCE: Name = Name::new(b"source");
    pub(super) const STYLE: Name = Name::new(b"style");
    pub(super) const SVG: Name = Name::new(b"svg");
    pub(super) const TABLE: Name = Name::new(b"table");
    pub(super) const TD: Name = Name::new(b"td");
    pub(super) const TEMPLATE: Name = Name::new(b"template");
    pub(super) const TEXTAREA: Name = Name::new(b"textarea");
    pub(super) const TH: Name = Name::new(b"th");
    pub(super) const TITLE: Name = Name::new(b"title");
    pub(super) const TR: Name = Name::new(b"tr");
    pub(super) const TRACK: Name = Name::new(b"track");
    pub(super) const USE: Name = Name::new(b"use");
    pub(super) const VIDEO: Name = Name::new(b"video");
    #[cfg(feature = "net")]
    pub(super) const TBODY: Name = Name::new(b"tbody");
    #[cfg(feature = "net")]
    pub(super) const THEAD: Name = Name::new(b"thead");
    #[cfg(feature = "net")]
    pub(super) const TFOOT: Name = Name::new(b"tfoot");
    pub(super) const XMP: Name = Name::new(b"xmp");

    pub(super) const COLOR: Name = Name::new(b"color");
    pub(super) const ENCODING: Name = Name::new(b"encoding");
    pub(super) const FACE: Name = Name::new(b"face");
    pub(super) const SIZE: Name = Name::new(b"size");

    const CHARSET: Name = Name::new(b"charset");
    const CONTENT: Name = Name::new(b"content");
    pub(super) const HIDDEN: Name = Name::new(b"hidden");
    pub(super) const HREF: Name = Name::new(b"href");
    pub(super) const LANG: Name = Name::new(b"lang");
    const NAME: Name = Name::new(b"name");
    pub(super) const REL: Name = Name::new(b"rel");
    const SRC: Name = Name::new(b"src");
    pub(super) const XML_LANG: Name = Name::new(b"xml:lang");

    pub(super) const fn new(name: &[u8]) -> Name {
        let mut packed = 0;
        let mut at = name.len();
        if at > 8 {
            return Name::LONG;
        }
        while at > 0 {
            at -= 1;
            // Setting this bit turns only letters into letters, so no other name equals one of the constants.
            packed = (packed << 8) | (name[at] | 0x20) as u64;
        }
        Name(packed)
    }

    /// Several names.
    pub(super) const fn all<const N: usize>(names: [&[u8]; N]) -> [Name; N] {
        let mut all = [Name::LONG; N];
        let mut index = 0;
        while index < N {
            all[index] = Name::new(names[index]);
            index += 1;
        }
        all
    }

    /// The length in bytes. The name must not be `LONG`.
    pub(super) fn len(self) -> usize {
        8 - self.0.leading_zeros() as usize / 8
    }

    /// The name in lower case, padded with zeros. The name must not be `LONG`.
    pub(super) fn bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}

/// The elements that have no content and no end tag.
#[rustfmt::skip]
pub(super) const VOID: [Name; 18] = Name::all([
    b"br", b"img", b"input", b"hr", b"meta", b"link", b"area", b"base", b"col", b"embed", b"source", b"track", b"wbr", b"param",
    b"frame", b"keygen", b"basefont", b"bgsound",
]);

/// The attributes needed for links, robots directives and the encoding of a page: the first of each name in a tag, with its undecoded
/// value.
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
    /// `name`
    pub name: Option<&'p [u8]>,
    /// `rel`
    pub rel: Option<&'p [u8]>,
}

/// The attributes of a start tag that is complete, parsed on demand.
#[derive(Debug, Clone, Copy)]
pub struct TagAttributes<'p> {
    pub(super) page: &'p [u8],
    /// The end of the tag's name.
    pub(super) at: usize,
}

impl<'p> TagAttributes<'p> {
    pub(super) fn new(page: &'p [u8], at: usize) -> TagAttributes<'p> {
        TagAttributes { page, at }
    }

    /// The undecoded value of the first attribute of this name.
    pub(super) fn value(&self, name: Name) -> Option<&'p [u8]> {
        value(self.page, self.at, name)
    }

    #[cfg(feature = "net")]
    /// Calls a function with the name and the undecoded value of each attribute, repetitions included.
    pub(super) fn for_each(&self, mut attribute: impl FnMut(&'p [u8], &'p [u8])) {
        for_each(self.page, self.at, |_, name, value| attribute(name, value));
    }
}

/// The end of a tag.
#[derive(Debug, Clone, Copy)]
pub(super) struct TagEnd {
    /// The position after the tag.
    pub(super) at: usize,
    pub(super) self_closing: bool,
}

/// Parses the tag name at `start`, which is a letter. Returns the name and its end.
#[inline]
pub(super) fn tag_name(page: &[u8], start: usize) -> (Name, usize) {
    name(page, start, ENDS_TAG_NAME)
}

/// Skips to the end of a tag; `at` is the end of its name. `None` if the page ends before, in which case there is no
/// tag.
#[inline]
pub(super) fn skip(page: &[u8], at: usize) -> Option<TagEnd> {
    match page.get(at) {
        Some(b'>') => Some(TagEnd { at: at + 1, self_closing: false }),
        _ => for_each(page, at, |_, _, _| {}),
    }
}

/// Like [`skip`], but also returns the attributes.
#[inline]
pub(super) fn collect(page: &[u8], at: usize) -> Option<(Attributes<'_>, TagEnd)> {
    let mut attributes = Attributes::default();
    let end = for_each(page, at, |name, spelling, value| {
        let attribute = match name {
            Name::HREF => &mut attributes.href,
            Name::SRC => &mut attributes.src,
            Name::CHARSET => &mut attributes.charset,
            Name::CONTENT => &mut attributes.content,
            Name::NAME => &mut attributes.name,
            Name::REL => &mut attributes.rel,
            Name::LONG if spelling.eq_ignore_ascii_case(b"http-equiv") => &mut attributes.http_equiv,
            _ => return,
        };
        attribute.get_or_insert(value);
    })?;
    Some((attributes, end))
}

/// The value of the first attribute of this name in a tag; `at` is the end of the tag's name.
pub(super) fn value(page: &[u8], at: usize, wanted: Name) -> Option<&[u8]> {
    let mut found = None;
    for_each(page, at, |name, _, value| {
        if name == wanted {
            found.get_or_insert(value);
        }
    })?;
    found
}

/// Calls `attribute` with the packed name, the name as spelled in the page and the value of every attribute of a tag.
#[inline]
pub(super) fn for_each<'p>(
    page: &'p [u8],
    mut at: usize,
    mut attribute: impl FnMut(Name, &'p [u8], &'p [u8]),
) -> Option<TagEnd> {
    loop {
        match *page.get(at)? {
            b'>' => return Some(TagEnd { at: at + 1, self_closing: false }),
            b'/' => {
                at += 1;
                if *page.get(at)? == b'>' {
                    return Some(TagEnd { at: at + 1, self_closing: true });
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
        let spelling = &page[at..name_end];
        at = skip_space(page, name_end);
        if *page.get(at)? != b'=' {
            attribute(name, spelling, &[]);
            continue;
        }
        at = skip_space(page, at + 1);
        let value;
        (value, at) = match *page.get(at)? {
            quote @ (b'"' | b'\'') => {
                let rest = &page[at + 1..];
                let length = find(quote, rest)?;
                (&rest[..length], at + 1 + length + 1)
            }
            // For `>` the value is empty, and the tag ends in the next iteration.
            _ => {
                let end = at + page[at..].iter().position(|&byte| is(byte, ENDS_UNQUOTED_VALUE))?;
                (&page[at..end], end)
            }
        };
        attribute(name, spelling, value);
    }
}

#[inline]
fn skip_space(page: &[u8], mut at: usize) -> usize {
    while page.get(at).is_some_and(|&byte| is(byte, SPACE)) {
        at += 1;
    }
    at
}

/// Parses the name at `start`, which has at least one byte, whatever that is. Returns the name and its end.
#[inline]
fn name(page: &[u8], start: usize, ends: u8) -> (Name, usize) {
    if let Some(&bytes) = page.get(start..).and_then(|rest| rest.first_chunk::<8>()) {
        // Most names end within eight bytes, which are examined at once. All bytes that can end a name are below `0` or
        // one of `<=>?`, and in most names no other such byte comes before the end.
        let word = u64::from_le_bytes(bytes);
        let below = word.wrapping_sub(ONES * b'0' as u64) & !word;
        let among = (word | (ONES * 3)) ^ (ONES * b'?' as u64);
        let found = (below | (among.wrapping_sub(ONES) & !among)) & (ONES << 7);
        let length = found.trailing_zeros() & !7;
        if length > 0 && length < 64 && is((word >> length) as u8, ends) {
            let packed = (word | (ONES * 0x20)) & ((1 << length) - 1);
            return (Name(packed), start + length as usize / 8);
        }
    }
    let rest = page.get(start + 1..).unwrap_or_default();
    let end = start + 1 + rest.iter().position(|&byte| is(byte, ends)).unwrap_or(rest.len());
    (Name::new(&page[start..end]), end)
}

/// The first position of a byte. Inside and between tags it is mostly within eight bytes, where no call is needed.
#[inline]
pub(super) fn find(byte: u8, text: &[u8]) -> Option<usize> {
    if let Some(&bytes) = text.first_chunk::<8>() {
        let differences = u64::from_le_bytes(bytes) ^ (ONES * byte as u64);
        let found = differences.wrapping_sub(ONES) & !differences & (ONES << 7);
        if found != 0 {
            return Some(found.trailing_zeros() as usize / 8);
        }
    }
    memchr(byte, text)
}

/// A word with the value one in each byte.
const ONES: u64 = u64::from_le_bytes([1; 8]);

const SPACE: u8 = 1;
const ENDS_TAG_NAME: u8 = 2;
const ENDS_ATTRIBUTE_NAME: u8 = 4;
const ENDS_UNQUOTED_VALUE: u8 = 8;

/// The character class of each byte inside a tag.
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut spaces = b"\t\n\x0C\r ".as_slice();
    while let [space, rest @ ..] = spaces {
        classes[*space as usize] = SPACE | ENDS_TAG_NAME | ENDS_ATTRIBUTE_NAME | ENDS_UNQUOTED_VALUE;
        spaces = rest;
    }
    classes[b'/' as usize] = ENDS_TAG_NAME | ENDS_ATTRIBUTE_NAME;
    classes[b'>' as usize] = ENDS_TAG_NAME | ENDS_ATTRIBUTE_NAME | ENDS_UNQUOTED_VALUE;
    classes[b'=' as usize] = ENDS_ATTRIBUTE_NAME;
    classes
};

#[inline]
fn is(byte: u8, class: u8) -> bool {
    CLASSES[byte as usize] & class != 0
}

/// Whether a byte ends a tag name.
#[inline]
pub(super) fn ends_tag_name(byte: u8) -> bool {
    is(byte, ENDS_TAG_NAME)
}
