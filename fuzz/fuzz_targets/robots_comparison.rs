//! robots.txt files of well-formed and malformed lines mean the same to us and to `robotstxt`, a port of Google's parser.
//!
//! The lines are those of `crates/crawler/tests/robotstxt.rs`, which lists where the port is wrong or differs on purpose.
#![no_main]

#[path = "../../crates/crawler/tests/robotstxt/simple_match.rs"]
mod simple_match;

use crawler::internal::fetch::robots::rules::Rules;
use libfuzzer_sys::fuzz_target;
use robotstxt::matcher::{LongestMatchRobotsMatchStrategy, RobotsMatchStrategy, RobotsMatcher};
use simple_match::SimpleMatch;
use url::Url;

const PRODUCT_TOKEN: &str = "crawler";

const AGENT_KEYS: &[&str] = &["user-agent", "useragent", "user agent", "user-agents"];
const ALLOW_KEYS: &[&str] = &["allow", "allow", "allowed"];
const DISALLOW_KEYS: &[&str] =
    &["disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw", "disallowed"];
/// Keys that the port must not see.
const OTHER_KEYS: &[&str] = &["sitemap", "site-map", "crawl-delay", "host", "noindex", "no-allow", "x"];

const AGENTS: &[&str] = &[
    "crawler",
    "*",
    "other",
    "crawler-news",
    "crawler/2.0",
    "",
    "* everyone",
    "crawler two",
    "*crawler",
    "crawlers",
    "my crawler",
];
const PATTERN_PIECES: &[&str] = &[
    "/", "a", "b", "ab", "/a", "A", "?", "=", "&", "~", "é", "ツ", "%C3%A9", "%2F", "$", "%c3%a9", "%2f",
    ".", "*",
];
const PATH_PIECES: &[&str] =
    &["/", "a", "b", "ab", "/a", "A", "?", "=", "&", "~", "é", "ツ", "%C3%A9", "%2F", "$", "*", "."];
const BLANKS: &[&str] = &["", " ", "\t", " \t ", "\x0b"];
const COMMENTS: &[&str] = &["", "#", "# allow: /", " #user-agent: crawler"];
const LINE_ENDS: &[&str] = &["\n", "\r\n", "\r", "\n\n", "\r\n\r\n", "\n# comment\n", "\n \t\n"];
const PROSE: &[&str] = &["crawler\n", "disallow\n", "this is a file\n", "<html>\r\n", ":\n", "# all\n", "\n"];

/// Turns bytes into choices.
struct Choices<'b>(&'b [u8]);

impl Choices<'_> {
    fn number(&mut self, end: usize) -> usize {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(first) % end
    }

    fn one_of(&mut self, texts: &[&'static str]) -> &'static str {
        texts[self.number(texts.len())]
    }

    fn several_of(&mut self, texts: &[&'static str]) -> String {
        (0..self.number(8)).map(|_| self.one_of(texts)).collect()
    }
}

/// A file as we read it, and without the lines that the port must not see.
#[derive(Default)]
struct File {
    ours: String,
    theirs: String,
    has_star: bool,
}

impl File {
    fn push_line(&mut self, choices: &mut Choices) {
        let kind = choices.number(16);
        let (keys, mut is_unknown) = match kind {
            0 => {
                self.ours.push_str(choices.one_of(PROSE));
                return;
            }
            1..5 => (AGENT_KEYS, false),
            5..9 => (ALLOW_KEYS, false),
            9..14 => (DISALLOW_KEYS, false),
            _ => (OTHER_KEYS, true),
        };
        let mut key = choices.one_of(keys).to_owned();
        let value = match kind {
            1..5 => choices.one_of(AGENTS).to_owned(),
            _ => choices.several_of(PATTERN_PIECES),
        };
        let style = choices.number(256);
        if style & 1 == 1 {
            key.make_ascii_uppercase();
        }
        let line = if style & 14 == 2 {
            // Without its colon, `user agent` is a key `user` with the value `agent`.
            is_unknown |= key.contains(' ');
            format!("{key} {value}")
        } else {
            let [before, after, start, end] = [(); 4].map(|()| choices.one_of(BLANKS));
            format!("{start}{key}{before}:{after}{value}{end}")
        };
        let line = format!("{line}{}{}", choices.one_of(COMMENTS), choices.one_of(LINE_ENDS));
        self.has_star |= !is_unknown && !(1..5).contains(&kind) && value.contains('*');
        if !is_unknown {
            self.theirs.push_str(&line);
        }
        self.ours.push_str(&line);
    }
}

fuzz_target!(|input: &[u8]| {
    let mut choices = Choices(input);
    let urls = [(); 4].map(|()| {
        let path = choices.several_of(PATH_PIECES);
        Url::parse(&format!("https://example.com/{path}")).expect("a valid URL")
    });
    let mut file = File::default();
    while !choices.0.is_empty() {
        file.push_line(&mut choices);
    }
    let rules = Rules::parse(file.ours.as_bytes(), PRODUCT_TOKEN);
    for url in urls {
        // The port misses matches after a star.
        let expected = match file.has_star {
            true => is_allowed_by_port::<SimpleMatch>(&file.theirs, &url),
            false => is_allowed_by_port::<LongestMatchRobotsMatchStrategy>(&file.theirs, &url),
        };
        assert_eq!(rules.allows(&url), expected, "{url} by {:?}", file.ours);
    }
});

fn is_allowed_by_port<M: RobotsMatchStrategy + Default>(file: &str, url: &Url) -> bool {
    RobotsMatcher::<M>::default().one_agent_allowed_by_robots(file, PRODUCT_TOKEN, url.as_str())
}
