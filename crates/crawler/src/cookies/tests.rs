//! Tests of the cookie jar.

use std::time::Duration;

use super::*;
use crate::cpu_time::cpu_time;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

fn set(jar: &CookieJar, from: &str, line: &str) -> bool {
    jar.set(&url(from), line)
}

fn sent(jar: &CookieJar, to: &str) -> String {
    jar.header(&url(to)).map_or_else(String::new, |value| value.to_str().unwrap().to_owned())
}

#[test]
fn a_cookie_goes_back_to_its_host_and_path() {
    let jar = CookieJar::default();
    assert!(set(&jar, "http://a.example.org/x/login", "id=1"));
    assert!(set(&jar, "http://a.example.org/x/login", "all=2; Path=/"));
    assert_eq!(sent(&jar, "http://a.example.org/x/page"), "id=1; all=2", "longer paths are first");
    assert_eq!(sent(&jar, "http://a.example.org/"), "all=2");
    for other in ["http://b.example.org/x/", "http://example.org/x/", "http://b.a.example.org/x/"] {
        assert_eq!(sent(&jar, other), "", "{other}");
    }
}

#[test]
fn a_domain_cookie_goes_to_the_hosts_of_its_domain_and_never_to_another_site() {
    let jar = CookieJar::default();
    assert!(set(&jar, "http://a.example.org/", "id=1; Domain=example.org"));
    for own in ["http://example.org/", "http://a.example.org/", "http://b.c.example.org/"] {
        assert_eq!(sent(&jar, own), "id=1", "{own}");
    }
    assert_eq!(sent(&jar, "http://notexample.org/"), "");
    for (from, domain) in [
        ("http://a.example.org/", "org"),
        ("http://a.example.org/", "b.example.org"),
        ("http://a.example.org/", "other.org"),
        ("http://shop.example.co.uk/", "co.uk"),
        ("http://me.github.io/", "github.io"),
        ("http://127.0.0.1/", "0.0.1"),
    ] {
        assert!(!set(&jar, from, &format!("x=1; Domain={domain}")), "{domain}");
    }
    // A host that is a public suffix itself has cookies of its own.
    assert!(set(&jar, "http://github.io/", "own=1; Domain=github.io"));
    assert_eq!(
        (sent(&jar, "http://github.io/").as_str(), sent(&jar, "http://me.github.io/").as_str()),
        ("own=1", "")
    );
}

#[test]
fn secure_cookies_are_for_https() {
    let jar = CookieJar::default();
    assert!(set(&jar, "https://example.org/", "id=secret; Secure"));
    assert_eq!(sent(&jar, "http://example.org/"), "");
    assert!(!set(&jar, "http://example.org/", "id=other"), "http cannot replace it");
    assert!(!set(&jar, "http://example.org/", "more=1; Secure"));
    assert_eq!(sent(&jar, "https://example.org/"), "id=secret");
}

#[test]
fn a_cookie_ends_when_it_expires_or_is_removed() {
    let jar = CookieJar::default();
    let from = "http://example.org/";
    assert!(
        set(&jar, from, "a=1; Max-Age=1000") && set(&jar, from, "b=1; Expires=Wed, 21 Oct 2099 07:28:00 GMT")
    );
    assert!(
        !set(&jar, from, "c=1; Max-Age=0") && !set(&jar, from, "d=1; Expires=Wed, 21 Oct 2015 07:28:00 GMT")
    );
    assert_eq!(sent(&jar, from), "a=1; b=1");
    set(&jar, from, "a=; Max-Age=-1");
    assert_eq!(sent(&jar, from), "b=1");
    set(&jar, from, "b=; Expires=Thu, 01 Jan 1970 00:00:00 GMT");
    assert!(sent(&jar, from).is_empty() && jar.lock().sites.is_empty());
}

#[test]
fn odd_headers_are_ignored_without_a_panic() {
    let jar = CookieJar::default();
    for line in [
        "",
        "=",
        "=x",
        ";",
        "a",
        "a=\u{1}",
        "a=b\nc",
        "a=1; Domain=",
        "a=1; Domain=.",
        "a=1; Domain=..org",
        "a=1; Path=",
        "a=1; Max-Age=99999999999999999999",
        "a=1; Max-Age=9223372036854775807",
        "a=1; Expires=x",
        "ä=ö; Domain=ä.org",
        "a=1; Expires=Fri, 31 Dec 9999 23:59:59 GMT",
        "a=1; Domain=\u{2603}.example.org",
        "a=1;;;;====;Secure=x;httponly=",
    ] {
        for from in [
            "http://example.org/",
            "http://127.0.0.1:8080/",
            "http://[::1]/",
            "http://localhost/",
            "http://a../",
        ] {
            set(&jar, from, line);
            sent(&jar, from);
        }
    }
}

#[test]
fn a_site_cannot_fill_the_jar() {
    let jar = CookieJar::default();
    jar.add(&url("https://good.org/"), "session=1").unwrap();
    let from = url("http://bad.org/");
    let lines: Vec<String> =
        (0..20_000).map(|number| format!("c{number}={}; Path=/", "x".repeat(4000))).collect();
    for lines in lines.chunks(200) {
        jar.set_all(&from, lines.iter().map(String::as_str));
    }
    assert_eq!(jar.lock().sites["bad.org"].count, MAX_PER_SITE);
    assert!(sent(&jar, "http://bad.org/").len() <= MAX_HEADER_BYTES);
    assert!(!jar.set(&from, &format!("big={}", "x".repeat(MAX_COOKIE_BYTES))));
    assert_eq!(sent(&jar, "https://good.org/"), "session=1");
    // An existing cookie can still change.
    assert!(jar.set(&from, "c0=new; Path=/"));
}

#[test]
fn many_sites_cannot_fill_the_jar() {
    let jar = CookieJar::default();
    jar.add(&url("https://good.org/"), "session=1").unwrap();
    let line = format!("c={}; Path=/", "x".repeat(4000));
    for number in 0..20_000 {
        jar.set(&url(&format!("http://bad{number}.org/")), &line);
        if number % 1000 == 0 {
            assert_eq!(sent(&jar, "https://good.org/"), "session=1", "sites in use keep their cookies");
        }
    }
    let sites = jar.lock();
    let bytes: usize = sites.sites.values().map(|site| site.bytes).sum();
    assert!(bytes == sites.bytes && bytes <= MAX_BYTES, "{bytes} {}", sites.bytes);
}

#[test]
fn given_cookies_are_for_the_host_and_keep_to_https() {
    let jar = CookieJar::default();
    jar.add(&url("https://www.example.org/a/b"), "a=b; c=d=e;").unwrap();
    assert_eq!(sent(&jar, "https://www.example.org/"), "a=b; c=d=e");
    assert_eq!(
        (sent(&jar, "http://www.example.org/"), sent(&jar, "https://example.org/")),
        (String::new(), String::new())
    );
    for bad in ["secret", "=secret", "a=secret\r\nHost: x", &format!("a=secret{}", "x".repeat(5000))] {
        let error = jar.add(&url("http://a.test/"), bad).unwrap_err().to_string();
        assert!(error.starts_with("cannot send cookie number 1: ") && !error.contains("secret"), "{error}");
    }
}

#[test]
fn a_cookie_file_survives_a_round_trip() {
    let file = "# Netscape HTTP Cookie File\n# a comment\n\n\
        .example.org\tTRUE\t/\tFALSE\t4102444800\tall\t1\r\n\
        #HttpOnly_www.example.org\tFALSE\t/x\tTRUE\t0\tsession\tsecret=2\n\
        .example.org\tTRUE\t/\tFALSE\t1\texpired\t3\n\
        127.0.0.1\tTRUE\t/\tFALSE\t0\tempty\n";
    let jar = CookieJar::from_netscape(file).unwrap();
    assert_eq!(sent(&jar, "https://www.example.org/x/"), "session=secret=2; all=1");
    assert_eq!(sent(&jar, "http://a.example.org/x"), "all=1");
    assert_eq!(sent(&jar, "http://127.0.0.1:8080/"), "empty=");
    let written = jar.to_netscape();
    assert_eq!(
        written,
        "# Netscape HTTP Cookie File\n\
         .example.org\tTRUE\t/\tFALSE\t4102444800\tall\t1\n\
         127.0.0.1\tFALSE\t/\tFALSE\t0\tempty\t\n\
         #HttpOnly_www.example.org\tFALSE\t/x\tTRUE\t0\tsession\tsecret=2\n"
    );
    assert_eq!(CookieJar::from_netscape(&written).unwrap().to_netscape(), written);
}

#[test]
fn a_malformed_cookie_file_is_an_error_with_the_number_of_the_line() {
    for (line, cause) in [
        ("example.org TRUE / FALSE 0 a secret", "it has 1 instead of 7 fields"),
        (".example.org\tTRUE\t/\tFALSE\tsoon\ta\tsecret", "expiry time"),
        (".example.org\tYES\t/\tFALSE\t0\ta\tsecret", "TRUE or FALSE"),
        (".example.org\tTRUE\tx\tFALSE\t0\ta\tsecret", "path"),
        (".example.org\tTRUE\t/\tFALSE\t0\ta\tsecret; Domain=b.org", "character"),
        (".co.uk\tTRUE\t/\tFALSE\t0\ta\tsecret", "public suffix"),
        ("\tTRUE\t/\tFALSE\t0\ta\tsecret", "host name"),
        ("a.org:80\tTRUE\t/\tFALSE\t0\ta\tsecret\tx", "8 instead of 7"),
        ("a.org/b\tTRUE\t/\tFALSE\t0\ta\tsecret", "host name"),
    ] {
        let error = CookieJar::from_netscape(&format!("# cookies\n{line}\n")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read cookies: line 2: ") && error.contains(cause), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn merged_files_leave_out_what_a_jar_cannot_take() {
    let file = |names: std::ops::Range<usize>| {
        names.map(|name| format!("#HttpOnly_a.org\tFALSE\t/\tFALSE\t0\tc{name}\tx\n")).collect::<String>()
    };
    let (first, second) = (file(0..100), file(50..250) + "b.org\tFALSE\t/\tFALSE\t0\ta\tb\nmalformed\n");
    assert!(CookieJar::from_netscape(&format!("{first}{second}")).is_err());
    let merged = merge_netscape(&[first, second]).to_netscape();
    assert_eq!(merged.matches("a.org\t").count(), MAX_PER_SITE);
    assert_eq!(merged.matches("b.org\t").count(), 1);
}

#[test]
fn values_are_not_printed_for_debugging() {
    let jar = CookieJar::default();
    jar.add(&url("http://a.test/"), "id=secret").unwrap();
    assert!(!format!("{jar:?}").contains("secret"));
}

#[test]
fn domains_that_take_long_to_convert_are_refused() {
    let jar = CookieJar::default();
    let long: String = (0..2_000).map(|n| char::from_u32(0x4E00 + n * 7).unwrap()).collect();
    let encoded = format!("xn--{}.test", "a".repeat(7_000));
    for domain in [long.as_str(), &encoded, "ä.test"] {
        for line in [format!("a=1; Domain={domain}"), format!("a=1;domain = {domain} ;Domain=a.test")] {
            let taken = cpu_time(|| assert!((0..50).all(|_| !set(&jar, "http://a.test/", &line))));
            assert!(taken < Duration::from_millis(200), "{taken:?}");
        }
    }
    assert!(set(&jar, "http://a.test/", "a=1; Domain=.a.test"));
}
