//! Tests of URL resolution.

use proptest::prelude::*;

use super::*;

fn resolved(base: &str, target: &str) -> Result<String, BadLink> {
    let base = Url::parse(base).expect("a base URL");
    let mut out = String::from("previous content");
    UrlResolver::new(&base).resolve(target, || encoding_rs::UTF_8, &mut out).map(|()| out)
}

/// The result of the fast path, if it supports the target.
fn resolved_fast(base: &str, target: &str) -> Option<String> {
    let base = Url::parse(base).expect("a base URL");
    let mut out = String::new();
    UrlResolver::new(&base).resolve_fast(target, &mut out).then_some(out)
}

/// The normal form of the result of the `url` crate.
fn resolved_by_url_crate(base: &str, target: &str) -> Option<String> {
    let mut url = join(Some(&Url::parse(base).ok()?), None, target).ok()?;
    if matches!(url.scheme(), "http" | "https") {
        normal_form::normalize(&mut url).ok()?;
    }
    url.set_fragment(None);
    Some(url.into())
}

const BASE: &str = "https://docs.example.org:8443/a/b/c.html?q=1";

#[test]
fn common_targets_take_the_fast_path() {
    for (target, expected) in [
        ("x.html", "/a/b/x.html"),
        (" x.html#part two\n", "/a/b/x.html"),
        ("../../x/y.html", "/x/y.html"),
        ("../../../..", "/"),
        ("./x/./y/../z", "/a/b/x/z"),
        ("..", "/a/"),
        (".", "/a/b/"),
        ("/x/y?z=../w", "/x/y?z=../w"),
        ("/", "/"),
        ("?q=2&r=%20#f", "/a/b/c.html?q=2&r=%20"),
        ("#f\u{e9}", "/a/b/c.html?q=1"),
        ("", "/a/b/c.html?q=1"),
        ("x//y/", "/a/b/x//y/"),
        ("x//..", "/a/b/x/"),
        ("x/a:b@c", "/a/b/x/a:b@c"),
        (".x/..y/...", "/a/b/.x/..y/..."),
        ("%2F%20/%C3?%26", "/a/b/%2F%20/%C3?%26"),
        ("x?", "/a/b/x"),
        ("?#f", "/a/b/c.html"),
        ("https://docs.example.org:8443/x/../y", "/y"),
    ] {
        assert_eq!(
            resolved_fast(BASE, target),
            Some(format!("https://docs.example.org:8443{expected}")),
            "{target}"
        );
    }
    assert_eq!(resolved_fast(BASE, "http://example.net").as_deref(), Some("http://example.net/"));
    assert_eq!(resolved_fast(BASE, "http://example.net?a").as_deref(), Some("http://example.net/?a"));
    assert_eq!(
        resolved_fast(BASE, "//www.example.net/a/../b#c").as_deref(),
        Some("https://www.example.net/b")
    );
}

#[test]
fn equivalent_targets_are_resolved_to_one_url() {
    for (expected, targets) in [
        ("/a/b/~x", &["%7Ex", "%7ex", "./%7Ex?", "%2e/~x#f", "/a/b/~%78", "y/%2E%2e/~x", "y/.%2e/~x"][..]),
        ("/a/b/x%2Fy?z%3F", &["x%2fy?z%3f", "x%2Fy?%7a%3F"]),
        ("/a/", &["..", "%2e%2E", "%2e./", "../?"]),
    ] {
        for target in targets {
            let expected = format!("https://docs.example.org:8443{expected}");
            assert_eq!(resolved(BASE, target), Ok(expected), "{target}");
        }
    }
    for target in
        ["http://h.test", "//h.test:80/", "http://h.test./", "http://H.test..:80/?", "HTTP:\\\\h.test"]
    {
        assert_eq!(resolved("http://other.test/", target).as_deref(), Ok("http://h.test/"), "{target}");
    }
    assert_eq!(resolved("http://h.test../a/b%2e?x#y", "").as_deref(), Ok("http://h.test/a/b.?x"));
    assert_eq!(resolved("http://h.test../%61/b?x", "c").as_deref(), Ok("http://h.test/a/c"));
}

#[test]
fn many_slashes_before_a_host_are_as_good_as_two() {
    for target in [
        "///h.test/x",
        "////h.test/x",
        "/\\/h.test/x",
        "\\\\\\h.test/x",
        "//\\h.test/x",
        " /\n//h.test/x",
        "http:///h.test/x",
    ] {
        assert_eq!(
            resolved("http://example.org/a/b", target).as_deref(),
            Ok("http://h.test/x"),
            "{target:?}"
        );
    }
    for target in ["//", "///", "///?x", "///#x", "///:80"] {
        assert_eq!(resolved("http://example.org/a/b", target), Err(BadLink::Malformed), "{target:?}");
    }
    assert_eq!(resolved("http://example.org/a/b", "///me@h.test/"), Err(BadLink::Credentials));
}

#[test]
fn rejected_target_has_a_reason() {
    for (target, reason) in [
        ("mailto:a@example.org", BadLink::Scheme),
        (" JavaScript:void(0)", BadLink::Scheme),
        ("java\nscript:void(0)", BadLink::Scheme),
        ("ftp://example.org/", BadLink::Scheme),
        ("foo://[broken", BadLink::Scheme),
        ("http://[broken", BadLink::Malformed),
        ("http://example.org:99999/", BadLink::Malformed),
        ("http://", BadLink::Malformed),
        ("http://user@example.org/", BadLink::Credentials),
        ("//user:secret@example.org/", BadLink::Credentials),
        ("http://:secret@example.org/", BadLink::Credentials),
    ] {
        assert_eq!(resolved(BASE, target), Err(reason), "{target}");
    }
}

#[test]
fn colon_or_at_sign_outside_the_authority_is_no_credential() {
    assert_eq!(resolved(BASE, "/a:b@c").as_deref(), Ok("https://docs.example.org:8443/a:b@c"));
    assert_eq!(resolved(BASE, "http://@example.org/").as_deref(), Ok("http://example.org/"));
    assert_eq!(
        resolved(BASE, "?u=http://a:b@c/").as_deref(),
        Ok("https://docs.example.org:8443/a/b/c.html?u=http://a:b@c/")
    );
}

#[test]
fn url_of_more_than_2048_bytes_is_rejected() {
    let room = MAX_URL_BYTES - "https://example.org/".len();
    for filler in ["x", "%20", "é"] {
        let length = if filler == "é" { "%C3%A9".len() } else { filler.len() };
        let (fits, rest) = (filler.repeat(room / length), "y".repeat(room % length));
        let longest = resolved("https://example.org/", &format!("{rest}{fits}"));
        assert_eq!(longest.map(|url| url.len()), Ok(MAX_URL_BYTES));
        assert_eq!(resolved("https://example.org/", &format!("{rest}{fits}z")), Err(BadLink::TooLong));
    }
}

#[rustfmt::skip]
const BASES: &[&str] = &[
    "http://example.org", "https://example.org/a", "http://example.org/a/",
    "http://example.org/a/b/c?d/e?f#g/h", "http://example.org//", "http://example.org/a/C:/", "http://example.org/a//b//c",
    "http://example.org:81/?x", "https://127.0.0.1/x/y", "http://[::1]:8080/a/b",
    "http://user:pw@example.org/a/b", "http://example.org/%2e/a;b=c/d", "http://xn--bcher-kva.example/ü",
    "https://example.org/a/?x=/y/../z", "http://example.org./a/b", "http://example.org/%7ea/%2F/b?%41", "http://example.org/a?", "file:///a/b", "ftp://example.org/a/b", "mailto:someone",
    "data:text/html,x",
];

#[rustfmt::skip]
const PIECES: &[&str] = &[
    "a", "b.html", ".", "..", "...", ".a", "..b", "/", "//", "/.", "/..", "./", "../", "%2e", "%2E", ".%2e",
    "%2e%2e", "%", "%2", "%20", "%41", "%7e", "%C3", "%c3", "///", "example.org..", "\\", "\\\\", ":", "@", "?", "#", "&", "=", ";", ",", "'", "\"", "<",
    ">", "`", "{", "}", "|", "^", "[", "]", "~", "!", "$", "(", ")", "*", "+", "-", "_", "\t", "\n", "\r",
    " ", "\u{0}", "\u{1f}", "\u{7f}", "é", "日本", "\u{fffd}", "\u{a0}", "http:", "https:", "http:/", "http://",
    "https://", "HTTP://", "ftp://", "file:", "javascript:", "mailto:", "1:", "a:", "/c:/", "|/../", "example.org",
    "Example.ORG", "example.org:80", "example.org:443", "example.org:81", "example.org.", "ex..org", "-a.org",
    "a-.org", "a--b.org", "xn--bcher-kva.example", "xn--", "127.0.0.1", "127.1", "0x7f.1", "1.2.3",
    "1.2.3.4.5", "a.1", "a.0x1", "a.1b", "localhost", "[::1]", "user@", "user:pw@", "//example.org",
    "//a.b:c", "//xn--a.org", "http://xn--zzzzz99999.org", "x_y.example", "%65xample.org",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn fast_path_agrees_with_the_url_crate(
        base in prop::sample::select(BASES),
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..7),
    ) {
        let target = pieces.concat();
        if let Some(fast) = resolved_fast(base, &target) {
            prop_assert_eq!(Some(fast), resolved_by_url_crate(base, &target), "{} + {:?}", base, target);
        }
    }

    #[test]
    fn resolved_urls_are_normalized_and_usable_as_base(
        base in prop::sample::select(BASES),
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..7),
        more in prop::collection::vec(prop::sample::select(PIECES), 0..5),
    ) {
        let Ok(base) = resolved(base, &pieces.concat()) else { return Ok(()) };
        prop_assert_eq!(crate::html::normalize(&base).map(String::from), Ok(base.clone()));
        let target = more.concat();
        match resolved(&base, &target) {
            Ok(url) => prop_assert_eq!(Some(url), resolved_by_url_crate(&base, &target), "{} + {:?}", base, target),
            Err(BadLink::Malformed) => prop_assert_eq!(None, resolved_by_url_crate(&base, &target)),
            Err(_) => {}
        }
    }
}
