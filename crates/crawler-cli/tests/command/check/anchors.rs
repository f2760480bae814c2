//! `crawler check --fragments`: anchors in pages.

use super::*;

#[test]
fn anchors_are_checked_on_request() {
    let pages = &[
        (
            "/",
            "<a href=/p#here>x</a><a href=/p#gone>Gone</a><a href=/p#%C3%A4%20b>x</a><a href=/p#top>x</a><a href=#self>x</a>\
              <h1 id=self>x</h1><a href=#none>x</a><a href=/p#name>x</a><a href=/p>x</a><a href='/p#ä b'>x</a>\
              <a href=/old#here>x</a><a href=http://b.test/#elsewhere>x</a>",
        ),
        ("/p", "<p id=here><p id='ä b'><a name=name>"),
    ];
    let web = serve(pages, |_| Response::page("x"));
    // 'old' does not exist, so its anchor is not reported as well.
    assert_eq!(found(&web, &report(&web, "", 1), "broken"), ["/old: HTTP 404 Not Found"]);
    let report = report(&web, "--fragments", 1);
    assert_eq!(
        found(&web, &report, "broken"),
        [
            "/#none: the page has no element with the identifier \"none\"",
            "/old: HTTP 404 Not Found",
            "/p#gone: the page has no element with the identifier \"gone\""
        ]
    );
    assert_eq!(links(&web, &report["broken"][2]), ["/ a Gone"]);
}

#[test]
fn anchor_of_a_redirect_is_the_one_of_its_location() {
    let site = Site::new()
        .page("/", "<a href=/good>x</a><a href=/bad#here>Moved</a><a href=/plain#here>x</a><a href=/plain#none>x</a>")
        .page("/p", "<p id=here>")
        .response("/good", Response::redirect(302, "/p#here"))
        .response("/bad", Response::redirect(302, "/twice#gone"))
        .response("/twice", Response::redirect(302, "/p"))
        .response("/plain", Response::redirect(302, "/p"));
    let web = Web::builder().host("a.test", site).start();
    let report = report(&web, "--fragments", 1);
    assert_eq!(
        found(&web, &report, "broken"),
        [
            "/bad: the page has no element with the identifier \"gone\"",
            "/plain#none: the page has no element with the identifier \"none\""
        ]
    );
    let bad = &report["broken"][0];
    assert_eq!(bad["redirects_to"], web.url_of("a.test", "/p#gone"));
    assert_eq!(links(&web, bad), ["/ a Moved"]);
}

#[test]
fn anchors_in_pages_that_are_not_read_are_counted() {
    let pages = &[
        (
            "/",
            "<a href=/a#x>x</a><a href=/a#x>x</a><a href=/a#y>x</a><a href=http://b.test/#z>x</a><a href=/a#top>x</a>",
        ),
        ("/a", "<p id=x>"),
    ];
    let web = serve(pages, |_| Response::page("x"));
    let report = report(&web, "--fragments --max-depth 0", 0);
    assert_eq!((&report["counts"]["anchors_not_checked"], &report["complete"]), (&3.into(), &true.into()));
    let text = check(&web, "--fragments --max-depth 0").expect(0).stdout;
    assert!(text.ends_with("3 URLs checked: none broken · 3 anchors not checked\n"), "{text}");
    let report = self::report(&web, "--fragments", 1);
    assert_eq!(
        (&report["counts"]["anchors_not_checked"], &report["counts"]["broken"]),
        (&1.into(), &1.into())
    );
}
