//! Tests of robots.txt parsing and matching.

use std::time::Duration;

use proptest::prelude::*;
use url::Url;

use super::{
    MAX_CRAWL_DELAY, MAX_LINE_BYTES, MAX_SITEMAP_BYTES, MAX_SITEMAPS, Rules, decoded, product_token,
};
use crate::cpu_time::cpu_time;

const FULL_SIZE: usize = 500 * 1024;

fn rules(text: impl AsRef<[u8]>) -> Rules {
    Rules::parse(text.as_ref(), "crawler")
}

fn allows(text: impl AsRef<[u8]>, path: &str) -> bool {
    rules(text).allows(&url(path))
}

fn url(path: &str) -> Url {
    Url::parse(&format!("https://example.com{path}")).expect("a valid URL")
}

/// Whether a pattern matches a path, using a file with this pattern as its only Disallow rule.
fn matches(pattern: &str, path: &str) -> bool {
    !allows(format!("User-agent: *\nDisallow: {pattern}"), path)
}

#[test]
fn bytes_reports_the_memory_of_the_rules() {
    assert!(Rules::allow_all().bytes() < 200);
    let patterns: String = (0..10_000).map(|n| format!("Disallow: /{n}*{n}\n")).collect();
    let text = format!("User-agent: *\n{patterns}");
    let read = rules(&text);
    assert!((text.len()..10 * text.len()).contains(&read.bytes()), "{} of {}", read.bytes(), text.len());
    let with_sitemap = rules(format!("{text}Sitemap: {}", "s".repeat(2_000)));
    assert!(with_sitemap.bytes() > read.bytes() + 2_000);
}

#[test]
fn file_without_rules_allows_everything() {
    for text in ["", "\n\n", "# nothing\n", "User-agent: *\n", "User-agent: *\nDisallow:\n"] {
        assert!(allows(text, "/a?b"), "{text:?}");
    }
    assert!(Rules::allow_all().allows(&url("/a")));
    assert_eq!(Rules::allow_all().crawl_delay(), None);
    assert!(Rules::allow_all().sitemaps().is_empty());
}

#[test]
fn robots_txt_itself_is_always_allowed() {
    let text = "User-agent: *\nDisallow: /";
    assert!(allows(text, "/robots.txt"));
    assert!(allows(text, "/robots.txt#part"));
    assert!(!allows(text, "/robots.txt2"));
    assert!(!allows(text, "/a/robots.txt"));
}

#[test]
fn longest_rule_wins_in_any_order() {
    let rules = ["Disallow: /example/page/", "Allow: /example/page/allowed.gif", "Disallow: /e"];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let text = format!("User-agent: *\n{}", order.map(|index| rules[index]).join("\n"));
        assert!(allows(&text, "/example/page/allowed.gif"));
        assert!(!allows(&text, "/example/page/disallowed.gif"));
        assert!(!allows(&text, "/else"));
        assert!(allows(&text, "/other"));
    }
}

#[test]
fn allow_wins_over_a_disallow_of_the_same_length() {
    assert!(allows("User-agent: *\nAllow: /page\nDisallow: /page", "/page"));
    assert!(allows("User-agent: *\nDisallow: /page\nAllow: /page", "/page"));
    assert!(allows("User-agent: *\nDisallow: /*age\nAllow: /page", "/page"));
    assert!(allows("User-agent: *\nAllow: /*age\nDisallow: /page", "/page"));
}

#[test]
fn length_of_a_rule_includes_its_wildcards() {
    assert!(allows("User-agent: *\nDisallow: /page\nAllow: /*e.htm", "/page.html"));
    assert!(!allows("User-agent: *\nDisallow: /page.h\nAllow: /*.htm", "/page.html"));
    assert!(!allows("User-agent: *\nAllow: /page\nDisallow: /p***e", "/page"));
    assert!(allows("User-agent: *\nAllow: /$\nDisallow: /", "/"));
    assert!(!allows("User-agent: *\nAllow: /$\nDisallow: /", "/page"));
}

#[test]
fn longer_rule_with_a_shorter_head_wins() {
    let text = "User-agent: *\nAllow: /a/b/\nDisallow: /*/secret/\nDisallow: /a/c\nAllow: /a/b/x";
    assert!(!allows(text, "/a/b/secret/"));
    assert!(allows(text, "/a/b/d"));
    assert!(allows(text, "/a/b/x"));
    assert!(!allows(text, "/a/b/x/secret/"));
    assert!(allows(text, "/a/ba"));
}

#[test]
fn rule_matches_by_prefix() {
    assert!(matches("/fish", "/fish"));
    assert!(matches("/fish", "/fish.html"));
    assert!(matches("/fish", "/fish/salmon?x"));
    assert!(!matches("/fish", "/Fish"));
    assert!(!matches("/fish", "/a/fish"));
    assert!(!matches("/fish/", "/fish"));
    assert!(!matches("fish", "/fish"));
    assert!(matches("/fish?", "/fish?id=1"));
    assert!(!matches("/fish?", "/fish"));
}

#[test]
fn star_matches_any_characters_or_none() {
    assert!(matches("*", "/"));
    assert!(matches("/*.php", "/a/b.php?x"));
    assert!(!matches("/*.php", "/windows.PHP"));
    assert!(matches("/fish*.php", "/fish.php"));
    assert!(matches("/fish*", "/fish"));
    assert!(matches("*/this*is", "/a/this/that/is"));
    assert!(!matches("/*ab*ab", "/xaby"));
    assert!(matches("/*ab", "/aab"));
    assert!(matches("/**a**b**", "/ab"));
}

#[test]
fn final_dollar_matches_the_end_of_the_path() {
    assert!(matches("/this/path/exactly$", "/this/path/exactly"));
    assert!(!matches("/this/path/exactly$", "/this/path/exactly/not"));
    assert!(matches("/*.php$", "/a.php.php"));
    assert!(!matches("/*.php$", "/a.php?x"));
    assert!(matches("/*$", "/a"));
    assert!(!matches("/*aba*ab$", "/abab"));
    assert!(!matches("$", "/"));
}

#[test]
fn dollar_elsewhere_is_a_literal() {
    assert!(matches("/a$b", "/a$b"));
    assert!(!matches("/a$b", "/a"));
    assert!(matches("/a$$", "/a$"));
    assert!(!matches("/a$$", "/a$b"));
    assert!(matches("/a$*", "/a$b"));
}

#[test]
fn percent_encoded_star_or_dollar_is_a_literal() {
    assert!(matches("/path/file-with-a-%2A.html", "/path/file-with-a-*.html"));
    assert!(matches("/path/file-with-a-%2a.html", "/path/file-with-a-%2A.html"));
    assert!(!matches("/path/file-with-a-%2A.html", "/path/file-with-a-b.html"));
    assert!(matches("/path/foo-%24", "/path/foo-$"));
    assert!(matches("/path/foo-%24", "/path/foo-$bar"));
    assert!(!matches("/path/foo-%24", "/path/foo-"));
}

/// The table in RFC 9309. Its row that encodes `://` in a query cannot mean that `%2F` equals `/`, so a URL and a rule
/// with reserved characters match if both are encoded in the same way.
#[test]
fn paths_are_normalized_before_comparison() {
    assert!(matches("/foo/bar?baz=quz", "/foo/bar?baz=quz"));
    assert!(matches("/foo/bar?baz=https%3A%2F%2Ffoo.bar", "/foo/bar?baz=https%3a%2f%2ffoo.bar"));
    assert!(matches("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https://foo.bar"));
    assert!(!matches("/foo/bar?baz=https%3A%2F%2Ffoo.bar", "/foo/bar?baz=https://foo.bar"));
    assert!(matches("/foo/bar/ツ", "/foo/bar/%E3%83%84"));
    assert!(matches("/foo/bar/%e3%83%84", "/foo/bar/ツ"));
    assert!(matches("/foo/bar/%62%61%7A", "/foo/bar/baz"));
    assert!(matches("/foo/bar/baz", "/foo/bar/%62%61%7A"));
}

#[test]
fn percent_encoded_reserved_character_differs_from_the_literal() {
    assert!(!matches("/a%2Fb", "/a/b"));
    assert!(!matches("/a/b", "/a%2Fb"));
    assert!(matches("/a%2fb", "/a%2Fb"));
    assert!(!matches("/a%3Fb", "/a?b"));
    assert!(!matches("/a%2541", "/aA"));
}

#[test]
fn unencoded_rule_matches_the_encoded_url() {
    assert!(matches("/a b", "/a b"));
    assert!(matches("/a b", "/a%20b"));
    assert!(matches("/{a}|\"b\"", "/%7Ba%7D%7C%22b%22"));
    assert!(matches("/?q=it's {", "/?q=it's {"));
    assert!(matches("/it's", "/it's"));
    assert!(matches("/~a", "/%7ea"));
}

#[test]
fn percent_sign_without_digits_is_a_literal() {
    assert!(matches("/100%", "/100%"));
    assert!(matches("/100%", "/100%25"));
    assert!(matches("/*%", "/a%20b"));
    assert!(matches("/%zz", "/%zz"));
    assert!(!matches("/%zz", "/%ZZ"));
}

#[test]
fn rule_lengths_are_compared_after_normalization() {
    assert!(allows("User-agent: *\nDisallow: /%62%61%7A\nAllow: /baz", "/baz"));
    assert!(!allows("User-agent: *\nAllow: /%62%61%7A\nDisallow: /ba*z", "/baz"));
    assert!(allows("User-agent: *\nDisallow: /*/////\nAllow: /ツ", "/ツ//////"));
}

/// Google's parser takes `Allow: /a/index.html` to allow `/a/` too. RFC 9309 does not.
#[test]
fn allowed_index_page_does_not_allow_its_directory() {
    let text = "User-agent: *\nDisallow: /\nAllow: /a/index.html";
    assert!(allows(text, "/a/index.html"));
    assert!(!allows(text, "/a/"));
}

#[test]
fn group_for_our_agent_replaces_the_wildcard_group() {
    let text = "User-agent: *\nDisallow: /\n\nUser-agent: Crawler\nDisallow: /x";
    assert!(allows(text, "/a"));
    assert!(!allows(text, "/x"));
    assert!(allows("User-agent: *\nDisallow: /\nUser-agent: other\nDisallow: /a\nUser-agent: crawler", "/"));
    assert!(!allows("User-agent: other\nDisallow: /a\nUser-agent: *\nDisallow: /", "/"));
}

#[test]
fn user_agent_is_matched_without_case_and_version() {
    for agent in ["crawler", "CRAWLER", "Crawler/1.0", "crawler (+https://a/)", "crawler/*"] {
        assert!(!allows(format!("User-agent: {agent}\nDisallow: /"), "/"), "{agent}");
    }
    for agent in [
        "crawlers",
        "crawler4j",
        "crawler2/1.0",
        "crawler.net",
        "crawlerö",
        "my-crawler",
        "crawler-x",
        "craw",
        "",
        "*crawler",
        "**",
        "mycrawler crawler",
    ] {
        assert!(allows(format!("User-agent: {agent}\nDisallow: /"), "/"), "{agent}");
    }
    assert!(!allows("User-agent: * all\nDisallow: /", "/"));
    assert!(!Rules::parse(b"User-agent: crawler\nDisallow: /", "CRAWLER/2.0").allows(&url("/")));
    assert!(Rules::parse(b"User-agent:\nDisallow: /", "").allows(&url("/")));
}

#[test]
fn groups_for_the_same_agent_are_merged() {
    let groups = [
        "User-agent: crawler\nDisallow: /a",
        "User-agent: b\nDisallow: /b",
        "User-agent: CRAWLER\nDisallow: /c",
    ];
    let text = &groups.join("\n\n");
    assert!(!allows(text, "/a"));
    assert!(allows(text, "/b"));
    assert!(!allows(text, "/c"));
}

#[test]
fn consecutive_user_agent_lines_share_their_rules() {
    for agents in ["User-agent: a\nUser-agent: crawler\n", "User-agent: crawler\n\n#\nUser-agent: *\n"] {
        let text = format!("{agents}Disallow: /a\nUser-agent: *\nDisallow: /b");
        assert!(!allows(&text, "/a"));
        assert!(allows(&text, "/b"));
    }
}

/// Google's parser does the same. The port that `tests/robotstxt.rs` compares with still ends the group here.
#[test]
fn unknown_lines_do_not_end_a_group() {
    for other in ["Sitemap: https://a/", "Crawl-delay: 1", "Host: a", "Disallow", "nonsense"] {
        assert!(!allows(format!("User-agent: crawler\n{other}\nUser-agent: b\nDisallow: /"), "/"), "{other}");
        assert!(!allows(format!("User-agent: crawler\n{other}\nDisallow: /"), "/"), "{other}");
    }
}

#[test]
fn empty_rule_ends_the_list_of_agents() {
    assert!(allows("User-agent: crawler\nDisallow:\nUser-agent: b\nDisallow: /", "/"));
}

#[test]
fn rules_before_the_first_user_agent_are_ignored() {
    assert!(allows("Disallow: /\nUser-agent: *\nDisallow: /a", "/"));
}

#[test]
fn every_line_ending_is_accepted() {
    for end in ["\n", "\r", "\r\n", "\n\r", "\n\n"] {
        let text = ["User-agent: *", "Disallow: /a", "Allow: /a/b", ""].join(end);
        assert!(!allows(&text, "/a"), "{end:?}");
        assert!(allows(&text, "/a/b"), "{end:?}");
    }
}

#[test]
fn white_space_comments_and_byte_order_mark_are_ignored() {
    assert!(!allows("\u{feff}User-agent: *\nDisallow: /", "/"));
    assert!(!allows(" \tuser-AGENT\t :\x0b* # all\n\tDISALLOW  :  /a\t #b\r\n", "/a"));
    assert!(!allows("User-agent:*#\nDisallow:/#a", "/"));
    assert!(allows("User-agent: *\n#Disallow: /", "/"));
}

#[test]
fn white_space_may_replace_the_colon() {
    assert!(!allows("user-agent crawler\n  disallow\t/a", "/a"));
    assert!(allows("user-agent crawler please\ndisallow /a", "/a"));
}

#[test]
fn common_misspellings_are_accepted() {
    for key in ["Disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw", "Disallowed"] {
        assert!(!allows(format!("User-agent: *\n{key}: /"), "/"), "{key}");
    }
    for key in ["User-agent", "useragent", "USER AGENT", "User-agents"] {
        assert!(!allows(format!("{key}: *\nDisallow: /"), "/"), "{key}");
    }
    assert!(allows("User-agent: *\nNo-Disallow: /", "/"));
}

#[test]
fn invalid_lines_are_ignored() {
    let mut text = b"\0\xff\xfe\n:\n: /\n\0:\0\nUser-agent: *\n\x80\x81: \xff\n".to_vec();
    text.extend(b"Disallow: /a\xff\0b\nDisallow: /c\n\0");
    assert!(!allows(&text, "/c"));
    assert!(!allows(&text, "/a%FF%00b"));
    assert!(allows(&text, "/a"));
}

#[test]
fn lines_are_truncated_at_the_limit() {
    let long = "a".repeat(2 * MAX_LINE_BYTES);
    let text = format!("User-agent: *\nDisallow: /{long}\nDisallow: /b\n{long}User-agent: crawler");
    assert!(!allows(&text, &format!("/{}", &long[..MAX_LINE_BYTES])));
    assert!(!allows(&text, "/b"));
    assert!(allows(&text, "/a"));
}

#[test]
fn crawl_delay_is_taken_from_our_group() {
    let text =
        "User-agent: *\nCrawl-delay: 9\nDisallow: /x\nUser-agent: crawler\nCrawl-Delay: 1.5 # s\nDisallow: /";
    assert_eq!(rules(text).crawl_delay(), Some(Duration::from_millis(1500)));
    assert_eq!(Rules::parse(text.as_bytes(), "b").crawl_delay(), Some(Duration::from_secs(9)));
    assert_eq!(rules("Crawl-delay: 3").crawl_delay(), None);
    assert_eq!(rules("User-agent: b\nCrawl-delay: 3").crawl_delay(), None);
    let without = "User-agent: *\nCrawl-delay: 9\nDisallow:\nUser-agent: crawler\nDisallow:";
    assert_eq!(rules(without).crawl_delay(), None);
}

#[test]
fn longest_crawl_delay_wins() {
    let text = "User-agent: *\nCrawl-delay: 2\nCrawl-delay: 3\nCrawl-delay: x\nCrawl-delay: 1";
    assert_eq!(rules(text).crawl_delay(), Some(Duration::from_secs(3)));
}

#[test]
fn invalid_crawl_delay_is_ignored_and_a_huge_one_is_a_day() {
    let delay = |value: &str| rules(format!("User-agent: *\nCrawl-delay: {value}")).crawl_delay();
    for value in
        ["", "-1", "-1e300", "nan", "-nan", "inf", "-inf", "1e999", "1s", "1,5", "0x10", "1 2", "ten"]
    {
        assert_eq!(delay(value), None, "{value}");
    }
    for value in ["86400", "86401", "1e300", "99999999999999999999999999999999999", &"9".repeat(300)] {
        assert_eq!(delay(value), Some(MAX_CRAWL_DELAY), "{value}");
    }
    assert_eq!(delay("0"), Some(Duration::ZERO));
    assert_eq!(delay(".5"), Some(Duration::from_millis(500)));
}

#[test]
fn sitemaps_belong_to_no_group_and_are_limited() {
    let text = "Sitemap: https://a/1.xml\nUser-agent: b\nSITE-MAP:  /2.xml # two\nSitemap:\nDisallow: /";
    assert_eq!(rules(text).sitemaps(), ["https://a/1.xml", "/2.xml"]);
    assert!(rules(b"Sitemap: /\xff").sitemaps().is_empty());
    assert!(rules(format!("Sitemap: {}", "a".repeat(MAX_SITEMAP_BYTES))).sitemaps().is_empty());
    assert_eq!(rules("Sitemap: /a\n".repeat(2 * MAX_SITEMAPS)).sitemaps().len(), MAX_SITEMAPS);
}

/// Parses a full-size file of the lines that `line` generates and checks `path` against it. The time limit is far above
/// what a linear search takes in a debug build, and far below what an exponential one takes.
fn assert_fast(line: impl FnMut(usize) -> String, path: &str) {
    let mut text = String::from("User-agent: *\n");
    let mut lines = (0..).map(line);
    while text.len() < FULL_SIZE {
        text.extend(lines.next());
        text.push('\n');
    }
    let taken = cpu_time(|| {
        rules(&text).allows(&url(path));
    });
    assert!(taken < Duration::from_secs(5), "took {taken:?}");
}

/// The searches for literals that each of 20,000 URLs needs, at most, with a full-size file of the lines that `line` generates.
/// Whether URLs are allowed must be so for all of them.
fn most_searches(line: impl Fn(usize) -> String, allowed: bool) -> usize {
    let mut text = String::from("User-agent: *\n");
    let mut lines = (0..).map(line);
    while text.len() < FULL_SIZE {
        text.extend(lines.next());
        text.push('\n');
    }
    let rules = rules(&text);
    let searches = |number: usize| {
        let mut searches = 0;
        let path = format!("/articles/2024/{number}/aaaaaaaa-some-title.html?page={}", number % 9);
        assert_eq!(rules.patterns.decide(path.as_bytes(), &mut searches), allowed, "{path}");
        searches
    };
    (0..20_000).map(searches).max().unwrap()
}

#[test]
fn work_for_a_url_is_bounded_whatever_the_file_contains() {
    // Of the rules of a large site, few are tried, and none is ignored.
    assert!(most_searches(|n| format!("Disallow:/*{n:06}.php"), true) < 50);
    assert!(most_searches(|n| format!("Disallow:/*product-{n:05}$"), true) < 50);
    assert!(most_searches(|n| format!("Allow:/*-{n:05}\nDisallow:/*title"), false) < 50);
    let many: String = (0..20_000).map(|n| format!("Disallow:/*-{n:05}\n")).collect();
    assert!(!allows(format!("User-agent:*\n{many}"), "/a-19999/b"));
    // Hostile rules are not tried all, and their site counts as disallowed.
    let three = |n: usize| [n / 1_296, n / 36, n].map(|n| char::from_digit((n % 36) as u32, 36).unwrap());
    let bound = 1_000 + 100;
    assert!(most_searches(|n| format!("Disallow:/*{}", String::from_iter(three(n))), false) <= bound);
    assert!(most_searches(|n| format!("Disallow:/*aaaa*{}", String::from_iter(three(n))), false) <= bound);
    // The same rule is tried once, and a search that fails is the last one.
    assert!(most_searches(|_| format!("Disallow:/*{}Q", "a*".repeat(4_000)), true) <= bound);
}

#[test]
fn no_file_makes_parsing_or_matching_slow() {
    let long = "a".repeat(10_000);
    let path = format!("/{long}");
    assert_fast(|_| format!("Disallow: /{}b", "*a".repeat(8_000)), &path);
    assert_fast(|_| format!("Disallow: /{}b", "a*".repeat(8_000)), &path);
    assert_fast(|_| format!("Disallow: {}", "*".repeat(16_000)), &path);
    assert_fast(|_| format!("Disallow: /*{}b", "a".repeat(4_000)), &path);
    assert_fast(|n| format!("Disallow: /{}", &long[..n % 10_000]), &path);
    assert_fast(|n| format!("Disallow: /{}*b", &long[..n % 10_000]), &path);
    assert_fast(|n| format!("Disallow: *b{n}"), &path);
    assert_fast(|n| format!("Disallow: /*a*{n}$"), &path);
    assert_fast(|n| format!("Disallow:{n}"), &path);
    assert_fast(|_| "%".repeat(10_000), &path);
    assert_fast(|_| String::new(), &path);
    assert_fast(|_| "User-agent: a".to_owned(), &path);
}

proptest! {
    #[test]
    fn any_bytes_are_parsed(text: Vec<u8>, path in "/\\PC{0,20}") {
        rules(&text).allows(&url(&path));
    }

    #[test]
    fn any_values_are_parsed(lines: Vec<(prop::sample::Index, Vec<u8>)>, path in "/\\PC{0,20}") {
        let mut text = b"User-agent: *".to_vec();
        for (directive, value) in lines {
            text.extend(b"\n");
            text.extend(directive.get(&super::DIRECTIVE_PREFIXES).0.as_bytes());
            text.extend(b":");
            text.extend(value);
        }
        rules(&text).allows(&url(&path));
    }

    #[test]
    fn rule_equal_to_a_path_matches_it_encoded_or_not(path in "/[a-c/ %~'é\"{}|;:@?=*]{0,20}") {
        let url = url(&path);
        for spelling in [path.trim_end(), &url[url::Position::BeforePath..]] {
            // A dot segment or a backslash would change the URL; the alphabet has neither.
            let text = format!("User-agent: *\nDisallow: {spelling}");
            prop_assert!(!rules(&text).allows(&url), "{text:?} does not disallow {url}");
        }
    }

    #[test]
    fn order_and_repetition_of_rules_do_not_matter(
        lines in prop::collection::vec("(Allow|Disallow): /[ab/*$]{0,5}", 1..30)
            .prop_flat_map(|lines| (Just(lines.clone()), Just([lines.clone(), lines].concat()).prop_shuffle())),
        paths in prop::collection::vec("/[ab/$]{0,8}", 8),
    ) {
        let (lines, shuffled) = lines;
        let parse = |lines: &[String]| rules(format!("User-agent: *\n{}", lines.join("\n")));
        for path in paths {
            prop_assert_eq!(parse(&lines).allows(&url(&path)), parse(&shuffled).allows(&url(&path)));
        }
    }
}

#[test]
fn product_token_is_the_start_of_a_user_agent() {
    let token = |agent: &str| String::from_utf8(product_token(agent.as_bytes()).to_vec()).unwrap();
    assert_eq!(token("mybot/1.0 (+https://example.org/bot)"), "mybot");
    assert_eq!(token("archive.org_bot"), "archive.org_bot");
    assert_eq!(token("My Bot/2"), "My");
    assert_eq!(token("(none)"), "");
}

#[test]
fn file_in_utf16_is_decoded() {
    let text = "User-agent: *\nDisallow: /ä\n";
    let bytes =
        |order: fn(u16) -> [u8; 2], text: &str| text.encode_utf16().flat_map(order).collect::<Vec<u8>>();
    for order in [u16::to_le_bytes, u16::to_be_bytes] {
        for mark in ["", "\u{FEFF}"] {
            let file = bytes(order, &format!("{mark}{text}"));
            assert!(!allows(decoded(&file), "/ä"), "{file:?}");
            assert!(allows(decoded(&file), "/a"));
        }
    }
    for text in [text, "", "a", "\u{FEFF}a"] {
        assert_eq!(*decoded(text.as_bytes()), *text.as_bytes());
    }
}
