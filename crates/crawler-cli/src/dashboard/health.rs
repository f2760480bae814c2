//! The health of the process, for supervisors of containers: `/healthz` says whether to restart it, `/readyz` whether it works.

use crawler::internal::crawl_view::CrawlPhase;
use hyper::{Response, StatusCode};

use super::feed::Feed;
use super::response::{Content, text};
use super::source::{Health, Source};

/// Whether the process makes progress.
pub fn liveness(source: &Source) -> Health {
    source.liveness()
}

/// Whether the process can fetch and store pages now.
pub async fn readiness(feed: &Feed) -> Health {
    if let Health::Bad(reason) = feed.source().readiness() {
        return Health::Bad(reason);
    }
    // Health checks have no token: the warnings of the status say more.
    if feed.failure().await.is_some() {
        return Health::Bad("the state or Redis cannot be reached".into());
    }
    let view = feed.view().await;
    match &view.crawl.phase {
        CrawlPhase::Running if view.snapshot().network_down.is_some() => {
            Health::Bad("the network is down".into())
        }
        CrawlPhase::Running => Health::Good,
        CrawlPhase::Paused => Health::Bad("paused".into()),
        CrawlPhase::Stopping => Health::Bad("stopping".into()),
        CrawlPhase::Ended(end) => Health::Bad(format!("ended: {end}")),
    }
}

/// 200, or 503 with the reason.
pub fn response(health: Health) -> Response<Content> {
    match health {
        Health::Good => text(StatusCode::OK, "ok"),
        Health::Bad(reason) => text(StatusCode::SERVICE_UNAVAILABLE, &reason),
    }
}
