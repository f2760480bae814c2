//! Response headers of arbitrary bytes: content type, charset, Retry-After, Location, Content-Encoding and
//! X-Robots-Tag.
#![no_main]

use std::time::Duration;

use crawler::RobotsDirectives;
use crawler::internal::fetch::http::decode::Decoder;
use crawler::internal::fetch::http::headers;
use crawler::internal::html::charset::Charset;
use crawler::internal::media::{self, Declared, SNIFF_BYTES};
use crawler::internal::{fuzzing, html};
use http::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
};
use libfuzzer_sys::fuzz_target;
use url::Url;

const X_ROBOTS_TAG: HeaderName = HeaderName::from_static("x-robots-tag");

const NAMES: [HeaderName; 5] = [CONTENT_TYPE, CONTENT_ENCODING, RETRY_AFTER, LOCATION, X_ROBOTS_TAG];

// The first five lines are the values of the headers, the rest is the body.
fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(NAMES.len() + 1, |byte| *byte == b'\n');
    let mut map = HeaderMap::new();
    for name in NAMES {
        // HTTP connections pass on the same bytes as `HeaderValue`.
        if let Some(value) = parts.next().and_then(|value| HeaderValue::from_bytes(value).ok()) {
            map.append(name, value);
        }
    }
    let body = parts.next().unwrap_or_default();
    check_media(headers::text(&map, CONTENT_TYPE).as_deref(), body);
    check_coding(headers::list(&map, CONTENT_ENCODING).as_deref());
    if let Some(value) = headers::text(&map, RETRY_AFTER) {
        check_retry_after(&value);
    }
    if let Some(value) = map.get(LOCATION) {
        check_location(value.as_bytes());
    }
    if let Some(value) = headers::text(&map, X_ROBOTS_TAG) {
        check_robots_tag(&value);
    }
});

fn check_media(content_type: Option<&str>, body: &[u8]) {
    let declared = media::declared(content_type);
    assert_eq!(declared, media::declared(content_type.map(str::to_ascii_uppercase).as_deref()));
    assert_eq!(declared, media::declared(content_type.and_then(|text| text.split(';').next())));
    let media = media::sniff(declared, content_type, body);
    let start = &body[..body.len().min(SNIFF_BYTES)];
    assert_eq!(media, media::sniff(declared, content_type, start), "only the first bytes count");
    match declared {
        Declared::Other => assert_eq!(media, None),
        Declared::Page(page) => assert!(media.is_none_or(|media| media == page)),
        Declared::Unknown => {}
    }

    let charset = Charset::new(content_type, body);
    let text = charset.utf8();
    assert_eq!(text, Charset::new(content_type, body).utf8(), "the order of the calls makes no difference");
    if let Some(transcoded) = charset.transcoded() {
        assert_eq!(transcoded.as_bytes(), &*text);
    }
    charset.encoding();

    let excerpt = headers::excerpt(content_type.unwrap_or_default());
    assert!(excerpt.chars().count() <= 101);
    let start = excerpt.strip_suffix('…').unwrap_or(&excerpt);
    assert!(content_type.unwrap_or_default().starts_with(start));
}

fn check_coding(coding: Option<&str>) {
    let Some(text) = coding else { return };
    let is_supported = Decoder::new(coding, 10, usize::MAX).is_ok();
    assert_eq!(is_supported, Decoder::new(Some(&text.to_ascii_uppercase()), 10, 0).is_ok());
    assert_eq!(is_supported, Decoder::new(Some(&format!("identity, {text}")), 10, 0).is_ok());
    assert!(
        Decoder::new(Some(&format!("gzip, br, {text}")), 10, 0).is_err(),
        "stacked codings are not offered"
    );
}

fn check_retry_after(value: &str) {
    let delay = fuzzing::parse_retry_after(value);
    if let Ok(seconds) = value.trim().parse() {
        assert_eq!(delay, Some(Duration::from_secs(seconds)));
    }
}

fn check_location(value: &[u8]) {
    let location = headers::location(value);
    if let Ok(text) = std::str::from_utf8(value) {
        assert_eq!(location, text);
    }
    assert!(location.len() <= 3 * value.len());
    let base = Url::parse("https://example.org/a/b?c").expect("a valid URL");
    if let Ok(target) = html::resolve(&base, &location) {
        assert_eq!(html::normalize(target.as_str()), Ok(target));
    }
}

fn check_robots_tag(value: &str) {
    let directives = |value: &str| fuzzing::header_directives(value, "crawler");
    assert_eq!(directives(value), directives(&value.to_ascii_uppercase()));
    // With a colon, a directive has a value, or is for one crawler. Only `meta` elements may have semicolons.
    if !value.contains([':', ';']) {
        assert_eq!(directives(value), directives(&format!("Crawler: {value}")));
        assert_eq!(directives(&format!("other: {value}")), RobotsDirectives::default());
        assert_eq!(directives(value), fuzzing::meta_directives("robots", value, "crawler"));
        assert_eq!(directives(value), fuzzing::meta_directives("crawler", value, "crawler"));
    }
}
