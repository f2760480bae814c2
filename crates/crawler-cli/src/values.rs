//! Reads the values of arguments, strictly: each error says what the value should look like.

use std::net::IpAddr;
use std::time::Duration;

use crawler::config::Resolve;
use crawler::task::Depth;
use crawler::worker::links::{self, BadLink};
use url::{Host, Url};

/// No delay or timeout is longer than a day.
const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

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
    match text.parse() {
        Ok(count @ 1..=10_000) if !text.starts_with('+') => Ok(count),
        _ => Err("must be a whole number from 1 to 10000".into()),
    }
}

/// A time: `0`, `250ms`, `2s`, `1.5s`, `1m`; a bare number counts seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wanted = || "must be a time like 0, 250ms, 2s or 1m, of a day at most".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds_per_unit = match unit {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(wanted()),
    };
    let number: f64 = number.parse().map_err(|_| wanted())?;
    match Duration::try_from_secs_f64(number * seconds_per_unit) {
        Ok(duration) if duration <= MAX_DURATION => Ok(duration),
        _ => Err(wanted()),
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
    let wanted = || "must be a size like 500000, 500KB or 2MiB, of 1 byte to 1 GB".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "kib" => 1 << 10,
        "m" | "mb" => 1_000_000,
        "mib" => 1 << 20,
        "gb" | "g" => 1_000_000_000,
        _ => return Err(wanted()),
    };
    let number: u64 = number.parse().map_err(|_| wanted())?;
    match number.checked_mul(factor) {
        Some(bytes @ 1..=1_000_000_000) => Ok(bytes as usize),
        _ => Err(wanted()),
    }
}

/// `HOST=ADDR`, the host perhaps `*.name` or `*`. It is written as it stands in normalised URLs, where it is looked for.
pub fn resolve(text: &str) -> Result<Resolve, String> {
    let wanted = || "must be HOST=ADDRESS, like example.org=127.0.0.1 or *.example.org=::1".to_owned();
    let (host, address) = text.split_once('=').ok_or_else(wanted)?;
    let address = address.trim_start_matches('[').trim_end_matches(']');
    let address: IpAddr = address.parse().map_err(|_| wanted())?;
    if host == "*" {
        return Ok(Resolve { host: host.into(), address });
    }
    let (star, name) = host.strip_prefix("*.").map_or(("", host), |name| ("*.", name));
    match Host::parse(name.strip_suffix('.').unwrap_or(name)) {
        Ok(Host::Domain(name)) if !name.contains('*') => {
            Ok(Resolve { host: format!("{star}{name}"), address })
        }
        Ok(literal @ (Host::Ipv4(_) | Host::Ipv6(_))) if star.is_empty() => {
            Ok(Resolve { host: literal.to_string(), address })
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
        length if length > links::MAX_URL_BYTES => {
            Err(format!("it has {length} bytes, more than {}; {example}", links::MAX_URL_BYTES))
        }
        _ => Ok(url),
    }
}

/// A prefix that designates what is internal.
pub fn prefix(text: &str) -> Result<Url, String> {
    links::normalise(text).map_err(|bad| match bad {
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
