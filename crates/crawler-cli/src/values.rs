//! Reads the values of arguments, strictly: each error says what the value should look like.

use std::net::IpAddr;
use std::time::Duration;

use crawler::internal::config::DnsOverride;
use crawler::internal::html::{self, BadLink};
use crawler::internal::modules::registry;
use crawler::internal::scope::Scope;
use crawler::internal::task::Depth;
use url::{Host, Url};

/// No delay or timeout is longer than a day.
const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

/// No crawl, and nothing that it remembers, lasts longer than a year.
const MAX_LONG_TIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A depth: digits only.
pub fn depth(text: &str) -> Result<Depth, String> {
    let wanted = format!("must be a whole number from 0 to {}", Depth::MAX);
    // A sign is accepted by the parser, and is no digit.
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wanted);
    }
    text.parse().map_err(|_| wanted)
}

/// A count of at least one.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    from_one_to(10_000, text)
}

/// How many URLs a queue holds.
pub fn queue_size(text: &str) -> Result<usize, String> {
    from_one_to(10_000_000, text)
}

/// A number of priority queues: there are 101 priorities, and a queue without one would be of no use.
pub fn priority_queues(text: &str) -> Result<usize, String> {
    from_one_to(101, text)
}

/// A number of workers, each of which is a thread.
pub fn workers(text: &str) -> Result<u16, String> {
    from_one_to(1_000, text).map(|count| count as u16)
}

/// A number of pages.
pub fn count(text: &str) -> Result<u64, String> {
    from_one_to(1_000_000_000_000, text).map(|count| count as u64)
}

fn from_one_to(most: usize, text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (1..=most).contains(&count) && !text.starts_with('+') => Ok(count),
        _ => Err(format!("must be a whole number from 1 to {most}")),
    }
}

/// A time: `0`, `250ms`, `2s`, `1.5s`, `1m`; a bare number counts seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    match time(text) {
        Some(duration) if duration <= MAX_DURATION => Ok(duration),
        _ => Err("must be a time like 0, 250ms, 2s or 1m, of a day at most".into()),
    }
}

/// A time that is not zero and may be long: `90s`, `30m`, `12h`.
pub fn long_time(text: &str) -> Result<Duration, String> {
    match time(text) {
        Some(duration) if !duration.is_zero() && duration <= MAX_LONG_TIME => Ok(duration),
        _ => Err("must be a time like 90s, 30m or 12h, longer than 0 and of 8760h at most".into()),
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

/// A time after which a silent process counts as dead.
pub fn dead_after(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time < Duration::from_millis(300) {
        return Err("must be 300ms at least: within it, processes tell several times that they live".into());
    }
    Ok(time)
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
        _ => Err("must be a size like 500000, 500KB or 2MiB, of 1 byte to 1 GB".into()),
    }
}

/// A size of more than one page: `50MB`, `2GB`.
pub fn large_size(text: &str) -> Result<u64, String> {
    match bytes(text) {
        Some(bytes @ 1..=1_000_000_000_000_000) => Ok(bytes),
        _ => Err("must be a size like 500KB, 50MB or 2GiB, of 1 byte to 1000 TB".into()),
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

/// How alike pages must be: a number from 0 to 1.
pub fn similarity(text: &str) -> Result<f64, String> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match text.parse() {
        Ok(dice) if is_plain && (0.0..=1.0).contains(&dice) => Ok(dice),
        _ => Err("must be a number from 0 to 1, like 0.9".into()),
    }
}

/// A regular expression. Its error is put into one line.
pub fn pattern(text: &str) -> Result<String, String> {
    match Scope::anywhere().with_filters(&[text.to_owned()], &[]) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => {
            let lines = error.to_string();
            let reason = lines.lines().last().unwrap_or_default().trim_start_matches("error: ");
            Err(format!("is no regular expression: {reason}"))
        }
    }
}

/// A module by its name and arguments.
pub fn module(text: &str) -> Result<String, String> {
    registry::parse(text).map(|_| text.to_owned())
}

/// `HOST=ADDR`, the host perhaps `*.name` or `*`. It is written as it stands in normalised URLs, where it is looked for.
pub fn resolve(text: &str) -> Result<DnsOverride, String> {
    let wanted = || "must be HOST=ADDRESS, like example.org=127.0.0.1 or *.example.org=::1".to_owned();
    let (host, address) = text.split_once('=').ok_or_else(wanted)?;
    let address = address.trim_start_matches('[').trim_end_matches(']');
    let address: IpAddr = address.parse().map_err(|_| wanted())?;
    if host == "*" {
        return Ok(DnsOverride { host: host.into(), address });
    }
    let (star, name) = host.strip_prefix("*.").map_or(("", host), |name| ("*.", name));
    match Host::parse(name.strip_suffix('.').unwrap_or(name)) {
        Ok(Host::Domain(name)) if !name.contains('*') => {
            Ok(DnsOverride { host: format!("{star}{name}"), address })
        }
        Ok(literal @ (Host::Ipv4(_) | Host::Ipv6(_))) if star.is_empty() => {
            Ok(DnsOverride { host: literal.to_string(), address })
        }
        _ => Err(wanted()),
    }
}

/// A seed: an absolute http or https URL, normalised, perhaps with credentials. Messages never repeat it, since
/// these would be in it.
pub fn seed(text: &str) -> Result<Url, String> {
    let example = "give an absolute http or https URL, like http://example.org/";
    let mut url = Url::parse(text).map_err(|error| format!("{error}; {example}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("its scheme is '{}'; {example}", url.scheme()));
    }
    url.set_fragment(None);
    match url.as_str().len() {
        length if length > html::MAX_URL_BYTES => {
            Err(format!("it has {length} bytes, more than {}; {example}", html::MAX_URL_BYTES))
        }
        _ => Ok(url),
    }
}

/// A prefix that designates what is internal.
pub fn prefix(text: &str) -> Result<Url, String> {
    html::normalize(text).map_err(|bad| match bad {
        BadLink::Credentials => "must not have a user name or password in it; put them into the seed".into(),
        bad => format!("{bad}; give an absolute http or https URL, like http://example.org/docs/"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_depth_is_digits_and_nothing_else() {
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
    fn long_times_and_large_sizes_have_a_range_of_their_own() {
        assert_eq!(long_time("8760h"), Ok(MAX_LONG_TIME));
        assert_eq!(long_time("1ms"), Ok(Duration::from_millis(1)));
        assert!(["0", "0h", "8761h", "", "-1s", "1d"].iter().all(|bad| long_time(bad).is_err()));
        assert_eq!(large_size("2GiB"), Ok(2 << 30));
        assert_eq!(large_size("1000TB"), Ok(1_000_000_000_000_000));
        assert!(["0", "1001TB", "", "1.5GB", "20000000TB"].iter().all(|bad| large_size(bad).is_err()));
    }

    #[test]
    fn a_similarity_is_a_number_from_0_to_1() {
        assert_eq!((similarity("0"), similarity(".85"), similarity("1")), (Ok(0.0), Ok(0.85), Ok(1.0)));
        for bad in ["", ".", "-0.1", "-0", "1.1", "90%", "nan", "inf", "1e-3", "+1", "0,9"] {
            assert!(similarity(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_bad_pattern_is_explained_in_one_line() {
        assert!(pattern(r"\.pdf$").is_ok());
        assert_eq!(pattern("a(").unwrap_err(), "is no regular expression: unclosed group");
        for bad in ["*", "[z-a]", "(?P<a", r"\p{Nothing}", "a{1000000}{1000000}", "(\n", "\n*(\n"] {
            assert_eq!(pattern(bad).unwrap_err().lines().count(), 1, "{bad:?}");
        }
    }

    #[test]
    fn a_resolve_names_a_host_and_an_address() {
        assert_eq!(resolve("a.test=127.0.0.1").unwrap().host, "a.test");
        assert_eq!(resolve("*.test=[::1]").unwrap().address, IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]));
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
    fn the_host_of_a_resolve_is_written_as_urls_write_it() {
        for (host, written) in [
            ("B\u{fc}cher.Example", "xn--bcher-kva.example"),
            ("*.B\u{fc}cher.example.", "*.xn--bcher-kva.example"),
            ("A.test.", "a.test"),
            ("10.1", "10.0.0.1"),
            ("[0::1]", "[::1]"),
        ] {
            assert_eq!(resolve(&format!("{host}=127.0.0.1")).unwrap().host, written);
        }
    }

    #[test]
    fn a_seed_is_normalised_and_never_repeated_in_a_message() {
        assert_eq!(seed("HTTP://Example.ORG:80/a/../b#c").unwrap().as_str(), "http://example.org/b");
        for bad in [
            "",
            "example.org",
            "/path",
            "ftp://me:secret@host/",
            "http://",
            "http://me:secret@:x/",
            "mailto:a@b",
        ] {
            let message = seed(bad).unwrap_err();
            assert!(!message.contains("secret"), "{message}");
        }
    }
}
