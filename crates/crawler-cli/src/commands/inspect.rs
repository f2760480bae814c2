//! Looks into a crawl's state: `crawler show` prints a stored page, `crawler why` tells what became of a URL.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::SystemTime;

use crawler::internal::backend::durable::{UrlHistory, UrlStatus};
use crawler::internal::backend::redis::RedisStateReader;
use crawler::internal::distributed::remote::RemoteCrawl;
use crawler::internal::html::{self, BadLink};
use crawler::internal::modules::timestamp::rfc3339;
use crawler::internal::origin::without_credentials;
use crawler::internal::scope::RejectReason;
use crawler::{Error, Outcome, StateReader};
use url::Url;

use crate::EXIT_FAILED;
use crate::args::{CrawlOptions, Source, UrlQuery, target};
use crate::commands::crawl::saved_options::SavedOptions;
use crate::commands::crawl::status_of;
use crate::printable::{is_printed, print_error, print_stdout, printable};

/// More pages than this on the way to a seed are not all named.
const LONGEST_WAY: usize = 8;

/// Of a longer way, so many are named at either end.
const ENDS_OF_WAY: usize = 3;

/// A crawl that is looked at.
enum Crawl {
    StateReader(Box<StateReader>),
    Shared(RedisStateReader),
}

impl Crawl {
    /// The crawl, and what it was told, as far as this command knows: a program that uses the library notes what it likes.
    async fn open(source: &Source) -> Result<(Crawl, Option<CrawlOptions>), Error> {
        match source {
            Source::State(directory) => {
                let stored = StateReader::open(directory)?;
                let note = stored.metadata()?;
                let options = SavedOptions::read(&note, directory.display()).ok();
                Ok((Crawl::StateReader(Box::new(stored)), options))
            }
            Source::Redis(sharing) => {
                let note = RemoteCrawl::info(sharing).await?.map(|begun| begun.note).unwrap_or_default();
                let options = SavedOptions::read(&note, &sharing.redis.crawl).ok();
                Ok((Crawl::Shared(RedisStateReader::open(sharing.redis.clone()).await?), options))
            }
        }
    }

    async fn content(&mut self, url: &Url) -> Result<Option<Vec<u8>>, Error> {
        match self {
            Crawl::StateReader(stored) => stored.content(url),
            Crawl::Shared(stored) => Ok(stored.content(url).await?),
        }
    }

    async fn why(&mut self, url: &Url) -> Result<Option<UrlHistory>, Error> {
        match self {
            Crawl::StateReader(stored) => stored.history(url),
            Crawl::Shared(stored) => Ok(stored.why(url).await?),
        }
    }
}

/// Prints a stored page as it was served, and returns the exit status.
pub async fn show(look: &UrlQuery) -> u8 {
    exit_code(try_show(look).await)
}

async fn try_show(UrlQuery { url, source }: &UrlQuery) -> Result<u8, Error> {
    let (mut crawl, options) = Crawl::open(source).await?;
    if let Some(body) = crawl.content(url).await? {
        let mut out = io::stdout();
        let printed = is_printed(out.write_all(&body).and_then(|()| out.flush()));
        return Ok(if printed { 0 } else { EXIT_FAILED });
    }
    let reason = match crawl.why(url).await? {
        Some(why) => not_stored(&why, options.as_ref()),
        None => never_admitted(url, options.as_ref()),
    };
    print_error(&format!("{} is not stored: {reason}", without_credentials(url)));
    Ok(EXIT_FAILED)
}

/// Tells what became of a URL, and returns the exit status.
pub async fn why(look: &UrlQuery) -> u8 {
    exit_code(try_why(look).await)
}

async fn try_why(UrlQuery { url, source }: &UrlQuery) -> Result<u8, Error> {
    let (mut crawl, options) = Crawl::open(source).await?;
    let (lines, status) = match crawl.why(url).await? {
        Some(why) => {
            // Where a page is among the parts of several workers is told by collecting them.
            let modules = match source {
                Source::State(_) => options.as_ref().map_or(&[][..], |options| &options.module),
                Source::Redis(_) => &[],
            };
            (describe(&why, modules), 0)
        }
        None => {
            let reason = never_admitted(url, options.as_ref());
            let url = without_credentials(url).to_string();
            (vec![url, format!("  never admitted: {reason}")], EXIT_FAILED)
        }
    };
    let text: String = lines.iter().map(|line| format!("{}\n", printable(line))).collect();
    Ok(if print_stdout(&text) { status } else { EXIT_FAILED })
}

fn exit_code(answer: Result<u8, Error>) -> u8 {
    answer.unwrap_or_else(|error| {
        print_error(&error.to_string());
        status_of(&error)
    })
}

/// Why a URL that was admitted has no stored page.
fn not_stored(why: &UrlHistory, options: Option<&CrawlOptions>) -> String {
    match &why.status {
        UrlStatus::Pending => "it was not visited yet".into(),
        UrlStatus::Completed { outcome, .. } if outcome != Outcome::Page.label() => outcome.clone(),
        UrlStatus::Completed { .. } if options.is_some_and(|options| options.no_content) => {
            "it was kept, but the crawl stores no pages (--no-content)".into()
        }
        UrlStatus::Completed { at, .. } => {
            let ttl = options.map_or_else(String::new, |options| format!(" ({:?})", options.ttl));
            format!("it was kept {}, and stored for as long as --ttl says{ttl}", moment(*at))
        }
    }
}

/// What became of a URL, in lines.
fn describe(why: &UrlHistory, modules: &[String]) -> Vec<String> {
    let mut lines = vec![why.url.clone()];
    match &why.status {
        UrlStatus::Pending => lines.push("  waiting to be visited".into()),
        UrlStatus::Completed { outcome, at, page_number: Some(document) } => {
            lines.push(format!("  {outcome} as page {document} {}", moment(*at)));
            lines.extend(modules.iter().filter_map(|module| place(module, *document)));
        }
        UrlStatus::Completed { outcome, at, page_number: None } => {
            lines.push(format!("  {outcome} {}", moment(*at)));
        }
    }
    lines.push(match why.depth {
        0 if why.found_on.is_empty() => "  a seed".into(),
        0 => "  in place of a seed".into(),
        1 => "  1 hop from a seed".into(),
        depth => format!("  {depth} hops from a seed"),
    });
    lines.extend(discovery_path(why));
    lines
}

/// How the crawl came to a URL, the nearest page first.
fn discovery_path(why: &UrlHistory) -> Vec<String> {
    let pages = &why.found_on;
    let mut lines: Vec<String> = pages
        .iter()
        .enumerate()
        .map(|(index, page)| match index {
            0 if why.by_redirect => format!("  redirected to by {page}"),
            _ => format!("  found on {page}"),
        })
        .collect();
    if lines.len() > LONGEST_WAY {
        let left_out = format!("  … {} more …", lines.len() - 2 * ENDS_OF_WAY);
        lines.splice(ENDS_OF_WAY..lines.len() - ENDS_OF_WAY, [left_out]);
    }
    lines
}

/// Where a module put a page.
fn place(module: &str, document: u64) -> Option<String> {
    let path: PathBuf = target(module)?;
    match module.split('=').next()? {
        "pages" => Some(format!("  in the file {}", path.join(document.to_string()).display())),
        "jsonl" => Some(format!("  in line {document} of {}", path.display())),
        _ => None,
    }
}

/// Why a URL was never admitted, as far as that can be told from what the crawl was told.
fn never_admitted(url: &Url, options: Option<&CrawlOptions>) -> String {
    let refused = match html::normalize(url.as_str()) {
        Err(bad) => Some(RejectReason::InvalidLink(bad)),
        Ok(url) => {
            let bounds = options.and_then(|options| options.bounds().ok());
            bounds.and_then(|bounds| bounds.check(url.as_str()).err())
        }
    };
    let Some(refusal) = refused else {
        let depth = options.and_then(|options| options.max_depth);
        let deep = depth.map_or_else(String::new, |depth| {
            format!(", unless one at depth {depth}, where links are not followed (--max-depth {depth})")
        });
        return format!("no page that was kept links to it{deep}");
    };
    let detail = match refusal {
        RejectReason::External => {
            let scope = options.and_then(|options| options.bounds().ok());
            scope.map_or_else(String::new, |scope| {
                format!(": the crawl stays in {} (--scope)", scope.describe())
            })
        }
        RejectReason::Excluded => " (--include, --exclude)".into(),
        RejectReason::PrivateAddress => " (--allow-private)".into(),
        RejectReason::TooManySegments | RejectReason::RepeatedSegments => ", as only traps have".into(),
        RejectReason::InvalidLink(BadLink::TooLong) => format!(", more than {} bytes", html::MAX_URL_BYTES),
        RejectReason::InvalidLink(_) => String::new(),
    };
    format!("such links are not followed: {refusal}{detail}")
}

/// A moment, to the second.
fn moment(time: SystemTime) -> String {
    let text = rfc3339(time);
    match text.get(..19).and_then(|text| text.split_once('T')) {
        Some((date, time)) => format!("on {date} at {time} UTC"),
        None => text,
    }
}
