//! The rule for redirects, the same in every mode.

use url::Url;

use super::http::headers::excerpt;
use crate::config::MAX_REDIRECTS;
use crate::html::{self, parts::without_user_info};
use crate::origin::without_credentials;
use crate::outcome::Outcome;
use crate::scope::RejectReason;
use crate::strip_query::StripQuery;

/// Decides what happens to `url`, which redirected to `location` as number `redirects + 1` in a row.
///
/// The target is checked like a link: `admit` gets its normalized URL and its number of redirects, and checks
/// and queues it at the depth of `url`. It is not called if there were too many redirects, or the target is
/// not a usable URL, or `url` itself.
pub fn follow(
    url: &Url,
    redirects: u8,
    location: &str,
    strip_query: &StripQuery,
    admit: impl FnOnce(&str, u8) -> Result<(), RejectReason>,
) -> Outcome {
    if redirects >= MAX_REDIRECTS {
        return Outcome::TooManyRedirects;
    }
    let target = match html::resolve(url, location) {
        Ok(target) => String::from(target),
        Err(bad_link) => {
            let to = display_target(url, location);
            return Outcome::RedirectRejected { to, why: RejectReason::InvalidLink(bad_link) };
        }
    };
    if target == url.as_str() {
        return Outcome::RedirectToSelf;
    }
    // Some servers add a parameter and then reply with the page: only there it must not be removed.
    let target = match strip_query.strip(&target) {
        stripped if stripped == url.as_str() => target,
        stripped => stripped.into_owned(),
    };
    match admit(&target, redirects + 1) {
        Ok(()) => Outcome::Redirect { to: target },
        Err(why) => Outcome::RedirectRejected { to: target, why },
    }
}

/// The fragment of a Location header, which replaces that of the link. `None` if it has none, or a very long one.
pub fn fragment(location: &str) -> Option<&str> {
    let (_, fragment) = location.trim_end().split_once('#')?;
    Some(fragment).filter(|fragment| fragment.len() <= html::MAX_URL_BYTES)
}

/// A target that is not followed, for messages: without credentials. Of one that is not a URL, or a very long one, the
/// start.
fn display_target(url: &Url, location: &str) -> String {
    match url.join(location) {
        Ok(target) if target.as_str().len() <= html::MAX_URL_BYTES => without_credentials(&target).into(),
        Ok(target) => excerpt(without_credentials(&target).as_str()),
        Err(_) => excerpt(&without_user_info(location)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow_from(redirects: u8, location: &str, admitted: Result<(), RejectReason>) -> Outcome {
        let url = Url::parse("http://a.test/x/y").unwrap();
        follow(&url, redirects, location, &StripQuery::new(&["sid"]).unwrap(), |_, _| admitted)
    }

    #[test]
    fn target_is_resolved_and_admitted_with_one_more_redirect() {
        let url = Url::parse("http://a.test/x/y").unwrap();
        let mut admitted = Vec::new();
        let outcome = follow(&url, 3, "../z#part", &StripQuery::default(), |target, redirects| {
            admitted.push((target.to_owned(), redirects));
            Ok(())
        });
        assert_eq!(outcome, Outcome::Redirect { to: "http://a.test/z".into() });
        assert_eq!(admitted, [("http://a.test/z".to_owned(), 4)]);
    }

    #[test]
    fn fragment_of_the_target_is_what_follows_the_first_number_sign() {
        for (location, expected) in [
            ("/x#a%20#b ", Some("a%20#b")),
            ("#", Some("")),
            ("/x", None),
            (&format!("#{}", "x".repeat(3_000)), None),
        ] {
            assert_eq!(fragment(location), expected, "{location:.40}");
        }
    }

    #[test]
    fn redirect_after_the_maximum_in_a_row_is_not_followed() {
        let followed = Outcome::Redirect { to: "http://a.test/z".into() };
        assert_eq!(follow_from(MAX_REDIRECTS - 1, "/z", Ok(())), followed);
        assert_eq!(follow_from(0, "/z?sid=1", Ok(())), followed, "without the parameters to remove");
        assert_eq!(follow_from(MAX_REDIRECTS, "/z", Ok(())), Outcome::TooManyRedirects);
    }

    #[test]
    fn redirect_to_itself_is_a_failure() {
        for location in ["y", "#part", "/x/./y", "HTTP://A.TEST:80/x/y"] {
            assert_eq!(follow_from(0, location, Ok(())), Outcome::RedirectToSelf, "{location}");
        }
        assert!(matches!(follow_from(0, "https://a.test/x/y", Ok(())), Outcome::Redirect { .. }));
    }

    #[test]
    fn target_that_differs_only_in_a_parameter_to_remove_is_requested_with_it() {
        let added = Outcome::Redirect { to: "http://a.test/x/y?sid=1".into() };
        assert_eq!(follow_from(0, "?sid=1", Ok(())), added);
        let url = Url::parse("http://a.test/x/y?sid=1").unwrap();
        let strip_query = StripQuery::new(&["sid"]).unwrap();
        let again = follow(&url, 1, "?sid=2", &strip_query, |_, _| Ok(()));
        assert_eq!(again, Outcome::Redirect { to: "http://a.test/x/y".into() }, "only once");
        assert_eq!(follow(&url, 1, "?sid=1", &strip_query, |_, _| Ok(())), Outcome::RedirectToSelf);
    }

    #[test]
    fn rejected_target_is_named_without_credentials() {
        let why = RejectReason::External;
        let rejected = follow_from(0, "http://b.test/", Err(why));
        assert_eq!(rejected, Outcome::RedirectRejected { to: "http://b.test/".into(), why });
        let long = format!("/{}", "x".repeat(html::MAX_URL_BYTES));
        for (location, named) in [
            ("http://me:secret@b.test/", "http://b.test/"),
            ("mailto:me@b.test", "mailto:me@b.test"),
            (long.as_str(), &format!("http://a.test/{}…", "x".repeat(86))),
            ("http://[bad", "http://[bad"),
            ("http://me:secret@[bad", "http://…@[bad"),
        ] {
            match follow_from(0, location, Ok(())) {
                Outcome::RedirectRejected { to, why: RejectReason::InvalidLink(_) } => assert_eq!(to, named),
                outcome => panic!("{location:.40}: {outcome}"),
            }
        }
    }
}
