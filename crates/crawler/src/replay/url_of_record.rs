//! Makes a URL with its outcome, and its page if it is one, of a record: what a worker makes of a response.

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use url::Url;

use crate::config::FetchConfig;
use crate::fetch::http::{BodyPolicy, Download, headers, read_stored};
use crate::fetch::redirect;
use crate::html::parts::PageParts;
use crate::html::{self, BadLink};
use crate::media::{self, AcceptedTypes, Declared};
use crate::outcome::Outcome;
use crate::page::Page;
use crate::scope::Scope;
use crate::similarity::{HashKey, Threshold};
use crate::stats::BodyBytes;
use crate::url_record::RequestRecord;
use crate::warc::digest;
use crate::warc::header::RecordType;
use crate::warc::http_message::{MAX_HEAD_BYTES, ResponseHead};
use crate::warc::reader::{Damage, WarcRecord};
use crate::worker::parsed_page::{ParsedPage, stylesheet_requisites};

/// Text that is no page: files that pages load. A crawl gets them as pages only if a page links to them.
const FILE_TYPES: [&str; 5] =
    ["text/css", "text/javascript", "text/ecmascript", "text/x-javascript", "text/jscript"];

/// What a record is.
pub enum RecordContent {
    /// A URL.
    Url(Box<RecordedUrl>),
    /// It is left out, for this reason.
    LeftOut(&'static str),
    /// It is damaged.
    Damaged(Damage),
}

/// A URL of an archive.
pub struct RecordedUrl {
    /// The URL, normalized and without credentials.
    pub url: Url,
    /// What became of it, as far as its record says.
    pub outcome: Outcome,
    /// The page, if it is one.
    pub page: Option<ParsedPage>,
    /// The file, if it is no page and an output keeps files.
    pub requisite: Option<Page>,
    /// The request.
    pub request: RequestRecord,
}

/// Makes URLs of records.
pub struct RecordParser<'r> {
    /// Which URLs are used.
    pub scope: &'r Scope,
    /// The limits and types of pages.
    pub config: &'r FetchConfig,
    /// The types that are used in addition to HTML and text.
    pub accepted: AcceptedTypes,
    /// The key of hashes.
    pub key: HashKey,
    /// How pages are compared; `None` if they are not.
    pub similarity: Option<Threshold>,
    /// The parts of pages that modules and outputs use.
    pub wanted: PageParts,
    /// Whether an output keeps the files that browsers need to show the pages.
    pub keeps_requisites: bool,
}

impl RecordParser<'_> {
    /// The most bytes of a block that are of use: a page and the head before it, and some more for the sizes of chunks.
    pub fn max_block(&self) -> usize {
        let FetchConfig { max_page_bytes, requests, .. } = self.config;
        let uses_files = self.keeps_requisites || !self.accepted.is_empty();
        let largest =
            if uses_files { (*max_page_bytes).max(requests.max_file_bytes) } else { *max_page_bytes };
        largest.saturating_add(largest / 64).saturating_add(MAX_HEAD_BYTES)
    }

    /// Makes a URL of a record of a type that has one.
    pub fn parse(&self, record: WarcRecord) -> RecordContent {
        let Some(Ok(url)) = record.header.target_uri().map(archived_url) else {
            return RecordContent::LeftOut("invalid URL");
        };
        if url.path() == "/robots.txt" {
            return RecordContent::LeftOut("robots.txt");
        }
        if self.scope.check_filters(url.as_str()).is_err() {
            return RecordContent::LeftOut("excluded");
        }
        if !record.is_verified && !record.is_cut() && is_changed(&record) {
            let cause = "its content does not match its digest".to_owned();
            return RecordContent::Damaged(Damage { offset: record.offset, cause });
        }
        let date = record.header.date();
        let request = RequestRecord { requested: date, done: date, ..RequestRecord::default() };
        match record.header.record_type() {
            RecordType::Revisit => revisit(url, &record, request),
            RecordType::Resource => self.resource(url, record, request),
            _ => self.response(url, record, request),
        }
    }

    fn response(&self, url: Url, record: WarcRecord, request: RequestRecord) -> RecordContent {
        let is_incomplete = record.is_cut() || record.header.is_truncated();
        let head = match ResponseHead::parse(&record.block) {
            Ok(head) => head,
            Err(cause) => {
                let outcome = Outcome::InvalidResponse { cause };
                return RecordedUrl { url, outcome, page: None, requisite: None, request }.into();
            }
        };
        let body = head.body_of(record.block);
        self.received(url, head.status, head.headers, (body, is_incomplete), request)
    }

    /// A file without a response: as if a server had sent it with the type that the record has.
    fn resource(&self, url: Url, record: WarcRecord, request: RequestRecord) -> RecordContent {
        let is_incomplete = record.is_cut() || record.header.is_truncated();
        let mut headers = HeaderMap::new();
        let content_type =
            record.header.get("Content-Type").and_then(|value| HeaderValue::from_str(value).ok());
        if let Some(content_type) = content_type {
            headers.insert(CONTENT_TYPE, content_type);
        }
        self.received(url, 200, headers, (record.block.into(), is_incomplete), request)
    }

    /// Decides what a response is, as a crawl does.
    fn received(
        &self,
        url: Url,
        status: u16,
        headers: HeaderMap,
        (body, is_incomplete): (Bytes, bool),
        mut request: RequestRecord,
    ) -> RecordContent {
        let mut download = Download::of_head(status, &headers);
        (request.status, request.content_type) = (Some(status), download.content_type.clone());
        request.bytes = BodyBytes::unencoded(body.len() as u64);
        let mut recorded = RecordedUrl { url, outcome: Outcome::Page, page: None, requisite: None, request };
        if let Err(outcome) = download.check_status() {
            recorded.outcome = outcome;
            return recorded.into();
        }
        if let Some(location) = download.redirect.take() {
            recorded.outcome = self.redirect(&recorded.url, &location);
            recorded.request.redirect_fragment = redirect::fragment(&location).map(str::to_owned);
            return recorded.into();
        }
        let encoding = headers::list(&headers, CONTENT_ENCODING);
        download.headers = headers;
        recorded.outcome = match self.read_body(&mut download, &body, encoding.as_deref(), is_incomplete) {
            Err(Outcome::UnsupportedMedia { .. }) if self.keeps_requisites => {
                self.requisite(&mut recorded, download, body, encoding.as_deref(), is_incomplete)
            }
            Err(outcome) => outcome,
            Ok(()) => {
                recorded.request.bytes.decoded = download.body.len() as u64;
                let page_url = recorded.url.clone();
                let mut parsed = ParsedPage::new(
                    self.key,
                    page_url,
                    0,
                    download,
                    self.similarity,
                    self.wanted,
                    self.config,
                );
                parsed.page.set_origin(None, &recorded.request);
                recorded.page = Some(parsed);
                Outcome::Page
            }
        };
        recorded.into()
    }

    fn redirect(&self, url: &Url, location: &str) -> Outcome {
        redirect::follow(url, 0, location, &self.config.strip_query, |target, _| {
            self.scope.check_filters(target)
        })
    }

    /// Decodes the body of a page. Some writers store it decoded, and keep the header that says otherwise.
    fn read_body(
        &self,
        download: &mut Download,
        body: &Bytes,
        encoding: Option<&str>,
        is_incomplete: bool,
    ) -> Result<(), Outcome> {
        let content_type = download.content_type.clone();
        if is_file_type(content_type.as_deref()) && !self.accepted.accept(content_type.as_deref()) {
            let what = headers::excerpt(content_type.as_deref().unwrap_or_default());
            return Err(Outcome::UnsupportedMedia { what });
        }
        let FetchConfig { max_page_bytes, oversize, requests, .. } = self.config;
        let policy = BodyPolicy::Page {
            limit: *max_page_bytes,
            oversize: *oversize,
            file_limit: requests.max_file_bytes,
            archives_files: false,
        };
        self.decode(download, body, encoding, policy, is_incomplete)
    }

    fn decode(
        &self,
        download: &mut Download,
        body: &Bytes,
        encoding: Option<&str>,
        policy: BodyPolicy,
        is_incomplete: bool,
    ) -> Result<(), Outcome> {
        let mut read =
            |encoding| read_stored(download, body.clone(), encoding, (policy, &self.accepted), is_incomplete);
        match read(encoding) {
            Err(failure @ Outcome::InvalidResponse { .. }) if encoding.is_some() => {
                let is_text = media::sniff(Declared::Unknown, None, body).is_some();
                if is_text && read(None).is_ok() { Ok(()) } else { Err(failure) }
            }
            result => result,
        }
    }

    /// A file that is no page, for outputs that keep it.
    fn requisite(
        &self,
        recorded: &mut RecordedUrl,
        mut download: Download,
        body: Bytes,
        encoding: Option<&str>,
        is_incomplete: bool,
    ) -> Outcome {
        let policy = BodyPolicy::File(self.config.requests.max_file_bytes);
        if let Err(outcome) = self.decode(&mut download, &body, encoding, policy, is_incomplete) {
            return outcome;
        }
        recorded.request.bytes.decoded = download.body.len() as u64;
        let mut page = ParsedPage::unparsed(recorded.url.clone(), 0, download, self.config).page;
        page.set_origin(None, &recorded.request);
        if media::is_stylesheet(page.content_type().as_deref(), page.url.path()) {
            page.requisites = stylesheet_requisites(&page, &self.config.strip_query);
        }
        recorded.requisite = Some(page);
        Outcome::Requisite
    }
}

impl From<RecordedUrl> for RecordContent {
    fn from(url: RecordedUrl) -> RecordContent {
        RecordContent::Url(Box::new(url))
    }
}

/// A URL as a crawl would name it. Credentials are removed.
fn archived_url(uri: &str) -> Result<Url, BadLink> {
    match html::normalize(uri) {
        Err(BadLink::Credentials) => {
            let url = Url::parse(uri).map_err(|_| BadLink::Malformed)?;
            html::normalize(crate::origin::without_credentials(&url).as_str())
        }
        url => url,
    }
}

/// A page with the content of another one, which the archive has not stored twice.
fn revisit(url: Url, record: &WarcRecord, mut request: RequestRecord) -> RecordContent {
    let of = record.header.refers_to_target_uri().and_then(|uri| archived_url(uri).ok());
    match of.filter(|of| *of != url) {
        None => RecordContent::LeftOut("revisit"),
        Some(of) => {
            let head = ResponseHead::parse(&record.block).ok();
            request.status = head.as_ref().map(|head| head.status);
            request.content_type = head.and_then(|head| headers::text(&head.headers, CONTENT_TYPE));
            let outcome = Outcome::Duplicate { of: of.into(), links_followed: false };
            RecordedUrl { url, outcome, page: None, requisite: None, request }.into()
        }
    }
}

/// Whether the block is another one than was written.
fn is_changed(record: &WarcRecord) -> bool {
    let declared = record.header.get("WARC-Block-Digest");
    declared.and_then(|declared| digest::matches(declared, &record.block)) == Some(false)
}

fn is_file_type(content_type: Option<&str>) -> bool {
    let essence = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    FILE_TYPES.iter().any(|file_type| file_type.eq_ignore_ascii_case(essence))
}
