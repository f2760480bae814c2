//! The messages between the workers of a distributed crawl and its frontier process.
//!
//! A worker sends requests, and the frontier replies to each of them once its changes are durable. Requests have
//! consecutive numbers, so that one that arrives twice is applied once, and one that was lost is sent again.

use std::borrow::Cow;
use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::super::{
    BudgetDecision, Completion, DiscoveredUrl, DomainTransfer, HostDelay, Lease, TaskId, WorkerId,
};
use crate::fetch::http::AddressKinds;
use crate::similarity::Verdicts;
use crate::stats::BodyBytes;

/// Identifies the session of a worker: from when its process joins until it leaves or has to start a new session. Of two
/// sessions of a worker, the larger one is the later one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Session {
    /// When the process joined, by Redis's clock.
    pub(super) joined_at: u64,
    /// How often the process had to start a new session.
    pub(super) restarts: u32,
    /// Differs between two processes that joined in the same millisecond.
    pub(super) random: u64,
}

/// The number of an entry of a stream on Redis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Position(pub(super) u64, pub(super) u64);

/// A message in the stream that the frontier reads.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message<'a> {
    /// Seeds, from a process that is no worker, and the number under which it waits for the reply.
    Seeds(u64, Vec<DiscoveredUrl>),
    /// Requests of a worker.
    #[serde(borrow)]
    Worker(WorkerMessage<'a>),
}

/// Requests of a worker, and how many leases it accepts.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WorkerMessage<'a> {
    pub(super) worker: WorkerId,
    pub(super) session: Session,
    /// Counts the messages of a session. Of two messages, the later one has the current limits.
    pub(super) number: u64,
    /// The worker has read its replies up to this position.
    pub(super) read: Position,
    /// How many leases the worker has received, counted from the start of the session.
    pub(super) leases_received: u64,
    /// How many leases the worker accepts, counted from the start of the session.
    pub(super) max_leases: u64,
    /// How many HTTP requests the worker has sent, counted from the start of the session.
    pub(super) http_requests: u64,
    /// The number of the first request.
    pub(super) first_request: u64,
    #[serde(borrow)]
    pub(super) requests: Vec<Encoded<'a>>,
}

/// An encoded part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Encoded<'a>(pub(super) Cow<'a, [u8]>);

// Not derived: serde treats bytes as a sequence, and reads and writes them one by one.
impl Serialize for Encoded<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Encoded<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Encoded<'a>, D::Error> {
        struct BorrowedBytes;

        impl<'de> Visitor<'de> for BorrowedBytes {
            type Value = Encoded<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Encoded<'de>, E> {
                Ok(Encoded(bytes.into()))
            }
        }

        deserializer.deserialize_bytes(BorrowedBytes)
    }
}

/// A lease, as a worker refers to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LeaseRef {
    pub(super) task_id: TaskId,
    pub(super) lease_id: u64,
    /// The depth with which it was leased.
    pub(super) depth: u32,
}

impl From<&Lease> for LeaseRef {
    fn from(lease: &Lease) -> LeaseRef {
        LeaseRef { task_id: lease.task_id, lease_id: lease.lease_id, depth: lease.depth }
    }
}

/// A request of a worker. The result of each is what the operation of the backend returns.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Replies when everything before it is applied.
    Sync,
    Admit(Vec<DiscoveredUrl>),
    Reserve(LeaseRef, BodyBytes),
    WaitForBudget(LeaseRef),
    Release(LeaseRef, BodyBytes),
    /// The result is a `StoreResult`.
    StoreContent(NewContent),
    Complete(LeaseRef, Box<Completion>),
    SetHostDelay(String, HostDelay),
    PinAddressKinds(String, AddressKinds),
    ClaimHost(String),
    TransferDomain(DomainTransfer),
    /// The worker returns its leases and sends nothing more.
    Leave,
}

/// A page to compare with the stored ones, and to add to them.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NewContent {
    pub(super) url: String,
    #[serde(with = "as_bytes")]
    pub(super) fingerprint: Vec<u8>,
    /// The size of the body as it will be stored; `None` if it will not be.
    pub(super) body_bytes: Option<u64>,
    pub(super) is_seed: bool,
    /// Whether it is a near-duplicate of each page with which it was compared exactly, by the ID of that page's URL.
    pub(super) verdicts: Verdicts,
}

/// A message in the stream that a worker reads.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FrontierMessage {
    /// The session of the worker that it is for.
    pub(super) session: Session,
    pub(super) replies: Vec<Reply>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// The encoded result of the request of this number.
    To(u64, #[serde(with = "as_bytes")] Vec<u8>),
    /// A lease, its number within the session, and what is reserved for its first request.
    Lease(u64, Lease, BudgetDecision),
    /// Another request waits for the budget: the worker has to return what is reserved for requests that wait for their
    /// host or robots.txt.
    ReturnReservations,
    /// The frontier does not know the session, because Redis has lost what the frontier wrote last. The leases of the
    /// session have ended. The worker has to start a new one.
    Restart,
}

/// Encodes an owned part of a message like an [`Encoded`].
mod as_bytes {
    use super::{Deserialize, Deserializer, Encoded, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        Ok(Encoded::deserialize(deserializer)?.0.into_owned())
    }
}

/// The memory that most messages and their parts fit into.
pub(super) const USUAL_BYTES: usize = 256;

/// Encodes a message or a part of one.
pub(super) fn encode(message: &impl Serialize) -> Vec<u8> {
    encode_onto(Vec::with_capacity(USUAL_BYTES), message)
}

/// Encodes a message or a part of one after these bytes.
pub(super) fn encode_onto(before: Vec<u8>, message: &impl Serialize) -> Vec<u8> {
    // Only types with sequences of unknown length or with self-describing formats can fail.
    postcard::to_extend(message, before).unwrap_or_default()
}

/// Decodes a message or a part of one; `None` if it is damaged, or of another version.
pub(super) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    postcard::from_bytes(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::backend::Outlinks;
    use crate::outcome::Outcome;
    use crate::outcome::tests::all_outcomes;

    #[test]
    fn every_outcome_survives_a_message() {
        for outcome in all_outcomes() {
            let outcome = match outcome {
                Outcome::Timeout { limit, .. } => {
                    Outcome::Timeout { doing: crate::outcome::CONNECTING, limit }
                }
                outcome => outcome,
            };
            assert_eq!(decode(&encode(&outcome)), Some(outcome));
        }
    }

    #[test]
    fn links_survive_a_message() {
        let outlinks = Outlinks::new(["http://a/", "http://b/ä", ""], 3);
        assert_eq!(decode::<Outlinks>(&encode(&outlinks)), Some(outlinks));
    }

    proptest! {
        #[test]
        fn damaged_messages_are_refused_without_a_panic(bytes: Vec<u8>) {
            let _ = (decode::<Message>(&bytes), decode::<FrontierMessage>(&bytes));
            let _ = decode::<Request>(&bytes);
        }

        #[test]
        fn encoded_parts_of_a_message_are_read_without_a_copy(bytes: Vec<u8>) {
            let message = encode(&(7u64, Encoded(Cow::Borrowed(&bytes))));
            let (number, part) = decode::<(u64, Encoded)>(&message).unwrap();
            prop_assert!(number == 7 && *part.0 == *bytes && matches!(part.0, Cow::Borrowed(_)));
        }
    }
}
