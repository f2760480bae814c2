//! A site whose pages change, vanish, move and appear while it is served, with and without validators.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use demoweb::Request;

use crate::response::Response;
use crate::site::Site;

/// The validators that a page is sent with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validator {
    /// A strong ETag.
    ETag,
    /// A weak ETag.
    WeakETag,
    /// Last-Modified alone.
    LastModified,
    /// None: each response has the body.
    None,
}

/// The pages of a site, which can be changed while it is served. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct ChangingSite(Arc<Mutex<HashMap<String, ChangingPage>>>);

#[derive(Debug, Clone)]
struct ChangingPage {
    content: Content,
    /// How often it was changed.
    edition: u64,
}

#[derive(Debug, Clone)]
enum Content {
    Page(String, Validator),
    Redirect(String),
    Status(u16),
}

impl ChangingSite {
    /// A site without pages.
    pub fn new() -> ChangingSite {
        ChangingSite::default()
    }

    /// Adds or changes a page.
    pub fn page(&self, path: &str, html: impl Into<String>, validator: Validator) {
        self.set(path, Content::Page(html.into(), validator));
    }

    /// Redirects a path.
    pub fn redirect(&self, path: &str, to: &str) {
        self.set(path, Content::Redirect(to.into()));
    }

    /// Responds to a path with a status.
    pub fn status(&self, path: &str, status: u16) {
        self.set(path, Content::Status(status));
    }

    /// The site that is served.
    pub fn site(&self) -> Site {
        let pages = self.clone();
        Site::new().fallback(move |request| pages.respond_to(request))
    }

    fn set(&self, path: &str, content: Content) {
        let mut pages = self.pages();
        let edition = pages.get(path).map_or(1, |page| page.edition + 1);
        pages.insert(path.to_owned(), ChangingPage { content, edition });
    }

    fn pages(&self) -> MutexGuard<'_, HashMap<String, ChangingPage>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn respond_to(&self, request: &Request) -> Response {
        let Some(ChangingPage { content, edition }) = self.pages().get(&request.path).cloned() else {
            return Response::status(404);
        };
        let (html, validator) = match content {
            Content::Redirect(to) => return Response::redirect(301, &to),
            Content::Status(status) => return Response::status(status),
            Content::Page(html, validator) => (html, validator),
        };
        let (header, value, condition) = match validator {
            Validator::ETag => ("etag", format!("\"{edition}\""), "if-none-match"),
            Validator::WeakETag => ("etag", format!("W/\"{edition}\""), "if-none-match"),
            Validator::LastModified => {
                let date = format!("Sun, 06 Nov 1994 08:{:02}:{:02} GMT", edition / 60 % 60, edition % 60);
                ("last-modified", date, "if-modified-since")
            }
            Validator::None => return Response::page(html),
        };
        match request.header(condition) == Some(value.as_str()) {
            true => Response::status(304).body("").header(header, &value),
            false => Response::page(html).header(header, &value),
        }
    }
}
