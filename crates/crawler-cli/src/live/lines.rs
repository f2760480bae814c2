//! Arranges what there is to say about a crawl in the lines of a terminal, or in one plain line.

use std::borrow::Cow;

use super::layout::{SEPARATOR, fitted, joined, shortened, shortened_in_the_middle, width};
use super::screen::{self, Size, Style, StyledLine};
use super::status::{Fetched, LiveStatus, Waiting};
use crate::format::counted;
use crate::printable::printable;

/// The most lines of each kind.
const MAX_WARNINGS: usize = 3;
const MAX_WAITING: usize = 5;
const MAX_FETCHED: usize = 3;

/// The width of the names before the lines.
const NAME_WIDTH: usize = 9;

/// In fewer columns, names have lines of their own, and what they name is indented by `INDENTATION`.
const MIN_WIDTH_FOR_NAMES: usize = 50;
const INDENTATION: usize = 2;

/// The least columns for which the number of waiting URLs is shown.
const MIN_TABLE_WIDTH: usize = 60;

/// Rows of the terminal that are left to the output above the lines.
const ROWS_ABOVE: usize = 4;

/// A plain line names this many hosts.
const MAX_PLAIN_HOSTS: usize = 2;

impl LiveStatus {
    /// The lines for a terminal of this size; with the queues if `is_verbose`.
    pub fn lines(&self, size: Size, is_verbose: bool) -> Vec<StyledLine> {
        let columns = size.columns;
        let mut lines = vec![
            (Style::Strong, fitted(self.headline(), columns)),
            (Style::Plain, fitted(self.counts(), columns)),
        ];
        lines.extend(warnings(&self.warnings, columns));
        if is_verbose {
            let queues = self.queues.iter().map(|(name, text)| named(name, 0, text));
            lines.extend(queues.map(|line| (Style::Plain, shortened(&line, columns).into_owned())));
        }
        let names = usize::from(is_narrow(columns));
        let mut room = size.rows.saturating_sub(lines.len() + ROWS_ABOVE + 2 * names);
        let fetched =
            self.latest.len().min(MAX_FETCHED).min(room.saturating_sub(self.waiting.len()).max(room / 3));
        room -= fetched;
        let shown = self.waiting.len().min(MAX_WAITING).min(room);
        let waiting = block("Waiting", waiting(&self.waiting[..shown], columns), columns);
        lines.extend(waiting.into_iter().map(|line| (Style::Plain, line)));
        let latest = self.latest[..fetched].iter().map(|url| fetched_line(url, room_for_text(columns)));
        lines.extend(block("Fetched", latest, columns).into_iter().map(|line| (Style::Faint, line)));
        lines.into_iter().map(|(style, line)| (style, shortened(&line, columns).into_owned())).collect()
    }

    /// The lines as text, as they are printed once.
    pub fn text(&self, is_verbose: bool) -> String {
        let size = Size { columns: screen::stdout_columns(), rows: usize::MAX };
        self.lines(size, is_verbose)
            .into_iter()
            .map(|(_, line)| printable(&line).into_owned() + "\n")
            .collect()
    }

    /// Everything in one line.
    pub fn plain_line(&self, is_verbose: bool) -> String {
        let mut parts = vec![joined(&self.headline()), joined(&self.counts())];
        if !self.waiting.is_empty() {
            let hosts = self.waiting.iter().take(MAX_PLAIN_HOSTS);
            let hosts: Vec<String> = hosts.map(|host| format!("{} ({})", host.host, host.why)).collect();
            parts.push(format!("waiting: {}", hosts.join(", ")));
        }
        if is_verbose {
            parts.extend(self.queues.iter().map(|(name, text)| format!("{name}: {text}")));
        }
        parts.join("; ")
    }
}

fn is_narrow(columns: usize) -> bool {
    columns < MIN_WIDTH_FOR_NAMES
}

/// What the name of a kind of lines leaves to them.
fn room_for_text(columns: usize) -> usize {
    columns.saturating_sub(if is_narrow(columns) { INDENTATION } else { NAME_WIDTH })
}

/// Lines of one kind, with its name before the first or above it.
fn block(name: &str, texts: impl Iterator<Item = String>, columns: usize) -> Vec<String> {
    if !is_narrow(columns) {
        return texts.enumerate().map(|(index, text)| named(name, index, &text)).collect();
    }
    let mut lines: Vec<String> = texts.map(|text| format!("{:INDENTATION$}{text}", "")).collect();
    if !lines.is_empty() {
        lines.insert(0, format!("{name}:"));
    }
    lines
}

/// A line with the name of its kind, which only the first line of the kind has.
fn named(name: &str, index: usize, text: &str) -> String {
    let name = if index == 0 { format!("{name}:") } else { String::new() };
    format!("{name:<NAME_WIDTH$}{text}")
}

fn warnings(warnings: &[String], columns: usize) -> impl Iterator<Item = StyledLine> {
    let hidden = warnings.len().saturating_sub(MAX_WARNINGS);
    let shown = if hidden > 0 { MAX_WARNINGS - 1 } else { warnings.len() };
    let more = (hidden > 0).then(|| format!("and {}", counted(hidden as u64 + 1, "more warning")));
    let lines = warnings[..shown].iter().cloned().chain(more);
    lines.map(move |line| (Style::Warning, shortened(&format!("! {line}"), columns).into_owned()))
}

/// The hosts that hold the crawl up, as a table.
fn waiting(hosts: &[Waiting], columns: usize) -> impl Iterator<Item = String> {
    let room = room_for_text(columns);
    let has_counts = columns >= MIN_TABLE_WIDTH;
    let urls = |host: &Waiting| match host.urls {
        0 => String::new(),
        urls => counted(urls, "URL"),
    };
    let urls_width = hosts.iter().map(|host| urls(host).len()).max().unwrap_or(0);
    let host_width = hosts.iter().map(|host| width(&host.host)).max().unwrap_or(0);
    let why_width = hosts.iter().map(|host| width(&host.why)).max().unwrap_or(0);
    let counts_width = if has_counts && urls_width > 0 { urls_width + 2 } else { 0 };
    // A long reason leaves the host at least a third of the line, or half of a short one.
    let min_width = room / if is_narrow(columns) { 2 } else { 3 };
    let host_width = host_width.min(room.saturating_sub(counts_width + 2 + why_width).max(min_width));
    hosts.iter().map(move |host| {
        let name = shortened_in_the_middle(&host.host, host_width);
        let padding = " ".repeat(host_width - width(&name).min(host_width));
        let urls = if counts_width > 0 { format!("  {:>urls_width$}", urls(host)) } else { String::new() };
        let text = format!("{name}{padding}{urls}  {}", host.why);
        shortened(&text, room).into_owned()
    })
}

/// A URL that was fetched, in this many columns.
fn fetched_line(fetched: &Fetched, columns: usize) -> String {
    let Fetched { url, outcome, measures } = fetched;
    let full: Vec<&str> = outcome.iter().map(String::as_str).chain([measures.as_str()]).collect();
    // At least half of the line is the URL's.
    let details = [full.join(SEPARATOR), outcome.clone().unwrap_or_default()];
    let detail = details.iter().find(|detail| width(detail) + 2 <= columns / 2);
    match detail.filter(|detail| !detail.is_empty()) {
        Some(detail) => format!("{}  {detail}", shortened_url(url, columns - width(detail) - 2)),
        None => shortened_url(url, columns).into_owned(),
    }
}

/// A URL in this many columns. The scheme says least.
fn shortened_url(url: &str, columns: usize) -> Cow<'_, str> {
    match url.split_once("://") {
        Some((_, rest)) if width(url) > columns => shortened_in_the_middle(rest, columns),
        _ => shortened_in_the_middle(url, columns),
    }
}
