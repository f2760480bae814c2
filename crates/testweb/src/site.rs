//! The paths of one host and what each is answered with.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use demoweb::Request;

use crate::answer::{Answer, Turns};
use crate::seeded::Seeded;

type Generator = Arc<dyn Fn(&Request) -> Answer + Send + Sync>;

/// One host's content. A path (with its query) that was not given is a 404 with an HTML body,
/// /robots.txt included.
#[derive(Clone, Default)]
pub struct Site {
    answers: HashMap<String, Turns>,
    otherwise: Option<Generator>,
    seeded: Option<Seeded>,
}

impl Site {
    /// A site where every path is a 404.
    pub fn new() -> Self {
        Self::default()
    }

    /// A connected site of so many pages (HTML and text), the same for the same seed, with every kind of
    /// link a page may have. [`Web::truth`](crate::Web::truth) tells what a crawl of it must find.
    ///
    /// # Panics
    /// Without a single page.
    pub fn seeded(seed: u64, pages: usize) -> Self {
        Self::of_seeded(Seeded::alone(seed, pages))
    }

    /// Gives every seeded HTML page a near-duplicate, which only the page itself links to: the same URL with
    /// `print=yes` in its query, the same body with one sentence more. The truth leaves them out, as a crawl does
    /// that drops near-duplicates.
    pub fn with_print_views(self) -> Self {
        Self { seeded: self.seeded.map(Seeded::with_print_views), ..self }
    }

    /// A host of a seeded web.
    pub(crate) fn of_seeded(seeded: Seeded) -> Self {
        Self { seeded: Some(seeded), ..Self::default() }
    }

    /// An HTML page.
    pub fn page(self, path: &str, html: impl Into<Bytes>) -> Self {
        self.answer(path, Answer::page(html))
    }

    /// A plain text.
    pub fn text(self, path: &str, text: impl Into<Bytes>) -> Self {
        self.answer(path, Answer::text(text))
    }

    /// A 302 redirect; `to` goes into Location as it is.
    pub fn redirect(self, path: &str, to: &str) -> Self {
        self.redirect_with(302, path, to)
    }

    /// A redirect with another status.
    pub fn redirect_with(self, status: u16, path: &str, to: &str) -> Self {
        self.answer(path, Answer::redirect(status, to))
    }

    /// `path` redirects to `path/1`, that to `path/2`, and so on: after `redirects` of them there is a page.
    pub fn redirect_chain(self, path: &str, redirects: usize) -> Self {
        let hop = |n: usize| if n == 0 { path.to_owned() } else { format!("{path}/{n}") };
        let end = self.page(&hop(redirects), format!("<title>After {redirects} redirects</title>\n"));
        (0..redirects).fold(end, |site, n| site.redirect(&hop(n), &hop(n + 1)))
    }

    /// A bare status with a small HTML body.
    pub fn status(self, path: &str, code: u16) -> Self {
        self.answer(path, Answer::status(code))
    }

    /// The text of /robots.txt.
    pub fn robots(self, text: impl Into<Bytes>) -> Self {
        self.text("/robots.txt", text)
    }

    /// Any answer, or several [in turn](Answer::in_turn).
    pub fn answer(mut self, path: &str, answer: impl Into<Turns>) -> Self {
        self.answers.insert(path.into(), answer.into());
        self
    }

    /// Answers every path that was not given, for spaces too large to write down.
    pub fn otherwise(mut self, generate: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        self.otherwise = Some(Arc::new(generate));
        self
    }

    /// What this request is answered with: the given paths first, then the seeded ones, then the generated.
    pub(crate) fn answer_to(&self, request: &Request) -> Answer {
        if let Some(turns) = self.answers.get(&request.path) {
            return turns.next();
        }
        if let Some(answer) = self.seeded.as_ref().and_then(|seeded| seeded.answer_to(request)) {
            return answer;
        }
        self.otherwise.as_ref().map_or_else(|| Answer::status(404), |generate| generate(request))
    }

    pub(crate) fn seeded_part(&self) -> Option<&Seeded> {
        self.seeded.as_ref()
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site").field("paths", &self.answers.len()).field("seeded", &self.seeded).finish()
    }
}
