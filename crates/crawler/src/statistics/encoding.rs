//! How statistics are stored in a state and in Redis.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The version of the encoding, which is the first byte. postcard has no names of fields: after a change of a type that is stored,
/// other numbers could be read from what was stored before.
const VERSION: u8 = 3;

/// The bytes that are stored.
pub(crate) fn encode<T: Serialize>(value: &T) -> Option<Vec<u8>> {
    postcard::to_extend(value, vec![VERSION]).ok()
}

/// What was stored; `None` if it is something else, or of another version.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (&VERSION, encoded) = bytes.split_first()? else { return None };
    match postcard::take_from_bytes(encoded) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::super::{HostStatistics, LatestUrl, Recorder, Sample, Statistics};
    use super::*;
    use crate::crawl_view::{CrawlPhase, Limits};

    /// The bytes in hexadecimal digits.
    fn hex(value: &impl Serialize) -> String {
        encode(value).unwrap().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Statistics with a value in most fields.
    fn statistics() -> Statistics {
        let at = UNIX_EPOCH + Duration::from_secs(1);
        let mut statistics = Recorder::default().recorded();
        statistics.statuses.insert(200, 7);
        statistics.content_types.insert("text/html".into(), 2);
        statistics.languages.insert("en".into(), 3);
        statistics.depths = vec![1, 2];
        statistics.page_bytes.record_bytes(700);
        statistics.stages.dns.record(Duration::from_millis(1));
        (statistics.retries, statistics.truncated, statistics.module_failures) = (4, 5, 6);
        (statistics.commits, statistics.redis_round_trips, statistics.in_flight) = (7, 8, 9);
        let host = HostStatistics {
            requests: 1,
            pages: 2,
            bytes: 3,
            failures: 4,
            consecutive_failures: 5,
            last_failure: Some("HTTP 503".into()),
            last_request_at: Some(at),
            robots_at: Some(at),
            ..HostStatistics::default()
        };
        statistics.hosts.change("a.test", || host, |_| {});
        statistics.series.push(Sample { at_seconds: 1, pages: 2, ..Sample::default() });
        statistics.latest.push_back(LatestUrl { at, url: "http://a.test/".into(), ..LatestUrl::default() });
        statistics.started_at = Some(at);
        statistics
    }

    #[test]
    fn the_bytes_of_stored_statistics_change_only_with_the_version() {
        let changed = "what is stored is encoded differently: raise VERSION, FORMAT and LAYOUT";
        assert_eq!(hex(&statistics()), STATISTICS, "{changed}");
        let limits = Limits { max_depth: Some(3), delay: Duration::from_millis(5), ..Limits::default() };
        assert_eq!(hex(&(limits, CrawlPhase::Ended("x".into()))), LIMITS_AND_PHASE, "{changed}");
    }

    #[test]
    fn other_versions_and_other_bytes_are_not_decoded() {
        let (statistics, mut bytes) = (statistics(), encode(&statistics()).unwrap());
        assert_eq!(decode::<Statistics>(&bytes), Some(statistics));
        bytes.push(0);
        assert_eq!(decode::<Statistics>(&bytes), None, "a byte too many");
        bytes.pop();
        bytes[0] += 1;
        assert_eq!(decode::<Statistics>(&bytes), None, "another version");
        assert_eq!(decode::<Statistics>(b""), None);
    }

    const STATISTICS: &str = "0301c80107000000000109746578742f68746d6c020102656e03020102010001000000000000000000000000000000bc0501\
        000001000000000000000000000000000000e807010000000000000000000000000000000000000000000000000000000000\
        0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
        0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
        00000000000000000000000000000000000000000000000000000000000000000000000000000405060708090106612e7465\
        7374010203040501084854545020353033000000000000000101000001010001010102000000000101000e687474703a2f2f\
        612e746573742f000000000000010100";
    const LIMITS_AND_PHASE: &str = "03ffffffffffffffffff01ffffffffffffffffff0100010300c096b102030178";
}
