//! The files of contrib/: they name metrics that exist, and the programs that read them accept them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use testweb::{Request, Response, Site};

use crate::common::{Running, binary, serve};
use crate::http::Server;
use crate::selectors::queries;
use crate::state::StateDir;

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

/// A crawl that sends no requests, one that does, and distributed crawls: one that has just lost a worker, one
/// that has had fewer workers for a while, one without its frontier, one whose output failed, one that Redis lost, and one that was purged
/// after its end.
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
      - {series: 'crawler_network_down_seconds{job="processes", instance="w"}', values: '90x40'}
      - {series: 'crawler_disk_free_bytes{job="processes", instance="w"}', values: '400000000x40'}
      - {series: 'crawler_disk_free_bytes{job="crawl", instance="b"}', values: '600000000x40'}
      - {series: 'crawler_redis_up{job="crawl", instance="a"}', values: '0x40'}
      - {series: 'crawler_redis_up{job="processes", instance="w"}', values: '0x40'}
      - {series: 'crawler_phase{job="crawl", instance="worker dead", phase="running"}', values: '1x40'}
      - {series: 'crawler_members{job="crawl", instance="worker dead", state="alive"}', values: '4x25 3x15'}
      - {series: 'crawler_phase{job="crawl", instance="fewer workers", phase="running"}', values: '1x40'}
      - {series: 'crawler_members{job="crawl", instance="fewer workers", state="alive"}', values: '9x10 3x30'}
      - {series: 'crawler_heartbeat_age_seconds{job="crawl", instance="fewer workers", member="frontier"}', values: '1x40'}
      - {series: 'crawler_heartbeat_age_seconds{job="crawl", instance="worker dead", member="frontier"}', values: '1x40'}
      - {series: 'crawler_phase{job="crawl", instance="frontier dead", phase="running"}', values: '1x40'}
      - {series: 'crawler_members{job="crawl", instance="frontier dead", state="alive"}', values: '4x40'}
      - {series: 'crawler_heartbeat_age_seconds{job="crawl", instance="frontier dead", member="frontier"}', values: '1x20 stale'}
      - {series: 'crawler_phase{job="crawl", instance="full disk", phase="running"}', values: '1x10 0x30'}
      - {series: 'crawler_members{job="crawl", instance="full disk", state="alive"}', values: '4x10 0x30'}
      - {series: 'crawler_ended{job="crawl", instance="full disk", reason="output-failure"}', values: '0x10 1x30'}
      - {series: 'crawler_ended{job="crawl", instance="full disk", reason="finished"}', values: '0x40'}
      - {series: 'crawler_redis_up{job="crawl", instance="lost"}', values: '1x40'}
      - {series: 'crawler_phase{job="crawl", instance="lost", phase="running"}', values: '1x10 stale'}
      - {series: 'crawler_redis_up{job="crawl", instance="purged"}', values: '1x40'}
      - {series: 'crawler_phase{job="crawl", instance="purged", phase="running"}', values: '1x10 0x5 stale'}
      - {series: 'crawler_phase{job="crawl", instance="purged", phase="ended"}', values: '0x10 1x5 stale'}
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
        alertname: CrawlLimitNearlyReached
        exp_alerts:
          - exp_labels: {severity: info, job: crawl, instance: b}
            exp_annotations:
              summary: The crawl at b has used 95% of a limit
              description: It stops when a limit on pages or bytes is reached.
      - eval_time: 35m
        alertname: CrawlerProcessDown
        exp_alerts:
          - exp_labels: {severity: warning, job: processes, instance: w}
            exp_annotations:
              summary: A process of the crawl at w does not respond
              description: It hangs, or cannot be reached. If it is dead, the other workers take over its URLs. Look at its log.
      - eval_time: 35m
        alertname: CrawlMembersMissing
        exp_alerts:
          - exp_labels: {severity: warning, job: crawl, instance: worker dead, state: alive}
            exp_annotations:
              summary: Processes of the crawl at worker dead are missing
              description: "3 are left. The other workers take over the URLs of a dead one. Look at the logs, unless they were stopped on purpose."
      - eval_time: 35m
        alertname: CrawlWithoutFrontier
        exp_alerts:
          - exp_labels: {severity: critical, job: crawl, instance: frontier dead, phase: running}
            exp_annotations:
              summary: No frontier runs the crawl at frontier dead
              description: Workers get no URLs until one is started. Nothing is lost.
      - eval_time: 35m
        alertname: CrawlEndedAbnormally
        exp_alerts:
          - exp_labels: {severity: critical, job: crawl, instance: full disk, reason: output-failure}
            exp_annotations:
              summary: "The crawl at full disk has ended: output-failure"
              description: Look at its log. When the cause is removed, it can be resumed.
      - eval_time: 35m
        alertname: CrawlLost
        exp_alerts:
          - exp_labels: {severity: critical, job: crawl, instance: lost}
            exp_annotations:
              summary: Redis does not have the crawl of lost any more, which was not over
              description: It was purged, or Redis has lost its data. The alert ends with the next crawl, or after an hour.
      - eval_time: 35m
        alertname: CrawlNetworkDown
        exp_alerts:
          - exp_labels: {severity: critical, job: processes, instance: w}
            exp_annotations:
              summary: The network of the crawler at w is down
              description: For 1m 30s. Requests wait, and URLs do not fail yet.
      - eval_time: 35m
        alertname: CrawlDiskNearlyFull
        exp_alerts:
          - exp_labels: {severity: critical, job: processes, instance: w}
            exp_annotations:
              summary: A disk to which the crawler at w writes is nearly full
              description: "381.5MiB are left. When it is full, the crawl stops with an error."
      - eval_time: 35m
        alertname: CrawlRedisDown
        exp_alerts:
          - exp_labels: {severity: critical, job: crawl, instance: a}
            exp_annotations:
              summary: Redis does not reply to the crawler at a
              description: The crawl waits for it, and nothing is lost. Other metrics of the crawl have their last value, or none.
"#;

#[test]
fn crawl_in_one_process_has_every_series_that_contrib_selects() {
    let next = |request: &Request| Response::page(format!("<a href='{}x'>next</a>", request.path));
    let web = serve(Site::new().fallback(next));
    let ranks = serve(Site::new().fallback(|_| Response::text(r#"{"response":[]}"#)));
    let place = StateDir::new();
    let options = "--delay 20ms --similarity 0 --max-time 10m --metrics 127.0.0.1:0 --pagerank-url";
    let mut crawl = place.crawl(web.url("/")).with(options).with_one(ranks.url("")).start();
    crawl.until_message("/metrics\n");
    let server = Server::announced(&crawl.stderr_so_far());
    // Those of Redis, and of the processes of a distributed crawl.
    let exceptions = ["crawler_redis_", "crawler_heartbeat_", "crawler_members"];
    let missing = || -> Vec<String> {
        let metrics = server.get("/metrics").body;
        queries().iter().flat_map(|query| query.missing(&metrics, &exceptions)).collect()
    };
    crawl.until("a request to the service", |_| !missing().iter().any(|what| what.contains("pagerank")));
    assert_eq!(missing(), Vec::<String>::new());
    crawl.signal(Signal::KILL);
    crawl.status();
}

#[test]
#[ignore = "needs logrotate and fuser: run by make test"]
fn logrotate_signals_the_processes_that_write_to_the_log_and_no_others() {
    let next = |request: &Request| Response::page(format!("<a href='{}x'>next</a>", request.path));
    let (web, directory) = (serve(Site::new().fallback(next)), TempDir::new().unwrap());
    let path = |name: &str| directory.path().join(name);
    let config =
        read("contrib/logrotate/crawler").replace("/var/log/crawler", directory.path().to_str().unwrap());
    fs::write(path("config"), config).unwrap();
    fs::set_permissions(path("config"), fs::Permissions::from_mode(0o600)).unwrap();
    let seed = web.url("/");
    let start = |log: &str| {
        let mut command = binary();
        command.args(["crawl", &seed, "--allow-private", "--delay", "20ms", "--max-pages", "100000"]);
        command.env("CRAWLER_LOG", log).env("CRAWLER_LOG_LEVEL", "debug");
        Running::start(command, directory.path().to_owned(), None)
    };
    let log = path("a.log");
    let (mut writer, mut other) = (start(log.to_str().unwrap()), start("-"));
    // An empty log is not rotated.
    writer.until("its log", |_| fs::metadata(&log).is_ok_and(|log| log.len() > 0));
    other.until_message("response");
    let mut reader = Command::new("tail").arg("-f").arg(&log).stdout(Stdio::piped()).spawn().unwrap();
    // It has opened the log.
    let mut lines = BufReader::new(reader.stdout.take().unwrap());
    assert_ne!(lines.read_line(&mut String::new()).unwrap(), 0);
    let rotate = Command::new("/usr/sbin/logrotate")
        .args(["--force", "--state"])
        .args([path("state"), path("config")])
        .output()
        .unwrap();
    assert!(rotate.status.success(), "{}", String::from_utf8_lossy(&rotate.stderr));
    writer.until("a new log", |_| fs::read_to_string(&log).is_ok_and(|text| text.contains("response")));
    assert!(path("a.log.1").exists());
    assert!(reader.try_wait().unwrap().is_none(), "it only reads");
    reader.kill().unwrap();
    reader.wait().unwrap();
    // Processes that log to standard error survive the signal, too.
    other.signal(Signal::HUP);
    other.until_message("signal=SIGHUP");
    for running in [writer, other] {
        running.signal(Signal::TERM);
        running.wait().expect(143);
    }
}

#[test]
fn services_of_installed_packages_do_not_start() {
    let directory = TempDir::new().unwrap();
    let log = directory.path().join("log");
    for program in ["apt-get", "systemctl", "sudo"] {
        // As root, or with it.
        let script = match program {
            "sudo" => "#!/bin/sh\nshift\nexec \"$@\"\n".to_owned(),
            _ => format!("#!/bin/sh\necho {program} \"$@\" >> '{}'\n", log.display()),
        };
        let path = directory.path().join(program);
        fs::write(&path, script).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let path = format!("{}:{}", directory.path().display(), std::env::var("PATH").unwrap());
    let need = Command::new(root().join("scripts/need"))
        .args(["nosuchcmd-promtool=prometheus", "nosuchcmd-cc=gcc", "sh=dash"])
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(need.status.success(), "{}", String::from_utf8_lossy(&need.stderr));
    let commands = fs::read_to_string(log).unwrap();
    let commands: Vec<&str> = commands.lines().collect();
    assert_eq!(commands[0], "systemctl mask --quiet prometheus.service");
    assert_eq!(commands.last().unwrap().rsplit_once(" prometheus").unwrap().1, " gcc");
    assert_eq!(commands.len(), 3, "{commands:?}");
}

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
