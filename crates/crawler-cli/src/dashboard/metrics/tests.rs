//! Reads the metrics back with a parser of the format.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crawler::internal::backend::WorkerLoad;
use crawler::internal::statistics::Statistics;

use super::*;
use crate::dashboard::view::Mode;

/// A sample as it was parsed: its labels and its value.
type Samples = Vec<(BTreeMap<String, String>, f64)>;

/// Parses the text, and checks its form: HELP and TYPE come before the samples, each once, and all samples of a family follow.
fn parse(text: &str) -> BTreeMap<String, Samples> {
    let (mut parsed, mut family, mut seen) =
        (BTreeMap::<String, Samples>::new(), String::new(), BTreeSet::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(!help.is_empty() && seen.insert(name.to_owned()), "{line}");
            let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {name} ")).unwrap();
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            family = name.to_owned();
            continue;
        }
        let name_end = line.find(['{', ' ']).unwrap();
        let name = &line[..name_end];
        assert!(
            ["", "_bucket", "_sum", "_count"].iter().any(|suffix| name == format!("{family}{suffix}")),
            "{line}"
        );
        let (labels, value) = match line[name_end..].strip_prefix('{') {
            None => (BTreeMap::new(), &line[name_end..]),
            Some(rest) => parse_labels(rest),
        };
        let value: f64 = value.trim().parse().unwrap_or_else(|_| panic!("{line}"));
        let samples = parsed.entry(name.to_owned()).or_default();
        assert!(!samples.iter().any(|(known, _)| *known == labels), "twice: {line}");
        samples.push((labels, value));
    }
    parsed
}

fn parse_labels(mut rest: &str) -> (BTreeMap<String, String>, &str) {
    let mut labels = BTreeMap::new();
    loop {
        let (name, after) = rest.split_once("=\"").unwrap();
        let (mut value, mut characters) = (String::new(), after.char_indices());
        let end = loop {
            match characters.next().unwrap() {
                (_, '\\') => value.push(match characters.next().unwrap().1 {
                    'n' => '\n',
                    other => other,
                }),
                (index, '"') => break index,
                (_, other) => value.push(other),
            }
        };
        labels.insert(name.to_owned(), value);
        match after[end + 1..].strip_prefix(',') {
            Some(more) => rest = more,
            None => return (labels, after[end + 1..].strip_prefix('}').unwrap()),
        }
    }
}

fn view() -> View {
    let mut view = View::starting("test", Mode::Pipeline);
    let mut statistics = Statistics::default();
    for milliseconds in [1, 3, 70, 800, 90_000] {
        statistics.stages.first_byte.record(Duration::from_millis(milliseconds));
    }
    statistics.statuses.extend([(200, 7), (204, 1), (404, 2), (503, 1)]);
    statistics.failures.dns = 3;
    view.crawl.statistics = Arc::new(statistics);
    view.crawl.snapshot.outcomes =
        [("page", 5), ("HTTP 404", 2), ("timeout", 1)].map(|(label, count)| (label.to_owned(), count)).into();
    view.crawl.snapshot.priority_queues = vec![1, 2];
    let load = |domains, leased| {
        let mut load = WorkerLoad::default();
        (load.domains, load.leased) = (domains, leased);
        load
    };
    view.crawl.snapshot.workers = vec![load(1, 2), load(3, 4)];
    view
}

#[test]
fn metrics_can_be_parsed_and_have_the_counts() {
    let metrics = parse(&text(&view(), 0));
    let value = |name: &str, label: Option<(&str, &str)>| {
        let has_label = |labels: &BTreeMap<String, String>| {
            label.is_none_or(|(name, value)| labels.get(name).is_some_and(|found| found == value))
        };
        metrics[name].iter().find(|(labels, _)| has_label(labels)).unwrap().1
    };
    assert_eq!(value("crawler_urls_completed_total", Some(("outcome", "failed"))), 3.0);
    assert_eq!(value("crawler_responses_total", Some(("class", "2xx"))), 8.0);
    assert_eq!(value("crawler_request_failures_total", Some(("kind", "dns"))), 3.0);
    assert_eq!(value("crawler_phase", Some(("phase", "running"))), 1.0);
    assert_eq!(value("crawler_worker_leased_urls", Some(("worker", "1"))), 4.0);
    assert!(!metrics.contains_key("crawler_limit_pages"), "unlimited");
    assert!(!metrics.contains_key("crawler_host_requests_total"), "only on request");
}

#[test]
fn buckets_are_cumulative_and_the_last_one_is_the_count() {
    let metrics = parse(&text(&view(), 0));
    let stage = |samples: &Samples| -> Samples {
        samples.iter().filter(|(labels, _)| labels["stage"] == "first_byte").cloned().collect()
    };
    let buckets = stage(&metrics["crawler_stage_duration_seconds_bucket"]);
    let bound = |labels: &BTreeMap<String, String>| labels["le"].parse::<f64>().unwrap();
    assert!(buckets.is_sorted_by(|(a, smaller), (b, larger)| bound(a) < bound(b) && smaller <= larger));
    assert_eq!(buckets.last().map(|(labels, count)| (labels["le"].as_str(), *count)), Some(("+Inf", 5.0)));
    assert_eq!(stage(&metrics["crawler_stage_duration_seconds_count"])[0].1, 5.0);
    assert_eq!(stage(&metrics["crawler_stage_duration_seconds_sum"])[0].1, 90.874);
    let below_a_second = buckets.iter().find(|(labels, _)| bound(labels) == 1.0).unwrap().1;
    assert_eq!(below_a_second, 4.0);
}

#[test]
fn documentation_lists_exactly_these_metrics() {
    let docs = include_str!("../../../../../docs/metrics.md");
    let documented: BTreeSet<&str> = docs
        .lines()
        .filter_map(|line| line.strip_prefix("| `crawler_"))
        .map(|rest| rest.split(['`', '{']).next().unwrap())
        .collect();
    let names: BTreeSet<&str> =
        families(&view(), 1).iter().map(|family| family.name.strip_prefix("crawler_").unwrap()).collect();
    assert_eq!(documented, names);
}

#[test]
fn documentation_lists_the_metrics_of_a_worker_and_those_without_a_crawl() {
    let docs = include_str!("../../../../../docs/metrics.md");
    let names =
        |view: &View| -> Vec<&'static str> { families(view, 1).iter().map(|family| family.name).collect() };
    let (start, end) =
        (docs.find("- `crawler worker --metrics`").unwrap(), docs.find("It has no others.").unwrap());
    let documented: Vec<&str> =
        docs[start..end].split('`').filter(|word| word.starts_with("crawler_")).collect();
    let is_documented = |name: &str| {
        documented
            .iter()
            .any(|known| known.strip_suffix('…').map_or(name == *known, |start| name.starts_with(start)))
    };
    let mut worker = View { is_worker: true, redis_up: Some(true), ..view() };
    let served = text(&worker, 1);
    for name in names(&worker) {
        // The other families of Redis have no series: a worker does not ask it about itself.
        let is_of_redis = name.starts_with("crawler_redis_") && !served.contains(name);
        assert!(is_documented(name) || is_of_redis, "{name}");
    }
    worker.is_waiting = true;
    let waiting = text(&worker, 1);
    let series: Vec<&str> = waiting.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(
        series[0].starts_with("crawler_build_info{") && series[1..] == ["crawler_redis_up 1"],
        "{waiting}"
    );
}

#[test]
fn outage_of_redis_is_served_and_nothing_that_redis_said_before() {
    let redis_metrics = |view: &View| -> Vec<(String, f64)> {
        let all = parse(&text(view, 0)).into_iter();
        let of_redis =
            all.filter(|(name, _)| name.starts_with("crawler_redis_") || name == "crawler_members");
        of_redis.map(|(name, samples)| (name, samples[0].1)).collect()
    };
    let mut view = View { redis: Some(RedisHealth::default()), redis_up: Some(true), ..view() };
    view.redis.as_mut().unwrap().used_memory = Some(5);
    let served = redis_metrics(&view);
    assert_eq!(
        served.iter().map(|(name, _)| &**name).collect::<Vec<_>>(),
        ["crawler_members", "crawler_redis_up", "crawler_redis_used_memory_bytes"]
    );
    view.redis_up = Some(false);
    assert_eq!(redis_metrics(&view), [("crawler_redis_up".to_owned(), 0.0)]);
    assert!(parse(&text(&view, 0)).contains_key("crawler_pages_total"), "the last value");
}
