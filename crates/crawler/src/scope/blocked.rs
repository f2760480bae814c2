//! Hosts and URLs that an operator blocks while a crawl runs.

use std::collections::HashSet;
use std::sync::Arc;

use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use url::{Host, Url};

use crate::html::normal_form;
use crate::origin::{Origin, throttle_key};

/// The longest host name, and the longest label of one, by RFC 1035.
const MAX_NAME_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

/// URLs that have nothing in common but what all URLs have. A pattern that matches them all blocks everything.
const ANY_URLS: [&str; 3] = ["http://a.test/", "https://[::1]:8080/B?c=d", "http://127.0.0.1/0"];

/// The longest pattern.
const MAX_PATTERN_BYTES: usize = 2_000;

/// How many bytes a compiled pattern may take, so that compiling it takes milliseconds; and all patterns together.
const MAX_COMPILED_BYTES: usize = 1 << 20;
const MAX_SET_BYTES: usize = 10 << 20;

/// Hosts and URLs that are blocked.
#[derive(Debug, Clone)]
pub(crate) struct Blocked {
    /// Throttle keys.
    hosts: HashSet<String>,
    patterns: RegexSet,
}

impl Blocked {
    /// What blocks these hosts and patterns; `None` if there are none. An error if a pattern cannot be used.
    pub(crate) fn new(hosts: &[String], patterns: &[String]) -> Result<Option<Arc<Blocked>>, String> {
        if hosts.is_empty() && patterns.is_empty() {
            return Ok(None);
        }
        let patterns = RegexSetBuilder::new(patterns).size_limit(MAX_SET_BYTES).build().map_err(reason)?;
        Ok(Some(Arc::new(Blocked { hosts: hosts.iter().cloned().collect(), patterns })))
    }

    /// Whether a normalized URL is blocked.
    pub(crate) fn contains(&self, url: &str) -> bool {
        self.contains_host(throttle_key(url)) || self.patterns.is_match(url)
    }

    /// The blocked hosts, by their throttle keys.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        self.hosts.iter().map(String::as_str)
    }

    /// Whether a host is blocked, by its throttle key.
    pub(crate) fn contains_host(&self, host: &str) -> bool {
        self.hosts.contains(host)
    }

    /// The name under which a host is blocked: with its port, unless the port is 80 or 443. An error if a text is no host name and
    /// no address.
    pub(crate) fn host(text: &str) -> Result<String, String> {
        let no_host =
            || "it is not a host name or address; give one like www.example.org, or with a port".to_owned();
        let text = text.trim();
        if text.is_empty() || text.contains(['/', '\\', '?', '#', '@']) || text.contains(char::is_whitespace)
        {
            return Err(no_host());
        }
        let mut url = Url::parse(&format!("http://{text}/")).map_err(|_| no_host())?;
        normal_form::normalize(&mut url).map_err(|_| no_host())?;
        if let Some(Host::Domain(name)) = url.host()
            && !is_host_name(name)
        {
            return Err(no_host());
        }
        // Hosts of https URLs have the port 443, which is none of http's.
        Ok(match url.port() {
            Some(443) => url.host_str().ok_or_else(no_host)?.to_owned(),
            _ => Origin::from_url(&url).throttle_key(),
        })
    }

    /// Checks that a pattern can be used. The error is one line.
    pub(crate) fn check_pattern(text: &str) -> Result<(), String> {
        match text.len() {
            0 => return Err("it is empty, and would block every URL; give a regular expression".into()),
            length if length > MAX_PATTERN_BYTES => {
                return Err(format!(
                    "it has {length} bytes, more than {MAX_PATTERN_BYTES}; give a shorter one"
                ));
            }
            _ => {}
        }
        let compiled: Regex =
            RegexBuilder::new(text).size_limit(MAX_COMPILED_BYTES).build().map_err(reason)?;
        match ANY_URLS.iter().all(|url| compiled.is_match(url)) {
            true => Err("it matches every URL; stop the crawl, or give a narrower one".into()),
            false => Ok(()),
        }
    }
}

/// Whether a name in its normal form can be that of a host. Names with underscores are not allowed, and in use.
fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=MAX_LABEL_BYTES).contains(&label.len()) && label.bytes().all(is_allowed)
    };
    name.len() <= MAX_NAME_BYTES && name.split('.').all(is_label)
}

/// Why a pattern cannot be used.
fn reason(error: regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => "it is too large when compiled; repeat less in it".into(),
        error => {
            let lines = error.to_string();
            let reason = lines.lines().last().unwrap_or_default().trim_start_matches("error: ");
            format!("it is not a regular expression: {reason}; correct it")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_blocked_by_the_names_that_delays_are_kept_by() {
        for (text, host) in [
            ("www.Example.org", "www.example.org"),
            ("example.org:8080", "example.org:8080"),
            ("example.org:80", "example.org"),
            ("example.org:443", "example.org"),
            ("b\u{fc}cher.example", "xn--bcher-kva.example"),
            ("[::1]:8080", "[::1]:8080"),
            ("127.0.0.1", "127.0.0.1"),
            ("example.org.", "example.org"),
            ("my_host.example.org", "my_host.example.org"),
            (&*["x".repeat(63), "org".into()].join("."), &*["x".repeat(63), "org".into()].join(".")),
        ] {
            assert_eq!(Blocked::host(text).as_deref(), Ok(host), "{text}");
        }
        let (long_label, long_name) = ("x".repeat(64) + ".org", "x.".repeat(126) + "org");
        for text in ["", "http://a.test/", "a.test/x", "me:secret@a.test", "a b", "a.test:x", "%"]
            .into_iter()
            .chain(["*", "*.example.org", "a..test", ".", "a,b", "a!b", "[::1", "a.test:99999"])
            .chain([&*long_label, &*long_name, &*"x".repeat(5_000)])
        {
            assert!(Blocked::host(text).is_err_and(|error| !error.contains("secret")), "{text}");
        }
    }

    #[test]
    fn urls_of_blocked_hosts_and_patterns_are_blocked() {
        let blocked = Blocked::new(&["a.test".into()], &[r"/private/".into()]).unwrap().unwrap();
        for url in ["http://a.test/", "https://a.test/x?y", "http://b.test/private/x"] {
            assert!(blocked.contains(url), "{url}");
        }
        for url in ["http://www.a.test/", "http://a.test:8080/", "http://b.test/public"] {
            assert!(!blocked.contains(url), "{url}");
        }
        assert!(Blocked::new(&[], &[]).unwrap().is_none());
    }

    #[test]
    fn patterns_that_cannot_be_used_are_refused_in_one_line() {
        for pattern in [r"\.pdf$", "^https:", r"/\d+$", r"\?", "^$"] {
            assert_eq!(Blocked::check_pattern(pattern), Ok(()), "{pattern}");
        }
        for (pattern, why) in [
            ("", "empty"),
            ("(", "not a regular expression"),
            ("(a{1000}){1000}", "too large"),
            (&*"a".repeat(2_001), "2001 bytes"),
            (".*", "matches every URL"),
            ("x|", "matches every URL"),
            ("^https?://", "matches every URL"),
        ] {
            let error = Blocked::check_pattern(pattern).unwrap_err();
            assert!(error.contains(why) && error.lines().count() == 1, "{error}");
        }
    }
}
