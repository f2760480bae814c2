//! Entry points of the fuzz targets into private code.

use std::fmt::Debug;
use std::time::Duration;

use crate::backend::durable::checkpoint::Checkpoint;
use crate::backend::durable::records::{
    CompletedRow, HostRow, PageRow, SeenRow, TaskRow, writes_from_bytes, writes_to_bytes,
};
use crate::domain::Domain;
use crate::fetch::robots::directives::RobotsDirectives;

/// Decodes `bytes` as each kind of record of the state file. Panics if a decoded record changes when it is encoded and
/// decoded again.
pub fn check_state_records(bytes: &[u8]) {
    check_record(bytes, TaskRow::from_bytes, TaskRow::to_bytes);
    check_record(bytes, CompletedRow::from_bytes, CompletedRow::to_bytes);
    check_record(bytes, SeenRow::from_bytes, |row| row.to_bytes().to_vec());
    check_record(bytes, PageRow::from_bytes, PageRow::to_bytes);
    check_record(bytes, HostRow::from_bytes, |row| row.to_bytes());
    check_record(bytes, writes_from_bytes, |(page, writes)| writes_to_bytes(*page, writes));
    check_record(
        bytes,
        |bytes| Checkpoint::from_bytes(bytes).map(|checkpoint| checkpoint.to_bytes()),
        Vec::clone,
    );
    let _ = CompletedRow::from_bytes(bytes).map(|row| row.has_links());
    let _ = PageRow::from_bytes(bytes).and_then(|row| row.body?.read(bytes));
}

fn check_record<R: Debug + PartialEq>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Option<R>,
    encode: impl Fn(&R) -> Vec<u8>,
) {
    if let Some(record) = decode(bytes) {
        assert_eq!(decode(&encode(&record)).as_ref(), Some(&record));
    }
}

/// The domain of a throttle key.
pub fn domain_from_throttle_key(key: &str) -> Domain {
    Domain::from_throttle_key(key)
}

/// The delay in a Retry-After header.
pub fn parse_retry_after(value: &str) -> Option<Duration> {
    crate::fetch::http::parse_retry_after(value)
}

/// The directives of an X-Robots-Tag header for the crawler with this name.
pub fn header_directives(value: &str, product_token: &str) -> RobotsDirectives {
    let mut directives = RobotsDirectives::default();
    directives.add_header(value, product_token);
    directives
}

/// The directives of a `meta` element for the crawler with this name.
pub fn meta_directives(name: &str, content: &str, product_token: &str) -> RobotsDirectives {
    let mut directives = RobotsDirectives::default();
    directives.add_meta(name, content, product_token);
    directives
}
