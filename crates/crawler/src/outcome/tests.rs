use super::*;

/// One outcome of each kind.
pub(crate) fn all_outcomes() -> Vec<Outcome> {
    let text = String::new;
    vec![
        Outcome::Page,
        Outcome::Redirect { to: text() },
        Outcome::RedirectRejected { to: text(), why: RejectReason::External },
        Outcome::TooManyRedirects,
        Outcome::RedirectToSelf,
        Outcome::Rejected { why: RejectReason::External },
        Outcome::Rejected { why: RejectReason::Excluded },
        Outcome::Rejected { why: RejectReason::Blocked },
        Outcome::Rejected { why: RejectReason::PrivateAddress },
        Outcome::Rejected { why: RejectReason::TooManySegments },
        Outcome::Rejected { why: RejectReason::RepeatedSegments },
        Outcome::RobotsDisallowed,
        Outcome::RobotsUnavailable { cause: text() },
        Outcome::Duplicate { of: text(), links_followed: false },
        Outcome::Duplicate { of: text(), links_followed: true },
        Outcome::NearDuplicate { of: text(), links_followed: false },
        Outcome::NearDuplicate { of: text(), links_followed: true },
        Outcome::HostPageLimit,
        Outcome::SitePageLimit,
        Outcome::UnsupportedMedia { what: text() },
        Outcome::TooLarge { limit: 1 },
        Outcome::HttpStatus { code: 404, retry_after: None },
        Outcome::DnsFailed { cause: text(), is_temporary: false },
        Outcome::DnsFailed { cause: text(), is_temporary: true },
        Outcome::BlockedAddress { address: [127, 0, 0, 1].into(), kind: "private" },
        Outcome::ConnectionFailed { cause: text() },
        Outcome::StaleConnection,
        Outcome::RequestNotProcessed,
        Outcome::ProxyFailed { cause: text(), is_temporary: true },
        Outcome::ProxyFailed { cause: text(), is_temporary: false },
        Outcome::TlsFailed { cause: text() },
        Outcome::Timeout { doing: "it", limit: Duration::ZERO },
        Outcome::HostUnreachable { cause: text() },
        Outcome::InvalidResponse { cause: text() },
        Outcome::WriteFailed { cause: text() },
        Outcome::Sitemap { urls: 3 },
        Outcome::SitemapFailed { cause: text(), is_temporary: false },
        Outcome::SitemapFailed { cause: text(), is_temporary: true },
        Outcome::Requisite,
        Outcome::NotSaved,
        Outcome::Checked,
        Outcome::Unchanged,
        Outcome::NotReached,
    ]
}

#[test]
fn every_outcome_is_in_the_group_its_variant_suggests() {
    for outcome in all_outcomes() {
        let expected = match &outcome {
            Outcome::Page => OutcomeGroup::Page,
            Outcome::Redirect { .. } => OutcomeGroup::Redirect,
            Outcome::NotReached => OutcomeGroup::NotReached,
            Outcome::Requisite => OutcomeGroup::Requisite,
            Outcome::Checked => OutcomeGroup::Checked,
            Outcome::Unchanged => OutcomeGroup::Unchanged,
            Outcome::Sitemap { .. } | Outcome::SitemapFailed { .. } => OutcomeGroup::Sitemap,
            Outcome::RedirectRejected { .. }
            | Outcome::Rejected { .. }
            | Outcome::NotSaved
            | Outcome::RobotsDisallowed
            | Outcome::Duplicate { .. }
            | Outcome::NearDuplicate { .. }
            | Outcome::HostPageLimit
            | Outcome::SitePageLimit
            | Outcome::UnsupportedMedia { .. }
            | Outcome::TooLarge { .. }
            | Outcome::BlockedAddress { .. } => OutcomeGroup::Skipped,
            Outcome::TooManyRedirects
            | Outcome::RedirectToSelf
            | Outcome::RobotsUnavailable { .. }
            | Outcome::HttpStatus { .. }
            | Outcome::DnsFailed { .. }
            | Outcome::ConnectionFailed { .. }
            | Outcome::StaleConnection
            | Outcome::RequestNotProcessed
            | Outcome::ProxyFailed { .. }
            | Outcome::TlsFailed { .. }
            | Outcome::Timeout { .. }
            | Outcome::HostUnreachable { .. }
            | Outcome::InvalidResponse { .. }
            | Outcome::WriteFailed { .. } => OutcomeGroup::Failed,
        };
        assert_eq!(outcome.group(), expected, "{outcome}");
    }
}

#[test]
fn full_reason_starts_with_the_label() {
    for outcome in all_outcomes() {
        assert!(outcome.to_string().starts_with(&*outcome.label()), "{outcome}");
        assert_eq!(Outcome::text_has_links(&outcome.to_string()), outcome.has_links(), "{outcome}");
    }
}

#[test]
fn label_of_a_temporary_failure_is_found_in_its_text() {
    let labels: std::collections::BTreeSet<String> =
        all_outcomes().iter().map(|outcome| outcome.label().into_owned()).collect();
    for outcome in all_outcomes() {
        let label = Outcome::label_of_temporary(&outcome.to_string(), &labels);
        assert_eq!(label.is_some(), outcome.is_temporary(), "{outcome}");
        assert!(label.is_none_or(|label| *label == outcome.label()), "{outcome}");
    }
}

#[test]
fn failure_is_temporary_if_its_cause_may_pass() {
    for outcome in all_outcomes() {
        let expected = matches!(
            outcome,
            Outcome::ConnectionFailed { .. }
                | Outcome::StaleConnection
                | Outcome::SitemapFailed { is_temporary: true, .. }
                | Outcome::RequestNotProcessed
                | Outcome::Timeout { .. }
                | Outcome::HostUnreachable { .. }
                | Outcome::RobotsUnavailable { .. }
                | Outcome::DnsFailed { is_temporary: true, .. }
                | Outcome::ProxyFailed { is_temporary: true, .. }
        );
        assert_eq!(outcome.is_temporary(), expected, "{outcome:?}");
        let is_failure = matches!(outcome.group(), OutcomeGroup::Failed | OutcomeGroup::Sitemap);
        assert!(!expected || is_failure, "{outcome:?}");
    }
    let is_temporary = |code: &u16| Outcome::HttpStatus { code: *code, retry_after: None }.is_temporary();
    let expected = [408, 425, 429].into_iter().chain((500..600).filter(|code| ![501, 505].contains(code)));
    assert!((100..=999).filter(is_temporary).eq(expected));
}
