//! The text format of Prometheus, version 0.0.4.

use std::fmt::Write as _;

use crawler::internal::statistics::Histogram;

/// The labels of a sample.
pub type Labels = Vec<(&'static str, String)>;

/// The samples of one metric.
pub struct Family {
    pub name: &'static str,
    kind: Kind,
    help: &'static str,
    samples: Vec<Sample>,
}

enum Kind {
    Counter,
    Gauge,
    Histogram,
}

struct Sample {
    /// What follows the name of the metric.
    suffix: &'static str,
    labels: Labels,
    value: f64,
}

/// A number that never decreases while the crawl runs.
pub fn counter(name: &'static str, help: &'static str) -> Family {
    debug_assert!(name.ends_with("_total"));
    Family { name, kind: Kind::Counter, help, samples: Vec::new() }
}

/// A number that can go up and down.
pub fn gauge(name: &'static str, help: &'static str) -> Family {
    Family { name, kind: Kind::Gauge, help, samples: Vec::new() }
}

/// Counts by size.
pub fn histogram(name: &'static str, help: &'static str) -> Family {
    Family { name, kind: Kind::Histogram, help, samples: Vec::new() }
}

impl Family {
    /// A sample without labels.
    pub fn value(self, value: f64) -> Family {
        self.with(&[], value)
    }

    /// A sample of a whole number without labels.
    pub fn count(self, count: u64) -> Family {
        self.value(count as f64)
    }

    /// A sample, if there is one.
    pub fn maybe(self, value: Option<f64>) -> Family {
        match value {
            Some(value) => self.value(value),
            None => self,
        }
    }

    /// A sample with labels.
    pub fn with(self, labels: &[(&'static str, &str)], value: f64) -> Family {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.with_all([(labels, value)])
    }

    /// Several samples.
    pub fn with_all(mut self, samples: impl IntoIterator<Item = (Labels, f64)>) -> Family {
        self.samples.extend(samples.into_iter().map(|(labels, value)| Sample { suffix: "", labels, value }));
        self
    }

    /// Histograms. The buckets of Prometheus are cumulative.
    pub fn histograms<'h>(mut self, histograms: impl IntoIterator<Item = (Labels, &'h Histogram)>) -> Family {
        for (labels, histogram) in histograms {
            let bounds = histogram.bounds().iter().map(|bound| number(*bound)).chain(["+Inf".to_owned()]);
            let mut cumulative = 0;
            for (bound, count) in bounds.zip(histogram.counts) {
                cumulative += count;
                let labels = labels.iter().cloned().chain([("le", bound)]).collect();
                self.samples.push(Sample { suffix: "_bucket", labels, value: cumulative as f64 });
            }
            self.samples.push(Sample { suffix: "_sum", labels: labels.clone(), value: histogram.sum() });
            // That of the last bucket, so that they are equal whatever was merged.
            self.samples.push(Sample { suffix: "_count", labels, value: cumulative as f64 });
        }
        self
    }
}

/// The families that have samples, as text.
pub fn render(families: &[Family]) -> String {
    let mut text = String::new();
    for Family { name, kind, help, samples } in families.iter().filter(|family| !family.samples.is_empty()) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for Sample { suffix, labels, value } in samples {
            let labels: Vec<String> =
                labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(text, "{name}{suffix}{labels} {}", number(*value));
        }
    }
    text
}

/// A label value: names of hosts are from the web.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn number(value: f64) -> String {
    match value {
        _ if value == f64::INFINITY => "+Inf".into(),
        // Whole numbers without an exponent, and exactly.
        _ if value.fract() == 0.0 && value.abs() < 1e15 => format!("{}", value as i64),
        _ => format!("{value}"),
    }
}
