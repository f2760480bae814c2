//! Reads one robots.txt by RFC 9309 into the rules it has for us; only here is its line format known.
//!
//! Where the RFC leaves a file's meaning open, we read it as Google's parser does, because that is the
//! parser site owners write for and test with: keys count by their beginning, frequent misspellings are
//! understood, and white space may stand in for a forgotten colon.

mod patterns;
#[cfg(test)]
mod tests;

use std::time::Duration;

use url::{Position, Url};

use patterns::{Patterns, Rule};

/// A file of the 500 KiB that must be read holds at most some 60,000 rules; a longer one keeps its first.
const MAX_RULES: usize = 100_000;

/// What a line says beyond this is not read: eight times the longest URL that browsers agree on.
const MAX_LINE_OCTETS: usize = 8 * 2083;

/// A crawl cannot use more sitemaps than this, and a hostile file shall not fill memory with them.
const MAX_SITEMAPS: usize = 1_000;

/// The sitemap protocol wants addresses shorter than this.
const MAX_SITEMAP_OCTETS: usize = 2048;

/// Longer delays mean this one: after a day the file itself is out of date and must be asked for again.
const MAX_CRAWL_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The rules one robots.txt has for one crawler: compiled once, asked for every URL.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    patterns: Patterns,
    crawl_delay: Option<Duration>,
    sitemaps: Vec<String>,
}

impl Rules {
    /// The rules of a site that has none: everything is allowed, at any pace.
    pub fn allow_all() -> Rules {
        Rules::default()
    }

    /// Reads the rules that `text` has for the crawler that calls itself `product_token`.
    ///
    /// Any bytes are a robots.txt: what is not understood is passed over.
    pub fn parse(text: &[u8], product_token: &str) -> Rules {
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        let mut reader = Reader::new(product_token);
        for line in text.split(|octet| matches!(octet, b'\r' | b'\n')) {
            let line = &line[..line.len().min(MAX_LINE_OCTETS)];
            if let Some((key, value)) = record(line) {
                reader.read(key, value);
            }
        }
        reader.finish()
    }

    /// Whether the page may be fetched: judged by its path and query, whatever the host.
    ///
    /// The longest rule that matches decides, Allow if there are two of the same length. `/robots.txt`
    /// itself may always be fetched.
    pub fn allows(&self, url: &Url) -> bool {
        let path = &url[Position::BeforePath..Position::AfterQuery];
        path == "/robots.txt" || self.patterns.allow(path.as_bytes())
    }

    /// The pause between two requests that the site asks of us, a day at most.
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.crawl_delay
    }

    /// How many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        let sitemaps = self.sitemaps.iter().map(|sitemap| allocated(sitemap.len()));
        size_of::<Rules>()
            + self.patterns.bytes()
            + self.sitemaps.capacity() * size_of::<String>()
            + sitemaps.sum::<usize>()
    }

    /// The sitemaps the file names, as written: they may be anything, not only URLs.
    pub fn sitemaps(&self) -> &[String] {
        &self.sitemaps
    }
}

#[derive(Clone, Copy)]
enum Directive {
    UserAgent,
    Allow,
    Disallow,
    CrawlDelay,
    Sitemap,
}

/// How keys begin, in any case. The misspellings are those that Google's parser has met often.
const KEYS: [(&str, Directive); 15] = [
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
    fn of(name: &[u8]) -> Option<Directive> {
        let begins = |with: &str| {
            name.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()))
        };
        KEYS.iter().find(|(spelling, _)| begins(spelling)).map(|(_, key)| *key)
    }
}

/// The key and value of a line, if it has a key we know.
fn record(line: &[u8]) -> Option<(Directive, &[u8])> {
    let end = memchr::memchr(b'#', line).unwrap_or(line.len());
    let line = trim(&line[..end]);
    let (name, value) = match memchr::memchr(b':', line) {
        Some(colon) => (&line[..colon], &line[colon + 1..]),
        None => two_words(line)?,
    };
    Some((Directive::of(trim(name))?, trim(value)))
}

/// Splits `Disallow /path`, where the colon was forgotten. A line of more words is prose.
fn two_words(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, value) = line.split_at(line.iter().position(is_space)?);
    let value = trim(value);
    (!value.iter().any(is_space)).then_some((name, value))
}

fn trim(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|octet| !is_space(octet)).unwrap_or(text.len());
    let end = text.iter().rposition(|octet| !is_space(octet)).map_or(start, |last| last + 1);
    &text[start..end]
}

fn is_space(octet: &u8) -> bool {
    matches!(octet, b' ' | b'\t'..=b'\r')
}

/// Whom the group at hand speaks to. A group that names us and `*` speaks to us.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Audience {
    Others,
    Everyone,
    Us,
}

/// What all groups with the same audience say together.
#[derive(Default)]
struct Group {
    rules: Vec<Rule>,
    crawl_delay: Option<Duration>,
}

/// Follows a file record by record and sorts what it says by whom it says it to.
struct Reader<'a> {
    product_token: &'a [u8],
    audience: Audience,
    /// Whether the group has a rule already, so that the next user-agent line opens another group.
    has_rules: bool,
    everyone: Group,
    /// Exists as soon as we are named: even without a single rule it takes the place of `everyone`.
    us: Option<Group>,
    sitemaps: Vec<String>,
}

impl<'a> Reader<'a> {
    fn new(product_token: &'a str) -> Reader<'a> {
        Reader {
            product_token: token(product_token.as_bytes()),
            audience: Audience::Others,
            has_rules: false,
            everyone: Group::default(),
            us: None,
            sitemaps: Vec::new(),
        }
    }

    fn read(&mut self, key: Directive, value: &[u8]) {
        match key {
            Directive::UserAgent => self.address(value),
            Directive::Allow => self.rule(value, true),
            Directive::Disallow => self.rule(value, false),
            Directive::CrawlDelay => self.crawl_delay(value),
            Directive::Sitemap => self.sitemap(value),
        }
    }

    fn address(&mut self, agent: &[u8]) {
        if self.has_rules {
            self.has_rules = false;
            self.audience = Audience::Others;
        }
        let audience = self.audience_named(agent);
        if audience == Audience::Us {
            self.us.get_or_insert_default();
        }
        self.audience = self.audience.max(audience);
    }

    fn audience_named(&self, agent: &[u8]) -> Audience {
        match agent {
            [b'*'] => Audience::Everyone,
            [b'*', next, ..] if is_space(next) => Audience::Everyone,
            _ if self.product_token.is_empty() => Audience::Others,
            _ if token(agent).eq_ignore_ascii_case(self.product_token) => Audience::Us,
            _ => Audience::Others,
        }
    }

    /// The group at hand, if it may concern us.
    fn group(&mut self) -> Option<&mut Group> {
        match self.audience {
            Audience::Us => self.us.as_mut(),
            Audience::Everyone => Some(&mut self.everyone),
            Audience::Others => None,
        }
    }

    fn rule(&mut self, pattern: &[u8], allow: bool) {
        self.has_rules = true;
        if let Some(group) = self.group()
            && group.rules.len() < MAX_RULES
            // An empty pattern says nothing: neither that all is forbidden nor that all is allowed.
            && !pattern.is_empty()
        {
            group.rules.push(Rule::compile(pattern, allow));
        }
    }

    /// Of several delays the longest is kept, so that each of them is respected.
    fn crawl_delay(&mut self, value: &[u8]) {
        if let Some(group) = self.group() {
            group.crawl_delay = group.crawl_delay.max(seconds(value));
        }
    }

    fn sitemap(&mut self, value: &[u8]) {
        if self.sitemaps.len() < MAX_SITEMAPS
            && (1..MAX_SITEMAP_OCTETS).contains(&value.len())
            && let Ok(address) = std::str::from_utf8(value)
        {
            self.sitemaps.push(address.to_owned());
        }
    }

    fn finish(self) -> Rules {
        let Group { rules, crawl_delay } = self.us.unwrap_or(self.everyone);
        Rules { patterns: Patterns::new(rules), crawl_delay, sitemaps: self.sitemaps }
    }
}

/// What an allocation of so many octets takes, at the least sizes that allocators deal in.
fn allocated(octets: usize) -> usize {
    match octets {
        0 => 0,
        octets => (octets + size_of::<usize>()).next_multiple_of(16).max(32),
    }
}

/// The part of an agent's name that is compared: `crawler` of `crawler/1.0 (+https://…)`.
fn token(agent: &[u8]) -> &[u8] {
    let is_token = |octet: &u8| octet.is_ascii_alphabetic() || matches!(octet, b'-' | b'_');
    let end = agent.iter().position(|octet| !is_token(octet)).unwrap_or(agent.len());
    &agent[..end]
}

fn seconds(value: &[u8]) -> Option<Duration> {
    let seconds: f64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    if !seconds.is_finite() {
        return None;
    }
    Duration::try_from_secs_f64(seconds.min(MAX_CRAWL_DELAY.as_secs_f64())).ok()
}
