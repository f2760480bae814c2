//! What is known about a URL of a crawl when it is completed, for outputs that have a row for every URL.

use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;
use crate::page::Page;
use crate::sitemap;
use crate::stats::BodyBytes;
use crate::task::Depth;

/// How a URL was found first. A seed has none, unless redirects of a seed led to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discovery {
    /// The URL of the page, sitemap or robots.txt that names the URL, or the first of the redirects that led to it. `None` if
    /// that was a seed.
    pub found_on: Option<String>,
    /// The URLs that redirected to it, first to last.
    pub redirects: Vec<String>,
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
    /// The Content-Type header.
    pub content_type: Option<String>,
    /// The bytes of the body.
    pub bytes: BodyBytes,
}

/// A URL of the crawl and its outcome. Each admitted URL has one record.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UrlRecord<'p> {
    /// The URL of the task: that of a sitemap has a fragment.
    pub task_url: Arc<str>,
    /// The outcome.
    pub outcome: Outcome,
    /// The number of links between the nearest seed and the URL, as known when it was fetched.
    pub depth: Depth,
    /// How it was found. `None` for a seed, and if it is not known.
    pub discovery: Option<Arc<Discovery>>,
    /// How often it was requested again after a failure that may pass.
    pub retries: u8,
    /// When it was admitted, if that is known.
    pub queued: Option<SystemTime>,
    /// The last request for it.
    pub request: RequestRecord,
    /// When it was completed. `None` for a URL that was not reached.
    pub done: Option<SystemTime>,
    /// The page, if the outcome is one and the output gets pages.
    pub page: Option<&'p Page>,
}

impl UrlRecord<'_> {
    /// The URL as it is requested and shown.
    pub fn url(&self) -> &str {
        sitemap::shown_url(&self.task_url)
    }

    /// What the URL was fetched as.
    pub fn kind(&self) -> &'static str {
        if sitemap::is_sitemap(&self.task_url) { "sitemap" } else { "page" }
    }

    /// The URL of the page on which it was found first.
    pub fn found_on(&self) -> Option<&str> {
        self.discovery.as_ref()?.found_on.as_deref()
    }

    /// The target of its redirect.
    pub fn redirect_target(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Redirect { to } | Outcome::RedirectRejected { to, .. } => Some(to),
            _ => None,
        }
    }
}
