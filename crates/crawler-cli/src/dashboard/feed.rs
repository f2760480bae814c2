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

/// How long viewers wait for a crawl that could not be read the last time. A Redis that is back replies sooner; one that is away
/// does not delay other viewers.
const RETRY_TIMEOUT: Duration = Duration::from_millis(250);

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
    /// Reads the crawl, if that took longer than a viewer waited for it.
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
            self.state.lock().await.at = None;
            let status = self.status().await;
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
        let reading = state.reading.take().unwrap_or_else(|| {
            let (source, last) = (Arc::clone(&self.source), Arc::clone(&state.view));
            tokio::spawn(async move { source.read(&last).await })
        });
        let Some(Reading { mut view, failure }) = state.wait_for(reading).await else {
            // The other viewers that request it now do not wait either.
            state.at = Some(Instant::now());
            return;
        };
        if let Some(failure) = &failure {
            // The last view may have the last failure.
            view.warnings.retain(|warning| Some(warning) != state.failure.as_ref());
            view.warnings.insert(0, failure.clone());
            view.can_act = false;
        }
        (state.view, state.failure) = (Arc::new(view), failure);
        (state.at, state.rendered) = (Some(Instant::now()), None);
    }
}

impl FeedState {
    /// What was read. `None` if that takes too long; it is read on.
    async fn wait_for(&mut self, mut reading: JoinHandle<Reading>) -> Option<Reading> {
        let read = match &self.failure {
            None => (&mut reading).await,
            Some(_) => match tokio::time::timeout(RETRY_TIMEOUT, &mut reading).await {
                Ok(read) => read,
                Err(_) => {
                    self.reading = Some(reading);
                    return None;
                }
            },
        };
        // It is not aborted while the server runs.
        read.ok()
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
