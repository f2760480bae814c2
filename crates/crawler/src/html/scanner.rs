//! Scans HTML in one pass over its bytes and passes elements and text to a [`Sink`].
//!
//! The scanner follows the tokenizer of the HTML standard but builds no tree. What depends on the tree is tracked: SVG and
//! MathML by `ForeignElements`, templates by counting their tags. The encoding must be ASCII-compatible.

use memchr::{memchr, memmem};

use super::attributes::{self, Attributes, Name, TagAttributes};
use super::foreign::{ForeignElements, Tag};
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

/// A tag as it is in the page, undecoded.
#[derive(Debug, Clone, Copy)]
pub enum Markup<'p> {
    /// A start tag.
    Start {
        /// The name, as spelled in the page.
        name: &'p [u8],
        /// The attributes.
        attributes: TagAttributes<'p>,
        /// Whether the element is one of SVG or MathML.
        is_foreign: bool,
        /// Whether the tag ends the element, as `<path/>` does in SVG and MathML.
        is_empty: bool,
    },
    /// An element whose content is no markup, such as `script`, up to its end tag.
    Raw {
        /// The name, as spelled in the page.
        name: &'p [u8],
        /// The attributes.
        attributes: TagAttributes<'p>,
        /// The content.
        content: &'p [u8],
    },
    /// An end tag, with its name as spelled in the page.
    End(&'p [u8]),
}

/// Receives elements and text in document order, undecoded: bytes in the page's encoding, with character references.
/// The content of a `template` is skipped.
pub trait Sink<'p> {
    /// Whether [`markup`](Sink::markup) is called. It takes no time otherwise.
    const WANTS_MARKUP: bool = false;

    /// Any tag but those of a `template`, after the calls of the other methods for it.
    fn markup(&mut self, _markup: Markup<'p>) {}

    /// Whether the rest of the page is not needed.
    #[inline]
    fn is_done(&self) -> bool {
        false
    }

    /// A start tag of one of these elements.
    fn element(&mut self, element: Element, attributes: &Attributes<'p>);

    /// The end tag of an anchor, or one without a start tag.
    #[inline]
    fn anchor_end(&mut self) {}

    /// A run of visible text: outside tags, comments, and elements with raw text content such as `script`.
    fn text(&mut self, _run: &'p [u8]) {}

    /// The content of a `title` that is an HTML element, not one of SVG.
    fn title(&mut self, _content: &'p [u8]) {}
}

/// Scans a page, in time linear in its length for any content.
pub fn scan<'p>(page: &'p [u8], sink: &mut impl Sink<'p>) {
    let mut scanner =
        Scanner { page, sink, foreign: ForeignElements::default(), templates: 0, hides_text: false };
    let mut at = 0;
    while let Some(next) = scanner.step::<false>(at)
        && !scanner.sink.is_done()
    {
        at = next;
    }
}

struct Scanner<'s, 'p, S> {
    page: &'p [u8],
    sink: &'s mut S,
    foreign: ForeignElements<'p>,
    /// Number of open `template` elements, whose content is not part of the page.
    templates: u32,
    /// Whether the text at this place is not visible.
    hides_text: bool,
}

impl<'p, S: Sink<'p>> Scanner<'_, 'p, S> {
    /// Scans text and the markup after it; `None` at the end of the page. `IN_FOREIGN` means inside an `svg` or `math`,
    /// so that no time is lost elsewhere.
    #[inline]
    fn step<const IN_FOREIGN: bool>(&mut self, at: usize) -> Option<usize> {
        let rest = self.page.get(at..)?;
        let Some(length) = attributes::find(b'<', rest) else {
            self.text(rest);
            return None;
        };
        self.text(&rest[..length]);
        let open = at + length;
        match self.page.get(open + 1) {
            Some(b'/') => self.end_tag::<IN_FOREIGN>(open + 2),
            Some(byte) if byte.is_ascii_alphabetic() => self.start_tag::<IN_FOREIGN>(open + 1),
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
        if !self.hides_text {
            self.sink.text(run);
        }
    }

    #[inline]
    fn start_tag<const IN_FOREIGN: bool>(&mut self, start: usize) -> Option<usize> {
        let (name, at) = attributes::tag_name(self.page, start);
        if IN_FOREIGN {
            self.start_tag_in_foreign(name, start, at)
        } else {
            self.html_start_tag(name, start, at)
        }
    }

    /// Scans a start tag of HTML, whose name is from `start` to `at`.
    #[inline(always)]
    fn html_start_tag(&mut self, name: Name, start: usize, at: usize) -> Option<usize> {
        match name {
            Name::A => self.linking_tag(Element::Anchor, start, at),
            Name::AREA => self.linking_tag(Element::Area, start, at),
            Name::BASE => self.linking_tag(Element::Base, start, at),
            Name::FRAME => self.linking_tag(Element::Frame, start, at),
            Name::META => self.linking_tag(Element::Meta, start, at),
            Name::SVG | Name::MATH => self.foreign_root(name, start, at),
            Name::TEMPLATE => {
                let end = attributes::skip(self.page, at)?;
                self.templates += 1;
                self.update_visibility();
                Some(end.at)
            }
            Name::IFRAME | Name::NOEMBED | Name::NOFRAMES | Name::SCRIPT | Name::STYLE => {
                self.raw_element(name, start, at)
            }
            Name::TEXTAREA | Name::TITLE | Name::XMP => self.raw_element(name, start, at),
            // Everything after it is text.
            Name::LONG if self.page[start..at].eq_ignore_ascii_case(b"plaintext") => None,
            _ => {
                let end = attributes::skip(self.page, at)?;
                self.start_markup(start, at, false, false);
                Some(end.at)
            }
        }
    }

    /// Scans an `svg` or `math`; if it is the outermost, up to its end.
    #[inline(never)]
    fn foreign_root(&mut self, name: Name, start: usize, at: usize) -> Option<usize> {
        let end = attributes::skip(self.page, at)?;
        self.start_markup(start, at, true, end.self_closing);
        let (mut at, tag) = (end.at, self.tag(start, at));
        if end.self_closing {
            return Some(at);
        }
        let is_outermost = self.foreign.is_empty();
        self.foreign.open_root(name, &tag);
        while is_outermost && !self.foreign.is_empty() {
            at = self.step::<true>(at)?;
        }
        Some(at)
    }

    /// Scans a start tag inside an `svg` or `math`.
    #[inline(never)]
    fn start_tag_in_foreign(&mut self, name: Name, start: usize, at: usize) -> Option<usize> {
        let tag = self.tag(start, at);
        let next = if self.foreign.is_html_start_tag(name, &tag) {
            let next = self.html_start_tag(name, start, at)?;
            self.foreign.open_html(name, &tag);
            next
        } else {
            let end = match name {
                Name::A => self.element(Element::Anchor, at)?,
                _ => attributes::skip(self.page, at)?,
            };
            self.start_markup(start, at, true, end.self_closing);
            if !end.self_closing {
                self.foreign.open_foreign(name, &tag);
            }
            end.at
        };
        self.update_visibility();
        Some(next)
    }

    fn tag(&self, start: usize, at: usize) -> Tag<'p> {
        Tag { page: self.page, name: &self.page[start..at], attributes: at }
    }

    fn update_visibility(&mut self) {
        self.hides_text = self.templates > 0 || self.foreign.hides_text();
    }

    /// Passes an element to the sink, as an element and as markup; its name is from `start` to `at`.
    #[inline]
    fn linking_tag(&mut self, element: Element, start: usize, at: usize) -> Option<usize> {
        let end = self.element(element, at)?;
        self.start_markup(start, at, false, false);
        Some(end.at)
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

    /// Passes a start tag to a sink that wants markup; its name is from `start` to `at`.
    #[inline(always)]
    fn start_markup(&mut self, start: usize, at: usize, is_foreign: bool, is_empty: bool) {
        if S::WANTS_MARKUP && self.templates == 0 {
            let (name, attributes) = (&self.page[start..at], TagAttributes::new(self.page, at));
            self.sink.markup(Markup::Start { name, attributes, is_foreign, is_empty });
        }
    }

    /// Skips an element with raw text content, including its end tag.
    #[inline(never)]
    fn raw_element(&mut self, name: Name, start: usize, at: usize) -> Option<usize> {
        let end = match name {
            Name::IFRAME => self.element(Element::Frame, at)?,
            _ => attributes::skip(self.page, at)?,
        };
        let closing = raw_text::closing_tag(self.page, end.at, name);
        if name == Name::TITLE && self.templates == 0 {
            self.sink.title(&self.page[end.at..closing.unwrap_or(self.page.len())]);
        }
        if S::WANTS_MARKUP && self.templates == 0 {
            let (name, attributes) = (&self.page[start..at], TagAttributes::new(self.page, at));
            let content = &self.page[end.at..closing.unwrap_or(self.page.len())];
            self.sink.markup(Markup::Raw { name, attributes, content });
        }
        attributes::skip(self.page, closing? + "</".len() + name.len()).map(|end| end.at)
    }

    /// Scans what follows `</`.
    #[inline]
    fn end_tag<const IN_FOREIGN: bool>(&mut self, at: usize) -> Option<usize> {
        match self.page.get(at) {
            Some(byte) if byte.is_ascii_alphabetic() => {
                let start = at;
                let (name, at) = attributes::tag_name(self.page, start);
                let end = attributes::skip(self.page, at)?;
                if name == Name::A && self.templates == 0 {
                    self.sink.anchor_end();
                }
                if IN_FOREIGN || name == Name::TEMPLATE {
                    self.end_tag_in_tree(name, &self.page[start..at]);
                }
                if S::WANTS_MARKUP && self.templates == 0 {
                    self.sink.markup(Markup::End(&self.page[start..at]));
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

    /// Processes an end tag that may close an element whose content follows other rules.
    #[inline(never)]
    fn end_tag_in_tree(&mut self, name: Name, spelling: &[u8]) {
        let has_templates = self.templates > 0;
        if self.foreign.end_tag(name, spelling, has_templates) {
            self.templates -= 1;
        }
        self.update_visibility();
    }

    /// Scans what follows `<!`.
    #[inline(never)]
    fn declaration(&mut self, at: usize) -> Option<usize> {
        let rest = &self.page[at..];
        if rest.starts_with(b"--") {
            return self.comment(at + "--".len());
        }
        if self.foreign.is_in_foreign_element() && rest.starts_with(b"[CDATA[") {
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
