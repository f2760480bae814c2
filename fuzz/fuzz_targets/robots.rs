//! robots.txt files of arbitrary bytes: parsing never panics and keeps its limits, and each decision is that of the
//! strongest matching rule.
#![no_main]

use std::time::Duration;

use crawler::internal::fetch::robots::rules::Rules;
use libfuzzer_sys::fuzz_target;
use url::Url;

const PRODUCT_TOKEN: &str = "crawler";
const MAX_CRAWL_DELAY: Duration = Duration::from_secs(24 * 60 * 60);
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The length of the files that must not take long.
const LONG_FILE_BYTES: usize = 256 * 1024;

/// The strongest rule is searched among at most this many, because the search compares all pairs.
const MAX_COMPARED_RULES: usize = 8;

// The first line is the path and query of a URL, the rest is the file.
fuzz_target!(|input: &[u8]| {
    let (path, file) = match input.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&input[..end], &input[end + 1..]),
        None => (input, &b""[..]),
    };
    let path = String::from_utf8_lossy(path);
    let Ok(url) = Url::parse(&format!("https://example.org/{path}")) else { return };
    let file = file.strip_prefix(BYTE_ORDER_MARK).unwrap_or(file);
    check_file(&url, file);
    if url.path() != "/robots.txt" {
        check_escapes(&url, file);
        check_strongest_rule(&url, file);
    }
    // One input in 64, because long files are slow.
    if file.last().is_some_and(|last| last % 64 == 0) {
        check_time(&url, file);
    }
});

fn check_file(url: &Url, file: &[u8]) {
    let rules = Rules::parse(file, PRODUCT_TOKEN);
    assert!(rules.crawl_delay() <= Some(MAX_CRAWL_DELAY));
    assert!(rules.sitemaps().len() <= 1_000);
    assert!(rules.sitemaps().iter().all(|sitemap| (1..2048).contains(&sitemap.len())));
    assert!(rules.bytes() <= 1024 + 40 * file.len(), "{} bytes", rules.bytes());
    assert!(rules.allows(&Url::parse("https://example.org/robots.txt").expect("a valid URL")));

    let marked = [BYTE_ORDER_MARK, file].concat();
    let indented: Vec<u8> = file.split(|byte| *byte == b'\n').collect::<Vec<_>>().join(&b"\r\n  "[..]);
    let is_allowed = rules.allows(url);
    assert_eq!(is_allowed, parse_and_match(url, &[&marked]), "a byte order mark changes nothing");
    assert_eq!(is_allowed, parse_and_match(url, &[&indented]), "line ends and indents change nothing");
}

/// Repeats the file, each time with another end. Only if the time is linear in the size does this end before libFuzzer's
/// `-timeout`.
fn check_time(url: &Url, file: &[u8]) {
    let mut long = Vec::new();
    let mut repeats = 0;
    while long.len() < LONG_FILE_BYTES {
        long.extend_from_slice(file);
        long.extend_from_slice(repeats.to_string().as_bytes());
        repeats += 1;
    }
    parse_and_match(url, &[b"user-agent: *", &long]);
}

/// Letters of the path may be percent-encoded.
fn check_escapes(url: &Url, file: &[u8]) {
    let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let mut escaped = String::new();
    let mut rest = path.as_bytes().iter();
    while let Some(&byte) = rest.next() {
        match (byte, rest.as_slice()) {
            (b'%', [high, low, ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                escaped.extend(['%', char::from(*high), char::from(*low)]);
                rest.nth(1);
            }
            _ if byte.is_ascii_alphanumeric() => escaped.push_str(&format!("%{byte:02x}")),
            _ => escaped.push(char::from(byte)),
        }
    }
    let escaped = Url::parse(&format!("https://example.org{escaped}")).expect("escapes keep a URL valid");
    assert_eq!(parse_and_match(url, &[file]), parse_and_match(&escaped, &[file]), "{url} and {escaped}");
}

/// All lines but user-agent lines, in one group: the rule that wins against each other rule decides.
fn check_strongest_rule(url: &Url, file: &[u8]) {
    let lines = file.split(|byte| matches!(byte, b'\r' | b'\n'));
    let lines: Vec<&[u8]> = lines.filter(|line| !is_user_agent_line(line)).collect();
    let disallows = |line: &&[u8]| !parse_and_match(url, &[b"user-agent: *", line]);
    let allows = |line: &&[u8]| parse_and_match(url, &[b"user-agent: *\ndisallow: *", line]);
    let disallowing: Vec<&[u8]> = lines.iter().copied().filter(disallows).collect();
    let allowing: Vec<&[u8]> = lines.iter().copied().filter(allows).collect();
    if disallowing.len().max(allowing.len()) > MAX_COMPARED_RULES {
        return;
    }
    let wins = |allow: &&[u8]| {
        disallowing.iter().all(|disallow| parse_and_match(url, &[b"user-agent: *", disallow, allow]))
    };
    let expected = disallowing.is_empty() || allowing.iter().any(wins);
    let group = [&[&b"user-agent: *"[..]], &lines[..]].concat();
    assert_eq!(parse_and_match(url, &group), expected, "{url} by {:?}", String::from_utf8_lossy(file));
}

/// Whether a line starts a group, or adds a name to one: a delay after it belongs to another group than before.
fn is_user_agent_line(line: &[u8]) -> bool {
    let delay_after = |start: &[u8]| {
        let file = [start, line, b"crawl-delay: 86400"].join(&b'\n');
        Rules::parse(&file, PRODUCT_TOKEN).crawl_delay()
    };
    delay_after(b"").is_some() || delay_after(b"user-agent: *\nallow: /") != Some(MAX_CRAWL_DELAY)
}

fn parse_and_match(url: &Url, lines: &[&[u8]]) -> bool {
    Rules::parse(&lines.join(&b'\n'), PRODUCT_TOKEN).allows(url)
}
