//! A distributed crawl, read from Redis. All its workers together.

use crawler::internal::backend::redis::{Phase, Role};
use crawler::internal::distributed::SharedCrawl;
use crawler::internal::distributed::remote::{CrawlStatus, RemoteCrawl};
use crawler::internal::live_settings::ControlAction;
use tokio::sync::Mutex;

use super::super::view::{Mode, View};
use crate::commands::with_hint;

/// A distributed crawl.
pub struct RedisSource {
    shared: SharedCrawl,
    /// The connection, unless it failed.
    remote: Mutex<Option<RemoteCrawl>>,
}

impl RedisSource {
    /// The crawl of this name. `dead_after` of the crawl decides which of its processes are alive.
    pub fn new(mut shared: SharedCrawl) -> RedisSource {
        // A viewer waits for the answer, and an outage is shown.
        shared.redis.connect_options.retry_forever = false;
        RedisSource { shared, remote: Mutex::default() }
    }

    pub(super) fn shared(&self) -> SharedCrawl {
        self.shared.clone()
    }

    pub(super) async fn view(&self) -> Result<View, String> {
        let mut connected = self.remote.lock().await;
        let remote = match connected.take() {
            Some(remote) => remote,
            None => RemoteCrawl::attach(&self.shared).await.map_err(|error| with_hint(&error))?,
        };
        // After a failure, the next view connects again.
        let status = remote.status().await.map_err(|error| with_hint(&error))?;
        *connected = Some(remote);
        drop(connected);
        Ok(self.view_of(status))
    }

    fn view_of(&self, status: CrawlStatus) -> View {
        let mut view = View::starting(&self.shared.redis.crawl, Mode::Redis);
        view.crawl = status.view();
        view.can_act = matches!(status.state.phase, Phase::Seeding | Phase::Running);
        let is_alive = |member: &_| RemoteCrawl::is_alive(member, &self.shared);
        view.members = status
            .members
            .into_iter()
            .map(|member| (is_alive(&member), member))
            .map(|(alive, member)| (member, alive))
            .collect();
        view.redis = Some(status.redis);
        if view.can_act {
            let has = |wanted: fn(Role) -> bool| {
                view.members.iter().any(|(member, alive)| *alive && wanted(member.role))
            };
            if !has(|role| role == Role::Frontier) {
                view.warnings.push("No frontier is running.".into());
            }
            if !has(|role| matches!(role, Role::Worker(_))) {
                view.warnings.push("No worker is running.".into());
            }
        }
        view
    }

    pub(super) async fn act(&self, action: ControlAction) -> Result<String, String> {
        let remote = RemoteCrawl::attach(&self.shared).await.map_err(|error| with_hint(&error))?;
        remote.control(action).await
    }
}
