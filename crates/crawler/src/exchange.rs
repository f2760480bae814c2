//! One request and its response as they crossed the wire, for outputs that archive them.

use std::net::IpAddr;
use std::time::SystemTime;

use bytes::Bytes;

/// The size at which a file of an archive ends, by default: what most archives have, and few tools have trouble with.
const MAX_FILE_BYTES: u64 = 1_000_000_000;

/// How requests and responses are archived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveSettings {
    /// Whether the heads of requests keep credentials, cookies and the headers that the operator added to the crawl.
    pub has_secrets: bool,
    /// A file of an archive ends when it has this many bytes.
    pub max_file_bytes: u64,
    /// Whether a WACZ file is made of it when the crawl ends.
    pub makes_wacz: bool,
    /// Who runs the crawl: a URL, a name or an address.
    pub operator: Option<String>,
}

impl Default for ArchiveSettings {
    fn default() -> ArchiveSettings {
        ArchiveSettings {
            has_secrets: false,
            max_file_bytes: MAX_FILE_BYTES,
            makes_wacz: false,
            operator: None,
        }
    }
}

/// What is not archived of exchanges, because it would take too much memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DroppedExchanges {
    /// The number of exchanges that are archived without the body of the response.
    pub bodies: u64,
    /// The number of exchanges that are not archived.
    pub exchanges: u64,
}

/// A request whose response has begun, and the response as far as it was read.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// The URL that was requested, without credentials and fragment.
    pub url: String,
    /// When the request was written.
    pub requested: SystemTime,
    /// The address of the server. `None` if it is behind a proxy.
    pub address: Option<IpAddr>,
    /// The protocol of the connection.
    pub protocol: Protocol,
    /// The method, request target and headers, up to and with the empty line, without secrets unless they are to be archived.
    pub request_head: Vec<u8>,
    /// The HTTP status of the response.
    pub status: u16,
    /// The status line and headers, up to and with the empty line, without the transfer coding's header.
    pub response_head: Vec<u8>,
    /// The body without its transfer coding, and with its content coding.
    pub payload: Bytes,
    /// Why the payload is only the start of the body, if it is.
    pub truncated: Option<Truncation>,
    /// When the URL was requested before, if this request was conditional on a change since then.
    pub previous_visit: Option<SystemTime>,
}

impl Exchange {
    /// How much memory its parts of variable size take.
    pub(crate) fn bytes(&self) -> usize {
        self.request_head.len() + self.response_head.len() + self.payload.len()
    }
}

/// The protocol of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0 or HTTP/1.1: the heads are the bytes that were sent and received.
    Http1,
    /// HTTP/2: the heads are written as those of HTTP/1.1.
    Http2,
}

/// Why a payload is incomplete, in the words of the WARC standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncation {
    /// It is larger than what is read of a body.
    Length,
    /// It took longer than the timeout.
    Time,
    /// The connection was lost.
    Disconnect,
    /// The rest was not wanted, because of its media type for example.
    Unspecified,
}
