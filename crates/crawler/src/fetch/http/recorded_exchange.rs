//! Collects one request and its response while the response is read, for archives.

use bytes::Bytes;

use crate::exchange::{Exchange, Truncation};
use crate::outcome::Outcome;

/// An exchange whose response has begun.
#[derive(Debug)]
pub(super) struct RecordedExchange {
    exchange: Exchange,
    /// What was received of the body. Received bytes are copied: a piece of a few bytes may keep a buffer of many in memory.
    payload: Vec<u8>,
    /// The decoded body, if it is the payload. Then the bytes are not kept twice.
    body: Option<Bytes>,
    is_complete: bool,
    truncated: Option<Truncation>,
}

impl RecordedExchange {
    pub(super) fn new(exchange: Exchange, is_complete: bool) -> RecordedExchange {
        RecordedExchange { exchange, payload: Vec::new(), body: None, is_complete, truncated: None }
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.payload.extend_from_slice(bytes);
    }

    /// The body has ended.
    pub(super) fn set_complete(&mut self) {
        self.is_complete = true;
    }

    /// The rest of the body is not read. The first reason counts.
    pub(super) fn set_truncated(&mut self, why: Truncation) {
        self.truncated.get_or_insert(why);
    }

    /// Shares the bytes of a body that has no content coding.
    pub(super) fn share(&mut self, body: &Bytes) {
        if *self.payload == **body {
            (self.payload, self.body) = (Vec::new(), Some(body.clone()));
        }
    }

    /// The exchange, after its request has ended.
    pub(super) fn finish(self, failure: Option<&Outcome>) -> Exchange {
        let RecordedExchange { exchange, payload, body, is_complete, truncated } = self;
        let of_failure = || failure.map_or(Truncation::Length, Truncation::of_failure);
        let truncated = (!is_complete).then(|| truncated.unwrap_or_else(of_failure));
        Exchange { payload: body.unwrap_or_else(|| payload.into()), truncated, ..exchange }
    }
}

impl Truncation {
    /// Why a body was not read to its end, if that was the outcome of its URL.
    pub(super) fn of_failure(outcome: &Outcome) -> Truncation {
        match outcome {
            Outcome::TooLarge { .. } => Truncation::Length,
            Outcome::Timeout { .. } => Truncation::Time,
            Outcome::ConnectionFailed { .. } | Outcome::StaleConnection | Outcome::RequestNotProcessed => {
                Truncation::Disconnect
            }
            _ => Truncation::Unspecified,
        }
    }
}
