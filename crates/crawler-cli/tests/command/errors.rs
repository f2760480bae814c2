//! Failures of single pages: named, counted, and the crawl continues.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use testweb::{Hostile, Response, Site};
use tokio::net::TcpSocket;

use crate::common::{Crawl, Ended, counts, linking_to, serve};

/// Crawls a front page with a link to /bad and, after it, /good; the latter must always be saved.
#[track_caller]
fn crawl_past(bad: impl Into<testweb::ResponseSequence>, options: &str) -> (Ended, usize) {
    let site = Site::new().page("/", linking_to(&["/bad", "/good"])).page("/good", "x").response("/bad", bad);
    let web = serve(site);
    let ended = Crawl::of(web.url("/")).with(options).run().expect(0);
    let saved = ended.sorted_paths();
    assert!(saved.contains(&"/good".into()), "{saved:?}");
    (ended, web.log().for_path("/bad").len())
}

#[test]
fn each_failure_is_named_and_counted_and_only_temporary_ones_are_retried() {
    let short = "--timeout 400ms";
    let cases: Vec<(Response, &str, &str, &str, usize)> = vec![
        (Response::status(404), "", "HTTP 404", "HTTP 404", 1),
        (Response::status(403), "", "HTTP 403", "HTTP 403", 1),
        (Response::status(410), "", "HTTP 410", "HTTP 410", 1),
        (Response::status(500), "", "HTTP 500", "HTTP 500", 2),
        (Response::status(502), "", "HTTP 502", "HTTP 502", 2),
        (Response::status(503), "", "HTTP 503", "HTTP 503", 2),
        (Response::status(429), "", "HTTP 429", "HTTP 429", 2),
        (Response::status(204), "", "not a page", "no content", 1),
        (Response::hostile(Hostile::ResetImmediately), "", "connection", "connection reset", 2),
        (Response::hostile(Hostile::ResetAfterHeaders), "", "connection", "connection reset", 2),
        (Response::hostile(Hostile::CloseImmediately), "", "connection", "closed before the response", 2),
        (Response::hostile(Hostile::ShortBody), "", "connection", "closed", 2),
        (Response::hostile(Hostile::Silence), short, "timeout", "the request took longer than 400ms", 2),
        (
            Response::hostile(Hostile::DripBody),
            "--timeout 400ms --max-page-bytes 2MB",
            "timeout",
            "the request took longer than 400ms",
            2,
        ),
        (Response::hostile(Hostile::GarbageStatusLine), "", "invalid response", "", 1),
        (Response::hostile(Hostile::BrokenChunk), "", "invalid response", "", 1),
        (
            Response::page("x").encoded("compress", "x"),
            "",
            "invalid response",
            "unsupported content encoding \"compress\"",
            1,
        ),
        (
            Response::page("x").encoded("gzip", "no gzip at all"),
            "",
            "invalid response",
            "cannot decode the body",
            1,
        ),
        (Response::text("ID3\x04 and a tune"), "", "not a page", "binary content declared as text/plain", 1),
        (
            Response::page("x").content_type(&format!("image/{}", "x".repeat(1000))),
            "",
            "not a page",
            "not a page: image/xxxx",
            1,
        ),
        (
            Response::page(vec![b'x'; 500_001]),
            "--max-page-bytes 500KB",
            "too large",
            "more than 500000 bytes",
            1,
        ),
    ];
    for (response, options, kind, reason, expected_requests) in cases {
        let about = format!("{kind}: {reason}");
        let (ended, requests) = crawl_past(response, options);
        assert_eq!(ended.outcomes(), counts(&[("page", 2), (kind, 1)]), "{about}\n{}", ended.stderr);
        assert!(ended.line_about("/bad").contains(reason), "{about}: {}", ended.stderr);
        assert!(ended.line_about("/bad").len() < 250, "{about}: {}", ended.stderr);
        assert_eq!(requests, expected_requests, "{about}");
    }
}

#[test]
fn page_that_fails_once_is_saved_by_the_retry() {
    let failures = [
        Response::status(500),
        Response::status(503),
        Response::status(429),
        Response::hostile(Hostile::ResetImmediately),
    ];
    for failure in failures {
        let (ended, requests) = crawl_past(Response::sequence(vec![failure, Response::page("at last")]), "");
        assert_eq!(ended.body_of("/bad"), b"at last");
        assert_eq!(requests, 2);
        assert_eq!(ended.messages(), "", "a successful retry is no error");
    }
}

#[test]
fn page_that_fails_twice_is_given_up() {
    let turns = vec![Response::status(500), Response::status(500), Response::page("too late")];
    let (ended, requests) = crawl_past(Response::sequence(turns), "");
    assert_eq!(ended.outcomes(), counts(&[("page", 2), ("HTTP 500", 1)]));
    assert_eq!(requests, 2);
}

#[test]
fn refused_connection_is_reported() {
    // Bound and not listening: no other process gets the port.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    let ended = Crawl::of(format!("http://127.0.0.1:{port}/")).with("--ignore-robots").run().expect(1);
    assert_eq!(ended.outcomes(), counts(&[("page", 0), ("connection", 1)]));
    assert!(ended.stderr.contains("connection refused"), "{}", ended.stderr);
    let ended = Crawl::of(format!("http://127.0.0.1:{port}/")).run().expect(1);
    assert_eq!(ended.outcomes(), counts(&[("page", 0), ("connection", 1)]));
    assert!(ended.stderr.contains("connection refused"), "the cause is named: {}", ended.stderr);
}

#[test]
fn unresolvable_host_name_is_reported() {
    let ended = Crawl::of("http://nowhere.invalid/").with("--ignore-robots").run().expect(1);
    assert_eq!(ended.outcomes(), counts(&[("page", 0), ("DNS", 1)]));
}

#[test]
fn connect_timeout_applies_to_a_server_that_does_not_accept() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    // The accept queue holds two connections; later ones get no reply.
    let connect = || std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100));
    let _queue: Vec<_> = std::iter::from_fn(|| connect().ok()).take(10).collect();
    let started = Instant::now();
    let crawl = Crawl::of(format!("http://{address}/")).with("--ignore-robots --connect-timeout 300ms");
    let ended = crawl.run().expect(1);
    assert_eq!(ended.outcomes(), counts(&[("page", 0), ("timeout", 1)]));
    assert!(ended.stderr.contains("connecting took longer than 300ms"), "{}", ended.stderr);
    assert!(started.elapsed() < Duration::from_secs(60));
}

type Encode = fn(&[u8]) -> Response;

/// Every content encoding that the crawler offers, and none.
const CODINGS: [(&str, Encode); 7] = [
    ("none", |body| Response::text(body.to_vec())),
    ("chunked", |body| Response::text(body.to_vec()).chunked()),
    ("gzip", |body| Response::text(body.to_vec()).gzip()),
    ("deflate", |body| Response::text(body.to_vec()).deflate()),
    ("raw deflate", |body| Response::text(body.to_vec()).raw_deflate()),
    ("zstd", |body| Response::text(body.to_vec()).zstd()),
    ("brotli", brotli),
];

/// Brotli without compression: the body in blocks with their lengths (RFC 7932, section 9.2).
fn brotli(body: &[u8]) -> Response {
    let mut coded = Vec::new();
    for (n, block) in body.chunks(1 << 16).enumerate() {
        // Not the last; four digits of length; stored. The first block follows one bit of window size.
        let header = ((block.len() as u32 - 1) << 3 | 1 << 19) << u32::from(n == 0);
        coded.extend_from_slice(&header.to_le_bytes()[..3]);
        coded.extend_from_slice(block);
    }
    coded.push(3);
    Response::text("").brotli_bytes(coded)
}

#[test]
fn every_offered_content_encoding_is_decoded_up_to_the_size_limit() {
    const LIMIT: usize = 100_000;
    let text: Vec<u8> = (0..).flat_map(|n: u32| format!("{n} ").into_bytes()).take(LIMIT + 1).collect();
    for size in [LIMIT, LIMIT + 1] {
        let body = text[..size].to_vec();
        let paths: Vec<String> = (0..CODINGS.len()).map(|n| format!("/{n}")).collect();
        let links: Vec<&str> = paths.iter().map(String::as_str).collect();
        let site = Site::new().page("/", linking_to(&links));
        let site = CODINGS
            .iter()
            .zip(&paths)
            .fold(site, |site, ((_, encode), path)| site.response(path, encode(&body)));
        let web = serve(site);
        let ended = Crawl::of(web.url("/")).with(&format!("--max-page-bytes {LIMIT}")).run().expect(0);
        for ((coding, _), path) in CODINGS.iter().zip(&paths) {
            match size {
                LIMIT => assert!(ended.body_of(path) == body, "{coding}"),
                _ => {
                    assert!(ended.line_about(path).contains("too large: more than 100000 bytes"), "{coding}")
                }
            }
        }
        let offered = web.log()[1].header("accept-encoding").unwrap_or_default().to_owned();
        assert!(["gzip", "deflate", "br", "zstd"].iter().all(|coding| offered.contains(coding)), "{offered}");
    }
}

#[test]
fn large_pages_are_saved_whole_by_default() {
    let (ended, _) = crawl_past(Response::page(vec![b'x'; 3_000_000]), "");
    assert_eq!(ended.body_of("/bad").len(), 3_000_000);
    // Its length is known from its header, so that nothing of it is read.
    let too_large = Response::page(vec![b'x'; 50_000_001]);
    let (ended, _) = crawl_past(too_large, "");
    assert!(ended.line_about("/bad").contains("too large: more than 50000000 bytes"), "{}", ended.stderr);
}

#[test]
fn summary_adds_up_with_every_kind_of_failure() {
    let site = Site::new()
        .robots("User-agent: *\nDisallow: /secret")
        .page(
            "/",
            linking_to(&[
                "/404", "/500", "/reset", "/slow", "/png", "/big", "/odd", "/secret", "/out", "/in", "/ok",
            ]),
        )
        .status("/500", 500)
        .response("/reset", Response::hostile(Hostile::ResetImmediately))
        .response("/slow", Response::hostile(Hostile::Silence))
        .response("/png", Response::page("x").content_type("image/png"))
        .page("/big", vec![b'x'; 5000])
        .response("/odd", Response::hostile(Hostile::GarbageStatusLine))
        .redirect("/out", "http://elsewhere.invalid/")
        .redirect("/in", "/ok")
        .page("/ok", "x");
    let web = serve(site);
    let crawl = Crawl::of(web.url("/")).with("--timeout 400ms --max-page-bytes 4000 --concurrency 4");
    let ended = crawl.run().expect(0);
    let expected = [
        ("page", 2),
        ("HTTP 404", 1),
        ("HTTP 500", 1),
        ("connection", 1),
        ("timeout", 1),
        ("not a page", 1),
        ("too large", 1),
        ("invalid response", 1),
        ("robots.txt", 1),
        ("redirect out of scope", 1),
        ("redirect", 1),
    ];
    assert_eq!(ended.outcomes(), counts(&expected));
}
