//! A start tag with the attributes that refer to other files, and what they refer to.

use super::attributes::{self, Name, TagAttributes};
use super::scanner::Markup;
use super::{LinkKind, MAX_TARGET_BYTES};

/// An attribute that refers to another file, names a place in the page, or says what such an attribute means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attribute {
    Href,
    /// `xlink:href`, the `href` of older SVG.
    XlinkHref,
    Src,
    Srcset,
    /// `imagesrcset` of a `link`.
    ImageSrcset,
    /// `data` of an `object`.
    Data,
    Poster,
    Background,
    Action,
    Style,
    Id,
    Name,
    Rel,
    As,
    Type,
    Content,
    HttpEquiv,
    Integrity,
    CrossOrigin,
    Srcdoc,
    FormAction,
    Alt,
    AriaLabel,
    Title,
}

/// The number of attributes in [`Attribute`].
const ATTRIBUTES: usize = Attribute::Title as usize + 1;

impl Attribute {
    #[inline]
    fn from_name(name: Name, spelling: &[u8]) -> Option<Attribute> {
        const fn named(name: &str) -> Name {
            Name::new(name.as_bytes())
        }
        const HREF: Name = named("href");
        const SRC: Name = named("src");
        const SRCSET: Name = named("srcset");
        const DATA: Name = named("data");
        const POSTER: Name = named("poster");
        const ACTION: Name = named("action");
        const STYLE: Name = named("style");
        const ID: Name = named("id");
        const NAME: Name = named("name");
        const REL: Name = named("rel");
        const AS: Name = named("as");
        const TYPE: Name = named("type");
        const CONTENT: Name = named("content");
        const SRCDOC: Name = named("srcdoc");
        const ALT: Name = named("alt");
        const TITLE: Name = named("title");
        Some(match name {
            HREF => Attribute::Href,
            SRC => Attribute::Src,
            SRCSET => Attribute::Srcset,
            DATA => Attribute::Data,
            POSTER => Attribute::Poster,
            ACTION => Attribute::Action,
            STYLE => Attribute::Style,
            ID => Attribute::Id,
            NAME => Attribute::Name,
            REL => Attribute::Rel,
            AS => Attribute::As,
            TYPE => Attribute::Type,
            CONTENT => Attribute::Content,
            SRCDOC => Attribute::Srcdoc,
            ALT => Attribute::Alt,
            TITLE => Attribute::Title,
            Name::LONG => {
                let long = [
                    (&b"xlink:href"[..], Attribute::XlinkHref),
                    (b"imagesrcset", Attribute::ImageSrcset),
                    (b"background", Attribute::Background),
                    (b"http-equiv", Attribute::HttpEquiv),
                    (b"integrity", Attribute::Integrity),
                    (b"crossorigin", Attribute::CrossOrigin),
                    (b"formaction", Attribute::FormAction),
                    (b"aria-label", Attribute::AriaLabel),
                ];
                return long
                    .into_iter()
                    .find(|(name, _)| spelling.eq_ignore_ascii_case(name))
                    .map(|(_, attribute)| attribute);
            }
            _ => return None,
        })
    }
}

/// What a value in a page refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReferenceKind {
    /// A page or file that is linked or embedded as a page. The value of a refresh is its whole `content`.
    Link(LinkKind),
    /// The target of a form, or of a `link` that is no requisite: not followed.
    Other,
    /// The document of an `iframe` itself: HTML.
    Srcdoc,
    /// A file that a browser loads to show the page.
    Requisite(RequisiteKind),
    /// Images with their sizes, as in `srcset`.
    Srcset,
    /// CSS declarations of a `style` attribute.
    Style,
    /// The content of a `style` element.
    StyleElement,
    /// The `href` of a `base`.
    Base,
    /// The name of an attribute that stops a browser from loading changed or local files: `integrity`, `crossorigin`, the
    /// `content` of a Content-Security-Policy.
    Restriction,
}

/// What a page needs a file for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequisiteKind {
    /// An image, of HTML, CSS or SVG.
    Image,
    /// A stylesheet, linked or imported.
    Stylesheet,
    /// A script.
    Script,
    /// A font of a stylesheet.
    Font,
    /// Audio, video, or the text of a video.
    Media,
    /// An icon of the page.
    Icon,
    /// An `object` or `embed`.
    Object,
    /// A web app manifest.
    Manifest,
    /// A feed of the site: not needed to show the page.
    Feed,
}

impl RequisiteKind {
    /// The name of the kind, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            RequisiteKind::Image => "image",
            RequisiteKind::Stylesheet => "stylesheet",
            RequisiteKind::Script => "script",
            RequisiteKind::Font => "font",
            RequisiteKind::Media => "media",
            RequisiteKind::Icon => "icon",
            RequisiteKind::Object => "object",
            RequisiteKind::Manifest => "manifest",
            RequisiteKind::Feed => "feed",
        }
    }
}

/// A start tag.
#[derive(Debug)]
pub struct StartTag<'p> {
    pub(super) name: Name,
    is_foreign: bool,
    /// The first of each attribute: its name as spelled in the page, and its value.
    attributes: [Option<(&'p [u8], &'p [u8])>; ATTRIBUTES],
}

impl<'p> StartTag<'p> {
    /// Parses a start tag, also that of an element whose content is no markup. `None` for an end tag.
    pub fn parse(markup: &Markup<'p>) -> Option<StartTag<'p>> {
        let (name, TagAttributes { page, at }, is_foreign) = match *markup {
            Markup::Start { name, attributes, is_foreign, .. } => (name, attributes, is_foreign),
            Markup::Raw { name, attributes, .. } => (name, attributes, false),
            Markup::End(_) => return None,
        };
        let mut found = [None; ATTRIBUTES];
        attributes::for_each(page, at, |name, spelling, value| {
            if let Some(attribute) = Attribute::from_name(name, spelling) {
                found[attribute as usize].get_or_insert((spelling, value));
            }
        })?;
        Some(StartTag { name: Name::new(name), is_foreign, attributes: found })
    }

    fn value(&self, attribute: Attribute) -> Option<&'p [u8]> {
        self.attributes[attribute as usize].map(|(_, value)| value)
    }

    /// The content of a `style` element, if this is one.
    pub fn style(markup: &Markup<'p>) -> Option<&'p [u8]> {
        match *markup {
            Markup::Raw { name, content, .. } if Name::new(name) == Name::STYLE => Some(content),
            _ => None,
        }
    }

    /// The names of the place that the element is: its `id`, and the `name` of an anchor.
    pub fn ids(&self) -> impl Iterator<Item = &'p [u8]> {
        let name = self.value(Attribute::Name).filter(|_| self.name == Name::A && !self.is_foreign);
        self.value(Attribute::Id).into_iter().chain(name).filter(|id| !id.is_empty())
    }

    /// Whether the element is an image that is not foreign.
    pub fn is_image(&self) -> bool {
        matches!(self.name, Name::IMG | Name::IMAGE) && !self.is_foreign
    }

    /// What the element is called for those who do not see it: `aria-label`, `alt` or `title`. Empty if it has none.
    pub fn label(&self) -> &'p [u8] {
        let labels = [Attribute::AriaLabel, Attribute::Alt, Attribute::Title];
        let mut labels = labels.into_iter().filter_map(|attribute| self.value(attribute));
        labels.find(|label| !label.trim_ascii().is_empty()).unwrap_or_default()
    }

    /// Calls `found` with every value that refers to another file, undecoded. Empty values refer to none.
    pub fn each_reference(&self, mut found: impl FnMut(ReferenceKind, &'p [u8])) {
        use RequisiteKind::{Image, Media, Object, Script};
        let mut refer = |kind, attribute: Attribute| {
            if let Some(value) = self.value(attribute).filter(|value| !value.is_empty()) {
                found(kind, value);
            }
        };
        let requisite = ReferenceKind::Requisite;
        match (self.name, self.is_foreign) {
            (Name::A, false) => refer(ReferenceKind::Link(LinkKind::Anchor), Attribute::Href),
            (Name::A, true) => {
                refer(ReferenceKind::Link(LinkKind::Anchor), Attribute::Href);
                refer(ReferenceKind::Other, Attribute::XlinkHref);
            }
            (Name::IMAGE | Name::FEIMAGE | Name::USE, true) => {
                refer(requisite(Image), Attribute::Href);
                refer(requisite(Image), Attribute::XlinkHref);
            }
            (Name::SCRIPT, true) => {
                refer(requisite(Script), Attribute::Href);
                refer(requisite(Script), Attribute::XlinkHref);
            }
            (_, true) => {}
            (Name::AREA, _) => refer(ReferenceKind::Link(LinkKind::Area), Attribute::Href),
            (Name::FRAME | Name::IFRAME, _) => {
                refer(ReferenceKind::Link(LinkKind::Frame), Attribute::Src);
                refer(ReferenceKind::Srcdoc, Attribute::Srcdoc);
            }
            (Name::BASE, _) => refer(ReferenceKind::Base, Attribute::Href),
            (Name::FORM, _) => refer(ReferenceKind::Other, Attribute::Action),
            (Name::META, _) if self.is(Attribute::HttpEquiv, b"refresh") => {
                refer(ReferenceKind::Link(LinkKind::Refresh), Attribute::Content);
            }
            (Name::LINK, _) => {
                refer(self.link_kind(), Attribute::Href);
                refer(ReferenceKind::Srcset, Attribute::ImageSrcset);
            }
            // A browser takes an `image` in HTML for an `img`.
            (Name::IMG | Name::IMAGE, _) => {
                refer(requisite(Image), Attribute::Src);
                refer(ReferenceKind::Srcset, Attribute::Srcset);
            }
            (Name::SOURCE, _) => {
                refer(requisite(Media), Attribute::Src);
                refer(ReferenceKind::Srcset, Attribute::Srcset);
            }
            (Name::VIDEO, _) => {
                refer(requisite(Media), Attribute::Src);
                refer(requisite(Image), Attribute::Poster);
            }
            (Name::AUDIO | Name::TRACK, _) => refer(requisite(Media), Attribute::Src),
            (Name::SCRIPT, _) => refer(requisite(Script), Attribute::Src),
            (Name::EMBED, _) => refer(requisite(Object), Attribute::Src),
            (Name::OBJECT, _) => refer(requisite(Object), Attribute::Data),
            (Name::BUTTON, _) => refer(ReferenceKind::Other, Attribute::FormAction),
            (Name::INPUT, _) => {
                refer(ReferenceKind::Other, Attribute::FormAction);
                if self.is(Attribute::Type, b"image") {
                    refer(requisite(Image), Attribute::Src);
                }
            }
            (Name::BODY | Name::TABLE | Name::TR | Name::TD | Name::TH, _) => {
                refer(requisite(Image), Attribute::Background);
            }
            _ => {}
        }
        refer(ReferenceKind::Style, Attribute::Style);
        let is_policy = self.name == Name::META && self.is(Attribute::HttpEquiv, b"content-security-policy");
        let policy = is_policy.then_some(Attribute::Content);
        for attribute in policy.into_iter().chain([Attribute::Integrity, Attribute::CrossOrigin]) {
            if let Some((name, _)) = self.attributes[attribute as usize] {
                found(ReferenceKind::Restriction, name);
            }
        }
    }

    /// Whether the value of an attribute is this word, in any case.
    fn is(&self, attribute: Attribute, word: &[u8]) -> bool {
        self.value(attribute).is_some_and(|value| value.trim_ascii().eq_ignore_ascii_case(word))
    }

    /// What the `href` of a `link` is, by its `rel`.
    fn link_kind(&self) -> ReferenceKind {
        let rel = self.value(Attribute::Rel).filter(|rel| rel.len() <= MAX_TARGET_BYTES).unwrap_or_default();
        let has =
            |wanted: &[u8]| rel.split(u8::is_ascii_whitespace).any(|word| word.eq_ignore_ascii_case(wanted));
        let is_preload = has(b"preload");
        ReferenceKind::Requisite(if has(b"stylesheet") {
            RequisiteKind::Stylesheet
        } else if ICONS.iter().any(|icon| has(icon)) {
            RequisiteKind::Icon
        } else if has(b"modulepreload") || is_preload && self.is(Attribute::As, b"script") {
            RequisiteKind::Script
        } else if is_preload && self.is(Attribute::As, b"style") {
            RequisiteKind::Stylesheet
        } else if is_preload && self.is(Attribute::As, b"font") {
            RequisiteKind::Font
        } else if is_preload && self.is(Attribute::As, b"image") {
            RequisiteKind::Image
        } else if is_preload
            && [&b"audio"[..], b"video", b"track"].iter().any(|kind| self.is(Attribute::As, kind))
        {
            RequisiteKind::Media
        } else if has(b"manifest") {
            RequisiteKind::Manifest
        } else if has(b"alternate") && FEEDS.iter().any(|feed| self.is(Attribute::Type, feed)) {
            RequisiteKind::Feed
        } else {
            return ReferenceKind::Other;
        })
    }
}

/// The `type` of feeds.
const FEEDS: [&[u8]; 4] =
    [b"application/rss+xml", b"application/atom+xml", b"application/feed+json", b"application/rdf+xml"];

/// The `rel` of icons.
const ICONS: [&[u8]; 5] = [
    b"icon",
    b"apple-touch-icon",
    b"apple-touch-icon-precomposed",
    b"mask-icon",
    b"apple-touch-startup-image",
];
