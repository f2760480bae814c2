//! Resolves the URLs of a sitemap. Mostly they have the same host, whose international name is converted once.

use url::Url;

use crate::html::{self, BadLink};

use super::document::MAX_URLS;

/// The highest [cost](html::idna_cost) of a file's names of hosts together: that of fifty thousand names of 31 characters.
const MAX_IDNA_COST: usize = MAX_URLS * 31 * 31;

/// Resolves the URLs of one sitemap.
pub(super) struct SitemapResolver {
    base: Url,
    /// The last URL with an international name, after the scheme and the host as they were written.
    last: Option<(String, Url)>,
    idna_cost: usize,
}

impl SitemapResolver {
    /// URLs may be relative to this one.
    pub(super) fn new(base: Url) -> SitemapResolver {
        SitemapResolver { base, last: None, idna_cost: 0 }
    }

    /// The absolute URL of an entry, normalized. `None` if the names of the file's hosts take too long together.
    pub(super) fn resolve(&mut self, target: &str) -> Option<Result<Url, BadLink>> {
        if let Some((start, url)) = &self.last
            && let Some(path) = target.strip_prefix(start.as_str())
            && is_path(path)
        {
            return Some(html::resolve(url, path));
        }
        let cost = html::idna_cost(&self.base, target);
        self.idna_cost += cost;
        if self.idna_cost > MAX_IDNA_COST {
            return None;
        }
        let resolved = html::resolve(&self.base, target);
        if cost > 0
            && let (Ok(url), Some(start)) = (&resolved, scheme_and_host(target))
        {
            self.last = Some((start.to_owned(), url.clone()));
        }
        Some(resolved)
    }
}

/// The start of an absolute URL up to its path, as it is written.
fn scheme_and_host(target: &str) -> Option<&str> {
    let host = target.find("://")? + "://".len();
    let length = target[host..].find(['/', '\\', '?', '#'])?;
    Some(&target[..host + length])
}

/// Whether a text is a path, and not the start of another host, which it would be with two slashes.
fn is_path(text: &str) -> bool {
    let second = text.strip_prefix('/').map(|rest| rest.chars().next());
    second.is_some_and(|second| !matches!(second, Some('/' | '\\'))) && !text.contains(['\t', '\n', '\r'])
}
