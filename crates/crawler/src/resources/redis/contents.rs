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

/// A page on its way into storage.
pub(super) struct Page {
    id: u64,
    url: String,
    fingerprint: Fingerprint,
    /// Empty where pages are not stored.
    body: Vec<u8>,
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

/// What is told of a page: the URL of another that is the same, the ids of those that may be similar, where they are in the
/// same place those pages, and when the page expires.
type Told = (String, Vec<String>, Vec<Option<Vec<u8>>>, u64);

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
        let bands = threshold.map_or_else(Vec::new, |threshold| bands(threshold, &page.fingerprint));
        let parts = self.parts(&page, bands).into_iter();
        let mut calls: Vec<Call> = parts.map(|(base, part)| self.store(&page, base, part)).collect();
        // A body goes beside the scripts: Lua would read every byte of it.
        calls.extend((!page.body.is_empty()).then(|| self.store_body(&page)));
        let mut answers = self.connection.all(calls).await?;
        answers.truncate(answers.len() - usize::from(!page.body.is_empty()));
        let mut now = 0;
        let (mut same, mut candidates, mut stored) = (String::new(), Vec::new(), Vec::new());
        for answer in answers {
            let (same_here, more, pages, expires): Told = self.connection.read(answer)?;
            now = expires.saturating_sub(self.content_lifetime());
            same.push_str(&same_here);
            candidates.extend(more);
            stored.extend(pages);
        }
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

    fn store(&self, page: &Page, base: &str, part: Part) -> Call {
        let mut call = self.script(&scripts::REMEMBER, base);
        call.arg(self.content_lifetime()).arg(&page.url).arg(name(page.id));
        call.arg(if part.exact { exact_name(page) } else { String::new() });
        match part.page {
            // The first byte of a body tells whether it is compressed.
            true => call.arg(Stored::to_bytes(page)).arg(page.body.len().saturating_sub(1)),
            false => call.arg("").arg(0),
        };
        call.arg(MOST_CANDIDATES).arg(u8::from(self.partitions() == 1)).arg(part.bands.len());
        for band in part.bands {
            call.arg(&band.to_le_bytes()[..]);
        }
        call
    }

    fn store_body(&self, page: &Page) -> Call {
        let mut call = Call::plain("SET");
        call.arg(format!("{}body:{}", self.keys.content(page.id), name(page.id))).arg(&page.body);
        call.arg("PX").arg(self.content_lifetime());
        call
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

/// What a page is filed under to be found by those that are similar.
fn bands(threshold: Threshold, fingerprint: &Fingerprint) -> Vec<u64> {
    fingerprint.sketch.iter().flat_map(|sketch| threshold.bands(sketch)).collect()
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
