//! Detects duplicates and near-duplicates of stored pages.
//!
//! Two pages are *duplicates* if their bodies are equal and their links resolve to the same targets. They are
//! *near-duplicates* if the Dice coefficient of their sets of *shingles* reaches a [`Threshold`]. The shingles of a page
//! are
//!
//! - every two consecutive words of the title and the visible text, in document order and in lower case, where a word
//!   is a maximal run of letters and digits within a run of text; and
//! - every link target, as a normalized absolute URL without the query parameters that the crawl removes, except links to
//!   the page itself.
//!
//! A page with fewer than [`MIN_SHINGLES`] different shingles can be a duplicate but not a near-duplicate.
//!
//! A [`Fingerprint`] is all that has to be stored of a page to estimate the coefficient. [`Index`] stores fingerprints in
//! memory. For other storages, [`Threshold`] computes the keys to store a fingerprint under and compares two of them.
//! Where the estimate is too close to the threshold to decide, [`ExactComparison`] computes the coefficient from the
//! bodies.

use url::Url;

use self::minhash::MinHasher;
use self::shingles::{ShingleHasher, ShingleSink};
use crate::html::charset::Charset;
use crate::html::parts::{LinkDetail, PageParts};
use crate::html::start_tag::RequisiteKind;
use crate::html::{self, BadLink, LinkKind, PageHandler};
use crate::media::Media;
use crate::strip_query::{StripLinks, StripQuery};

mod comparison;
mod hash;
mod index;
mod minhash;
mod shingle_cache;
mod shingles;
mod threshold;

pub(crate) use comparison::VersionSimilarity;
pub use comparison::{
    ContentType, Decision, ExactComparison, MAX_COMPARISONS, PageBody, ShingleSet, Undecided, Verdicts,
};
pub use hash::HashKey;
pub(crate) use hash::fold;
pub use index::{Index, Lookup, MAX_CANDIDATES, Match};
pub use minhash::{BINS, LSH_VALUES, MIN_SHINGLES, Sketch};
pub use shingle_cache::ShingleCache;
pub use threshold::{Estimate, MAX_BANDS, Threshold};

/// What is stored of a page to recognise its duplicates and near-duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// The hash of the body and of the link targets.
    pub exact: u128,
    /// Estimates the similarity to other pages; `None` if the page has too few shingles, or is compared exactly only.
    pub sketch: Option<Box<Sketch>>,
    /// How the body is read.
    pub content_type: ContentType,
}

impl Fingerprint {
    /// The fingerprint of an HTML page. Passes its text and links on to `handler`, as [`html::read`] does, so that the
    /// page is scanned only once. Links have no parameters that `strip_query` removes.
    pub fn of_html(
        key: HashKey,
        strip_query: &StripQuery,
        page: &Url,
        content_type: Option<&str>,
        body: &[u8],
        handler: &mut impl PageHandler,
    ) -> Fingerprint {
        let hasher = ShingleHasher::new(key, MinHasher::new());
        let shingles = read_html(key, strip_query, hasher, page, content_type, body, handler);
        Fingerprint {
            exact: shingles.links.with_body(body),
            sketch: shingles.hasher.shingles.sketch().map(Box::new),
            content_type: ContentType::new(Media::Html, content_type),
        }
    }

    /// The fingerprint of plain text.
    pub fn of_text(key: HashKey, content_type: Option<&str>, body: &[u8]) -> Fingerprint {
        let mut hasher = ShingleHasher::new(key, MinHasher::new());
        hasher.plain_text(&Charset::new(content_type, body).utf8());
        Fingerprint {
            sketch: hasher.shingles.sketch().map(Box::new),
            content_type: ContentType::new(Media::Text, content_type),
            ..Fingerprint::exact(key, body)
        }
    }

    /// The fingerprint of an HTML page without a sketch, for exact comparison only. Passes the page on to `handler`.
    pub fn exact_html(
        key: HashKey,
        strip_query: &StripQuery,
        page: &Url,
        content_type: Option<&str>,
        body: &[u8],
        handler: &mut impl PageHandler,
    ) -> Fingerprint {
        let hashes = read_html(key, strip_query, NoShingles, page, content_type, body, handler);
        Fingerprint { exact: hashes.links.with_body(body), ..Fingerprint::not_compared() }
    }

    /// The fingerprint of a page without links and without a sketch, for exact comparison only.
    pub fn exact(key: HashKey, body: &[u8]) -> Fingerprint {
        Fingerprint { exact: key.hash(body), ..Fingerprint::not_compared() }
    }

    /// The fingerprint of content that is neither HTML nor text, for exact comparison only.
    pub fn of_other(key: HashKey, body: &[u8]) -> Fingerprint {
        let content_type = ContentType { media: Media::Other, charset: None };
        Fingerprint { content_type, ..Fingerprint::exact(key, body) }
    }

    /// Whether the body is stored: other content than HTML and text is large, and compared by its hash.
    pub(crate) fn stores_body(&self) -> bool {
        self.content_type.media != Media::Other
    }

    /// Stands for the fingerprint of a page that is not compared with any other.
    pub fn not_compared() -> Fingerprint {
        let content_type = ContentType { media: Media::Html, charset: None };
        Fingerprint { exact: 0, sketch: None, content_type }
    }

    /// Encodes the fingerprint, identically on every machine: about 20 bytes without a sketch, 280 with one.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.exact.to_le_bytes().to_vec();
        bytes.extend(self.sketch.iter().flat_map(|sketch| sketch.to_bytes()));
        bytes.extend(self.content_type.to_bytes());
        bytes
    }

    /// Decodes a fingerprint; `None` if the bytes are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Option<Fingerprint> {
        let (exact, rest) = bytes.split_first_chunk()?;
        // A content type is shorter than a sketch.
        let (sketch, content_type) = match rest.split_first_chunk() {
            Some((sketch, content_type)) => (Some(Box::new(Sketch::from_bytes(sketch))), content_type),
            None => (None, rest),
        };
        let content_type = ContentType::from_bytes(content_type)?;
        Some(Fingerprint { exact: u128::from_le_bytes(*exact), sketch, content_type })
    }
}

/// Hashes the link targets of a page, in document order. Links to the page itself, such as `#top`, are not included:
/// their targets differ in all copies.
struct LinkHash {
    key: HashKey,
    links: Option<u128>,
}

impl LinkHash {
    fn new(key: HashKey) -> Self {
        LinkHash { key, links: None }
    }

    fn add(&mut self, target: u128) {
        self.links = Some(self.key.chain(self.links.unwrap_or(0), target));
    }

    /// The hash of the body and of the link targets.
    fn with_body(&self, body: &[u8]) -> u128 {
        let body = self.key.hash(body);
        self.links.map_or(body, |links| self.key.chain(body, links))
    }
}

/// Hashes the text and the link targets of a page.
trait ContentHasher {
    /// The next run of visible text.
    fn html_text(&mut self, run: &[u8]);

    /// The hash of the next link target.
    fn link_target(&mut self, target: u128);
}

impl<S: ShingleSink> ContentHasher for ShingleHasher<S> {
    #[inline]
    fn html_text(&mut self, run: &[u8]) {
        ShingleHasher::html_text(self, run);
    }

    fn link_target(&mut self, target: u128) {
        ShingleHasher::link_target(self, target);
    }
}

/// Hashes nothing, for pages that are only compared exactly.
struct NoShingles;

impl ContentHasher for NoShingles {
    #[inline]
    fn html_text(&mut self, _: &[u8]) {}

    fn link_target(&mut self, _: u128) {}
}

/// Hashes the content and the link targets of a page and passes its text and links on to another handler.
struct ShingleHandler<'h, C, H> {
    hasher: C,
    links: LinkHash,
    inner: &'h mut H,
}

impl<'h, C: ContentHasher, H: PageHandler> ShingleHandler<'h, C, H> {
    fn new(key: HashKey, hasher: C, inner: &'h mut H) -> Self {
        ShingleHandler { hasher, links: LinkHash::new(key), inner }
    }
}

impl<C: ContentHasher, H: PageHandler> PageHandler for ShingleHandler<'_, C, H> {
    #[inline]
    fn text(&mut self, run: &[u8]) {
        self.hasher.html_text(run);
        self.inner.text(run);
    }

    fn title(&mut self, content: &[u8]) {
        self.hasher.html_text(content);
        self.inner.title(content);
    }

    fn robots_meta(&mut self, name: &str, content: &str) {
        self.inner.robots_meta(name, content);
    }

    fn expect_links(&mut self, count: usize) {
        self.inner.expect_links(count);
    }

    fn wanted_parts(&self) -> PageParts {
        self.inner.wanted_parts()
    }

    fn link_detail(&mut self, detail: LinkDetail) {
        self.inner.link_detail(detail);
    }

    fn bad_link_detail(&mut self, bad_link: BadLink, target: &str, detail: LinkDetail) {
        self.inner.bad_link_detail(bad_link, target, detail);
    }

    fn requisite(&mut self, kind: RequisiteKind, target: Result<&str, BadLink>) {
        self.inner.requisite(kind, target);
    }

    fn requisite_label(&mut self, label: &str) {
        self.inner.requisite_label(label);
    }

    fn id(&mut self, id: Option<&str>) {
        self.inner.id(id);
    }

    fn link(&mut self, kind: LinkKind, target: Result<&str, BadLink>) {
        if let Ok(target) = target {
            let target = self.links.key.hash(target.as_bytes());
            self.hasher.link_target(target);
            self.links.add(target);
        }
        self.inner.link(kind, target);
    }

    fn link_to_itself(&mut self, kind: LinkKind, target: Result<&str, BadLink>) {
        self.inner.link_to_itself(kind, target);
    }
}

/// Reads an HTML page with a hasher and passes it on to a handler, both with links as the crawl follows them.
fn read_html<'h, C: ContentHasher, H: PageHandler>(
    key: HashKey,
    strip_query: &StripQuery,
    hasher: C,
    page: &Url,
    content_type: Option<&str>,
    body: &[u8],
    handler: &'h mut H,
) -> ShingleHandler<'h, C, H> {
    let mut stripped = StripLinks::new(strip_query, ShingleHandler::new(key, hasher, handler));
    html::read(page, content_type, body, &mut stripped);
    stripped.inner
}

#[cfg(test)]
mod tests;
