//! A distributed crawl, read from Redis. All its workers together.

use std::sync::Arc;
use std::time::Duration;

use crawler::internal::backend::redis::{Phase, Role, no_such_crawl};
use crawler::internal::distributed::SharedCrawl;
use crawler::internal::distributed::remote::{CrawlStatus, RemoteCrawl};
use crawler::internal::error::redis_error;
use crawler::internal::live_settings::ControlAction;
use crawler::internal::stop::StopHandle;
use crawler::{Error, StorageErrorKind};
use tokio::sync::Mutex;

use super::super::view::{Mode, View};
use super::{Reading, blocked};
use crate::commands::change::explain_distributed;
use crate::commands::crawl::saved_options::SavedOptions;
use crate::commands::with_hint;
use crate::live::disk_space::DiskSpace;
use crate::live::warnings;

/// How long to wait for a connection, and for a reply: less than viewers wait for a message.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const REPLY_TIMEOUT: Duration = Duration::from_secs(3);

/// A distributed crawl.
pub struct RedisSource {
    shared: SharedCrawl,
    /// Where this process writes.
    disk_space: DiskSpace,
    /// The connection, unless it failed.
    attached: Mutex<Option<Attached>>,
}

/// A crawl that Redis has.
struct Attached {
    remote: RemoteCrawl,
    /// The crawl's own settings, as far as they decide which of its processes are alive.
    shared: SharedCrawl,
}

/// Why a crawl cannot be read from Redis.
pub(super) struct RedisFailure {
    /// A sentence.
    pub(super) reason: String,
    /// Whether Redis replies.
    pub(super) is_up: bool,
    /// Whether Redis has no such crawl.
    has_no_crawl: bool,
}

impl RedisSource {
    /// The crawl of this name, which may not exist yet.
    pub fn new(mut shared: SharedCrawl) -> RedisSource {
        let options = &mut shared.redis.connect_options;
        // A viewer waits for the answer, and is shown an outage.
        (options.retry_forever, options.connect_timeout) = (false, CONNECT_TIMEOUT);
        options.stop = StopHandle::new();
        options.notice = Arc::new(|_| {});
        RedisSource { shared, disk_space: DiskSpace::default(), attached: Mutex::default() }
    }

    /// The crawl of a process that writes to these file systems.
    pub fn with_disk_space(self, disk_space: DiskSpace) -> RedisSource {
        RedisSource { disk_space, ..self }
    }

    pub(super) fn shared(&self) -> SharedCrawl {
        self.shared.clone()
    }

    /// What is shown while there is no crawl.
    pub(super) fn waiting_view(&self) -> View {
        View { is_waiting: true, ..View::starting(&self.shared.redis.crawl, Mode::Redis) }
    }

    /// Reads the crawl, of which `last` was read before.
    pub(super) async fn read(&self, last: &View) -> Reading {
        let read = self.ask(async |attached| {
            let status = attached.remote.status().await?;
            match status.state.phase {
                Phase::Unknown | Phase::Purged => Err(self.no_crawl()),
                _ => Ok(view_of(status, &attached.shared)),
            }
        });
        match read.await {
            Ok(mut view) => {
                view.add_disk_space(&self.disk_space);
                Reading { view, failure: None }
            }
            Err(RedisFailure { reason, is_up, has_no_crawl }) => {
                let view = if has_no_crawl { self.waiting_view() } else { last.clone() };
                Reading { view: View { redis_up: Some(is_up), ..view }, failure: Some(reason) }
            }
        }
    }

    /// Checks that Redis replies, and has the crawl.
    pub(super) async fn check(&self) -> Result<(), RedisFailure> {
        self.ask(async |attached| attached.remote.members().await).await.map(drop)
    }

    fn no_crawl(&self) -> Error {
        redis_error(StorageErrorKind::NotFound, no_such_crawl(&self.shared.redis))
    }

    async fn attach(&self) -> Result<Attached, Error> {
        let remote = RemoteCrawl::attach(&self.shared).await?;
        let Some(info) = RemoteCrawl::info(&self.shared).await? else { return Err(self.no_crawl()) };
        let saved = SavedOptions::read(&info.metadata, &self.shared.redis.crawl).ok();
        let dead_after = saved.map_or(self.shared.dead_after, |saved| saved.distributed.dead_after);
        Ok(Attached { remote, shared: SharedCrawl { dead_after, ..self.shared.clone() } })
    }

    /// Asks over the connection, which is made if there is none. After a failure, the next question connects again.
    async fn ask<T>(
        &self,
        question: impl AsyncFnOnce(&Attached) -> Result<T, Error>,
    ) -> Result<T, RedisFailure> {
        let mut attached = self.attached.lock().await;
        let asked = async {
            let crawl = match attached.take() {
                Some(crawl) => crawl,
                None => self.attach().await?,
            };
            let answer = question(&crawl).await?;
            *attached = Some(crawl);
            Ok(answer)
        };
        match tokio::time::timeout(REPLY_TIMEOUT, asked).await {
            Ok(answer) => answer.map_err(|error| RedisFailure::from(&error)),
            Err(_) => {
                let reason = format!("Redis at {} does not reply", self.shared.redis.address);
                Err(RedisFailure { reason, is_up: false, has_no_crawl: false })
            }
        }
    }

    pub(super) async fn act(&self, action: ControlAction) -> Result<String, String> {
        let remote = RemoteCrawl::attach(&self.shared).await.map_err(|error| with_hint(&error))?;
        remote.control(action).await.map_err(|error| explain_distributed(error, &self.shared))
    }
}

impl From<&Error> for RedisFailure {
    fn from(error: &Error) -> RedisFailure {
        let kind = match error {
            Error::Redis(error) => error.kind(),
            _ => StorageErrorKind::Internal,
        };
        let (is_up, has_no_crawl) = (kind != StorageErrorKind::Io, kind == StorageErrorKind::NotFound);
        RedisFailure { reason: with_hint(error), is_up, has_no_crawl }
    }
}

fn view_of(status: CrawlStatus, shared: &SharedCrawl) -> View {
    let mut view = View::starting(&shared.redis.crawl, Mode::Redis);
    view.crawl = status.view();
    view.warnings.extend(warnings::of_workers(&status));
    view.can_act = matches!(status.state.phase, Phase::Seeding | Phase::Running);
    view.members = status
        .members
        .into_iter()
        .map(|member| (RemoteCrawl::is_alive(&member, shared), member))
        .map(|(alive, member)| (member, alive))
        .collect();
    view.standbys = status.standbys;
    (view.redis, view.redis_up) = (Some(status.redis), Some(true));
    view.blocked = blocked(status.live);
    if view.can_act {
        let has = |wanted: fn(Role) -> bool| {
            view.members.iter().any(|(member, alive)| *alive && wanted(member.role))
        };
        let has_worker = has(|role| matches!(role, Role::Worker(_)));
        view.missing_processes = match (has(|role| role == Role::Frontier), has_worker) {
            (true, true) => None,
            (true, false) => Some("no worker is running"),
            (false, true) => Some("no frontier is running"),
            (false, false) => Some("no process of the crawl is running"),
        };
        view.warnings.extend(view.missing_processes.map(str::to_owned));
    }
    view
}
