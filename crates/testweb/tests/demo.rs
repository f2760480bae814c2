//! Tests of the demo site.

mod client;
mod walker;

use testweb::{Site, Web};
use walker::walk;

fn demo() -> Web {
    Web::builder().site(Site::new().fallback(|request| demoweb::one_site::respond(request).into())).start()
}

#[test]
fn demo_has_pages_texts_a_redirect_a_dead_link_and_external_links() {
    let web = demo();
    let origin = web.url("");
    let found = walk(&web, &web.url("/"), 9, |url| url.as_str().starts_with(&origin));
    assert_eq!(found.len(), 22);
    assert_eq!(found.keys().filter(|url| url.contains("/private/")).count(), 1);
    assert_eq!(found.keys().filter(|url| url.ends_with(".txt")).count(), 2);
    let log = web.log();
    let paths_with = |status| log.filter(|hit| hit.status == Some(status)).paths().join(" ");
    assert_eq!(paths_with(301), "/boat");
    assert_eq!(paths_with(404), "/harbour-map.html");
    assert!(
        found.values().any(|(_, body)| String::from_utf8_lossy(body).contains("https://elsewhere.invalid/"))
    );
}

#[test]
fn demo_has_a_depth_of_three() {
    let web = demo();
    let found = walk(&web, &web.url("/"), 9, |url| url.host_str() == Some("127.0.0.1"));
    assert_eq!(found.values().map(|(depth, _)| *depth).max(), Some(3));
}
