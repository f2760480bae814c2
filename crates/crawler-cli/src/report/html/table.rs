//! Writes tables. The script adds sorting and filtering.

use std::fmt::Write as _;

use crawler::internal::modules::markup::escaped;

use super::cell;
use crate::format::{counted, number};
use crate::report::document::{Cell, Heading, Table, Width};

/// The most bytes of one table. The rows after that are left out, so that a browser can show the file.
const MAX_BYTES: usize = 6_000_000;

/// A table with fewer rows needs no filter.
const FEW_ROWS: usize = 8;

pub fn write(html: &mut String, table: &Table) {
    let id = table.id;
    let filter = if table.rows.len() > FEW_ROWS { " data-filter" } else { "" };
    let choice = match table.choice {
        Some(column) if !filter.is_empty() => format!(" data-choice=\"{column}\""),
        _ => String::new(),
    };
    let _ = write!(
        html,
        r#"<div class="scroll" role="region" tabindex="0" aria-label="{0}"><table id="{id}" data-noun="{1}" data-total="{2}"{filter}{choice}><caption class="hidden">{0}</caption><thead><tr>"#,
        escaped(&counted(table.total, table.noun)),
        escaped(table.noun),
        table.total,
    );
    for heading in &table.columns {
        let _ = write!(html, r#"<th scope="col"{}>{}</th>"#, class(heading), escaped(heading.name));
    }
    *html += "</tr></thead>\n<tbody>\n";
    let start = html.len();
    let mut written = 0;
    for cells in &table.rows {
        if html.len() - start > MAX_BYTES {
            break;
        }
        row(html, table, cells);
        written += 1;
    }
    *html += "</tbody></table></div>\n";
    let more = table.total.saturating_sub(written);
    if more > 0 {
        let _ = writeln!(html, r#"<p class="more">… and {} that are not listed.</p>"#, number(more));
    }
}

fn row(html: &mut String, table: &Table, cells: &[Cell]) {
    *html += "<tr>";
    for (index, (value, heading)) in cells.iter().zip(&table.columns).enumerate() {
        let (open, close) = if index == 0 { ("<th scope=\"row\"", "</th>") } else { ("<td", "</td>") };
        *html += open;
        if heading.is_numeric {
            *html += " class=\"n\"";
        }
        if let Cell::Number(value, text) = value
            && value.to_string() != *text
        {
            let _ = write!(html, " data-v=\"{value}\"");
        }
        *html += ">";
        *html += &cell(value);
        *html += close;
    }
    *html += "</tr>\n";
}

fn class(heading: &Heading) -> String {
    let width = match heading.width {
        Width::Wide => "wide",
        Width::Medium => "medium",
        Width::Narrow => "narrow",
        Width::Time => "time",
    };
    let numeric = if heading.is_numeric { " n" } else { "" };
    format!(" class=\"{width}{numeric}\"")
}
