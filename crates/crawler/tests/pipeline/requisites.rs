//! The files that pages need: which of them are fetched for an output that keeps them, and how.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crawler::internal::backend::Budget;
use crawler::internal::modules::BuiltinOutput;
use crawler::internal::page::Page;
use crawler::internal::pipeline::{CrawlEnd, CrawlerInternals as _};
use crawler::internal::scope::Scope;
use crawler::{Crawler, OutputWrite, Target};
use testweb::{Response, Web};

use super::{assert_adds_up, site_with_port};

/// An output that keeps requisites: a line with the URL and the size of each file.
struct Files;

impl BuiltinOutput for Files {
    fn name(&self) -> &str {
        "files"
    }

    fn keeps_requisites(&self) -> bool {
        true
    }

    fn render(&self, page: &Page) -> OutputWrite {
        OutputWrite::Append(format!("{} {} {:?}\n", page.url, page.body.len(), page.media).into())
    }
}

/// An output of pages.
struct Pages;

impl BuiltinOutput for Pages {
    fn name(&self) -> &str {
        "pages"
    }

    fn render(&self, page: &Page) -> OutputWrite {
        OutputWrite::Append(format!("{}\n", page.url).into())
    }
}

/// The lines of a file, sorted, without this prefix.
fn lines(file: &Path, prefix: &str) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let mut lines: Vec<String> =
        text.lines().map(|line| line.strip_prefix(prefix).unwrap_or(line).to_owned()).collect();
    lines.sort();
    lines
}

/// The requests, sorted.
fn requests(web: &Web) -> Vec<String> {
    let mut requests: Vec<String> = web.log().iter().map(|hit| format!("{}{}", hit.host, hit.path)).collect();
    requests.sort();
    requests
}

fn image() -> Response {
    Response::page("image").content_type("image/png")
}

fn stylesheet(css: &str) -> Response {
    Response::text(css.to_owned()).content_type("text/css")
}

/// The page `/docs/`, with files of its host, of another host of its domain, and of another domain. A stylesheet imports one that
/// imports it.
fn answer(path: &str, port: &str) -> Response {
    match path {
        "/docs/" => Response::page(format!(
            "<link rel=stylesheet href=/style/a.css><img src=/a.png><img src=/a.png srcset='/b.png 2x'><script src=missing.js>\
             </script><img src=http://static.a.test:{port}/c.png><img src=http://cdn.test:{port}/d.png>\
             <img src='data:image/png,x'><link rel=alternate type=application/rss+xml href=/feed><a href=/elsewhere>x</a>"
        )),
        "/style/a.css" => stylesheet("@import 'b.css'; @font-face{src:url(f.woff)}"),
        "/style/b.css" => stylesheet("@import 'a.css'; p{background:url(/a.png)}"),
        "/style/f.woff" => Response::text("x").content_type("application/octet-stream"),
        "/b.png" => Response::redirect(302, "/moved.png"),
        "/a.png" | "/moved.png" | "/c.png" | "/d.png" => image(),
        _ => Response::status(404),
    }
}

/// A crawl of the page, whose hosts all resolve to loopback, without delay and robots.txt.
fn crawl_page(answer: impl Fn(&str, &str) -> Response + Send + Sync + 'static) -> (Web, Crawler) {
    let web = Web::builder().site(site_with_port(answer)).start();
    let seed = web.url_of("a.test", "/docs/");
    let scope = Scope::prefixes(&[seed.parse().unwrap()]);
    let crawler = crawl_url(&seed).scope(scope);
    (web, crawler)
}

fn crawl_url(seed: &str) -> Crawler {
    Crawler::new(seed).unwrap().configure(|config| {
        config.requests.dns_overrides = vec![("*".into(), [127, 0, 0, 1].into())];
        config.requests.allow_private = true;
        config.requests.obey_robots = false;
        config.delay = Duration::ZERO;
    })
}

/// What a crawl needs without `cdn.test`, as URLs without `http://a.test:PORT`.
const OWN_FILES: [&str; 7] = [
    "/a.png 5 Other",
    "/docs/ ",
    "/moved.png 5 Other",
    "/style/a.css 44 Text",
    "/style/b.css 42 Text",
    "/style/f.woff 1 Other",
    "http://static.a.test:PORT/c.png 5 Other",
];

#[test]
fn requisites_of_the_own_site_are_fetched_and_those_of_others_on_request() {
    for from_everywhere in [false, true] {
        let (web, crawler) = crawl_page(answer);
        let directory = tempfile::tempdir().unwrap();
        let [files, pages] = ["files", "pages"].map(|name| directory.path().join(name));
        let report = crawler
            .configure(|config| config.requests.requisites = from_everywhere)
            .builtin_output(Files, Target::File(files.clone()))
            .builtin_output(Pages, Target::File(pages.clone()))
            .run_blocking()
            .unwrap();
        let port = format!(":{}/", web.port());
        let mut expected: Vec<String> = OWN_FILES.map(str::to_owned).into();
        expected.extend(from_everywhere.then(|| "http://cdn.test:PORT/d.png 5 Other".to_owned()));
        expected.sort();
        let mut found = lines(&files, &web.url_of("a.test", "/")[..web.url_of("a.test", "").len()]);
        for line in &mut found {
            *line = line.replace(&port, ":PORT/");
            if line.starts_with("/docs/ ") {
                line.truncate("/docs/ ".len());
            }
        }
        found.sort();
        assert_eq!(found, expected);
        assert_eq!(lines(&pages, "").len(), 1, "other outputs get pages only");
        let requested = requests(&web);
        let distinct: BTreeSet<_> = requested.iter().collect();
        assert_eq!(distinct.len(), requested.len(), "{requested:?}");
        assert_eq!(requested.iter().any(|request| request.starts_with("cdn.test")), from_everywhere);
        assert!(!requested.iter().any(|request| request.contains("feed") || request.contains("elsewhere")));
        let outcomes = &report.snapshot.outcomes;
        let counts = ["page", "requisite", "redirect", "HTTP 404"].map(|label| outcomes[label]);
        assert_eq!(counts, [1, 6 + u64::from(from_everywhere), 1, 1]);
        assert_eq!(report.snapshot.pending(), 0);
        assert_adds_up(&report);
    }
}

#[test]
fn nothing_changes_without_an_output_that_keeps_requisites() {
    let (web, crawler) = crawl_page(answer);
    let report = crawler.configure(|config| config.requests.requisites = true).run_blocking().unwrap();
    assert_eq!(requests(&web), ["a.test/docs/"]);
    assert_eq!(report.snapshot.outcomes.len(), 1, "{:?}", report.snapshot.outcomes);
}

#[test]
fn requisites_obey_robots_txt_filters_and_delays() {
    let delay = Duration::from_millis(20);
    let (web, crawler) = crawl_page(|path, port| match path {
        "/robots.txt" => Response::text("User-agent: *\nDisallow: /a.png"),
        _ => answer(path, port),
    });
    let directory = tempfile::tempdir().unwrap();
    let scope = Scope::anywhere().with_filters(&["/docs/"], &["woff$"]).unwrap();
    let report = crawler
        .scope(scope)
        .configure(|config| {
            config.requests.obey_robots = true;
            config.requests.save = Scope::anywhere().with_filters(&["/docs/"], &["/c\\.png$"]).unwrap();
            config.delay = delay;
        })
        .builtin_output(Files, Target::File(directory.path().join("files")))
        .run_blocking()
        .unwrap();
    let requested = requests(&web);
    for left_out in ["/a.png", "f.woff", "/c.png"] {
        assert!(!requested.iter().any(|request| request.ends_with(left_out)), "{left_out}: {requested:?}");
    }
    assert!(requested.contains(&"a.test/style/b.css".to_owned()), "{requested:?}");
    assert_eq!(report.snapshot.outcomes["robots.txt"], 1);
    assert!(web.log().for_host("a.test").smallest_gap().unwrap() >= delay);
}

#[test]
fn private_addresses_stay_blocked_for_requisites() {
    let (web, crawler) = crawl_page(|path, _| match path {
        "/docs/" => Response::page(
            "<img src=http://10.0.0.1/x.png><img src=http://[::1]/x.png><img src=http://other.test/y.png>",
        ),
        _ => image(),
    });
    let directory = tempfile::tempdir().unwrap();
    let report = crawler
        .configure(|config| {
            config.requests.allow_private = false;
            config.requests.requisites = true;
            config.requests.dns_overrides = vec![("a.test".into(), [127, 0, 0, 1].into())];
            config.dns_file = Some(directory.path().join("dns"));
        })
        .builtin_output(Files, Target::File(directory.path().join("files")));
    fs::write(directory.path().join("dns"), "other.test=127.0.0.1\n").unwrap();
    let report = report.run_blocking().unwrap();
    assert_eq!(requests(&web), ["a.test/docs/"]);
    assert_eq!(report.snapshot.outcomes["private address"], 1, "{:?}", report.snapshot.outcomes);
}

#[test]
fn requisites_are_not_counted_as_pages() {
    let (_web, crawler) = crawl_page(answer);
    let directory = tempfile::tempdir().unwrap();
    let crawler = crawler.max_pages(2).builtin_output(Files, Target::File(directory.path().join("files")));
    let report = crawler.run_blocking().unwrap();
    assert_eq!((report.snapshot.pages, report.end), (1, CrawlEnd::Finished));
}

#[test]
fn endless_chain_of_imports_ends() {
    let (web, crawler) = crawl_page(|path, _| match path {
        "/docs/" => Response::page("<link rel=stylesheet href=/1.css>"),
        path => {
            let number: u32 = path.trim_matches(['/', '.', 'c', 's']).parse().unwrap_or(0);
            stylesheet(&format!("@import '/{}.css';", number + 1))
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let report =
        crawler.builtin_output(Files, Target::File(directory.path().join("files"))).run_blocking().unwrap();
    assert_eq!((web.hits(), report.snapshot.outcomes["requisite"]), (12, 11));
}

#[test]
fn page_with_100_000_images_takes_a_bounded_share() {
    let images: String = (0..100_000).map(|number| format!("<img src=/{number}.png>")).collect();
    let (web, crawler) = crawl_page(move |path, _| match path {
        "/docs/" => Response::page(images.clone()),
        _ => image().body(vec![7; 20_000]),
    });
    let directory = tempfile::tempdir().unwrap();
    let crawler =
        crawler.max_bytes(600_000).builtin_output(Files, Target::File(directory.path().join("files")));
    let report = crawler.run_blocking().unwrap();
    // The page is truncated at 500 KB; the budget of bytes ends the crawl.
    assert_eq!(report.end, CrawlEnd::LimitReached(Budget::Bytes));
    assert!(
        report.snapshot.admitted > 20_000 && web.hits() < 100,
        "{} {}",
        report.snapshot.admitted,
        web.hits()
    );
}

#[test]
fn requisites_of_a_resumed_crawl_are_in_the_output_once() {
    // If no further page is allowed, they are still fetched.
    [u64::MAX, 1].into_iter().for_each(assert_resumed);
}

/// A crawl that is stopped with a page and some requisites, and resumed.
fn assert_resumed(max_pages: u64) {
    let (web, _) = crawl_page(|path, port| match path {
        "/style/f.woff" => image().body(vec![7; 1_000]),
        _ => answer(path, port),
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("files");
    let seed = web.url_of("a.test", "/docs/");
    let mut ends = Vec::new();
    for max_bytes in [1_000, 1_000_000] {
        let report = crawl_url(&seed)
            .scope(Scope::prefixes(&[seed.parse().unwrap()]))
            .max_bytes(max_bytes)
            .max_pages(max_pages)
            .state_dir(directory.path().join("state"))
            .builtin_output(Files, Target::File(file.clone()))
            .run_blocking()
            .unwrap();
        ends.push(report.end);
    }
    assert_eq!(ends, [CrawlEnd::LimitReached(Budget::Bytes), CrawlEnd::Finished]);
    let found = lines(&file, "");
    assert_eq!(found.len(), OWN_FILES.len(), "{found:?}");
    assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len());
}

#[test]
fn requisite_that_is_too_large_is_skipped_without_reading_it() {
    let (web, crawler) = crawl_page(|path, _| match path {
        "/docs/" => Response::page("<img src=/large.png><img src=/claims.png><img src=/fine.png>"),
        "/large.png" => image().body(vec![7; 3_000_000]),
        "/claims.png" => Response::page("<p>not an image</p>").content_type("image/png"),
        _ => image().body(vec![7; 900_000]),
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("files");
    let report = crawler
        .configure(|config| config.requests.max_file_bytes = 1_000_000)
        .builtin_output(Files, Target::File(file.clone()))
        .run_blocking()
        .unwrap();
    let found: Vec<String> = lines(&file, &web.url_of("a.test", "")).into_iter().collect();
    assert!(found.contains(&"/fine.png 900000 Other".to_owned()), "{found:?}");
    assert!(found.contains(&"/claims.png 19 Other".to_owned()), "{found:?}");
    assert_eq!(report.snapshot.outcomes["too large"], 1);
    assert!(report.snapshot.received < 1_200_000, "{}", report.snapshot.received);
}

#[test]
fn requisites_of_the_pages_so_far_are_fetched_when_the_pages_are_exhausted() {
    let (web, _) = crawl_page(|path, _| match path {
        path if path.ends_with(".css") => stylesheet(&format!("p{{background:url({path}.png)}}")),
        path if path.ends_with(".png") => image(),
        path => Response::page(format!(
            "<link rel=stylesheet href='{path}a.css'><a href='{path}1/'></a><a href='{path}2/'></a><a href='{path}3/'></a>"
        )),
    });
    let directory = tempfile::tempdir().unwrap();
    for (index, workers) in [1, 4].into_iter().enumerate() {
        let file = directory.path().join(format!("files{index}"));
        let seed = web.url_of("a.test", "/");
        let report = crawl_url(&seed)
            .workers(workers)
            .scope(Scope::hosts(&[seed.parse().unwrap()]))
            .max_pages(5)
            .builtin_output(Files, Target::File(file.clone()))
            .run_blocking()
            .unwrap();
        assert_eq!((report.end, report.snapshot.pages), (CrawlEnd::LimitReached(Budget::Pages), 5));
        assert_eq!(report.snapshot.outcomes["requisite"], 10, "{:?}", report.snapshot.outcomes);
        assert!(report.snapshot.pending() >= 10 - 4, "the other pages stay pending");
        let found = lines(&file, "");
        let ends = |end: &str| found.iter().filter(|line| line.contains(end)).count();
        assert_eq!((found.len(), ends(".css.png ")), (15, 5), "{found:?}");
    }
}

#[test]
fn accepted_types_take_no_requisite_from_an_output() {
    for accepted in ["*/*", "text/css", "text/*", "image/png"] {
        let (web, crawler) = crawl_page(|path, _| match path {
            "/docs/" => Response::page(
                "<link rel=stylesheet href=/docs/a.css><img src=/docs/a.jpg><img src=/docs/a.png>",
            ),
            "/docs/a.css" => stylesheet("@import 'b.css';"),
            "/docs/b.css" => stylesheet("p{background:url(b.png)}"),
            "/docs/a.jpg" => image().content_type("image/jpeg"),
            _ => image(),
        });
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("files");
        crawler
            .max_pages(1)
            .configure(|config| config.requests.accept = vec![accepted.into()])
            .builtin_output(Files, Target::File(file.clone()))
            .run_blocking()
            .unwrap();
        let found: BTreeSet<String> = lines(&file, &web.url_of("a.test", "/docs/")).into_iter().collect();
        for name in ["a.css 16 Text", "b.css 24 Text", "b.png 5 Other", "a.jpg 5 Other", "a.png 5 Other"] {
            assert!(found.contains(name), "{accepted}: {name} is not in {found:?}");
        }
    }
}

#[test]
fn files_of_a_nofollow_page_are_not_followed_as_links() {
    for obey_robots in [true, false] {
        let (web, crawler) = crawl_page(|path, _| match path {
            "/docs/" => Response::page("<meta name=robots content=nofollow><img src=a.png><a href=b>b</a>"),
            "/robots.txt" => Response::status(404),
            _ => image(),
        });
        let report = crawler
            .configure(|config| {
                config.requests.accept = vec!["image/*".into()];
                config.requests.obey_robots = obey_robots;
            })
            .run_blocking()
            .unwrap();
        let images = web.log().iter().filter(|hit| hit.path == "/docs/a.png").count();
        let rejected = report.snapshot.links_rejected.get("nofollow").copied().unwrap_or(0);
        assert_eq!((images, rejected), if obey_robots { (0, 2) } else { (1, 0) });
    }
}

#[test]
fn tree_of_imports_is_limited_by_the_pages_of_the_crawl() {
    let (web, crawler) = crawl_page(|path, _| match path {
        "/docs/" => Response::page("<link rel=stylesheet href=/.css>"),
        path => {
            let path = path.trim_end_matches(".css");
            let count = if path == "/" { 1_200 } else { 20 };
            let imports = (0..count).map(|number| format!("@import '{path}{number}-.css';"));
            stylesheet(&imports.collect::<String>())
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let report =
        crawler.builtin_output(Files, Target::File(directory.path().join("files"))).run_blocking().unwrap();
    assert_eq!((report.end, web.hits()), (CrawlEnd::Finished, 2 + 2_000));
    assert!(report.snapshot.links_rejected["too many links"] > 200);
}

#[test]
fn redirect_that_has_become_a_file_is_not_in_the_output_when_it_is_visited_again() {
    let visits = AtomicUsize::new(0);
    let (web, crawler) = crawl_page(move |path, _| match path {
        "/docs/" => Response::page("<link rel=stylesheet href=/a.css><a href=/docs/b>b</a>"),
        // When it arrives, the redirect has been followed.
        "/docs/b" => Response::page("<link rel=stylesheet href=/x.css>").delay(Duration::from_millis(300)),
        "/a.css" => stylesheet("@import '/x.css';"),
        "/x.css" if visits.fetch_add(1, Ordering::Relaxed) == 0 => Response::redirect(302, "/y.css"),
        _ => stylesheet(""),
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("files");
    let crawler = crawler.max_depth(5).builtin_output(Files, Target::File(file.clone()));
    let report = crawler.run_blocking().unwrap();
    let found = lines(&file, &web.url_of("a.test", ""));
    assert!(!found.iter().any(|line| line.starts_with("/x.css")), "{found:?}");
    assert_adds_up(&report);
}
