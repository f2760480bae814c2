//! Content storage: pages for a lifetime, and what recognises them and their like. It is partitioned by what a page is
//! found by, rather than by domain: pages are like each other across domains.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use redis::Value;

use super::super::{Remembered, Trouble};
use super::connection::Call;
use super::moves::{Moves, milliseconds};
use super::scripts;
use crate::resources::embedded::decompress;
use crate::resources::embedded::storage::Body;
use crate::worker::similarity::{Fingerprint, MOST_CANDIDATES, Threshold};

/// The first byte of a stored body.
const PLAIN: u8 = 0;
const COMPRESSED: u8 = 1;

/// How many bytes of pages are remembered together, and what a page has besides its body.
pub(super) const MOST_BYTES: usize = 256 << 10;
const FILED_BYTES: usize = 8 << 10;

/// A page on its way into storage.
pub(super) struct Page {
    id: u64,
    url: String,
    fingerprint: Fingerprint,
    /// Empty where pages are not stored.
    body: Vec<u8>,
}

impl Page {
    /// Tells a script what of the page belongs to one place.
    fn tell(&self, call: &mut Call, part: Part) {
        call.arg(&self.url).arg(name(self.id));
        call.arg(if part.exact { exact_name(self) } else { String::new() });
        match part.page {
            // The first byte of a body tells whether it is compressed.
            true => call.arg(Stored::to_bytes(self)).arg(self.body.len().saturating_sub(1)),
            false => call.arg("").arg(0),
        };
        call.arg(part.bands.len());
        for band in part.bands {
            call.arg(&band.to_le_bytes()[..]);
        }
    }
}

/// A page as it is stored, without its body: the script puts before it when it expires.
struct Stored {
    expires: u64,
    fingerprint: Fingerprint,
    url: String,
}

/// How many digits the time has at which a page expires.
const EXPIRES: usize = 16;

impl Stored {
    fn to_bytes(page: &Page) -> Vec<u8> {
        let fingerprint = page.fingerprint.to_bytes();
        let mut bytes = (fingerprint.len() as u16).to_le_bytes().to_vec();
        bytes.extend(fingerprint);
        bytes.extend(page.url.as_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Stored> {
        let (expires, bytes) = bytes.split_at_checked(EXPIRES)?;
        let (length, bytes) = bytes.split_first_chunk()?;
        let (fingerprint, url) = bytes.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        Some(Stored {
            expires: std::str::from_utf8(expires).ok()?.parse().ok()?,
            fingerprint: Fingerprint::from_bytes(fingerprint)?,
            url: String::from_utf8(url.to_vec()).ok()?,
        })
    }
}

/// What of a page belongs to one place.
#[derive(Default)]
struct Part {
    exact: bool,
    page: bool,
    bands: Vec<u64>,
}

/// What is told of a page: the URL of another that is the same, the ids of those that may be similar, and where they are
/// in the same place those pages.
type Told = (String, Vec<String>, Vec<Option<Vec<u8>>>);

/// What is known of a page by now that was stored and filed.
#[derive(Default)]
pub(super) struct Filed {
    /// When, by the crawl's clock.
    now: u64,
    /// The URL of another that is the same, or nothing.
    same: String,
    /// The ids of those that may be similar.
    candidates: Vec<String>,
    /// Those pages, where they are in the same place.
    stored: Vec<Option<Vec<u8>>>,
}

impl Moves {
    /// A page, compressed.
    pub(super) fn page(&self, url: &str, fingerprint: &Fingerprint, body: &[u8]) -> Page {
        let body = if self.settings.keep_content { compressed(body) } else { Vec::new() };
        Page { id: self.key.url_id(url), url: url.to_owned(), fingerprint: fingerprint.clone(), body }
    }

    /// One round trip as a rule: the page is stored and filed, and told who was filed there before. One that turns out to
    /// be like another is taken back.
    pub(super) async fn remember(&self, page: Page) -> Result<Remembered, Trouble> {
        let threshold = self.settings.similarity;
        if threshold.is_none() && page.body.is_empty() {
            return Ok(Remembered::New);
        }
        let (page, filed) = match self.partitions() {
            // What comes meanwhile goes together.
            1 => {
                let file = async |pages| self.file_here(pages).await;
                self.remembering.make(page, self.loans.count(), weight, file).await?
            }
            _ => self.file_across(page).await?,
        };
        let Filed { now, same, candidates, mut stored } = filed;
        if !same.is_empty() {
            self.discard(&page, false).await?;
            return Ok(Remembered::Same(same));
        }
        if stored.is_empty() {
            stored = self.stored(candidates).await?;
        }
        let similar = threshold.and_then(|threshold| similar(threshold, &page, stored, now));
        let Some(url) = similar else { return Ok(Remembered::New) };
        self.discard(&page, true).await?;
        Ok(Remembered::Similar(url))
    }

    /// Stores and files pages, where everything is in one place.
    async fn file_here(&self, pages: Vec<Page>) -> Result<Vec<(Page, Filed)>, Trouble> {
        let mut calls = vec![self.store(&self.keys.contents[0], pages.len())];
        for page in &pages {
            let part =
                Part { exact: self.settings.similarity.is_some(), page: true, bands: self.bands(page) };
            page.tell(&mut calls[0], part);
        }
        calls.extend(pages.iter().filter_map(|page| self.store_body(page)));
        let answer = self.connection.all(calls).await?.swap_remove(0);
        let (expires, told): (u64, Vec<Told>) = self.connection.read(answer)?;
        let now = expires.saturating_sub(self.content_lifetime());
        let filed =
            told.into_iter().map(|(same, candidates, stored)| Filed { now, same, candidates, stored });
        Ok(pages.into_iter().zip(filed).collect())
    }

    /// Stores a page and files it, each where it belongs.
    async fn file_across(&self, page: Page) -> Result<(Page, Filed), Trouble> {
        let parts = self.parts(&page, self.bands(&page)).into_iter();
        let calls = parts.map(|(base, part)| {
            let mut call = self.store(base, 1);
            page.tell(&mut call, part);
            call
        });
        let mut calls: Vec<Call> = calls.collect();
        let places = calls.len();
        calls.extend(self.store_body(&page));
        let answers = self.connection.all(calls).await?;
        let mut filed = Filed::default();
        for answer in answers.into_iter().take(places) {
            let (expires, told): (u64, Vec<Told>) = self.connection.read(answer)?;
            filed.now = expires.saturating_sub(self.content_lifetime());
            for (same, candidates, stored) in told {
                filed.same.push_str(&same);
                filed.candidates.extend(candidates);
                filed.stored.extend(stored);
            }
        }
        Ok((page, filed))
    }

    /// What a page is filed under to be found by those that are similar.
    fn bands(&self, page: &Page) -> Vec<u64> {
        let sketch = page.fingerprint.sketch.iter();
        let bands = |threshold: Threshold| sketch.flat_map(|sketch| threshold.bands(sketch)).collect();
        self.settings.similarity.map_or_else(Vec::new, bands)
    }

    /// Where a page belongs: by the hash of its body, by its URL, and by each of its bands.
    fn parts(&self, page: &Page, bands: Vec<u64>) -> BTreeMap<&str, Part> {
        let mut parts: BTreeMap<&str, Part> = BTreeMap::new();
        if self.settings.similarity.is_some() {
            parts.entry(self.keys.content(page.fingerprint.exact as u64)).or_default().exact = true;
        }
        parts.entry(self.keys.content(page.id)).or_default().page = true;
        for band in bands {
            parts.entry(self.keys.content(band)).or_default().bands.push(band);
        }
        parts
    }

    /// The script that stores and files so many pages; it has yet to be told them.
    fn store(&self, base: &str, pages: usize) -> Call {
        let mut call = self.script(&scripts::REMEMBER, base);
        call.arg(self.content_lifetime()).arg(MOST_CANDIDATES);
        call.arg(u8::from(self.partitions() == 1)).arg(pages);
        call
    }

    /// A body goes beside the script: Lua would read every byte of it.
    fn store_body(&self, page: &Page) -> Option<Call> {
        let mut call = Call::plain("SET");
        call.arg(format!("{}body:{}", self.keys.content(page.id), name(page.id))).arg(&page.body);
        call.arg("PX").arg(self.content_lifetime());
        (!page.body.is_empty()).then_some(call)
    }

    /// Takes back a page, and what it was filed under unless that is another's.
    async fn discard(&self, page: &Page, is_filed: bool) -> Result<(), Trouble> {
        let mut parts = self.parts(page, Vec::new());
        parts.retain(|_, part| part.page || is_filed);
        let calls = parts.into_iter().map(|(base, part)| {
            let mut call = self.script(&scripts::DISCARD, base);
            call.arg(self.content_lifetime()).arg(&page.url);
            call.arg(if part.page { name(page.id) } else { String::new() });
            call.arg(if part.exact && is_filed { exact_name(page) } else { String::new() });
            call
        });
        self.connection.all(calls.collect()).await?;
        Ok(())
    }

    /// Pages that are stored elsewhere.
    async fn stored(&self, mut candidates: Vec<String>) -> Result<Vec<Option<Vec<u8>>>, Trouble> {
        let mut seen = HashSet::new();
        candidates.retain(|id| seen.insert(id.clone()));
        let looks = candidates.iter().map(|id| {
            let number = u64::from_str_radix(id, 16).unwrap_or(0);
            get(format!("{}page:{id}", self.keys.content(number)))
        });
        self.connection.each(looks.collect()).await
    }

    pub(super) async fn content(&self, url: &str) -> Result<Option<Vec<u8>>, Trouble> {
        let id = self.key.url_id(url);
        let (base, name) = (self.keys.content(id), name(id));
        let looks =
            vec![Call::plain("TIME"), get(format!("{base}page:{name}")), get(format!("{base}body:{name}"))];
        let mut answers = self.connection.all(looks).await?.into_iter();
        let now = self.time(answers.next().unwrap_or_default())?;
        let page: Option<Vec<u8>> = self.connection.read(answers.next().unwrap_or_default())?;
        let body: Option<Vec<u8>> = self.connection.read(answers.next().unwrap_or_default())?;
        let is_there = page.and_then(|page| Stored::from_bytes(&page)).is_some_and(|page| page.expires > now);
        match body.as_deref() {
            Some([PLAIN, body @ ..]) if is_there => Ok(Some(body.to_vec())),
            Some([_, body @ ..]) if is_there => decompress(Body::Compressed(body.into())).map(Some),
            _ => Ok(None),
        }
    }

    /// The URL of a page that is stored.
    pub(super) async fn page_url(&self, id: u64) -> Result<Option<String>, Trouble> {
        let look = get(format!("{}page:{}", self.keys.content(id), name(id)));
        let page: Option<Vec<u8>> = self.connection.one(look).await?;
        Ok(page.and_then(|page| Stored::from_bytes(&page)).map(|page| page.url))
    }

    pub(super) fn content_lifetime(&self) -> u64 {
        milliseconds(self.settings.ttl).max(1)
    }

    /// The crawl's time of an answer to TIME.
    fn time(&self, answer: Value) -> Result<u64, Trouble> {
        let (seconds, microseconds): (u64, u64) = self.connection.read(answer)?;
        let time = Duration::from_secs(seconds) + Duration::from_micros(microseconds);
        Ok(milliseconds(time) + self.ahead())
    }
}

/// The URL of a page among these that is similar.
fn similar(threshold: Threshold, page: &Page, stored: Vec<Option<Vec<u8>>>, now: u64) -> Option<String> {
    let sketch = page.fingerprint.sketch.as_ref()?;
    let stored = stored.into_iter().flatten().filter_map(|bytes| Stored::from_bytes(&bytes));
    let is_similar = |other: &Stored| {
        other.url != page.url
            && other.expires > now
            && other.fingerprint.sketch.as_ref().is_some_and(|other| threshold.similar(other, sketch))
    };
    stored.filter(is_similar).map(|other| other.url).next()
}

/// What remembering a page weighs in bytes: its body, and what it is filed under.
fn weight(page: &Page) -> usize {
    FILED_BYTES + page.body.len()
}

fn get(key: String) -> Call {
    let mut command = Call::plain("GET");
    command.arg(key);
    command
}

/// What a page is named after: all names are of one length, because they are written one after another.
fn name(id: u64) -> String {
    format!("{id:014x}")
}

fn exact_name(page: &Page) -> String {
    format!("{:032x}", page.fingerprint.exact)
}

/// A body as it is stored: compressed, unless that gains nothing.
fn compressed(body: &[u8]) -> Vec<u8> {
    let mut stored = vec![COMPRESSED];
    stored.extend(lz4_flex::compress_prepend_size(body));
    if stored.len() > body.len() {
        stored.clear();
        stored.push(PLAIN);
        stored.extend(body);
    }
    stored
}
