//! Which URLs a crawl may fetch: within its bounds, not excluded, and not a crawler trap.

mod blocked;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use memchr::{memchr, memchr_iter};
use regex::RegexSet;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

pub(crate) use self::blocked::Blocked;
use crate::config::FetchConfig;
use crate::domain::Domain;
use crate::error::Error;
use crate::fetch::http::non_public_kind;
use crate::html::{BadLink, normal_form};
use crate::keyed_map::KeyedSet;
use crate::origin::{Origin, origin_prefix, throttle_key, without_credentials};
use crate::request_settings::dns_override;
use crate::seed_list::SeedIndex;
use crate::strip_query::StripQuery;
use crate::task_kind::{TaskKind, shown_url};

/// The maximum number of path segments. Relative links that never end make paths grow without limit.
const MAX_PATH_SEGMENTS: usize = 64;

/// How often a segment may occur in a path. `/a/b/a/b/a/b/…` comes from a relative link that points to itself.
const MAX_SAME_SEGMENT: usize = 4;

/// How many prefixes of a URL are searched among those of listed seeds. Each costs time in proportion to its length.
const MAX_PREFIXES: usize = 4 * MAX_PATH_SEGMENTS;

/// Why a link is not followed. `Display` writes the reason as a few words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RejectReason {
    /// Out of scope.
    External,
    /// Not a URL that can be fetched.
    InvalidLink(BadLink),
    /// Excluded by the user's patterns.
    Excluded,
    /// The path has too many segments.
    TooManySegments,
    /// The path repeats a segment too often.
    RepeatedSegments,
    /// The host is a private or otherwise non-public address.
    PrivateAddress,
    /// The link, or its page, is marked with `nofollow`.
    Nofollow,
    /// The host or the URL was blocked while the crawl ran.
    Blocked,
}

impl RejectReason {
    /// The label that this reason is counted under.
    pub(crate) fn label(self) -> &'static str {
        match self {
            RejectReason::External => "out of scope",
            RejectReason::InvalidLink(BadLink::Malformed) => "malformed",
            RejectReason::InvalidLink(BadLink::Scheme) => "not http or https",
            RejectReason::InvalidLink(BadLink::Credentials) => "with credentials",
            RejectReason::InvalidLink(BadLink::TooLong) => "URL too long",
            RejectReason::InvalidLink(BadLink::TooMany) => "too many links",
            RejectReason::Excluded => "excluded",
            RejectReason::TooManySegments => "too many path segments",
            RejectReason::RepeatedSegments => "repeated path segments",
            RejectReason::PrivateAddress => "private address",
            RejectReason::Nofollow => "nofollow",
            RejectReason::Blocked => "blocked",
        }
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// The part of the web that a crawl stays in.
///
/// ```
/// use crawler::Scope;
///
/// let seeds = ["https://www.example.org/docs/".parse()?];
/// let scope = Scope::domains(&seeds).with_filters(&[], &[r"\.pdf$"])?;
/// assert!(scope.check("https://blog.example.org/").is_ok());
/// assert!(scope.check("https://example.com/").is_err());
/// assert!(scope.check("https://www.example.org/a.pdf").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Scope {
    bounds: Bounds,
    /// If present, at least one of these must match.
    include: Option<RegexSet>,
    /// If present, none of these may match.
    exclude: Option<RegexSet>,
    /// The rule for non-public addresses; all are allowed if it is absent.
    private: Option<PrivateAddressRule>,
    /// Further bounds: those of seed lists.
    seeds: Option<Arc<SeedIndex>>,
    /// The rule for tasks that are no pages.
    kinds: KindRule,
    /// What was blocked while the crawl ran.
    blocked: Option<Arc<Blocked>>,
}

/// Which tasks that are no pages are left out. A crawl with other settings may have admitted them.
#[derive(Debug, Clone, Default)]
pub(crate) struct KindRule {
    /// The kinds that nothing uses.
    pub(crate) unused: Vec<TaskKind>,
    /// Whether requisites are left out that have another domain than their page, and are not in scope.
    pub(crate) own_requisites_only: bool,
}

/// The rule for URLs whose host is a non-public address. The connector applies the same rule to resolved addresses.
#[derive(Debug, Clone)]
struct PrivateAddressRule {
    /// URL prefixes of the seeds' origins, which are always allowed.
    trusted_origins: Vec<String>,
    /// Hosts with another address than their own.
    dns_overrides: Vec<(String, IpAddr)>,
    /// The seeds of lists, whose origins are allowed too.
    seeds: Option<Arc<SeedIndex>>,
}

#[derive(Debug, Clone)]
enum Bounds {
    Anywhere,
    Domains(KeyedSet<Domain>),
    Hosts(KeyedSet<String>),
    /// URL prefixes that match up to a segment boundary.
    Prefixes(Vec<String>),
}

impl Scope {
    fn within(bounds: Bounds) -> Scope {
        Scope {
            bounds,
            include: None,
            exclude: None,
            private: None,
            seeds: None,
            kinds: KindRule::default(),
            blocked: None,
        }
    }

    /// The whole web.
    pub fn anywhere() -> Scope {
        Scope::within(Bounds::Anywhere)
    }

    /// The registrable domains of these URLs, with all their hosts: `example.org` for `https://www.example.org/`.
    pub fn domains(urls: &[Url]) -> Scope {
        Scope::within(Bounds::Domains(urls.iter().map(|url| Domain::from_url(&normal(url))).collect()))
    }

    /// The hosts of these URLs, over http and https.
    pub fn hosts(urls: &[Url]) -> Scope {
        let host = |url| Origin::from_url(&normal(url)).throttle_key();
        Scope::within(Bounds::Hosts(urls.iter().map(host).collect()))
    }

    /// The origin of a URL: its scheme, host and port.
    pub(crate) fn origin(url: &Url) -> Scope {
        let mut root = without_credentials(url);
        root.set_path("/");
        root.set_query(None);
        Scope::prefixes(&[root])
    }

    /// One prefix: `http://host/tse` contains `/tse`, `/tse/x` and `/tse?x`, but not `/tsetse`.
    pub(crate) fn prefix(url: &Url) -> Scope {
        Scope::prefixes(std::slice::from_ref(url))
    }

    /// Everything at and below each of these URLs: `http://host/docs` contains `/docs`, `/docs/x` and `/docs?x`, but not
    /// `/docstore`.
    pub fn prefixes(urls: &[Url]) -> Scope {
        Scope::within(Bounds::Prefixes(urls.iter().map(|url| normal(url).into()).collect()))
    }

    /// The same scope without what is blocked.
    pub(crate) fn with_blocked(self, blocked: Option<Arc<Blocked>>) -> Scope {
        Scope { blocked, ..self }
    }

    /// Narrows the scope to URLs that match at least one of the `include` patterns, if there are any, and none of the
    /// `exclude` patterns. Patterns are regular expressions.
    pub fn with_filters<P: AsRef<str>>(self, include: &[P], exclude: &[P]) -> Result<Scope, Error> {
        let compile = |patterns: &[P]| match patterns {
            [] => Ok(None),
            _ => RegexSet::new(patterns)
                .map(Some)
                .map_err(|error| Error::InvalidSetting(format!("not a regular expression: {error}"))),
        };
        Ok(Scope { include: compile(include)?, exclude: compile(exclude)?, ..self })
    }

    /// Removes query parameters from the prefixes, as they are removed from the URLs that are checked.
    pub(crate) fn strip_query(&mut self, strip_query: &StripQuery) {
        if let Bounds::Prefixes(prefixes) = &mut self.bounds {
            for prefix in prefixes {
                *prefix = strip_query.strip(prefix).into_owned();
            }
        }
    }

    /// Rejects URLs whose host is a non-public address, except the seeds' own origins and hosts with a DNS override,
    /// unless the settings allow them all.
    pub(crate) fn rejecting_private(self, config: &FetchConfig, seeds: &[Url]) -> Scope {
        let private = (!config.requests.allow_private).then(|| PrivateAddressRule {
            trusted_origins: seeds
                .iter()
                .map(|seed| format!("{}/", Origin::from_url(&normal(seed))))
                .collect(),
            dns_overrides: config.requests.dns_overrides.clone(),
            seeds: self.seeds.clone(),
        });
        Scope { private, ..self }
    }

    /// All settings of the scope, to find out whether another scope is the same.
    pub(crate) fn settings(&self) -> String {
        let Scope { bounds, include, exclude, private, seeds: _, kinds, blocked: _ } = self;
        // Sets have no order.
        let mut bounds: Vec<String> = match bounds {
            Bounds::Anywhere => vec!["any".into()],
            Bounds::Domains(domains) => {
                domains.iter().map(|domain| format!("domain {}", domain.as_str())).collect()
            }
            Bounds::Hosts(hosts) => hosts.iter().map(|host| format!("host {host}")).collect(),
            Bounds::Prefixes(prefixes) => prefixes.iter().map(|prefix| format!("prefix {prefix}")).collect(),
        };
        bounds.sort_unstable();
        let patterns = [include, exclude].map(|set| set.as_ref().map_or(&[][..], RegexSet::patterns));
        format!("{bounds:?} {patterns:?} {private:?} {kinds:?}")
    }

    /// The same scope with a rule for tasks that are no pages.
    pub(crate) fn with_kind_rule(self, kinds: KindRule) -> Scope {
        Scope { kinds, ..self }
    }

    /// The entry of a listed seed that extends the bounds.
    pub(crate) fn seed_entry(&self, seed: &Url) -> Option<String> {
        match self.bounds {
            Bounds::Anywhere => None,
            Bounds::Domains(_) => Some(format!("domain {}", Domain::from_url(seed).as_str())),
            Bounds::Hosts(_) => Some(format!("host {}", throttle_key(seed.as_str()))),
            Bounds::Prefixes(_) => Some(format!("prefix {seed}")),
        }
    }

    /// Extends the bounds by those of listed seeds.
    pub(crate) fn with_seed_index(self, seeds: Option<Arc<SeedIndex>>) -> Scope {
        let private = self.private.map(|rule| PrivateAddressRule { seeds: seeds.clone(), ..rule });
        Scope { seeds, private, ..self }
    }

    /// Whether the bounds of listed seeds contain a URL.
    fn is_in_seed_index(&self, url: &str) -> bool {
        let Some(seeds) = &self.seeds else { return false };
        match self.bounds {
            Bounds::Anywhere => true,
            Bounds::Domains(_) => seeds.contains(&format!("domain {}", Domain::from_url_str(url).as_str())),
            Bounds::Hosts(_) => seeds.contains(&format!("host {}", throttle_key(url))),
            Bounds::Prefixes(_) => {
                let entry = format!("prefix {url}");
                let start = entry.len() - url.len();
                prefixes_of(url)
                    .take(MAX_PREFIXES)
                    .any(|prefix| seeds.contains(&entry[..start + prefix.len()]))
            }
        }
    }

    /// The bounds, for messages.
    pub(crate) fn describe(&self) -> String {
        match &self.bounds {
            Bounds::Anywhere => "the web".into(),
            Bounds::Domains(domains) => domains.iter().map(Domain::as_str).collect::<Vec<_>>().join(", "),
            Bounds::Hosts(hosts) => hosts.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
            Bounds::Prefixes(prefixes) => prefixes.join(", "),
        }
    }

    fn check_origin<'u>(&self, url: &'u str) -> CheckedOrigin<'u> {
        CheckedOrigin {
            prefix: origin_prefix(url),
            is_in_bounds: self.contains(url),
            is_private: self.private.as_ref().is_some_and(|rule| rule.rejects(url)),
        }
    }

    /// Checks whether a URL was blocked while the crawl ran.
    pub(crate) fn check_blocked(&self, url: &str) -> Result<(), RejectReason> {
        match self.blocked.as_ref().is_some_and(|blocked| blocked.contains(url)) {
            true => Err(RejectReason::Blocked),
            false => Ok(()),
        }
    }

    /// Whether a host, by its throttle key, was blocked while the crawl ran.
    pub(crate) fn blocks_host(&self, host: &str) -> bool {
        self.blocked.as_ref().is_some_and(|blocked| blocked.contains_host(host))
    }

    /// Whether a normalized URL without credentials lies within the bounds.
    pub(crate) fn contains(&self, url: &str) -> bool {
        match &self.bounds {
            Bounds::Anywhere => true,
            Bounds::Domains(domains) => {
                domains.contains(&Domain::from_url_str(url)) || self.is_in_seed_index(url)
            }
            Bounds::Hosts(hosts) => hosts.contains(throttle_key(url)) || self.is_in_seed_index(url),
            Bounds::Prefixes(prefixes) => {
                prefixes.iter().any(|prefix| is_below(prefix, url)) || self.is_in_seed_index(url)
            }
        }
    }

    /// Checks whether a crawl may fetch a URL. The URL must be normalized, as [`Page::links`](crate::Page::links) are, and
    /// without credentials.
    pub fn check(&self, url: &str) -> Result<(), RejectReason> {
        self.checker().check(url)
    }

    /// Checks whether a task may be fetched that was admitted before, perhaps with other settings, when the task `found_on` was
    /// completed.
    pub(crate) fn check_task(&self, task_url: &str, found_on: Option<&str>) -> Result<(), RejectReason> {
        let (kind, url) = (TaskKind::from_task_url(task_url), shown_url(task_url));
        self.check_blocked(url)?;
        match kind {
            _ if self.kinds.unused.contains(&kind) => Err(RejectReason::Excluded),
            TaskKind::Page => self.check(url),
            TaskKind::Sitemap => Ok(()),
            TaskKind::Requisite => self.check_requisite(url, found_on.map(Domain::from_url_str).as_ref()),
            TaskKind::Probe => self.check_file(url),
        }
    }

    /// Checks whether a requisite is fetched of a page or stylesheet in this domain: in scope, or in the same domain, or anywhere if
    /// the requisites of other domains are fetched. Every domain is allowed if that of the page is not known.
    pub(crate) fn check_requisite(&self, url: &str, domain: Option<&Domain>) -> Result<(), RejectReason> {
        if self.check(url).is_ok() {
            return Ok(());
        }
        self.check_file(url)?;
        let has_other_domain = |domain: &Domain| Domain::from_url_str(url) != *domain;
        match self.kinds.own_requisites_only && domain.is_some_and(has_other_domain) {
            true => Err(RejectReason::External),
            false => Ok(()),
        }
    }

    /// Checks whether a URL may be fetched that a page needs, in scope or not: it is not excluded, not a non-public address,
    /// and not a crawler trap.
    pub(crate) fn check_file(&self, url: &str) -> Result<(), RejectReason> {
        self.check_excluded(url)?;
        self.check_address(url)?;
        check_path(url)
    }

    /// Checks whether a URL is within the bounds and passes the filters. It may be a crawler trap.
    pub(crate) fn check_filters(&self, url: &str) -> Result<(), RejectReason> {
        if !self.contains(url) {
            return Err(RejectReason::External);
        }
        match self.include.as_ref().is_none_or(|include| include.is_match(url)) {
            true => self.check_excluded(url),
            false => Err(RejectReason::Excluded),
        }
    }

    /// Checks whether a URL matches none of the patterns that exclude URLs, and is not blocked.
    pub(crate) fn check_excluded(&self, url: &str) -> Result<(), RejectReason> {
        self.check_blocked(url)?;
        match self.exclude.as_ref().is_some_and(|exclude| exclude.is_match(url)) {
            true => Err(RejectReason::Excluded),
            false => Ok(()),
        }
    }

    /// What the bounds consist of.
    pub(crate) fn kind(&self) -> &'static str {
        match self.bounds {
            Bounds::Anywhere => "any",
            Bounds::Domains(_) => "domain",
            Bounds::Hosts(_) => "host",
            Bounds::Prefixes(_) => "prefix",
        }
    }

    /// Whether the bounds are the whole web.
    pub(crate) fn is_anywhere(&self) -> bool {
        matches!(self.bounds, Bounds::Anywhere)
    }

    /// Checks whether requests to the host of a URL are allowed at all, in scope or not: it is not blocked and not a non-public address.
    pub(crate) fn check_address(&self, url: &str) -> Result<(), RejectReason> {
        self.check_blocked(url)?;
        match self.private.as_ref().is_some_and(|rule| rule.rejects(url)) {
            true => Err(RejectReason::PrivateAddress),
            false => Ok(()),
        }
    }

    /// Checks many URLs.
    pub(crate) fn checker<'u>(&self) -> ScopeChecker<'_, 'u> {
        ScopeChecker { scope: self, origin: None }
    }
}

/// Checks many URLs. Most links of a page have the origin of the link before them, so what depends on the origin alone is
/// not checked again.
pub(crate) struct ScopeChecker<'s, 'u> {
    scope: &'s Scope,
    origin: Option<CheckedOrigin<'u>>,
}

#[derive(Clone, Copy)]
struct CheckedOrigin<'u> {
    /// URLs of the origin start with this.
    prefix: &'u str,
    is_in_bounds: bool,
    is_private: bool,
}

impl<'u> ScopeChecker<'_, 'u> {
    pub(crate) fn check(&mut self, url: &'u str) -> Result<(), RejectReason> {
        let origin = match self.origin {
            Some(origin) if url.starts_with(origin.prefix) => origin,
            _ => *self.origin.insert(self.scope.check_origin(url)),
        };
        let Scope { bounds, include, exclude, .. } = self.scope;
        let is_in_bounds = match bounds {
            Bounds::Prefixes(_) => self.scope.contains(url),
            _ => origin.is_in_bounds,
        };
        if !is_in_bounds {
            return Err(RejectReason::External);
        }
        let matches = |patterns: &Option<RegexSet>| patterns.as_ref().map(|patterns| patterns.is_match(url));
        if matches(include) == Some(false) || matches(exclude) == Some(true) {
            return Err(RejectReason::Excluded);
        }
        self.scope.check_blocked(url)?;
        if origin.is_private {
            return Err(RejectReason::PrivateAddress);
        }
        check_path(url)
    }
}

/// Writes the bounds: domains, hosts or prefixes.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

impl PrivateAddressRule {
    fn rejects(&self, url: &str) -> bool {
        if self.trusted_origins.iter().any(|origin| url.starts_with(origin)) {
            return false;
        }
        if let Some(seeds) = &self.seeds
            && seeds.contains(&format!("origin {}", origin_prefix(url)))
        {
            return false;
        }
        // Few hosts are addresses. The last character distinguishes them from names without parsing the URL.
        let authority = url.split('/').nth(2).unwrap_or("");
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => authority,
        };
        if !host.ends_with(|last: char| last == ']' || last.is_ascii_digit()) {
            return false;
        }
        let Some(url) = Url::parse(url).ok() else { return false };
        let address = match url.host() {
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
            _ => return false,
        };
        non_public_kind(address).is_some() && dns_override(&self.dns_overrides, host).is_none()
    }
}

/// Rejects URLs whose host is a non-public address, for the command.
pub fn rejecting_private(scope: Scope, config: &FetchConfig, seeds: &[Url]) -> Scope {
    scope.rejecting_private(config, seeds)
}

fn is_below(prefix: &str, url: &str) -> bool {
    match url.strip_prefix(prefix) {
        None => false,
        Some("") => true,
        Some(rest) if prefix.contains('?') => rest.starts_with('&'),
        Some(rest) => prefix.ends_with('/') || rest.starts_with(['/', '?']),
    }
}

/// The prefixes that contain a URL, as [`is_below`] defines it.
fn prefixes_of(url: &str) -> impl Iterator<Item = &str> {
    let query = memchr(b'?', url.as_bytes()).unwrap_or(url.len());
    (1..=url.len())
        .filter(move |end| match url.as_bytes().get(*end) {
            None => true,
            Some(b'&') => *end > query,
            Some(b'/' | b'?') if *end <= query => true,
            Some(_) => *end <= query && url.as_bytes()[end - 1] == b'/',
        })
        .filter(|end| url.is_char_boundary(*end))
        .map(|end| &url[..end])
}

/// The normal form of a URL, without user name and password. A URL without one is its own: no link leads to it.
fn normal(url: &Url) -> Url {
    let url = without_credentials(url);
    let mut normal = url.clone();
    match normal_form::normalize(&mut normal) {
        Ok(()) => normal,
        Err(_) => url,
    }
}

/// Rejects paths that only crawler traps have, in time linear in the length of the URL.
fn check_path(url: &str) -> Result<(), RejectReason> {
    // Most URLs have too few segments to check. Two slashes come before the authority.
    if memchr_iter(b'/', url.as_bytes()).count() <= 2 + MAX_SAME_SEGMENT {
        return Ok(());
    }
    let (mut count, mut may_repeat) = (0, false);
    let mut similar = [0u8; 64];
    for segment in path_segments(url) {
        count += 1;
        if count > MAX_PATH_SEGMENTS {
            return Err(RejectReason::TooManySegments);
        }
        // Equal segments agree in length, first and last byte, and few others do.
        let ends = usize::from(segment[0]) * 5 + usize::from(segment[segment.len() - 1]);
        let same = &mut similar[(segment.len() + ends) % 64];
        *same += 1;
        may_repeat |= usize::from(*same) > MAX_SAME_SEGMENT;
    }
    if may_repeat && has_repeated_segment(url) { Err(RejectReason::RepeatedSegments) } else { Ok(()) }
}

/// Whether a segment occurs too often in a path that has at most [`MAX_PATH_SEGMENTS`].
fn has_repeated_segment(url: &str) -> bool {
    let mut segments: Vec<&[u8]> = path_segments(url).collect();
    segments.sort_unstable();
    segments.windows(MAX_SAME_SEGMENT + 1).any(|sorted| sorted[0] == sorted[MAX_SAME_SEGMENT])
}

/// The segments of a URL's path that are not empty.
fn path_segments(url: &str) -> impl Iterator<Item = &[u8]> {
    let end = memchr(b'?', url.as_bytes()).unwrap_or(url.len());
    let path = &url.as_bytes()[..end];
    let mut start = 0;
    let parts = memchr_iter(b'/', path).chain([path.len()]).map(move |end| {
        let part = &path[start..end];
        start = end + 1;
        part
    });
    // The scheme, an empty string and the authority come before the path's segments.
    parts.skip(3).filter(|segment| !segment.is_empty())
}

#[cfg(test)]
mod tests;
