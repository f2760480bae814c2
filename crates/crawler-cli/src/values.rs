//! Parses the values of arguments. Each error describes the valid values.

use std::net::IpAddr;
use std::time::Duration;

use crawler::internal::backend::local::UNLIMITED_TTL;
use crawler::internal::backend::redis::is_name;
use crawler::internal::html::{self, BadLink};
use crawler::internal::media::AcceptedTypes;
use crawler::internal::modules::registry;
use crawler::internal::scope::Scope;
use crawler::internal::strip_query::StripQuery;
use crawler::internal::task::Depth;
use crawler::internal::visit::RevisitAfter;
use url::{Host, Url};

use crate::format::number;

/// The longest delay or timeout.
const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest crawl or lifetime.
const MAX_LONG_TIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The shortest heartbeat timeout: a process must be able to send several heartbeats within it.
const MIN_DEAD_AFTER: Duration = Duration::from_millis(300);

/// The shortest time between two looks at a crawl.
const MIN_WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// The largest number of pages.
pub const MAX_COUNT: u64 = 1_000_000_000_000;

/// The largest size of all pages: 1000 TB.
pub const MAX_LARGE_SIZE: u64 = 1_000_000_000_000_000;

/// Stands for the largest number, size or time.
const UNLIMITED: &str = "unlimited";

/// Whether a text is meant as a negative number, size or time: `-1`, `-1s`, `-.5`.
pub fn is_negative(text: &str) -> bool {
    let number = text.strip_prefix('-').unwrap_or_default();
    number.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.')
}

/// The error for a value that is not `expected`.
fn invalid(text: &str, expected: &str) -> String {
    match is_negative(text) {
        true => format!("must not be negative; give {expected}"),
        false => format!("must be {expected}"),
    }
}

/// A depth: digits only.
pub fn depth(text: &str) -> Result<Depth, String> {
    let error = || invalid(text, &format!("a whole number from 0 to {}", number(Depth::MAX.into())));
    // `parse` accepts a sign.
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(error());
    }
    text.parse().map_err(|_| error())
}

/// A number of requests in flight.
pub fn concurrency(text: &str) -> Result<usize, String> {
    whole_number(1, 10_000, text)
}

/// The capacity of a queue, in URLs.
pub fn queue_size(text: &str) -> Result<usize, String> {
    whole_number(1, 10_000_000, text)
}

/// A number of priority queues. There are 101 priorities, so more queues would stay empty.
pub fn priority_queues(text: &str) -> Result<usize, String> {
    whole_number(1, 101, text)
}

/// A number of workers, each of which is a thread or a process.
pub fn workers(text: &str) -> Result<u16, String> {
    whole_number(1, 1_000, text).map(|count| count as u16)
}

/// The number of one worker.
pub fn worker_id(text: &str) -> Result<u16, String> {
    whole_number(0, u16::MAX.into(), text).map(|id| id as u16)
}

/// A number of Redis replicas.
pub fn replicas(text: &str) -> Result<u8, String> {
    whole_number(0, 8, text).map(|count| count as u8)
}

/// A number of hosts with metrics of their own: each is a time series of several metrics.
pub fn metrics_hosts(text: &str) -> Result<usize, String> {
    whole_number(0, 1_000, text)
}

/// A number of pages.
pub fn count(text: &str) -> Result<u64, String> {
    whole_number(1, MAX_COUNT as usize, text).map(|count| count as u64)
}

/// A number of pages, or `unlimited`.
pub fn unlimited_count(text: &str) -> Result<u64, String> {
    match text {
        UNLIMITED => Ok(MAX_COUNT),
        text => count(text).map_err(|error| format!("{error}, or unlimited")),
    }
}

/// A number of failures.
pub fn failures(text: &str) -> Result<u32, String> {
    whole_number(1, 1_000_000, text).map(|count| count as u32)
}

fn whole_number(min: usize, max: usize, text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (min..=max).contains(&number) && !text.starts_with('+') => Ok(number),
        _ => Err(invalid(text, &format!("a whole number from {min} to {}", number(max as u64)))),
    }
}

/// A time: `0`, `250ms`, `2s`, `1.5s`, `1m`; a number without a unit is in seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    match time(text) {
        Some(duration) if duration <= MAX_DURATION => Ok(duration),
        _ => Err(invalid(text, "a time like 0, 250ms, 2s or 1m, at most 24h")),
    }
}

/// A time that is not zero and may be long: `90s`, `30m`, `12h`.
pub fn long_time(text: &str) -> Result<Duration, String> {
    match time(text) {
        Some(duration) if !duration.is_zero() && duration <= MAX_LONG_TIME => Ok(duration),
        _ => Err(invalid(text, "a time like 90s, 30m or 12h, longer than 0 and at most 8760h")),
    }
}

/// A time after which URLs are visited again, or `auto`.
pub fn revisit_after(text: &str) -> Result<RevisitAfter, String> {
    match text {
        "auto" => Ok(RevisitAfter::Auto),
        text => long_time(text).map(RevisitAfter::Fixed).map_err(|error| format!("{error}, or auto")),
    }
}

/// A lifetime: a long time, or `unlimited`.
pub fn ttl(text: &str) -> Result<Duration, String> {
    match text {
        UNLIMITED => Ok(UNLIMITED_TTL),
        text => long_time(text).map_err(|error| format!("{error}, or unlimited")),
    }
}

fn time(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds_per_unit = match unit {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    Duration::try_from_secs_f64(number * seconds_per_unit).ok()
}

/// The time between two looks at a crawl, which updates its counts once per second.
pub fn watch_interval(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        interval if interval < MIN_WATCH_INTERVAL => Err("must be at least 100ms".into()),
        interval => Ok(interval),
    }
}

/// A heartbeat timeout.
pub fn dead_after(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        timeout if timeout < MIN_DEAD_AFTER => {
            Err("must be at least 300ms, because processes send several heartbeats within it".into())
        }
        timeout => Ok(timeout),
    }
}

/// A time that is not zero.
pub fn timeout(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be longer than 0, like 500ms or 10s".into()),
        duration => Ok(duration),
    }
}

/// A size in bytes: `500000`, `500KB`, `1MB`, `512KiB`.
pub fn size(text: &str) -> Result<usize, String> {
    match bytes(text) {
        Some(bytes @ 1..=1_000_000_000) => Ok(bytes as usize),
        _ => Err(invalid(text, "a size like 500000, 500KB or 2MiB, from 1 byte to 1GB")),
    }
}

/// A size of many pages: `50MB`, `2GB`.
pub fn large_size(text: &str) -> Result<u64, String> {
    match bytes(text) {
        Some(bytes @ 1..=MAX_LARGE_SIZE) => Ok(bytes),
        _ => Err(invalid(text, "a size like 500KB, 50MB or 2GiB, from 1 byte to 1000TB")),
    }
}

/// The size of all pages of a crawl, or `unlimited`.
pub fn unlimited_size(text: &str) -> Result<u64, String> {
    match text {
        UNLIMITED => Ok(MAX_LARGE_SIZE),
        text => large_size(text).map_err(|error| format!("{error}, or unlimited")),
    }
}

fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "kib" => 1 << 10,
        "m" | "mb" => 1_000_000,
        "mib" => 1 << 20,
        "gb" | "g" => 1_000_000_000,
        "gib" => 1 << 30,
        "tb" | "t" => 1_000_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// A similarity: a number from 0 to 1.
pub fn similarity(text: &str) -> Result<f64, String> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match text.parse() {
        Ok(dice) if is_plain && (0.0..=1.0).contains(&dice) => Ok(dice),
        _ => Err(invalid(text, "a number from 0 to 1, like 0.9")),
    }
}

/// A date, or a date with a time, in UTC: its digits, from the year up to the second.
pub fn timestamp(text: &str) -> Result<String, String> {
    let is_known = |byte: u8| byte.is_ascii_digit() || b"-:TZ ".contains(&byte);
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    match text.bytes().all(is_known) && (4..=14).contains(&digits.len()) && digits.len().is_multiple_of(2) {
        true => Ok(digits),
        false => Err(invalid(text, "a date in UTC, like 2026-11-05, 2026-11-05T06:07:08Z or 20261105060708")),
    }
}

/// A regular expression. The error is one line.
pub fn pattern(text: &str) -> Result<String, String> {
    match Scope::anywhere().with_filters(&[text.to_owned()], &[]) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => {
            let lines = error.to_string();
            let reason = lines.lines().last().unwrap_or_default().trim_start_matches("error: ");
            Err(format!("must be a regular expression: {reason}"))
        }
    }
}

/// The name of a crawl in Redis.
pub fn crawl_name(text: &str) -> Result<String, String> {
    match is_name(text) {
        true => Ok(text.to_owned()),
        false => {
            Err("cannot be the name of a crawl; use 1 to 64 letters, digits, dots, dashes and underscores"
                .into())
        }
    }
}

/// A pattern for the names of query parameters.
pub fn query_parameter(text: &str) -> Result<String, String> {
    match StripQuery::new(&[text]) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("must be the name of a query parameter, like sid or utm_*, or 'tracking'".into()),
    }
}

/// A media type, or all of a kind: `image/png`, `image/*`.
pub fn media_type(text: &str) -> Result<String, String> {
    match AcceptedTypes::new(&[text]) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("must be a media type, like application/pdf or image/*".into()),
    }
}

/// A module: its name, and its arguments if it has any. `/dev/stdout` means `-`, so that what is redirected to a file is not
/// overwritten from its start.
pub fn module(text: &str) -> Result<String, String> {
    let (name, arguments) = text.split_once('=').unwrap_or((text, ""));
    let spec = match arguments.strip_prefix("/dev/stdout") {
        Some(rest) if name != "exec" && (rest.is_empty() || rest.starts_with(',')) => {
            format!("{name}=-{rest}")
        }
        _ => text.to_owned(),
    };
    registry::parse(&spec).map(|_| spec)
}

/// `HOST=ADDR`; the host can be `*.name` or `*`. The host is normalized as in URLs, because it is compared with theirs.
pub fn resolve(text: &str) -> Result<(String, IpAddr), String> {
    let error = || "must be HOST=ADDRESS, like example.org=127.0.0.1 or *.example.org=::1".to_owned();
    let (host, address) = text.split_once('=').ok_or_else(error)?;
    let address = address.trim_start_matches('[').trim_end_matches(']');
    let address: IpAddr = address.parse().map_err(|_| error())?;
    if host == "*" {
        return Ok((host.into(), address));
    }
    let (wildcard, name) = host.strip_prefix("*.").map_or(("", host), |name| ("*.", name));
    match Host::parse(name.trim_end_matches('.')) {
        Ok(Host::Domain(name)) if !name.contains('*') => Ok((format!("{wildcard}{name}"), address)),
        Ok(literal @ (Host::Ipv4(_) | Host::Ipv6(_))) if wildcard.is_empty() => {
            Ok((literal.to_string(), address))
        }
        _ => Err(error()),
    }
}

/// What to give instead of an invalid seed.
const SEED_EXAMPLE: &str = "give an absolute http or https URL, like https://example.org/";

/// Why a text is not a seed.
#[derive(Debug, PartialEq, Eq)]
pub enum SeedError {
    /// It is not a URL at all. This message is complete.
    NotAUrl(String),
    /// It is a URL that cannot be a seed, for this reason. The URL is not repeated, because it may contain a password.
    Unusable(String),
}

impl SeedError {
    /// The message for the argument called `name`.
    pub fn of(self, name: &str) -> String {
        match self {
            SeedError::NotAUrl(message) => message,
            SeedError::Unusable(reason) => format!("{name} is invalid: {reason}"),
        }
    }
}

/// The URL that a host name without a scheme stands for as a seed: `https://example.org/a` for `example.org/a`. `None` if the text
/// has a scheme, or can be no host.
pub fn completed_seed(text: &str) -> Option<Url> {
    suggested_url(text).filter(|url| seed(url.as_str()).is_ok())
}

/// The seed that a text stands for: completed if it is a host name without a scheme, otherwise as it is.
pub fn seed_text(text: &str) -> String {
    completed_seed(text).map_or_else(|| text.to_owned(), Into::into)
}

/// The URL of a sitemap.
pub fn sitemap(text: &str) -> Result<String, String> {
    match seed(text) {
        Ok(url) if url.username().is_empty() && url.password().is_none() => Ok(url.into()),
        Ok(_) => Err("must not contain a user name or password; put them into the seed".into()),
        Err(error) => Err(error.of("it")),
    }
}

/// A seed: an absolute http or https URL, normalized. It may contain credentials.
pub fn seed(text: &str) -> Result<Url, SeedError> {
    if suggested_url(text).is_some() {
        return Err(SeedError::NotAUrl(not_a_url(text)));
    }
    let mut url = match Url::parse(text) {
        Ok(url) => url,
        // These have a scheme, and are URLs except for this error.
        Err(error) if text.contains("://") => {
            return Err(SeedError::Unusable(format!("{error}; {SEED_EXAMPLE}")));
        }
        Err(_) => return Err(SeedError::NotAUrl(not_a_url(text))),
    };
    if !matches!(url.scheme(), "http" | "https") {
        return Err(SeedError::Unusable(format!("its scheme is '{}'; {SEED_EXAMPLE}", url.scheme())));
    }
    html::normal_form::normalize(&mut url)
        .map_err(|bad| SeedError::Unusable(format!("it is {bad}; {SEED_EXAMPLE}")))?;
    match url.as_str().len() {
        length if length > html::MAX_URL_BYTES => Err(SeedError::Unusable(format!(
            "it has {length} bytes, more than {}; give a shorter URL",
            html::MAX_URL_BYTES
        ))),
        _ => Ok(url),
    }
}

/// An absolute URL.
pub fn url(text: &str) -> Result<Url, String> {
    match (suggested_url(text), Url::parse(text)) {
        (None, Ok(url)) => Ok(url),
        _ => Err(not_a_url(text)),
    }
}

/// The error for a text that is not a URL. A text that may contain a password is not repeated.
fn not_a_url(text: &str) -> String {
    match suggested_url(text) {
        Some(url) => format!("not a URL: '{text}'; did you mean {url}?"),
        None if text.contains('@') => format!("not a URL; {SEED_EXAMPLE}"),
        None => format!("not a URL: '{text}'; {SEED_EXAMPLE}"),
    }
}

/// The URL that a host without a scheme stands for: `https://example.org/a` for `example.org/a`.
fn suggested_url(text: &str) -> Option<Url> {
    let text = text.strip_prefix("//").unwrap_or(text);
    let authority = text.split(['/', '?', '#']).next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let is_port = port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_port || text.contains(['@', ' ']) || text.contains("://") {
        return None;
    }
    let (is_host, is_local) = match Host::parse(host).ok()? {
        Host::Domain(name) => (name.contains('.') || name == "localhost", name == "localhost"),
        Host::Ipv4(_) | Host::Ipv6(_) => (host.contains(['.', ':']), true),
    };
    // Test servers, and servers on ports of their own, rarely have a certificate.
    let scheme = if is_local || port.is_some() { "http" } else { "https" };
    Url::parse(&format!("{scheme}://{text}")).ok().filter(|_| is_host)
}

/// A URL prefix for internal URLs.
pub fn prefix(text: &str) -> Result<Url, String> {
    html::normalize(text).map_err(|bad| match bad {
        BadLink::Credentials => "must not contain a user name or password; put them into the seed".into(),
        bad => format!("{bad}; give an absolute http or https URL, like http://example.org/docs/"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_digits_only() {
        assert_eq!(depth("0"), Ok(0));
        assert_eq!(depth("12"), Ok(12));
        for bad in ["", "-1", "+1", "1x", "1.5", " 1", "0x10", "4294967296", "99999999999999999999999", "१"]
        {
            assert!(depth(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("1m"), Ok(Duration::from_secs(60)));
        for bad in
            ["", "s", "-1s", "1 s", "1d", "1e3", "nan", "inf", ".", "1.2.3", "25h", "999999999999999999999h"]
        {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
        assert!(timeout("0").is_err() && timeout("0ms").is_err());
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("500000"), Ok(500_000));
        assert_eq!(size("500KB"), Ok(500_000));
        assert_eq!(size("2MiB"), Ok(2 << 20));
        for bad in ["", "0", "KB", "-1", "1.5MB", "2GB", "99999999999999999999", "18446744073709551615MB"] {
            assert!(size(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn long_times_and_large_sizes_have_their_own_ranges() {
        assert_eq!(long_time("8760h"), Ok(MAX_LONG_TIME));
        assert_eq!(long_time("1ms"), Ok(Duration::from_millis(1)));
        assert!(["0", "0h", "8761h", "", "-1s", "1d"].iter().all(|bad| long_time(bad).is_err()));
        assert_eq!((ttl("unlimited"), ttl("90s")), (Ok(UNLIMITED_TTL), Ok(Duration::from_secs(90))));
        assert!(ttl("0").unwrap_err().ends_with("at most 8760h, or unlimited"));
        assert_eq!(large_size("2GiB"), Ok(2 << 30));
        assert_eq!(large_size("1000TB"), Ok(1_000_000_000_000_000));
        assert!(["0", "1001TB", "", "1.5GB", "20000000TB"].iter().all(|bad| large_size(bad).is_err()));
    }

    #[test]
    fn similarity_is_a_number_from_0_to_1() {
        assert_eq!((similarity("0"), similarity(".85"), similarity("1")), (Ok(0.0), Ok(0.85), Ok(1.0)));
        for bad in ["", ".", "-0.1", "-0", "1.1", "90%", "nan", "inf", "1e-3", "+1", "0,9"] {
            assert!(similarity(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn invalid_pattern_is_explained_in_one_line() {
        assert!(pattern(r"\.pdf$").is_ok());
        assert_eq!(pattern("a(").unwrap_err(), "must be a regular expression: unclosed group");
        for bad in ["*", "[z-a]", "(?P<a", r"\p{Nothing}", "a{1000000}{1000000}", "(\n", "\n*(\n"] {
            assert_eq!(pattern(bad).unwrap_err().lines().count(), 1, "{bad:?}");
        }
    }

    #[test]
    fn module_writes_to_standard_output_by_its_path() {
        for (given, spec) in [
            ("jsonl=/dev/stdout", "jsonl=-"),
            ("jsonl=/dev/stdout,fields=url", "jsonl=-,fields=url"),
            ("exec=/dev/stdout", "exec=/dev/stdout"),
            ("exec=dd of=/dev/stdout", "exec=dd of=/dev/stdout"),
            ("extract=x=/dev/stdout,title=h1", "extract=x=/dev/stdout,title=h1"),
        ] {
            assert_eq!(module(given).as_deref(), Ok(spec));
        }
    }

    #[test]
    fn resolve_takes_a_host_and_an_address() {
        assert_eq!(resolve("a.test=127.0.0.1").unwrap().0, "a.test");
        assert_eq!(resolve("*.test=[::1]").unwrap().1, IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]));
        assert!(resolve("*=127.0.0.1").is_ok());
        for bad in [
            "",
            "a",
            "a=",
            "=127.0.0.1",
            ".=127.0.0.1",
            "*.=127.0.0.1",
            "a=b",
            "a*b=127.0.0.1",
            "*.*=127.0.0.1",
            "*.10.0.0.1=127.0.0.1",
            "http://a=127.0.0.1",
            "a:80=127.0.0.1",
            "me@a=127.0.0.1",
            "a b=127.0.0.1",
        ] {
            assert!(resolve(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn host_of_resolve_is_normalized_as_in_urls() {
        for (host, normalized) in [
            ("B\u{fc}cher.Example", "xn--bcher-kva.example"),
            ("*.B\u{fc}cher.example.", "*.xn--bcher-kva.example"),
            ("A.test.", "a.test"),
            ("10.1", "10.0.0.1"),
            ("[0::1]", "[::1]"),
        ] {
            assert_eq!(resolve(&format!("{host}=127.0.0.1")).unwrap().0, normalized);
        }
    }

    #[test]
    fn seed_is_normalized_and_its_password_never_repeated() {
        assert_eq!(seed("HTTP://Example.ORG:80/a/../b#c").unwrap().as_str(), "http://example.org/b");
        for bad in [
            "",
            "example.org",
            "/path",
            "ftp://me:secret@host/",
            "http://",
            "http://me:secret@:x/",
            "mailto:a@b",
            "me:secret@example.org",
            "me@secret",
        ] {
            let message = seed(bad).unwrap_err().of("seed");
            assert!(!message.contains("secret"), "{message}");
        }
    }

    #[test]
    fn host_without_a_scheme_is_completed() {
        for (text, url) in [
            ("example.org", "https://example.org/"),
            ("example.org/a?b", "https://example.org/a?b"),
            ("//example.org/", "https://example.org/"),
            ("example.org:8080/x", "http://example.org:8080/x"),
            ("localhost", "http://localhost/"),
            ("localhost:8000", "http://localhost:8000/"),
            ("127.0.0.1", "http://127.0.0.1/"),
            ("[::1]:80", "http://[::1]/"),
        ] {
            let expected = format!("not a URL: '{text}'; did you mean {url}?");
            assert_eq!(seed(text), Err(SeedError::NotAUrl(expected)));
        }
        for text in ["", "a", "/a.html", "http//example.org", "example.org:x", "a b.org", "12"] {
            let message = seed(text).unwrap_err().of("seed");
            assert!(message.contains(SEED_EXAMPLE), "{text:?}: {message}");
        }
    }

    #[test]
    fn negative_values_are_named_as_such() {
        let messages = [
            depth("-1").unwrap_err(),
            concurrency("-1").unwrap_err(),
            duration("-1s").unwrap_err(),
            long_time("-.5h").unwrap_err(),
            size("-5KB").unwrap_err(),
            large_size("-1").unwrap_err(),
            similarity("-0.1").unwrap_err(),
        ];
        assert!(
            messages.iter().all(|message| message.starts_with("must not be negative; give a ")),
            "{messages:?}"
        );
        assert!(!is_negative("-v") && !is_negative("-") && !is_negative("1"));
    }
}
