//! What a link check records during the crawl, as JSON: the links of each page, and the outcome of each URL.

use std::borrow::Cow;

use serde::{Deserialize, Serialize, Serializer};

use super::verdict::Verdict;
use crate::error::StorageError;
use crate::modules::output::finish::{Records, push_record};

/// One record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CheckRecord<'r> {
    #[serde(borrow)]
    Page(PageRecord<'r>),
    #[serde(borrow)]
    Url(UrlEntry<'r>),
}

/// The links of a page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PageRecord<'r> {
    #[serde(borrow)]
    pub(super) url: Cow<'r, str>,
    /// Only the start of the page was read.
    pub(super) truncated: bool,
    #[serde(borrow)]
    pub(super) links: Vec<LinkEntry<'r>>,
    /// The identifiers that links can point to, if they are checked.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) ids: Option<Vec<Cow<'r, str>>>,
}

/// A link. It is written as an array, because there are many.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct LinkEntry<'r> {
    /// The target; as it is in the page if it is not a URL.
    #[serde(borrow)]
    pub(super) url: Cow<'r, str>,
    /// The fragment of the target, undecoded.
    #[serde(borrow)]
    pub(super) fragment: Cow<'r, str>,
    /// The kind of element.
    #[serde(borrow)]
    pub(super) element: Cow<'r, str>,
    #[serde(borrow)]
    pub(super) text: Cow<'r, str>,
    /// Why the target is not requested. Empty if it is.
    #[serde(borrow)]
    pub(super) rejected: Cow<'r, str>,
}

impl Serialize for LinkEntry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let LinkEntry { url, fragment, element, text, rejected } = self;
        (url, fragment, element, text, rejected).serialize(serializer)
    }
}

/// What a request of a URL showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct UrlEntry<'r> {
    #[serde(borrow)]
    pub(super) url: Cow<'r, str>,
    pub(super) verdict: Verdict,
    /// It was requested as a page, and not only to find out whether it exists.
    pub(super) crawled: bool,
    /// The HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<u16>,
    /// The outcome in words. Empty if the URL is fine.
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub(super) reason: Cow<'r, str>,
    /// The target of a redirect.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<Cow<'r, str>>,
    /// The fragment of this target, undecoded.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) fragment: Option<Cow<'r, str>>,
    /// Where the URL was found first.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) found_on: Option<Cow<'r, str>>,
    /// The [options of the report](super::CheckOptions::of_report).
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub(super) options: Cow<'r, str>,
}

impl CheckRecord<'_> {
    /// Appends the record to the bytes that a page or URL adds to the records file.
    pub(super) fn push_to(&self, bytes: &mut Vec<u8>) {
        // Texts and numbers can always be serialized.
        push_record(bytes, &serde_json::to_vec(self).unwrap_or_default());
    }

    /// Calls a function with each record of a file.
    pub(super) fn for_each(
        records: &Records,
        mut visit: impl FnMut(CheckRecord),
    ) -> Result<(), StorageError> {
        let (mut reader, mut bytes) = (records.read()?, Vec::new());
        while reader.next(&mut bytes)? {
            visit(serde_json::from_slice(&bytes).map_err(|_| records.damaged())?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::check::tests::records_file;

    #[test]
    fn records_are_read_as_they_were_written() {
        let link =
            LinkEntry { url: "http://a/b".into(), text: "say \"no\"\u{1b}\n".into(), ..LinkEntry::default() };
        let records = [
            CheckRecord::Page(PageRecord {
                url: "http://a/".into(),
                truncated: true,
                links: vec![link.clone(), LinkEntry { fragment: "x".into(), ..link }],
                ids: Some(vec!["top".into(), "ä\u{0}".into()]),
            }),
            CheckRecord::Url(UrlEntry {
                url: "http://a/b".into(),
                verdict: Verdict::Http,
                crawled: false,
                status: Some(404),
                reason: "HTTP 404".into(),
                to: None,
                fragment: Some("x".into()),
                found_on: Some("http://a/".into()),
                options: ",redirects".into(),
            }),
        ];
        let (_directory, file) = records_file(&records);
        let mut read = Vec::new();
        CheckRecord::for_each(&file, |record| read.push(serde_json::to_string(&record).unwrap())).unwrap();
        assert!(records.iter().map(|record| serde_json::to_string(record).unwrap()).eq(read));
    }
}
