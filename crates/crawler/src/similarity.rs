//! Detects duplicates and near-duplicates of stored pages.
//!
//! Two pages are *duplicates* if their bodies are equal, and *near-duplicates* if the Dice coefficient of their sets of
//! *shingles* reaches a [`Threshold`]. The shingles of a page are
//!
//! - every two consecutive words of the title and the visible text, in document order and in lower case, where a word
//!   is a maximal run of letters and digits within a run of text; and
//! - every link target, as a normalised absolute URL.
//!
//! A page with fewer than [`MIN_SHINGLES`] different shingles can be a duplicate but not a near-duplicate.
//!
//! A [`Fingerprint`] is all that has to be stored of a page for this. [`Index`] stores fingerprints in memory. For
//! other storages, [`Threshold`] computes the keys to store a fingerprint under and compares two of them.

use url::Url;

use self::minhash::MinHasher;
use self::shingles::ShingleHasher;
use crate::html::charset::Charset;
use crate::html::{self, BadLink, LinkKind, PageHandler};

mod hash;
mod index;
mod minhash;
mod shingles;
mod threshold;

pub use hash::HashKey;
pub use index::{Index, MAX_CANDIDATES, Match};
pub use minhash::{BINS, LSH_VALUES, MIN_SHINGLES, Sketch};
pub use threshold::{MAX_BANDS, Threshold};

/// What is stored of a page to recognise its duplicates and near-duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// The hash of the body.
    pub exact: u128,
    /// The sketch of the page's shingles; `None` if there are too few.
    pub sketch: Option<Box<Sketch>>,
}

impl Fingerprint {
    /// The fingerprint of an HTML page. Passes its text and links on to `handler`, as [`html::read`] does, so that the
    /// page is scanned only once.
    pub fn of_html(
        key: HashKey,
        page: &Url,
        content_type: Option<&str>,
        body: &[u8],
        handler: &mut impl PageHandler,
    ) -> Fingerprint {
        let mut fingerprinter =
            FingerprintHandler { hasher: ShingleHasher::new(key, MinHasher::new()), inner: handler };
        html::read(page, content_type, body, &mut fingerprinter);
        Self::new(key, body, &fingerprinter.hasher)
    }

    /// The fingerprint of plain text.
    pub fn of_text(key: HashKey, content_type: Option<&str>, body: &[u8]) -> Fingerprint {
        let mut hasher = ShingleHasher::new(key, MinHasher::new());
        hasher.plain_text(&Charset::new(content_type, body).utf8());
        Self::new(key, body, &hasher)
    }

    /// The fingerprint of a page without a sketch, for exact comparison only.
    pub fn exact(key: HashKey, body: &[u8]) -> Fingerprint {
        Fingerprint { exact: key.hash(body), sketch: None }
    }

    fn new(key: HashKey, body: &[u8], hasher: &ShingleHasher<MinHasher>) -> Fingerprint {
        Fingerprint { exact: key.hash(body), sketch: hasher.shingles.sketch().map(Box::new) }
    }

    /// Encodes the fingerprint, identically on every machine: 16 bytes without a sketch, 272 with one.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.exact.to_le_bytes().to_vec();
        bytes.extend(self.sketch.iter().flat_map(|sketch| sketch.to_bytes()));
        bytes
    }

    /// Decodes a fingerprint; `None` if the bytes have the wrong length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Fingerprint> {
        let (exact, sketch) = bytes.split_first_chunk()?;
        let sketch = match sketch {
            [] => None,
            bytes => Some(Box::new(Sketch::from_bytes(bytes.try_into().ok()?))),
        };
        Some(Fingerprint { exact: u128::from_le_bytes(*exact), sketch })
    }
}

/// Hashes the shingles of a page and passes its text and links on to another handler.
struct FingerprintHandler<'h, S, H> {
    hasher: ShingleHasher<S>,
    inner: &'h mut H,
}

impl<S: shingles::ShingleSink, H: PageHandler> PageHandler for FingerprintHandler<'_, S, H> {
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

    fn link(&mut self, kind: LinkKind, target: Result<&str, BadLink>) {
        if let Ok(target) = target {
            self.hasher.link_target(target);
        }
        self.inner.link(kind, target);
    }
}

#[cfg(test)]
mod tests;
