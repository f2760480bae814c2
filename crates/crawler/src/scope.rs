//! Which URLs a crawl may visit: inside the designated prefix, and no trap.

use std::fmt;

use url::Url;

use crate::origin::without_credentials;
use crate::worker::links::BadLink;

/// More path segments than any page worth having; endless relative links grow them without end.
const MAX_PATH_SEGMENTS: usize = 64;

/// How often one segment may stand in a path: `/a/b/a/b/a/b/…` is a link that feeds on itself.
const MAX_SAME_SEGMENT: usize = 4;

/// Why a link is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Outside the designated server or prefix.
    External,
    /// Not a URL that could be asked for.
    Bad(BadLink),
    /// A path of more segments than pages have.
    TooManySegments,
    /// A path that repeats a segment over and over.
    RepeatedSegments,
}

impl Refusal {
    /// The kind this refusal is counted under.
    pub fn label(self) -> &'static str {
        match self {
            Refusal::External => "external",
            Refusal::Bad(BadLink::Malformed) => "malformed",
            Refusal::Bad(BadLink::Scheme) => "neither http nor https",
            Refusal::Bad(BadLink::Credentials) => "with credentials",
            Refusal::Bad(BadLink::TooLong) => "too long",
            Refusal::TooManySegments => "too many path segments",
            Refusal::RepeatedSegments => "repeating path segments",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// The part of the web a crawl stays in: a URL prefix that ends at a boundary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    prefix: String,
}

impl Scope {
    /// The whole server of a URL: its scheme, host and port.
    pub fn origin(url: &Url) -> Scope {
        let mut root = without_credentials(url);
        root.set_path("/");
        root.set_query(None);
        root.set_fragment(None);
        Scope { prefix: root.into() }
    }

    /// Everything at and below a normalised URL: `http://host/tse` holds `/tse`, `/tse/x` and `/tse?x`, not `/tsetse`.
    pub fn prefix(url: &Url) -> Scope {
        Scope { prefix: url.as_str().to_owned() }
    }

    /// The prefix, for messages.
    pub fn as_str(&self) -> &str {
        &self.prefix
    }

    /// Whether a normalised URL without credentials lies inside.
    pub fn holds(&self, url: &str) -> bool {
        match url.strip_prefix(self.prefix.as_str()) {
            None => false,
            Some("") => true,
            Some(rest) if self.prefix.contains('?') => rest.starts_with('&'),
            Some(rest) => self.prefix.ends_with('/') || rest.starts_with(['/', '?']),
        }
    }

    /// Whether a normalised URL without credentials may be visited, and if not, why.
    pub fn check(&self, url: &str) -> Result<(), Refusal> {
        if !self.holds(url) { Err(Refusal::External) } else { check_path(url) }
    }
}

/// Refuses the paths that only a trap has.
fn check_path(url: &str) -> Result<(), Refusal> {
    let path = url.split('?').next().unwrap_or(url);
    // Scheme, empty and authority come before the path's own segments.
    let segments = || path.split('/').skip(3).filter(|segment| !segment.is_empty());
    let count = segments().count();
    if count <= MAX_SAME_SEGMENT {
        return Ok(());
    }
    if count > MAX_PATH_SEGMENTS {
        return Err(Refusal::TooManySegments);
    }
    let repeats = segments().any(|one| segments().filter(|other| *other == one).count() > MAX_SAME_SEGMENT);
    if repeats { Err(Refusal::RepeatedSegments) } else { Ok(()) }
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
        assert_eq!(scope.as_str(), "http://host/");
        assert!(scope.holds("http://host/"));
        assert!(scope.holds("http://host/x?y"));
        for outside in
            ["http://host.evil.example/", "http://host@evil.example/", "http://host:8080/", "https://host/"]
        {
            assert!(!scope.holds(outside), "{outside}");
        }
    }

    #[test]
    fn a_prefix_ends_at_a_boundary() {
        let scope = prefix("http://host/tse");
        for inside in ["http://host/tse", "http://host/tse/", "http://host/tse/x", "http://host/tse?x"] {
            assert!(scope.holds(inside), "{inside}");
        }
        for outside in ["http://host/tsetse", "http://host/ts", "http://host/", "http://host/tse.html"] {
            assert!(!scope.holds(outside), "{outside}");
        }
        assert!(prefix("http://host/tse/").holds("http://host/tse/x"));
        assert!(!prefix("http://host/tse/").holds("http://host/tse"));
        assert!(prefix("http://host/p?id=1").holds("http://host/p?id=1&page=2"));
        assert!(!prefix("http://host/p?id=1").holds("http://host/p?id=12"));
    }

    #[test]
    fn traps_are_refused() {
        let scope = prefix("http://host/");
        let check = |path: &str| scope.check(&format!("http://host{path}"));
        assert_eq!(check("/a/b/c/d/e/f"), Ok(()));
        assert_eq!(check("/a/b/a/b/a/b/a/b"), Ok(()));
        assert_eq!(check("/a/b/a/b/a/b/a/b/a/"), Err(Refusal::RepeatedSegments));
        assert_eq!(
            check(&(0..65).map(|n| format!("/{n}")).collect::<String>()),
            Err(Refusal::TooManySegments)
        );
        assert_eq!(check("/x?a/a/a/a/a/a/a"), Ok(()), "a query is not a path");
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
            prop_assert_eq!(Scope::prefix(&base).holds(url.as_str()), url.origin() == base.origin() && below);
        }
    }
}
