//! What is known about a URL of a crawl when it is completed, for outputs that have a row for every URL.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::backend::Completion;
use crate::origin::origin_prefix;
use crate::outcome::Outcome;
use crate::page::Page;
use crate::scope::RejectReason;
use crate::stats::BodyBytes;
use crate::task::Depth;
use crate::task_kind::{TaskKind, shown_url};

/// How a URL was found first. A seed has none, unless redirects of a seed led to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discovery {
    /// The URL of the page, sitemap or robots.txt that names the URL, or the first of the redirects that led to it. `None` if
    /// that was a seed.
    pub found_on: Option<String>,
    /// The URLs that redirected to it, first to last.
    pub redirects: Vec<String>,
}

impl Discovery {
    /// A URL of this kind that the page or sitemap at this task's URL names. The sitemaps of a page are those that its robots.txt names.
    pub(crate) fn on(task_url: &str, kind: TaskKind) -> Discovery {
        let found_on =
            match kind == TaskKind::Sitemap && TaskKind::from_task_url(task_url) != TaskKind::Sitemap {
                true => format!("{}robots.txt", origin_prefix(task_url)),
                false => shown_url(task_url).to_owned(),
            };
        Discovery { found_on: Some(found_on), redirects: Vec::new() }
    }

    /// A URL to which another one redirects, which was found so.
    pub(crate) fn redirected(from: Option<&Discovery>, task_url: &str) -> Discovery {
        let mut discovery = from.cloned().unwrap_or_default();
        discovery.redirects.push(shown_url(task_url).to_owned());
        discovery
    }
}

/// The last request for a URL, as far as it came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestRecord {
    /// When the request was sent.
    pub requested: Option<SystemTime>,
    /// When the response began.
    pub first_byte: Option<SystemTime>,
    /// When the response was read, or the request failed.
    pub done: Option<SystemTime>,
    /// The HTTP status.
    pub status: Option<u16>,
    /// The Content-Type header, if an output or a module wants URLs.
    pub content_type: Option<String>,
    /// The bytes of the body.
    pub bytes: BodyBytes,
    /// The fragment of the Location header of a redirect.
    pub redirect_fragment: Option<String>,
}

/// Records the requests that a fetch sends, of which the last one counts.
#[derive(Debug, Default)]
pub(crate) struct LastRequest(Mutex<RequestRecord>);

impl LastRequest {
    /// Called when a request starts to connect, and when it is written.
    pub(crate) fn started(&self) {
        *self.record() = RequestRecord { requested: Some(SystemTime::now()), ..RequestRecord::default() };
    }

    /// Called when the response starts.
    pub(crate) fn response_started(&self, status: u16, content_type: Option<&str>) {
        let mut request = self.record();
        request.first_byte = Some(SystemTime::now());
        (request.status, request.content_type) = (Some(status), content_type.map(str::to_owned));
    }

    /// Called when the request has ended, with the body bytes that it read.
    pub(crate) fn done(&self, bytes: BodyBytes) {
        let mut request = self.record();
        (request.done, request.bytes) = (Some(SystemTime::now()), bytes);
    }

    /// Takes the record of the last request.
    pub(crate) fn take(&self) -> RequestRecord {
        std::mem::take(&mut *self.record())
    }

    fn record(&self) -> MutexGuard<'_, RequestRecord> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A URL of the crawl and its outcome. Each admitted URL has one record.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UrlRecord<'p> {
    /// The URL of the task, with a fragment unless it is a page.
    pub task_url: Arc<str>,
    /// The outcome.
    pub outcome: Outcome,
    /// The number of links between the nearest seed and the URL, as known when it was fetched.
    pub depth: Depth,
    /// How it was found. `None` for a seed, and if it is not known.
    pub discovery: Option<Arc<Discovery>>,
    /// How often it was requested again after a temporary failure.
    pub retries: u8,
    /// Whether it was completed before, and is visited again.
    pub was_visited: bool,
    /// When it was admitted, if that is known.
    pub queued: Option<SystemTime>,
    /// The last request for it.
    pub request: RequestRecord,
    /// Whether the page is only the start of a larger one.
    pub truncated: bool,
    /// When it was completed. `None` for a URL that was not reached.
    pub done: Option<SystemTime>,
    /// The page, if the outcome is one and the output gets pages.
    pub page: Option<&'p Page>,
}

impl<'p> UrlRecord<'p> {
    /// The record of a URL that a worker completes now.
    pub(crate) fn from_completion(
        completion: &Completion,
        outcome: Outcome,
        page: Option<&'p Page>,
    ) -> UrlRecord<'p> {
        let Completion { lease, request, .. } = completion;
        let (url, discovery) = (Arc::clone(&lease.url), lease.discovery.clone());
        UrlRecord {
            retries: lease.attempts,
            was_visited: lease.previous.is_some(),
            request: request.clone(),
            truncated: completion.truncated,
            done: Some(SystemTime::now()),
            page,
            ..UrlRecord::new(url, outcome, lease.depth, discovery, lease.queued_at)
        }
    }

    /// A URL for which no request is known.
    pub(crate) fn new(
        task_url: Arc<str>,
        outcome: Outcome,
        depth: Depth,
        discovery: Option<Arc<Discovery>>,
        queued_at: u64,
    ) -> UrlRecord<'static> {
        let queued = (queued_at > 0).then(|| UNIX_EPOCH + Duration::from_millis(queued_at));
        let (request, done) = (RequestRecord::default(), None);
        let (retries, was_visited, truncated, page) = (0, false, false, None);
        UrlRecord {
            task_url,
            outcome,
            depth,
            discovery,
            retries,
            was_visited,
            queued,
            request,
            truncated,
            done,
            page,
        }
    }

    /// The URL as it is requested and shown.
    pub fn url(&self) -> &str {
        shown_url(&self.task_url)
    }

    /// What the URL was fetched as.
    pub fn kind(&self) -> &'static str {
        TaskKind::from_task_url(&self.task_url).name()
    }

    /// The URL of the page on which it was found first.
    pub fn found_on(&self) -> Option<&str> {
        self.discovery.as_ref()?.found_on.as_deref()
    }

    /// The target of its redirect, if that is a URL that can be requested. Otherwise the outcome has a text for messages.
    pub fn redirect_target(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::RedirectRejected { why: RejectReason::InvalidLink(_), .. } => None,
            Outcome::Redirect { to } | Outcome::RedirectRejected { to, .. } => Some(to),
            _ => None,
        }
    }
}
