//! robots.txt: requested first, obeyed, and what happens when it is unavailable.

use std::thread;
use std::time::Duration;

use testweb::{Certificate, Response, Site, Web};

use crate::common::{Crawl, Ended, counts, linking_to, serve};
use crate::pipeline::{Pipeline, objects_in};

/// A front page that links to /a, /b and /c, with a robots.txt.
fn site() -> Site {
    Site::new().page("/", linking_to(&["/a", "/b", "/c"])).page("/a", "x").page("/b", "x").page("/c", "x")
}

fn saved_under(robots: &str) -> Vec<String> {
    Crawl::of(serve(site().robots(robots.to_owned())).url("/")).run().expect(0).sorted_paths()
}

#[test]
fn disallowed_urls_are_not_requested() {
    let web = serve(site().robots("User-agent: *\nDisallow: /a\n"));
    let ended = Crawl::of(web.url("/")).run().expect(0);
    assert_eq!(ended.sorted_paths(), ["/", "/b", "/c"]);
    assert_eq!(web.log().paths(), ["/robots.txt", "/", "/b", "/c"]);
    assert_eq!(ended.outcomes(), counts(&[("page", 3), ("robots.txt", 1)]));
    assert!(ended.line_about("/a").ends_with("robots.txt disallows it"));
}

#[test]
fn longest_rule_wins_and_allow_wins_a_tie() {
    assert_eq!(saved_under("User-agent: *\nDisallow: /\nAllow: /$\nAllow: /b"), ["/", "/b"]);
    assert_eq!(saved_under("User-agent: *\nDisallow: /b\nAllow: /b"), ["/", "/a", "/b", "/c"]);
    assert_eq!(saved_under("\u{FEFF}User-agent: *\rDisallow: /*c$\r"), ["/", "/a", "/b"]);
}

#[test]
fn own_group_takes_precedence_over_the_default_group() {
    let robots = "User-agent: *\nDisallow: /\n\nUser-agent: Crawler\nDisallow: /a\n\nUser-agent: CRAWLER\nDisallow: /b";
    assert_eq!(saved_under(robots), ["/", "/c"]);
    assert_eq!(saved_under("User-agent: other\nDisallow: /"), ["/", "/a", "/b", "/c"]);
}

#[test]
fn group_is_chosen_by_the_name_that_the_server_sees() {
    let robots = "User-agent: crawler\nDisallow: /\n\nUser-agent: mybot\nDisallow: /a\n\nUser-agent: Mozilla\nDisallow: /b\n\n\
                  User-agent: crawler4j\nDisallow: /c\n\nUser-agent: *\nDisallow: /";
    let browser = "Mozilla/5.0 (compatible; MyBot/1.0)";
    for (options, saved) in [
        (&["--user-agent", "mybot/1.0 (+https://a.test)"][..], &["/", "/b", "/c"][..]),
        (&["--user-agent", "crawler4j"], &["/", "/a", "/b"]),
        (&["--user-agent", browser], &["/", "/a", "/c"]),
        (&["--user-agent", browser, "--robots-token", "mybot"], &["/", "/b", "/c"]),
    ] {
        let web = serve(site().robots(robots));
        let crawl = options.iter().fold(Crawl::of(web.url("/")), |crawl, option| crawl.with_one(*option));
        assert_eq!(crawl.run().expect(0).sorted_paths(), saved, "{options:?}");
        let lines = tempfile::NamedTempFile::new().unwrap();
        let crawl = Pipeline::bare(web.url("/")).with("--similarity 0").module("jsonl", lines.path());
        options.iter().fold(crawl, |crawl, option| crawl.with_one(*option)).run().expect(0);
        assert_eq!(objects_in(lines.path()).len(), saved.len(), "{options:?}");
    }
    let web = serve(site().robots(robots));
    Crawl::of(web.url("/")).run().expect(1);
    for token in ["mybot", "crawler/0", ""] {
        let crawl = Crawl::of(web.url("/")).with_one("--robots-token").with_one(token);
        let ended = crawl.run().expect(2);
        assert!(
            ended.stderr.contains("--robots-token is invalid: cannot use robots token"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn robots_txt_in_utf16_is_obeyed() {
    for start in ["\u{FEFF}", "", "й\r\n"] {
        let robots = format!("{start}User-agent: *\r\nDisallow: /a\r\n");
        for to_bytes in [u16::to_le_bytes, u16::to_be_bytes] {
            let robots: Vec<u8> = robots.encode_utf16().flat_map(to_bytes).collect();
            let ended = Crawl::of(serve(site().robots(robots)).url("/")).run().expect(0);
            assert_eq!(ended.sorted_paths(), ["/", "/b", "/c"], "{start:?}");
        }
    }
}

#[test]
fn disallowed_seed_yields_no_page() {
    let web = serve(site().robots("User-agent: *\nDisallow: /\n"));
    let ended = Crawl::of(web.url("/")).run().expect(1);
    assert_eq!(web.log().paths(), ["/robots.txt"]);
    assert!(ended.stderr.contains("--ignore-robots"), "{}", ended.stderr);
}

#[test]
fn wait_for_robots_txt_is_reported_once_with_its_cause() {
    let web = || {
        let robots = vec![Response::status(503), Response::status(503), Response::status(404)];
        serve(site().response("/robots.txt", Response::sequence(robots)))
    };
    let (classic, pipeline) = (web(), web());
    thread::scope(|scope| {
        let classic = scope.spawn(|| (&classic, Crawl::of(classic.url("/")).with("-v").run().expect(0)));
        let pipeline = Pipeline::bare(pipeline.url("/")).with("-v --similarity 0").run().expect(0);
        let (web, classic) = classic.join().unwrap();
        let message = |web: &Web| format!("waiting for robots.txt of {} (HTTP 503)\n", web.url(""));
        assert_eq!(classic.messages(), message(web));
        assert!(pipeline.messages().starts_with("waiting for robots.txt of http://"), "{}", pipeline.stderr);
        assert_eq!(pipeline.stderr.matches("waiting for").count(), 1, "{}", pipeline.stderr);
    });
}

#[test]
fn missing_or_forbidden_robots_txt_allows_everything() {
    for status in [400, 401, 403, 404, 410, 418] {
        let web = serve(site().status("/robots.txt", status));
        Crawl::of(web.url("/")).run().expect(0);
        assert_eq!(web.log().for_path("/robots.txt").len(), 1, "{status}");
        assert_eq!(web.log().len(), 5, "{status}");
    }
}

#[test]
fn robots_txt_that_becomes_available_is_obeyed_and_no_url_has_failed() {
    let failing = |status: u16| {
        let sequence = vec![
            Response::status(status),
            Response::status(503),
            Response::text("User-agent: *\nDisallow: /a"),
        ];
        serve(site().response("/robots.txt", Response::sequence(sequence)))
    };
    let web = failing(500);
    let ended = Crawl::of(web.url("/")).run().expect(0);
    assert_eq!(ended.sorted_paths(), ["/", "/b", "/c"]);
    let log = web.log();
    assert_eq!(log.for_path("/robots.txt").len(), 3);
    for (pair, seconds) in log.windows(2).zip([1, 2]) {
        assert!(
            pair[1].started - pair[0].ended.unwrap() >= Duration::from_secs(seconds),
            "{:?}",
            log.paths()
        );
    }
    let ended = Pipeline::bare(failing(429).url("/")).with("--similarity 0").run().expect(0);
    assert_eq!(ended.outcomes(), counts(&[("page", 3), ("robots.txt", 1)]));
}

#[test]
fn host_that_cannot_be_reached_is_reported_as_that() {
    // Bound but not listening, so that no other process gets the port.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let https = Web::builder().site(site()).https(Certificate::SelfSigned).start();
    for (seed, cause) in [
        (format!("http://{}/", socket.local_addr().unwrap()), "connection refused"),
        ("http://nowhere.invalid/".into(), "DNS lookup failed: the name does not exist"),
        (https.https_url("/"), "TLS failed: the certificate is self-signed"),
    ] {
        for ended in [Crawl::of(seed.clone()).run().expect(1), Pipeline::bare(seed).run().expect(1)] {
            assert!(ended.stderr.contains(cause), "{}", ended.stderr);
            assert!(!ended.stderr.contains("robots"), "{}", ended.stderr);
        }
    }
}

#[test]
fn robots_txt_that_redirects_to_itself_allows_nothing() {
    let web = serve(site().redirect("/robots.txt", "/robots.txt"));
    let ended = Crawl::of(web.url("/")).run().expect(1);
    assert_eq!(web.log().paths(), ["/robots.txt"]);
    assert!(ended.stderr.contains("robots.txt unavailable: it redirects to itself"), "{}", ended.stderr);
}

#[test]
fn robots_txt_that_redirects_in_a_loop_or_too_often_to_other_sites_allows_nothing() {
    for (length, cause) in [(2, "it redirects to itself"), (8, "more than 5 redirects")] {
        let site = site().fallback(move |request| {
            let number = request.path.strip_prefix("/robots/").map_or(0, |number| number.parse().unwrap());
            let next: usize = (number + 1) % length;
            let (_, port) = request.authority.rsplit_once(':').unwrap();
            Response::redirect(302, &format!("http://site{next}.test:{port}/robots/{next}"))
        });
        let web = serve(site.redirect("/robots.txt", "/robots/0"));
        let seed = format!("http://site0.test:{}/", web.port());
        let ended = Crawl::of(seed).with("--resolve *.test=127.0.0.1 --allow-private").run().expect(1);
        assert!(ended.stderr.contains(cause), "{}", ended.stderr);
        assert!(web.log().paths().iter().all(|path| path.starts_with("/robots")), "{:?}", web.log().paths());
    }
}

#[test]
fn robots_txt_with_more_than_five_redirects_counts_as_missing() {
    for (redirects, saved) in [(5, 3), (6, 4)] {
        let hops = (0..redirects).fold(site(), |site, n| {
            let from = if n == 0 { "/robots.txt".to_owned() } else { format!("/robots/{n}") };
            site.redirect(&from, &format!("/robots/{}", n + 1))
        });
        let web = serve(hops.text(&format!("/robots/{redirects}"), "User-agent: *\nDisallow: /a"));
        let ended = Crawl::of(web.url("/")).run().expect(0);
        assert_eq!(ended.pages().len(), saved, "{redirects} redirects");
    }
}

#[test]
fn robots_txt_is_read_up_to_half_a_megabyte() {
    let padding = "# padding\n".repeat(50_000);
    let within = format!("User-agent: *\nDisallow: /a\n{padding}Disallow: /b\n");
    assert_eq!(saved_under(&within), ["/", "/c"]);
    let endless = site().response("/robots.txt", Response::hostile(testweb::Hostile::EndlessBody));
    let ended = Crawl::of(serve(endless).url("/")).run().expect(0);
    assert_eq!(ended.pages().len(), 4);
}

#[test]
fn robots_txt_is_requested_once() {
    let web = serve(Site::seeded(8, 60));
    Crawl::of(web.url("/")).with("--concurrency 16").run().expect(0);
    assert_eq!(web.log().for_path("/robots.txt").len(), 1);
    assert_eq!(web.log().paths()[0], "/robots.txt");
}

#[test]
fn ignored_robots_txt_is_not_requested() {
    let web = serve(site().robots("User-agent: *\nDisallow: /\n"));
    let ended = Crawl::of(web.url("/")).with("--ignore-robots").run().expect(0);
    assert_eq!(ended.pages().len(), 4);
    assert!(web.log().for_path("/robots.txt").is_empty());
}

/// The User-Agent of a crawl, which is the same in every request.
fn user_agent(options: &[&str]) -> String {
    let web = serve(site());
    let crawl = options.iter().fold(Crawl::of(web.url("/")), |crawl, option| crawl.with_one(*option));
    let ended: Ended = crawl.run().expect(0);
    assert_eq!(ended.pages().len(), 4);
    let log = web.log();
    let agents: Vec<&str> = log.iter().filter_map(|hit| hit.header("user-agent")).collect();
    assert!(agents.len() == log.len() && agents.iter().all(|agent| *agent == agents[0]), "{agents:?}");
    agents[0].to_owned()
}

#[test]
fn every_request_has_the_user_agent() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(user_agent(&[]), format!("crawler/{version}"));
    assert_eq!(
        user_agent(&["--contact", "https://example.org/bot"]),
        format!("crawler/{version} (+https://example.org/bot)")
    );
    assert_eq!(user_agent(&["--user-agent", "My Bot/2"]), "My Bot/2");
    assert_eq!(
        user_agent(&["--user-agent", "My Bot/2", "--contact", "mailto:me@example.org"]),
        "My Bot/2 (+mailto:me@example.org)"
    );
}

#[test]
fn robots_txt_with_a_retry_after_of_an_hour_is_not_waited_for() {
    let busy = Response::status(503).header("Retry-After", "3600");
    let web = serve(Site::new().page("/", "x").response("/robots.txt", busy));
    let ended = Crawl::of(web.url("/")).run().expect(1);
    assert!(ended.stderr.contains("robots.txt unavailable: HTTP 503"), "{}", ended.stderr);
    assert!(ended.stderr.contains("; try again later, or use --ignore-robots"), "{}", ended.stderr);
    assert_eq!(web.log().paths(), ["/robots.txt"]);
}
