//! Looks at a crawl on Redis without taking part in it: what became of a URL, the pages that are stored, how things stand.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use url::Url;

use super::super::durable::{UrlHistory, UrlStatus, admitted_form};
use super::super::{BackendError, Snapshot};
use super::RedisCrawl;
use super::connection::Call;
use super::ended::Ended;
use super::home::Home;
use super::moves::Moves;
use super::{opening, scripts};
use crate::backend::local::BackendConfig;
use crate::domain::Domain;
use crate::outcome::Outcome;
use crate::task::Depth;

/// More pages than this on the way to a seed are not looked for.
const LONGEST_WAY: usize = 1_000;

/// Stands for a page on the way to a seed whose URL is not stored: it was not kept, or not for so long.
const NOT_STORED: &str = "a URL that is not stored any more";

/// Stands for the rest of the way to a seed, where nobody remembers it.
const FORGOTTEN: &str = "what is forgotten by now";

/// A crawl on Redis, to be looked at.
pub struct RedisStateReader {
    moves: Arc<Moves>,
    home: Home,
}

/// A URL as link storage and the queues know it.
#[derive(Debug, PartialEq, Eq)]
struct Known {
    depth: Depth,
    by_redirect: bool,
    found_on: Option<u64>,
    status: UrlStatus,
}

/// What a script tells of a URL: its entry among the outstanding ones, how many redirects led to it, and its link.
type Told = (Vec<u8>, u8, Vec<u8>);

impl RedisStateReader {
    /// Looks at a crawl that was begun; of its place, only where it is and its name matter.
    pub async fn open(place: RedisCrawl) -> Result<RedisStateReader, BackendError> {
        let home = Home::new()?;
        let moves = home.run(opening::look(place)).await?;
        Ok(RedisStateReader { moves: Arc::new(moves), home })
    }

    /// What the crawl was begun with; the number of workers is not known.
    pub fn settings(&self) -> &BackendConfig {
        &self.moves.settings
    }

    /// How things stand.
    pub async fn snapshot(&self) -> Result<Snapshot, BackendError> {
        self.make(async |moves| moves.snapshot().await).await
    }

    /// A stored page.
    pub async fn content(&self, url: &Url) -> Result<Option<Vec<u8>>, BackendError> {
        let url = admitted_form(url);
        self.make(async move |moves| moves.content(&url).await).await
    }

    /// What became of a URL; `None` if it was never admitted, or is forgotten.
    pub async fn why(&self, url: &Url) -> Result<Option<UrlHistory>, BackendError> {
        let url = admitted_form(url);
        self.make(async move |moves| moves.why(url).await).await
    }

    async fn make<T: Send + 'static, F: Future<Output = Result<T, BackendError>> + Send + 'static>(
        &self,
        make: impl FnOnce(Arc<Moves>) -> F,
    ) -> Result<T, BackendError> {
        self.home.run(make(Arc::clone(&self.moves))).await
    }
}

impl Moves {
    async fn why(&self, url: String) -> Result<Option<UrlHistory>, BackendError> {
        let id = self.key.short_url_id(&url);
        let Some(known) = self.known_by_url(&url).await? else { return Ok(None) };
        let Known { depth, by_redirect, found_on, status } = known;
        let found_on = self.way(id, found_on).await?;
        Ok(Some(UrlHistory { url, depth, found_on, by_redirect, status }))
    }

    /// The URLs that led to one, the nearest first. Their texts are known as long as their pages are stored; beyond one
    /// whose text is not known, the way can still be followed.
    async fn way(&self, of: u64, mut from: Option<u64>) -> Result<Vec<String>, BackendError> {
        let (mut way, mut seen) = (Vec::new(), HashSet::from([of]));
        while let Some(id) = from
            && seen.insert(id)
            && way.len() < LONGEST_WAY
        {
            let url = self.page_url(id).await?;
            let known = match &url {
                Some(url) => self.known_by_url(url).await?,
                None => self.known_anywhere(id).await?,
            };
            from = known.as_ref().and_then(|known| known.found_on);
            let has_url = url.is_some();
            way.push(url.unwrap_or_else(|| NOT_STORED.to_owned()));
            if known.is_none() && has_url {
                way.push(FORGOTTEN.to_owned());
            }
        }
        Ok(way)
    }

    async fn known_by_url(&self, url: &str) -> Result<Option<Known>, BackendError> {
        let partition = self.keys.of_domain(&Domain::from_url_str(url));
        let told = self.connection.one(self.look_up(partition, self.key.short_url_id(url))).await?;
        Ok(known(told))
    }

    async fn known_anywhere(&self, id: u64) -> Result<Option<Known>, BackendError> {
        let looks = (0..self.partitions()).map(|partition| self.look_up(partition, id)).collect();
        Ok(self.connection.each(looks).await?.into_iter().find_map(known))
    }

    fn look_up(&self, partition: usize, id: u64) -> Call {
        let mut call = self.on(partition, &scripts::WHY);
        call.arg(id);
        call
    }
}

/// What was told of a URL, if it is known. One that is visited again for its links has ended before, and may have been met
/// nearer since.
fn known((entry, redirects, link): Told) -> Option<Known> {
    let ended = of_link(&link);
    let Some((depth, found_on)) = of_entry(&entry) else { return ended };
    Some(match ended {
        Some(ended) => Known { depth, found_on, ..ended },
        None => Known { depth, by_redirect: redirects > 0, found_on, status: UrlStatus::Pending },
    })
}

/// Reads an entry among the outstanding URLs: ticket, depth, and what it was found on.
fn of_entry(entry: &[u8]) -> Option<(Depth, Option<u64>)> {
    let mut parts = entry.splitn(3, |byte| *byte == b' ').skip(1);
    let depth = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    Some((depth, id_of(parts.next()?)))
}

/// Reads a link: links.lua tells what its bytes mean.
fn of_link(link: &[u8]) -> Option<Known> {
    let (depth, rest) = link.split_first_chunk()?;
    let ([byte], rest) = rest.split_first_chunk()?;
    let (status, rest) = rest.split_first_chunk()?;
    let (at, rest) = rest.split_first_chunk()?;
    let (document, found_on) = rest.split_first_chunk()?;
    let ended = Ended { byte: *byte, status: u16::from_le_bytes(*status) };
    let document = u32::from_le_bytes(*document);
    let outcome = ended.outcome();
    let status = UrlStatus::Completed {
        is_temporary: Outcome::label_is_temporary(&outcome),
        outcome,
        at: UNIX_EPOCH + Duration::from_secs(u32::from_le_bytes(*at).into()),
        page_number: (document > 0).then_some(document.into()),
    };
    let depth = u16::from_le_bytes(*depth).into();
    Some(Known { depth, by_redirect: ended.by_redirect(), found_on: id_of(found_on), status })
}

/// An id from its bytes; seeds were not found on anything.
fn id_of(bytes: &[u8]) -> Option<u64> {
    let mut id = [0; 8];
    id.get_mut(..bytes.len())?.copy_from_slice(bytes);
    (!bytes.is_empty()).then_some(u64::from_le_bytes(id))
}
