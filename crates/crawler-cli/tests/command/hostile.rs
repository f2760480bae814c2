//! Hostile servers: the crawl ends in time, in bounded memory, with the good pages.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testweb::{Certificate, Hostile, Request, Response, Site, Web};

use crate::common::{Crawl, Ended, linking_to, serve};
use crate::pipeline::Pipeline;

/// The memory limit of every crawl.
const MAX_MEMORY: u64 = 200 << 20;

/// Why a response with too many interim responses is invalid.
const TOO_MUCH: &str = "too many bytes that are no content";

/// Every hostile behaviour in its own directory, between good pages. Their links to `next` lead to good pages.
fn hostile_site() -> Site {
    let good = ["/good/1", "/good/2", "/good/3"];
    let paths: Vec<String> = Hostile::ALL.iter().map(|hostile| format!("/{hostile:?}/")).collect();
    let mut links: Vec<&str> = paths.iter().map(String::as_str).collect();
    links.insert(0, good[0]);
    links.insert(links.len() / 2, good[1]);
    links.push(good[2]);
    let there =
        |request: &Request| match request.path.ends_with("/next") || request.path.starts_with("/good/") {
            true => Response::page("<title>Good</title>"),
            false => Response::status(404),
        };
    let site = Site::new().page("/", linking_to(&links)).fallback(there);
    Hostile::ALL
        .iter()
        .zip(&paths)
        .fold(site, |site, (hostile, path)| site.response(path, Response::hostile(*hostile)))
}

#[track_caller]
fn check_good_pages(ended: &Ended) {
    let saved = ended.sorted_paths();
    for good in ["/good/1", "/good/2", "/good/3", "/DeepNesting/next", "/Nuls/next", "/LongLink/next"] {
        assert!(saved.contains(&good.into()), "{good} is missing: {saved:?}");
    }
    for bad in
        ["/EndlessBody/", "/GzipBomb/", "/HugeHeader/", "/GarbageBytes/", "/RedirectLoop/", "/Silence/"]
    {
        assert!(!saved.contains(&bad.into()), "{bad} was saved");
    }
    assert!(ended.peak_rss < MAX_MEMORY, "{} MB", ended.peak_rss >> 20);
}

#[test]
fn crawl_of_every_hostile_behaviour_ends_with_the_good_pages() {
    let web = serve(hostile_site());
    let crawl = Crawl::of(web.url("/")).depth(2).with("--timeout 1s --max-page-bytes 500KB --concurrency 8");
    let ended = crawl.run().expect(0);
    check_good_pages(&ended);
    for silent in ["/Silence/", "/DripHeaders/"] {
        assert!(ended.line_about(silent).contains("the request took longer than 1s"), "{}", ended.stderr);
    }
    let flood = ended.line_about("/InformationalFlood/");
    assert!(flood.contains(TOO_MUCH), "{}", ended.stderr);
}

#[test]
fn sequential_verbose_crawl_of_every_hostile_behaviour_ends_with_the_good_pages() {
    let web = serve(hostile_site());
    let ended =
        Crawl::of(web.url("/")).depth(2).with("--timeout 700ms --max-page-bytes 500KB -v").run().expect(0);
    check_good_pages(&ended);
    assert!(ended.stdout.contains("/EscapeSequences/next"), "the page was parsed completely");
}

#[test]
fn http2_crawl_of_every_hostile_behaviour_ends_with_the_good_pages() {
    let web = Web::builder().site(hostile_site()).https(Certificate::Good).start();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root.pem");
    std::fs::write(&root, web.ca_pem()).unwrap();
    let crawl = Crawl::of(web.https_url("/"))
        .depth(2)
        .with("--timeout 1s --max-page-bytes 500KB --concurrency 8 --ca-file");
    let ended = crawl.with_one(root.display().to_string()).run().expect(0);
    check_good_pages(&ended);
}

#[test]
fn hostile_seed_or_robots_txt_only_ends_the_crawl() {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(hostile) = Hostile::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
                    check_hostile_seed_and_robots_txt(*hostile);
                }
            });
        }
    });
}

fn check_hostile_seed_and_robots_txt(hostile: Hostile) {
    let timeouts = "--timeout 300ms --connect-timeout 300ms --max-page-bytes 500KB";
    let seed = serve(Site::new().response("/", Response::hostile(hostile)));
    let ended = Crawl::of(seed.url("/")).depth(0).with(timeouts).run();
    // The crawl succeeds exactly if it saved a page.
    assert_eq!(ended.code(), i32::from(ended.pages().is_empty()), "{hostile:?}: {}", ended.stderr);
    assert!(ended.peak_rss < MAX_MEMORY, "{hostile:?}: {} MB", ended.peak_rss >> 20);
    assert!(seed.hits() <= 3, "{hostile:?}: {:?}", seed.log().paths());

    let robots = serve(Site::new().response("/robots.txt", Response::hostile(hostile)).page("/", "x"));
    let ended = Crawl::of(robots.url("/")).depth(0).with(timeouts).run();
    // The crawl succeeds exactly if it saved a page.
    assert_eq!(ended.code(), i32::from(ended.pages().is_empty()), "{hostile:?}: {}", ended.stderr);
    assert!(ended.peak_rss < MAX_MEMORY, "{hostile:?}: {} MB", ended.peak_rss >> 20);
    // A robots.txt is requested at most twice, and its redirects are followed five times.
    assert!(robots.hits() <= 7, "{hostile:?}: {:?}", robots.log().paths());
}

#[test]
fn flood_of_1xx_responses_ends_the_request_and_blocks_no_other_page() {
    let site = Site::new()
        .page("/", linking_to(&["/flood", "/1"]))
        .response("/flood", Response::hostile(Hostile::InformationalFlood))
        .fallback(|request| match request.path[1..].parse::<u32>() {
            Ok(n @ 1..20) => Response::page(linking_to(&[&format!("/{}", n + 1)])),
            _ => Response::page("x"),
        });
    let web = serve(site.status("/robots.txt", 404));
    let ended = Crawl::of(web.url("/")).with("--timeout 50s --concurrency 2").run().expect(0);
    assert_eq!(ended.pages().len(), 21);
    assert!(ended.line_about("/flood").contains(TOO_MUCH), "{}", ended.stderr);
}

#[test]
fn http2_flood_of_1xx_responses_ends_the_request() {
    let web = Web::builder().https(Certificate::Good).http2_flood().start();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root.pem");
    std::fs::write(&root, web.ca_pem()).unwrap();
    let crawl = Crawl::of(web.https_url("/")).with("--timeout 50s --ignore-robots --ca-file");
    let started = Instant::now();
    let ended = crawl.with_one(root.display().to_string()).run().expect(1);
    assert!(ended.stderr.contains(TOO_MUCH), "{}", ended.stderr);
    assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
    assert!(ended.peak_rss < MAX_MEMORY, "{} MB", ended.peak_rss >> 20);
}

#[test]
fn bytes_that_decode_to_nothing_end_the_download() {
    let endless = [
        (Hostile::BytesAfterDeflate, None),
        (Hostile::EmptyGzipMembers, Some("more than 10000 parts")),
        (Hostile::SkippableZstdFrames, Some("more than 10000 parts")),
        (Hostile::EmptyBrotliBlocks, Some("too large")),
        (Hostile::TinyChunks, Some("too large")),
    ];
    for (hostile, complaint) in endless {
        let web = serve(
            Site::new()
                .page("/", linking_to(&["/endless/"]))
                .response("/endless/", Response::hostile(hostile)),
        );
        // The timeout is longer than a crawl may take. Tiny chunks take long without optimisation.
        let limit = if hostile == Hostile::TinyChunks { "50KB" } else { "500KB" };
        let options = format!("--timeout 100s --max-page-bytes {limit} --ignore-robots");
        let crawl = Crawl::of(web.url("/")).with(&options);
        let ended = crawl.run().expect(0);
        match complaint {
            None => assert_eq!(ended.sorted_paths(), ["/", "/endless/"], "{hostile:?}"),
            Some(words) => {
                assert!(ended.line_about("/endless/").contains(words), "{hostile:?}: {}", ended.stderr)
            }
        }
        assert_eq!(web.log().for_path("/endless/").len(), 1, "{hostile:?}");
        assert!(ended.peak_rss < MAX_MEMORY, "{hostile:?}: {} MB", ended.peak_rss >> 20);
    }
}

#[test]
fn all_hundred_thousand_links_of_a_page_are_found() {
    let rules = "User-agent: *\nAllow: /many/$\nDisallow: /many/\n";
    let site = Site::new().robots(rules).page("/", linking_to(&["/many/"]));
    let web = serve(site.response("/many/", Response::hostile(Hostile::ManyLinks)));
    let ended = Crawl::of(web.url("/")).with("--max-page-bytes 10MB").run().expect(0);
    // One more than the maximum of a page, which is counted but not followed.
    assert_eq!(ended.summary().links, 100_002);
    assert_eq!(ended.outcomes()["robots.txt"], 100_000);
    assert_eq!(web.log().len(), 3);
    assert!(ended.peak_rss < MAX_MEMORY, "{} MB", ended.peak_rss >> 20);
}

#[test]
fn sixteen_concurrent_decompression_bombs_stay_within_bounds() {
    let bombs = [
        Hostile::GzipBomb,
        Hostile::BrotliBomb,
        Hostile::ZstdBomb,
        Hostile::EndlessBody,
        Hostile::HugeHeader,
    ];
    let paths: Vec<String> = (0..40).map(|n| format!("/{n}/")).collect();
    let links: Vec<&str> = paths.iter().map(String::as_str).collect();
    let site = Site::new().page("/", linking_to(&links));
    let site = paths
        .iter()
        .enumerate()
        .fold(site, |site, (n, path)| site.response(path, Response::hostile(bombs[n % bombs.len()])));
    let ended =
        Crawl::of(serve(site).url("/")).with("--concurrency 16 --max-page-bytes 500KB").run().expect(0);
    assert_eq!(ended.pages().len(), 1);
    assert!(ended.peak_rss < MAX_MEMORY, "{} MB", ended.peak_rss >> 20);
}

/// Pages with a base URL of 1,900 bytes and this many links, which take fourteen bytes each. Resolved without a limit, 20,000 links
/// of a page take 40 MB.
fn site_with_long_bases(links: usize) -> Web {
    let page = move |request: &Request| {
        let number: usize = request.path[1..].parse().unwrap_or(0);
        let next = format!("<a href=/{}>next</a>", number + 1);
        let links: String = (0..links).map(|link| format!("<a href={link}>")).collect();
        Response::page(format!("<base href=/{number}-{}/>{next}{links}", "x".repeat(1_900)))
    };
    serve(Site::new().fallback(page))
}

#[test]
fn links_with_a_long_base_swell_neither_memory_nor_state_nor_outputs() {
    let web = site_with_long_bases(20_000);
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let crawl = Pipeline::of(web.url("/0")).with("--max-pages 12 --similarity 0");
    let crawl = crawl.module("jsonl", &path("pages.jsonl")).module("edges", &path("edges.csv"));
    let ended = crawl.with("--state").with_one(path("state").display().to_string()).run().expect(0);
    assert!(ended.peak_rss < 300 << 20, "{} MB", ended.peak_rss >> 20);
    let read = 12 * 280_000;
    // The links of a page take up to four times its size. The state also has what is to be written to the two outputs,
    // compressed.
    for (name, ratio) in [("pages.jsonl", 5), ("edges.csv", 5), ("state/crawl.state", 8)] {
        let bytes = std::fs::metadata(path(name)).unwrap().len();
        assert!(bytes < ratio * read, "{name}: {bytes} bytes for {read} bytes read");
    }
    assert!(ended.stdout.contains("too many links"), "{}", ended.stdout);
}

#[test]
fn links_of_small_pages_with_a_long_base_swell_neither_state_nor_outputs() {
    let web = site_with_long_bases(20);
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let crawl = Pipeline::of(web.url("/0")).with("--max-pages 500 --similarity 0");
    let crawl = crawl.module("jsonl", &path("pages.jsonl")).module("edges", &path("edges.csv"));
    crawl.with("--state").with_one(path("state").display().to_string()).run().expect(0);
    let read = 500 * 2_200;
    // The state has the links three times: as URLs that are seen, as URLs that wait, and for the outputs.
    for (name, ratio) in [("pages.jsonl", 15), ("edges.csv", 15), ("state/crawl.state", 45)] {
        let bytes = std::fs::metadata(path(name)).unwrap().len();
        assert!(bytes < ratio * read, "{name}: {bytes} bytes for {read} bytes read");
    }
}

/// Pages whose links have a base URL of 1,900 bytes of their own, on the same site. robots.txt disallows what they lead to.
fn site_with_own_bases(pages: usize, links: usize, spaces: usize) -> Web {
    let page = move |request: &Request| {
        let base = format!("<base href=/far{}-{}/>", request.path, "x".repeat(1_900));
        let links: String = (0..links).map(|link| format!("<a href={link}>")).collect();
        Response::page(format!("{base}{links}{}", " ".repeat(spaces))).gzip()
    };
    let paths: Vec<String> = (0..pages).map(|number| format!("/{number}")).collect();
    let index = linking_to(&paths.iter().map(String::as_str).collect::<Vec<_>>());
    serve(Site::new().robots("User-agent: *\nDisallow: /far/\n").page("/", index).fallback(page))
}

#[test]
fn links_with_a_long_base_swell_no_memory_in_classic_mode() {
    for (pages, links, spaces) in [(250, 20_000, 0), (4, 40_000, 20_000_000)] {
        let web = site_with_own_bases(pages, links, spaces);
        let ended = Crawl::of(web.url("/")).depth(2).with("--concurrency 2 --timeout 2m").run().expect(0);
        assert_eq!(ended.pages().len(), pages + 1);
        assert!(ended.outcomes()["robots.txt"] > 10_000, "{:?}", ended.outcomes());
        assert!(ended.peak_rss < MAX_MEMORY, "{pages} pages: {} MB", ended.peak_rss >> 20);
    }
}

/// Serves a page with links to `/missing`, `/moved` and `/picture`, whose responses have endless bodies. Returns its port and the bytes that it
/// has sent for these.
fn serve_endless_errors() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let respond = move |mut stream: TcpStream, sent: &AtomicUsize| -> io::Result<()> {
        let mut request = String::new();
        BufReader::new(&stream).read_line(&mut request)?;
        let (status, body) = match request.split(' ').nth(1) {
            Some("/") => {
                ("200 OK\r\nContent-Type: text/html", linking_to(&["/missing", "/moved", "/picture"]))
            }
            Some("/missing") => ("404 Not Found", String::new()),
            Some("/moved") => ("302 Found\r\nLocation: /", String::new()),
            Some("/picture") => ("200 OK\r\nContent-Type: image/png", String::new()),
            _ => {
                return write!(
                    stream,
                    "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                );
            }
        };
        write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\n\r\n{body}")?;
        if body.is_empty() {
            loop {
                sent.fetch_add(stream.write(&[b'x'; 1 << 16])?, Ordering::Relaxed);
            }
        }
        Ok(())
    };
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let sent = Arc::clone(&counter);
            // A client that has read enough closes the connection.
            thread::spawn(move || respond(stream, &sent));
        }
    });
    (port, sent)
}

#[test]
fn classic_crawl_without_archive_reads_little_of_the_bodies_of_errors_and_redirects() {
    let (port, sent) = serve_endless_errors();
    let ended = Crawl::of(format!("http://127.0.0.1:{port}/")).run().expect(0);
    assert_eq!((ended.pages().len(), ended.outcomes()["HTTP 404"]), (1, 1));
    // What the buffers of two sockets hold was sent, too.
    let sent = sent.load(Ordering::Relaxed);
    assert!(sent < 40_000_000, "{sent} bytes");
}

#[test]
fn memory_of_a_crawl_of_endless_pages_is_bounded_by_the_requests_in_flight() {
    let paths: Vec<String> = (0..12).map(|n| format!("/{n}/")).collect();
    let links: Vec<&str> = paths.iter().map(String::as_str).collect();
    let site = Site::new().page("/", linking_to(&links));
    let endless = |site: Site, path: &String| site.response(path, Response::hostile(Hostile::EndlessBody));
    let web = serve(paths.iter().fold(site, endless));
    let ended = Crawl::of(web.url("/")).with("--concurrency 3 --timeout 50s").run().expect(0);
    assert_eq!(ended.outcomes()["too large"], 12);
    // Three pages of 50 MB, each with a copy while its buffer grows.
    assert!(ended.peak_rss < 350 << 20, "{} MB", ended.peak_rss >> 20);
}
