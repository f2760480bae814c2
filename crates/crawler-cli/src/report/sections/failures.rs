//! Everything that failed, and the pages with broken links.

use std::collections::HashMap;

use super::overview::date_time;
use crate::format::{counted, number};
use crate::report::content::{FailedUrl, LinkSearchExtent, ReportContent};
use crate::report::document::{Block, Cell, Heading, Section, Table};
use crate::summary::Counts;

/// How many pages with broken links are listed.
const MAX_PAGES: usize = 1_000;

/// How many broken links of a page are listed.
const MAX_LINKS: usize = 20;

/// Of more failed URLs, each names only one page that links to it, so that the report stays small.
const MANY_FAILED: usize = 2_000;

/// The pages with links to URLs that failed, those with the most first.
pub fn broken_links(content: &ReportContent) -> Option<Section<'static>> {
    let mut pages: HashMap<&str, Vec<&FailedUrl>> = HashMap::new();
    for failed in &content.urls.failed.rows {
        let found_on = failed.found_on.iter().filter(|page| !failed.linked_from.rows.contains(page));
        for page in failed.linked_from.rows.iter().chain(found_on) {
            pages.entry(page).or_default().push(failed);
        }
    }
    if pages.is_empty() {
        return None;
    }
    let mut pages: Vec<(&str, Vec<&FailedUrl>)> = pages.into_iter().collect();
    pages.sort_by(|(a, a_links), (b, b_links)| b_links.len().cmp(&a_links.len()).then(a.cmp(b)));
    let total = pages.len() as u64;
    pages.truncate(MAX_PAGES);
    let mut section = Section::new("broken", "Broken links");
    let failed = &content.urls.failed;
    section.say(if failed.total > failed.rows.len() as u64 {
        format!("{} with links to the failed URLs that are listed below.", counted(total, "page"))
    } else {
        format!("{} with links to URLs that failed.", counted(total, "page"))
    });
    section.blocks.push(match content.urls.link_search {
        LinkSearchExtent::Complete => Block::Text(extent(content)),
        _ => Block::Warning(extent(content)),
    });
    let row = |(page, links): (&str, Vec<&FailedUrl>)| {
        let count = links.len();
        let urls = links.into_iter().take(MAX_LINKS).map(|failed| failed.url.clone()).collect();
        vec![
            Cell::Url(page.into()),
            Cell::Number(count as f64, number(count as u64)),
            Cell::Urls(urls, count as u64),
        ]
    };
    section.blocks.push(Block::Table(Table {
        id: "broken-table",
        noun: "page",
        columns: vec![Heading::wide("Page"), Heading::number("Broken links"), Heading::wide("Links to")],
        rows: pages.into_iter().map(row).collect(),
        total,
        choice: None,
    }));
    Some(section)
}

fn extent(content: &ReportContent) -> String {
    match content.urls.link_search {
        LinkSearchExtent::Complete => "All stored pages were searched for such links.".into(),
        LinkSearchExtent::Partial { searched, pages } => format!(
            "{} of {} were searched for such links: others may have them, too.",
            number(searched),
            counted(pages, "page")
        ),
        LinkSearchExtent::FirstPageOnly => {
            "Only the page is known on which each URL was found first: others may link to it, too.".into()
        }
    }
}

/// All URLs that failed.
pub fn failed(content: &ReportContent) -> Section<'static> {
    let failed = &content.urls.failed;
    let mut section = Section::new("failed", "Failed URLs");
    if failed.total == 0 {
        let counts = Counts::of_view(&content.view);
        section.say(match counts.failed() {
            0 => "None: no URL failed.".into(),
            count => {
                format!("{} failed: {}. They are not listed.", counted(count, "URL"), counts.failed_reasons())
            }
        });
        return section;
    }
    let temporary = Counts::of_view(&content.view).failed_temporarily;
    let mut sentence = format!("{} failed", counted(failed.total, "URL"));
    if failed.total > failed.rows.len() as u64 {
        sentence += &format!("; the first {} are listed", number(failed.rows.len() as u64));
    }
    if temporary > 0 {
        sentence += &format!(". {} failed temporarily", number(temporary));
        if content.can_resume {
            sentence += ": crawler resume DIR --retry-failed fetches them again";
        }
    }
    section.say(sentence + ".");
    let most_pages = if failed.rows.len() > MANY_FAILED { 1 } else { usize::MAX };
    let row = |failed: &FailedUrl| {
        let linked_from = match (&failed.found_on, failed.linked_from.rows.is_empty()) {
            (None, true) => Cell::Text("a seed".into()),
            (Some(page), true) => Cell::Url(page.clone()),
            (_, false) => {
                let pages = failed.linked_from.rows.iter().take(most_pages).cloned();
                Cell::Urls(pages.collect(), failed.linked_from.total)
            }
        };
        vec![
            Cell::Url(failed.url.clone()),
            Cell::Foreign(failed.outcome.clone()),
            Cell::Text(if failed.is_temporary { "yes".into() } else { "no".into() }),
            Cell::Text(failed.kind.into()),
            Cell::Number(failed.depth.into(), failed.depth.to_string()),
            failed.at.map_or(Cell::None, |at| Cell::Text(date_time(at))),
            linked_from,
        ]
    };
    section.blocks.push(Block::Table(Table {
        id: "failed-table",
        noun: "failed URL",
        columns: vec![
            Heading::wide("URL"),
            Heading::text("Outcome"),
            Heading::short("Temporary"),
            Heading::short("Kind"),
            Heading::number("Depth"),
            Heading::time("When"),
            Heading::wide("Linked from"),
        ],
        rows: failed.rows.iter().map(row).collect(),
        total: failed.total,
        choice: Some(1),
    }));
    section
}
