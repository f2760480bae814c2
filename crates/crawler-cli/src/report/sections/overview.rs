//! The start of a report: seeds and options, the counts, the limits.

use std::time::SystemTime;

use crawler::OutcomeGroup;
use crawler::internal::crawl_view::CrawlPhase;
use crawler::internal::modules::timestamp::rfc3339;
use crawler::internal::outcome::group_of_label;

use super::percent;
use crate::format::{counted, elapsed, limit, number, rate, share_of_bytes};
use crate::live::remaining::Budgets;
use crate::report::content::ReportContent;
use crate::report::document::{Bar, Block, Cell, Chart, Figure, Numbers, Section, Share, Tone};
use crate::summary::{Counts, group_name};

/// How many seeds the head of the report names.
const HEAD_SEEDS: usize = 3;

/// The counts that are large figures.
const FIGURES: [(&str, Tone); 6] = [
    ("Pages", Tone::Good),
    ("Redirects", Tone::Info),
    ("Skipped", Tone::Warn),
    ("Failed", Tone::Bad),
    ("Not reached", Tone::Rest),
    ("Pending", Tone::Rest),
];

/// The seeds that the head names.
pub fn subject(content: &ReportContent) -> Vec<Cell> {
    let mut subject: Vec<Cell> = content.seeds.rows.iter().take(HEAD_SEEDS).cloned().map(Cell::Url).collect();
    let more = content.seeds.total.saturating_sub(subject.len() as u64);
    if more > 0 && !subject.is_empty() {
        subject.push(Cell::Text(format!("and {}", counted(more, "more seed"))));
    }
    subject
}

/// When the crawl ran, and for how long.
pub fn facts(content: &ReportContent) -> Vec<(&'static str, String)> {
    let view = &content.view;
    let mut facts = vec![("State", state(content))];
    if let Some(at) = view.statistics.started_at {
        facts.push(("Started", date_time(at)));
    }
    facts.push(("Crawl time", elapsed(view.elapsed)));
    facts.push(("Speed", rate(Counts::of_view(view).pages_per_second(view.elapsed))));
    facts
}

fn state(content: &ReportContent) -> String {
    match (&content.view.phase, &content.end) {
        (_, Some(end)) => capitalized(end),
        (CrawlPhase::Ended(end), None) => format!("Ended: {end}"),
        (phase, None) => capitalized(&format!("{phase}: the numbers are those of now")),
    }
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

pub fn footer(content: &ReportContent) -> String {
    format!("Written by crawler {} on {}.", content.version, date_time(content.written_at))
}

/// The counts of the summary at the end of a crawl.
pub fn summary(content: &ReportContent) -> Section<'static> {
    let counts = Counts::of_view(&content.view);
    let mut section = Section::new("summary", "Summary");
    let rows = counts.rows(content.view.elapsed);
    let figures = FIGURES.iter().filter_map(|(name, tone)| {
        let row = rows.iter().find(|row| row.name == *name)?;
        let detail = match *name {
            "Pages" => row.detail.clone(),
            _ => format!("{} of all URLs", percent(row.count, counts.admitted)),
        };
        Some(Figure { name, value: number(row.count), detail, tone: *tone })
    });
    let figures: Vec<Figure> = figures.collect();
    section.blocks.push(Block::Figures(figures));
    let shares = shares(content, &counts);
    if !shares.is_empty() {
        section.blocks.push(Block::Shares(shares));
    }
    let pairs = rows.into_iter().map(|row| {
        let mut cells = vec![Cell::Number(row.count as f64, number(row.count))];
        if !row.detail.is_empty() {
            cells.push(Cell::Text(row.detail));
        }
        (row.name.to_owned(), cells)
    });
    section.blocks.push(Block::Pairs(pairs.collect()));
    section
}

/// The groups of outcomes as parts of all URLs.
fn shares(content: &ReportContent, counts: &Counts) -> Vec<Share> {
    let mut shares: Vec<Share> = Vec::new();
    for (label, count) in &content.view.snapshot.outcomes {
        let (name, tone) = group(group_of_label(label));
        match shares.iter_mut().find(|share| share.name == name) {
            Some(share) => share.count += count,
            None => shares.push(Share { name, count: *count, tone }),
        }
    }
    let known: u64 = shares.iter().map(|share| share.count).sum();
    let rest = counts.admitted.saturating_sub(known);
    if rest > 0 {
        let name = if counts.pending > 0 { "Pending" } else { group_name(OutcomeGroup::NotReached) };
        match shares.iter_mut().find(|share| share.name == name) {
            Some(share) => share.count += rest,
            None => shares.push(Share { name, count: rest, tone: Tone::Rest }),
        }
    }
    shares.retain(|share| share.count > 0);
    let order = |name| FIGURES.iter().position(|(figure, _)| *figure == name).unwrap_or(FIGURES.len());
    shares.sort_by_key(|share| (order(share.name), share.name));
    shares
}

/// The name and the colour of a group of outcomes.
pub fn group(group: OutcomeGroup) -> (&'static str, Tone) {
    let name = group_name(group);
    let tone = FIGURES.iter().find(|(figure, _)| *figure == name).map_or(Tone::Rest, |(_, tone)| *tone);
    (name, tone)
}

/// The seeds, and the options that were given.
pub fn request(content: &ReportContent) -> Section<'static> {
    let mut section = Section::new("request", "Seeds and options");
    let seeds = content.seeds.rows.iter().cloned();
    let mut pairs = Vec::new();
    if content.seeds.total > 0 {
        let seeds = Cell::Urls(seeds.collect(), content.seeds.total);
        pairs.push((if content.seeds.total == 1 { "Seed".into() } else { "Seeds".into() }, vec![seeds]));
    }
    for (name, value) in &content.options {
        let value = if value.is_empty() { Cell::Text("on".into()) } else { Cell::Foreign(value.clone()) };
        pairs.push((name.clone(), vec![value]));
    }
    if content.options.is_empty() {
        section.say("No options were given: the crawl ran with the defaults.");
    }
    if !pairs.is_empty() {
        section.blocks.push(Block::Pairs(pairs));
    }
    section
}

/// How much of each limit was used.
pub fn budgets(content: &ReportContent) -> Option<Section<'static>> {
    let (view, counts) = (&content.view, Counts::of_view(&content.view));
    let limits = &view.limits;
    let mut bars = Vec::new();
    let mut bar = |label: &str, used: f64, budget: f64, text: String| {
        let part = if budget > 0.0 { (used / budget).min(1.0) } else { 1.0 };
        let tone = if part >= 1.0 { Tone::Warn } else { Tone::Plain };
        bars.push(Bar { label: label.into(), value: part, text, tone, mark: None, full: Some(1.0) });
    };
    if let Some(pages) = Budgets::from(limits).pages {
        let text = format!("{} of {}", number(counts.pages), number(pages));
        bar("Pages", counts.pages as f64, pages as f64, text);
    }
    if let Some(budget) = Budgets::from(limits).bytes {
        let used = counts.budgeted_bytes();
        bar("Data", used as f64, budget as f64, share_of_bytes(used, budget));
    }
    if let Some(time) = limits.max_time {
        let text = format!("{} of {}", elapsed(view.elapsed), limit(time));
        bar("Crawl time", view.elapsed.as_secs_f64(), time.as_secs_f64(), text);
    }
    let deepest = view.statistics.depths.iter().rposition(|pages| *pages > 0);
    if let Some(depth) = limits.max_depth {
        let text = format!("{} of {}", number(deepest.unwrap_or(0) as u64), number(depth.into()));
        bar("Depth", deepest.unwrap_or(0) as f64, f64::from(depth), text);
    }
    let mut section = Section::new("limits", "Limits");
    let unlimited: Vec<&str> = [
        ("pages", Budgets::from(limits).pages.is_none()),
        ("data", Budgets::from(limits).bytes.is_none()),
        ("time", limits.max_time.is_none()),
        ("depth", limits.max_depth.is_none()),
    ]
    .into_iter()
    .filter_map(|(name, is_unlimited)| is_unlimited.then_some(name))
    .collect();
    if !unlimited.is_empty() {
        section.say(format!("No limit was set for {}.", listing(&unlimited)));
    }
    if !bars.is_empty() {
        let used: Vec<&str> =
            bars.iter().filter(|bar| bar.value >= 1.0).map(|bar| bar.label.as_str()).collect();
        let note = match used.is_empty() {
            true => "No limit was reached.".into(),
            false => format!("Reached: {}.", listing(&used)),
        };
        let numbers = Numbers::Bars(bars);
        section.draw(vec![Chart { title: "Used of each limit".into(), note, numbers }]);
    }
    Some(section)
}

/// Names in a sentence.
fn listing(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A time in UTC: `2026-11-05 06:07:08 UTC`.
pub fn date_time(at: SystemTime) -> String {
    let text = rfc3339(at);
    let (date, time) = text.split_once('T').unwrap_or((&text, ""));
    format!("{date} {} UTC", time.get(..8).unwrap_or_default())
}
