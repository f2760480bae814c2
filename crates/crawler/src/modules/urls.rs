//! Every URL of the crawl with its outcome, as JSON lines or CSV: one row per URL.

use std::borrow::Cow;
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::jsonl;
use super::output::{BuiltinOutput, OutputWrite};
use super::{csv, timestamp};
use crate::outcome::OutcomeGroup;
use crate::page::Page;
use crate::task_kind::TaskKind;
use crate::url_record::UrlRecord;

/// A row for every URL of the crawl. A URL has one when it is completed; URLs that were not reached get theirs when a crawl in one
/// process ends.
#[derive(Debug, Clone, Copy)]
pub struct Urls {
    format: UrlsFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UrlsFormat {
    Jsonl,
    Csv,
}

/// The name of the output.
pub(super) const URLS: &str = "urls";

/// The names of the columns: the keys of a [`UrlRow`], in order.
const CSV_HEADER: &str = "url,kind,outcome,group,status,reason,content_type,bytes,received,truncated,depth,found_on,redirect,retries,\
                          queued,requested,first_byte,done\n";

impl Urls {
    /// CSV if the file's name ends with `.csv`, otherwise JSON lines.
    pub fn for_file(path: &Path) -> Urls {
        let is_csv = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
        Urls { format: if is_csv { UrlsFormat::Csv } else { UrlsFormat::Jsonl } }
    }
}

impl BuiltinOutput for Urls {
    fn name(&self) -> &str {
        URLS
    }

    fn header(&self) -> &[u8] {
        match self.format {
            UrlsFormat::Jsonl => b"",
            UrlsFormat::Csv => CSV_HEADER.as_bytes(),
        }
    }

    /// A page is a URL as others are.
    fn render(&self, _: &Page) -> OutputWrite {
        OutputWrite::Append(Vec::new())
    }

    fn wants_urls(&self) -> bool {
        true
    }

    fn render_url(&self, record: &UrlRecord) -> Vec<u8> {
        let row = UrlRow::new(record);
        match self.format {
            UrlsFormat::Jsonl => jsonl::line(&row),
            UrlsFormat::Csv => row.csv(),
        }
    }

    fn task_url_of_row(&self, row: &[u8]) -> Option<String> {
        let key = match self.format {
            UrlsFormat::Jsonl => serde_json::from_slice(row).ok()?,
            UrlsFormat::Csv => {
                let row = std::str::from_utf8(row).ok()?;
                let (url, rest) = first_field(row)?;
                RowKey { url, kind: first_field(rest)?.0 }
            }
        };
        Some(TaskKind::from_name(&key.kind)?.task_url_of(&key.url))
    }
}

/// What identifies the URL of a row.
#[derive(Deserialize)]
struct RowKey<'r> {
    #[serde(borrow)]
    url: Cow<'r, str>,
    #[serde(borrow)]
    kind: Cow<'r, str>,
}

/// The first field of a CSV row, and the rest.
fn first_field(row: &str) -> Option<(Cow<'_, str>, &str)> {
    let Some(quoted) = row.strip_prefix('"') else {
        return row.split_once(',').map(|(field, rest)| (field.into(), rest));
    };
    let mut end = 0;
    loop {
        end += quoted[end..].find('"')?;
        match quoted[end + 1..].strip_prefix('"') {
            Some(_) => end += 2,
            None => {
                return Some((
                    quoted[..end].replace("\"\"", "\"").into(),
                    quoted[end + 1..].strip_prefix(',')?,
                ));
            }
        }
    }
}

/// One URL. Only this struct knows the keys.
#[derive(Serialize)]
struct UrlRow<'r> {
    url: &'r str,
    kind: &'static str,
    outcome: Cow<'static, str>,
    group: &'static str,
    status: Option<u16>,
    reason: String,
    content_type: Option<&'r str>,
    bytes: Option<u64>,
    received: Option<u64>,
    truncated: bool,
    depth: u32,
    found_on: Option<&'r str>,
    redirect: Option<&'r str>,
    retries: u8,
    queued: Option<String>,
    requested: Option<String>,
    first_byte: Option<String>,
    done: Option<String>,
}

impl<'r> UrlRow<'r> {
    fn new(record: &'r UrlRecord) -> UrlRow<'r> {
        let (outcome, request) = (&record.outcome, &record.request);
        let time = |time: Option<SystemTime>| time.map(timestamp::rfc3339);
        let body = request.status.map(|_| request.bytes);
        UrlRow {
            url: record.url(),
            kind: record.kind(),
            outcome: outcome.label(),
            group: group_name(outcome.group()),
            status: request.status,
            reason: outcome.to_string(),
            content_type: request.content_type.as_deref(),
            bytes: body.map(|bytes| bytes.decoded),
            received: body.map(|bytes| bytes.received),
            truncated: record.truncated,
            depth: record.depth,
            found_on: record.found_on(),
            redirect: record.redirect_target(),
            retries: record.retries,
            queued: time(record.queued),
            requested: time(request.requested),
            first_byte: time(request.first_byte),
            done: time(request.done.or(record.done)),
        }
    }

    fn csv(&self) -> Vec<u8> {
        let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        // A row is one line, and a terminal interprets nothing in it.
        let one_line = |text: &str| text.replace(char::is_control, " ");
        let url = |url: Option<&str>| one_line(url.unwrap_or_default());
        let text = |text: &str| csv::safe_text(&one_line(text)).into_owned();
        let time = |time: &Option<String>| time.clone().unwrap_or_default();
        let fields = [
            one_line(self.url),
            self.kind.to_owned(),
            self.outcome.to_string(),
            self.group.to_owned(),
            number(self.status.map(u64::from)),
            text(&self.reason),
            text(self.content_type.unwrap_or_default()),
            number(self.bytes),
            number(self.received),
            self.truncated.to_string(),
            self.depth.to_string(),
            url(self.found_on),
            url(self.redirect),
            self.retries.to_string(),
            time(&self.queued),
            time(&self.requested),
            time(&self.first_byte),
            time(&self.done),
        ];
        let mut line = Vec::with_capacity(512);
        csv::push_line(&mut line, fields.iter().map(String::as_str));
        line
    }
}

/// The name of a group of outcomes.
fn group_name(group: OutcomeGroup) -> &'static str {
    match group {
        OutcomeGroup::Page => "page",
        OutcomeGroup::Redirect => "redirect",
        OutcomeGroup::Skipped => "skipped",
        OutcomeGroup::Failed => "failed",
        OutcomeGroup::Sitemap => "sitemap",
        OutcomeGroup::Requisite => "requisite",
        OutcomeGroup::Checked => "checked",
        OutcomeGroup::Unchanged => "unchanged",
        OutcomeGroup::NotReached => "not reached",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::html::BadLink;
    use crate::outcome::Outcome;
    use crate::scope::RejectReason;
    use crate::stats::BodyBytes;
    use crate::url_record::{Discovery, RequestRecord};

    const AT: u64 = 1_793_858_828_009;

    fn record(url: &str, outcome: Outcome) -> UrlRecord<'static> {
        let time = |after: u64| Some(UNIX_EPOCH + Duration::from_millis(AT + after));
        let discovery = Discovery { found_on: Some("http://a.test/".into()), redirects: Vec::new() };
        UrlRecord {
            retries: 1,
            request: RequestRecord {
                requested: time(1),
                first_byte: time(20),
                done: time(300),
                status: Some(404),
                content_type: Some("text/html".into()),
                bytes: BodyBytes { decoded: 70, received: 50 },
                ..RequestRecord::default()
            },
            done: time(301),
            ..UrlRecord::new(url.into(), outcome, 2, Some(Arc::new(discovery)), AT)
        }
    }

    fn urls(file: &str) -> Urls {
        Urls::for_file(Path::new(file))
    }

    fn row(file: &str, record: &UrlRecord) -> String {
        String::from_utf8(urls(file).render_url(record)).unwrap()
    }

    #[test]
    fn row_has_everything_that_is_known_about_a_url() {
        let missing = record("http://a.test/x?y=1,2", Outcome::HttpStatus { code: 404, retry_after: None });
        assert_eq!(
            row("urls.jsonl", &missing),
            "{\"url\":\"http://a.test/x?y=1,2\",\"kind\":\"page\",\"outcome\":\"HTTP 404\",\"group\":\"failed\",\"status\":404,\
             \"reason\":\"HTTP 404\",\"content_type\":\"text/html\",\"bytes\":70,\"received\":50,\"truncated\":false,\"depth\":2,\
             \"found_on\":\"http://a.test/\",\"redirect\":null,\"retries\":1,\"queued\":\"2026-11-05T06:07:08.009Z\",\
             \"requested\":\"2026-11-05T06:07:08.010Z\",\"first_byte\":\"2026-11-05T06:07:08.029Z\",\
             \"done\":\"2026-11-05T06:07:08.309Z\"}\n"
        );
        assert_eq!(
            row("URLS.CSV", &missing),
            "\"http://a.test/x?y=1,2\",page,HTTP 404,failed,404,HTTP 404,text/html,70,50,false,2,http://a.test/,,1,\
             2026-11-05T06:07:08.009Z,2026-11-05T06:07:08.010Z,2026-11-05T06:07:08.029Z,2026-11-05T06:07:08.309Z\n"
        );
    }

    #[test]
    fn columns_of_csv_are_the_keys_of_json() {
        let line = row("-", &record("http://a.test/", Outcome::Page));
        let keys: Vec<&str> = line.split("\":").filter_map(|part| Some(part.rsplit_once('"')?.1)).collect();
        assert_eq!(keys[..18].join(","), CSV_HEADER.trim_end());
    }

    #[test]
    fn url_that_was_not_requested_has_no_response() {
        let waiting = UrlRecord::new("http://a.test/s.xml#sitemap".into(), Outcome::NotReached, 0, None, 0);
        assert_eq!(
            row("urls.csv", &waiting),
            "http://a.test/s.xml,sitemap,not reached,not reached,,not reached,,,,false,0,,,0,,,,\n"
        );
        let to = Outcome::Redirect { to: "http://b.test/".into() };
        assert!(row("-", &record("http://a.test/", to)).contains("\"redirect\":\"http://b.test/\""));
    }

    #[test]
    fn text_of_a_server_is_no_formula() {
        let mut page = record("http://a.test/", Outcome::Page);
        page.request.content_type = Some("=HYPERLINK(0)".into());
        assert!(row("urls.csv", &page).contains(",'=HYPERLINK(0),"), "{}", row("urls.csv", &page));
        assert!(row("urls.jsonl", &page).contains(":\"=HYPERLINK(0)\""));
    }

    #[test]
    fn only_a_url_is_the_target_of_a_redirect() {
        let rejected = |to: &str, why| Outcome::RedirectRejected { to: to.into(), why };
        let target = |outcome| record("http://a.test/", outcome).redirect_target().map(str::to_owned);
        let malformed = RejectReason::InvalidLink(BadLink::Malformed);
        assert_eq!(target(rejected("a malformed URL", malformed)), None);
        assert_eq!(
            target(rejected("http://b.test/", RejectReason::External)).as_deref(),
            Some("http://b.test/")
        );
    }

    #[test]
    fn row_is_one_line_and_names_its_task() {
        let cause = "a\r\nb\u{1b}[2J\",c".to_owned();
        let odd = record("http://a.test/?\"x\",y#sitemap", Outcome::InvalidResponse { cause });
        for file in ["urls.csv", "urls.jsonl"] {
            let row = row(file, &odd);
            assert_eq!(row.matches('\n').count(), 1, "{row}");
            assert!(!row.contains('\u{1b}'), "{row}");
            let task_url = urls(file).task_url_of_row(row.as_bytes());
            assert_eq!(task_url.as_deref(), Some("http://a.test/?\"x\",y#sitemap"));
            let unknown_kind = row.replace("sitemap", "map");
            for damaged in ["", "\n", "\"", "\"\"\n", "{}\n", "{\"url\":\"\n", &unknown_kind] {
                assert_eq!(urls(file).task_url_of_row(damaged.as_bytes()), None, "{damaged:?}");
            }
        }
    }
}
