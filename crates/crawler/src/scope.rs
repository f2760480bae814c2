//! Which URLs a crawl may visit: inside the designated prefix, and no trap.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;

use regex::RegexSet;
use url::{Host, Url};

use crate::config::{DnsOverride, FetchConfig};
use crate::domain::Domain;
use crate::error::Error;
use crate::fetch::http::non_public_kind;
use crate::html::BadLink;
use crate::origin::{Origin, throttle_key, without_credentials};

/// More path segments than any page worth having; endless relative links grow them without end.
const MAX_PATH_SEGMENTS: usize = 64;

/// How often one segment may stand in a path: `/a/b/a/b/a/b/…` is a link that feeds on itself.
const MAX_SAME_SEGMENT: usize = 4;

/// Why a link is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectReason {
    /// Outside the designated server or prefix.
    External,
    /// Not a URL that could be asked for.
    InvalidLink(BadLink),
    /// Left out by the user's patterns.
    Excluded,
    /// A path of more segments than pages have.
    TooManySegments,
    /// A path that repeats a segment over and over.
    RepeatedSegments,
    /// At a private or otherwise special address, which pages must not make us reach.
    PrivateAddress,
}

impl RejectReason {
    /// The kind this refusal is counted under.
    pub fn label(self) -> &'static str {
        match self {
            RejectReason::External => "external",
            RejectReason::InvalidLink(BadLink::Malformed) => "malformed",
            RejectReason::InvalidLink(BadLink::Scheme) => "neither http nor https",
            RejectReason::InvalidLink(BadLink::Credentials) => "with credentials",
            RejectReason::InvalidLink(BadLink::TooLong) => "too long",
            RejectReason::InvalidLink(BadLink::TooMany) => "too many links on a page",
            RejectReason::Excluded => "excluded by a pattern",
            RejectReason::TooManySegments => "too many path segments",
            RejectReason::RepeatedSegments => "repeating path segments",
            RejectReason::PrivateAddress => "private address",
        }
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// The part of the web a crawl stays in.
#[derive(Debug, Clone)]
pub struct Scope {
    bounds: Bounds,
    /// If there are any, one of these must match.
    include: Option<RegexSet>,
    /// None of these may match.
    exclude: RegexSet,
    /// Who may be at a special address; everybody if this is not given.
    special: Option<Special>,
}

/// The rule for URLs whose host is a special address, the same that connecting goes by.
#[derive(Debug, Clone)]
struct Special {
    /// What the URLs of the seeds' own origins begin with; these may be anywhere.
    homes: Vec<String>,
    /// Hosts that are in truth elsewhere.
    resolve: Vec<DnsOverride>,
}

#[derive(Debug, Clone)]
enum Bounds {
    Anywhere,
    Domains(HashSet<Domain>),
    Hosts(HashSet<String>),
    /// Each ends at a boundary.
    Prefixes(Vec<String>),
}

impl Scope {
    fn within(bounds: Bounds) -> Scope {
        Scope { bounds, include: None, exclude: RegexSet::empty(), special: None }
    }

    /// The whole web.
    pub fn anywhere() -> Scope {
        Scope::within(Bounds::Anywhere)
    }

    /// The registrable domains of these URLs, with all their hosts.
    pub fn domains(urls: &[Url]) -> Scope {
        Scope::within(Bounds::Domains(urls.iter().map(Domain::from_url).collect()))
    }

    /// The hosts of these URLs, over http and https alike.
    pub fn hosts(urls: &[Url]) -> Scope {
        Scope::within(Bounds::Hosts(urls.iter().map(|url| Origin::from_url(url).throttle_key()).collect()))
    }

    /// The whole server of a URL: its scheme, host and port.
    pub fn origin(url: &Url) -> Scope {
        let mut root = without_credentials(url);
        root.set_path("/");
        root.set_query(None);
        root.set_fragment(None);
        Scope::prefixes(&[root])
    }

    /// Everything at and below a normalised URL: `http://host/tse` holds `/tse`, `/tse/x` and `/tse?x`, not `/tsetse`.
    pub fn prefix(url: &Url) -> Scope {
        Scope::prefixes(std::slice::from_ref(url))
    }

    /// Everything at and below each of these.
    pub fn prefixes(urls: &[Url]) -> Scope {
        Scope::within(Bounds::Prefixes(urls.iter().map(|url| url.as_str().to_owned()).collect()))
    }

    /// Narrows the scope to URLs that match one of the first patterns, if there are any, and none of the second.
    pub fn with_filters(self, include: &[String], exclude: &[String]) -> Result<Scope, Error> {
        let compile = |patterns: &[String]| {
            RegexSet::new(patterns)
                .map_err(|error| Error::InvalidSetting(format!("not a regular expression: {error}")))
        };
        let include = if include.is_empty() { None } else { Some(compile(include)?) };
        Ok(Scope { include, exclude: compile(exclude)?, ..self })
    }

    /// What it is, by the names of the command's options.
    pub fn terms(&self) -> [(&'static str, String); 3] {
        let name = match &self.bounds {
            Bounds::Anywhere => "any",
            Bounds::Domains(_) => "domain",
            Bounds::Hosts(_) => "host",
            Bounds::Prefixes(_) => "prefix",
        };
        let include = self.include.as_ref().map_or(String::new(), |include| include.patterns().join(" "));
        [
            ("--scope", name.to_owned()),
            ("--include", include),
            ("--exclude", self.exclude.patterns().join(" ")),
        ]
    }

    /// Refuses URLs whose host is a special address before anybody tries to connect to it: all but those of the
    /// seeds' own origins and those that the settings send elsewhere, and none where the settings allow them.
    pub fn rejecting_private(self, config: &FetchConfig, seeds: &[Url]) -> Scope {
        let special = (!config.allow_private).then(|| Special {
            homes: seeds.iter().map(|seed| format!("{}/", Origin::from_url(seed))).collect(),
            resolve: config.dns_overrides.clone(),
        });
        Scope { special, ..self }
    }

    /// Where it is bounded, for messages.
    pub fn describe(&self) -> String {
        match &self.bounds {
            Bounds::Anywhere => "the web".into(),
            Bounds::Domains(domains) => domains.iter().map(Domain::as_str).collect::<Vec<_>>().join(", "),
            Bounds::Hosts(hosts) => hosts.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
            Bounds::Prefixes(prefixes) => prefixes.join(", "),
        }
    }

    /// Whether a normalised URL without credentials lies inside the bounds.
    pub fn contains(&self, url: &str) -> bool {
        match &self.bounds {
            Bounds::Anywhere => true,
            Bounds::Domains(domains) => domains.contains(&Domain::from_url_str(url)),
            Bounds::Hosts(hosts) => hosts.contains(throttle_key(url)),
            Bounds::Prefixes(prefixes) => prefixes.iter().any(|prefix| is_below(prefix, url)),
        }
    }

    /// Whether a normalised URL without credentials may be visited, and if not, why.
    pub fn check(&self, url: &str) -> Result<(), RejectReason> {
        if !self.contains(url) {
            return Err(RejectReason::External);
        }
        if self.include.as_ref().is_some_and(|include| !include.is_match(url)) || self.exclude.is_match(url) {
            return Err(RejectReason::Excluded);
        }
        if self.special.as_ref().is_some_and(|special| special.refuses(url)) {
            return Err(RejectReason::PrivateAddress);
        }
        check_path(url)
    }
}

impl Special {
    fn refuses(&self, url: &str) -> bool {
        if self.homes.iter().any(|home| url.starts_with(home)) {
            return false;
        }
        // Hardly any link names an address, and those are told by their last character.
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
        non_public_kind(address).is_some() && !self.resolve.iter().any(|resolve| resolve.matches(host))
    }
}

fn is_below(prefix: &str, url: &str) -> bool {
    match url.strip_prefix(prefix) {
        None => false,
        Some("") => true,
        Some(rest) if prefix.contains('?') => rest.starts_with('&'),
        Some(rest) => prefix.ends_with('/') || rest.starts_with(['/', '?']),
    }
}

/// Refuses the paths that only a trap has.
fn check_path(url: &str) -> Result<(), RejectReason> {
    // Most URLs have too few segments to be looked at: two slashes come before the authority.
    if memchr::memchr_iter(b'/', url.as_bytes()).count() <= 2 + MAX_SAME_SEGMENT {
        return Ok(());
    }
    let path = url.split('?').next().unwrap_or(url);
    // Scheme, empty and authority come before the path's own segments.
    let segments = || path.split('/').skip(3).filter(|segment| !segment.is_empty());
    let count = segments().count();
    if count <= MAX_SAME_SEGMENT {
        return Ok(());
    }
    if count > MAX_PATH_SEGMENTS {
        return Err(RejectReason::TooManySegments);
    }
    let repeats = segments().any(|one| segments().filter(|other| *other == one).count() > MAX_SAME_SEGMENT);
    if repeats { Err(RejectReason::RepeatedSegments) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefix(text: &str) -> Scope {
        Scope::prefix(&Url::parse(text).unwrap())
    }

    #[test]
    fn an_origin_holds_its_own_scheme_host_and_port_only() {
        let scope = Scope::origin(&Url::parse("http://me:secret@host/a/b?c#d").unwrap());
        assert_eq!(scope.describe(), "http://host/");
        assert!(scope.contains("http://host/"));
        assert!(scope.contains("http://host/x?y"));
        for outside in
            ["http://host.evil.example/", "http://host@evil.example/", "http://host:8080/", "https://host/"]
        {
            assert!(!scope.contains(outside), "{outside}");
        }
    }

    #[test]
    fn a_prefix_ends_at_a_boundary() {
        let scope = prefix("http://host/tse");
        for inside in ["http://host/tse", "http://host/tse/", "http://host/tse/x", "http://host/tse?x"] {
            assert!(scope.contains(inside), "{inside}");
        }
        for outside in ["http://host/tsetse", "http://host/ts", "http://host/", "http://host/tse.html"] {
            assert!(!scope.contains(outside), "{outside}");
        }
        assert!(prefix("http://host/tse/").contains("http://host/tse/x"));
        assert!(!prefix("http://host/tse/").contains("http://host/tse"));
        assert!(prefix("http://host/p?id=1").contains("http://host/p?id=1&page=2"));
        assert!(!prefix("http://host/p?id=1").contains("http://host/p?id=12"));
    }

    #[test]
    fn domains_and_hosts_hold_what_belongs_to_them() {
        let seeds = [Url::parse("http://www.a.co.uk/x").unwrap()];
        let (domain, host) = (Scope::domains(&seeds), Scope::hosts(&seeds));
        assert!(domain.contains("https://mail.a.co.uk/") && !domain.contains("http://b.co.uk/"));
        assert!(host.contains("https://www.a.co.uk/") && !host.contains("http://mail.a.co.uk/"));
        assert!(!host.contains("http://www.a.co.uk:81/"));
    }

    #[test]
    fn patterns_narrow_the_scope() {
        let scope = |include: &[&str], exclude: &[&str]| {
            let owned = |patterns: &[&str]| patterns.iter().map(|p| p.to_string()).collect::<Vec<_>>();
            Scope::anywhere().with_filters(&owned(include), &owned(exclude))
        };
        let docs = scope(&["/docs/"], &[r"\.pdf$"]).unwrap();
        assert_eq!(docs.check("http://a/docs/x"), Ok(()));
        assert_eq!(docs.check("http://a/x"), Err(RejectReason::Excluded));
        assert_eq!(docs.check("http://a/docs/x.pdf"), Err(RejectReason::Excluded));
        assert!(scope(&["("], &[]).is_err());
    }

    #[test]
    fn traps_are_refused() {
        let scope = prefix("http://host/");
        let check = |path: &str| scope.check(&format!("http://host{path}"));
        assert_eq!(check("/a/b/c/d/e/f"), Ok(()));
        assert_eq!(check("/a/b/a/b/a/b/a/b"), Ok(()));
        assert_eq!(check("/a/b/a/b/a/b/a/b/a/"), Err(RejectReason::RepeatedSegments));
        assert_eq!(
            check(&(0..65).map(|n| format!("/{n}")).collect::<String>()),
            Err(RejectReason::TooManySegments)
        );
        assert_eq!(check("/x?a/a/a/a/a/a/a"), Ok(()), "a query is not a path");
    }

    #[test]
    fn special_addresses_are_refused_unless_they_are_a_seeds_own_or_sent_elsewhere() {
        let seeds = [Url::parse("http://127.0.0.1:8080/").unwrap()];
        let resolve = vec![DnsOverride { host: "10.1.1.1".into(), address: [192, 0, 2, 1].into() }];
        let mut config = FetchConfig { dns_overrides: resolve, ..FetchConfig::default() };
        let scope = Scope::anywhere().rejecting_private(&config, &seeds);
        let special = "http://127.0.0.1/ http://127.0.0.1:8081/ https://127.0.0.1:8080/ http://10.0.0.1/x \
            http://169.254.169.254/latest http://[::1]/ http://[::1]:99/ http://[::ffff:a00:1]/ https://192.168.0.1?a";
        for url in special.split_whitespace() {
            // What is checked is normalised: an address of any spelling is in its usual one.
            let url = Url::parse(url).unwrap();
            assert_eq!(scope.check(url.as_str()), Err(RejectReason::PrivateAddress), "{url}");
        }
        for odd in ["http://2130706433/", "http://0x7f.1/", "http://127.1./", "http://017700000001:80/"] {
            let url = Url::parse(odd).unwrap();
            assert_eq!(scope.check(url.as_str()), Err(RejectReason::PrivateAddress), "{odd}");
        }
        let others = "http://127.0.0.1:8080/x http://10.1.1.1/ http://8.8.8.8/ http://[2606:4700::1111]/ http://host1/ \
            http://a.test:8080/10.0.0.1 http://a1:1/";
        for url in others.split_whitespace() {
            assert_eq!(scope.check(url), Ok(()), "{url}");
        }
        config.allow_private = true;
        let scope = Scope::anywhere().rejecting_private(&config, &seeds);
        assert_eq!(scope.check("http://10.0.0.1/"), Ok(()));
        assert_eq!(prefix("http://10.0.0.1/").check("http://10.0.0.1/x"), Ok(()), "unless it is asked for");
    }

    proptest! {
        /// Inside means: same scheme, host and port, and a path that goes on from the prefix's at a segment's end.
        #[test]
        fn a_prefix_holds_what_comparing_parsed_urls_says(
            prefix_path in "/[a-c]{0,2}(/[a-c]{0,2}){0,2}", path in "/[a-c]{0,2}(/[a-c]{0,2}){0,3}",
            host in "(a|b)(\\.a)?", port in prop::option::of(80u16..83), https: bool, query in "(\\?[a-c/]{0,3})?",
        ) {
            let base = Url::parse(&format!("http://a:81{prefix_path}")).unwrap();
            let port = port.map(|port| format!(":{port}")).unwrap_or_default();
            let scheme = if https { "https" } else { "http" };
            let url = Url::parse(&format!("{scheme}://{host}{port}{path}{query}")).unwrap();
            let below = url.path() == base.path()
                || url.path().strip_prefix(base.path())
                    .is_some_and(|rest| base.path().ends_with('/') || rest.starts_with('/'));
            prop_assert_eq!(Scope::prefix(&base).contains(url.as_str()), url.origin() == base.origin() && below);
        }
    }
}
