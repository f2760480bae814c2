use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;

use super::host_table::{MAX_FAILURE_BYTES, MAX_HOSTS};
use super::recorder::{EndedRequest, PageFacts, RequestFacts, UrlFacts};
use super::*;
use crate::fetch::throttle::RequestGap;
use crate::outcome::Outcome;

/// What a recorder records, in any order.
#[derive(Debug, Clone)]
enum Recorded {
    Request { host: u8, status: Option<u16>, gap: Option<u64>, latency: u64 },
    Page { depth: u32, language: u8, bytes: u64 },
    Failure { host: u8, kind: u8 },
    Type(u8),
    Robots(u8, u8),
    Sample(u32, u64),
}

fn recorded() -> impl Strategy<Value = Recorded> {
    prop_oneof![
        (0..9u8, proptest::option::of(200..600u16), proptest::option::of(0..5_000u64), 0..90_000u64)
            .prop_map(|(host, status, gap, latency)| Recorded::Request { host, status, gap, latency }),
        (0..200u32, 0..30u8, 0..9_000_000u64).prop_map(|(depth, language, bytes)| Recorded::Page {
            depth,
            language,
            bytes
        }),
        (0..9u8, 0..4u8).prop_map(|(host, kind)| Recorded::Failure { host, kind }),
        (0..40u8).prop_map(Recorded::Type),
        (0..9u8, 0..5u8).prop_map(|(host, state)| Recorded::Robots(host, state)),
        (0..10_000u32, 0..100u64).prop_map(|(at, pages)| Recorded::Sample(at, pages)),
    ]
}

fn failure(kind: u8) -> Outcome {
    let cause = "x".repeat(500);
    match kind {
        0 => Outcome::DnsFailed { cause, is_temporary: false },
        1 => Outcome::ConnectionFailed { cause },
        2 => Outcome::TlsFailed { cause },
        _ => Outcome::InvalidResponse { cause },
    }
}

fn request<'a>(host: &'a str, status: Option<u16>, failure: Option<&'a Outcome>) -> EndedRequest<'a> {
    EndedRequest {
        host,
        is_sent: true,
        status,
        failure,
        first_byte: Some(Duration::from_millis(3)),
        download: Some(Duration::from_millis(1)),
        latency: Duration::from_millis(4),
        bytes: 10,
        gap: RequestGap::default(),
        delay: Duration::from_secs(1),
    }
}

fn statistics(all: &[Recorded]) -> Statistics {
    let (recorder, mut series) = (Recorder::default(), TimeSeries::default());
    for recorded in all {
        match recorded {
            Recorded::Request { host, status, gap, latency } => {
                let gap = gap.map(Duration::from_millis);
                let (host, latency) = (format!("h{host}.test"), Duration::from_millis(*latency));
                let request = request(&host, *status, None);
                recorder.record_request(&EndedRequest {
                    gap: RequestGap { time: gap, ..RequestGap::default() },
                    latency,
                    ..request
                });
            }
            Recorded::Page { depth, language, bytes } => record_page(&recorder, *depth, *language, *bytes),
            Recorded::Failure { host, kind } => {
                recorder.record_request(&request(&format!("h{host}.test"), None, Some(&failure(*kind))));
            }
            Recorded::Type(kind) => {
                recorder.record_content_type(Some(&format!("Text/T{kind}; charset=utf-8")))
            }
            Recorded::Robots(host, state) => {
                let states = [RobotsState::Rules, RobotsState::Missing, RobotsState::Unavailable];
                let state = states.get(usize::from(*state)).copied().unwrap_or_default();
                recorder.record_robots(&format!("h{host}.test"), state, None);
            }
            Recorded::Sample(at_seconds, pages) => {
                let mut one = TimeSeries::default();
                one.push(Sample { at_seconds: *at_seconds, pages: *pages, ..Sample::default() });
                series.merge(&one);
            }
        }
    }
    Statistics { series, started_at: Some(UNIX_EPOCH), ..recorder.recorded() }
}

fn record_page(recorder: &Recorder, depth: u32, language: u8, bytes: u64) {
    let language = format!("l{}-DE", char::from(b'a' + language % 26));
    let (title, is_truncated) = ("a title".into(), bytes.is_multiple_of(7));
    let page = PageFacts { title, language: Some(language), bytes, is_truncated };
    recorder.record_completion(&UrlFacts {
        url: "http://h1.test/",
        host: "h1.test",
        outcome: &Outcome::Page,
        depth,
        request: RequestFacts { status: Some(200), bytes, latency: Duration::from_millis(5) },
        page: Some(&page),
    });
}

fn merged(parts: &[&Statistics]) -> Statistics {
    let mut merged = Statistics::default();
    parts.iter().for_each(|part| merged.merge(part));
    merged
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn merging_is_associative_and_commutative(
        a in proptest::collection::vec(recorded(), 0..80),
        b in proptest::collection::vec(recorded(), 0..80),
        c in proptest::collection::vec(recorded(), 0..80),
    ) {
        let [a, b, c] = [a, b, c].map(|part| statistics(&part));
        let (ab, bc) = (merged(&[&a, &b]), merged(&[&b, &c]));
        prop_assert_eq!(merged(&[&ab, &c]), merged(&[&a, &bc]));
        prop_assert_eq!(merged(&[&a, &b, &c]), merged(&[&c, &b, &a]));
    }

    #[test]
    fn statistics_are_the_same_after_they_were_stored(all in proptest::collection::vec(recorded(), 0..80)) {
        let statistics = statistics(&all);
        let bytes = postcard::to_stdvec(&statistics).unwrap();
        prop_assert_eq!(&postcard::from_bytes::<Statistics>(&bytes).unwrap(), &statistics);
        let json = serde_json::to_string(&statistics).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Statistics>(&json).unwrap(), &statistics);
    }
}

/// Records what a server with endless names sends, and returns how many bytes it takes.
fn hostile(names: std::ops::Range<usize>) -> Statistics {
    let (recorder, long) = (Recorder::default(), "é".repeat(1_000));
    for number in names {
        let host = format!("{}{number}.{}.test", "h".repeat(60), "n".repeat(300));
        let failure = Outcome::ConnectionFailed { cause: long.clone() };
        recorder.record_request(&request(&host, Some((number % 1_000) as u16), Some(&failure)));
        recorder.record_content_type(Some(&format!("application/x-{number}{}", "y".repeat(80))));
        recorder.record_content_type(Some(&long));
        let language: String =
            number.to_string().bytes().map(|digit| char::from(b'a' + digit - b'0')).collect();
        let (title, language, bytes) = (long.clone(), Some(language), number as u64);
        let page = PageFacts { title, language, bytes, is_truncated: false };
        recorder.record_completion(&UrlFacts {
            url: &format!("http://{host}/{long}"),
            host: &host,
            outcome: &Outcome::Page,
            depth: number as u32,
            request: RequestFacts::default(),
            page: Some(&page),
        });
    }
    recorder.recorded()
}

#[test]
fn statistics_of_a_server_with_endless_names_are_bounded() {
    let mut all = hostile(0..10_000);
    all.merge(&hostile(10_000..20_000));
    assert_eq!((all.content_types.len(), all.languages.len()), (MAX_NAMES + 1, MAX_NAMES + 1));
    assert_eq!(all.content_types.values().sum::<u64>(), 40_000);
    assert_eq!(all.languages.values().sum::<u64>(), 20_000);
    assert_eq!((all.depths.len(), all.depths.iter().sum::<u64>()), (MAX_DEPTHS, 20_000));
    assert_eq!(all.hosts.len(), MAX_HOSTS);
    assert_eq!(all.latest.len(), MAX_LATEST);
    let longest = all.hosts.iter().filter_map(|(_, host)| host.last_failure.as_deref()).map(str::len).max();
    assert!(longest.unwrap() <= MAX_FAILURE_BYTES);
    let bytes = serde_json::to_vec(&all).unwrap().len();
    assert!(bytes < 1_000_000, "{bytes}");
    let bytes = postcard::to_stdvec(&all).unwrap().len();
    assert!(bytes < 700_000, "{bytes}");
}

#[test]
fn common_names_and_busy_hosts_stay_among_endless_new_ones() {
    let recorder = Recorder::default();
    for number in 0..5_000 {
        recorder.record_content_type(Some(&format!("x/{number}")));
        recorder.record_request(&request(&format!("{number}.test"), Some(200), None));
        for _ in 0..2 {
            recorder.record_content_type(Some("TEXT/HTML; charset=utf-8"));
            recorder.record_request(&request("busy.test", Some(200), None));
        }
    }
    let recorded = recorder.recorded();
    assert_eq!(recorded.content_types["text/html"], 10_000);
    assert_eq!(recorded.hosts.get("busy.test").unwrap().requests, 10_000);
}

#[test]
fn a_success_ends_a_row_of_failures() {
    let recorder = Recorder::default();
    let host = || recorder.recorded().hosts.get("h.test").unwrap().clone();
    for _ in 0..3 {
        recorder.record_request(&request("h.test", Some(503), None));
    }
    assert_eq!((host().failures, host().consecutive_failures), (3, 3));
    assert_eq!(host().last_failure.as_deref(), Some("HTTP 503"));
    recorder.record_request(&request("h.test", Some(404), None));
    assert_eq!((host().requests, host().failures, host().consecutive_failures), (4, 3, 0));
}

/// A host of which one process after the other has recorded requests with these statuses.
fn requested_by_processes(statuses: &[&[u16]]) -> HostStatistics {
    let parts: Vec<Statistics> = statuses
        .iter()
        .map(|statuses| {
            let recorder = Recorder::default();
            for status in *statuses {
                recorder.record_request(&request("h.test", Some(*status), None));
            }
            recorder.recorded()
        })
        .collect();
    let one = merged(&parts.iter().collect::<Vec<_>>());
    assert_eq!(one, merged(&parts.iter().rev().collect::<Vec<_>>()));
    one.hosts.get("h.test").unwrap().clone()
}

#[test]
fn a_later_process_continues_the_failures_of_a_host() {
    let host = requested_by_processes(&[&[200, 500, 502, 503], &[200]]);
    assert_eq!((host.failures, host.consecutive_failures), (3, 0));
    assert_eq!(host.last_failure.as_deref(), Some("HTTP 503"), "a success does not remove it");
    let row = |statuses: &[&[u16]]| requested_by_processes(statuses).consecutive_failures;
    assert_eq!(row(&[&[200, 503, 503, 503, 503], &[503]]), 5);
    assert_eq!(row(&[&[503, 503], &[503], &[503, 503]]), 5);
    assert_eq!(row(&[&[503, 503], &[404, 503], &[503, 503]]), 3, "a row ends with a success");
    assert_eq!(row(&[&[503, 503], &[503, 404], &[503, 503]]), 2);
}

#[test]
fn what_is_known_of_robots_txt_is_kept_by_a_process_that_does_not_request_it() {
    let (first, second) = (Recorder::default(), Recorder::default());
    first.record_request(&request("h.test", Some(200), None));
    first.record_robots("h.test", RobotsState::Rules, Some(Duration::from_secs(3)));
    second.record_request(&request("h.test", Some(200), None));
    let merged = merged(&[&first.recorded(), &second.recorded()]);
    let host = merged.hosts.get("h.test").unwrap();
    assert_eq!((host.robots, host.crawl_delay_ms), (RobotsState::Rules, Some(3_000)));
}

#[test]
fn requests_are_in_flight_until_their_guard_is_dropped() {
    let recorder = Recorder::default();
    let (one, two) = (recorder.start_request(), recorder.start_request());
    assert_eq!(recorder.recorded().in_flight, 2);
    drop((one, two));
    assert_eq!(recorder.recorded().in_flight, 0);
}
