//! What robots.txt asks of many hosts at once, and what it must not lead to.

use crawler::internal::pipeline::CrawlerInternals as _;
use std::time::Duration;

use testweb::{Answer, Site, Web};

use super::{crawl, site_of};

#[test]
fn a_host_that_many_robots_txt_lead_to_is_asked_no_faster_than_any_other() {
    let start = site_of(|path, port| match path {
        "/robots.txt" => Answer::status(404),
        _ => Answer::page(
            (0..8).map(|n| format!("<a href=http://a{n}.test:{port}/>a</a>")).collect::<String>(),
        ),
    });
    let leads_to_b = || {
        site_of(|path, port| match path {
            "/robots.txt" => Answer::redirect(302, &format!("http://b.test:{port}/robots.txt")),
            _ => Answer::page("page"),
        })
    };
    let web = Web::builder().site(start).host("b.test", Site::new().robots("User-agent: *\nDisallow: /no"));
    let web = (0..8).fold(web, |web, n| web.host(&format!("a{n}.test"), leads_to_b())).start();
    let delay = Duration::from_millis(150);
    let polite =
        crawl(&web, "start.test").workers(4).configure_backend(|settings| settings.similarity = None);
    let polite = polite.configure(|config| (config.obey_robots, config.delay) = (true, delay));
    let report = polite.run_blocking().unwrap();
    assert_eq!(report.snapshot.pages, 9);
    let asked = web.log().of_host("b.test");
    assert_eq!(asked.len(), 8);
    assert_eq!(asked.most_at_once(), 1);
    assert!(asked.smallest_gap().unwrap() >= delay, "{:?}", asked.smallest_gap());
}
