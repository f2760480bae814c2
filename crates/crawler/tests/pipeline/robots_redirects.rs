//! Redirects of robots.txt to another host obey that host's throttle.

use crawler::internal::pipeline::CrawlerInternals as _;
use std::time::Duration;

use testweb::{Response, Site, Web};

use super::{crawl, site_with_port};

#[test]
fn host_that_many_robots_txt_redirect_to_is_throttled_like_any_other_and_obeyed() {
    let start = site_with_port(|path, port| match path {
        "/robots.txt" => Response::status(404),
        _ => Response::page(
            (0..8).map(|n| format!("<a href=http://a{n}.test:{port}/>a</a>")).collect::<String>(),
        ),
    });
    let redirects_to_b = || {
        site_with_port(|path, port| match path {
            "/robots.txt" => Response::redirect(302, &format!("http://b.test:{port}/robots.txt")),
            "/no" => Response::page("disallowed"),
            _ => Response::page("<a href=/no>no</a>"),
        })
    };
    let web = Web::builder().site(start).host("b.test", Site::new().robots("User-agent: *\nDisallow: /no"));
    let web = (0..8).fold(web, |web, n| web.host(&format!("a{n}.test"), redirects_to_b())).start();
    let delay = Duration::from_millis(150);
    let polite =
        crawl(&web, "start.test").workers(4).configure_backend(|settings| settings.similarity = None);
    let polite = polite.configure(|config| (config.requests.obey_robots, config.delay) = (true, delay));
    let report = polite.run_blocking().unwrap();
    assert_eq!((report.snapshot.pages, report.snapshot.outcomes["robots.txt"]), (9, 8));
    assert!(!web.log().paths().contains(&"/no"));
    let requests = web.log().for_host("b.test");
    assert_eq!(requests.len(), 8);
    assert_eq!(requests.max_concurrent(), 1);
    assert!(requests.smallest_gap().unwrap() >= delay, "{:?}", requests.smallest_gap());
}
