//! Removes query parameters from URLs, before URLs are compared and fetched.

use std::borrow::Cow;

use memchr::memchr;
use regex::Regex;
use url::Url;

use crate::error::Error;
use crate::html::parts::{LinkDetail, PageParts};
use crate::html::start_tag::RequisiteKind;
use crate::html::{BadLink, LinkKind, PageHandler};

/// The name that stands for [`TRACKING`].
const TRACKING_PRESET: &str = "tracking";

/// Parameters that track where a visitor came from, and do not change the page.
#[rustfmt::skip]
const TRACKING: [&str; 39] = [
    "utm_*", "gclid", "gclsrc", "gbraid", "wbraid", "dclid", "srsltid", "_ga", "_gl", "fbclid", "igshid", "igsh",
    "msclkid", "twclid", "ttclid", "li_fat_id", "epik", "rdt_cid", "yclid", "ysclid", "_openstat", "mc_cid", "mc_eid",
    "mkt_tok", "_hsenc", "_hsmi", "__hssc", "__hstc", "__hsfp", "hsCtaTracking", "vero_id", "vero_conv", "oly_anon_id",
    "oly_enc_id", "wickedid", "ef_id", "s_kwcid", "mtm_*", "pk_*",
];

/// The longest pattern: longer than any name in use, and short enough that many of them compile.
const MAX_PATTERN_BYTES: usize = 256;

/// The query parameters to remove; none by default.
#[derive(Debug, Clone, Default)]
pub struct StripQuery {
    patterns: Vec<String>,
    /// Matches the names of all parameters to remove.
    names: Option<Regex>,
}

impl StripQuery {
    /// Removes the parameters whose names match one of these patterns. In a pattern, `*` stands for any characters and
    /// `?` for any one. The pattern `tracking` stands for a list of tracking parameters.
    pub fn new<P: AsRef<str>>(patterns: &[P]) -> Result<StripQuery, Error> {
        let mut all = StripQuery::default();
        for pattern in patterns {
            all = all.with(pattern.as_ref())?;
        }
        Ok(all)
    }

    /// Also removes the parameters whose names match this pattern.
    pub fn with(mut self, pattern: &str) -> Result<StripQuery, Error> {
        let invalid = |cause: &str| {
            Error::InvalidSetting(format!("cannot remove query parameters {pattern:?}: {cause}"))
        };
        if pattern.is_empty() || pattern.len() > MAX_PATTERN_BYTES {
            return Err(invalid("use a name of 1 to 256 characters, such as utm_* or sid"));
        }
        if !pattern.bytes().all(|byte| matches!(byte, b'!'..=b'~')) || pattern.contains(['&', '=', '#']) {
            return Err(invalid("use a parameter name as it is in URLs, without '&', '=' and '#'"));
        }
        self.patterns.push(pattern.to_owned());
        let names = self.patterns.iter().flat_map(|pattern| match pattern.as_str() {
            TRACKING_PRESET => &TRACKING[..],
            _ => &[],
        });
        let own = self.patterns.iter().map(String::as_str).filter(|pattern| *pattern != TRACKING_PRESET);
        let names: Vec<String> = names.copied().chain(own).map(regex_of).collect();
        let names = Regex::new(&format!("^(?:{})$", names.join("|")));
        self.names = Some(names.map_err(|_| invalid("with the others it is too large; use fewer patterns"))?);
        Ok(self)
    }

    /// The patterns, as they were given.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// A normalized URL without the parameters to remove.
    pub fn strip<'u>(&self, url: &'u str) -> Cow<'u, str> {
        let Some(names) = &self.names else { return Cow::Borrowed(url) };
        let Some(path_end) = memchr(b'?', url.as_bytes()) else { return Cow::Borrowed(url) };
        let parameters = || url[path_end + 1..].split('&');
        let is_removed = |parameter: &&str| names.is_match(parameter.split('=').next().unwrap_or_default());
        if !parameters().any(|parameter| is_removed(&parameter)) {
            return Cow::Borrowed(url);
        }
        let kept: Vec<&str> = parameters().filter(|parameter| !is_removed(parameter)).collect();
        match kept.join("&") {
            query if query.is_empty() => Cow::Borrowed(&url[..path_end]),
            query => Cow::Owned(format!("{}?{query}", &url[..path_end])),
        }
    }

    /// Removes the parameters from a URL. It may contain credentials.
    pub fn strip_url(&self, url: &mut Url) {
        let stripped = match self.strip(url.as_str()) {
            Cow::Borrowed(text) if text.len() == url.as_str().len() => None,
            text => Url::parse(&text).ok(),
        };
        *url = stripped.unwrap_or_else(|| url.clone());
    }
}

/// Removes query parameters from the links of a page, and passes the page on to another handler.
pub(crate) struct StripLinks<'s, H> {
    strip_query: &'s StripQuery,
    pub(crate) inner: H,
}

impl<'s, H: PageHandler> StripLinks<'s, H> {
    pub(crate) fn new(strip_query: &'s StripQuery, inner: H) -> Self {
        StripLinks { strip_query, inner }
    }
}

impl<H: PageHandler> PageHandler for StripLinks<'_, H> {
    #[inline]
    fn text(&mut self, run: &[u8]) {
        self.inner.text(run);
    }

    fn title(&mut self, content: &[u8]) {
        self.inner.title(content);
    }

    fn wants_title(&self) -> bool {
        self.inner.wants_title()
    }

    fn robots_meta(&mut self, name: &str, content: &str) {
        self.inner.robots_meta(name, content);
    }

    fn expect_links(&mut self, count: usize) {
        self.inner.expect_links(count);
    }

    fn wanted_parts(&self) -> PageParts {
        self.inner.wanted_parts()
    }

    fn link_detail(&mut self, detail: LinkDetail) {
        self.inner.link_detail(detail);
    }

    fn bad_link_detail(&mut self, bad_link: BadLink, target: &str, detail: LinkDetail) {
        self.inner.bad_link_detail(bad_link, target, detail);
    }

    fn requisite(&mut self, kind: RequisiteKind, target: Result<&str, BadLink>) {
        let target = target.map(|url| self.strip_query.strip(url));
        self.inner.requisite(kind, target.as_deref().map_err(|bad_link| *bad_link));
    }

    fn requisite_label(&mut self, label: &str) {
        self.inner.requisite_label(label);
    }

    fn id(&mut self, id: Option<&str>) {
        self.inner.id(id);
    }

    fn link(&mut self, kind: LinkKind, target: Result<&str, BadLink>) {
        let target = target.map(|url| self.strip_query.strip(url));
        self.inner.link(kind, target.as_deref().map_err(|bad_link| *bad_link));
    }

    fn link_to_itself(&mut self, kind: LinkKind, target: Result<&str, BadLink>) {
        let target = target.map(|url| self.strip_query.strip(url));
        self.inner.link_to_itself(kind, target.as_deref().map_err(|bad_link| *bad_link));
    }
}

/// The regular expression of a pattern.
fn regex_of(pattern: &str) -> String {
    regex::escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(patterns: &[&str], url: &str) -> String {
        StripQuery::new(patterns).unwrap().strip(url).into_owned()
    }

    #[test]
    fn parameters_are_removed_by_name_and_the_others_stay() {
        for (url, expected) in [
            ("http://h/", "http://h/"),
            ("http://h/?a=1&b=2", "http://h/?a=1&b=2"),
            ("http://h/?utm_source=x", "http://h/"),
            ("http://h/?utm_source=x&a=1&utm_medium&sid=7", "http://h/?a=1"),
            ("http://h/?a=1&sid&b", "http://h/?a=1&b"),
            ("http://h/?xsid=1&sidx=2&SID=3", "http://h/?xsid=1&sidx=2&SID=3"),
            ("http://h/?a=utm_x&&a=sid", "http://h/?a=utm_x&&a=sid"),
            ("http://h/?&sid=1", "http://h/"),
            ("http://h/sid=1", "http://h/sid=1"),
        ] {
            assert_eq!(stripped(&["utm_*", "sid"], url), expected, "{url}");
        }
        assert_eq!(stripped(&[], "http://h/?utm_source=x"), "http://h/?utm_source=x");
        assert_eq!(stripped(&["s?d", "a.b"], "http://h/?sad=1&sd=2&axb=3&a.b=4"), "http://h/?sd=2&axb=3");
        assert_eq!(stripped(&["*"], "http://h/?a=1&b=2"), "http://h/");
    }

    #[test]
    fn preset_stands_for_tracking_parameters() {
        let url = "http://h/?utm_source=a&gclid=b&fbclid=c&_hsenc=d&id=5&tracking=e";
        assert_eq!(stripped(&["tracking"], url), "http://h/?id=5&tracking=e");
        assert_eq!(stripped(&["tracking", "id"], url), "http://h/?tracking=e");
        assert_eq!(stripped(&["tracking*"], "http://h/?tracking=e&gclid=b"), "http://h/?gclid=b");
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for pattern in ["", "a=b", "a&b", "a b", "é", "#", &"x".repeat(257)] {
            let error = StripQuery::new(&[pattern]).unwrap_err().to_string();
            assert!(error.starts_with("cannot remove query parameters"), "{error}");
        }
        assert_eq!(
            stripped(&["a[]", "(b|c)+", "^d$"], "http://h/?a[]=1&b=2&(b|c)+=3&^d$=4"),
            "http://h/?b=2"
        );
    }

    #[test]
    fn credentials_stay_in_a_url() {
        let mut url = Url::parse("http://me:secret@h/x?sid=1&a").unwrap();
        StripQuery::new(&["sid"]).unwrap().strip_url(&mut url);
        assert_eq!(url.as_str(), "http://me:secret@h/x?a");
    }
}
