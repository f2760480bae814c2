//! Seed lists and sitemaps of distributed crawls.

use std::collections::BTreeSet;
use std::fs;

use testweb::{Response, Site, Web};

use super::fixture::{Fixture, is_over};
use super::process::Process;

/// A site whose pages are in its sitemap only.
fn site(pages: usize) -> Site {
    let urls: String = (0..pages)
        .map(|page| format!("<url><loc>/{page}</loc><lastmod>2026-11-05</lastmod></url>"))
        .collect();
    let sitemap = Response::page(format!("<urlset>{urls}</urlset>")).content_type("text/xml");
    let site = Site::new().robots("Sitemap: /sitemap.xml").response("/sitemap.xml", sitemap);
    (0..pages)
        .fold(site.page("/", "seed"), |site, page| site.page(&format!("/{page}"), format!("page {page}")))
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn workers_have_the_scope_of_seed_lists_and_read_sitemaps() {
    let fixture = Fixture::new(1, 1);
    let hosts: Vec<String> = (0..6).map(|host| format!("s{host}.test")).collect();
    let web = hosts.iter().fold(Web::builder(), |web, host| web.host(host, site(8))).start();
    let expected = |hosts: &[String]| -> BTreeSet<String> {
        let paths = || ["/".to_owned()].into_iter().chain((0..8).map(|page| format!("/{page}")));
        hosts.iter().flat_map(|host| paths().map(|path| web.url_of(host, &path))).collect()
    };
    let list = |name: &str, hosts: &[String]| {
        let text: String = hosts.iter().map(|host| format!("{}\n", web.url_of(host, "/"))).collect();
        fs::write(fixture.directory.path().join(name), text).unwrap();
    };
    list("first.txt", &hosts[..3]);
    list("second.txt", &hosts[3..]);
    let crawl = || {
        let mut command = fixture.crawler(&[
            "crawl",
            "--seeds",
            "first.txt",
            "--redis",
            &fixture.redis_url,
            "--workers",
            "2",
        ]);
        command.args(fixture.options()).args(["--scope", "host", "--summary", "summary.json"]);
        Process::start(command)
    };
    crawl().wait_for_success();
    assert_eq!(fixture.pages(), expected(&hosts[..3]));
    let status = fixture.status();
    assert_eq!(
        (&status["sitemaps"]["total"], &status["sitemaps"]["urls"]),
        (&3.into(), &24.into()),
        "{status}"
    );
    assert_eq!(status["requests"], web.hits());
    // The same command needs the list no more.
    fs::remove_file(fixture.directory.path().join("first.txt")).unwrap();
    crawl().wait_for_success();

    let roles = [&["frontier", "--stay"][..], &["worker", "--stay"]]
        .map(|role| Process::start(fixture.crawler(role)));
    let added = fixture.run(&["submit", "--seeds", "second.txt"]);
    assert!(added.contains("added 3 URLs"), "{added}");
    fixture.wait_for_status("all pages", |status| is_over(status) && status["pages"] == 54);
    assert_eq!(fixture.pages(), expected(&hosts));
    let why = fixture.run(&["why", &web.url_of("s4.test", "/5"), "--redis"]);
    assert!(why.contains("lastmod: 2026-11-05 00:00:00 UTC"), "{why}");
    let sitemap = format!("reached: listed in the sitemap {},", web.url_of("s4.test", "/sitemap.xml"));
    assert!(why.contains(&sitemap), "{why}");
    assert!(why.contains("\n  linked from: none of 54 stored pages\n"), "{why}");
    let why = fixture.run(&["why", &web.url_of("s4.test", "/sitemap.xml"), "--redis"]);
    assert!(why.contains("outcome: sitemap: "), "{why}");
    for role in roles {
        role.signal(rustix::process::Signal::TERM);
        role.wait();
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn running_workers_get_the_scope_of_the_first_list() {
    let fixture = Fixture::new(1, 1);
    let web = ["a.test", "b.test"].iter().fold(Web::builder(), |web, host| web.host(host, site(3))).start();
    fs::write(fixture.directory.path().join("list.txt"), web.url_of("b.test", "/")).unwrap();
    let mut command = fixture.crawler(&[
        "crawl",
        &web.url_of("a.test", "/"),
        "--redis",
        &fixture.redis_url,
        "--workers",
        "1",
    ]);
    command.args(fixture.options()).args(["--scope", "host"]);
    Process::start(command).wait_for_success();
    let roles = [&["frontier", "--stay"][..], &["worker", "--stay"]]
        .map(|role| Process::start(fixture.crawler(role)));
    fixture.run(&["submit", "--seeds", "list.txt"]);
    fixture.wait_for_status("all pages", |status| is_over(status) && status["pages"] == 8);
    for role in roles {
        role.signal(rustix::process::Signal::TERM);
        role.wait();
    }
}
