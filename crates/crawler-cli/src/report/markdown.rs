//! Writes a report as Markdown: the same sections, with tables and lists in place of charts.

use std::fmt::Write as _;

use crawler::internal::modules::markup::{markdown_code, markdown_link};

use super::content::{ReportContent, StructureNode};
use super::document::{Block, Cell, Chart, Numbers, Section, Series, Table};
use super::sections;
use crate::format::{counted, number};

/// The most bytes of one table.
const MAX_TABLE_BYTES: usize = 2_000_000;

/// How many URLs of a list in a cell are written.
const MAX_URLS: usize = 3;

/// How many levels of the structure are written, and the most entries of each.
const MAX_LEVELS: usize = 3;
const MAX_CHILDREN: usize = 20;

/// Steps from empty to full, for a series in one line.
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The length of a series in one line.
const MAX_STEPS: usize = 40;

/// The report as a Markdown document.
pub fn render(content: &ReportContent) -> String {
    let document = sections::document(content);
    let mut text = format!("# {}\n\n", document.title);
    if !document.subject.is_empty() {
        let subject: Vec<String> = document.subject.iter().map(inline).collect();
        let _ = writeln!(text, "{}\n", subject.join(" "));
    }
    for (name, value) in &document.facts {
        let _ = writeln!(text, "- **{name}:** {}", words(value));
    }
    for section in &document.sections {
        self::section(&mut text, section);
    }
    let _ = write!(text, "\n---\n\n{}\n", words(&document.footer));
    text
}

fn section(text: &mut String, section: &Section<'_>) {
    let _ = write!(text, "\n## {}\n", section.title);
    for block in &section.blocks {
        match block {
            Block::Text(sentence) => {
                let _ = write!(text, "\n{}\n", words(sentence));
            }
            Block::Warning(sentence) => {
                let _ = write!(text, "\n**{}**\n", words(sentence));
            }
            // The pairs after them say the same, with reasons.
            Block::Figures(_) | Block::Shares(_) => {}
            Block::Pairs(pairs) => self::pairs(text, pairs),
            Block::Charts(charts) => self::charts(text, charts),
            Block::Table(table) => self::table(text, table),
            Block::Structure(node) => {
                text.push('\n');
                structure(text, node, 0);
            }
        }
    }
}

fn pairs(text: &mut String, pairs: &[(String, Vec<Cell>)]) {
    let width = pairs.iter().map(|(_, cells)| cells.len()).max().unwrap_or(1);
    let is_counted = matches!(pairs.first().and_then(|(_, cells)| cells.first()), Some(Cell::Number(..)));
    let _ = write!(text, "\n| |{}\n", " |".repeat(width));
    let _ = writeln!(text, "|---|{}{}", if is_counted { "---:|" } else { "---|" }, "---|".repeat(width - 1));
    for (name, cells) in pairs {
        let name = if is_counted { name.clone() } else { in_table(&words(name)) };
        let mut row: Vec<String> = cells.iter().map(|cell| in_table(&inline(cell))).collect();
        row.resize(width, String::new());
        let _ = writeln!(text, "| {name} | {} |", row.join(" | "));
    }
}

fn charts(text: &mut String, charts: &[Chart]) {
    let mut series = charts.iter().filter_map(|chart| match &chart.numbers {
        Numbers::Series(series) => Some((chart, series)),
        _ => None,
    });
    if let Some(first) = series.next() {
        *text += "\n| | From start to end | Highest | Last |\n|---|---|---:|---:|\n";
        for (chart, series) in [first].into_iter().chain(series) {
            let mut values = series.points.iter().map(|(_, value)| *value);
            let (highest, last) = (values.clone().fold(0.0, f64::max), values.next_back().unwrap_or(0.0));
            let format = series.format;
            let line = sparkline(series);
            let _ = writeln!(text, "| {} | {line} | {} | {} |", chart.title, format(highest), format(last));
        }
    }
    for chart in charts {
        let rows: Vec<(String, String)> = match &chart.numbers {
            Numbers::Series(_) => continue,
            Numbers::Bars(bars) => {
                bars.iter().map(|bar| (markdown_code(&bar.label), bar.text.clone())).collect()
            }
            Numbers::Columns(columns) => columns
                .columns
                .iter()
                .filter(|column| column.count > 0)
                .map(|column| (column.range.clone(), number(column.count)))
                .collect(),
        };
        let _ = write!(text, "\n### {}\n", chart.title);
        if !chart.note.is_empty() {
            let _ = write!(text, "\n{}\n", words(&chart.note));
        }
        *text += "\n| | |\n|---|---:|\n";
        for (name, value) in rows {
            let _ = writeln!(text, "| {} | {value} |", in_table(&name));
        }
    }
}

/// A series in one line of blocks.
fn sparkline(series: &Series) -> String {
    let each = series.points.len().div_ceil(MAX_STEPS).max(1);
    let highest = series.points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let step = |points: &[(f64, f64)]| {
        let value = points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
        let part = if highest > 0.0 { value / highest } else { 0.0 };
        STEPS[((part * 8.0).ceil() as usize).clamp(1, 8) - 1]
    };
    series.points.chunks(each).map(step).collect()
}

fn table(text: &mut String, table: &Table) {
    text.push_str("\n|");
    for heading in &table.columns {
        let _ = write!(text, " {} |", heading.name);
    }
    text.push_str("\n|");
    for heading in &table.columns {
        text.push_str(if heading.is_numeric { "---:|" } else { "---|" });
    }
    text.push('\n');
    let (start, mut written) = (text.len(), 0);
    for row in &table.rows {
        if text.len() - start > MAX_TABLE_BYTES {
            break;
        }
        let cells: Vec<String> = row.iter().map(|cell| in_table(&inline(cell))).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
        written += 1;
    }
    let more = table.total.saturating_sub(written);
    if more > 0 {
        let _ = write!(text, "\n… and {} that are not listed.\n", number(more));
    }
}

fn structure(text: &mut String, node: &StructureNode, level: usize) {
    let indent = "  ".repeat(level);
    let (shown, hidden) = node.children.split_at(node.children.len().min(MAX_CHILDREN));
    for child in shown {
        let failed =
            if child.failed > 0 { format!(", {} failed", number(child.failed)) } else { String::new() };
        let (urls, pages) = (counted(child.urls, "URL"), counted(child.pages, "page"));
        let _ = writeln!(text, "{indent}- {}: {urls}, {pages}{failed}", markdown_code(&child.name));
        if level + 1 < MAX_LEVELS {
            structure(text, child, level + 1);
        }
    }
    let more = node.omitted.0.saturating_add(hidden.len() as u64);
    if more > 0 {
        let urls = hidden.iter().map(|child| child.urls).fold(node.omitted.1, u64::saturating_add);
        let _ = writeln!(text, "{indent}- … and {} more with {}", number(more), counted(urls, "URL"));
    }
}

/// A value in a line of text.
fn inline(cell: &Cell) -> String {
    match cell {
        Cell::None => "–".into(),
        Cell::Text(text) | Cell::Number(_, text) => words(text),
        Cell::Foreign(text) => markdown_code(text),
        Cell::Url(url) => markdown_link(url),
        Cell::Urls(urls, total) => {
            let mut listed: Vec<String> = urls.iter().take(MAX_URLS).map(|url| markdown_link(url)).collect();
            let more = total.saturating_sub(listed.len() as u64);
            if more > 0 {
                listed.push(format!("and {} more", number(more)));
            }
            listed.join(" ")
        }
    }
}

/// A sentence of this program, in which there may be words from the web.
fn words(text: &str) -> String {
    let text = crate::printable::printable(text);
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '~' | '&') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// A value between two bars of a table: bars end it, even in code and links.
fn in_table(text: &str) -> String {
    // Two backslashes before a bar do not escape it.
    text.replace("\\|", "\\ |").replace('|', "\\|")
}
