//! Parses a robots.txt (RFC 9309) into the rules for this crawler. Its line format is known only here.
//!
//! Where the RFC leaves a meaning open, the parser follows Google's, because site owners write for it and test with it:
//! directive names match by prefix, common misspellings are accepted, and white space may replace a missing colon.

mod patterns;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::time::Duration;

use encoding_rs::{UTF_16BE, UTF_16LE};
use url::{Position, Url};

use patterns::{Patterns, Rule};

/// Maximum number of rules; later ones are ignored. The 500 KiB that must be read contain at most some 60,000.
const MAX_RULES: usize = 100_000;

/// Maximum length of a line; the remainder is ignored. Eight times the longest URL that all browsers support.
const MAX_LINE_BYTES: usize = 8 * 2083;

/// Maximum number of sitemaps, so that a hostile file cannot fill the memory with them.
const MAX_SITEMAPS: usize = 1_000;

/// URLs of this length or more are not allowed by the sitemap protocol.
const MAX_SITEMAP_BYTES: usize = 2048;

/// Maximum delay; longer ones are lowered to it. After a day the file itself expires and is fetched again.
const MAX_CRAWL_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The rules of a robots.txt for one crawler: compiled once, checked for every URL.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    patterns: Patterns,
    crawl_delay: Option<Duration>,
    sitemaps: Vec<String>,
}

impl Rules {
    /// Rules that allow everything, without a delay.
    pub fn allow_all() -> Rules {
        Rules::default()
    }

    /// Parses the rules in `text` for the crawler named `product_token`.
    ///
    /// Parsing never fails: unknown lines are ignored.
    pub fn parse(text: &[u8], product_token: &str) -> Rules {
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        let mut parser = RulesParser::new(product_token);
        for line in text.split(|byte| matches!(byte, b'\r' | b'\n')) {
            let line = &line[..line.len().min(MAX_LINE_BYTES)];
            if let Some((directive, value)) = parse_line(line) {
                parser.apply(directive, value);
            }
        }
        parser.finish()
    }

    /// Whether the rules allow a URL, by its path and query.
    ///
    /// The longest matching rule decides; of two with the same length, Allow. `/robots.txt` itself is always allowed.
    pub fn allows(&self, url: &Url) -> bool {
        let path = &url[Position::BeforePath..Position::AfterQuery];
        path == "/robots.txt" || self.patterns.allow(path.as_bytes())
    }

    /// The Crawl-delay, a day at most.
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.crawl_delay
    }

    /// Memory used by the rules, in bytes.
    pub fn bytes(&self) -> usize {
        let sitemaps = self.sitemaps.iter().map(|sitemap| allocation_size(sitemap.len()));
        size_of::<Rules>()
            + self.patterns.bytes()
            + self.sitemaps.capacity() * size_of::<String>()
            + sitemaps.sum::<usize>()
    }

    /// The values of the Sitemap lines, unvalidated: they need not be URLs.
    pub fn sitemaps(&self) -> &[String] {
        &self.sitemaps
    }
}

/// Decodes a file in UTF-16. RFC 9309 requires UTF-8, but some editors write UTF-16, with a byte order mark or without:
/// then one of the first two bytes is half of an ASCII character.
pub fn decoded(file: &[u8]) -> Cow<'_, [u8]> {
    let encoding = match file {
        [0xFF, 0xFE, ..] | [_, 0, ..] => UTF_16LE,
        [0xFE, 0xFF, ..] | [0, _, ..] => UTF_16BE,
        // A text that starts with another character is mostly ASCII, too, and other encodings have no NULs.
        _ => match high_bytes(file) {
            Some(encoding) => encoding,
            None => return Cow::Borrowed(file),
        },
    };
    Cow::Owned(encoding.decode_with_bom_removal(file).0.into_owned().into_bytes())
}

/// The encoding of UTF-16 in which most of the first characters are ASCII, if there is one.
fn high_bytes(file: &[u8]) -> Option<&'static encoding_rs::Encoding> {
    let start = &file[..file.len().min(1_024)];
    let is_zero = |offset: usize| {
        let zeros = start.iter().skip(offset).step_by(2).filter(|byte| **byte == 0).count();
        4 * zeros > start.len()
    };
    if is_zero(1) { Some(UTF_16LE) } else { is_zero(0).then_some(UTF_16BE) }
}

#[derive(Clone, Copy)]
enum Directive {
    UserAgent,
    Allow,
    Disallow,
    CrawlDelay,
    Sitemap,
}

/// Prefixes of directive names, case-insensitive. The misspellings are those that Google's parser accepts.
const DIRECTIVE_PREFIXES: [(&str, Directive); 15] = [
    ("user-agent", Directive::UserAgent),
    ("useragent", Directive::UserAgent),
    ("user agent", Directive::UserAgent),
    ("allow", Directive::Allow),
    ("disallow", Directive::Disallow),
    ("dissallow", Directive::Disallow),
    ("dissalow", Directive::Disallow),
    ("disalow", Directive::Disallow),
    ("diasllow", Directive::Disallow),
    ("disallaw", Directive::Disallow),
    ("crawl-delay", Directive::CrawlDelay),
    ("crawldelay", Directive::CrawlDelay),
    ("crawl delay", Directive::CrawlDelay),
    ("sitemap", Directive::Sitemap),
    ("site-map", Directive::Sitemap),
];

impl Directive {
    fn from_name(name: &[u8]) -> Option<Directive> {
        let has_prefix = |prefix: &str| {
            name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
        };
        DIRECTIVE_PREFIXES.iter().find(|(prefix, _)| has_prefix(prefix)).map(|(_, directive)| *directive)
    }
}

/// The directive and value of a line; `None` if the directive is unknown.
fn parse_line(line: &[u8]) -> Option<(Directive, &[u8])> {
    let end = memchr::memchr(b'#', line).unwrap_or(line.len());
    let line = trim(&line[..end]);
    let (name, value) = match memchr::memchr(b':', line) {
        Some(colon) => (&line[..colon], &line[colon + 1..]),
        None => two_words(line)?,
    };
    Some((Directive::from_name(trim(name))?, trim(value)))
}

/// Splits a line like `Disallow /path`, which lacks the colon. A line of more words is prose.
fn two_words(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, value) = line.split_at(line.iter().position(is_space)?);
    let value = trim(value);
    (!value.iter().any(is_space)).then_some((name, value))
}

fn trim(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    &text[start..end]
}

fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Which crawlers a group applies to. A group for both this crawler and `*` counts as for this crawler.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum AgentMatch {
    Other,
    Wildcard,
    Ours,
}

/// The merged rules of all groups with the same agent match.
#[derive(Default)]
struct Group {
    rules: Vec<Rule>,
    crawl_delay: Option<Duration>,
}

/// Parses a file line by line and merges its groups by the crawlers they apply to.
struct RulesParser<'a> {
    product_token: &'a [u8],
    /// The current group's.
    agent_match: AgentMatch,
    /// Whether the current group has a rule, so that the next User-agent line starts a new group.
    has_rules: bool,
    wildcard: Group,
    /// Set as soon as a group names this crawler. Even without any rule it replaces `wildcard`.
    ours: Option<Group>,
    sitemaps: Vec<String>,
}

impl<'a> RulesParser<'a> {
    fn new(product_token: &'a str) -> RulesParser<'a> {
        RulesParser {
            product_token: self::product_token(product_token.as_bytes()),
            agent_match: AgentMatch::Other,
            has_rules: false,
            wildcard: Group::default(),
            ours: None,
            sitemaps: Vec::new(),
        }
    }

    fn apply(&mut self, directive: Directive, value: &[u8]) {
        match directive {
            Directive::UserAgent => self.user_agent(value),
            Directive::Allow => self.rule(value, true),
            Directive::Disallow => self.rule(value, false),
            Directive::CrawlDelay => self.crawl_delay(value),
            Directive::Sitemap => self.sitemap(value),
        }
    }

    fn user_agent(&mut self, agent: &[u8]) {
        if self.has_rules {
            self.has_rules = false;
            self.agent_match = AgentMatch::Other;
        }
        let agent_match = self.match_agent(agent);
        if agent_match == AgentMatch::Ours {
            self.ours.get_or_insert_default();
        }
        self.agent_match = self.agent_match.max(agent_match);
    }

    fn match_agent(&self, agent: &[u8]) -> AgentMatch {
        match agent {
            [b'*'] => AgentMatch::Wildcard,
            [b'*', next, ..] if is_space(next) => AgentMatch::Wildcard,
            _ if self.product_token.is_empty() => AgentMatch::Other,
            _ if product_token(agent).eq_ignore_ascii_case(self.product_token) => AgentMatch::Ours,
            _ => AgentMatch::Other,
        }
    }

    /// The current group, if it may apply to this crawler.
    fn group(&mut self) -> Option<&mut Group> {
        match self.agent_match {
            AgentMatch::Ours => self.ours.as_mut(),
            AgentMatch::Wildcard => Some(&mut self.wildcard),
            AgentMatch::Other => None,
        }
    }

    fn rule(&mut self, pattern: &[u8], allow: bool) {
        self.has_rules = true;
        if let Some(group) = self.group()
            && group.rules.len() < MAX_RULES
            // An empty pattern matches nothing: it neither disallows nor allows anything.
            && !pattern.is_empty()
        {
            group.rules.push(Rule::compile(pattern, allow));
        }
    }

    /// Keeps the longest of several delays, which satisfies all of them.
    fn crawl_delay(&mut self, value: &[u8]) {
        if let Some(group) = self.group() {
            group.crawl_delay = group.crawl_delay.max(parse_delay(value));
        }
    }

    fn sitemap(&mut self, value: &[u8]) {
        if self.sitemaps.len() < MAX_SITEMAPS
            && (1..MAX_SITEMAP_BYTES).contains(&value.len())
            && let Ok(url) = std::str::from_utf8(value)
        {
            self.sitemaps.push(url.to_owned());
        }
    }

    fn finish(self) -> Rules {
        let Group { rules, crawl_delay } = self.ours.unwrap_or(self.wildcard);
        Rules { patterns: Patterns::new(rules), crawl_delay, sitemaps: self.sitemaps }
    }
}

/// Memory used by an allocation of this size, rounded as allocators do.
fn allocation_size(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        bytes => (bytes + size_of::<usize>()).next_multiple_of(16).max(32),
    }
}

/// The part of a user agent that is compared: `crawler` of `crawler/1.0 (+https://…)`. RFC 9309 allows only letters,
/// `-` and `_`, but crawlers have names such as `crawler4j`, which is not `crawler`.
pub fn product_token(agent: &[u8]) -> &[u8] {
    let is_token =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.') || !byte.is_ascii();
    let end = agent.iter().position(|byte| !is_token(byte)).unwrap_or(agent.len());
    &agent[..end]
}

fn parse_delay(value: &[u8]) -> Option<Duration> {
    let seconds: f64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    if !seconds.is_finite() {
        return None;
    }
    Duration::try_from_secs_f64(seconds.min(MAX_CRAWL_DELAY.as_secs_f64())).ok()
}
