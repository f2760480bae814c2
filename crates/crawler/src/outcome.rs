//! The outcome of an admitted URL: each URL gets exactly one.

mod text;

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use crate::config::MAX_RETRY_AFTER;
use crate::fetch::http::ADDRESS_KINDS;
use crate::format::counted;
use crate::scope::RejectReason;

pub(crate) use self::text::{HTTP, LABELS};
pub use self::text::{NamedUrl, label_of_text, named_url, named_url_of_text};

/// The result of one admitted URL.
///
/// - [`label`](Outcome::label) is the short name under which the outcome is counted: `HTTP 404`, `timeout`, `robots.txt`.
/// - [`group`](Outcome::group) is the group of the label: page, redirect, skipped, failed, sitemap, requisite, checked, unchanged or
///   not reached.
/// - `Display` is the label with the full reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Outcome {
    /// Downloaded and passed to the modules and outputs.
    Page,
    /// A redirect whose target was admitted or had been seen before.
    #[non_exhaustive]
    Redirect {
        /// The target, normalized.
        to: String,
    },
    /// A redirect to a URL that would be rejected as a link, too.
    #[non_exhaustive]
    RedirectRejected {
        /// The target, normalized as far as possible.
        to: String,
        /// Why the target was rejected.
        why: RejectReason,
    },
    /// More consecutive redirects than the crawl follows.
    TooManyRedirects,
    /// A redirect to the URL itself.
    RedirectToSelf,
    /// The settings with which the crawl was resumed reject the URL.
    #[non_exhaustive]
    Rejected {
        /// Why they are rejected.
        why: RejectReason,
    },
    /// robots.txt disallows the URL.
    RobotsDisallowed,
    /// robots.txt could not be fetched, so the host counts as disallowed.
    #[non_exhaustive]
    RobotsUnavailable {
        /// Why it could not be fetched.
        cause: String,
    },
    /// The content is identical to another page's.
    #[non_exhaustive]
    Duplicate {
        /// The URL of the other page.
        of: String,
        /// Whether links on the page were still followed.
        links_followed: bool,
    },
    /// The content is nearly identical to another page's.
    #[non_exhaustive]
    NearDuplicate {
        /// The URL of the other page.
        of: String,
        /// Whether links on the page were still followed.
        links_followed: bool,
    },
    /// The host has reached its page limit.
    HostPageLimit,
    /// The site, which is all hosts of a registrable domain, has reached its page limit.
    SitePageLimit,
    /// Neither HTML nor text.
    #[non_exhaustive]
    UnsupportedMedia {
        /// The media type.
        what: String,
    },
    /// Larger than the page size limit.
    #[non_exhaustive]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// An HTTP status other than success or redirect.
    #[non_exhaustive]
    HttpStatus {
        /// The status code.
        code: u16,
        /// The delay of the `Retry-After` header.
        retry_after: Option<Duration>,
    },
    /// The host name could not be resolved.
    #[non_exhaustive]
    DnsFailed {
        /// The reason.
        cause: String,
        /// Whether the name may be resolved later: the resolver failed, and did not find out that there is no address.
        is_temporary: bool,
    },
    /// The host has a private or special address, to which pages must not lead the crawler.
    #[non_exhaustive]
    BlockedAddress {
        /// The address.
        address: IpAddr,
        /// The kind of address.
        #[serde(deserialize_with = "known_text")]
        kind: StaticText,
    },
    /// The connection could not be established, or broke.
    #[non_exhaustive]
    ConnectionFailed {
        /// The system's error.
        cause: String,
    },
    /// The server closed a kept-alive connection before the request reached it. Says nothing about the URL.
    StaleConnection,
    /// The server refused to process the request on this connection. Says nothing about the URL.
    RequestNotProcessed,
    /// The proxy could not be used, or refused to connect to the host.
    #[non_exhaustive]
    ProxyFailed {
        /// What the proxy did.
        cause: String,
        /// Whether the proxy may work later. Otherwise it works, and refuses this host.
        is_temporary: bool,
    },
    /// The TLS handshake failed, or the certificate is invalid.
    #[non_exhaustive]
    TlsFailed {
        /// What is wrong.
        cause: String,
    },
    /// A phase of the request exceeded its time limit.
    #[non_exhaustive]
    Timeout {
        /// The phase.
        #[serde(deserialize_with = "known_text")]
        doing: StaticText,
        /// Its time limit.
        limit: Duration,
    },
    /// The URL was not requested, because its host repeatedly failed to connect or to respond in time.
    #[non_exhaustive]
    HostUnreachable {
        /// The host's last failure.
        cause: String,
    },
    /// The response is not valid HTTP.
    #[non_exhaustive]
    InvalidResponse {
        /// What is wrong with it.
        cause: String,
    },
    /// Downloaded, but could not be written.
    #[non_exhaustive]
    WriteFailed {
        /// The system's error.
        cause: String,
    },
    /// A sitemap, and not a page.
    #[non_exhaustive]
    Sitemap {
        /// How many URLs it lists, in scope or not.
        urls: u64,
    },
    /// A sitemap that could not be fetched, or not be read to its end. The URLs that were read are used.
    #[non_exhaustive]
    SitemapFailed {
        /// What is wrong with it.
        cause: String,
        /// Whether a later request may succeed.
        is_temporary: bool,
    },
    /// A file that a browser needs to show a page, and not a page.
    Requisite,
    /// Downloaded, and not passed to modules and outputs because of the settings. Its links were followed.
    NotSaved,
    /// A link that was checked and not crawled: a request showed that it can be fetched.
    Checked,
    /// Visited again, and the same as before: the server said so, or the body was equal.
    Unchanged,
    /// Still pending when the crawl stopped.
    NotReached,
}

/// A text of the program. serde would require that messages live for ever to contain a `&'static str`.
type StaticText = &'static str;

/// The phases of a request that have a time limit.
pub(crate) const CONNECTING: &str = "connecting";
pub(crate) const THE_REQUEST: &str = "the request";
pub(crate) const THE_PROXIED_REQUEST: &str = "the request through the proxy";

/// Reads a phase of a request or a kind of address that another process of the same version has written.
fn known_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static str, D::Error> {
    let text = Cow::<str>::deserialize(deserializer)?;
    let known = [CONNECTING, THE_REQUEST, THE_PROXIED_REQUEST]
        .into_iter()
        .chain(ADDRESS_KINDS)
        .find(|known| *known == text);
    Ok(known.unwrap_or("unknown"))
}

/// Ends the text of a duplicate's outcome. No URL contains a space.
const LINKS_FOLLOWED: &str = " (links followed)";

/// The groups of outcomes in summaries. The counts of all groups add up to the admitted URLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OutcomeGroup {
    /// Pages.
    Page,
    /// Redirects whose target is crawled instead.
    Redirect,
    /// Left out by the rules of the crawl: robots.txt, duplicates, media types, limits.
    Skipped,
    /// Should have been a page, but an error occurred.
    Failed,
    /// Sitemaps, also those that failed.
    Sitemap,
    /// Files that browsers need to show pages.
    Requisite,
    /// Links that were checked and not crawled, and can be fetched.
    Checked,
    /// Visited again, and the same as before.
    Unchanged,
    /// Still pending when the crawl stopped.
    NotReached,
}

/// The group of an outcome's [label](Outcome::label). Labels of errors are open-ended (`HTTP 404`), so every label
/// that is not in another group counts as failed.
pub fn group_of_label(label: &str) -> OutcomeGroup {
    match label {
        "page" => OutcomeGroup::Page,
        "redirect" => OutcomeGroup::Redirect,
        "redirect out of scope"
        | "excluded"
        | "blocked"
        | "out of scope"
        | "private address"
        | "too many path segments"
        | "repeated path segments"
        | "robots.txt"
        | "duplicate"
        | "near-duplicate"
        | "host page limit"
        | "site page limit"
        | "not a page"
        | "too large"
        | "not saved" => OutcomeGroup::Skipped,
        "requisite" => OutcomeGroup::Requisite,
        "sitemap" | "sitemap failed" | "sitemap unavailable" => OutcomeGroup::Sitemap,
        "checked" => OutcomeGroup::Checked,
        "unchanged" => OutcomeGroup::Unchanged,
        "not reached" => OutcomeGroup::NotReached,
        _ => OutcomeGroup::Failed,
    }
}

/// [`is_temporary`](Outcome::is_temporary) of the outcomes with a label.
pub fn label_is_temporary(label: &str) -> bool {
    match label {
        "connection"
        | "timeout"
        | "host unreachable"
        | "DNS unavailable"
        | "proxy unavailable"
        | "robots.txt unavailable"
        | "sitemap unavailable" => true,
        label => match label.strip_prefix("HTTP ").and_then(|code| code.parse().ok()) {
            Some(408 | 425 | 429) => true,
            Some(code) => (500..600).contains(&code) && ![501, 505].contains(&code),
            None => false,
        },
    }
}

impl Outcome {
    /// The short name under which the outcome is counted. There are about twenty, and one per HTTP status code.
    pub fn label(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Outcome::Page => "page",
            Outcome::Redirect { .. } => "redirect",
            Outcome::RedirectRejected { .. } => "redirect out of scope",
            Outcome::TooManyRedirects => "too many redirects",
            Outcome::RedirectToSelf => "redirect loop",
            Outcome::Rejected { why } => why.label(),
            Outcome::RobotsDisallowed => "robots.txt",
            Outcome::RobotsUnavailable { .. } => "robots.txt unavailable",
            Outcome::Duplicate { .. } => "duplicate",
            Outcome::NearDuplicate { .. } => "near-duplicate",
            Outcome::HostPageLimit => "host page limit",
            Outcome::SitePageLimit => "site page limit",
            Outcome::UnsupportedMedia { .. } => "not a page",
            Outcome::TooLarge { .. } => "too large",
            Outcome::HttpStatus { code, .. } => return Cow::Owned(format!("HTTP {code}")),
            Outcome::DnsFailed { is_temporary: false, .. } => "DNS",
            Outcome::DnsFailed { is_temporary: true, .. } => "DNS unavailable",
            Outcome::BlockedAddress { .. } => RejectReason::PrivateAddress.label(),
            Outcome::ConnectionFailed { .. } | Outcome::StaleConnection | Outcome::RequestNotProcessed => {
                "connection"
            }
            Outcome::ProxyFailed { is_temporary: true, .. } => "proxy unavailable",
            Outcome::ProxyFailed { is_temporary: false, .. } => "proxy refused",
            Outcome::TlsFailed { .. } => "TLS",
            Outcome::Timeout { .. } => "timeout",
            Outcome::HostUnreachable { .. } => "host unreachable",
            Outcome::InvalidResponse { .. } => "invalid response",
            Outcome::WriteFailed { .. } => "not written",
            Outcome::Sitemap { .. } => "sitemap",
            Outcome::SitemapFailed { is_temporary: false, .. } => "sitemap failed",
            Outcome::SitemapFailed { is_temporary: true, .. } => "sitemap unavailable",
            Outcome::Requisite => "requisite",
            Outcome::NotSaved => "not saved",
            Outcome::Checked => "checked",
            Outcome::Unchanged => "unchanged",
            Outcome::NotReached => "not reached",
        })
    }

    /// The group that the outcome belongs to.
    pub fn group(&self) -> OutcomeGroup {
        group_of_label(&self.label())
    }

    /// Whether the URL failed temporarily, so that a later request may succeed:
    ///
    /// - The host could not be reached, did not respond in time, or closed the connection.
    /// - Its name could not be resolved, because the DNS server failed.
    /// - The proxy could not be used.
    /// - Its robots.txt could not be fetched.
    /// - The HTTP status is 408, 425, 429 or 5xx, except 501 and 505.
    ///
    /// A URL that was [not reached](Outcome::NotReached) did not fail.
    pub fn is_temporary(&self) -> bool {
        label_is_temporary(&self.label())
    }

    /// The label of a [temporary](Outcome::is_temporary) failure that was stored as its `Display` text.
    pub(crate) fn label_of_temporary<'l>(
        text: &str,
        labels: impl IntoIterator<Item = &'l String>,
    ) -> Option<&'l String> {
        labels.into_iter().find(|label| label_is_temporary(label) && text.starts_with(label.as_str()))
    }

    /// Whether the URL led to further URLs.
    pub(crate) fn has_links(&self) -> bool {
        match self {
            Outcome::Page | Outcome::Unchanged | Outcome::NotSaved | Outcome::Redirect { .. } => true,
            Outcome::Duplicate { links_followed, .. } | Outcome::NearDuplicate { links_followed, .. } => {
                *links_followed
            }
            _ => false,
        }
    }

    /// [`has_links`](Outcome::has_links) of an outcome that was stored as its `Display` text.
    pub(crate) fn text_has_links(text: &str) -> bool {
        let is_duplicate = text.starts_with("duplicate of ") || text.starts_with("near-duplicate of ");
        ["page", "unchanged", "not saved"].contains(&text)
            || text.starts_with("redirect to ")
            || is_duplicate && text.ends_with(LINKS_FOLLOWED)
    }

    /// The full text, if it says more than [`text_of_label`](Outcome::text_of_label).
    pub(crate) fn reason(&self) -> Option<String> {
        match self {
            // Most URLs of a crawl have one of these.
            Outcome::Page | Outcome::HttpStatus { .. } | Outcome::RobotsDisallowed => None,
            outcome => {
                let text = outcome.to_string();
                (text != Outcome::text_of_label(&outcome.label())).then_some(text)
            }
        }
    }

    /// The text of the outcomes with a label, as far as it is the same for all of them.
    pub(crate) fn text_of_label(label: &str) -> Cow<'_, str> {
        match label {
            "robots.txt" => Outcome::RobotsDisallowed.to_string().into(),
            "host page limit" => Outcome::HostPageLimit.to_string().into(),
            "site page limit" => Outcome::SitePageLimit.to_string().into(),
            "redirect loop" => Outcome::RedirectToSelf.to_string().into(),
            "blocked" => Outcome::Rejected { why: RejectReason::Blocked }.to_string().into(),
            label => label.into(),
        }
    }

    /// Whether the server's `Retry-After` exceeds what the crawler waits for a single URL.
    pub(crate) fn exceeds_max_retry_after(&self) -> bool {
        matches!(self, Outcome::HttpStatus { retry_after: Some(time), .. } if *time > MAX_RETRY_AFTER)
    }

    /// Whether the same request may succeed soon. The outcomes for which the crawler has waited long already are
    /// [temporary](Outcome::is_temporary), too.
    pub(crate) fn is_retryable(&self) -> bool {
        let has_waited = matches!(
            self,
            Outcome::RobotsUnavailable { .. }
                | Outcome::HostUnreachable { .. }
                | Outcome::SitemapFailed { .. }
        );
        self.is_temporary() && !has_waited
    }

    /// Whether the host could not be reached, or did not respond in time.
    pub(crate) fn is_host_failure(&self) -> bool {
        match self {
            Outcome::ConnectionFailed { .. } | Outcome::Timeout { .. } => true,
            Outcome::DnsFailed { is_temporary, .. } => *is_temporary,
            _ => false,
        }
    }

    /// Whether a rule or a limit of the crawl decided, and no request was sent for the URL itself.
    pub(crate) fn is_without_request(&self) -> bool {
        matches!(
            self,
            Outcome::Rejected { .. }
                | Outcome::RobotsDisallowed
                | Outcome::RobotsUnavailable { .. }
                | Outcome::HostPageLimit
                | Outcome::SitePageLimit
                | Outcome::HostUnreachable { .. }
        )
    }

    /// Whether the outcome was decided by a response of the host.
    pub(crate) fn is_response(&self) -> bool {
        matches!(
            self,
            Outcome::Page
                | Outcome::Redirect { .. }
                | Outcome::RedirectRejected { .. }
                | Outcome::TooManyRedirects
                | Outcome::RedirectToSelf
                | Outcome::Duplicate { .. }
                | Outcome::NearDuplicate { .. }
                | Outcome::UnsupportedMedia { .. }
                | Outcome::TooLarge { .. }
                | Outcome::HttpStatus { .. }
                | Outcome::InvalidResponse { .. }
                | Outcome::Sitemap { .. }
                | Outcome::SitemapFailed { .. }
                | Outcome::Requisite
                | Outcome::NotSaved
                | Outcome::Checked
                | Outcome::Unchanged
        )
    }

    /// Whether another URL has the same page, or one that is nearly the same.
    pub(crate) fn is_duplicate(&self) -> bool {
        matches!(self, Outcome::Duplicate { .. } | Outcome::NearDuplicate { .. })
    }

    /// Whether the server replied that there is no page at the URL: that is permanent, or it is elsewhere.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Outcome::Redirect { .. } | Outcome::RedirectRejected { .. } => true,
            Outcome::HttpStatus { .. } => !self.is_temporary(),
            _ => false,
        }
    }
}

/// Outcomes that tests and examples make.
pub trait OutcomeInternals {
    /// This HTTP status, without `Retry-After`.
    fn http_status(code: u16) -> Outcome;

    /// A redirect to this URL.
    fn redirect(to: String) -> Outcome;

    /// A near-duplicate of the page at this URL.
    fn near_duplicate(of: String, links_followed: bool) -> Outcome;
}

#[doc(hidden)]
impl OutcomeInternals for Outcome {
    fn http_status(code: u16) -> Outcome {
        Outcome::HttpStatus { code, retry_after: None }
    }

    fn redirect(to: String) -> Outcome {
        Outcome::Redirect { to }
    }

    fn near_duplicate(of: String, links_followed: bool) -> Outcome {
        Outcome::NearDuplicate { of, links_followed }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = self.label();
        match self {
            Outcome::Redirect { to } => write!(f, "redirect to {to}"),
            Outcome::RedirectRejected { to, why: RejectReason::External } => write!(f, "{label}: {to}"),
            Outcome::RedirectRejected { to, why } => write!(f, "{label}: {to} ({why})"),
            Outcome::RedirectToSelf => write!(f, "{label}: the URL redirects to itself"),
            Outcome::RobotsDisallowed => f.write_str("robots.txt disallows it"),
            Outcome::Duplicate { of, links_followed } | Outcome::NearDuplicate { of, links_followed } => {
                write!(f, "{label} of {of}{}", if *links_followed { LINKS_FOLLOWED } else { "" })
            }
            Outcome::HostPageLimit => f.write_str("host page limit reached"),
            Outcome::SitePageLimit => f.write_str("site page limit reached"),
            Outcome::UnsupportedMedia { what } => write!(f, "{label}: {what}"),
            Outcome::TooLarge { limit } => write!(f, "{label}: more than {limit} bytes"),
            Outcome::DnsFailed { cause, is_temporary: false } => write!(f, "DNS lookup failed: {cause}"),
            Outcome::BlockedAddress { address, kind } => write!(f, "{label}: {address} is {kind}"),
            Outcome::ConnectionFailed { cause } => write!(f, "connection failed: {cause}"),
            Outcome::StaleConnection => {
                f.write_str("connection failed: the server closed it before responding")
            }
            Outcome::RequestNotProcessed => {
                f.write_str("connection failed: the server accepts no more requests on it")
            }
            Outcome::TlsFailed { cause } => write!(f, "TLS failed: {cause}"),
            Outcome::Timeout { doing, limit } => write!(f, "{label}: {doing} took longer than {limit:?}"),
            Outcome::Sitemap { urls } => write!(f, "{label}: {}", counted(*urls, "URL")),
            Outcome::RobotsUnavailable { cause }
            | Outcome::SitemapFailed { cause, .. }
            | Outcome::DnsFailed { cause, is_temporary: true }
            | Outcome::ProxyFailed { cause, .. }
            | Outcome::HostUnreachable { cause }
            | Outcome::InvalidResponse { cause }
            | Outcome::WriteFailed { cause } => write!(f, "{label}: {cause}"),
            Outcome::Rejected { why: RejectReason::Blocked } => write!(f, "{label} while the crawl ran"),
            Outcome::Rejected { .. } => write!(f, "{label}, since the settings changed on resume"),
            Outcome::Page
            | Outcome::TooManyRedirects
            | Outcome::HttpStatus { .. }
            | Outcome::Requisite
            | Outcome::NotSaved
            | Outcome::Checked
            | Outcome::Unchanged
            | Outcome::NotReached => f.write_str(&label),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
