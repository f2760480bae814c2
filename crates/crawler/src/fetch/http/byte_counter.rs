//! Counts the body bytes of a request against those that a budget grants, and requests more while a response is read.

use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use bytes::Bytes;

use super::body::BodyPolicy;
use super::recorded_exchange::RecordedExchange;
use super::validators::Validators;
use crate::exchange::{Exchange, Truncation};
use crate::outcome::Outcome;
use crate::statistics::Recorder;
use crate::stats::BodyBytes;

/// What a request may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyGrant {
    /// Of which media types, and how much of one page.
    pub policy: BodyPolicy,
    /// The bytes that it may read before it requests [more](ByteBudget::grant_more).
    pub bytes: u64,
}

impl BodyGrant {
    /// A request that is limited by its policy only.
    pub fn unlimited(policy: BodyPolicy) -> BodyGrant {
        BodyGrant { policy, bytes: u64::MAX }
    }
}

/// Grants bytes to responses while they are read.
pub trait ByteBudget: Sync {
    /// Grants more bytes to a response that has read all it was granted, and counts the bytes `read` since. May wait for
    /// other responses. An error is the outcome of the URL.
    fn grant_more(&self, _read: BodyBytes) -> GrantFuture<'_> {
        Box::pin(std::future::ready(Ok(u64::MAX)))
    }

    /// Called when a response starts, with its status and its Content-Type.
    fn response_started(&self, _status: u16, _content_type: Option<&str>) {}

    /// The validators of the response that is known already. The request asks for another one only.
    fn validators(&self) -> Option<&Validators> {
        None
    }

    /// Takes the next bytes of a body with the policy [`BodyPolicy::Stream`]. Returns whether more are wanted.
    fn receive(&self, _bytes: &[u8]) -> bool {
        false
    }

    /// How many bytes it has received or decoded of such a body, whichever is more.
    fn received_bytes(&self) -> usize {
        0
    }
}

/// The future of [`ByteBudget::grant_more`].
pub type GrantFuture<'a> = Pin<Box<dyn Future<Output = Result<u64, Outcome>> + Send + 'a>>;

/// Counts the body bytes of one request against those that are granted.
pub struct ByteCounter<'b> {
    counts: Mutex<ByteCounts>,
    budget: &'b dyn ByteBudget,
    /// Records the media type of a successful response.
    recorder: Option<&'b Recorder>,
    /// The request and its response, if they are archived and the response has begun.
    exchange: Option<Mutex<Option<RecordedExchange>>>,
}

/// How far a request came.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestProgress {
    /// Whether it was sent.
    pub is_sent: bool,
    /// When its response began, and the status.
    pub response: Option<(Instant, u16)>,
}

#[derive(Default)]
struct ByteCounts {
    read: BodyBytes,
    /// The part of `read` that the budget has counted.
    counted: BodyBytes,
    /// The bytes that may be read after those: as many may be received, and decoded.
    granted: u64,
    /// How long the response waited for more, and since when it does.
    waited: Duration,
    waiting_since: Option<Instant>,
    progress: RequestProgress,
}

impl ByteCounts {
    /// The bytes that were read and not counted, as far as they are granted.
    fn uncounted(&self) -> BodyBytes {
        BodyBytes {
            decoded: (self.read.decoded - self.counted.decoded).min(self.granted),
            received: (self.read.received - self.counted.received).min(self.granted),
        }
    }
}

impl<'b> ByteCounter<'b> {
    /// A counter for a request that is granted this many bytes.
    pub fn new(granted: u64, budget: &'b dyn ByteBudget) -> ByteCounter<'b> {
        let counts = Mutex::new(ByteCounts { granted, ..ByteCounts::default() });
        ByteCounter { counts, budget, recorder: None, exchange: None }
    }

    /// Also records the request and its response, to archive them.
    pub fn recording_exchange(self) -> ByteCounter<'b> {
        ByteCounter { exchange: Some(Mutex::default()), ..self }
    }

    /// Also records the media type of a successful response.
    pub fn recording_type(self, recorder: &'b Recorder) -> ByteCounter<'b> {
        ByteCounter { recorder: Some(recorder), ..self }
    }

    /// Whether the request and its response are archived.
    pub(super) fn records_exchange(&self) -> bool {
        self.exchange.is_some()
    }

    /// The response to an archived request starts. `is_complete` says that it has no body.
    pub(super) fn start_exchange(&self, exchange: Exchange, is_complete: bool) {
        if let Some(recorded) = &self.exchange {
            *unpoisoned(recorded) = Some(RecordedExchange::new(exchange, is_complete));
        }
    }

    /// The body of the response has ended.
    pub(super) fn body_ended(&self) {
        self.with_exchange(RecordedExchange::set_complete);
    }

    /// The rest of the body is not read, for this reason.
    pub(super) fn body_truncated(&self, why: Truncation) {
        self.with_exchange(|exchange| exchange.set_truncated(why));
    }

    /// Shares the bytes of a body that was received as it is.
    pub(super) fn share_body(&self, body: &Bytes) {
        self.with_exchange(|exchange| exchange.share(body));
    }

    /// The request and its response, when the request has ended, with this failure if it failed. `None` if they are not archived, or
    /// there was no response.
    pub fn take_exchange(&self, failure: Option<&Outcome>) -> Option<Exchange> {
        let recorded = unpoisoned(self.exchange.as_ref()?).take()?;
        Some(recorded.finish(failure))
    }

    fn with_exchange(&self, change: impl FnOnce(&mut RecordedExchange)) {
        if let Some(recorded) = &self.exchange
            && let Some(exchange) = unpoisoned(recorded).as_mut()
        {
            change(exchange);
        }
    }

    /// How far the request came.
    pub fn progress(&self) -> RequestProgress {
        self.counts().progress
    }

    /// The validators of the response that is known already.
    pub(super) fn validators(&self) -> Option<&Validators> {
        self.budget.validators()
    }

    /// Records whether the request was sent.
    pub(super) fn set_sent(&self, is_sent: bool) {
        self.counts().progress.is_sent = is_sent;
    }

    fn counts(&self) -> MutexGuard<'_, ByteCounts> {
        unpoisoned(&self.counts)
    }

    /// The bytes read that the budget has not counted yet. Bytes that were not granted are not used, and do not count.
    pub fn uncounted(&self) -> BodyBytes {
        self.counts().uncounted()
    }

    /// All bytes read.
    pub fn read(&self) -> BodyBytes {
        self.counts().read
    }

    /// All bytes received.
    pub fn received(&self) -> u64 {
        self.counts().read.received
    }

    /// How long the response waited for more bytes.
    pub fn waited(&self) -> Duration {
        let counts = self.counts();
        counts.waited + counts.waiting_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Notifies the budget that a response starts.
    pub(super) fn response_started(&self, status: u16, content_type: Option<&str>) {
        self.counts().progress.response = Some((Instant::now(), status));
        if let Some(recorder) = self.recorder.filter(|_| (200..300).contains(&status)) {
            recorder.record_content_type(content_type);
        }
        self.budget.response_started(status, content_type);
    }

    /// Hands bytes of a body to the budget. Returns whether it wants more.
    pub(super) fn receive(&self, bytes: &[u8]) -> bool {
        let wants_more = self.budget.receive(bytes);
        self.set_decoded(self.budget.received_bytes());
        wants_more
    }

    pub(super) fn set_decoded(&self, bytes: usize) {
        self.counts().read.decoded = bytes as u64;
    }

    /// Counts received bytes, up to `limit` in total: the rest of a chunk beyond the limit is not used. Returns whether
    /// the limit is exceeded.
    pub(super) fn add_received(&self, bytes: &[u8], limit: usize) -> bool {
        let room = (limit as u64).saturating_sub(self.received()).min(bytes.len() as u64);
        self.with_exchange(|exchange| exchange.add(&bytes[..room as usize]));
        self.count_received(bytes.len(), limit)
    }

    fn count_received(&self, bytes: usize, limit: usize) -> bool {
        let mut counts = self.counts();
        let received = counts.read.received + bytes as u64;
        counts.read.received = received.min(limit as u64);
        received > limit as u64
    }

    /// Counts received bytes and waits until they are granted.
    #[cfg(test)]
    pub(super) async fn receive_granted(&self, bytes: usize) {
        self.count_received(bytes, usize::MAX);
        self.all_granted().await.expect("they are granted");
    }

    /// Returns when all bytes that were read are granted.
    pub(super) async fn all_granted(&self) -> Result<(), Outcome> {
        loop {
            let uncounted = {
                let mut counts = self.counts();
                let uncounted = counts.uncounted();
                let mut granted = counts.counted;
                granted += uncounted;
                if granted == counts.read {
                    return Ok(());
                }
                (counts.counted, counts.granted) = (granted, 0);
                uncounted
            };
            let waiting = WaitMeasure::start(self);
            let granted = self.budget.grant_more(uncounted).await?;
            drop(waiting);
            self.counts().granted = granted;
        }
    }
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Measures how long a response waits for more bytes.
struct WaitMeasure<'c, 'b>(&'c ByteCounter<'b>);

impl<'c, 'b> WaitMeasure<'c, 'b> {
    fn start(counter: &'c ByteCounter<'b>) -> WaitMeasure<'c, 'b> {
        counter.counts().waiting_since = Some(Instant::now());
        WaitMeasure(counter)
    }
}

impl Drop for WaitMeasure<'_, '_> {
    fn drop(&mut self) {
        let mut counts = self.0.counts();
        if let Some(since) = counts.waiting_since.take() {
            counts.waited += since.elapsed();
        }
    }
}
