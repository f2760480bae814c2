//! Which of the anchors that links point to their pages do not have.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::BuildHasher;

use super::records::{LinkEntry, Record};
use super::urls::{Resolved, UrlState, Urls};
use crate::error::StorageError;
use crate::modules::output::finish::Records;

/// The anchors that links point to and that their pages do not have, as hashes of URL and identifier.
#[derive(Default)]
pub(super) struct MissingAnchors(HashSet<u64>);

impl MissingAnchors {
    /// Reads the records twice: for the links, and for the identifiers.
    pub(super) fn find(records: &Records, urls: &Urls) -> Result<MissingAnchors, StorageError> {
        let mut wanted = HashSet::new();
        Record::for_each(records, |record| {
            let Record::Page(page) = record else { return };
            wanted.extend(page.links.iter().filter_map(|link| anchor_of(urls, link)));
        })?;
        Record::for_each(records, |record| {
            let Record::Page(page) = record else { return };
            let hash = urls.hash(&page.url);
            for id in page.ids.iter().flatten() {
                wanted.remove(&urls.hasher.hash_one((hash, id.as_ref())));
                if id.contains('%') {
                    wanted.remove(&urls.hasher.hash_one((hash, decoded(id).as_ref())));
                }
            }
        })?;
        Ok(MissingAnchors(wanted))
    }

    /// Whether a link points to one of them.
    pub(super) fn contain(&self, urls: &Urls, link: &LinkEntry) -> bool {
        anchor_of(urls, link).is_some_and(|anchor| self.0.contains(&anchor))
    }
}

/// The anchor that a link points to, if its page was read.
fn anchor_of(urls: &Urls, link: &LinkEntry) -> Option<u64> {
    let id = identifier(&link.fragment)?;
    let Resolved { hash, state: Some(UrlState::Page), .. } = urls.resolve(urls.hash(&link.url)) else {
        return None;
    };
    Some(urls.hasher.hash_one((hash, id.as_ref())))
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
