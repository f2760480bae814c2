//! Tests of the scope.

use super::*;
use crate::cpu_time::cpu_time;
use proptest::prelude::*;

fn prefix(text: &str) -> Scope {
    Scope::prefix(&Url::parse(text).unwrap())
}

#[test]
fn prefixes_have_no_passwords() {
    let seeds = [Url::parse("http://me:secret@a.test/docs").unwrap()];
    let scope = Scope::prefixes(&seeds);
    assert!(!scope.settings().contains("secret") && scope.contains("http://a.test/docs/x"));
}

#[test]
fn an_origin_contains_its_own_scheme_host_and_port_only() {
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
fn a_prefix_matches_up_to_a_segment_boundary() {
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
fn domains_contain_their_hosts_and_hosts_only_themselves() {
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
fn a_prefix_has_no_parameters_that_are_removed_from_urls() {
    let mut scope = prefix("http://host/p?sid=1&id=2");
    scope.strip_query(&StripQuery::new(&["sid"]).unwrap());
    assert!(scope.contains("http://host/p?id=2") && scope.contains("http://host/p?id=2&x"));
    assert!(!scope.contains("http://host/p") && !scope.contains("http://host/p?id=3"));
}

#[test]
fn trap_paths_are_rejected() {
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
    assert_eq!(check(&"/aXb/aYb".repeat(4)), Ok(()), "similar segments are not the same");
    assert_eq!(check(&"/aXb/aYb".repeat(5)), Err(RejectReason::RepeatedSegments));
    assert_eq!(check(&"//a".repeat(5)), Err(RejectReason::RepeatedSegments));
    assert_eq!(check(&"/".repeat(100)), Ok(()), "empty segments do not count");
}

#[test]
fn a_path_is_checked_in_linear_time() {
    // All segments are different, and similar enough that they have to be compared.
    let path: String = (0..60).map(|n| format!("/s{n:02}{}", "x".repeat(28))).collect();
    let url = format!("http://host{path}");
    let least = |work: &dyn Fn()| (0..5).map(|_| cpu_time(|| (0..200).for_each(|_| work()))).min().unwrap();
    let check = least(&|| assert_eq!(check_path(&url), Ok(())));
    let split = least(&|| assert_eq!(url.split('/').count(), 63));
    // Without optimisation, one pass takes 15 times as long, and one pass per segment 97 times.
    assert!(check < 40 * split, "{check:?}, and {split:?} to split the path once");
}

#[test]
fn bounds_are_compared_in_the_normal_form() {
    let seeds = [Url::parse("http://www.a.test../%7Ex?").unwrap()];
    assert!(Scope::domains(&seeds).contains("http://b.a.test/"));
    assert!(Scope::hosts(&seeds).contains("http://www.a.test/"));
    assert!(Scope::prefixes(&seeds).contains("http://www.a.test/~x/y"));
    assert!(Scope::origin(&seeds[0]).contains("http://www.a.test/"));
    let private = Scope::anywhere()
        .rejecting_private(&FetchConfig::default(), &[Url::parse("http://10.0.0.1../").unwrap()]);
    assert_eq!(private.check("http://10.0.0.1/"), Ok(()));
}

#[test]
fn private_addresses_are_rejected_except_for_seeds_and_dns_overrides() {
    let seeds = [Url::parse("http://127.0.0.1:8080/").unwrap()];
    let mut config = FetchConfig::default();
    config.requests.dns_overrides.push(("10.1.1.1".into(), [192, 0, 2, 1].into()));
    let scope = Scope::anywhere().rejecting_private(&config, &seeds);
    let special = "http://127.0.0.1/ http://127.0.0.1:8081/ https://127.0.0.1:8080/ http://10.0.0.1/x \
        http://169.254.169.254/latest http://[::1]/ http://[::1]:99/ http://[::ffff:a00:1]/ https://192.168.0.1?a";
    for url in special.split_whitespace() {
        // Normalization brings every spelling of an address into the usual one.
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
    config.requests.allow_private = true;
    let scope = Scope::anywhere().rejecting_private(&config, &seeds);
    assert_eq!(scope.check("http://10.0.0.1/"), Ok(()));
    assert_eq!(
        prefix("http://10.0.0.1/").check("http://10.0.0.1/x"),
        Ok(()),
        "unless it is the prefix itself"
    );
}

proptest! {
    #[test]
    fn prefixes_of_a_url_are_those_it_is_below(
        url in "http://[ab]/([ab]/|[ab]|/){0,5}([?][ab&=/?]{0,5})?",
        prefix in "http://[ab]/([ab]/|[ab]|/){0,5}([?][ab&=/?]{0,5})?",
    ) {
        for prefix in [prefix.as_str(), &url[..url.len() - url.len() % 3]] {
            prop_assert_eq!(prefixes_of(&url).any(|of| of == prefix), is_below(prefix, &url), "{} {}", prefix, url);
        }
    }

    /// A URL is below a prefix if it has its origin and its path continues the prefix at a segment boundary.
    #[test]
    fn a_prefix_contains_what_comparing_parsed_urls_says(
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
