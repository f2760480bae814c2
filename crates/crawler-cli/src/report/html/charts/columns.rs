//! Draws a histogram.

use std::fmt::Write as _;

use crawler::internal::modules::markup::escaped;

use super::axis::round_up;
use super::open;
use crate::format::number;
use crate::report::document::Columns;

/// Where the highest value and zero are, and the height of all.
const TOP: f64 = 18.0;
const BOTTOM: f64 = 138.0;
const HEIGHT: usize = 176;

/// The part of its place that a column takes.
const FILLED: f64 = 0.86;

/// The width of a narrow chart and of a character, in pixels: labels that would overlap there are left out.
const NARROW: f64 = 290.0;
const CHARACTER: f64 = 7.0;

pub fn write(html: &mut String, title: &str, columns: &Columns) {
    let all: u64 = columns.columns.iter().map(|column| column.count).sum();
    let highest = columns.columns.iter().map(|column| column.count).max().unwrap_or(0);
    let described: Vec<String> = columns
        .columns
        .iter()
        .filter(|column| column.count > 0)
        .map(|column| format!("{}: {}", column.range, number(column.count)))
        .collect();
    open(html, HEIGHT, title, &described.join(", "));
    let end = round_up(highest as f64);
    // The values are written last, so that no column hides them.
    let mut values = String::new();
    for part in [1.0, 0.5, 0.0] {
        let y = BOTTOM - part * (BOTTOM - TOP);
        let _ = write!(html, r#"<line class="grid" x2="100%" y1="{y}" y2="{y}"/>"#);
        if part > 0.0 && (part * end).fract() == 0.0 {
            let value = number((part * end) as u64);
            let _ = write!(values, r#"<text class="axis" x="0" y="{}">{value}</text>"#, y - 4.0);
        }
    }
    let place = 100.0 / columns.columns.len().max(1) as f64;
    let longest = columns.columns.iter().map(|column| column.label.chars().count()).max().unwrap_or(1);
    let each = ((longest as f64 + 1.0) * CHARACTER / (NARROW * place / 100.0)).ceil().max(1.0) as usize;
    for (index, column) in columns.columns.iter().enumerate() {
        let height = (BOTTOM - TOP) * column.count as f64 / end;
        let height = if column.count > 0 { height.max(1.0) } else { 0.0 };
        let from = place * (index as f64 + (1.0 - FILLED) / 2.0);
        let share = 100.0 * column.count as f64 / all.max(1) as f64;
        let _ = write!(
            html,
            r#"<g><title>{}: {} ({share:.1} %)</title><rect class="fill plain" x="{from:.3}%" y="{:.1}" width="{:.3}%" height="{height:.1}"/></g>"#,
            escaped(&column.range),
            number(column.count),
            BOTTOM - height,
            place * FILLED
        );
        if index % each == 0 {
            let middle = place * (index as f64 + 0.5);
            let label = escaped(&column.label);
            let _ =
                write!(html, r#"<text class="middle" x="{middle:.2}%" y="{}">{label}</text>"#, BOTTOM + 16.0);
        }
    }
    *html += &values;
    let _ = write!(html, r#"<text class="end" x="100%" y="{}">{}</text></svg>"#, HEIGHT - 4, columns.axis);
}
