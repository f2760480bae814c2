//! Defines a task: a URL to fetch, its depth, and how many redirects led to it.

use std::sync::Arc;

use url::Url;

use crate::backend::local::storage::unix_millis;
use crate::url_record::Discovery;

/// Number of links followed from the seed; the seed has depth 0.
pub type Depth = u32;

/// A URL to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The normalized URL: no fragment, no credentials.
    pub url: Url,
    /// The lowest depth at which the URL had been found when the task was leased.
    pub depth: Depth,
    /// How many consecutive redirects led here; 0 for a link or a seed.
    pub redirects: u8,
    /// How it was admitted, if every URL gets a row.
    pub admission: Option<Arc<Admission>>,
}

/// How and when a URL was admitted. All links of a page have the same one.
#[derive(Debug, PartialEq, Eq)]
pub struct Admission {
    /// How it was found. `None` for a seed.
    pub discovery: Option<Arc<Discovery>>,
    /// When it was admitted: Unix time in milliseconds.
    pub queued_at: u64,
}

impl Admission {
    /// A URL that is admitted now.
    pub(crate) fn now(discovery: Option<Discovery>) -> Arc<Admission> {
        Arc::new(Admission { discovery: discovery.map(Arc::new), queued_at: unix_millis() })
    }
}
