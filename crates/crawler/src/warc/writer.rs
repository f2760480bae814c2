//! Renders the records of WARC 1.1: one about a file, and those of requests and their responses.

use std::net::IpAddr;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::digest::{self, Hash};
use super::encoding::Encoding;
use super::header::{RecordHeader, RecordType};
use crate::exchange::{Exchange, Protocol, Truncation};
use crate::modules::timestamp::rfc3339;

/// The version of the format.
const VERSION: &str = "1.1";

/// What a file says it conforms to.
const STANDARD: &str = "http://bibnum.bnf.fr/WARC/WARC_ISO_28500_version1-1_latestdraft.pdf";

/// The profile of a revisit whose payload is that of an earlier record.
pub const IDENTICAL_PAYLOAD: &str = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest";

/// The profile of a revisit after which the server said that nothing had changed.
pub const NOT_MODIFIED: &str = "http://netpreserve.org/warc/1.1/revisit/server-not-modified";

/// What follows the block of a record.
const RECORD_END: &[u8] = b"\r\n\r\n";

/// What the first record of a file says about the crawl.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WarcCrawlInfo {
    /// Who runs the crawl.
    pub operator: Option<String>,
    /// The User-Agent header of its requests.
    pub user_agent: String,
    /// Their From header.
    pub from: Option<String>,
    /// Whether robots.txt is obeyed.
    pub obeys_robots: bool,
}

impl WarcCrawlInfo {
    /// The fields of the record.
    pub fn fields(&self) -> String {
        let software = concat!("crawler/", env!("CARGO_PKG_VERSION"));
        let robots = if self.obeys_robots { "obey" } else { "ignore" };
        let fields = [
            ("software", Some(software)),
            ("format", Some("WARC File Format 1.1")),
            ("conformsTo", Some(STANDARD)),
            ("robots", Some(robots)),
            ("operator", self.operator.as_deref()),
            ("http-header-user-agent", Some(self.user_agent.as_str())),
            ("http-header-from", self.from.as_deref()),
        ];
        let line = |(name, value): (&str, Option<&str>)| {
            // A field is one line.
            value.map(|value| format!("{name}: {}\r\n", value.replace(char::is_control, " ")))
        };
        fields.into_iter().filter_map(line).collect()
    }
}

/// The first record of a file, with the fields of a [crawl](WarcCrawlInfo::fields). All files of an archive have its ID.
pub fn warcinfo(encoding: Encoding, file_name: &str, fields: &str, archive_id: &str) -> Vec<u8> {
    let block = format!("{fields}isPartOf: {archive_id}\r\n");
    let now = SystemTime::now();
    let id = unique_id(file_name);
    let mut header = header(RecordType::Warcinfo, &id, now);
    header.push("WARC-Filename", &file_name.replace(char::is_control, "_"));
    header.push("Content-Type", "application/warc-fields");
    let mut out = Vec::new();
    push_record(encoding, &mut out, header, &[block.as_bytes()]);
    out
}

/// A new ID, which differs from all others.
pub fn unique_id(name: &str) -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed).to_le_bytes();
    let process = process::id().to_le_bytes();
    uuid(&[b"unique", &nanoseconds(SystemTime::now()), &process, &count, name.as_bytes()])
}

/// How the response of an exchange is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseRecord<'r> {
    /// Whole.
    Whole,
    /// Without its payload, which the record of this URL and time has.
    SamePayload(&'r str, SystemTime),
    /// As the server's statement that the payload is that of a visit at this time.
    NotModified(SystemTime),
}

/// Appends the records of an exchange: its response, then its request, as most writers do. The same exchange always gives the same
/// bytes. `position` is that of the exchange among those of its URL.
pub fn push_exchange(
    encoding: Encoding,
    out: &mut Vec<u8>,
    exchange: &Exchange,
    position: usize,
    payload: &Hash,
    record: ResponseRecord,
) {
    let Exchange { url, requested, address, request_head, response_head, .. } = exchange;
    let position = position.to_le_bytes();
    let id = |kind: &[u8], content: &Hash| {
        uuid(&[kind, &nanoseconds(*requested), &position, content, url.as_bytes()])
    };
    let whole = [&response_head[..], &exchange.payload];
    let (record_type, block) = match record {
        ResponseRecord::Whole => (RecordType::Response, &whole[..]),
        ResponseRecord::SamePayload(..) => (RecordType::Revisit, &whole[..1]),
        ResponseRecord::NotModified(_) => (RecordType::Revisit, &whole[..]),
    };
    let response_id = id(b"response", payload);
    let mut response = header(record_type, &response_id, *requested);
    response.push("WARC-Target-URI", url);
    push_address(&mut response, *address);
    push_protocol(&mut response, exchange.protocol);
    match record {
        ResponseRecord::Whole => {
            if let Some(truncation) = exchange.truncated {
                response.push("WARC-Truncated", truncation_name(truncation));
            }
        }
        ResponseRecord::SamePayload(uri, date) => push_reference(&mut response, IDENTICAL_PAYLOAD, uri, date),
        ResponseRecord::NotModified(date) => push_reference(&mut response, NOT_MODIFIED, url, date),
    }
    // The payload of a 304 response is that of the earlier visit, which is not known here.
    if !matches!(record, ResponseRecord::NotModified(_)) {
        response.push("WARC-Payload-Digest", &digest::text(payload));
    }
    response.push("Content-Type", "application/http;msgtype=response");
    push_record(encoding, out, response, block);
    let request_id = id(b"request", &digest::hash(&[request_head]));
    let mut request = header(RecordType::Request, &request_id, *requested);
    request.push("WARC-Target-URI", url);
    push_address(&mut request, *address);
    push_protocol(&mut request, exchange.protocol);
    request.push("WARC-Concurrent-To", &response_id);
    request.push("Content-Type", "application/http;msgtype=request");
    push_record(encoding, out, request, &[request_head]);
}

/// A header with the fields that all records have.
fn header(record_type: RecordType, id: &str, date: SystemTime) -> RecordHeader {
    let mut header = RecordHeader::new(VERSION);
    header.push("WARC-Type", record_type.name());
    header.push("WARC-Record-ID", id);
    header.push("WARC-Date", &rfc3339(date));
    header
}

fn push_address(header: &mut RecordHeader, address: Option<IpAddr>) {
    if let Some(address) = address {
        // An IPv4 address that was reached through an IPv6 socket is one.
        header.push("WARC-IP-Address", &address.to_canonical().to_string());
    }
}

fn push_protocol(header: &mut RecordHeader, protocol: Protocol) {
    if protocol == Protocol::Http2 {
        header.push("WARC-Protocol", "h2");
    }
}

fn push_reference(header: &mut RecordHeader, profile: &str, uri: &str, date: SystemTime) {
    header.push("WARC-Profile", profile);
    header.push("WARC-Refers-To-Target-URI", uri);
    header.push("WARC-Refers-To-Date", &rfc3339(date));
}

fn truncation_name(truncation: Truncation) -> &'static str {
    match truncation {
        Truncation::Length => "length",
        Truncation::Time => "time",
        Truncation::Disconnect => "disconnect",
        Truncation::Unspecified => "unspecified",
    }
}

fn push_record(encoding: Encoding, out: &mut Vec<u8>, mut header: RecordHeader, block: &[&[u8]]) {
    header.push("WARC-Block-Digest", &digest::text(&digest::hash(block)));
    let length: usize = block.iter().map(|piece| piece.len()).sum();
    header.push("Content-Length", &length.to_string());
    let header = header.to_bytes();
    let (first, second) =
        (block.first().copied().unwrap_or_default(), block.get(1).copied().unwrap_or_default());
    encoding.push(out, &[&header, first, second, RECORD_END]);
}

fn nanoseconds(time: SystemTime) -> [u8; 16] {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_le_bytes()
}

/// The ID of what these pieces name: a UUID of version 5, from their hash.
fn uuid(pieces: &[&[u8]]) -> String {
    let lengths: Vec<u8> = pieces.iter().flat_map(|piece| piece.len().to_le_bytes()).collect();
    let all: Vec<&[u8]> = std::iter::once(&lengths[..]).chain(pieces.iter().copied()).collect();
    let mut bytes = digest::hash(&all);
    bytes[6] = bytes[6] & 0x0F | 0x50;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    let hex: String = bytes[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("<urn:uuid:{}-{}-{}-{}-{}>", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests;
