//! The classic face: every page of one server within so many hops, level by level, each saved as a file.

mod levels;

use std::sync::Arc;
use std::time::Instant;

use tokio::task::JoinSet;
use url::Url;

use self::levels::{Levels, SeenStatus};
use crate::config::FetchConfig;
use crate::error::Error;
use crate::event::{Event, Observer};
use crate::fetch::fetcher::{FetchResult, Fetcher};
use crate::fetch::http::{BodyPolicy, Download};
use crate::fetch::redirect;
use crate::fetch::throttle::HostThrottle;
use crate::html::{BadLink, each_link};
use crate::media::Media;
use crate::modules::pages::PageFiles;
use crate::origin::without_credentials;
use crate::outcome::Outcome;
use crate::scope::{RejectReason, Scope};
use crate::stats::Stats;
use crate::stop::StopHandle;
use crate::task::{Depth, Task};

/// A crawl to be: where it starts, where it stays, how deep it goes.
#[derive(Debug, Clone)]
pub struct ClassicCrawl {
    seed: Url,
    /// The seed as it was given: only the downloader may know who we are.
    credentials: Url,
    scope: Scope,
    max_depth: Depth,
    config: FetchConfig,
}

/// How a crawl ended.
#[derive(Debug)]
pub struct ClassicReport {
    /// The counts.
    pub stats: Stats,
    /// What the seed led to, at the end of its redirects.
    pub seed: Outcome,
    /// Somebody asked the crawl to stop before its end.
    pub stopped: bool,
}

impl ClassicCrawl {
    /// A crawl from a seed, down to a depth. Internal is the seed's own origin, or the prefix if one is given.
    pub fn new(
        seed: Url,
        internal: Option<&Url>,
        max_depth: Depth,
        config: FetchConfig,
    ) -> Result<ClassicCrawl, Error> {
        let (seed, credentials) = (without_credentials(&seed), seed);
        let scope = internal.map_or_else(|| Scope::origin(&seed), Scope::prefix);
        if !scope.contains(seed.as_str()) {
            return Err(Error::SeedOutOfScope { seed: seed.into(), internal: scope.describe() });
        }
        Ok(ClassicCrawl { seed, credentials, scope, max_depth, config })
    }

    /// Crawls to the end, or until `stop` is asked: then what is in flight is finished.
    ///
    /// One level after the other: pages of depth d + 1 are asked for when all of depth d are done, so the depth
    /// of a page is always the fewest hops, however many requests are in flight.
    pub async fn run(
        self,
        pages: PageFiles,
        observer: &dyn Observer,
        stop: &StopHandle,
    ) -> Result<ClassicReport, Error> {
        let concurrency = self.config.concurrency.max(1);
        let page = BodyPolicy::Page(self.config.max_page_bytes);
        let pace = Arc::new(HostThrottle::from_config(&self.config));
        let fetcher = Arc::new(Fetcher::new(self.config, &[self.credentials], pace, stop.clone())?);
        let mut crawl = RunningCrawl {
            scope: self.scope,
            max_depth: self.max_depth,
            pages,
            observer,
            levels: Levels::default(),
            stats: Stats::default(),
            seed: Outcome::NotReached,
        };
        let begun = Instant::now();
        // The seed is what the user asked for: inside by construction, and no trap by definition.
        let _ = crawl.levels.meet(self.seed.as_str(), 0, 0, || Ok(()));
        crawl.stats.admitted = 1;
        let mut visits = JoinSet::new();
        loop {
            while visits.len() < concurrency
                && !stop.is_stop_requested()
                && let Some(task) = crawl.levels.next()
            {
                crawl.observer.on_fetch_start(task.url.as_str(), task.depth);
                let fetcher = Arc::clone(&fetcher);
                visits.spawn(async move {
                    let visit = fetcher.fetch(&task.url, &page).await;
                    (task, visit)
                });
            }
            match visits.join_next().await {
                Some(Ok((task, visit))) => crawl.settle(&task, visit),
                Some(Err(failed)) => std::panic::resume_unwind(failed.into_panic()),
                None if !stop.is_stop_requested() && crawl.levels.descend() => {}
                None => break,
            }
        }
        crawl.abandon_the_rest();
        crawl.stats.elapsed = begun.elapsed();
        Ok(ClassicReport { stats: crawl.stats, seed: crawl.seed, stopped: stop.is_stop_requested() })
    }
}

/// A crawl under way.
struct RunningCrawl<'a> {
    scope: Scope,
    max_depth: Depth,
    pages: PageFiles,
    observer: &'a dyn Observer,
    levels: Levels,
    stats: Stats,
    seed: Outcome,
}

impl RunningCrawl<'_> {
    /// The one way in for a URL: in scope, no trap, and new or nearer than it was.
    fn admit(&mut self, url: &str, depth: Depth, redirects: u8) -> Result<SeenStatus, RejectReason> {
        // Most links are known, and what is known was checked when it was new.
        let met = self.levels.meet(url, depth, redirects, || self.scope.check(url))?;
        if met == SeenStatus::New {
            self.stats.admitted += 1;
        }
        Ok(met)
    }

    /// The rest of a task's life, once its visit is over.
    fn settle(&mut self, task: &Task, visit: Result<FetchResult, Outcome>) {
        let outcome = match visit {
            Ok(FetchResult::Page(page)) => self.keep(task, &page),
            Ok(FetchResult::Redirect(location)) => self.redirect(task, &location),
            Err(outcome) => outcome,
        };
        self.end(task.depth, task.url.as_str(), outcome);
    }

    fn end(&mut self, depth: Depth, url: &str, outcome: Outcome) {
        self.stats.ended(&outcome);
        if outcome != Outcome::Page {
            self.observer.on_event(Event::Ended { outcome: &outcome }, depth, url);
        }
        self.observer.on_progress(&self.stats, url);
        if depth == 0 {
            self.seed = outcome;
        }
    }

    fn keep(&mut self, task: &Task, page: &Download) -> Outcome {
        let (url, depth) = (task.url.as_str(), task.depth);
        self.observer.on_event(Event::Fetched { bytes: page.body.len() }, depth, url);
        let outcome = match self.pages.save(url, depth, &page.body) {
            Ok(id) => {
                self.stats.bytes += page.body.len() as u64;
                self.observer.on_event(Event::Saved { id }, depth, url);
                Outcome::Page
            }
            // Its links are followed all the same: one full disk must not hide the rest of a site.
            Err(error) => Outcome::WriteFailed { cause: error.to_string() },
        };
        if page.media == Media::Html && depth < self.max_depth {
            self.follow_links(task, page);
        }
        outcome
    }

    fn follow_links(&mut self, task: &Task, page: &Download) {
        self.observer.on_event(Event::Scanning, task.depth, task.url.as_str());
        let depth = task.depth + 1;
        each_link(&task.url, page.content_type.as_deref(), &page.body, |_, target| {
            if target == Err(BadLink::TooMany) {
                return;
            }
            self.stats.links += 1;
            let (url, admitted) = match target {
                Ok(url) => (url, self.admit(url, depth, 0)),
                Err(bad) => ("", Err(RejectReason::InvalidLink(bad))),
            };
            match admitted {
                Ok(SeenStatus::New) => {}
                Ok(SeenStatus::Shallower | SeenStatus::Seen) => self.stats.duplicates += 1,
                Err(why) => self.stats.refused(why),
            }
            if self.observer.wants_links() {
                self.tell_link(task, url, admitted);
            }
        });
    }

    fn tell_link(&self, task: &Task, url: &str, admitted: Result<SeenStatus, RejectReason>) {
        let depth = task.depth + 1;
        if let Err(RejectReason::InvalidLink(why)) = admitted {
            return self.observer.on_event(Event::BadLink { why }, depth, task.url.as_str());
        }
        self.observer.on_event(Event::DiscoveredUrl, depth, url);
        let event = match admitted {
            Ok(SeenStatus::New) => Event::Added,
            Ok(SeenStatus::Shallower | SeenStatus::Seen) => Event::Duplicate,
            Err(why) => Event::Ignored { why },
        };
        self.observer.on_event(event, depth, url);
    }

    /// The target has the depth of the URL that redirected to it.
    fn redirect(&mut self, task: &Task, location: &str) -> Outcome {
        redirect::follow(&task.url, task.redirects, location, |target, redirects| {
            self.admit(target, task.depth, redirects).map(drop)
        })
    }

    /// Gives an outcome to what a stopped crawl did not get to.
    fn abandon_the_rest(&mut self) {
        loop {
            while let Some(task) = self.levels.next() {
                self.end(task.depth, task.url.as_str(), Outcome::NotReached);
            }
            if !self.levels.descend() {
                break;
            }
        }
    }
}
