//! Defines a task: a URL to fetch, its depth, and how many redirects led to it.

use url::Url;

/// Number of links followed from the seed; the seed has depth 0.
pub type Depth = u32;

/// A URL to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The normalised URL: no fragment, no credentials.
    pub url: Url,
    /// The lowest depth at which the URL had been found when the task was leased.
    pub depth: Depth,
    /// How many consecutive redirects led here; 0 for a link or a seed.
    pub redirects: u8,
}
