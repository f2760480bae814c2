//! Tells whether a page resembles one already kept.
//!
//! Two pages are *the same* if their bodies are, and *similar* by the Dice coefficient of what they say and
//! where they point: of the sets of
//!
//! - every two words that follow each other in the title and the visible text, in document order and in lower
//!   case, a word being a maximal run of letters and digits that markup ends, too; and
//! - every link target as an absolute URL in its normal form, which counts as one sequence.
//!
//! A page of fewer than [`MIN_SEQUENCES`] such sequences can only be the same as another.
//!
//! What has to be kept of a page for this is its [`Fingerprint`]. [`Index`] keeps fingerprints in memory; where
//! they are kept elsewhere, [`Threshold`] tells which keys to file them under and whether two are similar.

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
pub use index::{Index, MOST_CANDIDATES, Match};
pub use minhash::{BINS, LEADERS, MIN_SEQUENCES, Sketch};
pub use threshold::{MOST_BANDS, Threshold};

/// What is kept of a page to recognise it and its like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// The hash of the body.
    pub exact: u128,
    /// The sketch of what the page says and where it points, unless that is too little.
    pub sketch: Option<Box<Sketch>>,
}

impl Fingerprint {
    /// The fingerprint of an HTML page, in one pass with whatever else is to be read of it: all goes on to
    /// `reader`, as [`html::read`] tells it.
    pub fn of_html(
        key: HashKey,
        page: &Url,
        content_type: Option<&str>,
        body: &[u8],
        reader: &mut impl PageHandler,
    ) -> Fingerprint {
        let mut reading = Reading { words: ShingleHasher::new(key, MinHasher::new()), reader };
        html::read(page, content_type, body, &mut reading);
        Self::new(key, body, &reading.words)
    }

    /// The fingerprint of plain text.
    pub fn of_text(key: HashKey, content_type: Option<&str>, body: &[u8]) -> Fingerprint {
        let mut words = ShingleHasher::new(key, MinHasher::new());
        words.plain_text(&Charset::new(content_type, body).utf8());
        Self::new(key, body, &words)
    }

    /// The fingerprint of a page that is only compared exactly.
    pub fn exact(key: HashKey, body: &[u8]) -> Fingerprint {
        Fingerprint { exact: key.hash(body), sketch: None }
    }

    fn new(key: HashKey, body: &[u8], words: &ShingleHasher<MinHasher>) -> Fingerprint {
        Fingerprint { exact: key.hash(body), sketch: words.sequences.sketch().map(Box::new) }
    }

    /// The fingerprint as bytes, the same on every machine: 16 without a sketch, 272 with one.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.exact.to_le_bytes().to_vec();
        bytes.extend(self.sketch.iter().flat_map(|sketch| sketch.to_bytes()));
        bytes
    }

    /// The fingerprint that these are the bytes of, if they are of any.
    pub fn from_bytes(bytes: &[u8]) -> Option<Fingerprint> {
        let (exact, sketch) = bytes.split_first_chunk()?;
        let sketch = match sketch {
            [] => None,
            bytes => Some(Box::new(Sketch::from_bytes(bytes.try_into().ok()?))),
        };
        Some(Fingerprint { exact: u128::from_le_bytes(*exact), sketch })
    }
}

/// Counts what a page says and points to, and hands it on.
struct Reading<'r, S, R> {
    words: ShingleHasher<S>,
    reader: &'r mut R,
}

impl<S: shingles::ShingleSink, R: PageHandler> PageHandler for Reading<'_, S, R> {
    #[inline]
    fn text(&mut self, run: &[u8]) {
        self.words.html_text(run);
        self.reader.text(run);
    }

    fn title(&mut self, content: &[u8]) {
        self.words.html_text(content);
        self.reader.title(content);
    }

    fn link(&mut self, kind: LinkKind, target: Result<&str, BadLink>) {
        if let Ok(target) = target {
            self.words.target(target);
        }
        self.reader.link(kind, target);
    }
}

#[cfg(test)]
mod tests;
