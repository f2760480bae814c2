//! Changes of a distributed crawl while it runs, and what its observers see of them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crawler::internal::backend::SnapshotInternals as _;
use crawler::internal::backend::redis::{DistributedCrawl, RedisCrawl};
use crawler::internal::backend::{WaitReason, WorkerId};
use crawler::internal::crawl_view::CrawlPhase;
use crawler::internal::distributed::remote::{CrawlStatus, NewMetadata, RemoteCrawl};
use crawler::internal::distributed::{RoleExit, RunRole as _, SharedCrawl};
use crawler::internal::live_settings::ControlAction;
use crawler::internal::modules::output::parts::{self, Destination};
use crawler::internal::pipeline::CrawlerInternals as _;
use crawler::internal::scope::Scope;
use crawler::{Crawler, StopHandle};
use testredis::Server;
use testweb::{Response, Site, Web};

use super::block_on;

const HOSTS: usize = 8;

/// Hosts with endless slow pages. The robots.txt of the last one fails.
fn web() -> Web {
    let page = |request: &testweb::Request| {
        let number: u32 = request.path.trim_start_matches('/').parse().unwrap_or(0);
        Response::page(format!("<a href=/{}>next</a><a href=/{}>other</a>", number + 1, number + 1_000_000))
            .delay(Duration::from_millis(200))
    };
    let mut web = Web::builder();
    for number in 0..HOSTS {
        let site = match number + 1 == HOSTS {
            true => Site::new().fallback(page).response("/robots.txt", Response::status(503)),
            false => Site::new().fallback(page),
        };
        web = web.host(&format!("h{number}.test"), site);
    }
    web.start()
}

fn crawler(web: &Web) -> Crawler {
    let urls: Vec<url::Url> =
        (0..HOSTS).map(|number| web.url_of(&format!("h{number}.test"), "/").parse().unwrap()).collect();
    let more = web.url_of(&format!("h{}.test", HOSTS - 1), "/7").parse().unwrap();
    let scope = Scope::domains(&urls);
    Crawler::from_seeds(urls.into_iter().chain([more])).unwrap().scope(scope).configure(|config| {
        config.requests.dns_overrides = vec![("*".into(), [127, 0, 0, 1].into())];
        config.requests.allow_private = true;
        config.delay = Duration::from_millis(20);
    })
}

fn status(shared: &SharedCrawl) -> CrawlStatus {
    block_on(async { RemoteCrawl::attach(shared).await.unwrap().status().await.unwrap() })
}

fn apply(shared: &SharedCrawl, action: ControlAction) {
    block_on(async { RemoteCrawl::attach(shared).await.unwrap().control(action).await.unwrap() });
}

fn submit(web: &Web, shared: &SharedCrawl) {
    block_on(async {
        let remote = RemoteCrawl::open(crawler(web), shared).await.unwrap();
        remote.submit(NewMetadata::None, crawler(web), shared).await.unwrap();
    });
}

fn wait_for(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_true() {
        assert!(Instant::now() < deadline, "waited too long for {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn observers_see_pauses_and_robots_txt_and_added_seeds_keep_reports_and_a_purge_leaves_no_statistics() {
    let (server, web) = (Server::start(), web());
    let redis = RedisCrawl::new(server.url().parse().unwrap(), "live");
    let shared = SharedCrawl::new(redis.clone());
    submit(&web, &shared);
    let (first_stop, phases) = (StopHandle::new(), Arc::new(Mutex::new(Vec::new())));
    thread::scope(|scope| {
        let (web, shared, phases) = (&web, &shared, &phases);
        let frontier = scope.spawn(move || {
            let phases = Arc::clone(phases);
            let crawler = crawler(web).on_status(move |view| phases.lock().unwrap().push(view.phase.clone()));
            crawler.run_frontier(shared).unwrap()
        });
        let stop = first_stop.clone();
        let first = scope
            .spawn(move || crawler(web).stop_handle(stop).run_worker(shared, Some(WorkerId(0))).unwrap());
        let second = scope.spawn(move || crawler(web).run_worker(shared, Some(WorkerId(1))).unwrap());
        let why = |host: &str| {
            let hosts = status(shared).snapshot.waiting_hosts().to_vec();
            hosts.into_iter().find(|waiting| waiting.host.starts_with(host)).map(|waiting| waiting.why)
        };
        let failing = format!("h{}.test", HOSTS - 1);
        wait_for("the reason of a failing robots.txt", || {
            why(&failing) == Some(WaitReason::RobotsTxt("HTTP 503".into()))
        });
        apply(shared, ControlAction::Pause);
        wait_for("a pause", || phases.lock().unwrap().contains(&CrawlPhase::Paused));
        wait_for("the reason of a pause", || {
            let hosts = status(shared).snapshot.waiting_hosts().to_vec();
            !hosts.is_empty() && hosts.iter().all(|host| host.why == WaitReason::Paused)
        });
        assert_eq!(status(shared).phase(), CrawlPhase::Paused);
        apply(shared, ControlAction::Unpause);

        first_stop.stop();
        assert_eq!(first.join().unwrap(), RoleExit::Stopped);
        // The running worker reports what it waits for.
        let reports = || {
            let members = server.query::<Vec<String>>("HKEYS crawler:{live:members}:reports");
            members.into_iter().collect::<BTreeSet<_>>()
        };
        let before = reports();
        assert!(!before.is_empty());
        apply(shared, ControlAction::AddSeed(web.url_of("h0.test", "/500")));
        assert!(reports().is_superset(&before));

        wait_for("statistics", || !status(shared).statistics.statuses.is_empty());
        block_on(DistributedCrawl::purge(&redis)).unwrap();
        assert_eq!((frontier.join().unwrap(), second.join().unwrap()), (RoleExit::Gone, RoleExit::Gone));
        assert_eq!(server.query::<u64>("EXISTS crawler:{live:members}:statistics"), 0);
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn outputs_have_the_pages_that_the_crawl_counts_after_its_limit_was_lowered() {
    let (server, web, directory) = (Server::start(), web(), tempfile::tempdir().unwrap());
    let shared = SharedCrawl::new(RedisCrawl::new(server.url().parse().unwrap(), "lowered"));
    let output = format!("jsonl={}", directory.path().join("pages.jsonl").display());
    submit(&web, &shared);
    thread::scope(|scope| {
        let (web, shared) = (&web, &shared);
        let frontier = scope.spawn(move || crawler(web).run_frontier(shared).unwrap());
        let worker = crawler(web).module_from_spec(&output).unwrap();
        let worker = scope.spawn(move || worker.run_worker(shared, Some(WorkerId(0))).unwrap());
        wait_for("pages", || status(shared).snapshot.pages >= 10);
        // Requests to all hosts are in flight.
        apply(shared, ControlAction::SetMaxPages(1));
        assert!(matches!(worker.join().unwrap(), RoleExit::CrawlEnded(_)));
        assert!(matches!(frontier.join().unwrap(), RoleExit::CrawlEnded(_)));
    });
    let merged = directory.path().join("all.jsonl");
    let part = directory.path().join("pages.0.jsonl");
    let report = parts::merge(&[part], Destination::Path(&merged), false).unwrap();
    assert_eq!(report.pages, status(&shared).snapshot.pages, "{report:?}");
}
