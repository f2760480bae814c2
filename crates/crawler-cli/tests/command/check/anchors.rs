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
