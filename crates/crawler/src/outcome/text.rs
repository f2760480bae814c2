//! What the text of a stored outcome says: its label, and the other URL that it names.

use std::borrow::Cow;

use super::{LINKS_FOLLOWED, Outcome};
use crate::scope::RejectReason;

/// The labels of outcomes. Redis stores their indices, so the order must not change.
pub(crate) const LABELS: [&str; 38] = [
    "page",
    "redirect",
    "redirect out of scope",
    "too many redirects",
    "robots.txt",
    "robots.txt unavailable",
    "duplicate",
    "near-duplicate",
    "host page limit",
    "not a page",
    "too large",
    HTTP,
    "DNS",
    "connection",
    "TLS",
    "timeout",
    "invalid response",
    "not written",
    "not reached",
    "redirect loop",
    "host unreachable",
    "DNS unavailable",
    "site page limit",
    "excluded",
    "out of scope",
    "private address",
    "too many path segments",
    "repeated path segments",
    "sitemap",
    "sitemap failed",
    "sitemap unavailable",
    "proxy unavailable",
    "proxy refused",
    "requisite",
    "not saved",
    "checked",
    "blocked",
    "unchanged",
];

/// Stands for all HTTP statuses. Their labels end with the status.
pub(crate) const HTTP: &str = "HTTP";

/// The other URL that an outcome names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedUrl<'o> {
    /// The target of a redirect, and why it was rejected, if it was.
    Target {
        /// The target.
        to: &'o str,
        /// Why it is not followed.
        rejected: Option<Cow<'o, str>>,
    },
    /// The page that this one equals.
    Original {
        /// Its URL.
        of: &'o str,
        /// Whether the pages are not identical.
        is_near: bool,
    },
}

/// The [label](Outcome::label) of an outcome that was stored as its `Display` text, which starts with it.
pub fn label_of_text(text: &str) -> &str {
    let labels = LABELS.iter().filter(|label| text.starts_with(**label));
    match labels.max_by_key(|label| label.len()) {
        Some(&HTTP) | None => text,
        Some(label) => label,
    }
}

/// The other URL that an outcome names.
pub fn named_url(outcome: &Outcome) -> Option<NamedUrl<'_>> {
    Some(match outcome {
        Outcome::Redirect { to } => NamedUrl::Target { to, rejected: None },
        Outcome::RedirectRejected { to, why } => NamedUrl::Target { to, rejected: Some(why.label().into()) },
        Outcome::Duplicate { of, .. } => NamedUrl::Original { of, is_near: false },
        Outcome::NearDuplicate { of, .. } => NamedUrl::Original { of, is_near: true },
        _ => return None,
    })
}

/// The other URL that an outcome names which was stored as its `Display` text.
pub fn named_url_of_text(text: &str) -> Option<NamedUrl<'_>> {
    let rest = text.strip_prefix(label_of_text(text))?;
    // No URL contains a space.
    Some(match label_of_text(text) {
        "redirect" => NamedUrl::Target { to: rest.strip_prefix(" to ")?, rejected: None },
        "redirect out of scope" => {
            let rest = rest.strip_prefix(": ")?;
            let (to, why) = match rest.strip_suffix(')').and_then(|rest| rest.rsplit_once(" (")) {
                Some((to, why)) => (to, why),
                None => (rest, RejectReason::External.label()),
            };
            NamedUrl::Target { to, rejected: Some(why.into()) }
        }
        label @ ("duplicate" | "near-duplicate") => {
            let of = rest.strip_prefix(" of ")?;
            let of = of.strip_suffix(LINKS_FOLLOWED).unwrap_or(of);
            NamedUrl::Original { of, is_near: label == "near-duplicate" }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::BadLink;
    use crate::outcome::tests::all_outcomes;

    #[test]
    fn label_and_other_url_are_read_back_from_the_text() {
        let to = || "http://a.test/x".to_owned();
        let redirects =
            [RejectReason::External, RejectReason::Excluded, RejectReason::InvalidLink(BadLink::TooLong)]
                .map(|why| Outcome::RedirectRejected { to: to(), why });
        let others = [
            Outcome::Redirect { to: to() },
            Outcome::Duplicate { of: to(), links_followed: false },
            Outcome::NearDuplicate { of: to(), links_followed: true },
        ];
        for outcome in all_outcomes().into_iter().chain(redirects).chain(others) {
            let text = outcome.to_string();
            assert_eq!(label_of_text(&text), outcome.label(), "{text}");
            assert_eq!(named_url_of_text(&text), named_url(&outcome), "{text}");
        }
    }
}
