//! All values of a page that refer to other files, undecoded.

use super::attributes::Attributes;
use super::scanner::{self, Element, Markup, Sink};
use super::start_tag::{ReferenceKind, StartTag};
use super::{MAX_LINKS, Targets};

/// How many documents may be in one another: the page, a `srcdoc` in it, and one in that. Those within are not read.
pub(super) const MAX_NESTED_DOCUMENTS: usize = 3;

/// The values of a page that refer to other files.
#[derive(Default)]
pub(super) struct References<'p> {
    /// The `href` of the first `base` that has one.
    base: Option<&'p [u8]>,
    /// In document order, about [`MAX_LINKS`] at most.
    pub(super) found: Vec<RawReference<'p>>,
    tags: usize,
}

/// A value of a page.
pub(super) struct RawReference<'p> {
    /// The number of its tag.
    pub(super) tag: usize,
    pub(super) kind: ReferenceKind,
    pub(super) value: &'p [u8],
}

impl<'p> References<'p> {
    /// Scans a page in an ASCII-compatible encoding.
    pub(super) fn scan(page: &'p [u8]) -> References<'p> {
        let mut references = References::default();
        scanner::scan(page, &mut references);
        references
    }

    /// What decides about the base URL.
    pub(super) fn targets(&self) -> Targets<'p> {
        Targets { base: self.base, ..Targets::default() }
    }
}

impl<'p> Sink<'p> for References<'p> {
    const WANTS_MARKUP: bool = true;

    fn element(&mut self, element: Element, attributes: &Attributes<'p>) {
        if element == Element::Base {
            self.base = self.base.or(attributes.href);
        }
    }

    fn markup(&mut self, markup: Markup<'p>) {
        if self.found.len() >= MAX_LINKS {
            return;
        }
        let (found, style) = (&mut self.found, StartTag::style(&markup));
        if let Some(tag) = StartTag::parse(&markup) {
            self.tags += 1;
            let number = self.tags;
            tag.each_reference(|kind, value| found.push(RawReference { tag: number, kind, value }));
        }
        let kind = ReferenceKind::StyleElement;
        found.extend(style.map(|value| RawReference { tag: self.tags, kind, value }));
    }
}
