//! The conformance tests of the budgets.

use super::*;

pub async fn budgets_are_reserved_before_a_request_and_committed_after_it(backend: impl Backend) {
    backend.admit(urls_of_host("a.test", 10)).await.unwrap();
    run_frontier(&backend).await;
    let leases = lease_all(&backend, FIRST).await;
    // This crawl has a budget of three pages and 2,500 bytes.
    assert_eq!(reserve(&backend, &leases[0]).await, BudgetDecision::Granted(1000));
    assert_eq!(reserve(&backend, &leases[1]).await, BudgetDecision::Granted(1000));
    assert_eq!(
        reserve(&backend, &leases[2]).await,
        BudgetDecision::RetryLater,
        "a page must not be truncated because of reservations"
    );
    backend.release(&leases[1], BodyBytes::default()).await.unwrap();
    assert_eq!(
        reserve(&backend, &leases[2]).await,
        BudgetDecision::Granted(1000),
        "the released reservation"
    );
    backend.complete(vec![page(&leases[0], Vec::new())]).await.unwrap();
    let failed = Completion {
        outcome: Outcome::RobotsDisallowed,
        bytes: BodyBytes::default(),
        ..page(&leases[1], Vec::new())
    };
    backend.complete(vec![failed]).await.unwrap();
    assert_eq!(
        reserve(&backend, &leases[3]).await,
        BudgetDecision::Granted(1000),
        "unused bytes are returned"
    );
    let read = Completion { bytes: BodyBytes::unencoded(1_900), ..page(&leases[2], Vec::new()) };
    backend
        .complete(vec![
            read,
            Completion { outcome: Outcome::RobotsDisallowed, ..page(&leases[3], Vec::new()) },
        ])
        .await
        .unwrap();
    assert_eq!(reserve(&backend, &leases[4]).await, BudgetDecision::Granted(580), "all bytes that are left");
    assert_eq!(reserve(&backend, &leases[5]).await, BudgetDecision::RetryLater);
    let last = backend.complete(vec![page(&leases[4], Vec::new())]).await.unwrap();
    assert_eq!(
        last,
        [CompleteResult::Applied { id: Some(3), sequence: None, new: 0, exhausted: Some(Budget::Pages) }]
    );
    assert_eq!(reserve(&backend, &leases[5]).await, BudgetDecision::Exhausted(Budget::Pages));
    let snapshot = backend.snapshot().await.unwrap();
    assert_eq!((snapshot.pages, snapshot.bytes), (3, 1_930));
}

pub async fn no_request_is_granted_after_the_byte_budget_is_used_up(backend: impl Backend) {
    backend.admit(urls_of_host("a.test", 3)).await.unwrap();
    run_frontier(&backend).await;
    let leases = [lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await].concat();
    assert_eq!(reserve(&backend, &leases[0]).await, BudgetDecision::Granted(1000));
    let read = Completion {
        bytes: BodyBytes::unencoded(2_500),
        outcome: Outcome::RobotsDisallowed,
        ..page(&leases[0], Vec::new())
    };
    backend.complete(vec![read]).await.unwrap();
    assert_eq!(reserve(&backend, &leases[1]).await, BudgetDecision::Exhausted(Budget::Bytes));
    assert_eq!(backend.exhausted_budget().await.unwrap(), Some(Budget::Bytes));
}

pub async fn received_bytes_count_against_the_byte_budget_as_decoded_ones_do(backend: impl Backend) {
    backend.admit(urls_of_host("a.test", 3)).await.unwrap();
    run_frontier(&backend).await;
    let leases = lease_all(&backend, FIRST).await;
    reserve(&backend, &leases[0]).await;
    let read = BodyBytes { decoded: 10, received: 900 };
    assert_eq!(backend.reserve(&leases[0], read).await.unwrap(), BudgetDecision::Granted(1000));
    backend.release(&leases[0], BodyBytes { decoded: 1_000, received: 900 }).await.unwrap();
    assert_eq!(
        reserve(&backend, &leases[1]).await,
        BudgetDecision::Granted(700),
        "1,800 of 2,500 bytes are received"
    );
    let last = Completion { bytes: BodyBytes { decoded: 5, received: 700 }, ..page(&leases[1], Vec::new()) };
    let completed = backend.complete(vec![last]).await.unwrap();
    let exhausted = Some(Budget::Bytes);
    assert_eq!(completed, [CompleteResult::Applied { id: Some(1), sequence: None, new: 0, exhausted }]);
    let snapshot = backend.snapshot().await.unwrap();
    assert_eq!((snapshot.bytes, snapshot.received), (1_015, 2_500));
}

pub async fn pages_per_host_are_limited(backend: impl Backend) {
    check_page_limit(backend, &[("a.test", 3), ("b.test", 1)], BudgetDecision::HostExhausted).await;
}

pub async fn pages_per_site_are_limited(backend: impl Backend) {
    let hosts = [("www.a.test", 1), ("m.a.test", 1), ("a.test", 1), ("b.test", 1)];
    check_page_limit(backend, &hosts, BudgetDecision::SiteExhausted).await;
}

/// Two of the three pages of a.test are allowed, and the page of b.test.
async fn check_page_limit(backend: impl Backend, hosts: &[(&str, usize)], exhausted: BudgetDecision) {
    let all: Vec<_> = hosts.iter().map(|(host, pages)| urls_of_host(host, *pages)).collect();
    backend.admit(all.concat()).await.unwrap();
    run_frontier(&backend).await;
    let leases = [lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await].concat();
    let mut decisions = Vec::new();
    for lease in &leases {
        decisions.push((lease.url.contains("a.test"), reserve(&backend, lease).await));
    }
    assert_eq!(
        decisions.iter().filter(|decision| **decision == (true, BudgetDecision::RetryLater)).count(),
        1
    );
    assert!(decisions.contains(&(false, BudgetDecision::Granted(1000))));
    let (granted, mut rest): (Vec<_>, Vec<_>) = leases
        .iter()
        .zip(&decisions)
        .filter(|(_, (is_a, _))| *is_a)
        .map(|(lease, (_, decision))| (lease, *decision))
        .partition(|(_, decision)| *decision == BudgetDecision::Granted(1000));
    for (lease, _) in granted {
        backend.complete(vec![page(lease, Vec::new())]).await.unwrap();
    }
    let (last, _) = rest.remove(0);
    assert_eq!(reserve(&backend, last).await, exhausted);
}

pub async fn response_that_reserves_more_keeps_its_page(backend: impl Backend) {
    backend.admit(urls_of_host("a.test", 2)).await.unwrap();
    run_frontier(&backend).await;
    let leases = lease_all(&backend, FIRST).await;
    // This crawl has a budget of one page.
    assert_eq!(reserve(&backend, &leases[0]).await, BudgetDecision::Granted(1000));
    for _ in 0..3 {
        let more = backend.reserve(&leases[0], BodyBytes::unencoded(1000)).await.unwrap();
        assert!(matches!(more, BudgetDecision::Granted(1..)), "{more:?}");
        assert_eq!(reserve(&backend, &leases[1]).await, BudgetDecision::RetryLater);
    }
    let completed = backend.complete(vec![page(&leases[0], Vec::new())]).await.unwrap();
    let exhausted = Some(Budget::Pages);
    assert_eq!(completed, [CompleteResult::Applied { id: Some(1), sequence: None, new: 0, exhausted }]);
    assert_eq!(backend.snapshot().await.unwrap().bytes, 3_010);
}

pub async fn responses_that_need_more_than_is_left_use_the_byte_budget_up_exactly(backend: impl Backend) {
    backend.admit(urls_of_host("a.test", 2)).await.unwrap();
    run_frontier(&backend).await;
    let leases = lease_all(&backend, FIRST).await;
    // This crawl has a budget of 2,500 bytes, and both pages are larger than that.
    let mut granted = [1000, 1000];
    for (lease, bytes) in leases.iter().zip(granted) {
        assert_eq!(reserve(&backend, lease).await, BudgetDecision::Granted(bytes));
    }
    let mut exhausted = 0;
    for turn in 0..20 {
        let (lease, bytes) = (&leases[turn % 2], &mut granted[turn % 2]);
        let read = BodyBytes::unencoded(std::mem::take(bytes));
        match backend.reserve(lease, read).await.unwrap() {
            BudgetDecision::Granted(more) => *bytes = more,
            BudgetDecision::RetryLater => {}
            BudgetDecision::Exhausted(Budget::Bytes) => exhausted += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(exhausted >= 2);
    let snapshot = backend.snapshot().await.unwrap();
    assert_eq!((snapshot.bytes, snapshot.received, snapshot.pending()), (2_500, 2_500, 2));
}

/// Waits until a lease gets a reservation, or none at all. In memory it is woken before any time passes. On disk the paused
/// clock advances while a commit is written.
async fn decision_when_woken(backend: &impl Backend, lease: &Lease) -> BudgetDecision {
    let start = tokio::time::Instant::now();
    loop {
        match reserve(backend, lease).await {
            BudgetDecision::RetryLater => backend.wait_for_budget(lease).await.unwrap(),
            decision => {
                let is_in_memory = std::any::type_name_of_val(backend).contains("Memory");
                assert!(!is_in_memory || start.elapsed().is_zero(), "{:?}", start.elapsed());
                return decision;
            }
        }
    }
}

pub async fn waiting_requests_are_woken_when_bytes_are_returned(backend: impl Backend) {
    backend.admit(urls_of_host("a.test", 10)).await.unwrap();
    run_frontier(&backend).await;
    let leases = lease_all(&backend, FIRST).await;
    // This crawl has a budget of 2,500 bytes.
    for lease in &leases[..2] {
        assert_eq!(reserve(&backend, lease).await, BudgetDecision::Granted(1000));
    }
    let return_bytes = async {
        for lease in &leases[..2] {
            tokio::task::yield_now().await;
            backend.release(lease, BodyBytes::default()).await.unwrap();
        }
    };
    let wait = |index: usize| decision_when_woken(&backend, &leases[index]);
    let (first, second, ()) = tokio::join!(wait(2), wait(3), return_bytes);
    assert_eq!([first, second], [BudgetDecision::Granted(1000); 2]);
    // The budget is used up while others wait.
    let read = async |index: usize, bytes: u64| {
        tokio::task::yield_now().await;
        let read = Completion {
            outcome: Outcome::RobotsDisallowed,
            bytes: BodyBytes::unencoded(bytes),
            ..page(&leases[index], Vec::new())
        };
        backend.complete(vec![read]).await.unwrap();
    };
    let use_up = async {
        read(2, 1_500).await;
        read(3, 1_000).await;
    };
    let (first, second, ()) = tokio::join!(wait(4), wait(5), use_up);
    assert_eq!([first, second], [BudgetDecision::Exhausted(Budget::Bytes); 2]);
}

pub async fn waiting_requests_are_woken_when_pages_are_returned(backend: impl Backend) {
    backend.admit(urls_of_host("a.test", 4)).await.unwrap();
    run_frontier(&backend).await;
    let leases = lease_all(&backend, FIRST).await;
    // This crawl has a budget of two pages, or of two pages per host.
    for lease in &leases[..2] {
        assert_eq!(reserve(&backend, lease).await, BudgetDecision::Granted(1000));
    }
    let complete = async {
        for (lease, outcome) in leases.iter().zip([Outcome::RobotsDisallowed, Outcome::Page]) {
            tokio::task::yield_now().await;
            backend.complete(vec![Completion { outcome, ..page(lease, Vec::new()) }]).await.unwrap();
        }
    };
    let (granted, ()) = tokio::join!(decision_when_woken(&backend, &leases[2]), complete);
    assert_eq!(granted, BudgetDecision::Granted(1000));
    let last = async {
        tokio::task::yield_now().await;
        backend.complete(vec![page(&leases[2], Vec::new())]).await.unwrap();
    };
    let (refused, ()) = tokio::join!(decision_when_woken(&backend, &leases[3]), last);
    assert!(
        matches!(refused, BudgetDecision::Exhausted(Budget::Pages) | BudgetDecision::HostExhausted),
        "{refused:?}"
    );
}

pub async fn waiting_requests_are_woken_when_pages_of_their_host_are_returned(backend: impl Backend) {
    waiting_requests_are_woken_when_pages_are_returned(backend).await;
}
