//! The statistics of a distributed crawl: the parts of all processes together equal the server's log.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use crawler::internal::backend::SnapshotInternals as _;
use crawler::internal::backend::WorkerId;
use crawler::internal::backend::redis::RedisCrawl;
use crawler::internal::crawl_view::CrawlPhase;
use crawler::internal::distributed::remote::{CrawlStatus, NewMetadata, RemoteCrawl};
use crawler::internal::distributed::{RoleExit, RunRole as _, SharedCrawl};
use crawler::internal::pipeline::CrawlReportInternals as _;
use crawler::internal::pipeline::CrawlerInternals as _;
use crawler::internal::pipeline::ResumeStatus;
use crawler::internal::scope::Scope;
use crawler::{Crawler, StopHandle};
use testredis::Server;
use testweb::Web;

use super::block_on;

const HOSTS: usize = 6;

fn crawler(web: &Web, max_pages: u64) -> Crawler {
    let hosts: Vec<_> = (0..HOSTS).map(|number| format!("http://h{number}.test/").parse().unwrap()).collect();
    Crawler::new(&web.url_of("h0.test", "/"))
        .unwrap()
        .configure(|config| {
            config.requests.dns_overrides = vec![("*".into(), [127, 0, 0, 1].into())];
            config.requests.allow_private = true;
            config.delay = Duration::from_millis(30);
        })
        .scope(Scope::domains(&hosts))
        .max_pages(max_pages)
}

fn status(shared: &SharedCrawl) -> CrawlStatus {
    block_on(async { RemoteCrawl::attach(shared).await.unwrap().status().await.unwrap() })
}

/// Runs a frontier and two workers, until a budget is used up or the crawl ends.
fn run(web: &Web, shared: &SharedCrawl, max_pages: u64) {
    block_on(async {
        let remote = RemoteCrawl::open(crawler(web, max_pages), shared).await.unwrap();
        remote.submit(NewMetadata::None, crawler(web, max_pages), shared).await.unwrap();
    });
    thread::scope(|scope| {
        let frontier = scope.spawn(|| crawler(web, max_pages).run_frontier(shared).unwrap());
        let workers = [0, 1].map(|number| {
            scope.spawn(move || crawler(web, max_pages).run_worker(shared, Some(WorkerId(number))).unwrap())
        });
        let exits = workers.map(|worker| worker.join().unwrap());
        assert!(exits.iter().all(|exit| matches!(exit, RoleExit::CrawlEnded(_))), "{exits:?}");
        assert!(matches!(frontier.join().unwrap(), RoleExit::CrawlEnded(_)));
    });
}

/// Compares the statistics with the server's log.
fn assert_equals_log(web: &Web, shared: &SharedCrawl) -> CrawlStatus {
    let (status, log) = (status(shared), web.log());
    let mut logged = BTreeMap::<u16, u64>::new();
    log.iter().for_each(|hit| *logged.entry(hit.status.unwrap()).or_default() += 1);
    assert_eq!(status.statistics.statuses, logged);
    for number in 0..HOSTS {
        let (host, log) = (format!("h{number}.test"), log.for_host(&format!("h{number}.test")));
        let name = format!("{host}:{}", web.port());
        let requests = status.statistics.hosts.get(&name).map_or(0, |host| host.requests);
        assert_eq!(requests, log.len() as u64, "{name}");
    }
    assert_eq!(status.statistics.depths.iter().sum::<u64>(), status.snapshot.pages);
    assert_eq!(status.statistics.in_flight, 0);
    status
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn statistics_of_two_workers_add_up_to_the_servers_log_also_after_a_resume() {
    let (server, web) = (Server::start(), Web::builder().seeded_hosts(9, HOSTS, 10).start());
    let shared = SharedCrawl::new(RedisCrawl::new(server.url().parse().unwrap(), "statistics"));
    run(&web, &shared, 15);
    let first = assert_equals_log(&web, &shared);
    assert_eq!(first.snapshot.pages, 15);
    assert_eq!((first.limits.max_pages, first.limits.delay), (15, Duration::from_millis(30)));
    assert_eq!(first.phase(), CrawlPhase::Ended("the limit of pages is reached".into()));
    assert!(first.statistics.redis_round_trips > 0 && first.statistics.commits > 0);
    assert!(first.statistics.stages.redis.count > 0 && first.statistics.stages.commit.count > 0);
    let samples = first.statistics.series.samples();
    assert_eq!(samples.last().unwrap().pages, 15);
    assert!(!first.statistics.latest.is_empty());
    assert!(
        first.redis.version.is_some() && first.redis.used_memory > Some(0) && first.redis.rtt_ms.is_some()
    );
    run(&web, &shared, 10_000);
    let second = assert_equals_log(&web, &shared);
    assert!(second.snapshot.pages > 15);
    assert_eq!(second.statistics.started_at, first.statistics.started_at);
    let samples = second.statistics.series.samples();
    assert!(samples.is_sorted_by(|a, b| a.at_seconds < b.at_seconds && a.pages <= b.pages), "{samples:?}");
    let report = block_on(async {
        RemoteCrawl::attach(&shared).await.unwrap().report(ResumeStatus::Resumed).await.unwrap().unwrap()
    });
    assert_eq!(report.statistics().statuses, second.statistics.statuses);
    // The limits, what was merged, and the part of the last frontier.
    let parts: Vec<Vec<u8>> = server.query("HVALS crawler:{statistics:members}:statistics");
    assert_eq!(parts.iter().filter(|part| !part.is_empty()).count(), 3, "of {}", parts.len());
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn running_crawl_shows_the_statistics_of_its_workers() {
    let (server, web) = (Server::start(), Web::builder().seeded_hosts(9, HOSTS, 40).start());
    let shared = SharedCrawl::new(RedisCrawl::new(server.url().parse().unwrap(), "live"));
    let stop = StopHandle::new();
    let slow = || crawler(&web, 10_000).configure(|config| config.delay = Duration::from_millis(300));
    block_on(async {
        let remote = RemoteCrawl::open(slow(), &shared).await.unwrap();
        remote.submit(NewMetadata::None, slow(), &shared).await.unwrap();
    });
    thread::scope(|scope| {
        let (frontier_stop, worker_stop) = (stop.clone(), stop.clone());
        let (slow, shared) = (&slow, &shared);
        scope.spawn(move || slow().stop_handle(frontier_stop).run_frontier(shared));
        scope.spawn(move || slow().stop_handle(worker_stop).run_worker(shared, None));
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let status = status(shared);
            let statistics = &status.statistics;
            if statistics.depths.iter().sum::<u64>() > 3 && !statistics.series.samples().is_empty() {
                assert_eq!(status.phase(), CrawlPhase::Running);
                assert!(status.snapshot.waiting_hosts().len() <= 10);
                break;
            }
            assert!(Instant::now() < deadline, "no statistics: {statistics:?}");
            thread::sleep(Duration::from_millis(50));
        }
        stop.stop();
    });
}
