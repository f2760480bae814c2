//! The files of contrib/: they name metrics that exist, and the programs that read them accept them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The metrics that a text names, histograms by the name of the whole.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let words = text.split(|c| !is_part(c)).filter(|word| word.starts_with("crawler_"));
    words.map(|word| word.trim_end_matches("_bucket").trim_end_matches("_count").to_owned()).collect()
}

#[test]
fn every_metric_in_contrib_is_documented() {
    let documented = metrics_in(&read("docs/metrics.md"));
    for path in ["contrib/prometheus/alerts.yml", "contrib/grafana/dashboards/crawler.json"] {
        let named = metrics_in(&read(path));
        let unknown: Vec<&String> = named.difference(&documented).collect();
        assert!(named.len() > 10 && unknown.is_empty(), "{path} names {unknown:?}");
    }
}

#[test]
fn panels_of_the_grafana_dashboard_have_queries_and_do_not_overlap() {
    let dashboard: Value = serde_json::from_str(&read("contrib/grafana/dashboards/crawler.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        let number = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        assert!(number("x") + number("w") <= 24, "{title}");
        for x in number("x")..number("x") + number("w") {
            for y in number("y")..number("y") + number("h") {
                assert!(cells.insert((x, y)), "{title} is where another panel is");
            }
        }
        let targets = panel["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
        assert_eq!(targets.is_empty(), panel["type"] == "row", "{title}");
        for target in targets {
            let query = target["expr"].as_str().unwrap();
            assert!(query.contains(r#"job=~"$job", instance=~"$instance""#), "{title}: {query}");
        }
    }
    // The data source and the directory of the dashboards are those that are provisioned.
    let source: Value =
        serde_saphyr::from_str(&read("contrib/grafana/provisioning/datasources/prometheus.yaml")).unwrap();
    assert_eq!(source["datasources"][0]["type"], "prometheus");
    let compose = read("compose.yaml");
    let provider: Value =
        serde_saphyr::from_str(&read("contrib/grafana/provisioning/dashboards/crawler.yaml")).unwrap();
    let path = provider["providers"][0]["options"]["path"].as_str().unwrap();
    assert!(compose.contains(&format!("./contrib/grafana/dashboards:{path}:ro")), "{path}");
}

/// A crawl that sends no requests, and one that does.
const ALERT_TEST: &str = r#"
rule_files: [ALERTS]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'crawler_phase{job="crawl", instance="a", phase="running"}', values: '1x40'}
      - {series: 'crawler_phase{job="crawl", instance="b", phase="running"}', values: '1x40'}
      - {series: 'crawler_urls_pending{job="crawl", instance="a"}', values: '7x40'}
      - {series: 'crawler_urls_pending{job="crawl", instance="b"}', values: '7x40'}
      - {series: 'crawler_requests_total{job="crawl", instance="a"}', values: '100x40'}
      - {series: 'crawler_requests_total{job="crawl", instance="b"}', values: '0+60x40'}
      - {series: 'crawler_urls_completed_total{job="crawl", instance="b", outcome="page"}', values: '0+10x40'}
      - {series: 'crawler_urls_completed_total{job="crawl", instance="b", outcome="failed"}', values: '0+30x40'}
      - {series: 'crawler_pages_total{job="crawl", instance="b"}', values: '95x40'}
      - {series: 'crawler_limit_pages{job="crawl", instance="b"}', values: '100x40'}
      - {series: 'up{job="processes", instance="w"}', values: '0x40'}
    alert_rule_test:
      - eval_time: 35m
        alertname: CrawlStalled
        exp_alerts:
          - exp_labels: {severity: critical, job: crawl, instance: a, phase: running}
            exp_annotations:
              summary: The crawl at a has URLs, and sends no requests
              description: All hosts wait or fail, or Redis, a proxy or the network is down.
      - eval_time: 35m
        alertname: CrawlFailing
        exp_alerts:
          - exp_labels: {severity: warning, job: crawl, instance: b}
            exp_annotations:
              summary: More than half of the URLs of the crawl at b fail
              description: "75% of them in the last 15 minutes."
      - eval_time: 35m
        alertname: CrawlBudgetNearlyUsedUp
        exp_alerts:
          - exp_labels: {severity: info, job: crawl, instance: b}
            exp_annotations:
              summary: The crawl at b has used 95% of a budget
              description: It ends when the pages or bytes are used up.
      - eval_time: 35m
        alertname: CrawlerProcessDown
        exp_alerts:
          - exp_labels: {severity: warning, job: processes, instance: w}
            exp_annotations:
              summary: A process of the crawl at w does not answer
              description: The other workers take over its URLs. Look at its log.
"#;

#[test]
#[ignore = "needs promtool: run by make test"]
fn prometheus_accepts_its_configuration_and_the_alerts_fire() {
    let directory = TempDir::new().unwrap();
    let alerts = root().join("contrib/prometheus/alerts.yml").canonicalize().unwrap();
    let test = directory.path().join("test.yml");
    fs::write(&test, ALERT_TEST.replace("ALERTS", alerts.to_str().unwrap())).unwrap();
    let promtool = |arguments: &[&str]| {
        let output = Command::new("promtool").args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {text}");
    };
    let config = root().join("contrib/prometheus/prometheus.yml");
    promtool(&["check", "config", "--syntax-only", config.to_str().unwrap()]);
    promtool(&["check", "rules", alerts.to_str().unwrap()]);
    promtool(&["test", "rules", test.to_str().unwrap()]);
}
