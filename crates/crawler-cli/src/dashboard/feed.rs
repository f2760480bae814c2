//! Reads the crawl at most once per second, and only while there are viewers; renders it once for all viewers.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{Mutex, Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::events::Message;
use super::source::{Reading, Source};
use super::status::{DashboardStatus, history};
use super::view::{RateMeter, View};

/// The time between two messages.
const INTERVAL: Duration = Duration::from_secs(1);

/// A view that is younger is current. Less than the interval, so that each message has a new one.
const MAX_AGE: Duration = Duration::from_millis(900);

/// How long viewers wait for a crawl: longer than Redis is waited for. A process may hang, and a large state is opened slowly.
const READ_TIMEOUT: Duration = Duration::from_secs(4);

/// The same if it could not be read the last time. A Redis that is back replies sooner; one that is away does not delay other
/// viewers.
const RETRY_TIMEOUT: Duration = Duration::from_millis(250);

/// How long the final state of the crawl is waited for. A part of the time that the server has to end.
const FINAL_TIMEOUT: Duration = Duration::from_millis(500);

/// Why a crawl that is still being read cannot be shown.
const STILL_READING: &str =
    "cannot read the crawl: it has not replied for some seconds; the last status is shown";

/// The status of a crawl for all viewers.
pub struct Feed {
    source: Arc<Source>,
    state: Mutex<FeedState>,
    messages: watch::Sender<Arc<Message>>,
    /// Wakes what sends the messages when there is a viewer.
    subscribed: Notify,
}

struct FeedState {
    view: Arc<View>,
    /// When the view was read.
    at: Option<Instant>,
    rates: RateMeter,
    /// The view as JSON, once it is wanted.
    rendered: Option<Bytes>,
    /// Why the last view could not be read.
    failure: Option<String>,
    /// Reads the crawl, until that was waited for.
    reading: Option<JoinHandle<Reading>>,
}

impl Feed {
    /// The feed of a crawl.
    pub fn new(source: Source) -> Feed {
        let state = FeedState {
            view: Arc::new(source.starting_view()),
            at: None,
            rates: RateMeter::default(),
            rendered: None,
            failure: None,
            reading: None,
        };
        Feed {
            source: Arc::new(source),
            state: Mutex::new(state),
            messages: watch::Sender::default(),
            subscribed: Notify::new(),
        }
    }

    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The messages from now on.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Message>> {
        let messages = self.messages.subscribe();
        self.subscribed.notify_one();
        messages
    }

    /// The current view. If it cannot be read, the last one, with the reason among its warnings.
    pub async fn view(&self) -> Arc<View> {
        let mut state = self.state.lock().await;
        self.refresh(&mut state).await;
        Arc::clone(&state.view)
    }

    /// Why the crawl cannot be read now, if it cannot.
    pub async fn failure(&self) -> Option<String> {
        let mut state = self.state.lock().await;
        self.refresh(&mut state).await;
        state.failure.clone()
    }

    /// The current status as JSON.
    pub async fn status(&self) -> Bytes {
        let mut state = self.state.lock().await;
        self.refresh(&mut state).await;
        state.render()
    }

    /// The same with the history of the crawl, which a viewer needs once.
    pub async fn status_with_history(&self) -> Bytes {
        let mut state = self.state.lock().await;
        self.refresh(&mut state).await;
        let (status, statistics) = (state.render(), &state.view.crawl.statistics);
        let history = serde_json::to_string(&history(statistics)).unwrap_or_else(|_| "[]".into());
        let open = status.strip_suffix(b"}").unwrap_or(&status);
        [open, b",\"history\":", history.as_bytes(), b"}"].concat().into()
    }

    /// Sends a message each second while there are viewers.
    pub async fn run(&self) -> Infallible {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // A permit of an earlier viewer is used up, and the count is looked at again.
            while self.messages.receiver_count() == 0 {
                self.subscribed.notified().await;
            }
            let status = self.status().await;
            self.send(status, false);
        }
    }

    /// Sends the last message, with the final state of the crawl.
    pub async fn finish(&self) {
        if self.messages.receiver_count() > 0 {
            let current = async {
                self.state.lock().await.at = None;
                self.status().await
            };
            let current = tokio::time::timeout(FINAL_TIMEOUT, current).await;
            let status = current.unwrap_or_else(|_| self.messages.borrow().status.clone());
            self.send(status, true);
        }
    }

    fn send(&self, status: Bytes, is_last: bool) {
        let id = self.messages.borrow().id + 1;
        self.messages.send_replace(Arc::new(Message { id, status, is_last }));
    }

    /// Reads the crawl, unless it was read just now.
    async fn refresh(&self, state: &mut FeedState) {
        if state.at.is_some_and(|at| at.elapsed() < MAX_AGE) {
            return;
        }
        let read = match state.read(&self.source).await {
            Some(read) => read,
            // The reason is known already, and shown.
            None if state.failure.is_some() => {
                // The other viewers that request it now do not wait either.
                state.at = Some(Instant::now());
                return;
            }
            None => Reading { view: View::clone(&state.view), failure: Some(STILL_READING.into()) },
        };
        state.take(read);
    }
}

impl FeedState {
    /// Reads the crawl. `None` if that takes too long; it is read on, also if the viewer that waits for it leaves.
    async fn read(&mut self, source: &Arc<Source>) -> Option<Reading> {
        let limit = if self.failure.is_some() { RETRY_TIMEOUT } else { READ_TIMEOUT };
        let reading = self.reading.get_or_insert_with(|| {
            let (source, last) = (Arc::clone(source), Arc::clone(&self.view));
            tokio::spawn(async move { source.read(&last).await })
        });
        let read = tokio::time::timeout(limit, reading).await.ok()?;
        self.reading = None;
        // It is not aborted while the server runs.
        read.ok()
    }

    /// From now on, this is shown.
    fn take(&mut self, Reading { mut view, failure }: Reading) {
        if let Some(failure) = &failure {
            // The last view may have the last failure.
            view.warnings.retain(|warning| Some(warning) != self.failure.as_ref());
            view.warnings.insert(0, failure.clone());
            view.can_act = false;
        }
        (self.view, self.failure) = (Arc::new(view), failure);
        (self.at, self.rendered) = (Some(Instant::now()), None);
    }

    fn render(&mut self) -> Bytes {
        if let Some(rendered) = &self.rendered {
            return rendered.clone();
        }
        let rates = self.rates.measure(&self.view);
        // Numbers and texts can always be rendered.
        let json =
            serde_json::to_vec(&DashboardStatus::new(&self.view, rates)).unwrap_or_else(|_| b"{}".to_vec());
        let json = Bytes::from(json);
        self.rendered = Some(json.clone());
        json
    }
}
