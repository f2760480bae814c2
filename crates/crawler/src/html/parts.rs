//! The parts of a page that only some outputs and modules want: details of its links, the files that it needs, and the
//! places that links can lead to.

use std::borrow::Cow;
use std::ops::{BitOr, BitOrAssign};

use url::Url;

use super::attributes::Attributes;
use super::references::{MAX_NESTED_DOCUMENTS, RawReference, References};
use super::scanner::{Element, Markup, Sink};
use super::start_tag::{ReferenceKind, RequisiteKind, StartTag};
use super::url_resolver::UrlResolver;
use super::{
    BadLink, LinkKind, MAX_LINKS, MAX_TARGET_BYTES, MAX_URL_BYTES, PageContext, PageHandler, PageSink,
    attribute_text, css, failed_link_bytes, max_link_bytes, srcset, text,
};

/// Maximum length of a link's text, in characters. Longer texts are mostly not descriptions of their targets.
const MAX_TEXT_CHARS: usize = 100;

/// A link's text is truncated when its runs have this many bytes, undecoded: a character reference has about ten.
const MAX_RAW_BYTES: usize = 10 * MAX_TEXT_CHARS;

/// Which parts of pages are wanted, beyond title and links. Parts that no module or output wants are not parsed and cost no time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageParts {
    /// The kinds, `rel` attributes, texts and fragments of links.
    pub link_details: bool,
    /// The URLs of the files that a browser loads to show the page.
    pub requisites: bool,
    /// The names of places in the page.
    pub ids: bool,
}

impl PageParts {
    /// Whether any part is wanted.
    pub fn any(self) -> bool {
        self != PageParts::default()
    }
}

impl BitOr for PageParts {
    type Output = PageParts;

    fn bitor(self, other: PageParts) -> PageParts {
        PageParts {
            link_details: self.link_details | other.link_details,
            requisites: self.requisites | other.requisites,
            ids: self.ids | other.ids,
        }
    }
}

impl BitOrAssign for PageParts {
    fn bitor_assign(&mut self, other: PageParts) {
        *self = *self | other;
    }
}

/// What a page says about one of its links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkDetail {
    /// The element that it comes from.
    pub kind: LinkKind,
    /// Its `rel` attribute, decoded; empty if it has none.
    pub rel: String,
    /// Its text: decoded, in one line, up to 100 characters. Of a link without text, the `aria-label`, `alt` or `title` of its
    /// element, or else of the first image in it that has one.
    pub text: String,
    /// What follows `#` in its target, as spelled in the page, with percent-encoding.
    pub fragment: Option<String>,
}

/// The parts of a page, undecoded.
#[derive(Default)]
pub(super) struct RawParts<'p> {
    /// Runs of visible text in links, each with the index of its link, in document order.
    texts: Vec<(usize, &'p [u8])>,
    /// The `rel` attribute of each link.
    rels: Vec<&'p [u8]>,
    /// The label of each link: of its element, or of an image in it.
    labels: Vec<&'p [u8]>,
    /// Values that may contain URLs of requisites, at most [`MAX_LINKS`], each with the label of its element.
    references: Vec<(ReferenceKind, &'p [u8], &'p [u8])>,
    /// At most [`MAX_LINKS`].
    ids: Vec<&'p [u8]>,
    /// Whether there are more references, and more IDs.
    excess: (bool, bool),
}

impl<'p> RawParts<'p> {
    /// The details of the links, one call per link with ascending indexes.
    pub(super) fn link_details(&self) -> LinkDetails<'_, 'p> {
        LinkDetails { texts: &self.texts, rels: &self.rels, labels: &self.labels }
    }

    /// Passes the requisites and the IDs to a handler.
    pub(super) fn pass_to(
        &self,
        handler: &mut impl PageHandler,
        resolver: &UrlResolver,
        context: &PageContext,
    ) {
        let mut requisites = Requisites::new(handler, resolver, context);
        let wants_labels = requisites.handler.wanted_parts().link_details;
        for &(kind, raw, label) in &self.references {
            requisites.label = if wants_labels { one_line(label) } else { String::new() };
            requisites.reference(kind, raw);
        }
        if self.excess.0 {
            requisites.handler.requisite(RequisiteKind::Image, Err(BadLink::TooMany));
        }
        let mut max_bytes = max_link_bytes(context.page_bytes);
        for raw in &self.ids {
            if raw.len() > MAX_TARGET_BYTES || raw.len() > max_bytes {
                handler.id(None);
                continue;
            }
            let id = attribute_text(raw, context.decoding);
            max_bytes = max_bytes.saturating_sub(id.len());
            handler.id(Some(&id));
        }
        if self.excess.1 {
            handler.id(None);
        }
    }
}

/// Passes the files that a stylesheet refers to to a handler.
pub fn read_stylesheet(
    stylesheet: &Url,
    content_type: Option<&str>,
    body: &[u8],
    handler: &mut impl PageHandler,
) {
    let (utf8, css) = (|| encoding_rs::UTF_8, css::decode(content_type, body));
    let context = PageContext { page: stylesheet, page_bytes: body.len(), decoding: &utf8, encoding: &utf8 };
    let resolver = UrlResolver::new(stylesheet);
    let mut requisites = Requisites::new(handler, &resolver, &context);
    css::each_url(&css, |url| requisites.target(url.kind, &url.target));
}

/// Resolves the requisites of a page, within its limits.
struct Requisites<'a, H> {
    handler: &'a mut H,
    resolver: &'a UrlResolver<'a>,
    context: &'a PageContext<'a>,
    resolved: String,
    /// The label of the element that is read.
    label: String,
    max_bytes: usize,
    count: usize,
    /// How many documents the page is in, with itself.
    nesting: usize,
}

impl<'a, H: PageHandler> Requisites<'a, H> {
    fn new(
        handler: &'a mut H,
        resolver: &'a UrlResolver<'a>,
        context: &'a PageContext<'a>,
    ) -> Requisites<'a, H> {
        Requisites {
            handler,
            resolver,
            context,
            resolved: String::new(),
            label: String::new(),
            max_bytes: max_link_bytes(context.page_bytes),
            count: 0,
            nesting: 1,
        }
    }

    /// Passes on the requisites of the document of an `iframe`, which has the base URL of its page.
    fn document(&mut self, html: &str) {
        if self.nesting == MAX_NESTED_DOCUMENTS {
            return;
        }
        let references = References::scan(html.as_bytes());
        let base = references.targets().base_url(self.resolver.base(), self.context.decoding);
        let mut nested = Requisites {
            handler: &mut *self.handler,
            resolver: &UrlResolver::new(&base),
            context: self.context,
            resolved: String::new(),
            label: String::new(),
            max_bytes: self.max_bytes,
            count: self.count,
            nesting: self.nesting + 1,
        };
        for RawReference { kind, value, .. } in references.found {
            nested.reference(kind, value);
        }
        (self.max_bytes, self.count) = (nested.max_bytes, nested.count);
    }

    fn reference(&mut self, kind: ReferenceKind, raw: &[u8]) {
        let decoding = self.context.decoding;
        match kind {
            ReferenceKind::Requisite(kind) if raw.len() <= MAX_TARGET_BYTES => {
                self.target(kind, &attribute_text(raw, decoding));
            }
            ReferenceKind::Srcdoc => self.document(&attribute_text(raw, decoding)),
            ReferenceKind::Srcset => {
                let srcset = attribute_text(raw, decoding);
                srcset::each_url(&srcset, |range| self.target(RequisiteKind::Image, &srcset[range]));
            }
            ReferenceKind::Style => {
                css::each_url(&attribute_text(raw, decoding), |url| self.target(url.kind, &url.target));
            }
            ReferenceKind::StyleElement => {
                let css = match raw.is_ascii() {
                    true => String::from_utf8_lossy(raw),
                    false => decoding().decode_without_bom_handling(raw).0,
                };
                css::each_url(&css, |url| self.target(url.kind, &url.target));
            }
            _ => {}
        }
    }

    fn target(&mut self, kind: RequisiteKind, target: &str) {
        // A place in the page itself.
        if matches!(target.trim_ascii().as_bytes(), [] | [b'#', ..]) {
            return;
        }
        let mut result = match self.max_bytes == 0 || self.count >= MAX_LINKS {
            true => Err(BadLink::TooMany),
            false if target.len() > MAX_TARGET_BYTES => Err(BadLink::TooLong),
            false => self.resolver.resolve(target, self.context.encoding, &mut self.resolved),
        };
        match result {
            Ok(()) if self.resolved.len() > self.max_bytes => result = Err(BadLink::TooMany),
            Ok(()) => self.max_bytes -= self.resolved.len(),
            Err(bad_link) => {
                self.max_bytes = self.max_bytes.saturating_sub(failed_link_bytes(bad_link, target));
            }
        }
        self.count += 1;
        self.handler.requisite(kind, result.map(|()| self.resolved.as_str()));
        if result.is_ok() && !self.label.is_empty() && self.label.len() <= self.max_bytes {
            self.max_bytes -= self.label.len();
            self.handler.requisite_label(&self.label);
        }
    }
}

/// The start of a target that is not a URL, without what may be a password, as far as it fits into `max_bytes`.
pub(super) fn start_of(target: &str, max_bytes: &mut usize) -> String {
    let mut start = without_user_info(target.trim()).into_owned();
    truncate(&mut start);
    if start.len() > *max_bytes {
        start.clear();
    }
    *max_bytes -= start.len();
    start
}

/// A target that is not a URL, with `…` in place of what may be a user name and a password.
pub fn without_user_info(target: &str) -> Cow<'_, str> {
    let Some(end) = target.rfind('@') else { return target.into() };
    let is_scheme = |start: &str| {
        let is_name =
            |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        start.is_empty() || start.strip_suffix(':').is_some_and(is_name)
    };
    let authority = target[..end].find("//").filter(|slashes| is_scheme(&target[..*slashes]));
    format!("{}…{}", &target[..authority.map_or(0, |slashes| slashes + 2)], &target[end..]).into()
}

/// A text in one line, of at most [`MAX_TEXT_CHARS`] characters.
fn one_line(raw: &[u8]) -> String {
    let mut text = text::one_line(&raw[..raw.len().min(MAX_RAW_BYTES)]);
    truncate(&mut text);
    text
}

fn truncate(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT_CHARS) {
        text.truncate(end);
        text.truncate(text.trim_end().len());
    }
}

/// Decodes the details of links in ascending order.
pub(super) struct LinkDetails<'t, 'p> {
    texts: &'t [(usize, &'p [u8])],
    rels: &'t [&'p [u8]],
    labels: &'t [&'p [u8]],
}

impl LinkDetails<'_, '_> {
    /// The details of the link with this index. What does not fit into `max_bytes` is left out.
    pub(super) fn detail(
        &mut self,
        link: usize,
        kind: LinkKind,
        target: &str,
        context: &PageContext,
        max_bytes: &mut usize,
    ) -> LinkDetail {
        let mut take = |text: String| {
            let taken = Some(text).filter(|text| text.len() <= *max_bytes).unwrap_or_default();
            *max_bytes -= taken.len();
            taken
        };
        let mut text = self.text(link);
        if text.is_empty() {
            text = self.labels.get(link).map(|label| one_line(label)).unwrap_or_default();
        }
        let text = take(text);
        let rel = self.rels.get(link).filter(|rel| rel.len() <= MAX_URL_BYTES);
        let rel = take(rel.map(|rel| attribute_text(rel, context.decoding).into_owned()).unwrap_or_default());
        let fragment = target.split_once('#').map(|(_, fragment)| {
            take(fragment.trim_end_matches(|c| c <= ' ').replace(['\t', '\n', '\r'], ""))
        });
        LinkDetail { kind, rel, text, fragment }
    }

    /// The text of the link with this index, in one line. Empty if it has none.
    fn text(&mut self, link: usize) -> String {
        let skipped = self.texts.iter().take_while(|(index, _)| *index < link).count();
        let own = self.texts[skipped..].iter().take_while(|(index, _)| *index == link).count();
        let (runs, rest) = self.texts[skipped..].split_at(own);
        self.texts = rest;
        let runs: Vec<&[u8]> = runs.iter().map(|(_, run)| *run).collect();
        // A space in place of markup.
        let mut text = text::one_line(&runs.join(&b' '));
        truncate(&mut text);
        text
    }
}

/// Collects the link targets and the wanted parts of a page, and passes its text to the handler.
pub(super) struct PartsSink<'h, 'p, H> {
    pub(super) page: PageSink<'h, 'p, H>,
    pub(super) parts: RawParts<'p>,
    wanted: PageParts,
    /// The link that the scanner is in.
    open: Option<OpenLink>,
    /// The link of the tag that the scanner is at.
    current: Option<usize>,
}

struct OpenLink {
    index: usize,
    raw_bytes: usize,
}

impl<'h, 'p, H: PageHandler> PartsSink<'h, 'p, H> {
    pub(super) fn new(page: PageSink<'h, 'p, H>, wanted: PageParts) -> Self {
        PartsSink { page, parts: RawParts::default(), wanted, open: None, current: None }
    }
}

impl<'p, H: PageHandler> Sink<'p> for PartsSink<'_, 'p, H> {
    const WANTS_MARKUP: bool = true;

    fn element(&mut self, element: Element, attributes: &Attributes<'p>) {
        let index = self.page.targets.links.len();
        self.page.element(element, attributes);
        let is_link = self.page.targets.links.len() > index;
        self.current = (is_link && self.wanted.link_details).then_some(index);
        if self.current.is_some() {
            self.parts.rels.push(attributes.rel.unwrap_or_default());
            self.parts.labels.push(b"");
        }
        if element == Element::Anchor {
            // An anchor ends at the next one, as in browsers.
            self.open = self.current.map(|index| OpenLink { index, raw_bytes: 0 });
        }
    }

    fn markup(&mut self, markup: Markup<'p>) {
        let current = self.current.take();
        let Some(tag) = StartTag::parse(&markup) else { return };
        let image_in = self.open.as_ref().filter(|_| tag.is_image()).map(|open| open.index);
        let RawParts { ids, references, labels, excess, .. } = &mut self.parts;
        if let Some(label) = current.or(image_in).and_then(|link| labels.get_mut(link))
            && label.is_empty()
        {
            *label = tag.label();
        }
        if self.wanted.ids {
            tag.ids().for_each(|id| push(ids, id, &mut excess.1));
        }
        if self.wanted.requisites {
            tag.each_reference(|kind, value| {
                if is_requisite(kind) {
                    push(references, (kind, value, tag.label()), &mut excess.0);
                }
            });
            if let Some(content) = StartTag::style(&markup) {
                push(references, (ReferenceKind::StyleElement, content, b""), &mut excess.0);
            }
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
            self.parts.texts.push((*index, kept));
        }
        self.page.text(run);
    }

    fn title(&mut self, content: &'p [u8]) {
        self.page.title(content);
    }
}

/// Whether a value of this kind may contain URLs of requisites.
fn is_requisite(kind: ReferenceKind) -> bool {
    use ReferenceKind::{Requisite, Srcdoc, Srcset, Style};
    matches!(kind, Requisite(_) | Srcdoc | Srcset | Style)
}

/// Appends a value, unless there are [`MAX_LINKS`] of them.
fn push<T>(list: &mut Vec<T>, value: T, excess: &mut bool) {
    match list.len() < MAX_LINKS {
        true => list.push(value),
        false => *excess = true,
    }
}
