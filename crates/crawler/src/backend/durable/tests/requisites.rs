//! Requisites of a crawl whose pages are exhausted when the process ends.

use super::*;
use crate::backend::Budget;

fn requisites(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("http://h{number}.test/x.png#requisite")).collect()
}

async fn complete(state: &TestState, leases: &[Lease], outcome: &Outcome) {
    let completions =
        leases.iter().map(|lease| Completion { outcome: outcome.clone(), ..Completion::new(lease) });
    state.backend().complete(completions.collect()).await.unwrap();
}

/// 20 URLs of pages and 3,000 requisites are pending, and no further page is allowed.
async fn at_the_limit() -> TestState {
    let mut options = options(7);
    options.config.max_pages = 1;
    let state = TestState::with_options(options, SMALL_CACHE);
    let backend = state.backend();
    backend.admit(discovered(0..20)).await.unwrap();
    let unprioritized = backend.take_unprioritized(1, Duration::ZERO).await.unwrap();
    backend.enqueue_prioritized(vec![(unprioritized[0].task_id, Priority::WORST)]).await.unwrap();
    let leases = backend.lease(WorkerId(0), 1, Duration::ZERO).await.unwrap();
    let (requisites, outlinks) = (Outlinks::new(requisites(3_000), 1), Outlinks::new([url(20)], 1));
    let page = Completion { outcome: Outcome::Page, requisites, outlinks, ..Completion::new(&leases[0]) };
    backend.complete(vec![page]).await.unwrap();
    state
}

#[tokio::test]
async fn requisites_are_fetched_after_a_kill_at_the_limit() {
    let mut state = at_the_limit().await;
    state.leases().await;
    state.crash();
    assert_eq!(state.backend().exhausted_budget().await.unwrap(), None);
    let leases = state.leases().await;
    assert_eq!(leases.len(), 3_000);
    assert!(leases.iter().all(|lease| lease.url.ends_with("#requisite")));
    complete(&state, &leases[..2_990], &Outcome::Requisite).await;
    state.reopen();
    let leases = state.leases().await;
    complete(&state, &leases, &Outcome::HttpStatus { code: 503, retry_after: Some(TTL * 100) }).await;
    assert_eq!(leases.len(), 10);
    assert_eq!(state.backend().exhausted_budget().await.unwrap(), Some(Budget::Pages));
    state.options.retry_failed = true;
    state.reopen();
    let leases = state.leases().await;
    assert_eq!(leases.len(), 10, "they failed temporarily");
    complete(&state, &leases, &Outcome::Requisite).await;
    assert_eq!(state.backend().exhausted_budget().await.unwrap(), Some(Budget::Pages));
}

#[tokio::test]
async fn pages_and_requisites_are_fetched_when_the_limit_is_raised() {
    let mut state = at_the_limit().await;
    state.options.config.max_pages = 100;
    state.crash();
    let leases = state.leases().await;
    let pages = leases.iter().filter(|lease| !lease.url.ends_with("#requisite"));
    assert_eq!((leases.len(), pages.count()), (3_020, 20));
    complete(&state, &leases, &Outcome::Requisite).await;
    assert_eq!(state.backend().snapshot().await.unwrap().pending(), 0);
}
