//! The health of the process, for supervisors of containers: `/healthz` says whether to restart it, `/readyz` whether it works.

use std::time::Duration;

use crawler::internal::crawl_view::CrawlPhase;
use hyper::{Response, StatusCode};

use super::feed::Feed;
use super::response::{Content, text};
use super::source::{Health, Source};
use super::view::Mode;
use crate::values;

/// A process that has not reported for this long is stuck, unless the request names another time.
pub const STUCK_AFTER: Duration = Duration::from_secs(30);

/// Why a process without a crawl is not ready.
pub const WAITING: &str = "there is no crawl yet";

/// Whether the process makes progress, as a response to a request with this query. `stuck-after=TIME` is the time without a
/// report after which it does not.
pub fn liveness(source: &Source, query: Option<&str>) -> Response<Content> {
    let query = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let wanted = query.filter(|(name, _)| name == "stuck-after").last();
    match wanted.map_or(Ok(STUCK_AFTER), |(_, time)| values::duration(&time)) {
        Ok(stuck_after) => response(source.liveness(stuck_after)),
        Err(error) => text(StatusCode::BAD_REQUEST, &error),
    }
}

/// Whether the process can fetch and store pages now.
pub async fn readiness(feed: &Feed) -> Health {
    if let Health::Bad(reason) = feed.source().readiness() {
        return Health::Bad(reason);
    }
    let view = feed.view().await;
    if view.is_waiting && view.mode == Mode::Redis {
        return Health::Bad(WAITING.into());
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
        CrawlPhase::Running => match view.missing_processes {
            Some(missing) => Health::Bad(missing.into()),
            None => Health::Good,
        },
        CrawlPhase::Paused => Health::Bad("paused".into()),
        CrawlPhase::Stopping => Health::Bad("stopping".into()),
        // Nor why it ended: an error has paths and addresses.
        CrawlPhase::Ended(_) => Health::Bad("ended".into()),
    }
}

/// 200, or 503 with the reason.
pub fn response(health: Health) -> Response<Content> {
    match health {
        Health::Good => text(StatusCode::OK, "ok"),
        Health::Bad(reason) => text(StatusCode::SERVICE_UNAVAILABLE, &reason),
    }
}
