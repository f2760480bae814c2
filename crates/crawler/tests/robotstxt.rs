//! Our reading of robots.txt against that of `robotstxt`, a port of Google's parser, on generated files.
//!
//! The oracle is not always right. Left out of the files it is asked about, or put right, with the promise
//! tested beside the rules themselves:
//!
//! - Its search for a pattern with `*` follows only the first place where the octet after the star is
//!   found, so `/*ab` misses `/aab`: it inserts into a list where Google's code overwrites. Files with a
//!   star are therefore read by its parser, and matched by `Plainly` below.
//! - It ends a group at records it does not know, which the RFC forbids and Google's parser has given up.
//!   It is shown the file without them.
//! - It looks for a byte order mark in characters where it should in octets, and does not find it.
//! - It does not trim a line without a comment before it looks for white space in place of a colon.
//! - It drops `%` and the two octets after it where they are no digits and something else in the pattern
//!   needs encoding.
//! - Like Google's parser, it neither decodes what need not be encoded (`%61`), nor takes `%2A` and `%24`
//!   in a rule for a literal `*` and `$`, nor encodes white space and other octets that no URL contains;
//!   it expects the URL in normal form, and lets `/index.html` stand for `/`. There we keep to the RFC.

use crawler::internal::fetch::robots::rules::Rules;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use robotstxt::matcher::{LongestMatchRobotsMatchStrategy, RobotsMatchStrategy, RobotsMatcher};
use url::Url;

/// Matches a pattern in the plainest way: all ends that the pattern read so far can have in the path.
#[derive(Default)]
struct Plainly;

impl Plainly {
    fn octets(path: &str, pattern: &str) -> i32 {
        let (literal, anchored) = match pattern.strip_suffix('$') {
            Some(literal) => (literal, true),
            None => (pattern, false),
        };
        let path = path.as_bytes();
        let mut ends = vec![false; path.len() + 1];
        ends[0] = true;
        for octet in literal.bytes() {
            if octet == b'*' {
                let first = ends.iter().position(|end| *end).unwrap_or(ends.len());
                ends[first..].fill(true);
            } else {
                for at in (0..path.len()).rev() {
                    ends[at + 1] = ends[at] && path[at] == octet;
                }
                ends[0] = false;
            }
        }
        let matches = if anchored { ends[path.len()] } else { ends.contains(&true) };
        if matches { pattern.len() as i32 } else { -1 }
    }
}

impl RobotsMatchStrategy for Plainly {
    fn match_allow(&self, path: &str, pattern: &str) -> i32 {
        Plainly::octets(path, pattern)
    }

    fn match_disallow(&self, path: &str, pattern: &str) -> i32 {
        Plainly::octets(path, pattern)
    }
}

/// A line, and whether it is none of the records that the RFC defines: the oracle must not see those.
#[derive(Clone, Debug)]
struct Line {
    text: String,
    unknown: bool,
}

fn any_case(text: impl Strategy<Value = &'static str>) -> impl Strategy<Value = String> {
    (text, any::<u32>()).prop_map(|(text, upper)| {
        let case = |(index, letter): (usize, char)| match upper >> (index % 32) & 1 {
            1 => letter.to_ascii_uppercase(),
            _ => letter,
        };
        text.chars().enumerate().map(case).collect()
    })
}

fn agent() -> impl Strategy<Value = String> {
    let frequent = select(vec!["crawler", "crawler", "*", "*", "other", "crawler-news", "crawler/2.0"]);
    let odd = select(vec!["", "* everyone", "crawler two", "*crawler", "crawlers", "crawler2", "my crawler"]);
    any_case(prop_oneof![6 => frequent, 1 => odd])
}

const LITERALS: [&str; 16] =
    ["/", "/", "a", "a", "b", "ab", "/a", "A", "?", "=", "&", "~", "é", "ツ", "%C3%A9", "%2F"];

fn pattern(star: bool) -> impl Strategy<Value = String> {
    let mut pieces = LITERALS.to_vec();
    pieces.extend(["$", "%c3%a9", "%2f", "."]);
    if star {
        pieces.extend(["*"; 6]);
    }
    let start = prop_oneof![12 => Just("/"), 1 => Just(""), 1 => Just(if star { "*" } else { "a" })];
    let end = prop_oneof![3 => Just(""), 1 => Just("$")];
    let written = (start, vec(select(pieces), 0..6), end);
    prop_oneof![
        16 => written.prop_map(|(start, middle, end)| format!("{start}{}{end}", middle.concat())),
        1 => Just(String::new()),
    ]
}

fn record(star: bool) -> impl Strategy<Value = (bool, String, String)> {
    let agents = vec!["user-agent", "user-agent", "useragent", "user agent", "user-agents"];
    let allows = vec!["allow", "allow", "allow", "allow", "allowed"];
    let disallows =
        vec!["disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw", "disallowed"];
    let others = vec!["sitemap", "site-map", "crawl-delay", "host", "noindex", "no-allow", "x"];
    prop_oneof![
        4 => (Just(false), any_case(select(agents)), agent()),
        5 => (Just(false), any_case(select(allows)), pattern(star)),
        5 => (Just(false), any_case(select(disallows)), pattern(star)),
        2 => (Just(true), any_case(select(others)), pattern(star)),
    ]
}

/// A record with its trimmings. One without a colon stands at the start of its line: see above.
fn line(star: bool) -> impl Strategy<Value = Line> {
    let blanks = || select(vec!["", "", "", " ", "\t", " \t ", "\x0b"]);
    let comment = select(vec!["", "", "", "#", "# allow: /", " #user-agent: crawler"]);
    let end = select(vec!["\n", "\n", "\n", "\r\n", "\r", "\n\n", "\r\n\r\n", "\n# comment\n", "\n \t\n"]);
    let trimmings = ([blanks(), blanks(), blanks(), blanks()], prop::bool::weighted(0.9), comment, end);
    (record(star), trimmings).prop_map(|((unknown, key, value), ([a, b, c, d], colon, comment, end))| {
        let text = match colon {
            true => format!("{a}{key}{b}:{c}{value}{d}{comment}{end}"),
            false => format!("{key} {value}{comment}{end}"),
        };
        // Without its colon, `user agent` is a record `user` that says `agent`.
        Line { text, unknown: unknown || (!colon && key.contains(' ')) }
    })
}

fn file(star: bool) -> impl Strategy<Value = Vec<Line>> {
    let prose = vec!["crawler\n", "disallow\n", "this is a file\n", "<html>\r\n", ":\n", "# all\n", "\n"];
    let prose = select(prose).prop_map(|text| Line { text: text.to_owned(), unknown: true });
    // Most files open a group at once, so that most rules are for somebody.
    let first = select(vec!["User-agent: *\n", "User-agent: crawler\n", "Disallow: /\n"]);
    let first = first.prop_map(|text| Line { text: text.to_owned(), unknown: false });
    let rest = vec(prop_oneof![12 => line(star), 1 => prose], 0..24);
    (first, rest).prop_map(|(first, rest)| [vec![first], rest].concat())
}

fn url() -> impl Strategy<Value = Url> {
    let mut pieces = LITERALS.to_vec();
    pieces.extend(["$", "*", ".", "a", "b", "a", "b"]);
    vec(select(pieces), 0..8).prop_map(|pieces| {
        Url::parse(&format!("https://example.com/{}", pieces.concat())).expect("a URL of harmless pieces")
    })
}

fn agree<Matching: RobotsMatchStrategy + Default>(file: &[Line], urls: &[Url]) -> Result<(), TestCaseError> {
    let ours: String = file.iter().map(|line| line.text.as_str()).collect();
    let theirs: String = file.iter().filter(|line| !line.unknown).map(|line| line.text.as_str()).collect();
    let rules = Rules::parse(ours.as_bytes(), "crawler");
    for url in urls {
        let mut oracle = RobotsMatcher::<Matching>::default();
        let expected = oracle.one_agent_allowed_by_robots(&theirs, "crawler", url.as_str());
        prop_assert_eq!(rules.allows(url), expected, "{} by {:?}", url, ours);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn files_without_a_star_are_read_as_google_reads_them(file in file(false), urls in vec(url(), 8)) {
        agree::<LongestMatchRobotsMatchStrategy>(&file, &urls)?;
    }

    #[test]
    fn files_with_stars_are_read_as_google_reads_them(file in file(true), urls in vec(url(), 8)) {
        agree::<Plainly>(&file, &urls)?;
    }
}

/// Should a new version of the oracle fail here, it has been put right, and `Plainly` can go.
#[test]
fn the_oracle_misses_a_match_after_a_star() {
    let text = "User-agent: crawler\nDisallow: /*ab\n";
    let url = Url::parse("https://example.com/aab").expect("a URL");
    let mut oracle = robotstxt::DefaultMatcher::default();
    assert!(oracle.one_agent_allowed_by_robots(text, "crawler", url.as_str()));
    assert!(!Rules::parse(text.as_bytes(), "crawler").allows(&url));
}
