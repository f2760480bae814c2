//! The series that the queries of contrib/ select, and whether the metrics of a crawl have them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// Labels that Prometheus adds.
const OF_PROMETHEUS: [&str; 2] = ["job", "instance"];

/// A query of contrib/, and where it is.
pub struct Query {
    place: String,
    text: String,
    /// What is shown with its result, which may name labels.
    shown: String,
}

/// A time series: its name and labels.
struct Series {
    name: String,
    labels: BTreeMap<String, String>,
}

/// A metric with conditions on its labels: name, operator and value.
struct Selector<'q> {
    name: &'q str,
    conditions: Vec<(&'q str, &'q str, &'q str)>,
}

/// All queries of the alert rules and of the Grafana dashboard.
pub fn queries() -> Vec<Query> {
    let read = |path: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib").join(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let alerts: Value = serde_saphyr::from_str(&read("prometheus/alerts.yml")).unwrap();
    let rules = alerts["groups"][0]["rules"].as_array().unwrap().iter().map(|rule| Query {
        place: text(&rule["alert"]),
        text: text(&rule["expr"]),
        shown: rule["annotations"].to_string().replace("$labels.", ""),
    });
    let dashboard: Value = serde_json::from_str(&read("grafana/dashboards/crawler.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| {
        panel["targets"].as_array().into_iter().flatten().map(|target| Query {
            place: text(&panel["title"]),
            text: text(&target["expr"]),
            shown: text(&target["legendFormat"]),
        })
    });
    rules.chain(targets).collect()
}

impl Query {
    /// What these metrics do not have of it, of those whose names do not start with one of `exceptions`.
    pub fn missing(&self, metrics: &str, exceptions: &[&str]) -> Vec<String> {
        let selectors = self.selectors();
        assert!(!selectors.is_empty(), "{}: {}", self.place, self.text);
        let is_excepted =
            |selector: &&Selector<'_>| exceptions.iter().any(|start| selector.name.starts_with(start));
        if selectors.iter().any(|selector| is_excepted(&selector) || selector.name == "up") {
            return Vec::new();
        }
        let series = series(metrics);
        let mut missing: Vec<String> =
            selectors.iter().flat_map(|selector| selector.missing(&series)).collect();
        let has_label = |label: &str| {
            let selected = |series: &&Series| selectors.iter().any(|selector| selector.name == series.name);
            series.iter().filter(selected).any(|series| series.labels.contains_key(label))
        };
        let labels = self.labels().into_iter().filter(|label| !OF_PROMETHEUS.contains(label));
        missing.extend(labels.filter(|label| !has_label(label)).map(|label| format!("label {label}")));
        missing.into_iter().map(|what| format!("{}: {what}", self.place)).collect()
    }

    fn selectors(&self) -> Vec<Selector<'_>> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let starts = self.text.match_indices("crawler_").chain(self.text.match_indices("up{"));
        let starts = starts.filter(|(start, _)| !self.text[..*start].ends_with(is_part));
        let selector = |(start, _): (usize, &str)| {
            let rest = &self.text[start..];
            let (name, rest) = rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
            let conditions = rest.strip_prefix('{').map_or("", |rest| rest.split('}').next().unwrap());
            Selector { name, conditions: conditions.split(", ").filter_map(condition).collect() }
        };
        starts.map(selector).collect()
    }

    /// The labels that it groups by, or that are shown.
    fn labels(&self) -> Vec<&str> {
        let words = |list: &'static str, end: &'static str, text: &'_ str| -> Vec<(usize, usize)> {
            let starts = text.match_indices(list).map(|(start, _)| start + list.len());
            starts.map(|start| (start, start + text[start..].find(end).unwrap())).collect()
        };
        let grouped =
            words("by (", ")", &self.text).into_iter().flat_map(|(a, b)| self.text[a..b].split(", "));
        let shown = words("{{", "}}", &self.shown).into_iter().map(|(a, b)| self.shown[a..b].trim());
        grouped.chain(shown.filter(|shown| !shown.starts_with('$'))).collect()
    }
}

impl Selector<'_> {
    /// The values of its labels that no series has. Each alternative of a regular expression must be there.
    fn missing(&self, all: &[Series]) -> Vec<String> {
        let named: Vec<&Series> = all.iter().filter(|series| series.name == self.name).collect();
        if named.is_empty() {
            return vec![self.name.to_owned()];
        }
        let conditions = self.conditions.iter().filter(|(label, _, _)| !OF_PROMETHEUS.contains(label));
        let values = conditions.flat_map(|(label, operator, value)| {
            assert!(["=", "=~"].contains(operator), "{operator} is not known here");
            value.split('|').map(move |value| (*label, value))
        });
        let has = |(label, value): &(&str, &str)| {
            named.iter().any(|series| series.labels.get(*label).is_some_and(|found| found == value))
        };
        let missing = values.filter(|condition| !has(condition));
        missing.map(|(label, value)| format!("{}{{{label}={value:?}}}", self.name)).collect()
    }
}

/// `label="value"`, with any operator.
fn condition(text: &str) -> Option<(&str, &str, &str)> {
    let (label, rest) = text.split_at(text.find(['=', '!'])?);
    let (operator, value) = rest.split_at(rest.find('"')?);
    Some((label, operator, value.trim_matches('"')))
}

/// The series of metrics in the text format. No value of a label that is compared has quotes or commas.
fn series(metrics: &str) -> Vec<Series> {
    let lines = metrics.lines().filter(|line| !line.starts_with('#'));
    let parse = |line: &str| {
        let (name, labels) = line.rsplit_once(' ').unwrap().0.split_once('{').unwrap_or((line, ""));
        let name = name.split(' ').next().unwrap().to_owned();
        let labels = labels.trim_end_matches('}').split(',').filter_map(condition);
        Series {
            name,
            labels: labels.map(|(label, _, value)| (label.to_owned(), value.to_owned())).collect(),
        }
    };
    lines.map(parse).collect()
}
