//! Random graphs and pool sizes: a crawl reports exactly the edges of the reachable graph, and fetches each node once.

use crawler::internal::callbacks::CallbackCrawl;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// The links of each page in order. `None` for a broken page.
type Graph = Vec<Option<Vec<usize>>>;

fn graph() -> impl Strategy<Value = Graph> {
    (1..60usize).prop_flat_map(|nodes| {
        let page = prop_oneof![
            1 => Just(None),
            9 => prop::collection::vec(0..nodes, 0..12).prop_map(Some),
        ];
        prop::collection::vec(page, nodes)
    })
}

/// The nodes reachable from node 0.
fn reachable(graph: &Graph) -> BTreeSet<usize> {
    let (mut reached, mut waiting) = (BTreeSet::from([0]), vec![0]);
    while let Some(node) = waiting.pop() {
        for &next in graph[node].iter().flatten() {
            if reached.insert(next) {
                waiting.push(next);
            }
        }
    }
    reached
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn edges_and_fetches_are_those_of_the_reachable_graph(
        graph in graph(),
        download_workers in 1..9usize,
        parse_workers in 1..9usize,
        work_queue_size in 1..20usize,
    ) {
        let (fetches, edges) = (Mutex::new(Vec::new()), Mutex::new(BTreeMap::<usize, Vec<usize>>::new()));
        let report = CallbackCrawl::default()
            .download_workers(download_workers)
            .parse_workers(parse_workers)
            .work_queue_size(work_queue_size)
            .run_str(
                "0",
                |link| {
                    let node: usize = link.parse().unwrap();
                    fetches.lock().unwrap().push(node);
                    graph[node].as_ref().map(|links| {
                        links.iter().map(|link| format!("text link: {link}\n")).collect::<String>()
                    })
                },
                |from, to| {
                    let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
                    edges.lock().unwrap().entry(from).or_default().push(to);
                },
            )
            .unwrap();

        let reached = reachable(&graph);
        let mut fetches = fetches.into_inner().unwrap();
        fetches.sort_unstable();
        prop_assert_eq!(&fetches, &reached.iter().copied().collect::<Vec<_>>());

        // The edges of each page, with repeats, in document order.
        let links = |node: &usize| graph[*node].clone().filter(|links| !links.is_empty()).map(|links| (*node, links));
        let expected: BTreeMap<_, _> = reached.iter().filter_map(links).collect();
        prop_assert_eq!(edges.into_inner().unwrap(), expected.clone());

        prop_assert_eq!(report.broken as usize, reached.iter().filter(|node| graph[**node].is_none()).count());
        prop_assert_eq!(report.pages + report.broken, fetches.len() as u64);
        prop_assert_eq!(report.edges as usize, expected.values().map(Vec::len).sum::<usize>());
    }
}
