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

/// A page as it is stored, without its body.
struct Stored {
    expires: u64,
    fingerprint: Fingerprint,
    url: String,
}

impl Stored {
    fn to_bytes(&self) -> Vec<u8> {
        let fingerprint = self.fingerprint.to_bytes();
        let mut bytes = self.expires.to_le_bytes().to_vec();
        bytes.extend((fingerprint.len() as u16).to_le_bytes());
        bytes.extend(fingerprint);
        bytes.extend(self.url.as_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Stored> {
        let (expires, bytes) = bytes.split_first_chunk()?;
        let (length, bytes) = bytes.split_first_chunk()?;
        let (fingerprint, url) = bytes.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        Some(Stored {
            expires: u64::from_le_bytes(*expires),
            fingerprint: Fingerprint::from_bytes(fingerprint)?,
            url: String::from_utf8(url.to_vec()).ok()?,
        })
    }
}

impl Moves {
    /// A page, compressed.
    pub(super) fn page(&self, url: &str, fingerprint: &Fingerprint, body: &[u8]) -> Page {
        let body = if self.settings.keep_content { compressed(body) } else { Vec::new() };
        Page { id: self.key.url_id(url), url: url.to_owned(), fingerprint: fingerprint.clone(), body }
    }

    /// At most three round trips: who is filed where this page would be; what they are like; store it. Pages that are
    /// similar and in flight at the same moment may both be stored; pages that are the same are not.
    pub(super) async fn remember(&self, page: Page) -> Result<Remembered, Trouble> {
        let Some(threshold) = self.settings.similarity else {
            if !page.body.is_empty() {
                let now = self.now().await?;
                self.connection.all(vec![self.store(&page, now)]).await?;
            }
            return Ok(Remembered::New);
        };
        let bands = bands(threshold, &page.fingerprint);
        let mut looks = vec![Call::plain("TIME"), self.exact(&page)];
        looks.extend(bands.iter().map(|band| {
            let mut look = Call::plain("LRANGE");
            look.arg(format!("{}band:{band}", self.keys.content(*band))).arg(0).arg(MOST_CANDIDATES - 1);
            look
        }));
        let mut answers = self.connection.all(looks).await?.into_iter();
        let now = self.time(answers.next().unwrap_or_default())?;
        let there: Vec<u8> =
            self.connection.read::<Option<_>>(answers.next().unwrap_or_default())?.unwrap_or_default();
        if let Some(same) = self.same(&there, &page, now) {
            return Ok(same);
        }
        let candidates =
            answers.map(|ids| self.connection.read(ids)).collect::<Result<Vec<Vec<u64>>, _>>()?;
        if let Some(url) = self.similar(threshold, &page, candidates.concat(), now).await? {
            return Ok(Remembered::Similar(url));
        }
        self.keep(&page, &there, &bands, now).await
    }

    /// Files and stores a page, unless one that is the same was filed meanwhile.
    async fn keep(&self, page: &Page, there: &[u8], bands: &[u64], now: u64) -> Result<Remembered, Trouble> {
        let lifetime = self.content_lifetime();
        let ours = Stored {
            expires: now + lifetime,
            fingerprint: Fingerprint { exact: page.fingerprint.exact, sketch: None },
            url: page.url.clone(),
        };
        let mut claim = self.script(&scripts::CLAIM, self.keys.content(page.fingerprint.exact as u64));
        claim.arg(exact_name(page)).arg(there).arg(ours.to_bytes()).arg(lifetime);
        let mut commands = vec![claim, self.store(page, now)];
        let mut parts: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for band in bands {
            parts.entry(self.keys.content(*band)).or_default().push(*band);
        }
        for (base, bands) in parts {
            let mut file = self.script(&scripts::BANDS, base);
            file.arg(page.id).arg(MOST_CANDIDATES).arg(lifetime).arg(bands.len()).arg(bands);
            commands.push(file);
        }
        let mut answers = self.connection.all(commands).await?.into_iter();
        let other: Vec<u8> = self.connection.read(answers.next().unwrap_or_default())?;
        let Some(same) = self.same(&other, page, now) else { return Ok(Remembered::New) };
        let mut discard = self.script(&scripts::DISCARD, self.keys.content(page.id));
        discard.arg(page.id);
        self.connection.all(vec![discard]).await?;
        Ok(same)
    }

    /// The URL of the page that was filed under the hash of this one's body, if it is another's.
    fn same(&self, filed: &[u8], page: &Page, now: u64) -> Option<Remembered> {
        let other = Stored::from_bytes(filed)?;
        let is_another = other.url != page.url && other.fingerprint.exact == page.fingerprint.exact;
        (is_another && other.expires > now).then_some(Remembered::Same(other.url))
    }

    /// The URL of a page among these that is similar.
    async fn similar(
        &self,
        threshold: Threshold,
        page: &Page,
        mut candidates: Vec<u64>,
        now: u64,
    ) -> Result<Option<String>, Trouble> {
        let mut seen = HashSet::from([page.id]);
        candidates.retain(|id| seen.insert(*id));
        let looks = candidates.iter().map(|id| get(format!("{}page:{id}", self.keys.content(*id))));
        let stored: Vec<Option<Vec<u8>>> = self.connection.each(looks.collect()).await?;
        let stored = stored.into_iter().flatten().filter_map(|bytes| Stored::from_bytes(&bytes));
        let is_similar = |other: &Stored| match (&other.fingerprint.sketch, &page.fingerprint.sketch) {
            (Some(other), Some(sketch)) => threshold.similar(other, sketch),
            _ => false,
        };
        let mut similar = stored.filter(|other| other.expires > now && is_similar(other));
        Ok(similar.next().map(|other| other.url))
    }

    fn store(&self, page: &Page, now: u64) -> Call {
        let lifetime = self.content_lifetime();
        let stored =
            Stored { expires: now + lifetime, fingerprint: page.fingerprint.clone(), url: page.url.clone() };
        let mut command = self.script(&scripts::STORE, self.keys.content(page.id));
        command.arg(page.id).arg(stored.to_bytes()).arg(&page.body).arg(lifetime);
        command
    }

    pub(super) async fn content(&self, url: &str) -> Result<Option<Vec<u8>>, Trouble> {
        let id = self.key.url_id(url);
        let base = self.keys.content(id);
        let looks =
            vec![Call::plain("TIME"), get(format!("{base}page:{id}")), get(format!("{base}body:{id}"))];
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

    fn exact(&self, page: &Page) -> Call {
        get(format!("{}exact:{}", self.keys.content(page.fingerprint.exact as u64), exact_name(page)))
    }

    fn content_lifetime(&self) -> u64 {
        milliseconds(self.settings.ttl).max(1)
    }

    async fn now(&self) -> Result<u64, Trouble> {
        let time = self.connection.one(Call::plain("TIME")).await?;
        self.time(time)
    }

    /// The crawl's time of an answer to TIME.
    fn time(&self, answer: Value) -> Result<u64, Trouble> {
        let (seconds, microseconds): (u64, u64) = self.connection.read(answer)?;
        let time = Duration::from_secs(seconds) + Duration::from_micros(microseconds);
        Ok(milliseconds(time) + self.ahead())
    }
}

fn get(key: String) -> Call {
    let mut command = Call::plain("GET");
    command.arg(key);
    command
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
