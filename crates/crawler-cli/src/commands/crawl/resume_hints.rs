//! Messages about resuming a crawl: when it resumes, and when it stopped with URLs pending.

use std::path::Path;

use crawler::internal::backend::SnapshotInternals as _;
use crawler::internal::backend::{Budget, Snapshot};
use crawler::internal::pipeline::CrawlReportInternals as _;
use crawler::internal::pipeline::{CrawlEnd, CrawlReport, ResumeStatus};

use crate::args::{CrawlOptions, output_path};
use crate::format::{bytes, counted, limit, number};
use crate::summary::Counts;

/// The message when a crawl resumes that an earlier process started.
pub fn resuming(before: &Snapshot) -> Option<String> {
    let (pages, pending) = (before.pages, before.pending());
    let (pages, urls) = (counted(pages, "page"), counted(pending, "URL"));
    let resuming = match before.visit() {
        0 | 1 => "resuming".to_owned(),
        visit if before.completed == 0 => {
            return (pending > 0).then(|| format!("visit {visit}: {urls} pending"));
        }
        visit => format!("resuming visit {visit}"),
    };
    (before.admitted > 0 && pending > 0).then(|| format!("{resuming}: {pages} so far, {urls} pending"))
}

/// The message about what differs from the options and seeds that the crawl had.
pub fn changes(now: &CrawlOptions, before: &CrawlOptions) -> Vec<String> {
    let mut messages = Vec::new();
    let options = now.changes_from(before);
    if !options.is_empty() {
        messages.push(format!("the crawl continues with changed options: {}", options.join(", ")));
    }
    if let Some(seeds @ 1..) = now.seeds.len().checked_sub(before.seeds.len()) {
        messages.push(format!("adding {}", counted(seeds as u64, "seed")));
    }
    messages
}

/// The warning about user names and passwords that are not in the state.
pub fn missing_credentials(hosts: &[String]) -> Option<String> {
    (!hosts.is_empty()).then(|| {
        format!(
            "the state does not contain the user name and password for {}, so the crawl continues without them; to use \
             them, run the full command again",
            hosts.join(", ")
        )
    })
}

/// The warning about options for logins that the crawl was started with and that are not given now.
pub fn missing_logins(options: &CrawlOptions) -> Option<String> {
    let missing = options.missing_logins();
    (!missing.is_empty()).then(|| {
        format!(
            "the crawl was started with {}, whose values are not stored; it continues without them; to use them, give \
             them again",
            missing.join(", ")
        )
    })
}

/// The messages at the end of a crawl that has a state: that it is finished, or how to resume it.
pub fn at_end(options: &CrawlOptions, report: &CrawlReport) -> Vec<String> {
    if options.distributed.redis.is_some() {
        let name = format!("crawl '{}'", options.distributed.crawl);
        let hint = hint(options, report, &name, |more| match more {
            None => "run the same command again".into(),
            Some(option) => format!("run the command again with a higher {option}"),
        });
        return hint.into_iter().chain(collect_hints(options)).collect();
    }
    let Some(directory) = options.state.as_deref() else { return Vec::new() };
    let name = format!("crawl in '{}'", directory.display());
    let resume = format!("crawler resume {}", quoted(directory));
    let hint = hint(options, report, &name, |more| match more {
        None => resume.clone(),
        Some(option) => format!("{resume} {option} N"),
    });
    let nothing_retried = (options.retry_failed && report.retried() == 0)
        .then(|| "no URL failed temporarily, so none is fetched again".to_owned());
    let temporary = Counts::of_ended(&report.snapshot).failed_temporarily;
    let retry = (temporary > 0 && report.end == CrawlEnd::Finished).then(|| {
        let (urls, them) = (counted(temporary, "URL"), if temporary == 1 { "it" } else { "them" });
        format!("{urls} failed temporarily; to fetch {them} again: {resume} --retry-failed")
    });
    hint.into_iter().chain(nothing_retried).chain(retry).collect()
}

/// How to resume the crawl of this name. `command` returns the command that resumes it, with a higher limit if one is
/// named.
fn hint(
    options: &CrawlOptions,
    report: &CrawlReport,
    name: &str,
    command: impl Fn(Option<&str>) -> String,
) -> Option<String> {
    let raise = |option: &str, now: String| {
        Some(format!("to continue, raise {option} (now {now}): {}", command(Some(option))))
    };
    match report.end {
        CrawlEnd::Finished
            if report.resumed == ResumeStatus::AlreadyFinished && options.recrawl.is_some() =>
        {
            Some(format!("nothing is due of the {name}"))
        }
        CrawlEnd::Finished if report.resumed == ResumeStatus::AlreadyFinished => Some(format!(
            "the {name} is already finished ({}); nothing to do",
            counted(report.snapshot.pages, "page")
        )),
        CrawlEnd::Finished => None,
        CrawlEnd::OutputFailed => {
            Some(format!("no page is lost; make the output writable, then resume: {}", command(None)))
        }
        CrawlEnd::ModuleFailed => Some(format!(
            "the pages that were not processed are pending; when the module works, resume: {}",
            command(None)
        )),
        CrawlEnd::LimitReached(Budget::Pages) => raise("--max-pages", number(options.max_pages)),
        CrawlEnd::LimitReached(Budget::Bytes) => raise("--max-bytes", bytes(options.max_bytes)),
        CrawlEnd::TimeLimit => raise("--max-time", limit(options.max_time.unwrap_or_default())),
        // Stopped.
        _ => Some(format!("to resume: {}", command(None))),
    }
}

/// How to merge the part files that the workers wrote.
fn collect_hints(options: &CrawlOptions) -> impl Iterator<Item = String> {
    let outputs = options.module.iter().filter_map(|module| output_path(module));
    outputs.map(|path| format!("to merge the workers' part files: crawler collect --of {}", quoted(&path)))
}

/// A path that can be pasted into a shell.
pub fn quoted(path: &Path) -> String {
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
    fn quoted_path_can_be_pasted_into_a_shell() {
        assert_eq!(quoted(Path::new("/tmp/state-1")), "/tmp/state-1");
        assert_eq!(quoted(Path::new("/tmp/my state")), "'/tmp/my state'");
        assert_eq!(quoted(Path::new("/it's/$HOME")), r"'/it'\''s/$HOME'");
    }
}
