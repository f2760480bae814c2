//! Compares the robots.txt parser with `robotstxt`, a port of Google's parser, on generated files.
//!
//! The port has bugs and differs from RFC 9309. The generated files avoid the following cases, or the test corrects
//! them; the unit tests of the rules cover them:
//!
//! - For a pattern with `*`, it tries only the first occurrence of the byte after the star, so `/*ab` does not match
//!   `/aab`: it inserts into a list where Google's code overwrites. Files with a star are therefore parsed by the
//!   port and matched by `SimpleMatch`.
//! - It ends a group at unknown lines, which the RFC forbids and Google's parser no longer does. The port gets the
//!   file without these lines.
//! - It searches for the byte order mark in characters instead of bytes, and does not find it.
//! - It does not trim a line without a comment before it searches for white space in place of a colon.
//! - It drops `%` and the two following bytes if they are not digits and another part of the pattern needs encoding.
//! - Like Google's parser, it compares only the letters at the start of a name, so that `crawler2` is `crawler`.
//! - Like Google's parser, it does not decode bytes that need no encoding (`%61`), does not take `%2A` and `%24` in a
//!   rule as literal `*` and `$`, does not encode white space and other bytes that no URL contains, expects a
//!   normalized URL, and takes `/index.html` to mean `/`. There the crawler follows the RFC.

#[path = "robotstxt/simple_match.rs"]
mod simple_match;

use crawler::internal::fetch::robots::rules::Rules;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use robotstxt::matcher::{LongestMatchRobotsMatchStrategy, RobotsMatchStrategy, RobotsMatcher};
use simple_match::SimpleMatch;
use url::Url;

/// A generated line.
#[derive(Clone, Debug)]
struct FileLine {
    text: String,
    /// Whether RFC 9309 does not define it, so that the port must not get it.
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
    let odd = select(vec!["", "* everyone", "crawler two", "*crawler", "crawlers", "my crawler"]);
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

/// A line with white space, comment and line end. A line without a colon has no leading white space: see above.
fn line(star: bool) -> impl Strategy<Value = FileLine> {
    let blanks = || select(vec!["", "", "", " ", "\t", " \t ", "\x0b"]);
    let comment = select(vec!["", "", "", "#", "# allow: /", " #user-agent: crawler"]);
    let end = select(vec!["\n", "\n", "\n", "\r\n", "\r", "\n\n", "\r\n\r\n", "\n# comment\n", "\n \t\n"]);
    let decoration = ([blanks(), blanks(), blanks(), blanks()], prop::bool::weighted(0.9), comment, end);
    (record(star), decoration).prop_map(|((unknown, key, value), ([a, b, c, d], colon, comment, end))| {
        let text = match colon {
            true => format!("{a}{key}{b}:{c}{value}{d}{comment}{end}"),
            false => format!("{key} {value}{comment}{end}"),
        };
        // Without its colon, `user agent` is a line `user` with the value `agent`.
        FileLine { text, unknown: unknown || (!colon && key.contains(' ')) }
    })
}

fn file(star: bool) -> impl Strategy<Value = Vec<FileLine>> {
    let prose = vec!["crawler\n", "disallow\n", "this is a file\n", "<html>\r\n", ":\n", "# all\n", "\n"];
    let prose = select(prose).prop_map(|text| FileLine { text: text.to_owned(), unknown: true });
    // Most files start with a User-agent line, so that most rules belong to a group.
    let first = select(vec!["User-agent: *\n", "User-agent: crawler\n", "Disallow: /\n"]);
    let first = first.prop_map(|text| FileLine { text: text.to_owned(), unknown: false });
    let rest = vec(prop_oneof![12 => line(star), 1 => prose], 0..24);
    (first, rest).prop_map(|(first, rest)| [vec![first], rest].concat())
}

fn url() -> impl Strategy<Value = Url> {
    let mut pieces = LITERALS.to_vec();
    pieces.extend(["$", "*", ".", "a", "b", "a", "b"]);
    vec(select(pieces), 0..8).prop_map(|pieces| {
        Url::parse(&format!("https://example.com/{}", pieces.concat())).expect("a valid URL")
    })
}

fn assert_agreement<Matching: RobotsMatchStrategy + Default>(
    file: &[FileLine],
    urls: &[Url],
) -> Result<(), TestCaseError> {
    let complete: String = file.iter().map(|line| line.text.as_str()).collect();
    let without_unknown: String =
        file.iter().filter(|line| !line.unknown).map(|line| line.text.as_str()).collect();
    let rules = Rules::parse(complete.as_bytes(), "crawler");
    for url in urls {
        let mut port = RobotsMatcher::<Matching>::default();
        let expected = port.one_agent_allowed_by_robots(&without_unknown, "crawler", url.as_str());
        prop_assert_eq!(rules.allows(url), expected, "{} by {:?}", url, complete);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn files_without_stars_are_parsed_as_by_google(file in file(false), urls in vec(url(), 8)) {
        assert_agreement::<LongestMatchRobotsMatchStrategy>(&file, &urls)?;
    }

    #[test]
    fn files_with_stars_are_parsed_as_by_google(file in file(true), urls in vec(url(), 8)) {
        assert_agreement::<SimpleMatch>(&file, &urls)?;
    }
}

/// Many rules with the same head, for which the rules have an index.
fn file_of_many_rules() -> impl Strategy<Value = Vec<FileLine>> {
    let pieces = || select(vec!["abcd", "bcda", "cdab", "dabc", "ab", "c", "/", "*", "*"]);
    let rule = (select(vec!["Allow", "Disallow"]), vec(pieces(), 1..6), select(vec!["", "", "$"]));
    let line = rule.prop_map(|(directive, pieces, end)| format!("{directive}: /*{}{end}\n", pieces.concat()));
    let line = line.prop_map(|text| FileLine { text, unknown: false });
    let first = FileLine { text: "User-agent: *\n".to_owned(), unknown: false };
    vec(line, 30..90).prop_map(move |lines| [vec![first.clone()], lines].concat())
}

fn url_with_long_pieces() -> impl Strategy<Value = Url> {
    vec(select(vec!["abcd", "bcda", "cdab", "ab", "c", "d", "/"]), 0..7).prop_map(|pieces| {
        Url::parse(&format!("https://example.com/{}", pieces.concat())).expect("a valid URL")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn many_rules_with_the_same_head_are_matched_as_by_google(
        file in file_of_many_rules(),
        urls in vec(url_with_long_pieces(), 16),
    ) {
        assert_agreement::<SimpleMatch>(&file, &urls)?;
    }
}

/// If a new version of the port fails here, its bug is fixed, and `SimpleMatch` can be removed.
#[test]
fn port_misses_a_match_after_a_star() {
    let text = "User-agent: crawler\nDisallow: /*ab\n";
    let url = Url::parse("https://example.com/aab").expect("a URL");
    let mut port = robotstxt::DefaultMatcher::default();
    assert!(port.one_agent_allowed_by_robots(text, "crawler", url.as_str()));
    assert!(!Rules::parse(text.as_bytes(), "crawler").allows(&url));
}
