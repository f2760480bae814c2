//! Which of the anchors that links point to their pages do not have.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::BuildHasher;

use super::records::{CheckRecord, LinkEntry};
use super::urls::{CheckedUrls, Resolved, UrlState};
use crate::error::StorageError;
use crate::modules::output::finish::Records;

/// The anchors that links point to and that their pages do not have, as hashes of URL and identifier.
#[derive(Default)]
pub(super) struct MissingAnchors {
    missing: HashSet<u64>,
    /// How many anchors are in pages that were requested and not read.
    pub(super) not_checked: u64,
}

/// The anchor that a link points to.
enum Anchor {
    /// In a page that was read.
    Known(u64),
    /// In a page that was requested and not read.
    Unread(u64),
}

impl MissingAnchors {
    /// Reads the records twice: for the links, and for the identifiers.
    pub(super) fn find(records: &Records, urls: &CheckedUrls) -> Result<MissingAnchors, StorageError> {
        let (mut wanted, mut unread) = (HashSet::new(), HashSet::new());
        CheckRecord::for_each(records, |record| {
            let CheckRecord::Page(page) = record else { return };
            for link in &page.links {
                match anchor_of(urls, link) {
                    Some(Anchor::Known(anchor)) => wanted.insert(anchor),
                    Some(Anchor::Unread(anchor)) => unread.insert(anchor),
                    None => false,
                };
            }
        })?;
        CheckRecord::for_each(records, |record| {
            let CheckRecord::Page(page) = record else { return };
            let hash = urls.hash(&page.url);
            for id in page.ids.iter().flatten() {
                wanted.remove(&urls.hasher.hash_one((hash, id.as_ref())));
                if id.contains('%') {
                    wanted.remove(&urls.hasher.hash_one((hash, decoded(id).as_ref())));
                }
            }
        })?;
        Ok(MissingAnchors { missing: wanted, not_checked: unread.len() as u64 })
    }

    /// Whether a link points to one of them.
    pub(super) fn contain(&self, urls: &CheckedUrls, link: &LinkEntry) -> bool {
        matches!(anchor_of(urls, link), Some(Anchor::Known(anchor)) if self.missing.contains(&anchor))
    }
}

/// The anchor that a link points to after redirects, if its page exists.
fn anchor_of(urls: &CheckedUrls, link: &LinkEntry) -> Option<Anchor> {
    let Resolved { hash, state, fragment, .. } = urls.resolve(urls.hash(&link.url));
    let id = identifier(fragment.unwrap_or(&link.fragment))?;
    let anchor = urls.hasher.hash_one((hash, id.as_ref()));
    match state? {
        UrlState::Page => Some(Anchor::Known(anchor)),
        UrlState::Fine => Some(Anchor::Unread(anchor)),
        _ => None,
    }
}

/// The identifier that a fragment means. `None` for the whole page, its top, a text fragment, and what only scripts understand.
pub(super) fn identifier(fragment: &str) -> Option<Cow<'_, str>> {
    let fragment = fragment.split(":~:").next().unwrap_or_default();
    if fragment.is_empty() || fragment.eq_ignore_ascii_case("top") || fragment.starts_with(['!', '/']) {
        return None;
    }
    Some(decoded(fragment))
}

fn decoded(fragment: &str) -> Cow<'_, str> {
    percent_encoding::percent_decode_str(fragment).decode_utf8_lossy()
}
