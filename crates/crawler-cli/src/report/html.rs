//! Writes a report as one HTML file that needs no other, works without its script, and prints well.

mod charts;
mod structure;
mod table;

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crawler::internal::modules::markup::{escaped, is_web_url};
use ring::digest::{SHA256, digest};

use super::content::ReportContent;
use super::document::{Block, Cell, Document, Figure, Section, Share, Tone};
use super::sections;
use crate::format::{counted, number};

const STYLE: &str = concat!(include_str!("../dashboard/page/theme.css"), include_str!("assets/style.css"));
const SCRIPT: &str = include_str!("assets/script.js");

/// The longest URL that is a link, in bytes. Longer ones are shortened texts, so that the file stays small.
const MAX_LINK_BYTES: usize = 2_100;

/// The longest text that is shown whole, in characters.
const MAX_SHOWN: usize = 240;

/// How many characters of a longer one are shown at its end.
const SHOWN_END: usize = 40;

/// How many URLs of a list are shown before the reader opens the others.
const OPEN_URLS: usize = 3;

/// The report as an HTML document.
pub fn render(content: &ReportContent) -> String {
    let document = sections::document(content);
    let mut html = String::new();
    head(&mut html, &document);
    for section in &document.sections {
        self::section(&mut html, section);
    }
    html += "</main>\n<footer>";
    html += &escaped(&document.footer);
    html += "</footer>\n<script>";
    html += SCRIPT;
    html += "</script>\n</body>\n</html>\n";
    html
}

/// The source of a script or style sheet in the document, for its Content-Security-Policy.
fn hash(source: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(digest(&SHA256, source.as_bytes())))
}

fn head(html: &mut String, document: &Document<'_>) {
    let policy = format!(
        "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    );
    let subject = document.subject.first().map(|cell| match cell {
        Cell::Url(url) => format!(" – {}", escaped(&shortened(url))),
        _ => String::new(),
    });
    let title = format!("{}{}", escaped(&document.title), subject.unwrap_or_default());
    let _ = write!(
        html,
        r##"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="robots" content="noindex">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<a class="skip" href="#summary">Skip to the summary</a>
<header>
<h1>{}</h1>
"##,
        escaped(&document.title)
    );
    if !document.subject.is_empty() {
        let subject: Vec<String> = document.subject.iter().map(cell).collect();
        let _ = writeln!(html, r#"<p class="subject">{}</p>"#, subject.join(" "));
    }
    *html += "<dl class=\"facts\">";
    for (name, value) in &document.facts {
        let _ = write!(html, "<div><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(&shortened(value)));
    }
    *html += "</dl>\n</header>\n<nav aria-label=\"Contents\"><ul>";
    for section in &document.sections {
        let _ = write!(html, r##"<li><a href="#{}">{}</a></li>"##, section.id, escaped(section.title));
    }
    *html += "</ul></nav>\n<main>\n";
}

fn section(html: &mut String, section: &Section<'_>) {
    let id = section.id;
    let _ = writeln!(
        html,
        r#"<section id="{id}" aria-labelledby="{id}-title"><h2 id="{id}-title">{}</h2>"#,
        escaped(section.title)
    );
    for part in &section.blocks {
        block(html, part);
    }
    *html += "</section>\n";
}

fn block(html: &mut String, block: &Block<'_>) {
    match block {
        Block::Text(text) => paragraph(html, "lead", text),
        Block::Warning(text) => paragraph(html, "warning", text),
        Block::Figures(figures) => self::figures(html, figures),
        Block::Shares(shares) => self::shares(html, shares),
        Block::Pairs(pairs) => self::pairs(html, pairs),
        Block::Charts(charts) => {
            *html += "<div class=\"charts\">\n";
            charts.iter().for_each(|chart| charts::write(html, chart));
            *html += "</div>\n";
        }
        Block::Table(table) => table::write(html, table),
        Block::Structure(node) => structure::write(html, node),
    }
}

fn paragraph(html: &mut String, class: &str, text: &str) {
    let _ = writeln!(html, r#"<p class="{class}">{}</p>"#, escaped(text));
}

fn figures(html: &mut String, figures: &[Figure]) {
    *html += "<ul class=\"figures\">";
    for figure in figures {
        let _ = write!(
            html,
            r#"<li class="{}"><span class="name">{}</span> <strong>{}</strong> <span class="detail">{}</span></li>"#,
            tone(figure.tone),
            escaped(figure.name),
            escaped(&figure.value),
            escaped(&figure.detail)
        );
    }
    *html += "</ul>\n";
}

fn shares(html: &mut String, shares: &[Share]) {
    charts::stack(html, shares);
    *html += "<ul class=\"legend\">";
    for share in shares {
        let _ = write!(
            html,
            r#"<li><span class="dot {}"></span>{} {}</li>"#,
            tone(share.tone),
            escaped(share.name),
            number(share.count)
        );
    }
    *html += "</ul>\n";
}

fn pairs(html: &mut String, pairs: &[(String, Vec<Cell>)]) {
    *html += "<dl class=\"pairs\">\n";
    for (name, cells) in pairs {
        let is_counted = matches!(cells.first(), Some(Cell::Number(..)));
        let cells: Vec<String> = cells
            .iter()
            .enumerate()
            .map(|(index, value)| match (index, value) {
                (0, Cell::Number(..)) => format!("<strong>{}</strong>", cell(value)),
                _ => format!("<span>{}</span>", cell(value)),
            })
            .collect();
        let class = if is_counted { " class=\"counted\"" } else { "" };
        let _ = writeln!(
            html,
            "<div{class}><dt>{}</dt><dd>{}</dd></div>",
            escaped(&shortened(name)),
            cells.join(" ")
        );
    }
    *html += "</dl>\n";
}

/// A value as it may be in a cell or a sentence.
fn cell(cell: &Cell) -> String {
    match cell {
        Cell::None => "–".into(),
        Cell::Text(text) | Cell::Number(_, text) => escaped(text),
        Cell::Foreign(text) => escaped(&shortened(text)),
        Cell::Url(url) => link(url),
        Cell::Urls(urls, total) => self::urls(urls, *total),
    }
}

/// A list of URLs, of which many are folded.
fn urls(urls: &[String], total: u64) -> String {
    let item = |url: &String| format!("<li>{}</li>", link(url));
    let items = |urls: &[String]| urls.iter().map(item).collect::<String>();
    if let ([url], 0 | 1) = (urls, total) {
        return link(url);
    }
    let (open, folded) = urls.split_at(urls.len().min(OPEN_URLS));
    let mut html = format!("<ul>{}</ul>", items(open));
    let more = total.saturating_sub(open.len() as u64);
    let unlisted = total.saturating_sub(urls.len() as u64);
    let unlisted = match unlisted {
        0 => String::new(),
        count => format!("<li>… and {} that are not listed</li>", number(count)),
    };
    match folded.is_empty() {
        true if more > 0 => html += &format!("<p>and {} more</p>", number(more)),
        true => {}
        false => {
            html += &format!(
                "<details><summary>{}</summary><ul>{}{unlisted}</ul></details>",
                counted(more, "more URL"),
                items(folded)
            );
        }
    }
    html
}

/// A URL as a link. What is not a URL of the web is text.
fn link(url: &str) -> String {
    let text = escaped(&shortened(url));
    match is_web_url(url) && url.len() <= MAX_LINK_BYTES {
        true => format!(r#"<a href="{}" rel="noopener noreferrer">{text}</a>"#, escaped(url)),
        false => text,
    }
}

/// The text, without its middle if it is very long.
fn shortened(text: &str) -> String {
    let length = text.chars().count();
    if length <= MAX_SHOWN {
        return text.to_owned();
    }
    let start: String = text.chars().take(MAX_SHOWN - SHOWN_END).collect();
    let end: String = text.chars().skip(length - SHOWN_END).collect();
    format!("{start}…{end}")
}

/// The class of a colour.
fn tone(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "plain",
        Tone::Good => "good",
        Tone::Info => "info",
        Tone::Warn => "warn",
        Tone::Bad => "bad",
        Tone::Rest => "rest",
    }
}
