//! Content storage: pages for a lifetime, and what recognises them and their like. Bodies are partitioned by URL. What
//! recognises pages is in one place: they are like each other across domains, and each has to be compared with those
//! that came before it.

use std::fmt::Write;
use std::time::Duration;

use redis::Value;

use super::super::{BackendError, ContentMatch};
use super::connection::Call;
use super::kept::KeptLookup;
use super::moves::{Moves, milliseconds};
use super::scripts;
use crate::backend::local::storage::Body;
use crate::backend::local::{BackendConfig, decompress};
use crate::similarity::{
    Decision, ExactComparison, Fingerprint, MAX_CANDIDATES, PageBody, Threshold, Undecided, Verdicts,
};

/// The first byte of a stored body.
const PLAIN: u8 = 0;
const COMPRESSED: u8 = 1;

/// How many bytes of pages are remembered together, and what one of them takes besides its body.
pub(super) const MOST_BYTES: usize = 256 << 10;
const FILED_BYTES: usize = 8 << 10;

/// How often a page is compared with what others have stored meanwhile. Where they go on faster than this, it is stored
/// whatever they do: then two may be kept that are alike, but none is dropped without one that is kept.
const MOST_TRIES: usize = 8;
/// What is told of a page then (see remember.lua).
const ANY: &str = "*";

/// A page on its way into storage.
pub(super) struct Page {
    id: u64,
    url: String,
    fingerprint: Fingerprint,
    /// What it is filed under to be found by those that are similar.
    bands: Vec<u64>,
    /// Empty where pages are not stored.
    body: Vec<u8>,
    /// The pages that Redis has told of because it had to be compared with them, and how often it did.
    met: Vec<u64>,
    tries: usize,
    /// A seed is stored whatever it is like.
    is_seed: bool,
    /// The exact comparisons with border cases so far.
    verdicts: Verdicts,
}

/// How a page is like another.
enum Likeness {
    Same,
    Similar,
    Undecided(Undecided),
    Different,
}

impl Page {
    /// Tells a script of the page, and of those it was compared with.
    fn tell(&self, call: &mut Call, compared: &str) {
        // The first byte of a body tells whether it is compressed.
        let bytes = self.body.len().saturating_sub(1);
        call.arg(name(self.id)).arg(Stored::to_bytes(self, bytes)).arg(bytes).arg(compared);
    }

    /// Whether this page would be compared with another, and is not like it.
    fn is_unlike(&self, other: &Page, threshold: Threshold) -> bool {
        self.bands.iter().zip(&other.bands).any(|(one, two)| one == two)
            && matches!(self.likeness(other.id, &other.fingerprint, threshold), Likeness::Different)
    }

    /// How this page is like another.
    fn likeness(&self, id: u64, other: &Fingerprint, threshold: Threshold) -> Likeness {
        if self.fingerprint.exact == other.exact {
            return Likeness::Same;
        }
        let (Some(one), Some(two)) = (&self.fingerprint.sketch, &other.sketch) else {
            return Likeness::Different;
        };
        match Verdicts::decide(self.verdicts(), id, threshold.estimate(one, two)) {
            Decision::Similar => Likeness::Similar,
            Decision::Different => Likeness::Different,
            Decision::Undecided(undecided) => Likeness::Undecided(undecided),
        }
    }

    /// `None` if bodies are not stored, so that nothing can be compared exactly.
    fn verdicts(&self) -> Option<&Verdicts> {
        (!self.body.is_empty()).then_some(&self.verdicts)
    }
}

/// A page as it is stored, without its body: the script puts before it when it expires.
struct Stored {
    expires: u64,
    fingerprint: Fingerprint,
    url: String,
}

/// How many digits the time has at which a page expires, and the length of its body after it.
const EXPIRES: usize = 16;
const BYTES: usize = 10;

impl Stored {
    fn to_bytes(page: &Page, bytes: usize) -> Vec<u8> {
        let fingerprint = page.fingerprint.to_bytes();
        let mut stored = format!("{bytes:0BYTES$}").into_bytes();
        stored.extend((fingerprint.len() as u16).to_le_bytes());
        stored.extend(fingerprint);
        stored.extend(page.url.as_bytes());
        stored
    }

    fn from_bytes(bytes: &[u8]) -> Option<Stored> {
        let (expires, bytes) = bytes.split_at_checked(EXPIRES)?;
        let (_, bytes) = bytes.split_at_checked(BYTES)?;
        let (length, bytes) = bytes.split_first_chunk()?;
        let (fingerprint, url) = bytes.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        Some(Stored {
            expires: std::str::from_utf8(expires).ok()?.parse().ok()?,
            fingerprint: Fingerprint::from_bytes(fingerprint)?,
            url: String::from_utf8(url.to_vec()).ok()?,
        })
    }
}

/// What has become of a page that is to be stored.
pub(super) enum Turn {
    Stored,
    /// It is like another, which is kept.
    Like(ContentMatch),
    /// Others are kept that it has yet to be compared with; they are known now.
    Compare,
    /// It has to be compared exactly with these.
    CompareExactly(Vec<Undecided>),
}

impl Moves {
    /// A page, compressed.
    pub(super) fn page(&self, url: &str, fingerprint: &Fingerprint, body: &[u8], is_seed: bool) -> Page {
        let body = if self.settings.keep_content { compressed(body) } else { Vec::new() };
        let sketch = fingerprint.sketch.iter();
        let bands = |threshold: Threshold| sketch.flat_map(|sketch| threshold.bands(sketch)).collect();
        Page {
            id: self.key.short_url_id(url),
            url: url.to_owned(),
            fingerprint: fingerprint.clone(),
            bands: self.settings.similarity.map_or_else(Vec::new, bands),
            body,
            met: Vec::new(),
            tries: 0,
            is_seed,
            verdicts: Verdicts::default(),
        }
    }

    /// A page is compared with those that are known to be kept, and stored if none is kept besides that it has to be
    /// compared with; both is one step for Redis. So it is dropped for a page that is kept, and for no other.
    pub(super) async fn remember(&self, mut page: Page) -> Result<ContentMatch, BackendError> {
        if self.settings.similarity.is_none() && page.body.is_empty() {
            return Ok(ContentMatch::New);
        }
        loop {
            // What comes meanwhile goes together.
            let store = async |pages| self.store(pages).await;
            let (same, turn) = self.remembering.make(page, self.loans.count(), weight, store).await?;
            page = same;
            match turn {
                Turn::Like(other) => {
                    self.remove_body(&page).await?;
                    return Ok(other);
                }
                Turn::Compare => page.tries += 1,
                Turn::CompareExactly(others) => {
                    if let Some(url) = self.compare_exactly(&mut page, &others).await? {
                        self.remove_body(&page).await?;
                        return Ok(ContentMatch::NearDuplicate(url));
                    }
                }
                Turn::Stored => return Ok(ContentMatch::New),
            }
        }
    }

    /// Compares a page with border cases by their bodies. Returns the URL of the first near-duplicate. Where a body is not
    /// there (it expired, or is on its way), the estimate decides.
    async fn compare_exactly(
        &self,
        page: &mut Page,
        others: &[Undecided],
    ) -> Result<Option<String>, BackendError> {
        let Some(threshold) = self.settings.similarity else { return Ok(None) };
        let bodies = self.stored(&others.iter().map(|other| other.url).collect::<Vec<_>>()).await?;
        let body = plain(&page.body)?;
        let content_type = page.fingerprint.content_type;
        let this = PageBody { url: &page.url, content_type, body: &body };
        let comparison = ExactComparison::new(self.key, &self.settings.strip_query, this);
        for (undecided, (stored, body)) in others.iter().zip(bodies) {
            let url = stored.as_ref().map(|other| other.url.clone()).unwrap_or_default();
            let is_near_duplicate = match (stored, body) {
                (Some(other), Some(body)) => {
                    let content_type = other.fingerprint.content_type;
                    let other = PageBody { url: &other.url, content_type, body: &plain(&body)? };
                    comparison.is_near_duplicate(&other, threshold)
                }
                (stored, _) => undecided.is_similar && stored.is_some(),
            };
            page.verdicts.add(undecided.url, is_near_duplicate);
            if is_near_duplicate {
                return Ok(Some(url));
            }
        }
        Ok(None)
    }

    /// Stores pages, as far as they are like none and have been compared with all.
    async fn store(&self, pages: Vec<Page>) -> Result<Vec<(Page, Turn)>, BackendError> {
        let now = self.moment();
        let is_like = |page: &Page| match page.is_seed {
            true => KeptLookup::Unlike,
            false => self.kept.like(page.id, &page.fingerprint, now, page.verdicts()),
        };
        let likes: Vec<KeptLookup> = pages.iter().map(is_like).collect();
        let unlike = pages.iter().zip(&likes).filter(|(_, like)| **like == KeptLookup::Unlike);
        let unlike: Vec<&Page> = unlike.map(|(page, _)| page).collect();
        let (expires, others) = match unlike.is_empty() {
            true => (0, Vec::new()),
            false => self.ask_to_store(&unlike, now).await?,
        };
        let mut others = others.into_iter();
        let turns = pages.into_iter().zip(likes).map(|(mut page, like)| {
            let turn = match like {
                KeptLookup::Like(other) => Turn::Like(other),
                KeptLookup::Undecided(others) => Turn::CompareExactly(others),
                KeptLookup::Unlike => self.learn(&mut page, others.next().unwrap_or_default(), now, expires),
            };
            (page, turn)
        });
        Ok(turns.collect())
    }

    /// A body goes beside the script: Lua would read every byte of it. It goes with the first question, as most pages are
    /// stored then.
    fn store_body(&self, page: &Page) -> Option<Call> {
        let mut call = Call::plain("SET");
        call.arg(self.body_key(page.id)).arg(&page.body).arg("PX").arg(self.content_lifetime());
        (page.tries == 0 && !page.body.is_empty()).then_some(call)
    }

    /// Removes the body of a page that is like another after all. Of who dies before, it stays for its lifetime.
    async fn remove_body(&self, page: &Page) -> Result<(), BackendError> {
        let mut call = Call::plain("UNLINK");
        call.arg(self.body_key(page.id));
        if page.tries > 0 && !page.body.is_empty() {
            self.connection.all(vec![call]).await?;
        }
        Ok(())
    }

    /// From here on it is known that a page is kept, or the others are that it has yet to be compared with. What is stored
    /// now expires then by Redis's clock, and a lifetime from now by that of this process.
    fn learn(&self, page: &mut Page, others: Vec<Vec<u8>>, now: Duration, expires: u64) -> Turn {
        let latest = now + lifetime(&self.settings);
        if others.is_empty() {
            self.kept.add(page.id, &page.url, &page.fingerprint, now, latest);
            return Turn::Stored;
        }
        let (mut turn, mut undecided) = (Turn::Compare, Vec::new());
        for other in others.iter().filter_map(|other| Stored::from_bytes(other)) {
            let id = self.key.short_url_id(&other.url);
            let sooner = Duration::from_millis(expires.saturating_sub(other.expires));
            self.kept.add(id, &other.url, &other.fingerprint, now, latest.saturating_sub(sooner));
            page.met.push(id);
            // At once: many may be alike in a part, and only so many of them are looked at next time.
            if let Turn::Compare = turn
                && let Some(threshold) = self.settings.similarity
            {
                match page.likeness(id, &other.fingerprint, threshold) {
                    Likeness::Same => turn = Turn::Like(ContentMatch::Duplicate(other.url)),
                    Likeness::Similar => turn = Turn::Like(ContentMatch::NearDuplicate(other.url)),
                    Likeness::Undecided(other) => undecided.push(other),
                    Likeness::Different => {}
                }
            }
        }
        if let Turn::Compare = turn {
            match page.verdicts.select(undecided) {
                others if others.is_empty() => return Turn::Compare,
                others => turn = Turn::CompareExactly(others),
            }
        }
        page.tries += 1;
        turn
    }

    /// Asks for pages to be stored. Answers when those that are expire, and of each the others that it has to be compared
    /// with before, or none.
    async fn ask_to_store(
        &self,
        pages: &[&Page],
        now: Duration,
    ) -> Result<(u64, Vec<Vec<Vec<u8>>>), BackendError> {
        let mut call = self.script(&scripts::REMEMBER, &self.keys.contents[0]);
        call.arg(self.content_lifetime()).arg(MAX_CANDIDATES).arg(pages.len());
        for (place, page) in pages.iter().enumerate() {
            page.tell(&mut call, &self.compared(page, &pages[..place], now));
            call.arg(if self.settings.similarity.is_some() { 1 + page.bands.len() } else { 0 });
        }
        if self.settings.similarity.is_some() {
            for page in pages {
                call.arg(&page.fingerprint.exact.to_le_bytes()[..]);
                for band in &page.bands {
                    call.arg(&band.to_le_bytes()[..]);
                }
            }
        }
        // Bodies first: who learns of a page may compare it.
        let bodies = pages.iter().filter_map(|page| self.store_body(page));
        let answers = self.connection.all(bodies.chain([call]).collect()).await?;
        self.connection.read(answers.into_iter().next_back().unwrap_or_default())
    }

    /// The names of the pages that a page was compared with: those known here, and those that go before it.
    fn compared(&self, page: &Page, before: &[&Page], now: Duration) -> String {
        let mut names = String::new();
        let Some(threshold) = self.settings.similarity else { return names };
        if page.is_seed || page.tries >= MOST_TRIES {
            return ANY.to_owned();
        }
        let known = self.kept.compared(page.id, &page.fingerprint, now).into_iter();
        let unlike = before.iter().filter(|other| page.is_unlike(other, threshold)).map(|other| other.id);
        for id in known.chain(unlike).chain(page.met.iter().copied()) {
            let _ = write!(names, "{id:0NAME$x}");
        }
        names
    }

    fn body_key(&self, id: u64) -> String {
        format!("{}body:{}", self.keys.content(id), name(id))
    }

    fn page_key(&self, id: u64) -> String {
        format!("{}page:{}", self.keys.contents[0], name(id))
    }

    /// Now, by the crawl's clock in this process; what is there was stored after its beginning, by that clock.
    fn moment(&self) -> Duration {
        Duration::from_millis(self.clock()) + lifetime(&self.settings)
    }

    pub(super) async fn content(&self, url: &str) -> Result<Option<Vec<u8>>, BackendError> {
        match self.stored(&[self.key.short_url_id(url)]).await?.pop() {
            Some((Some(_), Some(body))) => plain(&body).map(Some),
            _ => Ok(None),
        }
    }

    /// The pages of these IDs that are stored, and their bodies.
    async fn stored(&self, ids: &[u64]) -> Result<Vec<(Option<Stored>, Option<Vec<u8>>)>, BackendError> {
        let mut looks = vec![Call::plain("TIME")];
        looks.extend(ids.iter().flat_map(|id| [get(self.page_key(*id)), get(self.body_key(*id))]));
        let mut answers = self.connection.all(looks).await?.into_iter();
        let now = self.time(answers.next().unwrap_or_default())?;
        let mut next = || self.connection.read(answers.next().unwrap_or_default());
        let mut stored = Vec::with_capacity(ids.len());
        for _ in ids {
            let (page, body): (Option<Vec<u8>>, Option<Vec<u8>>) = (next()?, next()?);
            let page = page.and_then(|page| Stored::from_bytes(&page)).filter(|page| page.expires > now);
            stored.push((page, body));
        }
        Ok(stored)
    }

    /// The URL of a page that is stored.
    pub(super) async fn page_url(&self, id: u64) -> Result<Option<String>, BackendError> {
        let page: Option<Vec<u8>> = self.connection.one(get(self.page_key(id))).await?;
        Ok(page.and_then(|page| Stored::from_bytes(&page)).map(|page| page.url))
    }

    pub(super) fn content_lifetime(&self) -> u64 {
        milliseconds(lifetime(&self.settings))
    }

    /// The crawl's time of an answer to TIME.
    fn time(&self, answer: Value) -> Result<u64, BackendError> {
        let (seconds, microseconds): (u64, u64) = self.connection.read(answer)?;
        let time = Duration::from_secs(seconds) + Duration::from_micros(microseconds);
        Ok(milliseconds(time) + self.ahead())
    }
}

/// How long pages are stored.
pub(super) fn lifetime(settings: &BackendConfig) -> Duration {
    Duration::from_millis(milliseconds(settings.ttl).max(1))
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

/// How many digits a page's name has: all are of one length, because they are written one after another.
const NAME: usize = 14;

fn name(id: u64) -> String {
    format!("{id:0NAME$x}")
}

/// The body of a page, as it came.
fn plain(stored: &[u8]) -> Result<Vec<u8>, BackendError> {
    match stored {
        [PLAIN, body @ ..] => Ok(body.to_vec()),
        [_, body @ ..] => decompress(Body::Compressed(body.into())).map_err(BackendError::Redis),
        [] => Ok(Vec::new()),
    }
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
