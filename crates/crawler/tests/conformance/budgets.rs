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
    assert_eq!(last, [CompleteResult::Applied { id: Some(3), new: 0, exhausted: Some(Budget::Pages) }]);
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
    assert_eq!(completed, [CompleteResult::Applied { id: Some(1), new: 0, exhausted }]);
    let snapshot = backend.snapshot().await.unwrap();
    assert_eq!((snapshot.bytes, snapshot.received), (1_015, 2_500));
}

pub async fn pages_per_host_are_limited(backend: impl Backend) {
    let all = [urls_of_host("a.test", 3), urls_of_host("b.test", 1)].concat();
    backend.admit(all).await.unwrap();
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
    assert_eq!(reserve(&backend, last).await, BudgetDecision::HostExhausted);
}
