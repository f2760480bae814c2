//! Collects the texts of a page's links.

use super::attributes::Attributes;
use super::scanner::{Element, Sink};
use super::{PageHandler, PageSink, text};

/// Maximum length of a link's text, in characters. Longer texts are mostly not descriptions of their targets.
const MAX_TEXT_CHARS: usize = 100;

/// A link's text is truncated when its runs have this many bytes, undecoded: a character reference has about ten.
const MAX_RAW_BYTES: usize = 10 * MAX_TEXT_CHARS;

/// The texts of links, undecoded.
#[derive(Default)]
pub struct LinkTexts<'p> {
    /// Runs of visible text, each with the index of its link, in document order.
    runs: Vec<(usize, &'p [u8])>,
}

impl LinkTexts<'_> {
    /// The decoded texts, one call per link with ascending indexes.
    pub fn decoder(&self) -> LinkTextDecoder<'_> {
        LinkTextDecoder { runs: &self.runs }
    }
}

/// Decodes the texts of links in ascending order.
pub struct LinkTextDecoder<'t> {
    runs: &'t [(usize, &'t [u8])],
}

impl LinkTextDecoder<'_> {
    /// The text of the link with this index, in one line. Empty if it has none.
    pub fn text(&mut self, link: usize) -> String {
        let skipped = self.runs.iter().take_while(|(index, _)| *index < link).count();
        let own = self.runs[skipped..].iter().take_while(|(index, _)| *index == link).count();
        let (runs, rest) = self.runs[skipped..].split_at(own);
        self.runs = rest;
        let runs: Vec<&[u8]> = runs.iter().map(|(_, run)| *run).collect();
        // A space in place of markup.
        let mut text = text::one_line(&runs.join(&b' '));
        if let Some((end, _)) = text.char_indices().nth(MAX_TEXT_CHARS) {
            text.truncate(end);
            text.truncate(text.trim_end().len());
        }
        text
    }
}

/// Collects the link targets and the texts of links, and passes the page's text to the handler.
pub(super) struct LinkTextSink<'h, 'p, H> {
    pub(super) page: PageSink<'h, 'p, H>,
    pub(super) texts: LinkTexts<'p>,
    /// The link that the scanner is in.
    open: Option<OpenLink>,
}

struct OpenLink {
    index: usize,
    raw_bytes: usize,
}

impl<'h, 'p, H: PageHandler> LinkTextSink<'h, 'p, H> {
    pub(super) fn new(page: PageSink<'h, 'p, H>) -> Self {
        LinkTextSink { page, texts: LinkTexts::default(), open: None }
    }
}

impl<'p, H: PageHandler> Sink<'p> for LinkTextSink<'_, 'p, H> {
    fn element(&mut self, element: Element, attributes: &Attributes<'p>) {
        let index = self.page.targets.links.len();
        self.page.element(element, attributes);
        if element == Element::Anchor {
            // An anchor ends at the next one, as in browsers.
            let is_link = self.page.targets.links.len() > index;
            self.open = is_link.then_some(OpenLink { index, raw_bytes: 0 });
        }
    }

    fn anchor_end(&mut self) {
        self.open = None;
    }

    fn text(&mut self, run: &'p [u8]) {
        if let Some(OpenLink { index, raw_bytes }) = &mut self.open
            && !run.is_empty()
            && *raw_bytes < MAX_RAW_BYTES
        {
            let kept = &run[..run.len().min(MAX_RAW_BYTES - *raw_bytes)];
            *raw_bytes += kept.len();
            self.texts.runs.push((*index, kept));
        }
        self.page.text(run);
    }

    fn title(&mut self, content: &'p [u8]) {
        self.page.title(content);
    }
}
