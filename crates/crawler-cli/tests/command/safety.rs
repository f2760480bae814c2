//! What a page or server cannot do: reach private addresses, learn secrets, keep the crawl busy forever.

use std::fs;
use std::path::Path;

use testweb::{Request, Response, Site, Web};

use crate::common::{Crawl, Ended, counts, linking_to, serve};
use crate::pipeline::Pipeline;

/// A site whose robots.txt redirects to this URL.
fn robots_redirecting_to(target: &str) -> Web {
    serve(Site::new().redirect("/robots.txt", target).page("/", linking_to(&["/a"])).page("/a", "x"))
}

#[test]
fn redirects_to_private_addresses_are_blocked_in_every_notation() {
    let inside = serve(Site::new().text("/robots.txt", ""));
    let port = inside.port();
    let hosts = [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "0.0.0.0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "localhost",
        "named.test",
        "10.0.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "224.0.0.1",
        "100.64.0.1",
        "[fe80::1]",
        "[fd00::1]",
    ];
    for host in hosts {
        let web = robots_redirecting_to(&format!("http://{host}:{port}/robots.txt"));
        let ended = Crawl::of(web.url("/")).with("--resolve named.test=127.0.0.1").run().expect(1);
        assert!(ended.stderr.contains("robots.txt unavailable: private address"), "{host}: {}", ended.stderr);
        assert!(inside.log().is_empty(), "{host}");
        assert!(ended.pages().is_empty());
    }
}

#[test]
fn allow_private_permits_private_addresses() {
    let inside = serve(Site::new().text("/rules", "User-agent: *\nDisallow: /a"));
    let web = robots_redirecting_to(&inside.url("/rules"));
    let ended = Crawl::of(web.url("/")).with("--allow-private").run().expect(0);
    assert_eq!(ended.sorted_paths(), ["/"]);
    assert_eq!(inside.log().paths(), ["/rules"]);
}

#[test]
fn seed_host_can_have_a_private_address() {
    let web = serve(Site::new().page("/", linking_to(&["/a"])).page("/a", "x"));
    let seed = format!("http://www.site.test:{}/", web.port());
    let ended = Crawl::of(seed).with("--resolve *.site.test=127.0.0.1").run().expect(0);
    assert_eq!(ended.sorted_paths(), ["/", "/a"]);
    assert!(web.log().iter().all(|hit| hit.host == "www.site.test"));
}

/// A site whose start page changes the address of `h.test` in a file, and closes the connection.
fn rebinding_site(file: &Path, address: &'static str) -> Web {
    let file = file.to_owned();
    serve(Site::new().page("/a", "x").fallback(move |_| {
        fs::write(&file, format!("h.test={address}")).unwrap();
        Response::page(linking_to(&["/a"])).close()
    }))
}

#[test]
fn seed_may_only_have_the_kind_of_address_that_it_had_at_first() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("addresses");
    for (later, is_saved) in [("127.0.0.1", true), ("10.255.255.1", false), ("169.254.169.254", false)] {
        let web = rebinding_site(&file, later);
        let options = format!("--ignore-robots --connect-timeout 1s --resolve-file {}", file.display());
        fs::write(&file, "h.test=127.0.0.1").unwrap();
        let classic = Crawl::of(web.url_of("h.test", "/")).with(&options).run().expect(0);
        fs::write(&file, "h.test=127.0.0.1").unwrap();
        let pipeline = Pipeline::bare(web.url_of("h.test", "/")).with(&options).run().expect(0);
        for ended in [classic, pipeline] {
            let expected = if is_saved {
                counts(&[("page", 2)])
            } else {
                counts(&[("page", 1), ("private address", 1)])
            };
            assert_eq!(ended.outcomes(), expected, "{later}: {}", ended.stderr);
        }
    }
}

#[test]
fn first_matching_resolve_option_wins() {
    let web = serve(Site::new().page("/", "x"));
    let seed = format!("http://b.site.test:{}/", web.port());
    let options = "--resolve a.site.test=127.0.0.9 --resolve B.site.test=127.0.0.1 --resolve *=127.0.0.9";
    Crawl::of(seed).with(options).run().expect(0);
}

/// All output and files of a crawl.
fn traces(ended: &Ended) -> String {
    let files: String =
        ended.pages().iter().map(|page| format!("{page:?}{}", String::from_utf8_lossy(&page.body))).collect();
    format!("{}{}{files}", ended.stdout, ended.stderr)
}

#[test]
fn seed_credentials_are_sent_only_to_the_seed_origin() {
    let other = serve(Site::new().text("/rules", ""));
    let web = serve(
        Site::new()
            .redirect("/robots.txt", &other.url("/rules"))
            .page("/", linking_to(&["/a", "/missing"]))
            .redirect("/a", "/b")
            .page("/b", "x"),
    );
    for option in ["", "-v"] {
        let seed = web.url("/").replace("http://", "http://me:s3cr%C3%A9t@");
        let ended = Crawl::of(seed).with("--allow-private").with(option).run().expect(0);
        assert_eq!(ended.sorted_paths(), ["/", "/b"]);
        for secret in ["s3cr", "me:", "me@", "bWU6czNjcsOpdA=="] {
            assert!(!traces(&ended).contains(secret), "{secret}: {}", traces(&ended));
        }
    }
    for hit in web.log().iter() {
        // "me:s3crét" in base64.
        assert_eq!(hit.header("authorization"), Some("Basic bWU6czNjcsOpdA=="), "{}", hit.path);
    }
    assert_eq!(other.log().len(), 2);
    assert!(other.log().iter().all(|hit| hit.header("authorization").is_none()));
}

#[test]
fn links_and_redirects_with_credentials_are_neither_followed_nor_printed() {
    let own = |request: &Request| format!("http://me:s3cret@{}/x", request.authority);
    let site = Site::new()
        .status("/robots.txt", 404)
        .fallback(move |request| match request.path.as_str() {
            "/r1" => Response::redirect(302, &own(request)),
            _ => Response::page(format!(
                "<a href={}></a> <a href=http://me:s3cret@elsewhere.invalid/></a> {}",
                own(request),
                linking_to(&["/r1", "/r2", "/r3"])
            )),
        })
        .redirect("/r2", "http://me:s3cret@:bad:/")
        .redirect("/r3", "ftp://me:s3cret@127.0.0.1/");
    let web = serve(site);
    for option in ["", "-v"] {
        let ended = Crawl::of(web.url("/")).with(option).run().expect(0);
        assert_eq!(ended.outcomes(), counts(&[("page", 1), ("redirect out of scope", 3)]));
        assert_eq!(ended.summary().link_counts["with credentials"], 2);
        let printed = format!("{}{}", ended.stdout, ended.stderr);
        assert!(!printed.contains("s3cret"), "{printed}");
    }
    assert!(web.log().for_path("/x").is_empty());
    assert!(web.log().iter().all(|hit| hit.header("authorization").is_none()));
}

#[test]
fn error_messages_do_not_contain_credentials() {
    for seed in ["ftp://me:s3cret@host/", "http://me:s3cret@:x/", "http://me:s3cret@host/"] {
        let ended = Crawl::of(seed).with("--internal http://other/").run().expect(2);
        assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
    }
}

/// The number of pages saved from a site where every page has these links.
fn pages_of_trap(links: &str) -> (usize, Ended) {
    let links = links.to_owned();
    let web = serve(Site::new().status("/robots.txt", 404).fallback(move |_| Response::page(links.clone())));
    let ended = Crawl::of(web.url("/")).depth(1_000_000).with("--concurrency 4").run().expect(0);
    (ended.pages().len(), ended)
}

#[test]
fn crawl_of_self_repeating_paths_ends() {
    let (pages, ended) = pages_of_trap("<a href='again/'>");
    assert_eq!(pages, 5);
    assert_eq!(ended.summary().link_counts["repeated path segments"], 1);
    let (pages, _) = pages_of_trap("<a href='a/b/'>");
    assert_eq!(pages, 5);
}

#[test]
fn crawl_of_ever_longer_paths_ends() {
    let site = Site::new().status("/robots.txt", 404).fallback(|request| {
        let depth = request.path.matches('/').count();
        Response::page(format!("<a href='{depth}/'>"))
    });
    let web = serve(site);
    let ended = Crawl::of(web.url("/")).depth(1_000_000).run().expect(0);
    assert_eq!(ended.pages().len(), 65);
    assert_eq!(ended.summary().link_counts["too many path segments"], 1);
}

#[test]
fn crawl_of_ever_longer_urls_ends() {
    let site = Site::new().status("/robots.txt", 404).fallback(|request| {
        let more = "x".repeat(50);
        Response::page(format!("<a href='{}{more}'>", request.path))
    });
    let web = serve(site);
    let ended = Crawl::of(web.url("/")).depth(1_000_000).run().expect(0);
    assert!((35..=41).contains(&ended.pages().len()), "{}", ended.pages().len());
    assert!(ended.pages().iter().all(|page| page.url.len() <= 2048));
    assert_eq!(ended.summary().link_counts["URL too long"], 1);
}
