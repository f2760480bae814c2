//! The paths of one host and the response to each.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use demoweb::Request;

use crate::response::{Response, ResponseSequence};
use crate::seeded::Seeded;

type Generator = Arc<dyn Fn(&Request) -> Response + Send + Sync>;

/// The content of one host. Any path (with its query) that is not configured is a 404 with an HTML body, including
/// /robots.txt.
#[derive(Clone, Default)]
pub struct Site {
    responses: HashMap<String, ResponseSequence>,
    otherwise: Option<Generator>,
    seeded: Option<Seeded>,
}

impl Site {
    /// A site where every path is a 404.
    pub fn new() -> Self {
        Self::default()
    }

    /// A connected site of `pages` pages (HTML and text) with links of every kind. The same seed gives the same site.
    /// [`Web::truth`](crate::Web::truth) returns what a crawl of it must find.
    ///
    /// # Panics
    /// If `pages` is 0.
    pub fn seeded(seed: u64, pages: usize) -> Self {
        Self::from_seeded(Seeded::single(seed, pages))
    }

    /// Gives every seeded HTML page a near-duplicate: the same URL with `print=yes` in its query, the same body with
    /// one more sentence. Only the page itself links to it. The truth leaves near-duplicates out, like a crawl that
    /// drops them.
    pub fn with_print_views(self) -> Self {
        Self { seeded: self.seeded.map(Seeded::with_print_views), ..self }
    }

    /// A site with the pages of a seeded host.
    pub(crate) fn from_seeded(seeded: Seeded) -> Self {
        Self { seeded: Some(seeded), ..Self::default() }
    }

    /// An HTML page.
    pub fn page(self, path: &str, html: impl Into<Bytes>) -> Self {
        self.response(path, Response::page(html))
    }

    /// Plain text.
    pub fn text(self, path: &str, text: impl Into<Bytes>) -> Self {
        self.response(path, Response::text(text))
    }

    /// A 302 redirect. `to` becomes the Location header unchanged.
    pub fn redirect(self, path: &str, to: &str) -> Self {
        self.redirect_with(302, path, to)
    }

    /// A redirect with another status.
    pub fn redirect_with(self, status: u16, path: &str, to: &str) -> Self {
        self.response(path, Response::redirect(status, to))
    }

    /// A chain of redirects: `path` to `path/1` to `path/2` …, with a page after the last of `redirects` redirects.
    pub fn redirect_chain(self, path: &str, redirects: usize) -> Self {
        let hop = |n: usize| if n == 0 { path.to_owned() } else { format!("{path}/{n}") };
        let end = self.page(&hop(redirects), format!("<title>After {redirects} redirects</title>\n"));
        (0..redirects).fold(end, |site, n| site.redirect(&hop(n), &hop(n + 1)))
    }

    /// A status with a small HTML body.
    pub fn status(self, path: &str, code: u16) -> Self {
        self.response(path, Response::status(code))
    }

    /// The text of /robots.txt.
    pub fn robots(self, text: impl Into<Bytes>) -> Self {
        self.text("/robots.txt", text)
    }

    /// Any response, or a [sequence](Response::sequence) of responses.
    pub fn response(mut self, path: &str, response: impl Into<ResponseSequence>) -> Self {
        self.responses.insert(path.into(), response.into());
        self
    }

    /// Generates the response to every path that is not configured, for sites too large to list.
    pub fn fallback(mut self, generate: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Self {
        self.otherwise = Some(Arc::new(generate));
        self
    }

    /// The response to a request: configured paths first, then seeded ones, then generated ones.
    pub(crate) fn respond_to(&self, request: &Request) -> Response {
        if let Some(sequence) = self.responses.get(&request.path) {
            return sequence.next();
        }
        if let Some(response) = self.seeded.as_ref().and_then(|seeded| seeded.respond_to(request)) {
            return response;
        }
        self.otherwise.as_ref().map_or_else(|| Response::status(404), |generate| generate(request))
    }

    pub(crate) fn seeded_site(&self) -> Option<&Seeded> {
        self.seeded.as_ref()
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site").field("paths", &self.responses.len()).field("seeded", &self.seeded).finish()
    }
}
