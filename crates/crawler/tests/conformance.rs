//! The contract of a crawl's resources, as promises. Written once, run on every implementation.

use std::any::Any;
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use crawler::internal::backend::durable::{self, OpenState, PriorState, RecordedSettings, StateOptions};
use crawler::internal::backend::local::{BackendConfig, LocalBackend};
use crawler::internal::backend::redis::{RedisBackend, RedisCrawl};
use crawler::internal::backend::{
    Backend, Budget, BudgetDecision, CompleteResult, Completion, ContentMatch, DiscoveredUrl, DomainTransfer,
    Lease, TransferResult, WorkerId,
};
use crawler::internal::domain::Domain;
use crawler::internal::outcome::Outcome;
use crawler::internal::prioritizer::{Priority, PriorityQueues};
use crawler::internal::similarity::{Fingerprint, Threshold};
use testredis::Server;

const NO_WAIT: Duration = Duration::ZERO;
const MINUTE: Duration = Duration::from_secs(60);
const FIRST: WorkerId = WorkerId(0);
const SECOND: WorkerId = WorkerId(1);

fn settings() -> BackendConfig {
    BackendConfig {
        queue_size: 100,
        priority_queues: PriorityQueues::new(10).unwrap(),
        workers: 2,
        ttl: 60 * MINUTE,
        domain_ttl: 5 * MINUTE,
        keep_depths: true,
        similarity: Threshold::new(0.9),
        keep_content: true,
        max_pages: 1000,
        max_bytes: 1_000_000,
        max_page_bytes: 1000,
        max_pages_per_host: u64::MAX,
    }
}

fn durable_state(directory: &Path, settings: BackendConfig) -> OpenState {
    let begin = StateOptions {
        settings,
        delay: Duration::ZERO,
        terms: RecordedSettings::default(),
        note: Vec::new(),
    };
    durable::open(directory, begin).unwrap()
}

async fn on_redis(server: &Server, settings: BackendConfig, partitions: u16) -> RedisBackend {
    let place = RedisCrawl {
        partitions: Some(partitions),
        ..RedisCrawl::new(server.url().parse().unwrap(), "contract")
    };
    RedisBackend::open(place, settings).await.unwrap()
}

/// Lets time pass: tokio's, which is paused, or on Redis Redis's own.
async fn advance(backend: &impl Backend, time: Duration) {
    match (backend as &dyn Any).downcast_ref::<RedisBackend>() {
        Some(on_redis) => on_redis.advance(time),
        None => tokio::time::advance(time).await,
    }
}

fn found(url: &str, depth: u32) -> DiscoveredUrl {
    DiscoveredUrl { url: url.to_owned(), depth, redirects: 0 }
}

fn of_host(host: &str, count: usize) -> Vec<DiscoveredUrl> {
    (0..count).map(|number| found(&format!("http://{host}/{number}"), 1)).collect()
}

fn kept(lease: &Lease, outlinks: Vec<DiscoveredUrl>) -> Completion {
    Completion { outcome: Outcome::Page, bytes: 10, outlinks, ..Completion::new(lease) }
}

/// Files and routes everything that can be.
async fn run_frontier(backend: &impl Backend) {
    loop {
        let incoming = backend.take_unprioritized(1000, NO_WAIT).await.unwrap();
        let filed = incoming.iter().map(|incoming| (incoming.task_id, Priority::MIDDLE)).collect::<Vec<_>>();
        backend.enqueue_prioritized(filed).await.unwrap();
        let moved = backend.route(vec![Priority::MIDDLE; 1000], NO_WAIT).await.unwrap();
        if moved == 0 && incoming.is_empty() {
            return;
        }
    }
}

async fn lease_all(backend: &impl Backend, worker: WorkerId) -> Vec<Lease> {
    backend.lease(worker, usize::MAX, NO_WAIT).await.unwrap()
}

fn urls(leases: &[Lease]) -> Vec<&str> {
    leases.iter().map(|lease| lease.url.as_str()).collect()
}

async fn a_url_is_admitted_once(backend: impl Backend) {
    let admitted = backend.admit(vec![found("http://a/", 0), found("http://a/", 0)]).await.unwrap();
    assert_eq!((admitted.new, admitted.seen), (1, 1));
    assert_eq!(backend.admit(vec![found("http://a/", 0)]).await.unwrap().new, 0);
    run_frontier(&backend).await;
    let leases = [lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await].concat();
    assert_eq!(urls(&leases), ["http://a/"]);
}

async fn children_are_admitted_before_their_parent_completes(backend: impl Backend) {
    backend.admit(vec![found("http://a/", 0)]).await.unwrap();
    run_frontier(&backend).await;
    let lease = lease_all(&backend, FIRST).await.remove(0);
    let outlinks = vec![found("http://a/x", 1), found("http://a/", 1), found("http://b/", 1)];
    let completed = backend.complete(vec![kept(&lease, outlinks)]).await.unwrap();
    assert_eq!(completed, [CompleteResult::Applied { id: Some(1), new: 2, exhausted: None }]);
    let snapshot = backend.snapshot().await.unwrap();
    assert_eq!((snapshot.admitted, snapshot.completed, snapshot.outstanding()), (3, 1, 2));
}

async fn a_loan_is_completed_once(backend: impl Backend) {
    backend.admit(vec![found("http://a/", 0)]).await.unwrap();
    run_frontier(&backend).await;
    let lease = lease_all(&backend, FIRST).await.remove(0);
    let twice = vec![kept(&lease, Vec::new()), kept(&lease, Vec::new())];
    let completed = backend.complete(twice).await.unwrap();
    assert!(matches!(
        completed[..],
        [CompleteResult::Applied { id: Some(1), .. }, CompleteResult::StaleLease]
    ));
    let is_revisit = backend.complete(vec![kept(&lease, vec![found("http://a/late", 1)])]).await.unwrap();
    assert_eq!(is_revisit, [CompleteResult::StaleLease]);
    let snapshot = backend.snapshot().await.unwrap();
    assert_eq!((snapshot.admitted, snapshot.completed, snapshot.pages), (1, 1, 1));
}

async fn what_a_dead_worker_had_returns_and_its_late_word_is_refused(backend: impl Backend) {
    backend.admit(of_host("a.test", 70)).await.unwrap();
    run_frontier(&backend).await;
    let lost = backend.lease(FIRST, 3, NO_WAIT).await.unwrap();
    assert_eq!(lost.len(), 3, "the first of equals gets the domain");
    backend.remove_worker(FIRST).await.unwrap();
    assert_eq!(backend.reserve(&lost[0], 0).await.unwrap(), BudgetDecision::LeaseLost);
    assert_eq!(
        backend.complete(vec![kept(&lost[0], Vec::new())]).await.unwrap(),
        [CompleteResult::StaleLease]
    );
    run_frontier(&backend).await;
    let mut seen = HashSet::new();
    for _ in 0..70 {
        for lease in lease_all(&backend, SECOND).await {
            assert!(seen.insert(lease.url.clone()), "{} came twice", lease.url);
            backend.complete(vec![kept(&lease, Vec::new())]).await.unwrap();
        }
    }
    assert_eq!(seen.len(), 70, "nothing is lost");
    assert_eq!(backend.snapshot().await.unwrap().outstanding(), 0);
}

async fn a_domain_has_one_owner_and_new_ones_go_to_the_shortest_queue(backend: impl Backend) {
    let mut found_urls = of_host("www.a.test", 10);
    found_urls.extend(of_host("mail.a.test", 10));
    found_urls.extend(of_host("b.test", 5));
    found_urls.extend(of_host("c.test", 1));
    backend.admit(found_urls).await.unwrap();
    run_frontier(&backend).await;
    let (first, second) = (lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await);
    assert_eq!((first.len(), second.len()), (20, 6));
    assert!(first.iter().all(|lease| lease.url.contains("a.test")));
}

async fn a_domain_is_free_again_after_five_quiet_minutes(backend: impl Backend) {
    backend.admit(vec![found("http://a.test/1", 0)]).await.unwrap();
    run_frontier(&backend).await;
    let lease = lease_all(&backend, FIRST).await.remove(0);
    advance(&backend, 20 * MINUTE).await;
    assert_eq!(backend.snapshot().await.unwrap().owned_domains, 1, "not while it is on loan");
    backend.complete(vec![kept(&lease, Vec::new())]).await.unwrap();
    // Somebody else is busier, but the owner is asked while it owns.
    advance(&backend, 4 * MINUTE).await;
    backend.admit(vec![found("http://a.test/2", 0)]).await.unwrap();
    run_frontier(&backend).await;
    let lease = lease_all(&backend, FIRST).await.remove(0);
    backend.complete(vec![kept(&lease, Vec::new())]).await.unwrap();
    advance(&backend, 6 * MINUTE).await;
    assert_eq!(backend.snapshot().await.unwrap().owned_domains, 0);
}

async fn one_domain_takes_only_its_share_of_a_queue(backend: impl Backend) {
    backend.admit(of_host("slow.test", 90)).await.unwrap();
    run_frontier(&backend).await;
    backend.admit(of_host("other.test", 3)).await.unwrap();
    backend.admit(of_host("third.test", 3)).await.unwrap();
    run_frontier(&backend).await;
    let snapshot = backend.snapshot().await.unwrap();
    assert_eq!(snapshot.workers.iter().map(|(queued, _)| queued).sum::<usize>(), 64 + 6);
    assert_eq!(snapshot.waiting, 90 - 64);
    let slow = lease_all(&backend, FIRST).await;
    let order: Vec<String> = (0..64).map(|number| format!("http://slow.test/{number}")).collect();
    assert_eq!(urls(&slow), order);
    backend.complete(slow.iter().map(|lease| kept(lease, Vec::new())).collect()).await.unwrap();
    let rest = lease_all(&backend, FIRST).await;
    assert_eq!(urls(&rest).first(), Some(&"http://slow.test/64"), "in order");
    assert_eq!(rest.len(), 26);
}

async fn full_queues_overflow_in_order_and_lose_nothing(backend: impl Backend) {
    // Many domains, so that no share holds any back: each queue holds one hundred.
    let all: Vec<DiscoveredUrl> =
        (0..1000).map(|number| found(&format!("http://h{number}.test/"), 1)).collect();
    let expected: HashSet<String> = all.iter().map(|found| found.url.clone()).collect();
    assert_eq!(backend.admit(all).await.unwrap().new, 1000);
    let mut seen = HashSet::new();
    for _ in 0..100 {
        run_frontier(&backend).await;
        let snapshot = backend.snapshot().await.unwrap();
        let lengths =
            snapshot.priority_queues.iter().chain(snapshot.workers.iter().map(|(queued, _)| queued));
        assert!(lengths.chain([&snapshot.url_queue.0]).all(|length| *length <= 100), "{snapshot:?}");
        for worker in [FIRST, SECOND] {
            for lease in backend.lease(worker, 7, NO_WAIT).await.unwrap() {
                seen.insert(lease.url.clone());
                backend.complete(vec![kept(&lease, Vec::new())]).await.unwrap();
            }
        }
    }
    assert_eq!(seen, expected);
    assert_eq!(backend.snapshot().await.unwrap().outstanding(), 0);
}

/// Where all workers are there from the beginning, nobody need give anything away.
async fn a_domain_that_is_to_be_passed_on_is_one_workers_as_a_whole(backend: impl Backend) {
    backend.admit(of_host("a.test", 30)).await.unwrap();
    run_frontier(&backend).await;
    let (mut from, mut to) = (FIRST, SECOND);
    let mut leases = backend.lease(from, 10, NO_WAIT).await.unwrap();
    if leases.is_empty() {
        (from, to) = (to, from);
        leases = backend.lease(from, 10, NO_WAIT).await.unwrap();
    }
    assert_eq!(leases.len(), 10);
    let domain = Domain::from_url_str("http://a.test/");
    let handover = DomainTransfer { domain, to, leases: leases.clone(), cooldowns: Vec::new() };
    let passed = backend.transfer_domains(from, vec![handover]).await.unwrap();
    let is_passed = passed == [TransferResult::Moved];
    // Only on Redis workers come and go.
    assert_eq!(is_passed, std::any::type_name_of_val(&backend).contains("Redis"));
    let completed = backend.complete(vec![kept(&leases[0], Vec::new())]).await.unwrap();
    assert_eq!(completed == [CompleteResult::StaleLease], is_passed);
    let (owner, other, left) = if is_passed { (to, from, 30) } else { (from, to, 20) };
    assert!(lease_all(&backend, other).await.is_empty());
    assert_eq!(lease_all(&backend, owner).await.len(), left);
    assert_eq!(backend.outstanding().await.unwrap(), if is_passed { 30 } else { 29 });
}

async fn a_url_met_nearer_while_it_waits_has_its_depth_lowered(backend: impl Backend) {
    backend.admit(vec![found("http://a/", 7)]).await.unwrap();
    backend.admit(vec![found("http://a/", 2)]).await.unwrap();
    run_frontier(&backend).await;
    let leases = lease_all(&backend, FIRST).await;
    assert_eq!((leases.len(), leases[0].depth, leases[0].is_revisit), (1, 2, false));
}

async fn a_url_met_nearer_after_its_completion_is_visited_again_for_its_links(backend: impl Backend) {
    backend.admit(vec![found("http://a/", 7)]).await.unwrap();
    run_frontier(&backend).await;
    let lease = lease_all(&backend, FIRST).await.remove(0);
    backend.complete(vec![kept(&lease, Vec::new())]).await.unwrap();
    assert_eq!(backend.admit(vec![found("http://a/", 3)]).await.unwrap().new, 0);
    run_frontier(&backend).await;
    let lease = lease_all(&backend, FIRST).await.remove(0);
    assert_eq!((lease.depth, lease.is_revisit), (3, true));
    let completed = backend.complete(vec![kept(&lease, Vec::new())]).await.unwrap();
    assert_eq!(
        completed,
        [CompleteResult::Applied { id: None, new: 0, exhausted: None }],
        "it is the same document"
    );
    let snapshot = backend.snapshot().await.unwrap();
    assert_eq!((snapshot.outstanding(), snapshot.revisits, snapshot.pages), (0, 1, 1));
}

async fn a_url_met_nearer_while_on_loan_is_visited_again_for_its_links(backend: impl Backend) {
    backend.admit(vec![found("http://a/", 7), found("http://b/", 7)]).await.unwrap();
    run_frontier(&backend).await;
    let leases = [lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await].concat();
    backend.admit(vec![found("http://a/", 3), found("http://b/", 3)]).await.unwrap();
    for lease in leases {
        let outcome = if lease.url == "http://a/" { Outcome::Page } else { Outcome::RobotsDisallowed };
        backend.complete(vec![Completion { outcome, ..kept(&lease, Vec::new()) }]).await.unwrap();
    }
    run_frontier(&backend).await;
    let is_revisit = [lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await].concat();
    assert_eq!(urls(&is_revisit), ["http://a/"], "only what has links");
    assert_eq!((is_revisit[0].depth, is_revisit[0].is_revisit), (3, true));
    backend.complete(vec![kept(&is_revisit[0], Vec::new())]).await.unwrap();
    backend.admit(vec![found("http://a/", 2)]).await.unwrap();
    run_frontier(&backend).await;
    let is_revisit = [lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await].concat();
    assert_eq!((urls(&is_revisit), is_revisit[0].depth), (vec!["http://a/"], 2), "nearer and nearer");
    backend.complete(vec![kept(&is_revisit[0], vec![found("http://a/x", 3)])]).await.unwrap();
    // Met nearer after its completion, what has no links is not visited again either.
    backend.admit(vec![found("http://b/", 1)]).await.unwrap();
    run_frontier(&backend).await;
    let rest = [lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await].concat();
    assert_eq!(urls(&rest), ["http://a/x"]);
}

async fn a_revisit_needs_no_page_of_the_budget(backend: impl Backend) {
    backend.admit(vec![found("http://a.test/", 7)]).await.unwrap();
    run_frontier(&backend).await;
    let lease = lease_all(&backend, FIRST).await.remove(0);
    assert_eq!(backend.reserve(&lease, 0).await.unwrap(), BudgetDecision::Granted(1000));
    backend.complete(vec![kept(&lease, Vec::new())]).await.unwrap();
    backend.admit(vec![found("http://a.test/", 3)]).await.unwrap();
    run_frontier(&backend).await;
    let is_revisit = lease_all(&backend, FIRST).await.remove(0);
    assert_eq!(backend.reserve(&is_revisit, 0).await.unwrap(), BudgetDecision::Granted(1000));
}

async fn a_url_is_forgotten_after_its_hour_and_never_while_outstanding(backend: impl Backend) {
    backend.admit(vec![found("http://done/", 0), found("http://waits/", 0)]).await.unwrap();
    run_frontier(&backend).await;
    let leases = [lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await].concat();
    let done = leases.iter().find(|lease| lease.url == "http://done/").unwrap();
    backend.complete(vec![kept(done, Vec::new())]).await.unwrap();
    advance(&backend, 70 * MINUTE).await;
    let admitted = backend.admit(vec![found("http://done/", 0), found("http://waits/", 0)]).await.unwrap();
    assert_eq!((admitted.new, admitted.seen), (1, 1));
}

async fn budgets_are_reserved_before_and_settled_after(backend: impl Backend) {
    backend.admit(of_host("a.test", 10)).await.unwrap();
    run_frontier(&backend).await;
    let leases = lease_all(&backend, FIRST).await;
    // Three pages and 2,500 bytes are left to this crawl.
    assert_eq!(backend.reserve(&leases[0], 0).await.unwrap(), BudgetDecision::Granted(1000));
    assert_eq!(backend.reserve(&leases[1], 0).await.unwrap(), BudgetDecision::Granted(1000));
    assert_eq!(
        backend.reserve(&leases[2], 0).await.unwrap(),
        BudgetDecision::RetryLater,
        "a page must not be cut for them"
    );
    backend.release(&leases[1], 0).await.unwrap();
    assert_eq!(
        backend.reserve(&leases[2], 0).await.unwrap(),
        BudgetDecision::Granted(1000),
        "what was given back"
    );
    backend.complete(vec![kept(&leases[0], Vec::new())]).await.unwrap();
    let failed = Completion { outcome: Outcome::RobotsDisallowed, bytes: 0, ..kept(&leases[1], Vec::new()) };
    backend.complete(vec![failed]).await.unwrap();
    assert_eq!(
        backend.reserve(&leases[3], 0).await.unwrap(),
        BudgetDecision::Granted(1000),
        "what was not used came back"
    );
    let read = Completion { bytes: 1_900, ..kept(&leases[2], Vec::new()) };
    backend
        .complete(vec![
            read,
            Completion { outcome: Outcome::RobotsDisallowed, ..kept(&leases[3], Vec::new()) },
        ])
        .await
        .unwrap();
    assert_eq!(
        backend.reserve(&leases[4], 0).await.unwrap(),
        BudgetDecision::Granted(580),
        "all that is left"
    );
    assert_eq!(backend.reserve(&leases[5], 0).await.unwrap(), BudgetDecision::RetryLater);
    let last = backend.complete(vec![kept(&leases[4], Vec::new())]).await.unwrap();
    assert_eq!(last, [CompleteResult::Applied { id: Some(3), new: 0, exhausted: Some(Budget::Pages) }]);
    assert_eq!(backend.reserve(&leases[5], 0).await.unwrap(), BudgetDecision::Exhausted(Budget::Pages));
    let snapshot = backend.snapshot().await.unwrap();
    assert_eq!((snapshot.pages, snapshot.bytes), (3, 1_930));
}

async fn a_budget_of_bytes_that_is_spent_lets_nobody_ask(backend: impl Backend) {
    backend.admit(of_host("a.test", 3)).await.unwrap();
    run_frontier(&backend).await;
    let leases = [lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await].concat();
    assert_eq!(backend.reserve(&leases[0], 0).await.unwrap(), BudgetDecision::Granted(1000));
    let read =
        Completion { bytes: 2_500, outcome: Outcome::RobotsDisallowed, ..kept(&leases[0], Vec::new()) };
    backend.complete(vec![read]).await.unwrap();
    assert_eq!(backend.reserve(&leases[1], 0).await.unwrap(), BudgetDecision::Exhausted(Budget::Bytes));
    assert_eq!(backend.exhausted_budget().await.unwrap(), Some(Budget::Bytes));
}

async fn a_host_has_a_budget_of_its_own(backend: impl Backend) {
    let all = [of_host("a.test", 3), of_host("b.test", 1)].concat();
    backend.admit(all).await.unwrap();
    run_frontier(&backend).await;
    let leases = [lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await].concat();
    let mut grants = Vec::new();
    for lease in &leases {
        grants.push((lease.url.contains("a.test"), backend.reserve(lease, 0).await.unwrap()));
    }
    assert_eq!(grants.iter().filter(|grant| **grant == (true, BudgetDecision::RetryLater)).count(), 1);
    assert!(grants.contains(&(false, BudgetDecision::Granted(1000))));
    let (of_a, mut rest): (Vec<_>, Vec<_>) = leases
        .iter()
        .zip(&grants)
        .filter(|(_, (is_a, _))| *is_a)
        .map(|(lease, (_, grant))| (lease, *grant))
        .partition(|(_, grant)| *grant == BudgetDecision::Granted(1000));
    for (lease, _) in of_a {
        backend.complete(vec![kept(lease, Vec::new())]).await.unwrap();
    }
    let (last, _) = rest.remove(0);
    assert_eq!(backend.reserve(last, 0).await.unwrap(), BudgetDecision::HostExhausted);
}

async fn the_prioritizer_learns_how_many_pages_link_to_a_domain(backend: impl Backend) {
    backend.admit(of_host("a.test", 2)).await.unwrap();
    run_frontier(&backend).await;
    for lease in lease_all(&backend, FIRST).await {
        let linked = vec![Domain::from_url_str("http://www.popular.test/")];
        backend
            .complete(vec![Completion { linked_domains: linked, ..kept(&lease, Vec::new()) }])
            .await
            .unwrap();
    }
    backend.admit(vec![found("http://popular.test/", 4)]).await.unwrap();
    let incoming = backend.take_unprioritized(10, NO_WAIT).await.unwrap();
    assert_eq!((incoming[0].linking_pages, incoming[0].depth), (2, 4));
    assert_eq!(incoming[0].domain.as_str(), "popular.test");
}

async fn moves_made_twice_are_made_once(backend: impl Backend) {
    backend.admit(vec![found("http://a/", 0)]).await.unwrap();
    let incoming = backend.take_unprioritized(10, NO_WAIT).await.unwrap();
    let filed = vec![(incoming[0].task_id, Priority::BEST)];
    backend.enqueue_prioritized(filed.clone()).await.unwrap();
    backend.enqueue_prioritized(filed).await.unwrap();
    assert_eq!(backend.route(vec![Priority::BEST; 5], NO_WAIT).await.unwrap(), 1);
    assert_eq!(lease_all(&backend, FIRST).await.len(), 1);
    backend.remove_worker(FIRST).await.unwrap();
    backend.remove_worker(FIRST).await.unwrap();
    run_frontier(&backend).await;
    assert_eq!(lease_all(&backend, SECOND).await.len(), 1);
}

async fn a_page_like_another_is_not_stored_and_never_its_own_duplicate(backend: impl Backend) {
    let words = |from: usize, to: usize| (from..to).map(|n| format!("word{n} ")).collect::<String>();
    let print = |body: &str| Fingerprint::of_text(backend.hash_key(), None, body.as_bytes());
    let remember = async |url: &str, body: &str| {
        backend.store_content(url, &print(body), body.as_bytes()).await.unwrap()
    };
    let first = words(0, 400);
    assert_eq!(remember("http://a/", &first).await, ContentMatch::New);
    assert_eq!(remember("http://a/", &first).await, ContentMatch::New, "delivered again");
    assert_eq!(remember("http://b/", &first).await, ContentMatch::Duplicate("http://a/".into()));
    assert_eq!(remember("http://c/", &words(4, 404)).await, ContentMatch::NearDuplicate("http://a/".into()));
    assert_eq!(remember("http://d/", &words(200, 600)).await, ContentMatch::New);
    assert_eq!(backend.load_content("http://a/").await.unwrap().as_deref(), Some(first.as_bytes()));
    assert_eq!(backend.load_content("http://b/").await.unwrap(), None);
    assert_eq!(backend.snapshot().await.unwrap().stored.0, 2);
    advance(&backend, 61 * MINUTE).await;
    assert_eq!(backend.load_content("http://a/").await.unwrap(), None, "after its hour");
    assert_eq!(remember("http://b/", &first).await, ContentMatch::New);
}

/// Each promise as a test on each implementation, with the settings it needs.
macro_rules! contract {
    ($($promise:ident $(with $settings:expr)?;)*) => {
        mod in_memory {
            use super::*;

            $(#[tokio::test(start_paused = true)]
            async fn $promise() {
                #[allow(unused_mut, unused_assignments)]
                let mut chosen = settings();
                $(chosen = $settings;)?
                super::$promise(LocalBackend::new(chosen)).await;
            })*
        }

        mod on_disk {
            use super::*;

            $(#[tokio::test(start_paused = true)]
            async fn $promise() {
                #[allow(unused_mut, unused_assignments)]
                let mut chosen = settings();
                $(chosen = $settings;)?
                let directory = tempfile::tempdir().unwrap();
                let OpenState { backend, keeper, before } = durable_state(directory.path(), chosen);
                assert_eq!(before, PriorState::Nothing);
                super::$promise(backend).await;
                keeper.close().unwrap();
            })*
        }

        mod on_redis {
            use super::*;

            $(#[tokio::test]
            #[ignore = "needs redis-server; make test installs it"]
            async fn $promise() {
                #[allow(unused_mut, unused_assignments)]
                let mut chosen = settings();
                $(chosen = $settings;)?
                let server = Server::start();
                super::$promise(on_redis(&server, chosen, 1).await).await;
            })*
        }
    };
}

contract! {
    a_url_is_admitted_once;
    children_are_admitted_before_their_parent_completes;
    a_loan_is_completed_once;
    what_a_dead_worker_had_returns_and_its_late_word_is_refused;
    a_domain_has_one_owner_and_new_ones_go_to_the_shortest_queue;
    a_domain_is_free_again_after_five_quiet_minutes;
    one_domain_takes_only_its_share_of_a_queue;
    full_queues_overflow_in_order_and_lose_nothing;
    a_domain_that_is_to_be_passed_on_is_one_workers_as_a_whole;
    a_url_met_nearer_while_it_waits_has_its_depth_lowered;
    a_url_met_nearer_after_its_completion_is_visited_again_for_its_links;
    a_url_met_nearer_while_on_loan_is_visited_again_for_its_links;
    a_revisit_needs_no_page_of_the_budget with BackendConfig { max_pages_per_host: 1, ..settings() };
    a_url_is_forgotten_after_its_hour_and_never_while_outstanding;
    budgets_are_reserved_before_and_settled_after with BackendConfig { max_pages: 3, max_bytes: 2500, ..settings() };
    a_budget_of_bytes_that_is_spent_lets_nobody_ask with BackendConfig { max_bytes: 2_500, ..settings() };
    a_host_has_a_budget_of_its_own with BackendConfig { max_pages_per_host: 2, ..settings() };
    the_prioritizer_learns_how_many_pages_link_to_a_domain;
    moves_made_twice_are_made_once;
    a_page_like_another_is_not_stored_and_never_its_own_duplicate;
}

/// The same with many partitions, also on a node of a cluster: all but the one promise that depends on which partition
/// is first. Where a promise needs room in the queue of one domain or one worker, there is some in every partition.
macro_rules! in_partitions {
    ($($promise:ident $(with $settings:expr)?;)*) => {
        mod on_redis_in_partitions {
            use super::*;

            $(#[tokio::test]
            #[ignore = "needs redis-server; make test installs it"]
            async fn $promise() {
                #[allow(unused_mut, unused_assignments)]
                let mut chosen = settings();
                $(chosen = $settings;)?
                let alone = Server::start();
                super::$promise(on_redis(&alone, chosen.clone(), 16).await).await;
                let node = Server::builder().cluster().start();
                node.ask::<()>("CLUSTER ADDSLOTSRANGE 0 16383");
                while !node.ask::<String>("CLUSTER INFO").contains("cluster_state:ok") {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                super::$promise(on_redis(&node, chosen, 16).await).await;
            })*
        }
    };
}

in_partitions! {
    a_url_is_admitted_once;
    children_are_admitted_before_their_parent_completes;
    a_loan_is_completed_once;
    what_a_dead_worker_had_returns_and_its_late_word_is_refused with BackendConfig { queue_size: 1600, ..settings() };
    a_domain_is_free_again_after_five_quiet_minutes with BackendConfig { workers: 1, ..settings() };
    one_domain_takes_only_its_share_of_a_queue with BackendConfig { queue_size: 1600, ..settings() };
    full_queues_overflow_in_order_and_lose_nothing;
    a_domain_that_is_to_be_passed_on_is_one_workers_as_a_whole with BackendConfig { queue_size: 1600, ..settings() };
    a_url_met_nearer_while_it_waits_has_its_depth_lowered with BackendConfig { workers: 1, ..settings() };
    a_url_met_nearer_after_its_completion_is_visited_again_for_its_links with BackendConfig { workers: 1, ..settings() };
    a_url_met_nearer_while_on_loan_is_visited_again_for_its_links;
    a_revisit_needs_no_page_of_the_budget with BackendConfig { max_pages_per_host: 1, workers: 1, ..settings() };
    a_url_is_forgotten_after_its_hour_and_never_while_outstanding;
    budgets_are_reserved_before_and_settled_after
        with BackendConfig { max_pages: 3, max_bytes: 2500, queue_size: 1600, workers: 1, ..settings() };
    a_budget_of_bytes_that_is_spent_lets_nobody_ask with BackendConfig { max_bytes: 2_500, ..settings() };
    a_host_has_a_budget_of_its_own with BackendConfig { max_pages_per_host: 2, ..settings() };
    the_prioritizer_learns_how_many_pages_link_to_a_domain with BackendConfig { workers: 1, ..settings() };
    moves_made_twice_are_made_once;
    a_page_like_another_is_not_stored_and_never_its_own_duplicate;
}
