//! The budget of a task: pages have a maximum size, received bytes are counted, and its last request is recorded.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::backend::HostDelay;
use crate::config::{FetchConfig, Oversize};
use crate::exchange::Exchange;
use crate::fetch::http::{BodyGrant, BodyPolicy, ByteBudget};
use crate::fetch::polite_client::FetchBudget;
use crate::outcome::Outcome;
use crate::stats::BodyBytes;
use crate::url_record::{LastRequest, RequestRecord};

/// The budget of one task.
pub(super) struct TaskBudget {
    policy: BodyPolicy,
    /// The bytes received by all tasks of the crawl.
    received: Arc<AtomicU64>,
    request: LastRequest,
    retries: AtomicU8,
    /// The requests and responses, if they are archived.
    exchanges: Option<Mutex<Vec<Exchange>>>,
}

impl TaskBudget {
    /// The maximum size of a page or another file.
    pub(super) fn policy(config: &FetchConfig) -> BodyPolicy {
        let (limit, file_limit) = (config.max_page_bytes, config.requests.max_file_bytes);
        BodyPolicy::Page { limit, oversize: Oversize::Drop, file_limit, archives_files: false }
    }

    pub(super) fn new(policy: BodyPolicy, received: Arc<AtomicU64>, archives: bool) -> TaskBudget {
        let exchanges = archives.then(Mutex::default);
        TaskBudget { policy, received, request: LastRequest::default(), retries: AtomicU8::new(0), exchanges }
    }

    /// What was sent for the task.
    pub(super) fn into_requests(self) -> TaskRequests {
        let exchanges = self.exchanges.unwrap_or_default().into_inner();
        TaskRequests {
            last: self.request.take(),
            retries: self.retries.into_inner(),
            exchanges: exchanges.unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// The requests for a URL.
#[derive(Default)]
pub(super) struct TaskRequests {
    pub(super) last: RequestRecord,
    pub(super) retries: u8,
    pub(super) exchanges: Vec<Exchange>,
}

impl ByteBudget for TaskBudget {
    fn response_started(&self, status: u16, content_type: Option<&str>) {
        self.request.response_started(status, content_type);
    }
}

impl FetchBudget for TaskBudget {
    async fn before_permit(&self) {}

    async fn grant(&self) -> Result<Option<BodyGrant>, Outcome> {
        Ok(Some(BodyGrant::unlimited(self.policy)))
    }

    fn record_bytes(&self, bytes: BodyBytes) {
        self.received.fetch_add(bytes.received, Ordering::Relaxed);
    }

    fn request_started(&self) {
        self.request.started();
    }

    fn request_done(&self, bytes: BodyBytes) {
        self.request.done(bytes);
    }

    fn retried(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    fn archives(&self) -> bool {
        self.exchanges.is_some()
    }

    fn archive(&self, exchange: Exchange) {
        if let Some(exchanges) = &self.exchanges {
            exchanges.lock().unwrap_or_else(PoisonError::into_inner).push(exchange);
        }
    }

    async fn host_slowed(&self, _: &str, _: HostDelay) {}
}
