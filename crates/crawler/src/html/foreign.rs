//! Tracks the open elements of an `svg` or `math`, in which other rules than those of HTML apply.
//!
//! The HTML standard decides with a tree which rules apply to a tag. Here only the elements from the outermost `svg` or
//! `math` on are known, which is the same in all pages whose HTML elements are nested properly.

use super::attribute_text;
use super::attributes::{self, Name};

/// The maximum number of elements that are tracked, so that the search for the element that an end tag closes is short.
/// Deeper elements are only counted.
const MAX_OPEN: usize = 64;

/// An element that is a child of the page or of the element before it in the stack.
#[derive(Debug, Clone, Copy)]
struct OpenElement<'p> {
    name: &'p [u8],
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An HTML element inside one of the integration points below.
    Html,
    /// An HTML element that the end tags of most other elements do not close.
    SpecialHtml,
    Svg,
    MathMl,
    /// An element of SVG or MathML whose content is HTML.
    HtmlIntegrationPoint,
    /// An element of MathML whose content is HTML, with two exceptions.
    TextIntegrationPoint,
    /// An `annotation-xml` whose content is not HTML.
    AnnotationXml,
}

impl OpenElement<'_> {
    fn is_html(&self) -> bool {
        matches!(self.kind, Kind::Html | Kind::SpecialHtml)
    }

    /// Whether its content is HTML.
    fn contains_html(&self) -> bool {
        self.is_html() || matches!(self.kind, Kind::HtmlIntegrationPoint | Kind::TextIntegrationPoint)
    }

    /// Whether an end tag of an HTML element in its content cannot close an element around it.
    fn is_barrier(&self) -> bool {
        match self.kind {
            Kind::SpecialHtml => self.is_template(),
            Kind::Html | Kind::Svg | Kind::MathMl => false,
            Kind::HtmlIntegrationPoint | Kind::TextIntegrationPoint | Kind::AnnotationXml => true,
        }
    }

    fn is_template(&self) -> bool {
        self.is_html() && self.has_name(b"template")
    }

    /// Whether the text in it is not visible.
    fn hides_text(&self) -> bool {
        !self.is_html() && [&b"script"[..], b"style", b"title"].iter().any(|name| self.has_name(name))
    }

    fn has_name(&self, name: &[u8]) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

fn is_root(name: Name) -> bool {
    name == Name::SVG || name == Name::MATH
}

/// The open elements from the outermost `svg` or `math` on; empty outside of them.
#[derive(Debug, Default)]
pub(super) struct ForeignElements<'p> {
    open: Vec<OpenElement<'p>>,
    /// Number of open elements beyond [`MAX_OPEN`].
    excess: usize,
    /// How many of them are called `svg` or `math`.
    excess_roots: usize,
}

impl<'p> ForeignElements<'p> {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether the innermost element is not an HTML element.
    pub(super) fn is_in_foreign_element(&self) -> bool {
        self.open.last().is_some_and(|element| !element.is_html())
    }

    /// Whether the text at this place is not visible.
    pub(super) fn hides_text(&self) -> bool {
        self.open.iter().any(OpenElement::hides_text)
    }

    /// Whether a start tag at this place is one of HTML. Some HTML tags end the `svg` or `math` that they are in.
    pub(super) fn is_html_start_tag(&mut self, name: Name, tag: &Tag<'p>) -> bool {
        let Some(parent) = self.open.last() else { return true };
        let is_html = match parent.kind {
            Kind::TextIntegrationPoint => name != Name::MGLYPH && !tag.has_name(b"malignmark"),
            Kind::AnnotationXml => name == Name::SVG,
            _ => parent.contains_html(),
        };
        if is_html || !tag.ends_foreign_content(name) {
            return is_html;
        }
        self.close_foreign();
        true
    }

    /// Opens the `svg` or `math` of a start tag of HTML.
    pub(super) fn open_root(&mut self, name: Name, tag: &Tag<'p>) {
        self.push(tag.name, if name == Name::SVG { Kind::Svg } else { Kind::MathMl });
    }

    /// Opens an HTML element inside an integration point, unless it has no end tag.
    pub(super) fn open_html(&mut self, name: Name, tag: &Tag<'p>) {
        if !self.is_empty() && !WITHOUT_END_TAG.contains(&name) {
            self.push(tag.name, if is_special(name, tag.name) { Kind::SpecialHtml } else { Kind::Html });
        }
    }

    /// Opens an element of SVG or MathML.
    pub(super) fn open_foreign(&mut self, name: Name, tag: &Tag<'p>) {
        let is_svg = self.open.last().is_some_and(|parent| parent.kind == Kind::Svg);
        let kind = match name {
            Name::TITLE | Name::DESC if is_svg => Kind::HtmlIntegrationPoint,
            Name::LONG if is_svg && tag.has_name(b"foreignobject") => Kind::HtmlIntegrationPoint,
            _ if is_svg => Kind::Svg,
            Name::MI | Name::MO | Name::MN | Name::MS | Name::MTEXT => Kind::TextIntegrationPoint,
            Name::LONG if tag.has_name(b"annotation-xml") => match tag.is_html_annotation() {
                true => Kind::HtmlIntegrationPoint,
                false => Kind::AnnotationXml,
            },
            _ => Kind::MathMl,
        };
        self.push(tag.name, kind);
    }

    fn push(&mut self, name: &'p [u8], kind: Kind) {
        if self.open.len() < MAX_OPEN {
            self.open.push(OpenElement { name, kind });
        } else {
            self.excess += 1;
            self.excess_roots += usize::from(is_root(Name::new(name)));
        }
    }

    fn truncate(&mut self, length: usize) {
        self.open.truncate(length);
        (self.excess, self.excess_roots) = (0, 0);
    }

    /// Closes all elements of SVG and MathML up to the next one that contains HTML.
    fn close_foreign(&mut self) {
        let length = self.open.iter().rposition(OpenElement::contains_html).map_or(0, |index| index + 1);
        self.truncate(length);
    }

    /// Closes the elements that an end tag closes. Returns whether it closes an HTML `template`, given that there are
    /// any around the outermost `svg` or `math`, or inside it.
    pub(super) fn end_tag(&mut self, name: Name, spelling: &[u8], has_templates: bool) -> bool {
        // The end of an `svg` or `math` also ends unclosed elements in it.
        if self.excess > 0 && name != Name::TEMPLATE && (!is_root(name) || self.excess_roots > 0) {
            self.excess -= 1;
            self.excess_roots -= usize::from(is_root(name));
            return false;
        }
        if self.is_in_foreign_element() && (name == Name::P || name == Name::BR) {
            self.close_foreign();
        }
        let foreign = self.open.iter().rposition(OpenElement::is_html).map_or(0, |index| index + 1);
        if let Some(index) = self.open[foreign..].iter().rposition(|element| element.has_name(spelling)) {
            self.truncate(foreign + index);
            return false;
        }
        if name == Name::TEMPLATE {
            if has_templates {
                self.truncate(self.open.iter().rposition(OpenElement::is_template).unwrap_or(0));
            }
            return has_templates;
        }
        let barrier = self.open.iter().rposition(OpenElement::is_barrier);
        let inside = barrier.map_or(0, |index| index + 1);
        let is_last = |element: &OpenElement| match element.kind {
            Kind::Html => element.has_name(spelling),
            Kind::SpecialHtml => !is_special(name, spelling) || element.has_name(spelling),
            _ => false,
        };
        if let Some(index) = self.open[inside..].iter().rposition(is_last) {
            if self.open[inside + index].has_name(spelling) {
                self.truncate(inside + index);
            }
        } else if barrier.is_none() && CONTAINERS.contains(&name) {
            // It closes an element around the `svg` or `math`, which has no end tag.
            self.truncate(0);
        }
        false
    }
}

/// A start tag.
pub(super) struct Tag<'p> {
    pub(super) page: &'p [u8],
    /// Its name as spelled in the page.
    pub(super) name: &'p [u8],
    /// Where its attributes start.
    pub(super) attributes: usize,
}

impl Tag<'_> {
    /// Whether its name is this one, in any case. For names that are too long for [`Name`].
    fn has_name(&self, name: &[u8]) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// Whether it is one of the HTML tags that the HTML standard forbids in SVG and MathML.
    fn ends_foreign_content(&self, name: Name) -> bool {
        match name {
            Name::LONG => self.has_name(b"blockquote"),
            Name::FONT => {
                [Name::COLOR, Name::FACE, Name::SIZE].into_iter().any(|name| self.value(name).is_some())
            }
            _ => BREAKOUTS.contains(&name),
        }
    }

    fn is_html_annotation(&self) -> bool {
        let encoding = self.value(Name::ENCODING).map(|raw| attribute_text(raw, &|| encoding_rs::UTF_8));
        encoding.is_some_and(|encoding| {
            ["text/html", "application/xhtml+xml"].iter().any(|html| encoding.eq_ignore_ascii_case(html))
        })
    }

    fn value(&self, name: Name) -> Option<&[u8]> {
        attributes::value(self.page, self.attributes, name)
    }
}

const fn names<const N: usize>(names: [&str; N]) -> [Name; N] {
    let mut packed = [Name::LONG; N];
    let mut at = 0;
    while at < N {
        packed[at] = Name::new(names[at].as_bytes());
        at += 1;
    }
    packed
}

/// The HTML tags that end SVG and MathML, except `blockquote` and `font`.
#[rustfmt::skip]
const BREAKOUTS: [Name; 43] = names([
    "b", "big", "body", "br", "center", "code", "dd", "div", "dl", "dt", "em", "embed", "h1", "h2", "h3", "h4", "h5",
    "h6", "head", "hr", "i", "img", "li", "listing", "menu", "meta", "nobr", "ol", "p", "pre", "ruby", "s", "small",
    "span", "strong", "strike", "sub", "sup", "table", "tt", "u", "ul", "var",
]);

/// The HTML elements that have no end tag, or that the scanner skips including their end tag.
#[rustfmt::skip]
const WITHOUT_END_TAG: [Name; 29] = names([
    "area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "img", "image", "input", "keygen",
    "link", "meta", "param", "source", "track", "wbr", "svg", "math", "iframe", "noembed", "noframes", "script",
    "style", "textarea", "title", "xmp",
]);

/// Whether the HTML standard calls the HTML element of this name special.
fn is_special(name: Name, spelling: &[u8]) -> bool {
    match name {
        Name::LONG => {
            [&b"blockquote"[..], b"figcaption"].iter().any(|name| spelling.eq_ignore_ascii_case(name))
        }
        _ => SPECIAL.contains(&name),
    }
}

/// The special HTML elements, except `blockquote`, `figcaption` and those of [`WITHOUT_END_TAG`].
#[rustfmt::skip]
const SPECIAL: [Name; 54] = names([
    "address", "applet", "article", "aside", "body", "button", "caption", "center", "colgroup", "dd", "details", "dir",
    "div", "dl", "dt", "fieldset", "figure", "footer", "form", "frameset", "h1", "h2", "h3", "h4", "h5", "h6", "head",
    "header", "hgroup", "html", "li", "listing", "main", "marquee", "menu", "nav", "noscript", "object", "ol", "p",
    "pre", "search", "section", "select", "summary", "table", "tbody", "td", "template", "tfoot", "th", "thead", "tr",
    "ul",
]);

/// The HTML elements that an `svg` without end tag is most likely in. An end tag of these is taken as the end of the
/// element around the `svg`. An `a` is not among them: its end tag may be one that SVG has too many.
#[rustfmt::skip]
const CONTAINERS: [Name; 39] = names([
    "article", "aside", "b", "button", "center", "code", "dd", "details", "div", "dl", "dt", "em", "figure", "footer", "h1",
    "h2", "h3", "h4", "h5", "h6", "header", "i", "label", "li", "main", "nav", "ol", "section", "small", "span",
    "strong", "summary", "table", "tbody", "td", "th", "thead", "tr", "ul",
]);
