//! The conformance tests of the [`Backend`] trait. Written once, run on every implementation.

#[path = "conformance/budgets.rs"]
mod budgets;
#[path = "conformance/distributed.rs"]
mod distributed;
#[path = "conformance/duplicates.rs"]
mod duplicates;

use std::any::Any;
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use crawler::internal::backend::durable::{self, OpenState, PriorState, RecordedSettings, StateOptions};
use crawler::internal::backend::local::{BackendConfig, HostLimits, LocalBackend, UNLIMITED_TTL};
use crawler::internal::backend::{
    Backend, Budget, BudgetDecision, CompleteResult, Completion, ContentMatch, DiscoveredUrl, DomainTransfer,
    Lease, Outlinks, TransferResult, WorkerId,
};
use crawler::internal::domain::{Domain, DomainInternals as _};
use crawler::internal::fetch::http::AddressKinds;
use crawler::internal::outcome::{Outcome, OutcomeInternals as _};
use crawler::internal::prioritizer::{Priority, PriorityQueues};
use crawler::internal::similarity::{Estimate, Fingerprint, Threshold};
use crawler::internal::stats::BodyBytes;
use testredis::Server;

use self::budgets::*;
use self::distributed::DistributedBackend;
use self::duplicates::*;

const NO_WAIT: Duration = Duration::ZERO;
const MINUTE: Duration = Duration::from_secs(60);
const FIRST: WorkerId = WorkerId(0);
const SECOND: WorkerId = WorkerId(1);

fn config() -> BackendConfig {
    BackendConfig {
        visits: Default::default(),
        queue_size: 100,
        priority_queues: PriorityQueues::new(10).unwrap(),
        workers: 2,
        ttl: 60 * MINUTE,
        domain_ttl: 5 * MINUTE,
        keep_depths: true,
        keep_discovery: false,
        similarity: Threshold::new(0.9),
        strip_query: Default::default(),
        keep_content: true,
        max_pages: 1000,
        max_bytes: 1_000_000,
        max_page_bytes: 1000,
        max_pages_per_host: u64::MAX,
        max_pages_per_site: u64::MAX,
        hosts: HostLimits::default(),
    }
}

fn durable_state(directory: &Path, config: BackendConfig) -> OpenState {
    let options = StateOptions {
        recrawl: None,
        clock_interval: durable::CLOCK_INTERVAL,
        config,
        delay: Duration::ZERO,
        recorded_settings: RecordedSettings::default(),
        metadata: Vec::new(),
        retry_failed: false,
    };
    durable::open(directory, options).unwrap()
}

/// Advances the clock: tokio's, which is paused, or that of the frontier process.
async fn advance(backend: &impl Backend, time: Duration) {
    match (backend as &dyn Any).downcast_ref::<DistributedBackend>() {
        Some(distributed) => distributed.advance(time).await,
        None => tokio::time::advance(time).await,
    }
}

fn discovered(url: &str, depth: u32) -> DiscoveredUrl {
    DiscoveredUrl { url: url.to_owned(), depth, redirects: 0 }
}

fn urls_of_host(host: &str, count: usize) -> Vec<DiscoveredUrl> {
    (0..count).map(|number| discovered(&format!("http://{host}/{number}"), 1)).collect()
}

fn page(lease: &Lease, outlinks: Vec<DiscoveredUrl>) -> Completion {
    let depth = outlinks.first().map_or(0, |outlink| outlink.depth);
    let outlinks = Outlinks::new(outlinks.iter().map(|outlink| &outlink.url), depth);
    Completion { outcome: Outcome::Page, bytes: BodyBytes::unencoded(10), outlinks, ..Completion::new(lease) }
}

/// Prioritizes everything that can be.
async fn run_frontier(backend: &impl Backend) {
    loop {
        let unprioritized = backend.take_unprioritized(1000, NO_WAIT).await.unwrap();
        let prioritized =
            unprioritized.iter().map(|url| (url.task_id, Priority::new(50).unwrap())).collect::<Vec<_>>();
        backend.enqueue_prioritized(prioritized).await.unwrap();
        if unprioritized.is_empty() {
            return;
        }
    }
}

/// Reserves for the first request of a lease.
async fn reserve(backend: &impl Backend, lease: &Lease) -> BudgetDecision {
    backend.reserve(lease, BodyBytes::default()).await.unwrap()
}

async fn lease_all(backend: &impl Backend, worker: WorkerId) -> Vec<Lease> {
    backend.lease(worker, usize::MAX, NO_WAIT).await.unwrap()
}

fn urls(leases: &[Lease]) -> Vec<&str> {
    leases.iter().map(|lease| &*lease.url).collect()
}

async fn url_is_admitted_once(backend: impl Backend) {
    let admitted = backend.admit(vec![discovered("http://a/", 0), discovered("http://a/", 0)]).await.unwrap();
    assert_eq!((admitted.new, admitted.seen), (1, 1));
    assert_eq!(backend.admit(vec![discovered("http://a/", 0)]).await.unwrap().new, 0);
    run_frontier(&backend).await;
    let leases = [lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await].concat();
    assert_eq!(urls(&leases), ["http://a/"]);
}

async fn outlinks_are_admitted_before_the_page_completes(backend: impl Backend) {
    backend.admit(vec![discovered("http://a/", 0)]).await.unwrap();
    run_frontier(&backend).await;
    let lease = lease_all(&backend, FIRST).await.remove(0);
    let outlinks = vec![discovered("http://a/x", 1), discovered("http://a/", 1), discovered("http://b/", 1)];
    let completed = backend.complete(vec![page(&lease, outlinks)]).await.unwrap();
    assert_eq!(completed, [CompleteResult::Applied { id: Some(1), sequence: None, new: 2, exhausted: None }]);
    let snapshot = backend.snapshot().await.unwrap();
    assert_eq!((snapshot.admitted, snapshot.completed, snapshot.pending()), (3, 1, 2));
}

async fn lease_is_completed_once(backend: impl Backend) {
    backend.admit(vec![discovered("http://a/", 0)]).await.unwrap();
    run_frontier(&backend).await;
    let lease = lease_all(&backend, FIRST).await.remove(0);
    let twice = vec![page(&lease, Vec::new()), page(&lease, Vec::new())];
    let completed = backend.complete(twice).await.unwrap();
    assert!(matches!(
        completed[..],
        [CompleteResult::Applied { id: Some(1), .. }, CompleteResult::StaleLease]
    ));
    let late = backend.complete(vec![page(&lease, vec![discovered("http://a/late", 1)])]).await.unwrap();
    assert_eq!(late, [CompleteResult::StaleLease]);
    let snapshot = backend.snapshot().await.unwrap();
    assert_eq!((snapshot.admitted, snapshot.completed, snapshot.pages), (1, 1, 1));
}

async fn urls_of_a_dead_worker_are_requeued_and_its_leases_are_stale(backend: impl Backend) {
    backend.admit(urls_of_host("a.test", 70)).await.unwrap();
    run_frontier(&backend).await;
    let lost = backend.lease(FIRST, 3, NO_WAIT).await.unwrap();
    assert_eq!(lost.len(), 3, "with equal queues, the first worker gets the domain");
    backend.remove_worker(FIRST).await.unwrap();
    // A lease may come with the reservation for its first request, but not with one for more bytes.
    let more = backend.reserve(&lost[0], BodyBytes::unencoded(1_000)).await.unwrap();
    assert_eq!(more, BudgetDecision::LeaseLost);
    assert_eq!(
        backend.complete(vec![page(&lost[0], Vec::new())]).await.unwrap(),
        [CompleteResult::StaleLease]
    );
    run_frontier(&backend).await;
    let mut seen = HashSet::new();
    for _ in 0..70 {
        for lease in lease_all(&backend, SECOND).await {
            assert!(seen.insert(lease.url.clone()), "{} was leased twice", lease.url);
            backend.complete(vec![page(&lease, Vec::new())]).await.unwrap();
        }
    }
    assert_eq!(seen.len(), 70, "no URL is lost");
    assert_eq!(backend.snapshot().await.unwrap().pending(), 0);
}

async fn domain_has_one_owner_and_new_domains_go_to_the_shortest_queue(backend: impl Backend) {
    let mut discovered_urls = urls_of_host("www.a.test", 10);
    discovered_urls.extend(urls_of_host("mail.a.test", 10));
    discovered_urls.extend(urls_of_host("b.test", 6));
    // Both workers want URLs.
    assert!(lease_all(&backend, FIRST).await.is_empty() && lease_all(&backend, SECOND).await.is_empty());
    backend.admit(discovered_urls).await.unwrap();
    run_frontier(&backend).await;
    let (first, second) = (lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await);
    assert_eq!((first.len(), second.len()), (20, 6));
    assert!(first.iter().all(|lease| lease.url.contains("a.test")));
}

async fn domain_is_released_five_minutes_after_its_last_use(backend: impl Backend) {
    backend.admit(vec![discovered("http://a.test/1", 0)]).await.unwrap();
    run_frontier(&backend).await;
    let lease = lease_all(&backend, FIRST).await.remove(0);
    advance(&backend, 20 * MINUTE).await;
    assert_eq!(backend.snapshot().await.unwrap().owned_domains, 1, "not while a URL is leased");
    backend.complete(vec![page(&lease, Vec::new())]).await.unwrap();
    // A domain keeps its owner for five minutes after its last use.
    advance(&backend, 4 * MINUTE).await;
    backend.admit(vec![discovered("http://a.test/2", 0)]).await.unwrap();
    run_frontier(&backend).await;
    let lease = lease_all(&backend, FIRST).await.remove(0);
    backend.complete(vec![page(&lease, Vec::new())]).await.unwrap();
    advance(&backend, 6 * MINUTE).await;
    assert_eq!(backend.snapshot().await.unwrap().owned_domains, 0);
}

async fn host_has_a_limited_number_of_leases(backend: impl Backend) {
    backend.admit(urls_of_host("slow.test", 90)).await.unwrap();
    run_frontier(&backend).await;
    backend.admit(urls_of_host("other.test", 3)).await.unwrap();
    backend.admit(urls_of_host("third.test", 3)).await.unwrap();
    run_frontier(&backend).await;
    let leases = [lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await].concat();
    let slow: Vec<&str> = urls(&leases).into_iter().filter(|url| url.contains("slow.test")).collect();
    let order: Vec<String> = (0..64).map(|number| format!("http://slow.test/{number}")).collect();
    assert_eq!((slow, leases.len()), (order.iter().map(|url| &**url).collect(), 64 + 6));
    backend.complete(leases.iter().map(|lease| page(lease, Vec::new())).collect()).await.unwrap();
    let rest = [lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await].concat();
    assert_eq!(urls(&rest).first(), Some(&"http://slow.test/64"), "in order");
    assert_eq!(rest.len(), 26);
}

async fn full_queues_overflow_and_lose_nothing(backend: impl Backend) {
    // Many domains, so that the limit per domain does not matter. Each queue holds one hundred URLs.
    let all: Vec<DiscoveredUrl> =
        (0..1000).map(|number| discovered(&format!("http://h{number}.test/"), 1)).collect();
    let expected: HashSet<String> = all.iter().map(|discovered| discovered.url.clone()).collect();
    assert_eq!(backend.admit(all).await.unwrap().new, 1000);
    let mut seen = HashSet::new();
    for _ in 0..100 {
        run_frontier(&backend).await;
        let snapshot = backend.snapshot().await.unwrap();
        assert!(snapshot.url_queue <= 100, "{snapshot:?}");
        for worker in [FIRST, SECOND] {
            for lease in backend.lease(worker, 7, NO_WAIT).await.unwrap() {
                seen.insert(lease.url.to_string());
                backend.complete(vec![page(&lease, Vec::new())]).await.unwrap();
            }
        }
    }
    assert_eq!(seen, expected);
    assert_eq!(backend.snapshot().await.unwrap().pending(), 0);
}

/// A backend whose workers are fixed from the start may decline the transfer.
async fn domain_transfer_moves_all_of_the_domain_or_nothing(backend: impl Backend) {
    backend.admit(urls_of_host("a.test", 30)).await.unwrap();
    run_frontier(&backend).await;
    let (mut from, mut to) = (FIRST, SECOND);
    let mut leases = backend.lease(from, 10, NO_WAIT).await.unwrap();
    if leases.is_empty() {
        (from, to) = (to, from);
        leases = backend.lease(from, 10, NO_WAIT).await.unwrap();
    }
    assert_eq!(leases.len(), 10);
    let domain = Domain::from_url_str("http://a.test/");
    let transfer = DomainTransfer { domain, to, leases: leases.clone(), cooldowns: Vec::new() };
    let results = backend.transfer_domains(from, vec![transfer]).await.unwrap();
    let is_moved = results == [TransferResult::Moved];
    // Only distributed crawls have workers that join and leave.
    assert_eq!(is_moved, std::any::type_name_of_val(&backend).contains("Distributed"));
    let completed = backend.complete(vec![page(&leases[0], Vec::new())]).await.unwrap();
    assert_eq!(completed == [CompleteResult::StaleLease], is_moved);
    let (owner, other, left) = if is_moved { (to, from, 30) } else { (from, to, 20) };
    assert!(lease_all(&backend, other).await.is_empty());
    assert_eq!(lease_all(&backend, owner).await.len(), left);
    assert_eq!(backend.pending().await.unwrap(), if is_moved { 30 } else { 29 });
}

async fn depth_of_a_queued_url_is_lowered(backend: impl Backend) {
    backend.admit(vec![discovered("http://a/", 7)]).await.unwrap();
    backend.admit(vec![discovered("http://a/", 2)]).await.unwrap();
    run_frontier(&backend).await;
    let leases = lease_all(&backend, FIRST).await;
    assert_eq!((leases.len(), leases[0].depth, leases[0].is_refetch), (1, 2, false));
}

async fn completed_url_found_at_a_smaller_depth_is_fetched_again(backend: impl Backend) {
    backend.admit(vec![discovered("http://a/", 7)]).await.unwrap();
    run_frontier(&backend).await;
    let lease = lease_all(&backend, FIRST).await.remove(0);
    backend.complete(vec![page(&lease, Vec::new())]).await.unwrap();
    assert_eq!(backend.admit(vec![discovered("http://a/", 3)]).await.unwrap().new, 0);
    run_frontier(&backend).await;
    let lease = lease_all(&backend, FIRST).await.remove(0);
    assert_eq!((lease.depth, lease.is_refetch), (3, true));
    let completed = backend.complete(vec![page(&lease, Vec::new())]).await.unwrap();
    assert_eq!(
        completed,
        [CompleteResult::Applied { id: None, sequence: None, new: 0, exhausted: None }],
        "it is the same page"
    );
    let snapshot = backend.snapshot().await.unwrap();
    assert_eq!((snapshot.pending(), snapshot.refetches, snapshot.pages), (0, 1, 1));
}

async fn leased_url_found_at_a_smaller_depth_is_fetched_again(backend: impl Backend) {
    backend.admit(vec![discovered("http://a/", 7), discovered("http://b/", 7)]).await.unwrap();
    run_frontier(&backend).await;
    let leases = [lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await].concat();
    backend.admit(vec![discovered("http://a/", 3), discovered("http://b/", 3)]).await.unwrap();
    for lease in leases {
        let outcome = if &*lease.url == "http://a/" { Outcome::Page } else { Outcome::RobotsDisallowed };
        backend.complete(vec![Completion { outcome, ..page(&lease, Vec::new()) }]).await.unwrap();
    }
    run_frontier(&backend).await;
    let refetches = [lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await].concat();
    assert_eq!(urls(&refetches), ["http://a/"], "only URLs with links are fetched again");
    assert_eq!((refetches[0].depth, refetches[0].is_refetch), (3, true));
    backend.complete(vec![page(&refetches[0], Vec::new())]).await.unwrap();
    backend.admit(vec![discovered("http://a/", 2)]).await.unwrap();
    run_frontier(&backend).await;
    let refetches = [lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await].concat();
    assert_eq!(
        (urls(&refetches), refetches[0].depth),
        (vec!["http://a/"], 2),
        "again, at a still smaller depth"
    );
    backend.complete(vec![page(&refetches[0], vec![discovered("http://a/x", 3)])]).await.unwrap();
    // A URL without links is not revisited after its completion either.
    backend.admit(vec![discovered("http://b/", 1)]).await.unwrap();
    run_frontier(&backend).await;
    let rest = [lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await].concat();
    assert_eq!(urls(&rest), ["http://a/x"]);
}

async fn revisit_does_not_use_the_page_budget(backend: impl Backend) {
    backend.admit(vec![discovered("http://a.test/", 7)]).await.unwrap();
    run_frontier(&backend).await;
    let lease = lease_all(&backend, FIRST).await.remove(0);
    assert_eq!(reserve(&backend, &lease).await, BudgetDecision::Granted(1000));
    backend.complete(vec![page(&lease, Vec::new())]).await.unwrap();
    backend.admit(vec![discovered("http://a.test/", 3)]).await.unwrap();
    run_frontier(&backend).await;
    let revisit = lease_all(&backend, FIRST).await.remove(0);
    assert_eq!(reserve(&backend, &revisit).await, BudgetDecision::Granted(1000));
}

async fn url_stays_seen_after_the_ttl(backend: impl Backend) {
    backend.admit(vec![discovered("http://done/", 0), discovered("http://waits/", 0)]).await.unwrap();
    run_frontier(&backend).await;
    let leases = [lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await].concat();
    let done = leases.iter().find(|lease| &*lease.url == "http://done/").unwrap();
    backend.complete(vec![page(done, Vec::new())]).await.unwrap();
    for _ in 0..5 {
        advance(&backend, 70 * MINUTE).await;
        let found = ["http://done/", "http://waits/"].map(|url| discovered(url, 0));
        let admitted = backend.admit(found.to_vec()).await.unwrap();
        assert_eq!((admitted.new, admitted.seen), (0, 2));
    }
    run_frontier(&backend).await;
    assert!(lease_all(&backend, FIRST).await.is_empty() && lease_all(&backend, SECOND).await.is_empty());
}

async fn nothing_expires_with_an_unlimited_ttl(backend: impl Backend) {
    backend.admit(vec![discovered("http://a.test/", 0)]).await.unwrap();
    run_frontier(&backend).await;
    let leases = [lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await].concat();
    let text = "<p>a page that is stored";
    let fingerprint = Fingerprint::of_text(backend.hash_key(), None, text.as_bytes());
    let stored = backend.store_content("http://a.test/", &fingerprint, text.as_bytes(), false).await.unwrap();
    assert_eq!(stored, ContentMatch::New);
    backend.complete(vec![page(&leases[0], Vec::new())]).await.unwrap();
    // Longer than any crawl.
    advance(&backend, 10 * 365 * 24 * 60 * MINUTE).await;
    let admitted = backend.admit(vec![discovered("http://a.test/", 0)]).await.unwrap();
    assert_eq!((admitted.new, admitted.seen), (0, 1));
    assert_eq!(backend.load_content("http://a.test/").await.unwrap().as_deref(), Some(text.as_bytes()));
}

async fn address_kinds_of_a_host_are_those_that_are_stored_first(backend: impl Backend) {
    let kinds = |address: [u8; 4]| AddressKinds::of_addresses(&[address.into()]);
    let [public, loopback] = [[1, 1, 1, 1], [127, 0, 0, 1]].map(kinds);
    for (host, first, later) in [("a.test", public, loopback), ("b.test:81", loopback, public)] {
        for offered in [first, later] {
            assert_eq!(backend.pin_address_kinds(host, offered).await.unwrap(), first, "{host}");
        }
    }
}

async fn prioritizer_gets_the_number_of_pages_linking_to_a_domain(backend: impl Backend) {
    backend.admit(urls_of_host("a.test", 2)).await.unwrap();
    run_frontier(&backend).await;
    for lease in lease_all(&backend, FIRST).await {
        let linked = vec![Domain::from_url_str("http://www.popular.test/")];
        backend
            .complete(vec![Completion { linked_domains: linked, ..page(&lease, Vec::new()) }])
            .await
            .unwrap();
    }
    backend.admit(vec![discovered("http://popular.test/", 4)]).await.unwrap();
    let unprioritized = backend.take_unprioritized(10, NO_WAIT).await.unwrap();
    assert_eq!((unprioritized[0].linking_pages, unprioritized[0].depth), (2, 4));
    assert_eq!(unprioritized[0].domain.as_str(), "popular.test");
}

async fn operations_are_idempotent(backend: impl Backend) {
    backend.admit(vec![discovered("http://a/", 0)]).await.unwrap();
    let unprioritized = backend.take_unprioritized(10, NO_WAIT).await.unwrap();
    let prioritized = vec![(unprioritized[0].task_id, Priority::BEST)];
    backend.enqueue_prioritized(prioritized.clone()).await.unwrap();
    backend.enqueue_prioritized(prioritized).await.unwrap();
    assert_eq!(lease_all(&backend, FIRST).await.len(), 1);
    backend.remove_worker(FIRST).await.unwrap();
    backend.remove_worker(FIRST).await.unwrap();
    run_frontier(&backend).await;
    assert_eq!(lease_all(&backend, SECOND).await.len(), 1);
}

/// Runs each test on each implementation, with the config it needs.
macro_rules! conformance_tests {
    ($($test:ident $(with $config:expr)?;)*) => {
        mod in_memory {
            use super::*;

            $(#[tokio::test(start_paused = true)]
            async fn $test() {
                #[allow(unused_mut, unused_assignments)]
                let mut chosen = config();
                $(chosen = $config;)?
                super::$test(LocalBackend::new(chosen)).await;
            })*
        }

        mod on_disk {
            use super::*;

            $(#[tokio::test(start_paused = true)]
            async fn $test() {
                #[allow(unused_mut, unused_assignments)]
                let mut chosen = config();
                $(chosen = $config;)?
                let directory = tempfile::tempdir().unwrap();
                let OpenState { backend, writer, prior, .. } = durable_state(directory.path(), chosen);
                assert_eq!(prior, PriorState::Empty);
                super::$test(backend).await;
                writer.close().unwrap();
            })*
        }

        mod distributed_crawl {
            use super::*;

            $(#[tokio::test]
            #[ignore = "needs redis-server: run by make test"]
            async fn $test() {
                #[allow(unused_mut, unused_assignments)]
                let mut chosen = config();
                $(chosen = $config;)?
                let server = Server::start();
                super::$test(DistributedBackend::start(server, chosen).await).await;
            })*
        }
    };
}

conformance_tests! {
    url_is_admitted_once;
    outlinks_are_admitted_before_the_page_completes;
    lease_is_completed_once;
    urls_of_a_dead_worker_are_requeued_and_its_leases_are_stale;
    domain_has_one_owner_and_new_domains_go_to_the_shortest_queue;
    domain_is_released_five_minutes_after_its_last_use;
    host_has_a_limited_number_of_leases;
    full_queues_overflow_and_lose_nothing;
    domain_transfer_moves_all_of_the_domain_or_nothing;
    depth_of_a_queued_url_is_lowered;
    completed_url_found_at_a_smaller_depth_is_fetched_again;
    leased_url_found_at_a_smaller_depth_is_fetched_again;
    revisit_does_not_use_the_page_budget with BackendConfig { max_pages_per_host: 1, ..config() };
    url_stays_seen_after_the_ttl;
    nothing_expires_with_an_unlimited_ttl with BackendConfig { ttl: UNLIMITED_TTL, ..config() };
    budgets_are_reserved_before_a_request_and_committed_after_it with BackendConfig { max_pages: 3, max_bytes: 2500, ..config() };
    no_request_is_granted_after_the_byte_budget_is_used_up with BackendConfig { max_bytes: 2_500, ..config() };
    received_bytes_count_against_the_byte_budget_as_decoded_ones_do
        with BackendConfig { max_bytes: 2_500, ..config() };
    response_that_reserves_more_keeps_its_page with BackendConfig { max_pages: 1, ..config() };
    responses_that_need_more_than_is_left_use_the_byte_budget_up_exactly
        with BackendConfig { max_bytes: 2_500, ..config() };
    waiting_requests_are_woken_when_bytes_are_returned with BackendConfig { max_bytes: 2_500, ..config() };
    waiting_requests_are_woken_when_pages_are_returned with BackendConfig { max_pages: 2, ..config() };
    waiting_requests_are_woken_when_pages_of_their_host_are_returned
        with BackendConfig { max_pages_per_host: 2, ..config() };
    address_kinds_of_a_host_are_those_that_are_stored_first;
    pages_per_host_are_limited with BackendConfig { max_pages_per_host: 2, ..config() };
    pages_per_site_are_limited with BackendConfig { max_pages_per_site: 2, ..config() };
    prioritizer_gets_the_number_of_pages_linking_to_a_domain;
    operations_are_idempotent;
    duplicate_is_not_stored_and_a_page_is_not_its_own_duplicate;
    duplicate_with_followed_links_is_fetched_again;
    seed_is_stored_although_it_is_a_duplicate;
    true_similarity_decides_where_the_estimate_is_close_to_the_threshold;
    estimate_decides_without_stored_bodies with BackendConfig { keep_content: false, ..config() };
}
