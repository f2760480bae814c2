//! Draws a quantity over time as a line above an area.

use std::fmt::Write as _;

use crawler::internal::modules::markup::escaped;

use super::axis::{round_up, times};
use super::{open, tone};
use crate::report::document::Series;

/// Where the highest value and zero are, and the height of all.
const TOP: f64 = 18.0;
const BOTTOM: f64 = 138.0;
const HEIGHT: usize = 162;

/// The width of the picture in units of its own: it is stretched.
const WIDTH: f64 = 1_000.0;

pub fn write(html: &mut String, title: &str, series: &Series) {
    let highest =
        series.points.iter().map(|(_, value)| *value).filter(|value| value.is_finite()).fold(0.0, f64::max);
    let last = series.points.last().map_or(0.0, |(_, value)| *value);
    let end = round_up(highest);
    let format = series.format;
    let description = format!("highest {}, last {}", format(highest), format(last));
    open(html, HEIGHT, &format!("{title} over time"), &description);
    // The values are written last, so that the area does not hide them.
    let values = grid(html, end, format);
    let path = path(series, end);
    let (from, to) = (x(series, 0), x(series, series.points.len().saturating_sub(1)));
    let height = BOTTOM - TOP;
    let _ = write!(
        html,
        r#"<svg class="plot {}" y="{TOP}" width="100%" height="{height}" viewBox="0 0 {WIDTH} {height}" preserveAspectRatio="none">"#,
        tone(series.tone)
    );
    let _ = write!(html, r#"<path class="area" d="{path}L{to:.1} {height}L{from:.1} {height}Z"/>"#);
    let _ = write!(html, r#"<path class="line" d="{path}"/></svg>"#);
    for (time, label) in times(series.seconds) {
        let at = 100.0 * time / series.seconds.max(f64::MIN_POSITIVE);
        let anchor = match at {
            at if at < 3.0 => "",
            at if at > 92.0 => " class=\"end\"",
            _ => " class=\"middle\"",
        };
        let at = at.min(100.0);
        let _ = write!(html, r#"<text{anchor} x="{at:.2}%" y="{}">{}</text>"#, HEIGHT - 8, escaped(&label));
    }
    *html += &values;
    *html += "</svg>";
}

/// Draws lines at zero, at the half and at the end of the value axis. Returns their values, to be written above them.
fn grid(html: &mut String, end: f64, format: fn(f64) -> String) -> String {
    let mut values = String::new();
    let labels = [end, end / 2.0, 0.0].map(format);
    for (index, (part, label)) in [1.0, 0.5, 0.0].into_iter().zip(&labels).enumerate() {
        let y = BOTTOM - part * (BOTTOM - TOP);
        let _ = write!(html, r#"<line class="grid" x2="100%" y1="{y}" y2="{y}"/>"#);
        // Numbers as small as 1 have no half that differs.
        if part > 0.0 && index.checked_sub(1).and_then(|before| labels.get(before)) != Some(label) {
            let _ = write!(values, r#"<text class="axis" x="0" y="{}">{}</text>"#, y - 4.0, escaped(label));
        }
    }
    values
}

fn x(series: &Series, index: usize) -> f64 {
    let time = series.points.get(index).map_or(0.0, |(time, _)| *time);
    (WIDTH * time / series.seconds.max(f64::MIN_POSITIVE)).clamp(0.0, WIDTH)
}

fn path(series: &Series, end: f64) -> String {
    let mut path = String::new();
    for (index, (_, value)) in series.points.iter().enumerate() {
        let value = if value.is_finite() { value.max(0.0) } else { 0.0 };
        let y = (BOTTOM - TOP) * (1.0 - (value / end).min(1.0));
        let _ = write!(path, "{}{:.1} {y:.1}", if index == 0 { 'M' } else { 'L' }, x(series, index));
    }
    path
}
