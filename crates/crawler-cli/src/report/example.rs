//! Contents of reports for tests: a crawl as usual, and one whose every text is hostile.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crawler::internal::backend::Snapshot;
use crawler::internal::crawl_view::{CrawlPhase, CrawlView, Limits};
use crawler::internal::statistics::{HostTable, Sample, Statistics};
use serde_json::json;

use super::content::{
    DuplicateUrl, FailedUrl, LinkSearchExtent, Listed, RedirectedUrl, ReportContent, StructureNode,
    UrlFindings,
};

/// Texts that would be elements, scripts or directions if they were not escaped.
pub const HOSTILE: [&str; 5] = [
    "</script><script>window.attacked=1</script>",
    "\"><img src=x onerror=window.attacked=1>",
    "| `code` [a](javascript:alert) <b>|\n# heading",
    "\u{202e}reversed\u{2066}\0\u{1b}[31m",
    "javascript:window.attacked=1",
];

/// A crawl that had nothing to do.
pub fn empty() -> ReportContent {
    ReportContent {
        version: "0.1.0".into(),
        written_at: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
        seeds: Listed::default(),
        options: Vec::new(),
        view: CrawlView {
            snapshot: Snapshot::default(),
            statistics: Arc::new(Statistics::default()),
            elapsed: Duration::ZERO,
            limits: Limits::default(),
            phase: CrawlPhase::Ended("nothing is pending".into()),
        },
        can_resume: false,
        end: None,
        urls: UrlFindings::default(),
    }
}

/// A crawl with this many hosts and failed URLs.
pub fn usual(hosts: u64, failed: u64) -> ReportContent {
    let mut content = empty();
    content.seeds = listed(["https://www.example.org/".into(), "https://shop.example.org/".into()]);
    content.options = vec![
        ("--max-pages".into(), "2000".into()),
        ("--scope".into(), "domain".into()),
        ("--exclude".into(), "/calendar/|sessionid=".into()),
        ("--follow-nofollow".into(), String::new()),
    ];
    content.end = Some("Stopped: 2,000 pages (--max-pages)".into());
    content.view.snapshot = snapshot(failed);
    content.view.elapsed = Duration::from_millis(754_300);
    content.view.limits = Limits {
        max_pages: 2_000,
        max_time: Some(Duration::from_secs(3_600)),
        max_depth: Some(12),
        delay: Duration::from_secs(1),
        ..Limits::default()
    };
    content.view.statistics = Arc::new(statistics(hosts, failed));
    content.urls = findings(failed);
    content
}

/// A crawl in which every text is hostile, and numbers are enormous.
pub fn hostile() -> ReportContent {
    let long = format!("https://example.org/{}", "x".repeat(1_980));
    let texts: Vec<String> = HOSTILE.iter().map(|text| (*text).to_owned()).chain([long]).collect();
    let urls: Vec<String> =
        texts.iter().flat_map(|text| [text.clone(), format!("https://a.test/{text}")]).collect();
    let mut content = usual(3, 20);
    content.seeds = listed(urls.clone());
    content.options = texts.iter().map(|text| (text.clone(), text.clone())).collect();
    content.end = Some(texts.join(" "));
    content.version.clone_from(&texts[0]);
    let mut statistics = Statistics::default();
    for text in &texts {
        content.view.snapshot.outcomes.insert(text.clone(), u64::MAX / 100);
        content.view.snapshot.links_rejected.insert(text.clone(), 7);
        statistics.languages.insert(text.clone(), u64::MAX / 100);
        statistics.content_types.insert(text.clone(), 1);
    }
    statistics.hosts = host_table(texts.iter().map(|text| (text.clone(), u64::MAX / 1_000)));
    statistics.depths = vec![u64::MAX / 1_000; 100];
    content.view.statistics = Arc::new(statistics);
    content.view.snapshot.admitted = u64::MAX / 2;
    content.urls.failed = listed(urls.iter().map(|url| FailedUrl {
        outcome: url.clone(),
        found_on: Some(url.clone()),
        linked_from: listed(urls.clone()),
        ..failed_url(url.clone(), 1)
    }));
    let redirect =
        |url: &String| RedirectedUrl { url: url.clone(), to: url.clone(), rejected: Some(url.clone()) };
    content.urls.redirects = listed(urls.iter().map(redirect));
    let duplicate = |url: &String| DuplicateUrl { url: url.clone(), of: Some(url.clone()), is_near: true };
    content.urls.duplicates = listed(urls.iter().map(duplicate));
    let node = |text: &String| StructureNode {
        name: text.clone(),
        urls: 9,
        pages: 9,
        failed: 20,
        ..Default::default()
    };
    content.urls.structure =
        StructureNode { urls: 54, children: texts.iter().map(node).collect(), ..Default::default() };
    content
}

fn listed<T>(rows: impl IntoIterator<Item = T>) -> Listed<T> {
    let rows: Vec<T> = rows.into_iter().collect();
    Listed { total: rows.len() as u64, rows }
}

fn snapshot(failed: u64) -> Snapshot {
    let mut snapshot = Snapshot::default();
    (snapshot.pages, snapshot.bytes, snapshot.received) = (2_000, 61_400_000, 14_100_000);
    (snapshot.links_new, snapshot.links_seen, snapshot.requests) = (4_100, 31_500, 2_980);
    snapshot.links_rejected = [("out of scope".to_owned(), 812), ("excluded".to_owned(), 64)].into();
    let outcomes = [
        ("page", 2_000),
        ("redirect", 267),
        ("not a page", 131),
        ("robots.txt", 41),
        ("duplicate", 38),
        ("near-duplicate", 24),
        ("HTTP 404", failed - failed / 4),
        ("timeout", failed / 4),
    ];
    snapshot.outcomes = outcomes.into_iter().map(|(label, count)| (label.to_owned(), count)).collect();
    snapshot.admitted = snapshot.outcomes.values().sum::<u64>() + 1_203;
    snapshot
}

fn statistics(hosts: u64, failed: u64) -> Statistics {
    let mut statistics = Statistics::default();
    statistics.started_at = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_799_990_000));
    statistics.statuses = [(200, 2_131), (301, 203), (302, 64), (404, failed), (500, 3), (503, 12)].into();
    statistics.failures.timeout = failed / 4;
    statistics.failures.connect = 2;
    statistics.retries = 17;
    statistics.robots_txt.fetched = hosts;
    statistics.robots_txt.disallowed = 41;
    statistics.languages = [("en", 1_311), ("de", 507), ("fr", 122), ("ja", 60)]
        .map(|(name, count)| (name.into(), count))
        .into();
    statistics.content_types = [("text/html", 2_000), ("application/pdf", 87), ("image/png", 44)]
        .map(|(name, count)| (name.into(), count))
        .into();
    statistics.depths = vec![2, 48, 380, 902, 430, 171, 52, 12, 3];
    for page in 0..2_000_u64 {
        statistics.page_bytes.record_bytes(300 + (page * page) % 90_000);
        statistics.stages.first_byte.record(Duration::from_micros(20_000 + page * page % 400_000));
        statistics.stages.download.record(Duration::from_micros(900 + page % 4_000));
    }
    for second in 0..=754_u32 {
        let mut sample = Sample::default();
        let time = f64::from(second);
        sample.at_seconds = second;
        sample.pages = (time * 2.2 + 40.0 * (time / 60.0).sin() + 40.0).max(0.0) as u64;
        sample.bytes = sample.pages * 30_700;
        sample.failures = sample.pages * failed / 2_000;
        sample.pending = (1_600.0 - (time - 400.0).powi(2) / 110.0).max(0.0) as u64 + u64::from(second);
        statistics.series.push(sample);
    }
    statistics.hosts =
        host_table((0..hosts).map(|host| (format!("host-{host}.example.org"), 4_000 / (host + 2))));
    statistics
}

/// Hosts with this many requests. Only a stored table can be made from outside of the library.
fn host_table(hosts: impl Iterator<Item = (String, u64)>) -> HostTable {
    let host = |(index, (name, requests)): (u64, (String, u64))| {
        let statistics = json!({"requests": requests, "pages": requests / 3 * 2, "bytes": requests.saturating_mul(31_000), "failures": index % 7,
            "consecutive_failures": 0, "last_failure": null, "latency_total_ms": requests.saturating_mul(40 + index * 7 % 300),
            "latency_max_ms": 900, "smallest_gap_ms": 1_000 + index * 13 % 90, "early_requests": 0, "delay_ms": 1_000,
            "robots": "Rules", "crawl_delay_ms": null, "last_request_at": null, "has_succeeded": true, "robots_at": null});
        (name, statistics)
    };
    let hosts: serde_json::Map<String, serde_json::Value> = (0..).zip(hosts).map(host).collect();
    serde_json::from_value(json!({"hosts": hosts})).unwrap()
}

fn findings(failed: u64) -> UrlFindings {
    let page = |number: u64| format!("https://www.example.org/articles/{}/page-{number}", number % 12);
    let failed = (0..failed).map(|number| {
        let pages: Vec<String> = (0..number % 6).map(|link| page(number + link)).collect();
        FailedUrl {
            found_on: Some(page(number)),
            linked_from: Listed {
                total: pages.len() as u64 + number % 3 * u64::from(!pages.is_empty()),
                rows: pages,
            },
            ..failed_url(
                format!("https://www.example.org/old/{}/missing-{number}?ref=nav&page=2", number % 9),
                number,
            )
        }
    });
    let redirects = (0..40).map(|number| RedirectedUrl {
        url: format!("http://www.example.org/articles/{number}"),
        to: format!("https://www.example.org/articles/{number}/"),
        rejected: (number % 9 == 8).then(|| "out of scope".into()),
    });
    let duplicates = (0..12).map(|number| DuplicateUrl {
        url: format!("https://www.example.org/print/{number}"),
        of: Some(page(number)),
        is_near: number % 3 == 0,
    });
    UrlFindings {
        failed: listed(failed),
        redirects: listed(redirects),
        duplicates: listed(duplicates),
        structure: structure(),
        link_search: LinkSearchExtent::Complete,
    }
}

fn failed_url(url: String, number: u64) -> FailedUrl {
    let is_temporary = number % 4 == 3;
    FailedUrl {
        url,
        kind: if number.is_multiple_of(10) { "requisite" } else { "page" },
        outcome: if is_temporary { "timeout".into() } else { "HTTP 404".into() },
        is_temporary,
        depth: (number % 7) as u32,
        at: None,
        found_on: None,
        linked_from: Listed::default(),
    }
}

fn structure() -> StructureNode {
    let leaf = |name: &str, urls: u64, failed: u64| StructureNode {
        name: name.into(),
        pages: urls - failed,
        urls,
        failed,
        ..StructureNode::default()
    };
    let articles = StructureNode {
        children: (0..12).map(|year| leaf(&format!("{}/", 2015 + year), 20 + year * 9, year % 4)).collect(),
        omitted: (3, 40),
        ..leaf("articles/", 1_100, 18)
    };
    let www = StructureNode {
        children: vec![articles, leaf("products/", 420, 4), leaf("old/", 160, 120), leaf("team/", 38, 0)],
        ..leaf("www.example.org", 1_800, 142)
    };
    let shop = StructureNode {
        children: vec![leaf("cart/", 300, 8), leaf("item/", 290, 12)],
        ..leaf("shop.example.org", 640, 20)
    };
    StructureNode { children: vec![www, shop, leaf("blog.example.org", 60, 0)], ..leaf("", 2_500, 162) }
}
