//! Tests of the budgets: how much requests and responses reserve, and that no order of them exceeds a budget.

use std::time::Duration;

use super::*;
use crate::backend::TaskId;
use crate::backend::local::HostLimits;
use crate::prioritizer::{PriorityQueues, Random};
use crate::strip_query::StripQuery;

const KILOBYTE: u64 = 1_000;
const MEGABYTE: u64 = 1_000 * KILOBYTE;

fn budgets(max_bytes: u64) -> Budgets {
    Budgets::new(&BackendConfig {
        visits: Default::default(),
        queue_size: 100,
        priority_queues: PriorityQueues::new(10).unwrap(),
        workers: 1,
        ttl: Duration::from_secs(60),
        domain_ttl: Duration::from_secs(60),
        keep_depths: false,
        keep_discovery: false,
        similarity: None,
        keep_content: false,
        max_pages: u64::MAX,
        max_bytes,
        max_page_bytes: 500 * KILOBYTE,
        max_pages_per_host: u64::MAX,
        max_pages_per_site: u64::MAX,
        strip_query: StripQuery::default(),
        hosts: HostLimits::default(),
    })
}

fn lease(lease_id: u64) -> Lease {
    Lease {
        task_id: TaskId(lease_id),
        lease_id,
        url: format!("http://h{lease_id}.test/").into(),
        depth: 1,
        ..Lease::default()
    }
}

/// Requests that are in flight.
#[derive(Default)]
struct Requests(Vec<(Lease, Option<BudgetReservation>)>);

impl Requests {
    /// Starts requests until one has to wait. Returns how many started.
    fn start(&mut self, budgets: &mut Budgets, max: usize) -> usize {
        let before = self.0.len();
        while self.0.len() - before < max {
            let (lease, mut held) = (lease(self.0.len() as u64), None);
            match budgets.reserve(&lease, &mut held, BodyBytes::default()) {
                BudgetDecision::Granted(_) => self.0.push((lease, held)),
                _ => break,
            }
        }
        self.0.len() - before
    }

    /// Completes all requests, each of which reads this many bytes.
    fn complete(&mut self, budgets: &mut Budgets, bytes: u64) {
        for (lease, held) in self.0.drain(..) {
            budgets.commit(&lease.url, held, true, BodyBytes::unencoded(bytes));
        }
    }
}

#[test]
fn large_budget_grants_whole_pages() {
    let (mut budgets, mut requests) = (budgets(10_000 * MEGABYTE), Requests::default());
    assert_eq!(requests.start(&mut budgets, 1_000), 1_000);
    assert!(requests.0.iter().all(|(_, held)| held.unwrap().bytes == 500 * KILOBYTE));
}

#[test]
fn as_many_requests_start_as_pages_fit_into_the_rest_of_the_budget() {
    let (mut budgets, mut requests) = (budgets(50 * MEGABYTE), Requests::default());
    assert!(requests.start(&mut budgets, 10_000) > 700, "{}", requests.0.len());
    requests.complete(&mut budgets, 10 * KILOBYTE);
    while budgets.available() > MEGABYTE {
        requests.start(&mut budgets, 50);
        requests.complete(&mut budgets, 10 * KILOBYTE);
    }
    let fit = (budgets.available() / (10 * KILOBYTE)) as usize;
    let started = requests.start(&mut budgets, 1_000);
    assert!((fit - 3..=fit).contains(&started), "{started} of {fit}");
}

#[test]
fn unused_reservations_say_nothing_about_the_size_of_pages() {
    let (mut budgets, mut requests) = (budgets(50 * MEGABYTE), Requests::default());
    while budgets.available() > 2 * MEGABYTE {
        requests.start(&mut budgets, 10);
        requests.complete(&mut budgets, 100 * KILOBYTE);
    }
    for _ in 0..200 {
        let (lease, mut held) = (lease(1), None);
        let decision = budgets.reserve(&lease, &mut held, BodyBytes::default());
        assert!(matches!(decision, BudgetDecision::Granted(_)), "{decision:?}");
        budgets.commit(&lease.url, held, false, BodyBytes::default());
    }
    let fit = (budgets.available() / (100 * KILOBYTE)) as usize;
    let started = requests.start(&mut budgets, 1_000);
    assert!((fit - 1..=fit).contains(&started), "{started} of {fit}");
}

#[test]
fn response_grows_by_a_part_of_what_it_read() {
    let mut budgets = budgets(5 * MEGABYTE);
    let (lease, mut held, mut granted, mut total) = (lease(1), None, 0, 0);
    let mut reservations = 0;
    while total < 500 * KILOBYTE {
        let BudgetDecision::Granted(bytes) =
            budgets.reserve(&lease, &mut held, BodyBytes::unencoded(granted))
        else {
            panic!("after {total} bytes");
        };
        (granted, total, reservations) = (bytes, total + bytes, reservations + 1);
    }
    assert!((8..=12).contains(&reservations), "{reservations}");
}

#[test]
fn older_responses_grow_first_and_no_request_starts_meanwhile() {
    let (mut budgets, mut requests) = (budgets(4 * FIRST_PAGE_BYTES), Requests::default());
    assert_eq!(requests.start(&mut budgets, 10), 4);
    let decide = |budgets: &mut Budgets, requests: &mut Requests, index: usize, read: u64| {
        let (lease, held) = &mut requests.0[index];
        budgets.reserve(lease, held, BodyBytes::unencoded(read))
    };
    let all = FIRST_PAGE_BYTES;
    assert_eq!(decide(&mut budgets, &mut requests, 2, all), BudgetDecision::RetryLater);
    assert_eq!(decide(&mut budgets, &mut requests, 1, all), BudgetDecision::RetryLater);
    let (last, held) = requests.0.pop().unwrap();
    budgets.commit(&last.url, held, true, BodyBytes::unencoded(100));
    assert_eq!(budgets.wakeups(), BudgetWakeups { start: false, turn: true });
    assert_eq!(
        decide(&mut budgets, &mut requests, 2, 0),
        BudgetDecision::RetryLater,
        "the older one is first"
    );
    assert_eq!(budgets.reserve(&lease(9), &mut None, BodyBytes::default()), BudgetDecision::RetryLater);
    let BudgetDecision::Granted(first) = decide(&mut budgets, &mut requests, 1, 0) else { panic!() };
    let BudgetDecision::Granted(_) = decide(&mut budgets, &mut requests, 2, 0) else { panic!() };
    assert_eq!(first, FIRST_PAGE_BYTES / GROWTH);
}

#[test]
fn random_requests_use_the_budget_up_exactly() {
    for seed in 0..50 {
        let (mut random, mut budgets) = (Random::seeded(seed), budgets(300 * KILOBYTE));
        let (mut in_flight, mut next): (Vec<(Lease, Option<BudgetReservation>)>, _) = (Vec::new(), 0);
        loop {
            let counted = budgets.bytes.counted();
            assert!(counted + budgets.bytes_reserved <= budgets.max_bytes, "seed {seed}");
            let mut choose = |below: u64| random.number() % below;
            let decision = if in_flight.len() < 20 && choose(3) == 0 {
                next += 1;
                let (lease, mut held) = (lease(next), None);
                let decision = budgets.reserve(&lease, &mut held, BodyBytes::default());
                if held.is_some() {
                    in_flight.push((lease, held));
                }
                decision
            } else if !in_flight.is_empty() {
                let index = choose(in_flight.len() as u64) as usize;
                let granted = in_flight[index].1.unwrap().bytes;
                // Some bodies are compressed, others have bytes that decode to nothing.
                let read = match choose(3) {
                    0 => BodyBytes { decoded: granted, received: choose(granted + 1) },
                    1 => BodyBytes { decoded: choose(granted + 1), received: granted },
                    _ => BodyBytes::unencoded(granted),
                };
                if choose(4) == 0 && granted > 0 {
                    let (lease, held) = in_flight.swap_remove(index);
                    let part = BodyBytes { decoded: read.decoded / 2, received: read.received / 3 };
                    budgets.commit(&lease.url, held, true, part);
                    continue;
                }
                let (lease, held) = &mut in_flight[index];
                budgets.reserve(lease, held, read)
            } else {
                continue;
            };
            if let BudgetDecision::Exhausted(budget) = decision {
                assert_eq!((budget, budgets.bytes.counted()), (Budget::Bytes, 300 * KILOBYTE), "seed {seed}");
                break;
            }
        }
    }
}

#[test]
fn sitemap_takes_no_page_of_its_host() {
    let mut budgets = Budgets { max_pages: 2, max_pages_per_host: 1, ..budgets(MEGABYTE) };
    let of_host = |id, path: &str| Lease { url: format!("http://a.test/{path}").into(), ..lease(id) };
    let (page, sitemap) = (of_host(1, ""), of_host(2, "sitemap.xml#sitemap"));
    let reserve = |budgets: &mut Budgets, lease: &Lease| {
        let mut held = None;
        (budgets.reserve(lease, &mut held, BodyBytes::default()), held)
    };
    let (_, held) = reserve(&mut budgets, &sitemap);
    let (decision, page_held) = reserve(&mut budgets, &page);
    assert!(matches!(decision, BudgetDecision::Granted(_)), "{decision:?}");
    budgets.commit(&page.url, page_held, true, BodyBytes::default());
    budgets.commit(&sitemap.url, held, false, BodyBytes::default());
    assert_eq!(reserve(&mut budgets, &of_host(3, "x")).0, BudgetDecision::HostExhausted);
    let (decision, _) = reserve(&mut budgets, &sitemap);
    assert!(matches!(decision, BudgetDecision::Granted(_)), "{decision:?}");
}
