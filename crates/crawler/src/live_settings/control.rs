//! The handle that changes a crawl of this process while it runs.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use super::{ControlAction, LiveSettings, Pause};

/// How long a caller waits for the crawl to apply an action.
const APPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// Changes a crawl of this process while it runs. Clones change the same crawl.
#[derive(Debug, Clone)]
pub struct CrawlControl {
    shared: Arc<ControlShared>,
}

#[derive(Debug)]
struct ControlShared {
    pause: Arc<Pause>,
    settings: watch::Sender<LiveSettings>,
    sender: UnboundedSender<ControlRequest>,
    /// Where the crawl receives requests, until it starts.
    receiver: Mutex<Option<UnboundedReceiver<ControlRequest>>>,
}

/// An action that a caller waits for.
#[derive(Debug)]
pub(crate) struct ControlRequest {
    pub(crate) action: ControlAction,
    reply: mpsc::SyncSender<Result<String, String>>,
    /// Gone when the caller does not wait any longer.
    caller: Weak<()>,
}

/// The actions that a running crawl is to apply.
pub(crate) struct ControlRequests(UnboundedReceiver<ControlRequest>);

impl Default for CrawlControl {
    fn default() -> CrawlControl {
        let (sender, receiver) = unbounded_channel();
        let (pause, settings) = (Arc::default(), watch::Sender::default());
        let receiver = Mutex::new(Some(receiver));
        CrawlControl { shared: Arc::new(ControlShared { pause, settings, sender, receiver }) }
    }
}

impl CrawlControl {
    /// A handle for one crawl.
    pub fn new() -> CrawlControl {
        CrawlControl::default()
    }

    /// Changes the crawl, and returns a sentence that says what was done, or why not. Waits for the crawl to do it: mostly
    /// milliseconds, at most seconds.
    pub fn apply(&self, action: ControlAction) -> Result<String, String> {
        if self.receiver().is_some() {
            return Err(action.error("it has not started yet; try again"));
        }
        let ((reply, answer), caller) = (mpsc::sync_channel(1), Arc::new(()));
        let request = ControlRequest { action: action.clone(), reply, caller: Arc::downgrade(&caller) };
        let has_ended = "it has ended; start it again";
        if self.shared.sender.send(request).is_err() {
            return Err(action.error(has_ended));
        }
        answer.recv_timeout(APPLY_TIMEOUT).unwrap_or_else(|error| {
            Err(action.error(match error {
                RecvTimeoutError::Timeout => "it does not reply; try again",
                RecvTimeoutError::Disconnected => has_ended,
            }))
        })
    }

    /// What was changed so far.
    pub fn settings(&self) -> LiveSettings {
        self.shared.settings.borrow().clone()
    }

    /// The pauses of the crawl.
    pub fn pause(&self) -> &Arc<Pause> {
        &self.shared.pause
    }

    /// The settings, and when they change.
    pub(crate) fn watch(&self) -> watch::Receiver<LiveSettings> {
        self.shared.settings.subscribe()
    }

    /// Records what was changed, and pauses the crawl or resumes it.
    pub(crate) fn set(&self, settings: LiveSettings) {
        self.shared.pause.set(settings.is_paused);
        self.shared.settings.send_replace(settings);
    }

    /// The actions for the crawl that starts now; `None` if another one has started with this handle.
    pub(crate) fn start(&self) -> Option<ControlRequests> {
        self.receiver().take().map(ControlRequests)
    }

    fn receiver(&self) -> std::sync::MutexGuard<'_, Option<UnboundedReceiver<ControlRequest>>> {
        self.shared.receiver.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ControlRequests {
    /// Waits for the next action.
    pub(crate) async fn next(&mut self) -> Option<ControlRequest> {
        loop {
            let request = self.0.recv().await?;
            if request.caller.strong_count() > 0 {
                return Some(request);
            }
        }
    }
}

impl ControlRequest {
    /// Returns to the caller what was done.
    pub(crate) fn reply(&self, result: Result<String, String>) {
        // The caller may be gone.
        let _ = self.reply.try_send(result);
    }
}
