//! The loops of the download and parse threads.

use super::pools::{LinkBytes, Pools};
use super::seen::SeenLinks;
use std::iter::Sum;

/// Finds the links of a page: takes the page's own link, its text, and a function to call with each link, in order.
pub(crate) type FindLinks = fn(&[u8], &[u8], &mut dyn FnMut(&[u8]));

/// The counts of a callback crawl.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallbackReport {
    /// Links whose fetch returned a page, possibly an empty one.
    pub pages: u64,
    /// Links whose fetch returned none.
    pub broken: u64,
    /// Edges: every occurrence of a link on a page.
    pub edges: u64,
}

impl Sum for CallbackReport {
    fn sum<I: Iterator<Item = CallbackReport>>(parts: I) -> CallbackReport {
        parts.fold(CallbackReport::default(), |sum, part| CallbackReport {
            pages: sum.pages + part.pages,
            broken: sum.broken + part.broken,
            edges: sum.edges + part.edges,
        })
    }
}

/// Fetches links until the crawl ends.
pub(crate) fn download<P>(pools: &Pools<P>, fetch: impl Fn(&[u8]) -> Option<P>) -> CallbackReport {
    let _guard = pools.stop_on_panic();
    let mut done = CallbackReport::default();
    while let Some(link) = pools.next_link() {
        match fetch(&link) {
            Some(page) => {
                done.pages += 1;
                pools.deliver(link, page);
            }
            None => {
                done.broken += 1;
                pools.finish();
            }
        }
    }
    done
}

/// Parses pages until the crawl ends: reports each edge, then queues its target if it is new.
pub(crate) fn parse<P: AsRef<[u8]>>(
    pools: &Pools<P>,
    seen: &SeenLinks,
    scan: FindLinks,
    edge: impl Fn(&P, &[u8], &[u8]),
) -> CallbackReport {
    let _guard = pools.stop_on_panic();
    let mut done = CallbackReport::default();
    while let Some((from, page)) = pools.next_page() {
        scan(&from, page.as_ref(), &mut |to| {
            if pools.is_stopped() {
                return;
            }
            edge(&page, &from, to);
            done.edges += 1;
            if seen.insert(to) {
                pools.queue(LinkBytes::from(to));
            }
        });
        drop(page);
        pools.finish();
    }
    done
}
