//! A frontier that takes over from another one while workers have leases: nothing is lost, and the other one changes
//! nothing any more.

use std::collections::BTreeSet;
use std::time::Duration;

use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{FrontierEnd, RemoteBackend};
use crawler::internal::backend::{
    Backend, Budget, BudgetDecision, CompleteResult, Completion, ContentMatch, HostDelay, Lease, Outlinks,
    Snapshot, WorkerId,
};
use crawler::internal::domain::{Domain, DomainInternals as _};
use crawler::internal::fetch::http::AddressKinds;
use crawler::internal::outcome::{Outcome, OutcomeInternals as _};
use crawler::internal::prioritizer::Random;
use crawler::internal::similarity::{Fingerprint, Threshold};
use crawler::internal::stats::BodyBytes;
use testredis::Server;

use super::block_on;
use super::distributed_crawl::{
    Frontier, Ledger, TestCrawl, Tree, discovered, hosts, lease, page, wait_until,
};
use super::near_duplicates::body;

fn applied(page_number: u64) -> CompleteResult {
    CompleteResult::Applied { id: Some(page_number), sequence: None, new: 0, exhausted: None }
}

/// What a snapshot counts, without the lengths of queues, which a frontier fills again.
fn counts(snapshot: Snapshot) -> Snapshot {
    let mut counts = Snapshot::default();
    (counts.admitted, counts.completed, counts.refetches) =
        (snapshot.admitted, snapshot.completed, snapshot.refetches);
    (counts.outcomes, counts.links_rejected) = (snapshot.outcomes, snapshot.links_rejected);
    (counts.links_new, counts.links_seen) = (snapshot.links_new, snapshot.links_seen);
    (counts.pages, counts.bytes, counts.received) = (snapshot.pages, snapshot.bytes, snapshot.received);
    (counts.seen_urls, counts.requests) = (snapshot.seen_urls, snapshot.requests);
    (counts.stored_pages, counts.stored_bytes) = (snapshot.stored_pages, snapshot.stored_bytes);
    counts.workers = snapshot.workers.into_iter().filter(|worker| worker.leased > 0).collect();
    counts.workers.iter_mut().for_each(|worker| worker.domains = 0);
    counts
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn leases_stay_and_the_earlier_frontier_changes_nothing() {
    let server = Server::start();
    block_on(async {
        let crawl = TestCrawl::new(&server, "leases");
        let mut first = crawl.take_over().await;
        let (one, two) = (crawl.worker(0, 1).await, crawl.worker(1, 1).await);
        crawl.seed(hosts(30)).await;
        let (of_one, of_two) = (lease(&one, 10).await, lease(&two, 10).await);
        assert_eq!(one.complete(vec![page(&of_one[0])]).await.unwrap(), [applied(1)]);
        first.process.flush().await.unwrap();
        let before = first.snapshot().await;

        let second = crawl.take_over().await;
        assert_eq!(counts(second.snapshot().await), counts(before));
        let results = one.complete(of_one[1..].iter().map(page).collect()).await.unwrap();
        assert_eq!(results, (2..=10).map(applied).collect::<Vec<_>>());
        assert_eq!(first.end().await, FrontierEnd::Superseded);
        assert!(first.process.flush().await.is_err());
        let results = two.complete(of_two.iter().map(page).collect()).await.unwrap();
        assert_eq!(results, (11..=20).map(applied).collect::<Vec<_>>());
        let again = one.complete(vec![page(&of_one[3])]).await.unwrap();
        assert_eq!(again, [CompleteResult::StaleLease], "it is completed");

        let mut left = lease(&one, 1).await;
        while left.len() < 10 {
            for worker in [&one, &two] {
                left.extend(worker.lease(WorkerId(0), 10, Duration::from_millis(20)).await.unwrap());
            }
        }
        let all: BTreeSet<&str> =
            of_one.iter().chain(&of_two).chain(&left).map(|lease| &*lease.url).collect();
        assert_eq!((all.len(), left.len()), (30, 10), "each URL is leased once");
        let earlier = of_one.iter().chain(&of_two).map(|lease| lease.lease_id).max();
        assert!(left.iter().all(|lease| Some(lease.lease_id) > earlier), "lease IDs grow");
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn budgets_and_reservations_are_the_same() {
    let server = Server::start();
    block_on(async {
        let mut crawl = TestCrawl::new(&server, "budgets");
        crawl.config =
            BackendConfig { max_pages: 4, max_bytes: 10_000, max_page_bytes: 1_000, ..crawl.config };
        let first = crawl.take_over().await;
        let worker = crawl.worker(0, 1).await;
        crawl.seed(hosts(5)).await;
        let leases = lease(&worker, 5).await;
        let nothing = BodyBytes::default();
        for lease in &leases[..2] {
            let granted = worker.reserve(lease, nothing).await.unwrap();
            assert!(matches!(granted, BudgetDecision::Granted(_)), "{granted:?}");
        }
        // One has read something already, and needs more.
        let read = BodyBytes::unencoded(600);
        assert!(matches!(worker.reserve(&leases[1], read).await.unwrap(), BudgetDecision::Granted(_)));
        let used = Completion { bytes: BodyBytes::unencoded(900), ..page(&leases[0]) };
        worker.complete(vec![used]).await.unwrap();
        first.process.flush().await.unwrap();
        drop(first);

        let second = crawl.take_over().await;
        assert_eq!(second.snapshot().await.bytes, 1_500);
        let used = Completion { bytes: BodyBytes::unencoded(200), ..page(&leases[1]) };
        assert_eq!(worker.complete(vec![used]).await.unwrap(), [applied(2)]);
        assert_eq!(second.snapshot().await.bytes, 1_700, "the bytes before the take-over count");
        // Exactly two more pages are granted. The fifth one waits for what they return.
        let mut granted = 0;
        for lease in &leases[2..] {
            match worker.reserve(lease, nothing).await.unwrap() {
                BudgetDecision::Granted(_) => granted += 1,
                decision => assert_eq!(decision, BudgetDecision::RetryLater),
            }
        }
        assert_eq!(granted, 2);
        drop(second);

        let third = crawl.take_over().await;
        let last = worker.reserve(&leases[4], nothing).await.unwrap();
        assert_eq!(last, BudgetDecision::RetryLater, "two pages are reserved, two are used");
        let results = worker.complete(vec![page(&leases[2]), page(&leases[3])]).await.unwrap();
        let exhausted = Some(Budget::Pages);
        assert_eq!(results[1], CompleteResult::Applied { id: Some(4), sequence: None, new: 0, exhausted });
        let last = worker.reserve(&leases[4], nothing).await.unwrap();
        assert_eq!(last, BudgetDecision::Exhausted(Budget::Pages));
        assert_eq!(third.snapshot().await.bytes, 1_714);
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn depths_delays_stored_pages_and_host_page_counts_are_the_same() {
    let server = Server::start();
    block_on(async {
        let mut crawl = TestCrawl::new(&server, "rows");
        crawl.delay = Duration::from_millis(20);
        crawl.config = BackendConfig {
            keep_depths: true,
            keep_discovery: false,
            similarity: Threshold::new(0.9),
            max_pages_per_host: 1,
            ..crawl.config
        };
        let first = crawl.take_over().await;
        let worker = crawl.worker(0, 1).await;
        crawl.seed(["http://a.test/".into()]).await;
        let leases = lease(&worker, 1).await;
        let text = body(1, 0);
        let fingerprint = |text: &str| Fingerprint::of_text(worker.hash_key(), None, text.as_bytes());
        let store = async |url: &str, text: &str| {
            worker.store_content(url, &fingerprint(text), text.as_bytes(), false).await.unwrap()
        };
        assert_eq!(store("http://a.test/", &text).await, ContentMatch::New);
        let slow = HostDelay { delay: Duration::from_secs(40), cooldown: Duration::from_secs(30) };
        let outlinks = ["http://slow.test/", "http://a.test/2", "http://deep.test/", "http://gone.test/"];
        let completion = Completion {
            outlinks: Outlinks::new(outlinks, 5),
            linked_domains: vec![Domain::from_url_str("http://slow.test/")],
            rejected_links: [("scope".into(), 3)].into(),
            ..page(&leases[0])
        };
        worker.complete(vec![completion]).await.unwrap();
        worker.set_host_delay("slow.test", slow).await.unwrap();
        let kinds = AddressKinds::from_bits(1);
        worker.pin_address_kinds("a.test", kinds).await.unwrap();
        // It is found again at a smaller depth.
        worker.admit(vec![discovered("http://deep.test/", 2)]).await.unwrap();
        worker.request_counter().add(9);
        let gone = lease(&worker, 3).await;
        let gone = gone.iter().find(|lease| &*lease.url == "http://gone.test/").unwrap();
        let missing = Outcome::http_status(410);
        worker.complete(vec![Completion { outcome: missing, ..Completion::new(gone) }]).await.unwrap();
        first.process.flush().await.unwrap();
        first.process.remove_worker(WorkerId(0)).unwrap();
        first.process.flush().await.unwrap();
        let before = first.snapshot().await;
        assert_eq!((before.requests, before.stored_pages), (9, 1));
        drop(first);

        let second = crawl.take_over().await;
        assert_eq!(counts(second.snapshot().await), counts(before));
        let other = crawl.worker(1, 1).await;
        let seen =
            other.admit(["http://a.test/", "http://gone.test/"].map(|url| discovered(url, 9)).to_vec()).await;
        assert_eq!(seen.unwrap().seen, 2);
        assert_eq!(store("http://b.test/", &text).await, ContentMatch::Duplicate("http://a.test/".into()));
        assert_eq!(
            store("http://b.test/", &body(1, 3)).await,
            ContentMatch::NearDuplicate("http://a.test/".into())
        );
        let more = AddressKinds::from_bits(3);
        assert_eq!(other.pin_address_kinds("a.test", more).await.unwrap(), kinds, "the first answer counts");
        let mut leases = lease(&other, 2).await;
        leases.sort_by(|one, other| one.url.cmp(&other.url));
        assert_eq!(
            leases.iter().map(|lease| &*lease.url).collect::<Vec<_>>(),
            ["http://a.test/2", "http://deep.test/"]
        );
        assert_eq!(leases[1].depth, 2);
        let decision = other.reserve(&leases[0], BodyBytes::default()).await.unwrap();
        assert_eq!(decision, BudgetDecision::HostExhausted);
        let slow = other.claim_host(WorkerId(1), "slow.test").await.unwrap();
        let crawler::internal::backend::HostClaim::Granted { cooldown } = slow else { panic!("{slow:?}") };
        assert!(cooldown > Duration::from_secs(20), "{cooldown:?}");
    });
}

/// Completes some of the leases that a worker has.
async fn complete_some(
    worker: &RemoteBackend,
    held: &mut Vec<Lease>,
    count: usize,
    tree: Tree,
    ledger: &Ledger,
) {
    let leases: Vec<Lease> = held.drain(..count.min(held.len())).collect();
    let results = worker.complete(leases.iter().map(|lease| tree.completion(lease)).collect()).await.unwrap();
    leases.iter().zip(results).for_each(|(lease, result)| ledger.record(lease, result));
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn random_operations_with_takeovers_crawl_every_url_once() {
    for seed in 0..3 {
        let server = Server::start();
        block_on(async {
            let (tree, ledger, mut random) = (Tree(300), Ledger::default(), Random::seeded(seed));
            let mut crawl = TestCrawl::new(&server, "random");
            crawl.config.queue_size = 1 << random.below(9);
            let mut frontier = crawl.take_over().await;
            let mut earlier: Vec<Frontier> = Vec::new();
            let mut workers = Vec::new();
            for number in 0..3 {
                workers.push((crawl.worker(number, 1).await, Vec::<Lease>::new()));
            }
            crawl.seed([tree.url(0)]).await;
            let mut takeovers = 0;
            while frontier.pending().await > 0 {
                let number = random.below(3) as usize;
                let (worker, held) = &mut workers[number];
                let count = 1 + random.below(8) as usize;
                match random.below(12) {
                    0..5 => {
                        held.extend(worker.lease(WorkerId(0), count, Duration::from_millis(8)).await.unwrap())
                    }
                    5..9 => complete_some(worker, held, count, tree, &ledger).await,
                    9 => {
                        if let Some(lease) = held.first() {
                            let granted = worker.reserve(lease, BodyBytes::default()).await.unwrap();
                            assert!(matches!(granted, BudgetDecision::Granted(_)), "{granted:?}");
                        }
                    }
                    10 if random.below(4) == 0 => {
                        frontier.process.remove_worker(WorkerId(number as u16)).unwrap();
                        // It starts afresh when it sends something.
                        worker.admit(Vec::new()).await.unwrap();
                        let late = worker.complete(held.iter().map(page).collect()).await.unwrap();
                        assert_eq!(late, vec![CompleteResult::StaleLease; held.len()]);
                        held.clear();
                    }
                    10 => {}
                    // Some earlier frontiers are killed, others do not know yet.
                    _ if takeovers < 25 => {
                        takeovers += 1;
                        let completing = complete_some(worker, held, count, tree, &ledger);
                        let ((), next) = tokio::join!(completing, crawl.take_over());
                        let before = std::mem::replace(&mut frontier, next);
                        if random.below(2) == 0 {
                            earlier.push(before);
                        }
                    }
                    _ => {}
                }
            }
            ledger.assert_complete(tree);
            tree.assert_crawled(&frontier.snapshot().await);
            workers[0].0.admit(Vec::new()).await.unwrap();
            for mut frontier in earlier {
                assert_eq!(frontier.end().await, FrontierEnd::Superseded);
            }
            assert!(takeovers > 5, "{takeovers} take-overs");
        });
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn worker_that_left_gets_nothing_from_the_next_frontier() {
    let server = Server::start();
    block_on(async {
        let crawl = TestCrawl::new(&server, "left");
        let first = crawl.take_over().await;
        let (left, stays) = (crawl.worker(0, 1).await, crawl.worker(1, 1).await);
        crawl.seed(hosts(10)).await;
        lease(&left, 5).await;
        left.leave().await.unwrap();
        drop((left, first));
        let second = crawl.take_over().await;
        let leases = lease(&stays, 10).await;
        stays.complete(leases.iter().map(page).collect()).await.unwrap();
        wait_until("all URLs are completed", async || second.pending().await == 0).await;
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn requisites_of_pages_that_are_exhausted_are_taken_over() {
    let server = Server::start();
    block_on(async {
        let mut crawl = TestCrawl::new(&server, "requisites");
        crawl.config.max_pages = 1;
        let mut first = crawl.take_over().await;
        let worker = crawl.worker(0, 1).await;
        crawl.seed(hosts(30)).await;
        let leases = lease(&worker, 1).await;
        let requisites =
            Outlinks::new((0..20).map(|number| format!("http://r{number}.test/x.png#requisite")), 1);
        worker.complete(vec![Completion { requisites, ..page(&leases[0]) }]).await.unwrap();
        let mut fetched = lease(&worker, 3).await;
        first.process.flush().await.unwrap();

        let second = crawl.take_over().await;
        assert_eq!(first.end().await, FrontierEnd::Superseded);
        fetched.extend(lease(&worker, 17).await);
        assert!(fetched.iter().all(|lease| lease.url.ends_with("#requisite")));
        let requisite = |lease| Completion { outcome: Outcome::Requisite, ..Completion::new(lease) };
        let results = worker.complete(fetched.iter().map(requisite).collect()).await.unwrap();
        let exhausted = |result: &CompleteResult| match result {
            CompleteResult::Applied { exhausted, .. } => *exhausted,
            _ => panic!("{result:?}"),
        };
        let (last, others) = results.split_last().unwrap();
        assert!(others.iter().all(|result| exhausted(result).is_none()), "{others:?}");
        assert_eq!(exhausted(last), Some(Budget::Pages));
        assert_eq!(second.pending().await, 29);
    });
}
