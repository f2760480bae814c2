//! A crawl on Redis, seen from outside: begins it, looks at it, ends it.

use url::Url;

use super::crawl_loss::lost;
use super::process_identity::is_surely_dead;
use super::{SharedCrawl, StoredReport, word};
pub use crate::backend::redis::CrawlInfo;
use crate::backend::redis::{self, CrawlState, Member, Phase, RedisBackend, Role};
use crate::backend::{AdmitCounts, Backend, Snapshot};
use crate::error::Error;
use crate::pipeline::{CrawlEnd, CrawlReport, Crawler, ResumeStatus, local_run as crew};

/// A crawl on Redis.
///
/// ```no_run
/// use crawler::Crawler;
/// use crawler::internal::backend::redis::RedisCrawl;
/// use crawler::internal::distributed::remote::RemoteCrawl;
/// use crawler::internal::distributed::SharedCrawl;
///
/// # async fn example() -> Result<(), crawler::Error> {
/// let sharing = SharedCrawl::new(RedisCrawl::new("redis://127.0.0.1/".parse()?, "news"));
/// let crawl = || Crawler::new("https://example.org/")?.module_from_spec("jsonl=pages.jsonl");
///
/// let remote = RemoteCrawl::open(crawl()?, &sharing).await?;
/// remote.submit(b"", crawl()?.seeds()).await?;
/// // In other processes, on any machine:
/// crawl()?.run_frontier(&sharing)?;
/// crawl()?.run_worker(&sharing, None)?;
/// # Ok(())
/// # }
/// ```
pub struct RemoteCrawl {
    backend: RedisBackend,
}

/// How a crawl stands.
#[derive(Debug, Clone)]
pub struct CrawlStatus {
    /// How far it is.
    pub course: CrawlState,
    /// Who works on it.
    pub members: Vec<Member>,
    /// Counts and lengths.
    pub snapshot: Snapshot,
}

impl RemoteCrawl {
    /// What is known of a crawl without its settings; nothing if nobody has begun it.
    pub async fn info(sharing: &SharedCrawl) -> Result<Option<CrawlInfo>, Error> {
        Ok(redis::begun(&sharing.place).await?)
    }

    /// The crawl on Redis that has these settings: begun now, if it was not before.
    pub async fn open(mut crawler: Crawler, sharing: &SharedCrawl) -> Result<RemoteCrawl, Error> {
        crawler.derive_settings();
        let backend = crawler.shared_resources(sharing).await?;
        Ok(RemoteCrawl { backend })
    }

    /// The crawl of this name, to be looked at and steered; nothing of it is begun.
    pub async fn attach(sharing: &SharedCrawl) -> Result<RemoteCrawl, Error> {
        Ok(RemoteCrawl { backend: RedisBackend::look(sharing.place.clone()).await? })
    }

    /// Admits seeds, and lets the crawl begin, or go on if it was over. Whoever works on it goes by the note; an empty one
    /// leaves that as it was.
    pub async fn submit(&self, note: &[u8], seeds: &[Url]) -> Result<AdmitCounts, Error> {
        let found = crew::seed_urls(seeds);
        let mut new = 0;
        loop {
            let course = self.backend.set_opening(note).await?;
            self.backend.take_out(&course).await?;
            let admitted = self.backend.admit(found.clone()).await?;
            new += admitted.new;
            let course = self.backend.set_running(course.opening).await?;
            match course.phase {
                // Somebody ended it meanwhile, who did not know of these.
                Phase::Over(_) => {}
                Phase::Unknown | Phase::Purged => {
                    let (crawl, address) = self.backend.place();
                    return Err(Error::Redis(lost(crawl, address)));
                }
                Phase::Opening | Phase::Running => {
                    return Ok(AdmitCounts { new, seen: (found.len() as u64).saturating_sub(new) });
                }
            }
        }
    }

    /// How it stands.
    pub async fn status(&self) -> Result<CrawlStatus, Error> {
        let (members, course) = self.backend.crew().await?;
        Ok(CrawlStatus { course, members, snapshot: self.backend.snapshot().await? })
    }

    /// How far it is, and who works on it.
    pub async fn members(&self) -> Result<(Vec<Member>, CrawlState), Error> {
        Ok(self.backend.crew().await?)
    }

    /// Whether somebody has this role, and lives as far as can be known.
    pub fn is_taken(members: &[Member], role: Role, sharing: &SharedCrawl) -> bool {
        members.iter().any(|member| member.role == role && RemoteCrawl::is_alive(member, sharing))
    }

    /// Whether a member lives, as far as can be known.
    pub fn is_alive(member: &Member, sharing: &SharedCrawl) -> bool {
        !member.is_dead && member.silent < sharing.dead_after && !is_surely_dead(&member.token)
    }

    /// Ends it: what is in flight is finished. Tells whether it was under way.
    pub async fn stop(&self) -> Result<bool, Error> {
        let (_, course) = self.backend.crew().await?;
        if !matches!(course.phase, Phase::Opening | Phase::Running) {
            return Ok(false);
        }
        // Whoever is just admitting seeds finds it over, and opens it again.
        self.backend.set_running(course.opening).await?;
        self.backend.set_over(course.opening, word(CrawlEnd::Stopped)).await?;
        Ok(true)
    }

    /// What it came to, once that is known.
    pub async fn report(&self, resumed: ResumeStatus) -> Result<Option<CrawlReport>, Error> {
        let Some(sum) = self.backend.result().await? else { return Ok(None) };
        let sum: StoredReport = serde_json::from_str(&sum).map_err(|error| {
            Error::Redis(format!(
                "the result of the crawl cannot be read: {error}; is it of another version?"
            ))
        })?;
        Ok(Some(sum.report(resumed)))
    }

    /// What of the crawl the server may lose, in words, if anything.
    pub async fn durability_warning(&self) -> Result<Option<String>, Error> {
        Ok(self.backend.risk().await?)
    }

    /// Its queues and storages.
    pub fn backend(&self) -> &RedisBackend {
        &self.backend
    }
}
