//! Sitemaps: those that robots.txt names, those that the user names, and hostile ones.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testweb::{Hostile, Response, Site, Web};

use crate::common::{counts, linking_to, run, serve};
use crate::pipeline::{Pipeline, adds_up, objects_in, paths, urls};
use crate::state::StateDir;

fn urlset(urls: &[String]) -> String {
    let urls: String = urls.iter().map(|url| format!("<url><loc>{url}</loc></url>")).collect();
    format!(
        "<?xml version='1.0'?><urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{urls}</urlset>"
    )
}

fn index(sitemaps: &[String]) -> String {
    let sitemaps: String =
        sitemaps.iter().map(|url| format!("<sitemap><loc>{url}</loc></sitemap>")).collect();
    format!("<sitemapindex>{sitemaps}</sitemapindex>")
}

fn xml(body: impl Into<String>) -> Response {
    Response::page(body.into()).content_type("application/xml")
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

/// A site whose robots.txt names an index of every form of sitemap.
fn site() -> Site {
    let pages = "<urlset><url><loc>/a</loc><lastmod>2026-11-05</lastmod></url><url><loc>/linked</loc><lastmod>2026</lastmod></url>\
                 <url><loc>http://elsewhere.invalid/</loc></url></urlset>";
    let rss = "<rss><channel><item><link>/rss</link></item></channel></rss>";
    let atom = "<feed><entry><link href='/atom'/></entry></feed>";
    let children = ["/one.xml.gz", "/list.txt", "/rss.xml", "/atom.xml", "/moved.xml"].map(String::from);
    Site::new()
        .robots("User-agent: *\nDisallow: /private\nSitemap: /sitemap.xml\n")
        .response("/sitemap.xml", xml(index(&children)))
        .response("/one.xml.gz", Response::page(gzip(pages.as_bytes())).content_type("application/gzip"))
        .text("/list.txt", "")
        .response("/rss.xml", xml(rss).gzip())
        .response("/atom.xml", xml(atom))
        .redirect("/moved.xml", "/new.xml")
        .response("/new.xml", xml(urlset(&["/private/x".into(), "/gone".into()])))
        .page("/", linking_to(&["/linked"]))
        .page("/linked", "linked")
        .page("/a", "a")
        .page("/text", "text")
        .page("/rss", "rss")
        .page("/atom", "atom")
}

/// Runs a crawl of one site, and returns its pages and its summary.
fn crawl(web: &Web, options: &str, directory: &Path) -> (Vec<Value>, Value, String) {
    let (lines, summary) = (directory.join("pages.jsonl"), directory.join("summary.json"));
    let crawl = Pipeline::bare(web.url("/")).with(options).with("--similarity 0 --overwrite --workers 2");
    let crawl = crawl.module("jsonl", &lines).with("--summary").with_one(summary.display().to_string());
    let ended = crawl.run();
    let summary: Value = serde_json::from_str(&std::fs::read_to_string(summary).unwrap()).unwrap();
    adds_up(&summary);
    assert!(ended.peak_rss < 200 << 20, "{} bytes", ended.peak_rss);
    (objects_in(&lines), summary, ended.stdout)
}

#[test]
fn sitemaps_of_robots_txt_are_used_within_the_scope() {
    let web = serve(site());
    let directory = tempfile::tempdir().unwrap();
    let (pages, summary, text) = crawl(&web, "--scope host", directory.path());
    assert_eq!(paths(&web, &pages), ["/", "/a", "/atom", "/linked", "/rss"]);
    let page = |path: &str| pages.iter().find(|page| page["url"] == web.url(path)).unwrap();
    assert_eq!(
        (&page("/a")["lastmod"], &page("/a")["depth"]),
        (&"2026-11-05T00:00:00.000Z".into(), &1.into())
    );
    assert_eq!(page("/").get("lastmod"), Some(&Value::Null));
    let outcomes = adds_up(&summary);
    assert_eq!((outcomes["robots.txt"], outcomes["HTTP 404"], outcomes["redirect"]), (1, 1, 1));
    let sitemaps = &summary["sitemaps"];
    assert_eq!(
        (&sitemaps["total"], &sitemaps["failed"], &sitemaps["urls"]),
        (&6.into(), &1.into(), &12.into())
    );
    assert_eq!(summary["links"]["rejected"]["by_reason"]["out of scope"], 1);
    assert_eq!(summary["failed_sitemaps"][web.url("/list.txt")], "it is empty");
    assert!(text.contains("Sitemaps           6   12 URLs · 1 failed\n"), "{text}");
    assert!(text.contains(&format!("Sitemap failed: {} (it is empty)\n", web.url("/list.txt"))), "{text}");
    assert_eq!(summary["requests"], web.hits());
    assert!(!web.log().paths().contains(&"/private/x"));
}

#[test]
fn sitemaps_are_used_only_if_they_are_wanted() {
    for (options, sitemaps) in [
        ("", 0),
        ("--scope host --no-sitemaps", 0),
        ("--scope host --max-depth 0", 0),
        ("--scope host --ignore-robots", 0),
        ("--scope prefix", 7),
        ("--scope domain --max-depth 1", 7),
    ] {
        let web = serve(site());
        let directory = tempfile::tempdir().unwrap();
        let (_, summary, _) = crawl(&web, options, directory.path());
        let requested =
            web.log().paths().iter().filter(|path| path.contains(".xml") || path.contains(".txt")).count();
        let robots = usize::from(!options.contains("ignore"));
        assert_eq!(requested, sitemaps + robots, "{options}");
        assert_eq!(summary["requests"], web.hits(), "{options}");
    }
    // One that the user names is used in every scope, and may be on another host.
    let other = serve(Site::new().response("/s.xml", xml(urlset(&["/other".into()]))).page("/other", "x"));
    let web = serve(site());
    let directory = tempfile::tempdir().unwrap();
    let option = format!("--sitemap {} --sitemap {}", other.url("/s.xml"), web.url("/rss.xml"));
    let (pages, _, _) = crawl(&web, &format!("{option} --allow-private"), directory.path());
    assert_eq!(urls(&pages).len(), 4, "{pages:?}");
    assert!(other.log().paths().contains(&"/robots.txt"), "its robots.txt is obeyed");
    let (pages, summary, _) = crawl(&web, &format!("{option} --no-sitemaps --scope host"), directory.path());
    assert_eq!(paths(&web, &pages), ["/", "/linked", "/rss"]);
    assert_eq!(summary["sitemaps"]["failed"], 1, "the other host has a private address: {summary}");
    let ended = run(&["crawl", "http://a.test/", "--sitemap", "a b"]).expect(2);
    assert!(ended.stderr.contains("--sitemap"), "{}", ended.stderr);
}

#[test]
fn hostile_sitemaps_cost_little_and_lose_nothing() {
    let spaces = [b"<urlset>".as_slice(), &vec![b' '; 60 << 20]].concat();
    let bomb = "<!DOCTYPE u [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;'><!ENTITY c '&b;&b;&b;&b;&b;&b;&b;'>]>\
                <urlset><url><loc>/&c;</loc></url><url><loc>/bomb</loc></url></urlset>";
    let page = |name: &str| urlset(&[format!("/{name}")]);
    let utf16: Vec<u8> =
        format!("\u{feff}{}", page("utf16")).encode_utf16().flat_map(u16::to_le_bytes).collect();
    let latin = [
        b"<?xml version='1.0' encoding='latin1'?><urlset><url><loc>/latin-\xE4".as_slice(),
        b"</loc></url></urlset>",
    ]
    .concat();
    let many: Vec<String> = (0..100_000).map(|number| format!("/never/{number}")).collect();
    let nested = |level: usize| xml(index(&[format!("/nested{}.xml", level + 1)]));
    let names = [
        "html",
        "garbage",
        "truncated",
        "missing",
        "unavailable",
        "gzip-bomb",
        "endless",
        "file-bomb",
        "entities",
        "cycle",
        "nested0",
        "utf16",
        "latin",
        "private",
        "prefix",
        "index",
        "silent",
    ];
    let robots: String = names.iter().map(|name| format!("Sitemap: /{name}.xml\n")).collect();
    let robots = robots + &"Sitemap: /again.xml\n".repeat(100_000);
    let mut site = Site::new()
        .robots(robots)
        .page("/", "seed")
        .page("/html.xml", "<html><body><a href=/never>")
        .response("/garbage.xml", xml("\u{1}\u{2}\u{3}garbage"))
        .response("/truncated.xml", xml("<urlset><url><loc>/truncated</loc></url><url><loc>/nev"))
        .status("/unavailable.xml", 503)
        .response("/gzip-bomb.xml", Response::hostile(Hostile::GzipBomb))
        .response("/endless.xml", Response::hostile(Hostile::EndlessBody))
        .response("/file-bomb.xml", Response::page(gzip(&spaces)).content_type("application/x-gzip"))
        .response("/entities.xml", xml(bomb))
        .response("/cycle.xml", xml(index(&["/cycle.xml".into(), "/cycle2.xml".into()])))
        .response("/cycle2.xml", xml(index(&["/cycle.xml".into(), "/again.xml".into()])))
        .response("/utf16.xml", Response::page(utf16))
        .response("/latin.xml", Response::page(latin))
        .response(
            "/private.xml",
            xml(index(&["http://10.0.0.1/s.xml".into(), "http://169.254.169.254/".into()])),
        )
        .response(
            "/prefix.xml",
            xml("<sm:urlset><sm:url><sm:loc><![CDATA[ /prefix ]]></sm:loc></sm:url></sm:urlset>"),
        )
        .response("/index.xml", xml(index(&many[..3])))
        .response("/silent.xml", Response::hostile(Hostile::CloseImmediately))
        .response("/again.xml", xml(page("again")));
    for level in 0..6 {
        site = site.response(&format!("/nested{level}.xml"), nested(level));
    }
    for name in ["truncated", "bomb", "utf16", "latin-%C3%A4", "prefix", "again"] {
        site = site.page(&format!("/{name}"), name);
    }
    let web = serve(site);
    let directory = tempfile::tempdir().unwrap();
    let (pages, summary, _) = crawl(&web, "--scope host --max-bytes 2GB --timeout 60s", directory.path());
    let expected = ["/", "/again", "/bomb", "/latin-%C3%A4", "/prefix", "/truncated", "/utf16"];
    assert_eq!(paths(&web, &pages), expected, "{summary}");
    let cause = |name: &str| {
        summary["failed_sitemaps"][web.url(&format!("/{name}.xml"))].as_str().unwrap_or("none").to_owned()
    };
    for (name, words) in [
        ("html", "it is an HTML page"),
        ("garbage", "neither XML nor a list of URLs"),
        ("truncated", "it is truncated; the URL before that is used"),
        ("missing", "HTTP 404"),
        ("unavailable", "HTTP 503"),
        ("file-bomb", "it has more than 50 MB"),
        ("nested3", "more than 3 sitemap indexes led to its sitemaps"),
        ("entities", "none"),
        ("cycle", "none"),
        ("latin", "none"),
    ] {
        assert!(cause(name).contains(words), "{name}: {}", cause(name));
    }
    assert!(["gzip-bomb", "endless", "silent"].iter().all(|name| cause(name) != "none"), "{summary}");
    assert_eq!(summary["links"]["rejected"]["by_reason"]["private address"], 2, "{summary}");
    let log = web.log();
    assert!(!log.paths().iter().any(|path| path.starts_with("/nested4") || *path == "/never"), "{summary}");
    assert_eq!(summary["requests"], web.hits());
}

#[test]
fn large_sitemaps_end_at_the_limits_of_the_protocol() {
    let urls: Vec<String> = (0..60_000).map(|number| format!("/pages/{number}")).collect();
    let children: Vec<String> = (0..60_000).map(|number| format!("/maps/{number}.xml")).collect();
    let site = Site::new()
        .robots("Sitemap: /urls.xml\nSitemap: /index.xml")
        .page("/", "seed")
        .response("/urls.xml", xml(urlset(&urls)))
        .response("/index.xml", xml(index(&children)))
        .fallback(|_| Response::page("page"));
    let web = serve(site);
    let directory = tempfile::tempdir().unwrap();
    let (_, summary, _) = crawl(&web, "--scope host --max-pages 100 --timeout 60s", directory.path());
    let failed = &summary["failed_sitemaps"];
    assert_eq!(
        failed[web.url("/urls.xml")],
        "it has more than 50,000 URLs; the 50,000 URLs before that are used",
        "{summary}"
    );
    assert_eq!(
        failed[web.url("/index.xml")],
        "it has more than 50,000 sitemaps; the 50,000 URLs before that are used",
        "{summary}"
    );
    assert_eq!((&summary["links"]["new"], &summary["pages"]), (&50_000.into(), &100.into()), "{summary}");
    assert_eq!(summary["requests"], web.hits());
}

#[test]
fn slow_sitemaps_of_many_hosts_hold_up_no_pages() {
    let slow = || Site::new().response("/sitemap.xml", xml(urlset(&[])).delay(Duration::from_millis(700)));
    let next = |path: &str| path[1..].parse().map_or(1, |page: u32| page + 1);
    let pages = Site::new().fallback(move |request| match next(&request.path) {
        page @ 0..=10 => Response::page(linking_to(&[&format!("/{page}")])),
        _ => Response::page("the last page"),
    });
    let hosts: Vec<String> = (0..12).map(|host| format!("m{host}.test")).collect();
    let web = hosts.iter().fold(Web::builder().host("pages.test", pages.robots("")), |web, host| {
        web.host(host, slow().robots(""))
    });
    let web = web.start();
    let options = "--resolve *=127.0.0.1 --allow-private --scope host --delay 0 --workers 1 --concurrency 4 --similarity 0";
    let crawl = Pipeline::bare(web.url_of("pages.test", "/")).with(options);
    let named =
        |crawl: Pipeline, host: &String| crawl.with("--sitemap").with_one(web.url_of(host, "/sitemap.xml"));
    hosts.iter().fold(crawl, named).run().expect(0);
    let log = web.log();
    let paths = log.paths();
    let sitemaps = paths.iter().take_while(|path| **path != "/10").filter(|path| **path == "/sitemap.xml");
    assert!(sitemaps.count() <= 6 && paths.contains(&"/10"), "{paths:?}");
}

#[test]
fn sitemaps_are_read_although_their_host_has_all_its_pages() {
    let web = serve(site());
    let directory = tempfile::tempdir().unwrap();
    let (pages, summary, _) = crawl(&web, "--scope host --max-pages-per-host 1", directory.path());
    assert_eq!(paths(&web, &pages), ["/"]);
    let failed: Vec<&String> = summary["failed_sitemaps"].as_object().unwrap().keys().collect();
    assert_eq!(failed, [&web.url("/list.txt")], "{summary}");
}

#[test]
fn killed_crawl_resumes_with_its_sitemaps_and_why_names_them() {
    let pages = |map: usize| (0..15).map(|page| format!("/{map}/{page}")).collect::<Vec<_>>();
    let mut site =
        Site::new().robots("Sitemap: /index.xml").page("/", "seed").fallback(|_| Response::page("page"));
    let maps: Vec<String> = (0..4).map(|map| format!("/map{map}.xml")).collect();
    site = site.response("/index.xml", xml(index(&maps)));
    for (number, map) in maps.iter().enumerate() {
        let entries: String = pages(number)
            .iter()
            .map(|url| format!("<url><loc>{url}</loc><lastmod>2026-11-05</lastmod></url>"))
            .collect();
        site = site.response(map, xml(format!("<urlset>{entries}</urlset>")));
    }
    let web = serve(site);
    let directory = StateDir::new();
    let lines = directory.path("pages.jsonl");
    let crawl = Pipeline::bare(web.url("/"))
        .with("--scope host --similarity 0 --delay 15ms --state")
        .with_one(directory.state());
    let mut running = crawl.module("jsonl", &lines).start();
    for round in 1..=3 {
        let before = web.hits();
        running.until("some requests", |_| web.hits() >= before + 5 * round);
        running.signal(Signal::KILL);
        running.wait();
        running = directory.resume("");
    }
    let ended = running.wait().expect(0);
    assert_eq!(urls(&objects_in(&lines)).len(), 61, "{}", ended.stdout);
    assert_eq!(ended.outcomes(), counts(&[("page", 61)]), "{}", ended.stdout);
    assert!(ended.stdout.contains("Sitemaps           5   64 URLs\n"), "{}", ended.stdout);
    let why = |path: &str| run(&["why", &web.url(path), "--state", &directory.state()]).expect(0).stdout;
    let page = why("/2/3");
    assert!(
        page.contains(&format!("reached: listed in the sitemap {},", web.url("/map2.xml")))
            && page.contains("lastmod: 2026-11-05 00:00:00 UTC"),
        "{page}"
    );
    let map = why("/map2.xml");
    assert!(map.contains("outcome: sitemap: 15 URLs, ") && map.contains(&web.url("/index.xml")), "{map}");
}
