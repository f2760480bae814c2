//! Computes the exact Dice coefficient of two pages from their bodies, where the estimate does not decide.

use std::sync::OnceLock;

use encoding_rs::Encoding;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use serde::{Deserialize, Serialize};
use url::Url;

use super::shingles::{ShingleHasher, ShingleSink};
use super::threshold::{Estimate, Threshold};
use super::{HashKey, read_html};
use crate::html::charset::{Charset, by_header};
use crate::html::{BadLink, LinkHandler, LinkKind};
use crate::media::Media;
use crate::strip_query::StripQuery;

/// What a Content-Type header says about how a body is read as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<u8>", try_from = "Vec<u8>")]
pub struct ContentType {
    /// The media type.
    pub media: Media,
    /// The declared encoding. Without it, the body determines the encoding.
    pub charset: Option<&'static Encoding>,
}

impl ContentType {
    /// The content type of a page with this Content-Type header, whose media type is known.
    pub fn new(media: Media, header: Option<&str>) -> ContentType {
        ContentType { media, charset: header.and_then(by_header) }
    }

    /// A Content-Type header with the same meaning.
    pub(crate) fn header(self) -> Option<String> {
        self.charset.map(|charset| format!("text/*; charset={}", charset.name()))
    }

    /// Encodes the content type: one byte and the name of the encoding.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let media = match self.media {
            Media::Html => HTML,
            Media::Text => TEXT,
            Media::Other => OTHER,
        };
        let mut bytes = vec![media];
        bytes.extend(self.charset.map_or("", Encoding::name).as_bytes());
        bytes
    }

    /// Decodes a content type; `None` if the bytes are damaged.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<ContentType> {
        let (media, name) = bytes.split_first()?;
        let media = match *media {
            HTML => Media::Html,
            TEXT => Media::Text,
            OTHER => Media::Other,
            _ => return None,
        };
        let charset = match name {
            [] => None,
            name => Some(Encoding::for_label(name).filter(|charset| charset.name().as_bytes() == name)?),
        };
        Some(ContentType { media, charset })
    }
}

impl From<ContentType> for Vec<u8> {
    fn from(content_type: ContentType) -> Vec<u8> {
        content_type.to_bytes()
    }
}

impl TryFrom<Vec<u8>> for ContentType {
    type Error = &'static str;

    fn try_from(bytes: Vec<u8>) -> Result<ContentType, &'static str> {
        ContentType::from_bytes(&bytes).ok_or("damaged content type")
    }
}

/// How many bytes of a page there are for each of its shingles, to reserve memory. Documentation has 20 to 50.
const BYTES_PER_SHINGLE: usize = 32;

const HTML: u8 = 0;
const TEXT: u8 = 1;
const OTHER: u8 = 2;

/// A page with its body.
#[derive(Clone, Copy, Debug)]
pub struct PageBody<'a> {
    /// The URL, against which links are resolved.
    pub url: &'a str,
    /// How the body is read.
    pub content_type: ContentType,
    /// The body.
    pub body: &'a [u8],
}

impl PageBody<'_> {
    /// All shingles of the page.
    pub(super) fn shingles(&self, key: HashKey, strip_query: &StripQuery) -> ShingleSet {
        let header = self.content_type.header();
        let expected = self.body.len() / BYTES_PER_SHINGLE;
        let mut hasher = ShingleHasher::new(key, ShingleSet(HashTable::with_capacity(expected)));
        match (self.content_type.media, Url::parse(self.url)) {
            (Media::Html, Ok(url)) => {
                let mut ignore = LinkHandler(|_: LinkKind, _: Result<&str, BadLink>| {});
                let header = header.as_deref();
                hasher = read_html(key, strip_query, hasher, &url, header, self.body, &mut ignore).hasher;
            }
            _ => hasher.plain_text(&Charset::new(header.as_deref(), self.body).utf8()),
        }
        hasher.shingles
    }
}

/// How similar two versions of a page are, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VersionSimilarity(pub(crate) u8);

impl VersionSimilarity {
    /// That of two versions with this Dice coefficient. Versions that differ are not the same, however little.
    pub(crate) fn new(dice: f64) -> VersionSimilarity {
        VersionSimilarity((dice * 100.0).round().clamp(0.0, 99.0) as u8)
    }
}

/// A page that is compared exactly with others.
pub struct ExactComparison<'a> {
    key: HashKey,
    strip_query: &'a StripQuery,
    page: PageBody<'a>,
    shingles: OnceLock<ShingleSet>,
}

impl<'a> ExactComparison<'a> {
    /// A page, the key of the crawl's hashes, and the query parameters to remove from links.
    pub fn new(key: HashKey, strip_query: &'a StripQuery, page: PageBody<'a>) -> ExactComparison<'a> {
        ExactComparison { key, strip_query, page, shingles: OnceLock::new() }
    }

    /// Whether the Dice coefficient of the two pages reaches the threshold.
    pub fn is_near_duplicate(&self, other: &ShingleSet, threshold: Threshold) -> bool {
        self.shingles().dice(other) >= threshold.dice()
    }

    /// How similar the page is to an earlier version. `None` if it is the same one, or neither has text or links.
    pub(crate) fn similarity_to_version(&self, earlier: &PageBody) -> Option<VersionSimilarity> {
        let (shingles, before) = (self.shingles(), self.shingles_of(earlier));
        let is_known = earlier.body != self.page.body && shingles.len() + before.len() > 0;
        is_known.then(|| VersionSimilarity::new(shingles.dice(&before)))
    }

    fn shingles(&self) -> &ShingleSet {
        self.shingles.get_or_init(|| self.shingles_of(&self.page))
    }

    /// The shingles of another page.
    pub fn shingles_of(&self, other: &PageBody) -> ShingleSet {
        other.shingles(self.key, self.strip_query)
    }

    /// The shingles of the page, if it was compared with any.
    pub fn into_shingles(self) -> Option<ShingleSet> {
        self.shingles.into_inner()
    }
}

/// The shingles of a page, without repetitions. Shingles are hashes with a secret key, so they need no other hash.
#[derive(Default)]
pub struct ShingleSet(HashTable<u64>);

impl ShingleSet {
    /// The Dice coefficient of two sets: 2 |A ∩ B| / (|A| + |B|).
    fn dice(&self, other: &ShingleSet) -> f64 {
        let shared = self.0.iter().filter(|shingle| other.contains(**shingle)).count();
        2.0 * shared as f64 / (self.len() + other.len()).max(1) as f64
    }

    /// The number of shingles.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().copied()
    }

    fn contains(&self, shingle: u64) -> bool {
        self.0.find(shingle, |other| *other == shingle).is_some()
    }
}

impl ShingleSink for ShingleSet {
    fn add(&mut self, shingle: u64) {
        if let Entry::Vacant(entry) = self.0.entry(shingle, |other| *other == shingle, |other| *other) {
            entry.insert(shingle);
        }
    }
}

/// Maximum number of pages that a page is compared with exactly: those with the highest estimates. Thousands of pages of
/// a site may be about as similar as the threshold.
pub const MAX_COMPARISONS: usize = 8;

/// The results of the exact comparisons of one page.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Verdicts(Vec<(u64, bool)>);

/// Whether a page is a near-duplicate, after an estimate and all exact comparisons so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is one.
    Similar,
    /// It is not.
    Different,
    /// It must be compared exactly first.
    Undecided(Undecided),
}

/// A page that may be a near-duplicate. The more similar one is the smaller one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Undecided {
    /// The number of different bits in the sketches.
    pub distance: u32,
    /// The ID of its URL.
    pub url: u64,
    /// Whether it more likely is a near-duplicate.
    pub is_similar: bool,
}

impl Verdicts {
    /// Adds whether the page of this URL, given by ID, is a near-duplicate.
    pub fn add(&mut self, url: u64, is_near_duplicate: bool) {
        self.0.push((url, is_near_duplicate));
    }

    /// Decides about the page of a URL. A border case that was not compared is
    /// - undecided, while comparisons are allowed;
    /// - different after the last one: its estimate was too low to be compared.
    ///
    /// Without bodies nothing can be compared: then there are no `verdicts`, and the estimate decides.
    pub fn decide(verdicts: Option<&Verdicts>, url: u64, estimate: Estimate) -> Decision {
        let (is_similar, distance) = match estimate {
            Estimate::Similar => return Decision::Similar,
            Estimate::Different => return Decision::Different,
            Estimate::Border { is_similar, distance } => (is_similar, distance),
        };
        let verdict = match verdicts {
            None => Some(is_similar),
            Some(verdicts) => verdicts.of(url).or((verdicts.remaining() == 0).then_some(false)),
        };
        match verdict {
            Some(true) => Decision::Similar,
            Some(false) => Decision::Different,
            None => Decision::Undecided(Undecided { distance, url, is_similar }),
        }
    }

    fn of(&self, url: u64) -> Option<bool> {
        self.0.iter().find(|(other, _)| *other == url).map(|(_, verdict)| *verdict)
    }

    /// Of pages that are undecided, those that are compared next: the most similar ones, which come first.
    pub fn select(&self, mut undecided: Vec<Undecided>) -> Vec<Undecided> {
        undecided.sort_unstable();
        undecided.dedup();
        undecided.truncate(self.remaining());
        undecided
    }

    fn remaining(&self) -> usize {
        MAX_COMPARISONS.saturating_sub(self.0.len())
    }
}
