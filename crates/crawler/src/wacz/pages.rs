//! Finds the HTML pages among the records of archives, and their titles.

use serde_json::json;

use super::package::to_the_second;
use crate::config::{FetchConfig, Oversize};
use crate::html::parts::PageParts;
use crate::media::{AcceptedTypes, Media};
use crate::replay::url_of_record::{RecordContent, RecordParser};
use crate::scope::Scope;
use crate::similarity::HashKey;
use crate::warc::cdxj::IndexEntry;
use crate::warc::header::{RecordHeader, RecordType};
use crate::warc::http_message::ResponseHead;
use crate::warc::reader::WarcRecord;

/// How much of a page is read for its title.
const TITLE_BYTES: usize = 128 * 1024;

/// The types of pages. A browser shows text without them, too, but it does not belong in a list of pages.
const PAGE_TYPES: [&str; 2] = ["text/html", "application/xhtml+xml"];

/// Finds pages.
pub struct PageFinder {
    scope: Scope,
    config: FetchConfig,
}

/// A page of an archive.
pub struct ListedPage {
    /// Its URL, as its record has it.
    pub url: String,
    /// When it was captured.
    pub date: String,
    /// Its title; empty if it has none.
    title: String,
}

impl PageFinder {
    /// A finder for pages of any URL.
    pub fn new() -> PageFinder {
        let config = FetchConfig {
            oversize: Oversize::Truncate,
            max_page_bytes: TITLE_BYTES,
            ..FetchConfig::default()
        };
        PageFinder { scope: Scope::anywhere(), config }
    }

    fn parser(&self) -> RecordParser<'_> {
        RecordParser {
            scope: &self.scope,
            config: &self.config,
            accepted: AcceptedTypes::default(),
            key: HashKey::new(0),
            similarity: None,
            wanted: PageParts::default(),
            keeps_requisites: false,
        }
    }

    /// How much of a record is needed.
    pub fn kept(&self, header: &RecordHeader) -> usize {
        match header.record_type() {
            RecordType::Response | RecordType::Resource => self.parser().max_block(),
            _ => 0,
        }
    }

    /// The page of a record, if it is one.
    pub fn page(&self, entry: &IndexEntry, record: WarcRecord) -> Option<ListedPage> {
        let date = to_the_second(record.header.date()?);
        let title = match record.header.record_type() {
            RecordType::Revisit => is_page_head(&record).then(String::new)?,
            RecordType::Response | RecordType::Resource if is_page_type(entry.mime.as_deref()) => {
                match self.parser().parse(record) {
                    RecordContent::Url(url) => {
                        url.page.map(|page| page.page).filter(|page| page.media == Media::Html)?.title
                    }
                    _ => return None,
                }
            }
            _ => return None,
        };
        Some(ListedPage { url: entry.url.clone(), date, title })
    }
}

impl ListedPage {
    /// The line of the page with this number.
    pub fn line(&self, number: u64) -> String {
        let mut line = json!({"id": number.to_string(), "url": self.url, "ts": self.date});
        if !self.title.is_empty() {
            line["title"] = self.title.as_str().into();
        }
        line.to_string()
    }
}

/// Whether the response that a revisit stands for was a page, by its head.
fn is_page_head(record: &WarcRecord) -> bool {
    let Ok(head) = ResponseHead::parse(&record.block) else { return false };
    let content_type = head.headers.get("content-type").and_then(|value| value.to_str().ok());
    matches!(head.status, 200..300 | 304) && is_page_type(content_type)
}

fn is_page_type(content_type: Option<&str>) -> bool {
    let essence = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    PAGE_TYPES.iter().any(|page_type| page_type.eq_ignore_ascii_case(essence))
}
