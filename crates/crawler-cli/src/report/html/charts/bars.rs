//! Draws horizontal bars, each below its name and its value.

use std::fmt::Write as _;

use crawler::internal::modules::markup::escaped;

use super::{open, tone};
use crate::report::document::Bar;

/// The height of a row, in pixels.
const ROW: usize = 34;

/// The width of a narrow chart and of a character of a value, in pixels.
const NARROW: f64 = 290.0;
const CHARACTER: f64 = 8.0;

/// Where a mark at the end of a bar is, so that it is not cut off.
const MAX_MARK: f64 = 99.7;

/// The longest name, in characters. The middle of longer ones is left out.
const MAX_NAME: usize = 48;

pub fn write(html: &mut String, title: &str, bars: &[Bar]) {
    let values: Vec<String> = bars.iter().map(|bar| format!("{} {}", bar.label, bar.text)).collect();
    open(html, bars.len() * ROW, title, &values.join(", "));
    let values = bars.iter().flat_map(|bar| [Some(bar.value), bar.mark, bar.full]).flatten();
    let highest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
    let part = |value: f64| {
        let part = if highest > 0.0 { 100.0 * value / highest } else { 0.0 };
        if part.is_finite() { part.clamp(0.0, 100.0) } else { 0.0 }
    };
    for (index, bar) in bars.iter().enumerate() {
        let y = index * ROW;
        let name = escaped(&name(&bar.label));
        let value_width = (bar.text.chars().count() as f64 + 1.0) * CHARACTER;
        let room = (100.0 * (1.0 - value_width / NARROW)).clamp(20.0, 88.0);
        // A nested picture cuts off what is too wide for it.
        let _ = write!(
            html,
            r#"<g><title>{}: {1}</title><svg y="{y}" width="{room:.0}%" height="18"><text class="name" x="0" y="13">{name}</text></svg><text class="end value" x="100%" y="{2}">{1}</text>"#,
            escaped(&bar.label),
            escaped(&bar.text),
            y + 13
        );
        let _ = write!(html, r#"<rect class="track" y="{}" width="100%" height="8" rx="4"/>"#, y + 19);
        let width = part(bar.value);
        if width > 0.0 {
            let _ = write!(
                html,
                r#"<rect class="fill {}" y="{}" width="{width:.2}%" height="8" rx="4"/>"#,
                tone(bar.tone),
                y + 19
            );
        }
        if let Some(mark) = bar.mark.map(|mark| part(mark).min(MAX_MARK)) {
            let _ = write!(
                html,
                r#"<line class="mark" x1="{mark:.2}%" x2="{mark:.2}%" y1="{}" y2="{}"/>"#,
                y + 16,
                y + 30
            );
        }
        *html += "</g>";
    }
    *html += "</svg>";
}

/// A name without its middle if it is long.
fn name(label: &str) -> String {
    let length = label.chars().count();
    if length <= MAX_NAME {
        return label.to_owned();
    }
    let half = MAX_NAME / 2;
    let start: String = label.chars().take(half).collect();
    let end: String = label.chars().skip(length - half).collect();
    format!("{start}…{end}")
}
