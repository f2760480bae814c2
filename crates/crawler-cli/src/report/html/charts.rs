//! Draws charts as SVG. Positions are percentages and pixels, so that a chart fits any width and its text keeps its size.

mod axis;
mod bars;
mod columns;
mod series;

use std::fmt::Write as _;

use crawler::internal::modules::markup::escaped;

use super::tone;
use crate::format::number;
use crate::report::document::{Chart, Numbers, Share};

/// Writes a figure with its caption and picture.
pub fn write(html: &mut String, chart: &Chart) {
    let _ = write!(html, "<figure class=\"chart\"><figcaption><h3>{}</h3>", escaped(&chart.title));
    if !chart.note.is_empty() {
        let _ = write!(html, "<p>{}</p>", escaped(&chart.note));
    }
    *html += "</figcaption>";
    match &chart.numbers {
        Numbers::Series(series) => series::write(html, &chart.title, series),
        Numbers::Bars(bars) => bars::write(html, &chart.title, bars),
        Numbers::Columns(columns) => columns::write(html, &chart.title, columns),
    }
    *html += "</figure>\n";
}

/// Opens a picture with a name and a description.
fn open(html: &mut String, height: usize, title: &str, description: &str) {
    let _ = write!(
        html,
        r#"<svg role="img" width="100%" height="{height}"><title>{}</title><desc>{}</desc>"#,
        escaped(title),
        escaped(description)
    );
}

/// Draws parts of a whole as one bar.
pub fn stack(html: &mut String, shares: &[Share]) {
    let all: u64 = shares.iter().map(|share| share.count).sum();
    let parts: Vec<String> =
        shares.iter().map(|share| format!("{} {}", share.name, number(share.count))).collect();
    *html += "<div class=\"stack\">";
    open(html, 14, "URLs by outcome", &parts.join(", "));
    let mut from = 0.0;
    for share in shares {
        let width = 100.0 * share.count as f64 / all.max(1) as f64;
        let _ = write!(
            html,
            r#"<rect class="part {}" x="{from:.3}%" width="{width:.3}%" height="14"/>"#,
            tone(share.tone)
        );
        from += width;
    }
    *html += "</svg></div>\n";
}
