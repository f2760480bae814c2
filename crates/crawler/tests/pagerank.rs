//! The PageRank prioritizer against a service on loopback that speaks the API, and misbehaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crawler::internal::config::FetchConfig;
use crawler::internal::domain::Domain;
use crawler::internal::prioritizer::pagerank::{ApiKey, PageRankConfig};
use crawler::internal::prioritizer::{Candidate, PageRank, Prioritizer, Priority, Random};
use testweb::{Answer, Hostile, Request, Site, Web};
use url::Url;

const KEY: &str = "a-very-secret-key";

/// What URLs get for which there is no rank; a number that no rank of these tests makes.
const FALLBACK: u8 = 51;

/// `d7.test` has rank 7; a number beyond 10 is a domain that the service does not know.
fn candidate(number: usize, depth: u32) -> Candidate {
    of_url(&format!("http://d{number}.test/"), depth)
}

fn of_url(url: &str, depth: u32) -> Candidate {
    Candidate { domain: Domain::from_url(&Url::parse(url).unwrap()), depth, linking_pages: 0 }
}

/// Candidates of the domains `d{number}.test`, at depth 0.
fn candidates(numbers: impl IntoIterator<Item = usize>) -> Vec<Candidate> {
    numbers.into_iter().map(|number| candidate(number, 0)).collect()
}

fn settings(url: &str) -> PageRankConfig {
    let mut settings = PageRankConfig::new(Url::parse(url).unwrap());
    settings.key = Some(ApiKey::new(KEY));
    settings.fallback = Priority::new(FALLBACK).unwrap();
    settings.pause = Duration::from_millis(20);
    settings.rest = Duration::from_millis(200);
    settings
}

fn pagerank(settings: PageRankConfig) -> PageRank {
    PageRank::new(&FetchConfig::default(), settings, Random::seeded(1)).unwrap()
}

/// A service that answers every request so.
fn service(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Web {
    Web::builder().site(Site::new().otherwise(answer)).start()
}

/// The domains that a request asks for.
fn asked(path: &str) -> Vec<String> {
    let url = Url::parse("http://service/").unwrap().join(path).unwrap();
    assert_eq!(url.path(), "/api/v1.0/getPageRank");
    let pairs = url.query_pairs().map(|(name, value)| {
        assert_eq!(name, "domains[]");
        value.into_owned()
    });
    pairs.collect()
}

/// What the API says about one domain.
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

fn json(entries: &[String]) -> Answer {
    let body = format!(r#"{{"status_code":200,"response":[{}],"last_updated":"1st"}}"#, entries.join(","));
    Answer::status(200).content_type("application/json").body(body)
}

/// The answer of an honest service.
fn honest(request: &Request) -> Answer {
    json(&asked(&request.path).iter().map(|domain| entry(domain)).collect::<Vec<_>>())
}

/// Lets time pass for timers, at once.
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
async fn a_better_rank_makes_a_lower_number_and_depth_breaks_ties() {
    let web = service(honest);
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
    let health = pagerank.health();
    assert_eq!((health.requests, health.failures, health.fallbacks, health.asked), (1, 0, 0, true));
}

#[tokio::test]
async fn nothing_to_order_asks_for_nothing() {
    let web = service(honest);
    assert!(numbers(&pagerank(settings(&web.url(""))), &[]).await.is_empty());
    assert_eq!(web.hits(), 0);
}

#[tokio::test]
async fn the_key_is_in_its_header_and_nowhere_else() {
    let web = service(|request| match request.header("api-opr") {
        Some(KEY) => honest(request),
        _ => Answer::status(403),
    });
    let pagerank = pagerank(settings(&web.url("")));
    assert_eq!(numbers(&pagerank, &candidates([7])).await, [27]);
    for hit in &*web.log() {
        assert!(!hit.path.contains(KEY));
        let holding: Vec<_> = hit.headers.iter().filter(|(_, value)| value.contains(KEY)).collect();
        assert_eq!(holding, [&("api-opr".to_owned(), KEY.to_owned())]);
        assert_eq!(hit.method, "GET");
    }
}

#[tokio::test]
async fn the_key_does_not_follow_a_redirect() {
    let elsewhere = service(honest);
    let to = elsewhere.url("/api/v1.0/getPageRank");
    let web = service(move |_| Answer::redirect(302, &to));
    let pagerank = pagerank(settings(&web.url("")));
    assert_eq!(numbers(&pagerank, &candidates([7])).await, [FALLBACK]);
    assert_eq!(elsewhere.hits(), 0);
    assert!(!format!("{:?}", pagerank.health()).contains(KEY));
}

#[tokio::test]
async fn more_than_a_hundred_domains_are_asked_for_in_batches_each_domain_once() {
    let web = service(honest);
    let found = numbers(&pagerank(settings(&web.url(""))), &candidates((0..250).chain(0..250))).await;
    assert_eq!(found[..3], [90, 81, 72]);
    assert_eq!(found[..250], found[250..]);
    let log = web.log();
    let batches: Vec<Vec<String>> = log.iter().map(|hit| asked(&hit.path)).collect();
    assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [100, 100, 50]);
    let mut all = batches.concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 250);
    assert_eq!(log.iter().map(|hit| hit.connection).max(), Some(1), "one connection is kept");
}

#[tokio::test]
async fn the_query_is_percent_encoded() {
    let web = service(honest);
    numbers(&pagerank(settings(&web.url(""))), &[of_url("http://www.bücher.test/", 0), candidate(1, 0)])
        .await;
    let expected = "/api/v1.0/getPageRank?domains%5B%5D=xn--bcher-kva.test&domains%5B%5D=d1.test";
    assert_eq!(web.log().paths(), [expected]);
}

#[tokio::test]
async fn addresses_and_single_labels_are_never_told_to_the_service() {
    let web = service(honest);
    let pagerank = pagerank(settings(&web.url("")));
    let machines =
        ["http://10.0.0.1/", "http://10.0.0.1:81/", "http://[::1]:81/", "http://intranet/", "http://box:1/"];
    let machines: Vec<Candidate> = machines.iter().map(|url| of_url(url, 0)).collect();
    assert_eq!(numbers(&pagerank, &machines).await, [FALLBACK; 5]);
    assert_eq!(web.hits(), 0);
}

#[tokio::test]
async fn answers_are_remembered_for_their_lifetime() {
    let web = service(honest);
    let mut settings = settings(&web.url(""));
    settings.lifetime = Duration::from_secs(600);
    let pagerank = pagerank(settings);
    for _ in 0..5 {
        assert_eq!(numbers(&pagerank, &candidates([7, 50])).await, [27, 90]);
    }
    assert_eq!(numbers(&pagerank, &candidates([7, 8])).await, [27, 18]);
    assert_eq!(
        web.log().iter().map(|hit| asked(&hit.path)).collect::<Vec<_>>(),
        [vec!["d7.test", "d50.test"], vec!["d8.test"]]
    );
    pass(Duration::from_secs(601)).await;
    assert_eq!(numbers(&pagerank, &candidates([7])).await, [27]);
    assert_eq!(web.hits(), 3);
}

#[tokio::test]
async fn domains_missing_from_an_answer_get_the_fallback_and_are_not_asked_for_again() {
    let web = service(|request| {
        let entries: Vec<String> =
            asked(&request.path).iter().filter(|it| *it != "d3.test").map(|it| entry(it)).collect();
        json(&entries)
    });
    let pagerank = pagerank(settings(&web.url("")));
    for _ in 0..2 {
        assert_eq!(numbers(&pagerank, &candidates([2, 3, 4])).await, [72, FALLBACK, 54]);
    }
    assert_eq!((web.hits(), pagerank.health().failures), (1, 0));
}

#[tokio::test]
async fn entries_of_wrong_types_spoil_only_themselves() {
    let web = service(|_| {
        let entries = [
            r#"{"status_code":"200","domain":"D1.TEST","page_rank_integer":"5"}"#,
            r#"{"status_code":200,"domain":"d2.test","page_rank_integer":[5]}"#,
            r#"{"status_code":200,"domain":"d3.test","page_rank_integer":5000}"#,
            r#"{"status_code":200,"domain":["d4.test"],"page_rank_integer":5}"#,
            r#"{"status_code":200,"domain":"never-asked.test","page_rank_integer":5}"#,
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
async fn a_failure_that_may_pass_is_asked_again_after_a_growing_pause() {
    for status in [500, 502, 503, 429] {
        let answers =
            Answer::in_turn(vec![Answer::status(status), Answer::status(status), json(&[entry("d7.test")])]);
        let web = Web::builder()
            .site(Site::new().answer("/api/v1.0/getPageRank?domains%5B%5D=d7.test", answers))
            .start();
        let mut settings = settings(&web.url(""));
        settings.pause = Duration::from_millis(60);
        let pagerank = pagerank(settings);
        assert_eq!(numbers(&pagerank, &candidates([7])).await, [27], "{status}");
        let starts: Vec<Instant> = web.log().iter().map(|hit| hit.started).collect();
        assert_eq!(starts.len(), 3);
        assert!(starts[1] - starts[0] >= Duration::from_millis(30), "half of the first pause");
        assert!(starts[2] - starts[1] >= Duration::from_millis(60), "half of the second");
        let health = pagerank.health();
        assert_eq!((health.failures, health.asked), (2, true));
        assert_eq!(health.last_failure, Some(format!("HTTP status {status}")));
    }
}

#[tokio::test]
async fn a_refusal_is_not_asked_again() {
    for status in [400, 401, 403, 404, 301, 204] {
        let web = service(move |_| Answer::status(status));
        let pagerank = pagerank(settings(&web.url("")));
        assert_eq!(numbers(&pagerank, &candidates([7])).await, [FALLBACK]);
        assert_eq!((web.hits(), pagerank.health().failures), (1, 1), "{status}");
    }
}

#[tokio::test]
async fn whatever_the_service_sends_the_crawl_goes_on_with_the_fallback() {
    let huge = Answer::status(200).body(format!(r#"{{"response":[{}"#, entry("d7.test,").repeat(100_000)));
    let long = Answer::status(200).body(format!(
        r#"{{"response":[{}],"x":"{}"}}"#,
        entry("d7.test"),
        "x".repeat(9 << 20)
    ));
    let mut answers = vec![
        Answer::text("garbage"),
        Answer::text(""),
        Answer::page("<html>Please log in</html>"),
        Answer::text(r#"{"response":"none"}"#),
        Answer::text("[".repeat(300_000)),
        huge,
        long.clone().gzip(),
        long,
        Answer::text("x").after(Duration::from_secs(200)),
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
        Hostile::ResetAtOnce,
        Hostile::ResetAfterHeaders,
        Hostile::CloseAtOnce,
    ];
    answers.extend(hostile.map(Answer::hostile));
    // Most of them take as long as the timeout: they do so at the same time.
    let mut services = tokio::task::JoinSet::new();
    for answer in answers {
        services.spawn(falls_back(answer));
    }
    services.join_all().await;
}

async fn falls_back(answer: Answer) {
    let what = format!("{:.300}", format!("{answer:?}"));
    let web = service(move |_| answer.clone());
    let mut settings = settings(&web.url(""));
    settings.timeout = Duration::from_millis(300);
    let pagerank = pagerank(settings);
    let begun = Instant::now();
    assert_eq!(numbers(&pagerank, &candidates([7, 8])).await, [FALLBACK; 2], "{what}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{what}: {:?}", begun.elapsed());
    assert!(pagerank.health().failures > 0, "{what}");
    assert_eq!(pagerank.health().fallbacks, 2);
}

#[tokio::test]
async fn where_nobody_listens_urls_get_the_fallback() {
    let web = service(honest);
    let url = web.url("");
    drop(web);
    let pagerank = pagerank(settings(&url));
    assert_eq!(numbers(&pagerank, &candidates([7])).await, [FALLBACK]);
    let health = pagerank.health();
    assert_eq!((health.requests, health.asked), (3, false));
    assert!(health.last_failure.unwrap().contains("connection refused"));
}

#[tokio::test]
async fn an_outage_opens_the_breaker_and_the_service_is_asked_again_when_it_is_back() {
    let up = Arc::new(AtomicBool::new(false));
    let is_up = Arc::clone(&up);
    let web = service(move |request| match is_up.load(Ordering::Relaxed) {
        true => honest(request),
        false => Answer::status(500),
    });
    let mut settings = settings(&web.url(""));
    settings.rest = Duration::from_secs(600);
    let rest = settings.rest;
    let pagerank = pagerank(settings);

    assert_eq!(numbers(&pagerank, &candidates(0..250)).await, [FALLBACK; 250]);
    assert_eq!(web.hits(), 3, "three failures in a row, and the later batches were not tried");
    for number in 0..20 {
        assert_eq!(numbers(&pagerank, &candidates([number])).await, [FALLBACK]);
    }
    assert_eq!((web.hits(), pagerank.health().asked), (3, false));

    pass(rest).await;
    assert_eq!(numbers(&pagerank, &candidates([7])).await, [FALLBACK]);
    assert_eq!(numbers(&pagerank, &candidates([7])).await, [FALLBACK]);
    assert_eq!(web.hits(), 4, "one request found out that it is still down");

    up.store(true, Ordering::Relaxed);
    pass(rest).await;
    assert_eq!(numbers(&pagerank, &candidates([7])).await, [27], "what got the fallback is asked for again");
    assert_eq!(numbers(&pagerank, &candidates([8])).await, [18]);
    assert_eq!((web.hits(), pagerank.health().asked), (6, true));
}

#[tokio::test]
async fn a_service_that_names_a_time_is_left_alone_for_that_time() {
    let web = service(|_| Answer::status(429).header("Retry-After", "3600"));
    let pagerank = pagerank(settings(&web.url("")));
    assert_eq!(numbers(&pagerank, &candidates([7])).await, [FALLBACK]);
    pass(Duration::from_secs(3_000)).await;
    assert_eq!(numbers(&pagerank, &candidates([7])).await, [FALLBACK]);
    assert_eq!(web.hits(), 1);
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_no_failure() {
    let path = "/api/v1.0/getPageRank?domains%5B%5D=d7.test";
    // The first answer leaves a connection that looks alive and is not.
    let answers = vec![Answer::hostile(Hostile::CloseIdleConnection), json(&[entry("d7.test")])];
    let web = Web::builder().site(Site::new().answer(path, Answer::in_turn(answers))).start();
    let pagerank = pagerank(settings(&web.url("")));
    assert_eq!(numbers(&pagerank, &candidates([7])).await, [FALLBACK]);
    assert_eq!(numbers(&pagerank, &candidates([7])).await, [27]);
    assert_eq!(pagerank.health().failures, 1, "the page that came first was no answer");
}

#[tokio::test]
async fn a_password_in_the_services_url_goes_with_the_key() {
    let web = service(honest);
    let with_password = web.url("").replace("://", "://user:pass@");
    assert_eq!(numbers(&pagerank(settings(&with_password)), &candidates([7])).await, [27]);
    let log = web.log();
    assert_eq!(log[0].header("authorization"), Some("Basic dXNlcjpwYXNz"));
    assert_eq!(log[0].header("api-opr"), Some(KEY));
}
