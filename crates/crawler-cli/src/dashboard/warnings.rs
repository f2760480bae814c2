//! What the operator of a crawl should know: the warnings of the terminal display, and those about the processes of the crawl.

use crawler::internal::crawl_view::CrawlPhase;

use super::view::View;
use crate::format::{counted, number};
use crate::live::warnings;

/// The warnings about a crawl.
pub fn of(view: &View) -> Vec<String> {
    let mut found = view.warnings.clone();
    found.extend(warnings::of(&view.crawl));
    let is_over = matches!(view.crawl.phase, CrawlPhase::Ended(_));
    if is_over {
        found.extend(warnings::given_up(&view.snapshot().unreachable_hosts));
    }
    let sitemaps = view.snapshot().failed_sitemaps.len() as u64;
    if sitemaps > 0 {
        found.push(format!("{} failed, or could not be read to the end", counted(sitemaps, "sitemap")));
    }
    found.extend(view.redis.iter().flat_map(warnings::of_redis));
    let silent = view.members.iter().filter(|(_, alive)| !alive).count() as u64;
    if silent > 0 && !is_over {
        found.push(match silent {
            1 => "1 process sends no heartbeat".into(),
            silent => format!("{} processes send no heartbeat", number(silent)),
        });
    }
    found
}
