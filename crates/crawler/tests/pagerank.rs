//! The PageRank prioritizer against a test service, correct and misbehaving.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crawler::internal::config::FetchConfig;
use crawler::internal::domain::Domain;
use crawler::internal::prioritizer::CandidateInternals as _;
use crawler::internal::prioritizer::pagerank::{ApiKey, PageRankConfig};
use crawler::internal::prioritizer::{Candidate, PageRank, Prioritizer, Priority, Random};
use testweb::{Hostile, Request, Response, Site, Web};
use url::Url;

const KEY: &str = "a-very-secret-key";

/// The fallback priority, which no rank of these tests results in.
const FALLBACK: u8 = 51;

/// A URL of `d{number}.test`, which has that rank. The service does not know numbers above 10.
fn candidate(number: usize, depth: u32) -> Candidate {
    candidate_at(&format!("http://d{number}.test/"), depth)
}

fn candidate_at(url: &str, depth: u32) -> Candidate {
    Candidate::for_test(Url::parse(url).unwrap().as_str(), depth, 0)
}

/// Candidates of the domains `d{number}.test`, at depth 0.
fn candidates(numbers: impl IntoIterator<Item = usize>) -> Vec<Candidate> {
    numbers.into_iter().map(|number| candidate(number, 0)).collect()
}

fn settings(url: &str) -> PageRankConfig {
    let mut settings = PageRankConfig::new(Url::parse(url).unwrap());
    settings.key = Some(ApiKey::new(KEY));
    settings.fallback = Priority::new(FALLBACK).unwrap();
    settings.retry_delay = Duration::from_millis(20);
    settings.cooldown = Duration::from_millis(200);
    settings
}

fn pagerank(settings: PageRankConfig) -> PageRank {
    PageRank::new(&FetchConfig::default(), settings, Random::seeded(1)).unwrap()
}

/// A service with these responses.
fn service(answer: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Web {
    Web::builder().site(Site::new().fallback(answer)).start()
}

/// The domains of a request.
fn requested_domains(path: &str) -> Vec<String> {
    let url = Url::parse("http://service/").unwrap().join(path).unwrap();
    assert_eq!(url.path(), "/api/v1.0/getPageRank");
    let pairs = url.query_pairs().map(|(name, value)| {
        assert_eq!(name, "domains[]");
        value.into_owned()
    });
    pairs.collect()
}

/// The API's entry for one domain.
fn entry(domain: &str) -> String {
    let number: u8 =
        domain.strip_prefix('d').and_then(|it| it.strip_suffix(".test")?.parse().ok()).unwrap_or(99);
    match number {
        0..=10 => format!(
            r#"{{"status_code":200,"error":"","page_rank_integer":{number},"page_rank_decimal":{number}.2,"rank":"345","domain":"{domain}"}}"#
        ),
        _ => format!(
            r#"{{"status_code":404,"error":"Domain not found","page_rank_integer":0,"page_rank_decimal":0,"rank":null,"domain":"{domain}"}}"#
        ),
    }
}

fn json(entries: &[String]) -> Response {
    let body = format!(r#"{{"status_code":200,"response":[{}],"last_updated":"1st"}}"#, entries.join(","));
    Response::status(200).content_type("application/json").body(body)
}

/// The response of a correct service.
fn correct(request: &Request) -> Response {
    json(&requested_domains(&request.path).iter().map(|domain| entry(domain)).collect::<Vec<_>>())
}

/// Advances the clock of timers.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

async fn numbers(pagerank: &PageRank, candidates: &[Candidate]) -> Vec<u8> {
    let priorities = pagerank.prioritize(candidates).await;
    assert_eq!(priorities.len(), candidates.len());
    priorities.into_iter().map(Priority::number).collect()
}

#[tokio::test]
async fn better_rank_gives_a_better_priority_and_depth_breaks_ties() {
    let web = service(correct);
    let pagerank = pagerank(settings(&web.url("")));
    let candidates = [
        candidate(10, 0),
        candidate(9, 0),
        candidate(9, 3),
        candidate(0, 0),
        candidate(77, 1),
        candidate(10, 20),
    ];
    assert_eq!(numbers(&pagerank, &candidates).await, [0, 9, 12, 90, 91, 8]);
    assert_eq!(web.hits(), 1);
    let stats = pagerank.stats();
    assert_eq!((stats.requests, stats.failures, stats.fallbacks, stats.is_available), (1, 0, 0, true));
}

#[tokio::test]
async fn no_candidates_send_no_request() {
    let web = service(correct);
    assert!(numbers(&pagerank(settings(&web.url(""))), &[]).await.is_empty());
    assert_eq!(web.hits(), 0);
}

#[tokio::test]
async fn key_is_sent_in_its_header_only() {
    let web = service(|request| match request.header("api-opr") {
        Some(KEY) => correct(request),
        _ => Response::status(403),
    });
    let pagerank = pagerank(settings(&web.url("")));
    assert_eq!(numbers(&pagerank, &candidates([7])).await, [27]);
    for hit in &*web.log() {
        assert!(!hit.path.contains(KEY));
        let with_key: Vec<_> = hit.headers.iter().filter(|(_, value)| value.contains(KEY)).collect();
        assert_eq!(with_key, [&("api-opr".to_owned(), KEY.to_owned())]);
        assert_eq!(hit.method, "GET");
    }
}

#[tokio::test]
async fn key_is_not_sent_to_a_redirect_target() {
    let elsewhere = service(correct);
    let to = elsewhere.url("/api/v1.0/getPageRank");
    let web = service(move |_| Response::redirect(302, &to));
    let pagerank = pagerank(settings(&web.url("")));
    assert_eq!(numbers(&pagerank, &candidates([7])).await, [FALLBACK]);
    assert_eq!(elsewhere.hits(), 0);
    assert!(!format!("{:?}", pagerank.stats()).contains(KEY));
}

#[tokio::test]
async fn more_than_a_hundred_domains_are_sent_in_batches_each_domain_once() {
    let web = service(correct);
    let found = numbers(&pagerank(settings(&web.url(""))), &candidates((0..250).chain(0..250))).await;
    assert_eq!(found[..3], [90, 81, 72]);
    assert_eq!(found[..250], found[250..]);
    let mut batches = batches(&web);
    batches.sort_by_key(Vec::len);
    assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [50, 100, 100]);
    assert_eq!(batches.concat().into_iter().collect::<BTreeSet<_>>().len(), 250);
}

/// The domains of each request to the service.
fn batches(web: &Web) -> Vec<Vec<String>> {
    web.log().iter().map(|hit| requested_domains(&hit.path)).collect()
}

#[tokio::test]
async fn connection_is_reused() {
    let web = service(correct);
    let pagerank = pagerank(settings(&web.url("")));
    for number in 0..5 {
        numbers(&pagerank, &candidates([number])).await;
    }
    assert_eq!(web.log().iter().map(|hit| hit.connection).max(), Some(1));
}

#[tokio::test]
async fn concurrent_calls_share_a_few_requests_at_a_time() {
    let web = service(|request| correct(request).delay(Duration::from_millis(300)));
    let pagerank = Arc::new(pagerank(settings(&web.url(""))));
    let mut calls = tokio::task::JoinSet::new();
    for number in (0..400).chain(0..400) {
        let pagerank = Arc::clone(&pagerank);
        calls.spawn(async move { numbers(&pagerank, &candidates([number])).await[0] });
    }
    let priorities = calls.join_all().await;
    assert_eq!(priorities.iter().filter(|priority| **priority < 90).count(), 2 * 10, "ranks 1 to 10");
    assert_eq!(web.log().max_concurrent(), 8);
    let batches = batches(&web);
    assert!(
        batches.len() <= 8 + 8,
        "{} requests; after the first ones, domains wait for the next",
        batches.len()
    );
    assert_eq!(batches.concat().len(), 400, "a domain is requested once");
}

#[tokio::test]
async fn aborted_call_does_not_block_later_ones() {
    let web = service(|request| correct(request).delay(Duration::from_millis(200)));
    let pagerank = pagerank(settings(&web.url("")));
    let all = candidates(0..900);
    let aborted = tokio::time::timeout(Duration::from_millis(50), pagerank.prioritize(&all)).await;
    assert!(aborted.is_err());
    assert_eq!(numbers(&pagerank, &candidates([7, 899])).await, [27, 90]);
}

#[tokio::test]
async fn query_is_percent_encoded() {
    let web = service(correct);
    numbers(
        &pagerank(settings(&web.url(""))),
        &[candidate_at("http://www.bücher.test/", 0), candidate(1, 0)],
    )
    .await;
    let expected = "/api/v1.0/getPageRank?domains%5B%5D=xn--bcher-kva.test&domains%5B%5D=d1.test";
    assert_eq!(web.log().paths(), [expected]);
}

#[tokio::test]
async fn addresses_and_single_label_names_are_never_sent_to_the_service() {
    let web = service(correct);
    let pagerank = pagerank(settings(&web.url("")));
    let urls =
        ["http://10.0.0.1/", "http://10.0.0.1:81/", "http://[::1]:81/", "http://intranet/", "http://box:1/"];
    let candidates: Vec<Candidate> = urls.iter().map(|url| candidate_at(url, 0)).collect();
    assert_eq!(numbers(&pagerank, &candidates).await, [FALLBACK; 5]);
    assert_eq!(web.hits(), 0);
}

#[tokio::test]
async fn ranks_are_cached_for_their_ttl() {
    let web = service(correct);
    let mut settings = settings(&web.url(""));
    settings.cache_ttl = Duration::from_secs(600);
    let pagerank = pagerank(settings);
    for _ in 0..5 {
        assert_eq!(numbers(&pagerank, &candidates([7, 50])).await, [27, 90]);
    }
    assert_eq!(numbers(&pagerank, &candidates([7, 8])).await, [27, 18]);
    assert_eq!(
        web.log().iter().map(|hit| requested_domains(&hit.path)).collect::<Vec<_>>(),
        [vec!["d7.test", "d50.test"], vec!["d8.test"]]
    );
    pass(Duration::from_secs(601)).await;
    assert_eq!(numbers(&pagerank, &candidates([7])).await, [27]);
    assert_eq!(web.hits(), 3);
}

#[tokio::test]
async fn domains_missing_from_a_response_get_the_fallback_and_are_not_queried_again() {
    let web = service(|request| {
        let entries: Vec<String> = requested_domains(&request.path)
            .iter()
            .filter(|it| *it != "d3.test")
            .map(|it| entry(it))
            .collect();
        json(&entries)
    });
    let pagerank = pagerank(settings(&web.url("")));
    for _ in 0..2 {
        assert_eq!(numbers(&pagerank, &candidates([2, 3, 4])).await, [72, FALLBACK, 54]);
    }
    assert_eq!((web.hits(), pagerank.stats().failures), (1, 0));
}

#[tokio::test]
async fn invalid_entries_do_not_affect_others() {
    let web = service(|_| {
        let entries = [
            r#"{"status_code":"200","domain":"D1.TEST","page_rank_integer":"5"}"#,
            r#"{"status_code":200,"domain":"d2.test","page_rank_integer":[5]}"#,
            r#"{"status_code":200,"domain":"d3.test","page_rank_integer":5000}"#,
            r#"{"status_code":200,"domain":["d4.test"],"page_rank_integer":5}"#,
            r#"{"status_code":200,"domain":"not-requested.test","page_rank_integer":5}"#,
            r#"17"#,
            r#"{"domain":"d5.test","page_rank_decimal":"9.6"}"#,
        ];
        json(&entries.map(str::to_owned))
    });
    let pagerank = pagerank(settings(&web.url("")));
    let expected = [45, FALLBACK, FALLBACK, FALLBACK, 0];
    assert_eq!(numbers(&pagerank, &candidates(1..=5)).await, expected);
}

#[tokio::test]
async fn temporary_failure_is_retried_with_growing_delays() {
    for status in [500, 502, 503, 429] {
        let answers = Response::sequence(vec![
            Response::status(status),
            Response::status(status),
            json(&[entry("d7.test")]),
        ]);
        let web = Web::builder()
            .site(Site::new().response("/api/v1.0/getPageRank?domains%5B%5D=d7.test", answers))
            .start();
        let mut settings = settings(&web.url(""));
        settings.retry_delay = Duration::from_millis(60);
        let pagerank = pagerank(settings);
        assert_eq!(numbers(&pagerank, &candidates([7])).await, [27], "{status}");
        let starts: Vec<Instant> = web.log().iter().map(|hit| hit.started).collect();
        assert_eq!(starts.len(), 3);
        assert!(starts[1] - starts[0] >= Duration::from_millis(30), "half of the first delay");
        assert!(starts[2] - starts[1] >= Duration::from_millis(60), "half of the second");
        let stats = pagerank.stats();
        assert_eq!((stats.failures, stats.is_available), (2, true));
        assert_eq!(stats.last_failure, Some(format!("HTTP {status}")));
    }
}

#[tokio::test]
async fn permanent_failure_is_not_retried() {
    for status in [400, 401, 403, 404, 301, 204] {
        let web = service(move |_| Response::status(status));
        let pagerank = pagerank(settings(&web.url("")));
        assert_eq!(numbers(&pagerank, &candidates([7])).await, [FALLBACK]);
        assert_eq!((web.hits(), pagerank.stats().failures), (1, 1), "{status}");
    }
}

#[tokio::test]
async fn any_invalid_response_results_in_the_fallback() {
    let huge = Response::status(200).body(format!(r#"{{"response":[{}"#, entry("d7.test,").repeat(100_000)));
    let long = Response::status(200).body(format!(
        r#"{{"response":[{}],"x":"{}"}}"#,
        entry("d7.test"),
        "x".repeat(9 << 20)
    ));
    let mut answers = vec![
        Response::text("garbage"),
        Response::text(""),
        Response::page("<html>Please log in</html>"),
        Response::text(r#"{"response":"none"}"#),
        Response::text("[".repeat(300_000)),
        huge,
        long.clone().gzip(),
        long,
        Response::text("x").delay(Duration::from_secs(200)),
    ];
    let hostile = [
        Hostile::Silence,
        Hostile::DripBody,
        Hostile::DripHeaders,
        Hostile::EndlessBody,
        Hostile::GzipBomb,
        Hostile::HugeHeader,
        Hostile::GarbageBytes,
        Hostile::NotHttp,
        Hostile::ShortBody,
        Hostile::BrokenChunk,
        Hostile::ResetImmediately,
        Hostile::ResetAfterHeaders,
        Hostile::CloseImmediately,
    ];
    answers.extend(hostile.map(Response::hostile));
    // Most of them take as long as the timeout, so they run concurrently.
    let mut services = tokio::task::JoinSet::new();
    for answer in answers {
        services.spawn(falls_back(answer));
    }
    services.join_all().await;
}

async fn falls_back(answer: Response) {
    let what = format!("{:.300}", format!("{answer:?}"));
    let web = service(move |_| answer.clone());
    let mut settings = settings(&web.url(""));
    settings.timeout = Duration::from_millis(300);
    let pagerank = pagerank(settings);
    let start = Instant::now();
    assert_eq!(numbers(&pagerank, &candidates([7, 8])).await, [FALLBACK; 2], "{what}");
    assert!(start.elapsed() < Duration::from_secs(60), "{what}: {:?}", start.elapsed());
    assert!(pagerank.stats().failures > 0, "{what}");
    assert_eq!(pagerank.stats().fallbacks, 2);
}

#[tokio::test]
async fn refused_connection_results_in_the_fallback() {
    let web = service(correct);
    let url = web.url("");
    drop(web);
    let pagerank = pagerank(settings(&url));
    assert_eq!(numbers(&pagerank, &candidates([7])).await, [FALLBACK]);
    let stats = pagerank.stats();
    assert_eq!((stats.requests, stats.is_available), (3, false));
    assert!(stats.last_failure.unwrap().contains("connection refused"));
}

#[tokio::test]
async fn outage_opens_the_circuit_breaker_until_the_service_is_back() {
    let up = Arc::new(AtomicBool::new(false));
    let is_up = Arc::clone(&up);
    let web = service(move |request| match is_up.load(Ordering::Relaxed) {
        true => correct(request),
        false => Response::status(500),
    });
    let mut settings = settings(&web.url(""));
    settings.cooldown = Duration::from_secs(600);
    let cooldown = settings.cooldown;
    let pagerank = pagerank(settings);

    assert_eq!(numbers(&pagerank, &candidates(0..250)).await, [FALLBACK; 250]);
    assert_eq!(web.hits(), 3, "three consecutive failures, and the later batches are not sent");
    for number in 0..20 {
        assert_eq!(numbers(&pagerank, &candidates([number])).await, [FALLBACK]);
    }
    assert_eq!((web.hits(), pagerank.stats().is_available), (3, false));

    pass(cooldown).await;
    assert_eq!(numbers(&pagerank, &candidates([7])).await, [FALLBACK]);
    assert_eq!(numbers(&pagerank, &candidates([7])).await, [FALLBACK]);
    assert_eq!(web.hits(), 4, "one request tests whether the service is still down");

    up.store(true, Ordering::Relaxed);
    pass(cooldown).await;
    assert_eq!(
        numbers(&pagerank, &candidates([7])).await,
        [27],
        "a domain that got the fallback is queried again"
    );
    assert_eq!(numbers(&pagerank, &candidates([8])).await, [18]);
    assert_eq!((web.hits(), pagerank.stats().is_available), (6, true));
}

/// A service that fails until it is switched on.
fn switchable_service(failure: u16) -> (Web, Arc<AtomicBool>) {
    let up = Arc::new(AtomicBool::new(false));
    let is_up = Arc::clone(&up);
    let web = service(move |request| match is_up.load(Ordering::Relaxed) {
        true => correct(request),
        false => Response::status(failure),
    });
    (web, up)
}

#[tokio::test]
async fn domains_without_a_rank_are_to_be_prioritized_again_when_the_service_is_back() {
    // Neither an outage nor a permanent failure is forgotten.
    for failure in [500, 403] {
        let (web, up) = switchable_service(failure);
        let mut settings = settings(&web.url(""));
        settings.cooldown = Duration::from_secs(600);
        let cooldown = settings.cooldown;
        let pagerank = pagerank(settings);
        let all = candidates(0..250);
        assert_eq!(numbers(&pagerank, &all).await, [FALLBACK; 250]);
        assert!(pagerank.take_revised_domains().is_empty(), "only after the cooldown");

        // No URL is found any more, so the prioritizer itself must find out that the service is back.
        up.store(true, Ordering::Relaxed);
        pass(cooldown).await;
        let revised = tokio::time::timeout(Duration::from_secs(60), async {
            loop {
                match pagerank.take_revised_domains() {
                    revised if revised.is_empty() => tokio::time::sleep(Duration::from_millis(10)).await,
                    revised => break revised,
                }
            }
        });
        let revised: BTreeSet<Domain> = revised.await.unwrap().into_iter().collect();
        assert_eq!(revised, all.iter().map(|candidate| candidate.domain.clone()).collect());
        assert!(pagerank.take_revised_domains().is_empty(), "each domain once");
        assert_eq!(numbers(&pagerank, &all[..3]).await, [90, 81, 72]);
        assert!(pagerank.stats().is_available);
    }
}

#[tokio::test]
async fn service_that_stays_down_gets_one_request_per_cooldown() {
    let (web, _) = switchable_service(500);
    let mut settings = settings(&web.url(""));
    settings.cooldown = Duration::from_secs(600);
    let cooldown = settings.cooldown;
    let pagerank = pagerank(settings);
    assert_eq!(numbers(&pagerank, &candidates(0..150)).await, [FALLBACK; 150]);
    let hits = web.hits();
    for trial in 1..=3 {
        pass(cooldown).await;
        for _ in 0..5 {
            assert!(pagerank.take_revised_domains().is_empty());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(web.hits(), hits + trial);
    }
}

#[tokio::test]
async fn cached_ranks_are_known_without_waiting() {
    let web = service(correct);
    let pagerank = pagerank(settings(&web.url("")));
    let known = |candidate: &Candidate| pagerank.known_priority(candidate).map(Priority::number);
    assert_eq!(known(&candidate(7, 0)), None);
    numbers(&pagerank, &candidates([7])).await;
    assert_eq!(known(&candidate(7, 2)), Some(29));
    assert_eq!(known(&candidate_at("http://10.0.0.1/", 0)), Some(FALLBACK), "never sent to the service");
    assert_eq!(web.hits(), 1);
}

#[tokio::test]
async fn retry_after_of_the_service_is_obeyed() {
    let web = service(|_| Response::status(429).header("Retry-After", "3600"));
    let pagerank = pagerank(settings(&web.url("")));
    assert_eq!(numbers(&pagerank, &candidates([7])).await, [FALLBACK]);
    pass(Duration::from_secs(3_000)).await;
    assert_eq!(numbers(&pagerank, &candidates([7])).await, [FALLBACK]);
    assert_eq!(web.hits(), 1);
}

#[tokio::test]
async fn closed_idle_connection_is_not_a_failure() {
    let path = "/api/v1.0/getPageRank?domains%5B%5D=d7.test";
    // The first response leaves an idle connection that the server has closed.
    let answers = vec![Response::hostile(Hostile::CloseIdleConnection), json(&[entry("d7.test")])];
    let web = Web::builder().site(Site::new().response(path, Response::sequence(answers))).start();
    let pagerank = pagerank(settings(&web.url("")));
    assert_eq!(numbers(&pagerank, &candidates([7])).await, [FALLBACK]);
    assert_eq!(numbers(&pagerank, &candidates([7])).await, [27]);
    assert_eq!(pagerank.stats().failures, 1, "only the first response, which has no ranks, is a failure");
}

#[tokio::test]
async fn credentials_in_the_service_url_are_sent_with_the_key() {
    let web = service(correct);
    let with_password = web.url("").replace("://", "://user:pass@");
    assert_eq!(numbers(&pagerank(settings(&with_password)), &candidates([7])).await, [27]);
    let log = web.log();
    assert_eq!(log[0].header("authorization"), Some("Basic dXNlcjpwYXNz"));
    assert_eq!(log[0].header("api-opr"), Some(KEY));
}
