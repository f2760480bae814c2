//! The outcome and history of URLs, read without changing the crawl.

use std::time::{Duration, SystemTime};

use crawler::internal::backend::durable::{UrlHistory, UrlStatus};
use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{DistributedCrawl, RemoteBackend};
use crawler::internal::backend::{Backend, Completion, Lease, Outlinks};
use crawler::internal::outcome::{Outcome, OutcomeInternals as _};
use crawler::internal::similarity::{Fingerprint, Threshold};
use testredis::Server;

use super::block_on;
use super::distributed_crawl::{TestCrawl, discovered, lease, wait_until};

fn test_crawl(server: &Server, keep_depths: bool) -> TestCrawl {
    let mut crawl = TestCrawl::new(server, "inspect");
    crawl.config = BackendConfig { keep_depths, similarity: Threshold::new(0.87), ..crawl.config };
    crawl
}

/// Completes a URL with this outcome.
async fn complete(backend: &RemoteBackend, url: &str, outcome: Outcome, outlinks: Outlinks) {
    let leases = lease(backend, 1).await;
    let lease = leases.iter().find(|lease| &*lease.url == url).expect("the URL is leased");
    if outcome == Outcome::Page && !lease.is_refetch {
        let fingerprint = Fingerprint::of_text(backend.hash_key(), None, url.as_bytes());
        backend.store_content(url, &fingerprint, url.as_bytes(), false).await.unwrap();
    }
    let completion = Completion { outcome, outlinks, ..Completion::new(lease) };
    backend.complete(vec![completion]).await.unwrap();
}

async fn why(stored: &DistributedCrawl, url: &str) -> UrlHistory {
    stored.why(&url.parse().unwrap()).await.unwrap().unwrap_or_else(|| panic!("{url} is known"))
}

fn outcome_of(history: &UrlHistory) -> &str {
    match &history.status {
        UrlStatus::Completed { outcome, at, .. } => {
            let ago = SystemTime::now().duration_since(*at).unwrap();
            assert!(ago < Duration::from_secs(60), "it ended {ago:?} ago");
            outcome
        }
        UrlStatus::Pending => "waiting",
    }
}

/// Completes some leases.
async fn complete_all(backend: &RemoteBackend, leases: &[Lease], outcome: impl Fn(&str) -> Outcome) {
    let completion = |lease: &Lease| Completion { outcome: outcome(&lease.url), ..Completion::new(lease) };
    backend.complete(leases.iter().map(completion).collect()).await.unwrap();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn history_has_outcome_depth_and_path_of_a_url() {
    let server = Server::start();
    block_on(async {
        let crawl = test_crawl(&server, true);
        let frontier = crawl.take_over().await;
        let backend = crawl.worker(0, 1).await;
        crawl.seed(["http://a.test/".into()]).await;
        let outlinks = Outlinks::new(["http://b.test/moved"], 1);
        complete(&backend, "http://a.test/", Outcome::Page, outlinks).await;
        let to = "http://c.test/".to_owned();
        let target = Outlinks { redirects: 1, ..Outlinks::new([&to], 1) };
        complete(&backend, "http://b.test/moved", Outcome::redirect(to), target).await;
        let outlinks = Outlinks::new(["http://c.test/gone"], 2);
        complete(&backend, "http://c.test/", Outcome::Page, outlinks).await;
        let stored = DistributedCrawl::attach(crawl.place()).await.unwrap();
        let waiting = why(&stored, "http://c.test/gone").await;
        assert_eq!((waiting.status, waiting.depth), (UrlStatus::Pending, 2));
        // What is stored does not depend on which frontier stored it.
        drop(frontier);
        let frontier = crawl.take_over().await;

        let missing = Outcome::http_status(404);
        complete(&backend, "http://c.test/gone", missing, Outlinks::default()).await;
        let gone = why(&stored, "http://user:word@c.test/gone#here").await;
        assert_eq!((gone.url.as_str(), outcome_of(&gone)), ("http://c.test/gone", "HTTP 404"));
        assert_eq!((gone.depth, gone.by_redirect), (2, false));
        // No page is stored for a redirect, but its URL is.
        let path = ["http://c.test/", "http://b.test/moved", "http://a.test/"];
        assert_eq!(gone.found_on, path);
        let target = why(&stored, "http://c.test/").await;
        assert_eq!((outcome_of(&target), target.by_redirect, target.depth), ("page", true, 1));
        assert_eq!(outcome_of(&why(&stored, "http://b.test/moved").await), "redirect to http://c.test/");
        let seed = why(&stored, "http://a.test/").await;
        assert_eq!((outcome_of(&seed), seed.depth, seed.found_on.len()), ("page", 0, 0));
        assert!(
            matches!(seed.status, UrlStatus::Completed { page_number: Some(1), .. }),
            "{:?}",
            seed.status
        );
        assert_eq!(stored.why(&"http://a.test/never".parse().unwrap()).await.unwrap(), None);
        let page = stored.content(&"http://c.test/".parse().unwrap()).await.unwrap();
        assert_eq!(page.as_deref(), Some(&b"http://c.test/"[..]));
        wait_until("the status is written", async || stored.snapshot().await.unwrap().completed == 4).await;
        assert_eq!(frontier.snapshot().await.completed, 4);
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn url_found_at_a_lower_depth_keeps_its_first_outcome() {
    let server = Server::start();
    block_on(async {
        let crawl = test_crawl(&server, true);
        let frontier = crawl.take_over().await;
        let backend = crawl.worker(0, 1).await;
        let stored = DistributedCrawl::attach(crawl.place()).await.unwrap();
        let seeds = vec![discovered("http://a.test/", 0), discovered("http://far.test/", 5)];
        backend.admit(seeds).await.unwrap();
        let links = |depth| Outlinks::new(["http://page.test/", "http://none.test/"], depth);
        let leases = lease(&backend, 2).await;
        let far = leases.iter().find(|lease| &*lease.url == "http://far.test/").unwrap();
        let page = Completion { outcome: Outcome::Page, outlinks: links(6), ..Completion::new(far) };
        backend.complete(vec![page]).await.unwrap();
        let outcome = |url: &str| match url {
            "http://page.test/" => Outcome::Page,
            _ => Outcome::RobotsDisallowed,
        };
        complete_all(&backend, &lease(&backend, 2).await, outcome).await;
        let near = leases.iter().find(|lease| &*lease.url == "http://a.test/").unwrap();
        let page = Completion { outcome: Outcome::Page, outlinks: links(1), ..Completion::new(near) };
        backend.complete(vec![page]).await.unwrap();

        let none = why(&stored, "http://none.test/").await;
        assert_eq!(outcome_of(&none), "robots.txt disallows it");
        // A revisit does not change the outcome.
        let assert_first = async || {
            let page = why(&stored, "http://page.test/").await;
            assert!(
                matches!(page.status, UrlStatus::Completed { page_number: Some(2), .. }),
                "{:?}",
                page.status
            );
            outcome_of(&page).to_owned()
        };
        assert_eq!(assert_first().await, "page");
        let refetches = lease(&backend, 1).await;
        assert!(refetches[0].is_refetch);
        complete_all(&backend, &refetches, |_| Outcome::http_status(500)).await;
        if frontier.pending().await == 0 {
            assert_eq!(assert_first().await, "page");
        }
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn reading_changes_nothing_and_a_missing_crawl_is_an_error() {
    let server = Server::start();
    block_on(async {
        let crawl = test_crawl(&server, false);
        let message = format!("{:#}", DistributedCrawl::attach(crawl.place()).await.err().unwrap());
        assert!(
            message.starts_with("there is no crawl 'inspect' on Redis at redis://127.0.0.1"),
            "{message}"
        );
        assert_eq!(server.query::<u64>("DBSIZE"), 0);
        crawl.open().await;
        let before: Vec<String> = server.query("KEYS *");
        let stored = DistributedCrawl::attach(crawl.place()).await.unwrap();
        assert_eq!(format!("{:?}", stored.settings()), format!("{:?}", crawl.config));
        stored.snapshot().await.unwrap();
        assert_eq!(stored.why(&"http://a.test/".parse().unwrap()).await.unwrap(), None);
        assert_eq!(server.query::<Vec<String>>("KEYS *").len(), before.len());
    });
}
