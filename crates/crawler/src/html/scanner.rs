//! Scans HTML in one pass over its bytes and passes elements and text to a [`Sink`].
//!
//! The scanner follows the tokenizer of the HTML standard but builds no tree. Foreign content and templates, which
//! depend on the tree, are tracked by counting start and end tags. The encoding must be ASCII-compatible.

use memchr::{memchr, memmem};

use super::attributes::{self, Attributes, Name};
use super::raw_text;

/// The elements that are passed to a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// `a`
    Anchor,
    /// `area`
    Area,
    /// `base`
    Base,
    /// `frame` or `iframe`
    Frame,
    /// `meta`
    Meta,
}

/// Receives elements and text in document order, undecoded: bytes in the page's encoding, with character references.
/// The content of a `template` is skipped.
pub trait Sink<'p> {
    /// A start tag.
    fn element(&mut self, element: Element, attributes: &Attributes<'p>);

    /// A run of visible text: outside tags, comments, and elements with raw text content such as `script`.
    fn text(&mut self, _run: &'p [u8]) {}

    /// The content of a `title` that is not inside an `svg` or `math`.
    fn title(&mut self, _content: &'p [u8]) {}
}

/// Scans a page, in time linear in its length for any content.
pub fn scan<'p>(page: &'p [u8], sink: &mut impl Sink<'p>) {
    let mut scanner = Scanner { page, sink, foreign: 0, templates: 0 };
    let mut at = 0;
    while let Some(next) = scanner.step(at) {
        at = next;
    }
}

struct Scanner<'s, 'p, S> {
    page: &'p [u8],
    sink: &'s mut S,
    /// Number of open `svg` and `math` elements, in which a self-closing tag has no content.
    foreign: u32,
    /// Number of open `template` elements, whose content is not part of the page.
    templates: u32,
}

impl<'p, S: Sink<'p>> Scanner<'_, 'p, S> {
    /// Scans text and the markup after it; `None` at the end of the page.
    #[inline]
    fn step(&mut self, at: usize) -> Option<usize> {
        let rest = self.page.get(at..)?;
        let Some(length) = attributes::find(b'<', rest) else {
            self.text(rest);
            return None;
        };
        self.text(&rest[..length]);
        let open = at + length;
        match self.page.get(open + 1) {
            Some(b'/') => self.end_tag(open + 2),
            Some(byte) if byte.is_ascii_alphabetic() => self.start_tag(open + 1),
            Some(b'!') => self.declaration(open + 2),
            Some(b'?') => self.bogus_comment(open + 1),
            _ => {
                self.text(&self.page[open..=open]);
                Some(open + 1)
            }
        }
    }

    #[inline]
    fn text(&mut self, run: &'p [u8]) {
        if self.templates == 0 {
            self.sink.text(run);
        }
    }

    #[inline]
    fn start_tag(&mut self, start: usize) -> Option<usize> {
        let (name, at) = attributes::tag_name(self.page, start);
        match name {
            Name::A => self.element(Element::Anchor, at).map(|end| end.at),
            Name::AREA => self.element(Element::Area, at).map(|end| end.at),
            Name::BASE => self.element(Element::Base, at).map(|end| end.at),
            Name::FRAME => self.element(Element::Frame, at).map(|end| end.at),
            Name::META => self.element(Element::Meta, at).map(|end| end.at),
            Name::SVG | Name::MATH => {
                let end = attributes::skip(self.page, at)?;
                self.foreign += u32::from(!end.self_closing);
                Some(end.at)
            }
            Name::TEMPLATE => {
                let end = attributes::skip(self.page, at)?;
                self.templates += u32::from(!self.is_empty_element(end));
                Some(end.at)
            }
            Name::IFRAME | Name::NOEMBED | Name::NOFRAMES | Name::SCRIPT | Name::STYLE => {
                self.raw_element(name, at)
            }
            Name::TEXTAREA | Name::TITLE | Name::XMP => self.raw_element(name, at),
            // Everything after it is text.
            Name::LONG if self.page[start..at].eq_ignore_ascii_case(b"plaintext") => {
                let end = attributes::skip(self.page, at)?;
                self.is_empty_element(end).then_some(end.at)
            }
            _ => attributes::skip(self.page, at).map(|end| end.at),
        }
    }

    /// Passes an element to the sink; its attributes start at `at`.
    #[inline]
    fn element(&mut self, element: Element, at: usize) -> Option<attributes::TagEnd> {
        let (attributes, end) = attributes::collect(self.page, at)?;
        if self.templates == 0 {
            self.sink.element(element, &attributes);
        }
        Some(end)
    }

    /// Skips an element with raw text content, including its end tag.
    #[inline(never)]
    fn raw_element(&mut self, name: Name, at: usize) -> Option<usize> {
        let end = match name {
            Name::IFRAME => self.element(Element::Frame, at)?,
            _ => attributes::skip(self.page, at)?,
        };
        if self.is_empty_element(end) {
            return Some(end.at);
        }
        let closing = raw_text::closing_tag(self.page, end.at, name);
        if name == Name::TITLE && self.templates == 0 && self.foreign == 0 {
            self.sink.title(&self.page[end.at..closing.unwrap_or(self.page.len())]);
        }
        attributes::skip(self.page, closing? + "</".len() + name.len()).map(|end| end.at)
    }

    fn is_empty_element(&self, end: attributes::TagEnd) -> bool {
        end.self_closing && self.foreign > 0
    }

    /// Scans what follows `</`.
    #[inline]
    fn end_tag(&mut self, at: usize) -> Option<usize> {
        match self.page.get(at) {
            Some(byte) if byte.is_ascii_alphabetic() => {
                let (name, at) = attributes::tag_name(self.page, at);
                let end = attributes::skip(self.page, at)?;
                match name {
                    Name::SVG | Name::MATH => self.foreign = self.foreign.saturating_sub(1),
                    Name::TEMPLATE => self.templates = self.templates.saturating_sub(1),
                    _ => {}
                }
                Some(end.at)
            }
            Some(_) => self.bogus_comment(at),
            None => {
                self.text(&self.page[at - "</".len()..]);
                None
            }
        }
    }

    /// Scans what follows `<!`.
    #[inline(never)]
    fn declaration(&mut self, at: usize) -> Option<usize> {
        let rest = &self.page[at..];
        if rest.starts_with(b"--") {
            return self.comment(at + "--".len());
        }
        if self.foreign > 0 && rest.starts_with(b"[CDATA[") {
            let start = at + "[CDATA[".len();
            let length = memmem::find(&self.page[start..], b"]]>");
            self.text(&self.page[start..length.map_or(self.page.len(), |length| start + length)]);
            return Some(start + length? + "]]>".len());
        }
        // A doctype also ends at the first `>`, even inside quotes.
        self.bogus_comment(at)
    }

    /// Scans what follows `<!--`. The comment ends at the first `>` after `--` or `--!`.
    fn comment(&self, start: usize) -> Option<usize> {
        let content = &self.page[start..];
        if content.starts_with(b">") {
            return Some(start + ">".len());
        }
        if content.starts_with(b"->") {
            return Some(start + "->".len());
        }
        memchr::memchr_iter(b'>', content)
            .find(|&end| content[..end].ends_with(b"--") || content[..end].ends_with(b"--!"))
            .map(|end| start + end + 1)
    }

    fn bogus_comment(&self, at: usize) -> Option<usize> {
        memchr(b'>', &self.page[at..]).map(|length| at + length + 1)
    }
}

#[cfg(test)]
mod tests;
