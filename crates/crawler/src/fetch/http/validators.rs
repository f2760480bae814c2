//! The validators of a response, ETag and Last-Modified, which make a later request conditional.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::header::{self, HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};

/// A longer ETag is not remembered: servers send less than a hundred bytes, and every page of a crawl may have one.
const MAX_ETAG_BYTES: usize = 256;

/// The validators of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validators {
    /// The ETag as it was received, strong or weak.
    etag: Option<Box<str>>,
    /// The time of Last-Modified: Unix time in seconds.
    last_modified: Option<u32>,
}

impl Validators {
    /// Those of a response with these headers.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Validators {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let etag = text(header::ETAG).map(str::trim);
        let etag = etag.filter(|etag| !etag.is_empty() && etag.len() <= MAX_ETAG_BYTES);
        let modified =
            text(header::LAST_MODIFIED).and_then(|value| httpdate::parse_http_date(value.trim()).ok());
        let seconds =
            modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map(|time| time.as_secs());
        Validators {
            etag: etag.map(Box::from),
            last_modified: seconds.and_then(|seconds| u32::try_from(seconds).ok()),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Validators::default()
    }

    /// These, with each that is missing taken from others.
    pub(crate) fn or(self, others: &Validators) -> Validators {
        Validators {
            etag: self.etag.or_else(|| others.etag.clone()),
            last_modified: self.last_modified.or(others.last_modified),
        }
    }

    /// Makes a request conditional: the server sends the page only if that has changed.
    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        if let Some(etag) = self.etag.as_deref().and_then(|etag| HeaderValue::from_str(etag).ok()) {
            headers.insert(header::IF_NONE_MATCH, etag);
        }
        let date = self.last_modified.map(|seconds| http_date(seconds.into()));
        if let Some(date) = date.and_then(|date| HeaderValue::from_str(&date).ok()) {
            headers.insert(header::IF_MODIFIED_SINCE, date);
        }
    }
}

fn http_date(seconds: u64) -> String {
    let time: SystemTime = UNIX_EPOCH + Duration::from_secs(seconds);
    httpdate::fmt_http_date(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[(&'static str, &str)]) -> HeaderMap {
        let values = values.iter().map(|(name, value)| (*name, HeaderValue::from_str(value).unwrap()));
        values.fold(HeaderMap::new(), |mut headers, (name, value)| {
            headers.insert(name, value);
            headers
        })
    }

    #[test]
    fn request_repeats_the_validators_of_the_response() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        for etag in ["\"x\"", "W/\"y\"", "unquoted"] {
            let mut request = HeaderMap::new();
            Validators::from_headers(&headers(&[("etag", etag), ("last-modified", date)]))
                .add_to(&mut request);
            assert_eq!(
                (&request["if-none-match"], &request["if-modified-since"]),
                (&etag.parse().unwrap(), &date.parse().unwrap())
            );
        }
    }

    #[test]
    fn unusable_validators_are_ignored() {
        let long = format!("\"{}\"", "x".repeat(MAX_ETAG_BYTES));
        for (etag, date) in [(long.as_str(), "yesterday"), (" ", ""), ("", "Sun, 06 Nov 1994 25:49:37 GMT")] {
            assert!(
                Validators::from_headers(&headers(&[("etag", etag), ("last-modified", date)])).is_empty()
            );
        }
        let mut not_ascii = HeaderMap::new();
        not_ascii.insert("etag", HeaderValue::from_bytes(b"\"\xE4\"").unwrap());
        assert!(Validators::from_headers(&not_ascii).is_empty());
    }

    #[test]
    fn a_response_without_a_validator_keeps_the_earlier_one() {
        let earlier = Validators::from_headers(&headers(&[
            ("etag", "\"1\""),
            ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ]));
        let later = Validators::from_headers(&headers(&[("etag", "\"2\"")]));
        assert_eq!(later.or(&earlier), Validators { etag: Some("\"2\"".into()), ..earlier });
    }
}
