//! What a crawl stored, in a state directory or in Redis.

use std::time::{Duration, Instant};

use crawler::internal::backend::SnapshotInternals as _;
use crawler::internal::backend::WaitingHost;
use crawler::internal::backend::durable::{RecordedOutput, StateReader, UrlHistory};
use crawler::internal::backend::linking_pages::{FoundLinks, LinkingPages};
use crawler::internal::backend::redis::DistributedCrawl;
use crawler::internal::backend::stored_url::StoredUrl;
use crawler::internal::crawl_view::{CrawlPhase, CrawlView};
use crawler::internal::distributed::SharedCrawl;
use crawler::internal::distributed::remote::RemoteCrawl;
use crawler::internal::origin::throttle_key;
use crawler::{Error, Scope};
use url::Url;

use crate::args::{CrawlOptions, CrawlSource};
use crate::commands::crawl::saved_options::SavedOptions;
use crate::live::status::why_waiting;

/// The stored state of a crawl.
pub enum StoredCrawl {
    Directory(Box<StateReader>),
    Redis(DistributedCrawl, Box<SharedCrawl>),
}

impl StoredCrawl {
    /// Opens the crawl and reads its options. A crawl that another program started has none that this command knows.
    pub async fn open(source: &CrawlSource) -> Result<(StoredCrawl, Option<CrawlOptions>), Error> {
        match source {
            CrawlSource::State(directory) => {
                let mut state = StateReader::open(directory)?;
                let options = SavedOptions::read(&state.metadata()?, directory.display()).ok();
                Ok((StoredCrawl::Directory(Box::new(state)), options))
            }
            CrawlSource::Redis(shared) => {
                let metadata = RemoteCrawl::info(shared).await?.map(|info| info.metadata).unwrap_or_default();
                let options = SavedOptions::read(&metadata, &shared.redis.crawl).ok();
                let state = DistributedCrawl::attach(shared.redis.clone()).await?;
                Ok((StoredCrawl::Redis(state, shared.clone()), options))
            }
        }
    }

    pub async fn content(&mut self, url: &Url) -> Result<Option<Vec<u8>>, Error> {
        match self {
            StoredCrawl::Directory(state) => state.content(url),
            StoredCrawl::Redis(state, _) => Ok(state.content(url).await?),
        }
    }

    /// The scope of the crawl: that of its options, and of its seed lists.
    pub async fn scope(&mut self, options: Option<&CrawlOptions>) -> Result<Option<Scope>, Error> {
        let Some(scope) = options.and_then(|options| options.link_scope().ok()) else { return Ok(None) };
        Ok(Some(match self {
            StoredCrawl::Directory(state) => state.extend_scope(scope)?,
            StoredCrawl::Redis(state, _) => state.extend_scope(scope).await?,
        }))
    }

    /// The stored pages that link to a URL; `None` if the crawl stores no bodies.
    pub async fn linking_pages(
        &mut self,
        url: &Url,
        options: Option<&CrawlOptions>,
        max_time: Duration,
    ) -> Result<Option<LinkingPages>, Error> {
        if options.is_some_and(|options| options.no_content) {
            return Ok(None);
        }
        let (patterns, deadline) = (strip_query(options), Instant::now() + max_time);
        Ok(Some(match self {
            StoredCrawl::Directory(state) => state.linking_pages(url, &patterns, deadline)?,
            StoredCrawl::Redis(state, _) => state.linking_pages(url, &patterns, deadline).await?,
        }))
    }

    /// The stored pages that link to the URLs of these IDs, in the same way.
    pub async fn pages_linking_to(
        &mut self,
        ids: Vec<u64>,
        options: Option<&CrawlOptions>,
        max_time: Duration,
    ) -> Result<Option<FoundLinks>, Error> {
        if options.is_some_and(|options| options.no_content) {
            return Ok(None);
        }
        let (patterns, deadline) = (strip_query(options), Instant::now() + max_time);
        Ok(Some(match self {
            StoredCrawl::Directory(state) => state.pages_linking_to(ids, &patterns, deadline)?,
            StoredCrawl::Redis(state, _) => state.pages_linking_to(ids, &patterns, deadline).await?,
        }))
    }

    /// Calls `each` with every completed URL.
    pub async fn each_url(&mut self, each: impl FnMut(StoredUrl)) -> Result<(), Error> {
        match self {
            StoredCrawl::Directory(state) => state.each_url(each),
            StoredCrawl::Redis(state, _) => Ok(state.each_url(each).await?),
        }
    }

    /// Counts, statistics and limits, and whether the crawl runs.
    pub async fn view(&mut self) -> Result<CrawlView, Error> {
        match self {
            StoredCrawl::Directory(state) => Ok(state.status()?.view()),
            StoredCrawl::Redis(_, shared) => Ok(RemoteCrawl::attach(shared).await?.status().await?.view()),
        }
    }

    /// Why a pending URL waits, if a process runs the crawl, and it is known.
    pub async fn why_waiting(&mut self, url: &Url) -> Result<Option<String>, Error> {
        let view = self.view().await?;
        match view.phase {
            CrawlPhase::Running => {}
            CrawlPhase::Paused => return Ok(Some("the crawl is paused".into())),
            CrawlPhase::Stopping | CrawlPhase::Ended(_) => return Ok(None),
        }
        let host = throttle_key(url.as_str()).to_owned();
        let why = match self {
            StoredCrawl::Directory(state) => state.wait_reason(url)?,
            // The frontier names only the hosts that most URLs wait for.
            StoredCrawl::Redis(..) => view.snapshot.why_waiting(&host),
        };
        let waiting = why.map(|why| WaitingHost { host, waiting: 1, leased: 0, why });
        Ok(waiting.map(|waiting| why_waiting(&waiting, &view.statistics, view.limits.delay)))
    }

    pub async fn history(&mut self, url: &Url) -> Result<Option<UrlHistory>, Error> {
        match self {
            StoredCrawl::Directory(state) => state.history(url),
            StoredCrawl::Redis(state, _) => Ok(state.why(url).await?),
        }
    }
}

impl StoredCrawl {
    /// The outputs whose pages have the numbers of the crawl. The part files of a distributed crawl number their pages in
    /// their own order.
    pub fn outputs(&mut self) -> Result<Vec<RecordedOutput>, Error> {
        match self {
            StoredCrawl::Directory(state) => state.outputs(),
            StoredCrawl::Redis(..) => Ok(Vec::new()),
        }
    }
}

/// The query parameters that a crawl removes from links.
fn strip_query(options: Option<&CrawlOptions>) -> Vec<String> {
    let strip_query = options.and_then(|options| options.fetch.strip_query().ok()).unwrap_or_default();
    strip_query.patterns().to_vec()
}
