//! What a robots.txt promises, one sentence each.

use std::time::Duration;

use proptest::prelude::*;
use url::Url;

use super::{MAX_CRAWL_DELAY, MAX_LINE_OCTETS, MAX_SITEMAP_OCTETS, MAX_SITEMAPS, Rules};
use crate::cpu_time::cpu_time;

const FULL_SIZE: usize = 500 * 1024;

fn rules(text: impl AsRef<[u8]>) -> Rules {
    Rules::parse(text.as_ref(), "crawler")
}

fn allows(text: impl AsRef<[u8]>, path: &str) -> bool {
    rules(text).allows(&url(path))
}

fn url(path: &str) -> Url {
    Url::parse(&format!("https://example.com{path}")).expect("a test's URL")
}

/// Whether a pattern matches, asked through a file that forbids it and nothing else.
fn matches(pattern: &str, path: &str) -> bool {
    !allows(format!("User-agent: *\nDisallow: {pattern}"), path)
}

#[test]
fn rules_tell_how_much_memory_they_take() {
    assert!(Rules::allow_all().bytes() < 200);
    let patterns: String = (0..10_000).map(|n| format!("Disallow: /{n}*{n}\n")).collect();
    let text = format!("User-agent: *\n{patterns}");
    let read = rules(&text);
    assert!((text.len()..10 * text.len()).contains(&read.bytes()), "{} of {}", read.bytes(), text.len());
    let with_sitemap = rules(format!("{text}Sitemap: {}", "s".repeat(2_000)));
    assert!(with_sitemap.bytes() > read.bytes() + 2_000);
}

#[test]
fn a_site_without_rules_allows_everything() {
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
fn a_longer_rule_beats_a_shorter_one_wherever_it_stands() {
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
fn allow_wins_against_a_disallow_of_the_same_length() {
    assert!(allows("User-agent: *\nAllow: /page\nDisallow: /page", "/page"));
    assert!(allows("User-agent: *\nDisallow: /page\nAllow: /page", "/page"));
    assert!(allows("User-agent: *\nDisallow: /*age\nAllow: /page", "/page"));
    assert!(allows("User-agent: *\nAllow: /*age\nDisallow: /page", "/page"));
}

#[test]
fn a_wildcard_rule_is_as_long_as_it_is_written() {
    assert!(allows("User-agent: *\nDisallow: /page\nAllow: /*e.htm", "/page.html"));
    assert!(!allows("User-agent: *\nDisallow: /page.h\nAllow: /*.htm", "/page.html"));
    assert!(!allows("User-agent: *\nAllow: /page\nDisallow: /p***e", "/page"));
    assert!(allows("User-agent: *\nAllow: /$\nDisallow: /", "/"));
    assert!(!allows("User-agent: *\nAllow: /$\nDisallow: /", "/page"));
}

#[test]
fn a_longer_head_does_not_hide_a_longer_rule_with_a_shorter_head() {
    let text = "User-agent: *\nAllow: /a/b/\nDisallow: /*/secret/\nDisallow: /a/c\nAllow: /a/b/x";
    assert!(!allows(text, "/a/b/secret/"));
    assert!(allows(text, "/a/b/d"));
    assert!(allows(text, "/a/b/x"));
    assert!(!allows(text, "/a/b/x/secret/"));
    assert!(allows(text, "/a/ba"));
}

#[test]
fn a_rule_matches_what_begins_with_it() {
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
fn a_star_matches_any_octets_and_none() {
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
fn a_dollar_at_the_end_matches_only_the_end() {
    assert!(matches("/this/path/exactly$", "/this/path/exactly"));
    assert!(!matches("/this/path/exactly$", "/this/path/exactly/not"));
    assert!(matches("/*.php$", "/a.php.php"));
    assert!(!matches("/*.php$", "/a.php?x"));
    assert!(matches("/*$", "/a"));
    assert!(!matches("/*aba*ab$", "/abab"));
    assert!(!matches("$", "/"));
}

#[test]
fn a_dollar_elsewhere_is_an_octet() {
    assert!(matches("/a$b", "/a$b"));
    assert!(!matches("/a$b", "/a"));
    assert!(matches("/a$$", "/a$"));
    assert!(!matches("/a$$", "/a$b"));
    assert!(matches("/a$*", "/a$b"));
}

#[test]
fn an_encoded_star_or_dollar_is_meant_literally() {
    assert!(matches("/path/file-with-a-%2A.html", "/path/file-with-a-*.html"));
    assert!(matches("/path/file-with-a-%2a.html", "/path/file-with-a-%2A.html"));
    assert!(!matches("/path/file-with-a-%2A.html", "/path/file-with-a-b.html"));
    assert!(matches("/path/foo-%24", "/path/foo-$"));
    assert!(matches("/path/foo-%24", "/path/foo-$bar"));
    assert!(!matches("/path/foo-%24", "/path/foo-"));
}

/// The RFC's table. Its row that would encode `://` in a query cannot mean that `%2F` is `/`, so a URL and
/// a rule agree on reserved octets when both are written in the same way.
#[test]
fn paths_are_compared_in_normal_form() {
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
fn an_encoded_reserved_octet_is_another_octet() {
    assert!(!matches("/a%2Fb", "/a/b"));
    assert!(!matches("/a/b", "/a%2Fb"));
    assert!(matches("/a%2fb", "/a%2Fb"));
    assert!(!matches("/a%3Fb", "/a?b"));
    assert!(!matches("/a%2541", "/aA"));
}

#[test]
fn what_a_url_must_encode_is_found_by_a_rule_that_does_not() {
    assert!(matches("/a b", "/a b"));
    assert!(matches("/a b", "/a%20b"));
    assert!(matches("/{a}|\"b\"", "/%7Ba%7D%7C%22b%22"));
    assert!(matches("/?q=it's {", "/?q=it's {"));
    assert!(matches("/it's", "/it's"));
    assert!(matches("/~a", "/%7ea"));
}

#[test]
fn a_percent_sign_alone_is_an_octet() {
    assert!(matches("/100%", "/100%"));
    assert!(matches("/100%", "/100%25"));
    assert!(matches("/*%", "/a%20b"));
    assert!(matches("/%zz", "/%zz"));
    assert!(!matches("/%zz", "/%ZZ"));
}

/// The lengths that decide are those of the normal form, whatever the spelling in the file.
#[test]
fn the_longer_spelling_of_a_rule_is_not_the_longer_rule() {
    assert!(allows("User-agent: *\nDisallow: /%62%61%7A\nAllow: /baz", "/baz"));
    assert!(!allows("User-agent: *\nAllow: /%62%61%7A\nDisallow: /ba*z", "/baz"));
    assert!(allows("User-agent: *\nDisallow: /*/////\nAllow: /ツ", "/ツ//////"));
}

/// Google's parser reads `Allow: /a/index.html` as allowing `/a/` too. The RFC does not.
#[test]
fn an_allowed_index_page_does_not_allow_its_directory() {
    let text = "User-agent: *\nDisallow: /\nAllow: /a/index.html";
    assert!(allows(text, "/a/index.html"));
    assert!(!allows(text, "/a/"));
}

#[test]
fn our_own_group_takes_the_place_of_the_group_for_everyone() {
    let text = "User-agent: *\nDisallow: /\n\nUser-agent: Crawler\nDisallow: /x";
    assert!(allows(text, "/a"));
    assert!(!allows(text, "/x"));
    assert!(allows("User-agent: *\nDisallow: /\nUser-agent: other\nDisallow: /a\nUser-agent: crawler", "/"));
    assert!(!allows("User-agent: other\nDisallow: /a\nUser-agent: *\nDisallow: /", "/"));
}

#[test]
fn a_user_agent_line_names_us_in_any_case_and_version() {
    for agent in ["crawler", "CRAWLER", "Crawler/1.0", "crawler (+https://a/)", "crawler/*"] {
        assert!(!allows(format!("User-agent: {agent}\nDisallow: /"), "/"), "{agent}");
    }
    for agent in ["crawlers", "my-crawler", "crawler-x", "craw", "", "*crawler", "**", "mycrawler crawler"] {
        assert!(allows(format!("User-agent: {agent}\nDisallow: /"), "/"), "{agent}");
    }
    assert!(!allows("User-agent: * all\nDisallow: /", "/"));
    assert!(!Rules::parse(b"User-agent: crawler\nDisallow: /", "CRAWLER/2.0").allows(&url("/")));
    assert!(Rules::parse(b"User-agent:\nDisallow: /", "").allows(&url("/")));
}

#[test]
fn groups_for_the_same_agent_are_one_group() {
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
fn user_agent_lines_in_a_row_share_their_rules() {
    for agents in ["User-agent: a\nUser-agent: crawler\n", "User-agent: crawler\n\n#\nUser-agent: *\n"] {
        let text = format!("{agents}Disallow: /a\nUser-agent: *\nDisallow: /b");
        assert!(!allows(&text, "/a"));
        assert!(allows(&text, "/b"));
    }
}

/// Google's parser does as we do; the port of it that serves as oracle still ends the group here.
#[test]
fn other_records_do_not_end_a_group() {
    for other in ["Sitemap: https://a/", "Crawl-delay: 1", "Host: a", "Disallow", "nonsense"] {
        assert!(!allows(format!("User-agent: crawler\n{other}\nUser-agent: b\nDisallow: /"), "/"), "{other}");
        assert!(!allows(format!("User-agent: crawler\n{other}\nDisallow: /"), "/"), "{other}");
    }
}

#[test]
fn an_empty_rule_ends_the_list_of_agents() {
    assert!(allows("User-agent: crawler\nDisallow:\nUser-agent: b\nDisallow: /", "/"));
}

#[test]
fn rules_before_any_user_agent_are_ignored() {
    assert!(allows("Disallow: /\nUser-agent: *\nDisallow: /a", "/"));
}

#[test]
fn any_line_ending_ends_a_line() {
    for end in ["\n", "\r", "\r\n", "\n\r", "\n\n"] {
        let text = ["User-agent: *", "Disallow: /a", "Allow: /a/b", ""].join(end);
        assert!(!allows(&text, "/a"), "{end:?}");
        assert!(allows(&text, "/a/b"), "{end:?}");
    }
}

#[test]
fn white_space_comments_and_a_byte_order_mark_mean_nothing() {
    assert!(!allows("\u{feff}User-agent: *\nDisallow: /", "/"));
    assert!(!allows(" \tuser-AGENT\t :\x0b* # all\n\tDISALLOW  :  /a\t #b\r\n", "/a"));
    assert!(!allows("User-agent:*#\nDisallow:/#a", "/"));
    assert!(allows("User-agent: *\n#Disallow: /", "/"));
}

#[test]
fn white_space_may_stand_for_a_forgotten_colon() {
    assert!(!allows("user-agent crawler\n  disallow\t/a", "/a"));
    assert!(allows("user-agent crawler please\ndisallow /a", "/a"));
}

#[test]
fn frequent_misspellings_are_understood() {
    for key in ["Disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw", "Disallowed"] {
        assert!(!allows(format!("User-agent: *\n{key}: /"), "/"), "{key}");
    }
    for key in ["User-agent", "useragent", "USER AGENT", "User-agents"] {
        assert!(!allows(format!("{key}: *\nDisallow: /"), "/"), "{key}");
    }
    assert!(allows("User-agent: *\nNo-Disallow: /", "/"));
}

#[test]
fn garbage_between_the_lines_is_passed_over() {
    let mut text = b"\0\xff\xfe\n:\n: /\n\0:\0\nUser-agent: *\n\x80\x81: \xff\n".to_vec();
    text.extend(b"Disallow: /a\xff\0b\nDisallow: /c\n\0");
    assert!(!allows(&text, "/c"));
    assert!(!allows(&text, "/a%FF%00b"));
    assert!(allows(&text, "/a"));
}

#[test]
fn a_line_is_read_only_up_to_its_limit() {
    let long = "a".repeat(2 * MAX_LINE_OCTETS);
    let text = format!("User-agent: *\nDisallow: /{long}\nDisallow: /b\n{long}User-agent: crawler");
    assert!(!allows(&text, &format!("/{}", &long[..MAX_LINE_OCTETS])));
    assert!(!allows(&text, "/b"));
    assert!(allows(&text, "/a"));
}

#[test]
fn the_crawl_delay_is_that_of_the_group_for_us() {
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
fn of_several_crawl_delays_the_longest_counts() {
    let text = "User-agent: *\nCrawl-delay: 2\nCrawl-delay: 3\nCrawl-delay: x\nCrawl-delay: 1";
    assert_eq!(rules(text).crawl_delay(), Some(Duration::from_secs(3)));
}

#[test]
fn a_crawl_delay_that_makes_no_sense_is_ignored_and_a_huge_one_is_a_day() {
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
fn sitemaps_belong_to_no_group_and_are_bounded() {
    let text = "Sitemap: https://a/1.xml\nUser-agent: b\nSITE-MAP:  /2.xml # two\nSitemap:\nDisallow: /";
    assert_eq!(rules(text).sitemaps(), ["https://a/1.xml", "/2.xml"]);
    assert!(rules(b"Sitemap: /\xff").sitemaps().is_empty());
    assert!(rules(format!("Sitemap: {}", "a".repeat(MAX_SITEMAP_OCTETS))).sitemaps().is_empty());
    assert_eq!(rules("Sitemap: /a\n".repeat(2 * MAX_SITEMAPS)).sitemaps().len(), MAX_SITEMAPS);
}

/// A full-size file of the lines that `line` makes, and how long it and an answer may take: far beyond
/// what a linear search needs in a debug build, far below what an exponential one does.
fn is_answered_in_time(line: impl FnMut(usize) -> String, path: &str) {
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

#[test]
fn no_file_makes_reading_or_asking_slow() {
    let long = "a".repeat(10_000);
    let path = format!("/{long}");
    is_answered_in_time(|_| format!("Disallow: /{}b", "*a".repeat(8_000)), &path);
    is_answered_in_time(|_| format!("Disallow: /{}b", "a*".repeat(8_000)), &path);
    is_answered_in_time(|_| format!("Disallow: {}", "*".repeat(16_000)), &path);
    is_answered_in_time(|_| format!("Disallow: /*{}b", "a".repeat(4_000)), &path);
    is_answered_in_time(|n| format!("Disallow: /{}", &long[..n % 10_000]), &path);
    is_answered_in_time(|n| format!("Disallow: /{}*b", &long[..n % 10_000]), &path);
    is_answered_in_time(|n| format!("Disallow: *b{n}"), &path);
    is_answered_in_time(|n| format!("Disallow: /*a*{n}$"), &path);
    is_answered_in_time(|n| format!("Disallow:{n}"), &path);
    is_answered_in_time(|_| "%".repeat(10_000), &path);
    is_answered_in_time(|_| String::new(), &path);
    is_answered_in_time(|_| "User-agent: a".to_owned(), &path);
}

proptest! {
    #[test]
    fn any_bytes_are_a_robots_txt(text: Vec<u8>, path in "/\\PC{0,20}") {
        rules(&text).allows(&url(&path));
    }

    #[test]
    fn any_values_are_tolerated(lines: Vec<(prop::sample::Index, Vec<u8>)>, path in "/\\PC{0,20}") {
        let mut text = b"User-agent: *".to_vec();
        for (key, value) in lines {
            text.extend(b"\n");
            text.extend(key.get(&super::KEYS).0.as_bytes());
            text.extend(b":");
            text.extend(value);
        }
        rules(&text).allows(&url(&path));
    }

    /// Whatever a URL is, a rule that spells it out forbids it, encoded as in the URL or not.
    #[test]
    fn a_rule_that_is_a_url_matches_it(path in "/[a-c/ %~'é\"{}|;:@?=*]{0,20}") {
        let url = url(&path);
        for spelling in [path.trim_end(), &url[url::Position::BeforePath..]] {
            // A dot segment or a backslash would make it another URL; the alphabet has neither.
            let text = format!("User-agent: *\nDisallow: {spelling}");
            prop_assert!(!rules(&text).allows(&url), "{text:?} does not forbid {url}");
        }
    }

    /// The order of a file's rules means nothing, nor does saying one twice.
    #[test]
    fn the_order_of_rules_means_nothing(
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
