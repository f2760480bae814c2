//! How a crawl went over time.

use std::time::Duration;

use crawler::internal::statistics::Sample;

use crate::format::{bytes, elapsed, number};
use crate::report::content::ReportContent;
use crate::report::document::{Chart, Numbers, Section, Series, Tone};

/// The most points of a chart. More would not be seen.
const MAX_POINTS: usize = 150;

/// A crawl that is shorter has no chart over time.
const SHORT: Duration = Duration::from_secs(10);

/// Charts over time; a sentence if the crawl was too short for them, and nothing without samples.
pub fn section(content: &ReportContent) -> Option<Section<'static>> {
    let samples = samples(content);
    let mut section = Section::new("time", "Over time");
    if samples.len() < 3 {
        // Of a long crawl, the statistics are missing.
        if content.view.elapsed.is_zero() || content.view.elapsed > SHORT {
            return None;
        }
        let time = elapsed(content.view.elapsed);
        section.say(format!("The crawl took {time}: too short for a picture of its course."));
        return Some(section);
    }
    let seconds = samples.last().map_or(1.0, |sample| f64::from(sample.at_seconds)).max(1.0);
    let chart = |title: &str, note: String, points, format, tone| Chart {
        title: title.into(),
        note,
        numbers: Numbers::Series(Series { points, seconds, format, tone }),
    };
    let total = |value: fn(&Sample) -> u64| -> Vec<(f64, f64)> {
        let point = |sample: &Sample| (f64::from(sample.at_seconds), value(sample) as f64);
        thinned(&samples).iter().map(point).collect()
    };
    let rate_chart = |title: &str, value: fn(&Sample) -> u64| {
        let points = rates(&samples, value);
        let note = format!("Highest {}.", per_second(highest(&points)));
        chart(title, note, points, per_second, Tone::Plain)
    };
    let mut charts = vec![
        rate_chart("Pages per second", |sample| sample.pages),
        rate_chart("Requests per second", |sample| sample.requests),
        chart("Pages", String::new(), total(|sample| sample.pages), count, Tone::Good),
        chart(
            "URLs waiting",
            "URLs that were found and have no outcome yet.".into(),
            total(|sample| sample.pending),
            count,
            Tone::Info,
        ),
        chart("Data", "Bodies after decoding.".into(), total(|sample| sample.bytes), size, Tone::Plain),
    ];
    if samples.iter().any(|sample| sample.failures > 0) {
        charts.push(chart("Failed URLs", String::new(), total(|sample| sample.failures), count, Tone::Bad));
    }
    charts.retain(|chart| {
        matches!(&chart.numbers, Numbers::Series(series) if series.points.iter().any(|(_, value)| *value > 0.0))
    });
    section.draw(charts);
    Some(section)
}

/// The samples in the order of time, from the start of the crawl.
fn samples(content: &ReportContent) -> Vec<Sample> {
    let samples = content.view.statistics.series.samples();
    let is_start = |sample: &&Sample| sample.at_seconds == 0;
    let start = samples.first().filter(|sample| !is_start(sample)).map(|_| Sample::default());
    start.into_iter().chain(samples.iter().copied()).collect()
}

/// At most this many samples as a chart shows, with the last one.
fn thinned(samples: &[Sample]) -> Vec<Sample> {
    let step = samples.len().div_ceil(MAX_POINTS).max(1);
    let last = samples.len().saturating_sub(1);
    let kept = samples.iter().enumerate().filter(|(index, _)| index % step == 0 || *index == last);
    kept.map(|(_, sample)| *sample).collect()
}

/// The increase per second between samples.
fn rates(samples: &[Sample], value: fn(&Sample) -> u64) -> Vec<(f64, f64)> {
    let samples = thinned(samples);
    let rate = |pair: &[Sample]| {
        let [before, after] = pair else { return None };
        let seconds = f64::from(after.at_seconds.saturating_sub(before.at_seconds));
        let more = value(after).saturating_sub(value(before)) as f64;
        (seconds > 0.0).then(|| (f64::from(after.at_seconds), more / seconds))
    };
    samples.windows(2).filter_map(rate).collect()
}

fn highest(points: &[(f64, f64)]) -> f64 {
    points.iter().map(|(_, value)| *value).fold(0.0, f64::max)
}

fn count(value: f64) -> String {
    number(value.round() as u64)
}

fn size(value: f64) -> String {
    bytes(value.round() as u64)
}

fn per_second(value: f64) -> String {
    if value < 9.95 { format!("{value:.1}/s") } else { format!("{}/s", count(value)) }
}
