//! Shows what a crawl stored: `crawler show` prints a page, `crawler why` the outcome of a URL, how it was reached and
//! which pages link to it.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use crawler::internal::backend::durable::{RecordedOutput, UrlHistory, UrlStatus};
use crawler::internal::backend::linking_pages::LinkingPages;
use crawler::internal::captures::{CapturedPage, NoCapture, find_page};
use crawler::internal::html::{self, BadLink};
use crawler::internal::modules::timestamp::rfc3339;
use crawler::internal::modules::warc::WARC;
use crawler::internal::modules::warc::made_files::archive_files;
use crawler::internal::origin::without_credentials;
use crawler::internal::scope::RejectReason;
use crawler::internal::task_kind::{TaskKind, shown_url};
use crawler::internal::time_text::time_text;
use crawler::{Error, Outcome, Scope};
use url::Url;

use crate::EXIT_FAILED;
use crate::args::{CrawlOptions, CrawlSource, ShowQuery, UrlQuery};
use crate::commands::crawl::status_of;
use crate::commands::damage::DamageMessages;
use crate::commands::stored_crawl::StoredCrawl;
use crate::commands::with_hint;
use crate::format::{counted, number};
use crate::printable::{is_printed, print_error, print_message, print_stdout, printable};

/// A longer path to a seed is shortened.
const MAX_PATH: usize = 8;

/// The number of URLs shown at either end of a shortened path.
const PATH_ENDS: usize = 3;

/// How long stored pages are searched for links. Ten thousand take a few seconds.
const MAX_SEARCH_TIME: Duration = Duration::from_secs(10);

/// Prints a stored page as the server sent it, and returns the exit status.
pub async fn show(query: &ShowQuery) -> u8 {
    exit_code(try_show(query).await)
}

async fn try_show(query: &ShowQuery) -> Result<u8, Error> {
    let page = match query {
        ShowQuery::Crawl(UrlQuery { url, source }) => stored_page(source, url).await?,
        ShowQuery::Archives { url, archives, not_after } => {
            archived_page(archives, url, not_after.as_deref())?
        }
    };
    let printed = match page {
        Ok(body) => {
            let mut out = io::stdout();
            is_printed(out.write_all(&body).and_then(|()| out.flush()))
        }
        Err(reason) => {
            print_error(&reason);
            false
        }
    };
    Ok(if printed { 0 } else { EXIT_FAILED })
}

/// A page of archives, or why there is none.
fn archived_page(
    archives: &[PathBuf],
    url: &Url,
    not_after: Option<&str>,
) -> Result<Result<Bytes, String>, Error> {
    let messages = DamageMessages::new(false, "more damaged records are left out");
    let found = find_page(archives, url.as_str(), not_after, &mut |message| messages.report(message))?;
    Ok(match found {
        Ok(CapturedPage { body, is_incomplete, .. }) => {
            if is_incomplete {
                print_message("the page is incomplete: the archive has only its start, or it is very large");
            }
            Ok(body)
        }
        Err(NoCapture::NotFound) => {
            let time = not_after.map_or_else(String::new, |time| format!(" up to {time} (--at)"));
            Err(format!("cannot show {url}: the archives have no capture of it{time}"))
        }
        Err(NoCapture::Unreadable(cause)) => Err(format!("cannot show {url}: {cause}")),
    })
}

/// A page in the archives of a crawl, if it has any.
fn page_in_archives(outputs: &[RecordedOutput], url: &Url) -> Result<Option<Bytes>, Error> {
    let archives: Vec<PathBuf> = outputs
        .iter()
        .filter(|output| output.name == WARC)
        .flat_map(|output| archive_files(&output.path).unwrap_or_default())
        .collect();
    if archives.is_empty() {
        return Ok(None);
    }
    Ok(archived_page(&archives, url, None)?.ok())
}

/// A stored page, or why there is none.
pub async fn stored_page(source: &CrawlSource, url: &Url) -> Result<Result<Bytes, String>, Error> {
    let (mut crawl, options) = StoredCrawl::open(source).await?;
    let url = &stripped(url, options.as_ref());
    if let Some(body) = crawl.content(url).await? {
        return Ok(Ok(body.into()));
    }
    let reason = match crawl.history(url).await? {
        Some(history)
            if was_page(&history)
                && let Some(page) = page_in_archives(&crawl.outputs()?, url)? =>
        {
            return Ok(Ok(page));
        }
        Some(history) => why_not_stored(&history, options.as_ref()),
        None => why_not_admitted(url, options.as_ref(), crawl.scope(options.as_ref()).await?),
    };
    Ok(Err(format!("cannot show {}: {reason}", without_credentials(url))))
}

/// Prints the outcome of a URL, how it was reached and which pages link to it, and returns the exit status.
pub async fn why(query: &UrlQuery) -> u8 {
    exit_code(try_why(query).await)
}

async fn try_why(UrlQuery { url, source }: &UrlQuery) -> Result<u8, Error> {
    let (text, is_known) = why_text(source, url, MAX_SEARCH_TIME).await?;
    Ok(if print_stdout(&text) && is_known { 0 } else { EXIT_FAILED })
}

/// The outcome of a URL, how it was reached and which pages link to it, and whether it was admitted. Stored pages are searched
/// for links for this time.
pub async fn why_text(source: &CrawlSource, url: &Url, max_time: Duration) -> Result<(String, bool), Error> {
    let (mut crawl, options) = StoredCrawl::open(source).await?;
    let url = &stripped(url, options.as_ref());
    let (mut lines, is_known) = match crawl.history(url).await? {
        Some(history) => {
            let why = match history.status {
                UrlStatus::Pending => crawl.why_waiting(url).await?,
                UrlStatus::Completed { .. } => None,
            };
            (describe(&history, why, &crawl.outputs()?), true)
        }
        None => {
            let reason = why_not_admitted(url, options.as_ref(), crawl.scope(options.as_ref()).await?);
            let url = without_credentials(url).to_string();
            (vec![url, format!("  outcome: never admitted, {reason}")], false)
        }
    };
    lines.extend(linked_from(crawl.linking_pages(url, options.as_ref(), max_time).await?));
    Ok((lines.iter().map(|line| format!("{}\n", printable(line))).collect(), is_known))
}

/// Why nothing is known of a URL of a crawl without a state, and what to do about it.
pub const IN_MEMORY: &str = "a crawl in memory records only its latest URLs; start it with --state DIR or --redis URL to ask about all";

/// What the options of a crawl without a state say about a URL.
pub fn why_without_state(url: &Url, options: &CrawlOptions) -> String {
    let url = stripped(url, Some(options));
    let scope = options.link_scope().ok();
    let outcome = match rejection(&url, scope.as_ref()) {
        Some(_) => format!("never admitted, {}", why_not_admitted(&url, Some(options), scope)),
        None => format!("not known, because {IN_MEMORY}"),
    };
    let url = without_credentials(&url).to_string();
    format!("{}\n  outcome: {}\n", printable(&url), printable(&outcome))
}

/// The URL without the query parameters that the crawl removes.
fn stripped(url: &Url, options: Option<&CrawlOptions>) -> Url {
    let mut url = url.clone();
    if let Some(strip_query) = options.and_then(|options| options.fetch.strip_query().ok()) {
        strip_query.strip_url(&mut url);
    }
    url
}

fn exit_code(result: Result<u8, Error>) -> u8 {
    result.unwrap_or_else(|error| {
        print_error(&with_hint(&error));
        status_of(&error)
    })
}

/// Whether a URL was a page, stored or not.
fn was_page(history: &UrlHistory) -> bool {
    let UrlStatus::Completed { outcome, .. } = &history.status else { return false };
    [Outcome::Page, Outcome::Unchanged].iter().any(|page| *outcome == page.label())
}

/// Why an admitted URL has no stored page.
fn why_not_stored(history: &UrlHistory, options: Option<&CrawlOptions>) -> String {
    match &history.status {
        UrlStatus::Pending => "it has not been fetched yet".into(),
        UrlStatus::Completed { outcome, is_temporary, .. } if !was_page(history) => {
            let hint = if *is_temporary { "; a later crawl may get it" } else { "" };
            format!("it is not a stored page; its outcome is: {outcome}{hint}")
        }
        UrlStatus::Completed { .. } if options.is_some_and(|options| options.no_content) => {
            "the crawl does not store page bodies (--no-content)".into()
        }
        UrlStatus::Completed { at, .. } => {
            let ttl =
                options.map_or_else(String::new, |options| format!(", --ttl {}", time_text(options.ttl)));
            // The type of the content is not known here.
            let or_other = match options.is_some_and(|options| !options.fetch.content.accept.is_empty()) {
                true => ", or is neither HTML nor text, whose bodies are not stored",
                false => "",
            };
            format!("its stored body has expired (fetched {}{ttl}){or_other}", date(*at))
        }
    }
}

/// The history of a URL, in lines, with the reason for which it waits.
fn describe(history: &UrlHistory, why: Option<String>, outputs: &[RecordedOutput]) -> Vec<String> {
    let mut lines = vec![history.url.clone()];
    match &history.status {
        UrlStatus::Pending => {
            lines.push("  outcome: pending".into());
            lines.extend(why.map(|why| format!("  waits: {why}")));
        }
        UrlStatus::Completed { outcome, at, page_number: Some(number), .. } => {
            let page =
                if *outcome == Outcome::Page.label() { "page".into() } else { format!("{outcome}, page") };
            lines.push(format!("  outcome: {page} {number}, {}", date(*at)));
            lines.extend(outputs.iter().filter_map(|output| output_location(output, *number)));
        }
        UrlStatus::Completed { outcome, at, page_number: None, is_temporary } => {
            lines.push(format!("  outcome: {outcome}, {}", date(*at)));
            if *is_temporary {
                lines.push("  temporary failure: a later request may succeed".into());
            }
        }
    }
    if let Some(visits) = history.visits.as_ref().filter(|visits| visits.visits > 1) {
        lines.push(format!(
            "  visits: visited {}, changed {}; version {}",
            counted(visits.visits.into(), "time"),
            counted(visits.changes.into(), "time"),
            number(visits.version.into())
        ));
        lines.extend(visits.earlier.as_ref().map(|outcome| format!("  before: {outcome}")));
    }
    lines.extend(history.lastmod.map(|time| format!("  lastmod: {}, by a sitemap", date(time))));
    if !history.found_on.is_empty() {
        lines.push(format!("  depth: {} from a seed", counted(history.depth.into(), "link")));
    }
    lines.extend(path(history));
    lines
}

/// How the crawl reached a URL, in words, from the URL to the seed.
fn path(history: &UrlHistory) -> Vec<String> {
    let UrlHistory { found_on, by_redirect, path_by_redirect, .. } = history;
    if found_on.is_empty() {
        return vec!["  reached: it is a seed".into()];
    }
    let is_sitemap = |url: &str| TaskKind::from_task_url(url) == TaskKind::Sitemap;
    let by_redirect = std::iter::once(by_redirect).chain(path_by_redirect);
    let mut steps: Vec<String> = found_on
        .iter()
        .zip(by_redirect)
        .enumerate()
        .map(|(index, (from, by_redirect))| {
            let is_of_sitemap = index.checked_sub(1).is_some_and(|before| is_sitemap(&found_on[before]));
            let words = match () {
                () if is_sitemap(from) && is_of_sitemap => "listed in the sitemap index",
                () if is_sitemap(from) => "listed in the sitemap",
                () if is_of_sitemap => "named in the robots.txt for",
                () if *by_redirect => "redirected to by",
                () => "found on",
            };
            let start = if index == 0 { "  reached: " } else { "    which was " };
            let end = if index + 1 == found_on.len() { ", a seed" } else { "," };
            format!("{start}{words} {}{end}", shown_url(from))
        })
        .collect();
    if steps.len() > MAX_PATH {
        let left_out = format!("    … {} more …", steps.len() - 2 * PATH_ENDS);
        steps.splice(PATH_ENDS..steps.len() - PATH_ENDS, [left_out]);
    }
    steps
}

/// Who links to a URL. `None` if that is not known.
fn linked_from(pages: Option<LinkingPages>) -> Vec<String> {
    let Some(LinkingPages { count, urls, read, has_unread }) = pages else {
        return vec![
            "  linked from: not known, because the crawl does not store page bodies (--no-content)".into(),
        ];
    };
    let of = match has_unread {
        true => format!("of the {} that were read", counted(read, "stored page")),
        false => format!("of {}", counted(read, "stored page")),
    };
    let mut lines = vec![match count {
        0 => format!("  linked from: none {of}"),
        count => format!("  linked from: {} {of}", number(count)),
    }];
    lines.extend(urls.iter().map(|url| format!("    {url}")));
    if let Some(more @ 1..) = count.checked_sub(urls.len() as u64) {
        lines.push(format!("    … and {} more", number(more)));
    }
    lines
}

/// Where an output has the page of this number, if it has it.
fn output_location(
    RecordedOutput { name, path, first_page, .. }: &RecordedOutput,
    number: u64,
) -> Option<String> {
    let earlier_pages = number.checked_sub(*first_page)?;
    match name.as_str() {
        "pages" => Some(format!("  output: file {}", path.join(number.to_string()).display())),
        "markdown" => Some(format!("  output: file {}", path.join(format!("{number}.md")).display())),
        "warc" => Some(format!("  output: a response in the archive {}", path.display())),
        "jsonl" | "extract" => Some(format!("  output: line {} of {}", earlier_pages + 1, path.display())),
        _ => None,
    }
}

/// Why a URL was never admitted, as far as the options of the crawl show.
fn why_not_admitted(url: &Url, options: Option<&CrawlOptions>, scope: Option<Scope>) -> String {
    let Some(reason) = rejection(url, scope.as_ref()) else {
        let depth = options.and_then(|options| options.max_depth);
        let except = depth.map_or_else(String::new, |depth| {
            format!(
                ", except possibly pages at depth {depth}, whose links are not followed (--max-depth {depth})"
            )
        });
        return format!("no crawled page has a link to it that is followed{except}");
    };
    let detail = match reason {
        RejectReason::External => {
            let has_lists = options.is_some_and(|options| !options.sources.seed_files.is_empty());
            let lists = if has_lists { " and its seed lists" } else { "" };
            scope.map_or_else(String::new, |scope| {
                format!(": the crawl is limited to {scope}{lists} (--scope)")
            })
        }
        RejectReason::Excluded => " (--include, --exclude)".into(),
        RejectReason::PrivateAddress => " (--allow-private)".into(),
        RejectReason::TooManySegments | RejectReason::RepeatedSegments => ", as in a crawler trap".into(),
        RejectReason::InvalidLink(BadLink::TooLong) => format!(", more than {} bytes", html::MAX_URL_BYTES),
        _ => String::new(),
    };
    format!("links to it are rejected: {reason}{detail}")
}

/// Why links to a URL are rejected, if they are.
fn rejection(url: &Url, scope: Option<&Scope>) -> Option<RejectReason> {
    match html::normalize(url.as_str()) {
        Err(bad) => Some(RejectReason::InvalidLink(bad)),
        Ok(url) => scope.and_then(|scope| scope.check(url.as_str()).err()),
    }
}

/// A time in UTC, to the second.
fn date(time: SystemTime) -> String {
    let text = rfc3339(time);
    match text.get(..19).and_then(|text| text.split_once('T')) {
        Some((date, time)) => format!("{date} {time} UTC"),
        None => text,
    }
}
