//! What is said about a crawl, and how it fits a terminal.

use crawler::internal::backend::SnapshotInternals as _;
use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::live::layout::{joined, width};
use crate::live::screen::{Size, Style};
use crate::live::warnings;
use crate::values::{MAX_COUNT, MAX_LARGE_SIZE};

/// A crawl of some hosts in its middle.
fn view() -> CrawlView {
    let mut snapshot = Snapshot::default();
    (snapshot.admitted, snapshot.completed, snapshot.pages) = (500, 268, 256);
    (snapshot.bytes, snapshot.requests) = (11_800_000, 280);
    let outcomes = [("page", 256), ("HTTP 404", 10), ("timeout", 2)];
    snapshot.outcomes = outcomes.map(|(label, count)| (label.to_owned(), count)).into();
    let host = |host: &str, waiting, why| WaitingHost { host: host.into(), waiting, leased: 1, why };
    let (cause, for_) = ("connection refused".to_owned(), Duration::from_millis(39_500));
    *snapshot.waiting_hosts_mut() = vec![
        host("www.example.org", 200, WaitReason::Delay(Duration::from_secs(1))),
        host("www.a-host-with-a-rather-long-name.example.org:8080", 20, WaitReason::Busy),
        host("dead.example.org", 12, WaitReason::BackingOff { for_, cause }),
        host("norobots.example.org", 5, WaitReason::RobotsTxt("HTTP 503".into())),
        host("slow.example.org", 1, WaitReason::Slow),
    ];
    let mut statistics = Statistics::default();
    statistics.in_flight = 12;
    let latest = |url: &str, outcome: &str| LatestUrl {
        url: url.into(),
        outcome: outcome.into(),
        bytes: 12_100,
        ms: 120,
        ..LatestUrl::default()
    };
    statistics.latest.push_back(latest("https://www.example.org/old", "HTTP 404"));
    statistics
        .latest
        .push_back(latest(&format!("https://www.example.org/{}last.html", "path/".repeat(30)), "page"));
    CrawlView {
        snapshot,
        statistics: Arc::new(statistics),
        elapsed: Duration::from_secs(6),
        limits: Limits {
            max_pages: 10_000,
            max_bytes: 50_000_000,
            delay: Duration::from_secs(1),
            ..Limits::default()
        },
        phase: CrawlPhase::Running,
    }
}

fn status(view: &CrawlView) -> LiveStatus {
    LiveStatus::new(view, &mut History::default())
}

fn text(columns: usize, rows: usize, is_verbose: bool) -> Vec<String> {
    let lines = status(&view()).lines(Size { columns, rows }, is_verbose);
    lines.into_iter().map(|(_, line)| line.trim_end().to_owned()).collect()
}

#[test]
fn lines_say_how_far_a_crawl_is_and_what_holds_it_up() {
    let expected = [
        "256 of 10,000 pages · 11.8 of 50 MB · 0:06",
        "232 pending · 12 in flight · 12 failed (HTTP 404 ×10, timeout ×2) · 280 requests",
        "Waiting: dead.example.org          12 URLs  backing off, next try in 39 s: conn…",
        "         norobots.example.org       5 URLs  robots.txt fails (HTTP 503)",
        "         slow.example.org            1 URL  slow",
        "         www.example.org          200 URLs  delay 1 s",
        "         www.a-host-…le.org:8080   20 URLs  the workers are busy",
        "Fetched: www.example.org/path/path/…h/path/path/path/last.html  12.1 KB · 120 ms",
        "         https://www.example.org/old  HTTP 404 · 120 ms",
    ];
    assert_eq!(text(80, 24, false), expected);
    let expected = ["256 of 10,000 pages · 0:06", "232 pending · 12 failed (HTTP 404 ×10, …)"];
    assert_eq!(text(41, 24, false)[..2], expected);
    let expected =
        ["256 of 10,000 pages", "232 pending", "Waiting:", "  dead….org  backin…", "  noro….org  robots…"];
    assert_eq!(text(20, 24, false)[..5], expected);
    let verbose = text(80, 24, true);
    assert!(verbose[2].starts_with("Queues:  new 0 · "), "{verbose:?}");
}

/// Why the URLs of a host wait in a crawl with a delay of one second.
fn reason(why: WaitReason, edit: impl FnOnce(&mut HostStatistics)) -> String {
    let mut host = HostStatistics::default();
    edit(&mut host);
    let waiting = WaitingHost { host: "a.test".into(), waiting: 3, leased: 0, why };
    let mut statistics = Statistics::default();
    statistics.hosts = serde_json::from_value(json!({"hosts": {"a.test": host}})).unwrap();
    why_waiting(&waiting, &statistics, Duration::from_secs(1))
}

#[test]
fn hosts_wait_for_the_reason_that_holds_them_up() {
    let delay = |millis| WaitReason::Delay(Duration::from_millis(millis));
    let pause = || WaitReason::ServerDelay(Duration::from_millis(59_900));
    let slow = |host: &mut HostStatistics| (host.requests, host.latency_total_ms) = (2, 20_000);
    let failing = |failures: u32| {
        move |host: &mut HostStatistics| {
            slow(host);
            (host.consecutive_failures, host.last_failure) = (failures, Some("timeout".into()));
        }
    };
    assert_eq!(reason(delay(1_000), |_| ()), "delay 1 s");
    let of_robots = |host: &mut HostStatistics| host.crawl_delay_ms = Some(20_000);
    assert_eq!(reason(delay(20_000), of_robots), "delay 20 s (robots.txt)");
    // The delay has adapted to the responses.
    assert_eq!(reason(delay(10_001), slow), "slow: 10.0 s per response");
    assert_eq!(reason(delay(10_001), failing(2)), "slow: 10.0 s per response");
    assert_eq!(reason(delay(10_001), failing(3)), "failing: timeout");
    let resting = WaitReason::BackingOff { for_: Duration::from_secs(40), cause: "timeout".into() };
    assert_eq!(reason(resting, |_| ()), "backing off, next try in 40 s: timeout");
    // A host that asks for a pause does so with a status that counts as a failure.
    assert_eq!(reason(pause(), failing(1)), "waits 59 s, as the server requested");
    // The frontier does not know a Crawl-delay before the first response.
    let of_robots = |host: &mut HostStatistics| host.crawl_delay_ms = Some(60_000);
    assert_eq!(reason(pause(), of_robots), "delay 1 m 00 s (robots.txt)");
    for state in [RobotsState::Failing, RobotsState::Unavailable] {
        let robots = |host: &mut HostStatistics| {
            (host.robots, host.last_failure) = (state, Some("HTTP 503".into()));
        };
        assert_eq!(reason(pause(), robots), "robots.txt fails (HTTP 503)");
    }
}

#[test]
fn lines_fit_every_terminal() {
    for (columns, rows) in
        (1..130).flat_map(|columns| [(columns, 3), (columns, 8), (columns, 24), (columns, 80)])
    {
        let lines = text(columns, rows, true);
        assert!(lines.iter().all(|line| width(line) <= columns), "{columns}: {lines:?}");
        assert!(lines.len() <= rows.max(7), "{rows}: {lines:?}");
    }
    assert_eq!(text(80, 9, false).len(), 5, "what is below is left out");
}

#[test]
fn paused_crawl_has_no_estimate() {
    let mut history = History::default();
    let mut crawl = view();
    for second in 0..30 {
        crawl.elapsed = Duration::from_secs(second);
        (crawl.snapshot.pages, crawl.snapshot.admitted) = (40 * second, 500 + 500 * second);
        LiveStatus::new(&crawl, &mut history);
    }
    let headline = joined(&LiveStatus::new(&crawl, &mut history).headline());
    assert_eq!(headline, "1,160 of 10,000 pages · 11.8 of 50 MB · 0:29 · 40 pages/s · about 4 m left");
    crawl.phase = CrawlPhase::Paused;
    let headline = joined(&LiveStatus::new(&crawl, &mut history).headline());
    assert_eq!(headline, "paused · 1,160 of 10,000 pages · 11.8 of 50 MB · 0:29");
}

#[test]
fn unlimited_crawl_has_no_budgets() {
    let limits = Limits { max_pages: MAX_COUNT, max_bytes: MAX_LARGE_SIZE, ..Limits::default() };
    let time = Limits { max_time: Some(Duration::from_secs(3_600)), ..limits.clone() };
    let headline = |limits| joined(&status(&CrawlView { limits, ..view() }).headline());
    assert_eq!(headline(limits), "256 pages · 11.8 MB · 0:06");
    assert_eq!(
        headline(time),
        "256 pages · 11.8 MB · 0:06 of 1 h 00 m · at most 59 m 54 s left (--max-time)"
    );
}

#[test]
fn budgets_outages_and_hosts_that_were_given_up_are_warnings() {
    let mut crawl = view();
    assert_eq!(warnings::of(&crawl), Vec::<String>::new());
    crawl.snapshot.pages = 9_612;
    crawl.snapshot.network_down = Some(130);
    for host in ["a.test", "b.test"] {
        crawl.snapshot.unreachable_hosts.insert(host.into(), "timeout".into());
    }
    (crawl.limits.max_time, crawl.elapsed) = (Some(Duration::from_secs(100)), Duration::from_secs(95));
    let expected = [
        "the network has been down for 2 m 10 s; no URL fails meanwhile",
        "gave up a.test (timeout), and 1 other host",
        "the crawl ends soon: 9,612 of 10,000 pages (--max-pages)",
        "the crawl ends soon: 1:35 of 1 m 40 s (--max-time)",
    ];
    assert_eq!(warnings::of(&crawl), expected);
    let lines = status(&crawl).lines(Size { columns: 80, rows: 24 }, false);
    let shown: Vec<&str> =
        lines.iter().filter(|(style, _)| *style == Style::Warning).map(|(_, line)| &**line).collect();
    assert_eq!(shown.len(), 3);
    assert_eq!(shown[2], "! and 2 more warnings");
    crawl.phase = CrawlPhase::Ended("finished".into());
    assert_eq!(warnings::of(&crawl), Vec::<String>::new());
}
