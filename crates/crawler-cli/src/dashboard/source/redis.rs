//! A distributed crawl, read from Redis. All its workers together.

use std::sync::Arc;
use std::time::Duration;

use crawler::Error;
use crawler::internal::backend::redis::{Phase, Role};
use crawler::internal::distributed::SharedCrawl;
use crawler::internal::distributed::remote::{CrawlStatus, RemoteCrawl};
use crawler::internal::live_settings::ControlAction;
use crawler::internal::stop::StopHandle;
use tokio::sync::Mutex;

use super::super::view::{Mode, View};
use super::blocked;
use crate::commands::with_hint;

/// How long to wait for a connection, and for a reply: less than viewers wait for a message.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const REPLY_TIMEOUT: Duration = Duration::from_secs(3);

/// A distributed crawl.
pub struct RedisSource {
    shared: SharedCrawl,
    /// The connection, unless it failed.
    remote: Mutex<Option<RemoteCrawl>>,
}

impl RedisSource {
    /// The crawl of this name. Its `dead_after` decides which of its processes are alive.
    pub fn new(mut shared: SharedCrawl) -> RedisSource {
        let options = &mut shared.redis.connect_options;
        // A viewer waits for the answer, and is shown an outage.
        (options.retry_forever, options.connect_timeout) = (false, CONNECT_TIMEOUT);
        options.stop = StopHandle::new();
        options.notice = Arc::new(|_| {});
        RedisSource { shared, remote: Mutex::default() }
    }

    pub(super) fn shared(&self) -> SharedCrawl {
        self.shared.clone()
    }

    pub(super) async fn view(&self) -> Result<View, String> {
        let status = self.ask(async |remote| remote.status().await).await?;
        Ok(self.view_of(status))
    }

    /// Checks that Redis replies, and has the crawl.
    pub(super) async fn check(&self) -> Result<(), String> {
        self.ask(async |remote| remote.members().await).await.map(drop)
    }

    /// Asks over the connection, which is made if there is none. After a failure, the next question connects again.
    async fn ask<T>(
        &self,
        question: impl AsyncFnOnce(&RemoteCrawl) -> Result<T, Error>,
    ) -> Result<T, String> {
        let mut connected = self.remote.lock().await;
        let asked = async {
            let remote = match connected.take() {
                Some(remote) => remote,
                None => RemoteCrawl::attach(&self.shared).await?,
            };
            let answer = question(&remote).await?;
            *connected = Some(remote);
            Ok(answer)
        };
        match tokio::time::timeout(REPLY_TIMEOUT, asked).await {
            Ok(answer) => answer.map_err(|error: Error| with_hint(&error)),
            Err(_) => Err(format!("Redis at {} does not reply", self.shared.redis.address)),
        }
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
        view.blocked = blocked(status.live);
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
