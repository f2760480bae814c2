//! The way of URLs from the URL queue to the priority queues.

use std::sync::Arc;

use super::*;
use crate::backend::Outlinks;
use crate::prioritizer::{Candidate, DepthPopularity, Priorities, Prioritizer};

/// Knows the priority of some URLs, and waits for a service for the others.
struct KnowsSome;

impl Prioritizer for KnowsSome {
    fn prioritize<'a>(&'a self, _: &'a [Candidate]) -> Priorities<'a> {
        Box::pin(std::future::pending())
    }

    fn known_priority(&self, candidate: &Candidate) -> Option<Priority> {
        (!candidate.url.contains("unknown")).then_some(Priority::BEST)
    }
}

fn seeds(urls: impl IntoIterator<Item = String>) -> Vec<DiscoveredUrl> {
    urls.into_iter().map(|url| DiscoveredUrl { url, depth: 0, redirects: 0 }).collect()
}

fn state_with_prioritizer(prioritizer: impl Prioritizer + 'static) -> LocalState<MemoryStorage> {
    let hosts = HostLimits { max_leases: 10_000, ..HostLimits::default() };
    let mut state = state_with(BackendConfig { hosts, ..config() });
    state.set_prioritizer(&(Arc::new(prioritizer) as Arc<dyn Prioritizer>));
    state
}

#[tokio::test(start_paused = true)]
async fn links_of_a_page_can_be_leased_as_soon_as_it_is_completed() {
    let mut state = state_with_prioritizer(DepthPopularity);
    state.admit(&seeds(["http://a.test/".into()])).unwrap();
    let lease = state.lease(FIRST, 1).unwrap().remove(0);
    let links = ["http://a.test/1", "http://new.test/"];
    let linked_domains = vec![Domain::named("a.test"), Domain::named("new.test")];
    let completion = Completion { outlinks: Outlinks::new(links, 1), linked_domains, ..page(&lease) };
    state.complete(completion).unwrap();
    assert!(!state.work().prioritizer, "nothing waits for the prioritizer");
    // The page itself counts among those that link to the new domain, so both have priority 50.
    let lengths = state.snapshot().priority_queues;
    assert_eq!(
        lengths.iter().position(|length| *length == 2),
        Some(state.config.priority_queues.of(Priority::MIDDLE))
    );
    advance(SECOND_OF_TIME).await;
    assert_eq!(state.lease(FIRST, 9).unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn unknown_priority_holds_up_only_its_own_url_once_the_prioritizer_has_it() {
    let mut state = state_with_prioritizer(KnowsSome);
    state
        .admit(&seeds(["http://a.test/1".into(), "http://unknown.test/".into(), "http://b.test/".into()]))
        .unwrap();
    assert_eq!(hosts(&state.lease(FIRST, 9).unwrap()), ["a.test"]);
    assert!(state.work().prioritizer, "a URL waits for it");
    let unknown = state.take_unprioritized(9).unwrap();
    assert_eq!(unknown.iter().map(|url| &*url.url).collect::<Vec<_>>(), ["http://unknown.test/"]);
    assert_eq!(hosts(&state.lease(FIRST, 9).unwrap()), ["b.test"]);
    assert!(!state.work().prioritizer);
    state.enqueue_prioritized(vec![(unknown[0].task_id, Priority::WORST)]);
    assert_eq!(hosts(&state.lease(FIRST, 9).unwrap()), ["unknown.test"]);
}

#[tokio::test(start_paused = true)]
async fn urls_with_known_priorities_are_prioritized_in_parts_and_without_gaps() {
    const URLS: usize = 25_000;
    let backend = LocalBackend::from_state(state_with_prioritizer(DepthPopularity), HashKey::new(1));
    backend.admit(seeds(urls_of("a.test", URLS))).await.unwrap();
    let waiting = async || {
        let snapshot = backend.snapshot().await.unwrap();
        (snapshot.url_queue, snapshot.overflow)
    };
    let queued = waiting().await;
    assert!(queued.0 > 0 && queued.0 <= config().queue_size && queued.1 > 0, "not all at once: {queued:?}");
    let started = Instant::now();
    while waiting().await != (0, 0) {
        assert!(backend.take_unprioritized(256, SECOND_OF_TIME).await.unwrap().is_empty());
    }
    assert_eq!(started.elapsed(), Duration::ZERO, "it waits for nothing");
    assert_eq!(backend.snapshot().await.unwrap().priority_queues.iter().sum::<usize>(), URLS);
}
