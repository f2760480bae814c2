//! What is said about going on with a crawl: before it is taken up again, and after it ended before its end.

use std::path::Path;

use crawler::internal::backend::{Budget, Snapshot};
use crawler::internal::pipeline::{CrawlEnd, CrawlReport, ResumeStatus};

use crate::args::{CrawlOptions, target};
use crate::summary::bytes;

/// What is said when a crawl begins that an earlier process had begun, and is not finished.
pub fn resuming(before: &Snapshot) -> Option<String> {
    let (pages, waiting) = (before.pages, before.outstanding());
    (before.admitted > 0 && waiting > 0)
        .then(|| format!("resuming: {}, {} waiting", kept(pages), counted(waiting, "URL")))
}

/// What is said about a user name and password that this process was not told.
pub fn without_credentials(hosts: &[String]) -> Option<String> {
    (!hosts.is_empty()).then(|| {
        format!(
            "the user name and password for {} were not written down, and the crawl goes on without them; give the \
             whole command again to go on with them",
            hosts.join(", ")
        )
    })
}

/// What is said at the end of a crawl whose state is kept, line by line: that it is finished, or how to go on.
pub fn at_the_end(options: &CrawlOptions, report: &CrawlReport) -> Vec<String> {
    match options.sharing.redis {
        Some(_) => shared(options, report),
        None => durable(options, report).into_iter().collect(),
    }
}

fn durable(options: &CrawlOptions, report: &CrawlReport) -> Option<String> {
    let directory = options.state.as_deref()?;
    let resume = format!("crawler resume {}", quoted(directory));
    let more = |option: &str, than: String| {
        Some(format!("to go on, raise {option}: {resume} {option} MORE (more than {than})"))
    };
    match report.end {
        CrawlEnd::Finished if report.resumed == ResumeStatus::AlreadyFinished => Some(format!(
            "the crawl in '{}' is finished: {}; nothing was done",
            directory.display(),
            counted(report.snapshot.pages, "page")
        )),
        CrawlEnd::Finished => None,
        CrawlEnd::Stopped => Some(format!("to go on: {resume}")),
        CrawlEnd::OutputFailed => {
            Some(format!("nothing is lost: see to it that the output can be written, then {resume}"))
        }
        CrawlEnd::LimitReached(Budget::Pages) => more("--max-pages", options.max_pages.to_string()),
        CrawlEnd::LimitReached(Budget::Bytes) => more("--max-bytes", bytes(options.max_bytes)),
        CrawlEnd::TimeLimit => more("--max-time", format!("{:?}", options.max_time.unwrap_or_default())),
    }
}

/// The same of a crawl that processes share: who goes on with it gives the command again.
fn shared(options: &CrawlOptions, report: &CrawlReport) -> Vec<String> {
    let name = &options.sharing.crawl;
    let pages = counted(report.snapshot.pages, "page");
    let again = |option: &str, than: String| {
        Some(format!("to go on, give the command again with a larger {option} (more than {than})"))
    };
    let onward = match report.end {
        CrawlEnd::Finished if report.resumed == ResumeStatus::AlreadyFinished => {
            Some(format!("the crawl '{name}' is finished: {pages}; nothing was done"))
        }
        CrawlEnd::Finished => None,
        CrawlEnd::Stopped => Some("to go on, give the command again".into()),
        CrawlEnd::OutputFailed => Some(
            "nothing is lost: see to it that the output can be written, then give the command again".into(),
        ),
        CrawlEnd::LimitReached(Budget::Pages) => again("--max-pages", options.max_pages.to_string()),
        CrawlEnd::LimitReached(Budget::Bytes) => again("--max-bytes", bytes(options.max_bytes)),
        CrawlEnd::TimeLimit => again("--max-time", format!("{:?}", options.max_time.unwrap_or_default())),
    };
    let outputs = options.module.iter().filter_map(|module| target(module));
    let collect = outputs
        .map(|path| format!("to make one of the workers' parts: crawler collect --of {}", quoted(&path)));
    onward.into_iter().chain(collect).collect()
}

fn kept(pages: u64) -> String {
    format!("{} kept", counted(pages, "page"))
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,".contains(c);
    if !path.is_empty() && path.chars().all(is_plain) {
        return path;
    }
    format!("'{}'", path.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_can_be_pasted_into_a_shell() {
        assert_eq!(quoted(Path::new("/tmp/state-1")), "/tmp/state-1");
        assert_eq!(quoted(Path::new("/tmp/my state")), "'/tmp/my state'");
        assert_eq!(quoted(Path::new("/it's/$HOME")), r"'/it'\''s/$HOME'");
    }
}
