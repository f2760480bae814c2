//! `crawler diff DIR`: what has changed between the last two visits of a crawl.

use std::io::{self, Write};

use crawler::internal::backend::SnapshotInternals as _;
use crawler::internal::backend::durable::{Change, StateReader, VisitedUrl};
use crawler::internal::modules::timestamp::rfc3339;
use serde_json::json;

use crate::EXIT_USAGE;
use crate::args::{DiffArgs, DiffFormat};
use crate::commands::with_hint;
use crate::format::number;
use crate::printable::{print_error, printable};

/// The exit status if there are differences and --exit-code is given.
const EXIT_DIFFERENT: u8 = 1;

/// The groups of changes that are listed, in this order.
const GROUPS: [Group; 5] = [Group::New, Group::Changed, Group::Gone, Group::Moved, Group::Failed];

/// A group of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    New,
    Changed,
    Gone,
    Moved,
    Failed,
    Unchanged,
    NotVisited,
}

impl Group {
    fn from_change(change: &Change) -> Group {
        match change {
            Change::New => Group::New,
            Change::Changed { .. } => Group::Changed,
            Change::Gone => Group::Gone,
            Change::Moved { .. } => Group::Moved,
            Change::Failed => Group::Failed,
            Change::Unchanged => Group::Unchanged,
            Change::NotVisited => Group::NotVisited,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Group::New => "new",
            Group::Changed => "changed",
            Group::Gone => "gone",
            Group::Moved => "moved",
            Group::Failed => "failed",
            Group::Unchanged => "unchanged",
            Group::NotVisited => "not visited",
        }
    }
}

/// How many URLs each group has.
#[derive(Default)]
struct GroupCounts([u64; 7]);

impl GroupCounts {
    fn add(&mut self, url: &VisitedUrl) {
        self.0[Group::from_change(&url.change) as usize] += 1;
    }

    fn of(&self, group: Group) -> u64 {
        self.0[group as usize]
    }

    fn has_differences(&self) -> bool {
        GROUPS.iter().any(|group| self.of(*group) > 0)
    }
}

/// Runs the command and returns the exit status.
pub fn run(diff: &DiffArgs) -> u8 {
    match print(diff) {
        Ok(counts) if diff.exit_code && counts.has_differences() => EXIT_DIFFERENT,
        Ok(_) => 0,
        Err(error) => {
            print_error(&error);
            EXIT_USAGE
        }
    }
}

fn print(diff: &DiffArgs) -> Result<GroupCounts, String> {
    let mut state = StateReader::open(&diff.directory).map_err(|error| with_hint(&error))?;
    let status = state.status().map_err(|error| with_hint(&error))?;
    let visit = status.snapshot.visit();
    let mut counts = GroupCounts::default();
    each(&mut state, visit, |url| {
        counts.add(url);
        Ok(())
    })?;
    let visited_once = visit == 1
        && [Group::Changed, Group::Gone, Group::Moved, Group::Failed, Group::Unchanged]
            .iter()
            .all(|group| counts.of(*group) == 0);
    if visited_once {
        return Err(format!(
            "cannot compare the visits of the crawl in '{}': there is only one; visit its URLs again with: crawler recrawl {}",
            diff.directory.display(),
            crate::commands::crawl::resume_hints::quoted(&diff.directory)
        ));
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written = match diff.format {
        DiffFormat::Text => print_text(&mut out, &mut state, visit, &counts),
        DiffFormat::Json => print_json(&mut out, &mut state, visit, &counts),
    };
    written?;
    out.flush().or_else(closed_early).map_err(|error| not_printed(&error))?;
    Ok(counts)
}

/// Calls a function with each URL that is or was a page.
fn each(
    state: &mut StateReader,
    visit: u32,
    mut call: impl FnMut(&VisitedUrl) -> io::Result<()>,
) -> Result<(), String> {
    let mut result = Ok(());
    let read = state.each_visited_url(visit, |url| {
        if result.is_ok() {
            result = call(&url);
        }
    });
    read.map_err(|error| with_hint(&error))?;
    result.or_else(closed_early).map_err(|error| not_printed(&error))
}

/// The URLs by group, and the numbers. The state is read once for each group, so that no list of URLs is in memory.
fn print_text(
    out: &mut impl Write,
    state: &mut StateReader,
    visit: u32,
    counts: &GroupCounts,
) -> Result<(), String> {
    for group in GROUPS.into_iter().filter(|group| counts.of(*group) > 0) {
        let name = group.name();
        let heading = format!("{}{} ({})\n", name[..1].to_uppercase(), &name[1..], number(counts.of(group)));
        out.write_all(heading.as_bytes()).or_else(closed_early).map_err(|error| not_printed(&error))?;
        each(state, visit, |url| match Group::from_change(&url.change) == group {
            true => writeln!(out, "{}", line(url)),
            false => Ok(()),
        })?;
        writeln!(out).or_else(closed_early).map_err(|error| not_printed(&error))?;
    }
    let all = GROUPS.into_iter().chain([Group::Unchanged, Group::NotVisited]);
    let parts: Vec<String> = all
        .filter(|group| counts.of(*group) > 0 || *group == Group::Unchanged)
        .map(|group| format!("{} {}", number(counts.of(group)), group.name()))
        .collect();
    writeln!(out, "Visit {visit}: {}", parts.join(" · "))
        .or_else(closed_early)
        .map_err(|error| not_printed(&error))
}

fn line(url: &VisitedUrl) -> String {
    let shown = printable(&url.url);
    match &url.change {
        Change::Changed { similarity: Some(percent) } => format!("  {percent:>3} % similar  {shown}"),
        Change::Changed { similarity: None } => format!("  {:13}  {shown}", "changed"),
        Change::Gone | Change::Failed => format!("  {:<13}  {shown}", printable(&url.outcome)),
        Change::Moved { to } => format!("  {shown} → {}", printable(to)),
        _ => format!("  {shown}"),
    }
}

/// An object for each difference, and one with the numbers.
fn print_json(
    out: &mut impl Write,
    state: &mut StateReader,
    visit: u32,
    counts: &GroupCounts,
) -> Result<(), String> {
    each(state, visit, |url| {
        let group = Group::from_change(&url.change);
        if !GROUPS.contains(&group) {
            return Ok(());
        }
        let (similarity, to) = match &url.change {
            Change::Changed { similarity } => (*similarity, None),
            Change::Moved { to } => (None, Some(to.as_str())),
            _ => (None, None),
        };
        let object = json!({
            "change": group.name(),
            "url": url.url,
            "similarity": similarity,
            "to": to,
            "outcome": url.outcome,
            "version": url.version,
            "visited": rfc3339(url.at),
        });
        writeln!(out, "{object}")
    })?;
    let count = |group| counts.of(group);
    let object = json!({
        "visit": visit,
        "new": count(Group::New),
        "changed": count(Group::Changed),
        "gone": count(Group::Gone),
        "moved": count(Group::Moved),
        "failed": count(Group::Failed),
        "unchanged": count(Group::Unchanged),
        "not_visited": count(Group::NotVisited),
    });
    writeln!(out, "{object}").or_else(closed_early).map_err(|error| not_printed(&error))
}

/// A reader such as `head` may close the pipe before all is printed.
fn closed_early(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) }
}

fn not_printed(error: &io::Error) -> String {
    format!("cannot write to standard output: {error}")
}
