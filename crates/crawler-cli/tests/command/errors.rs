//! What goes wrong with single pages: named, counted, and the crawl goes on.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use testweb::{Answer, Hostile, Site};
use tokio::net::TcpSocket;

use crate::common::{Crawl, Ended, counts, linking_to, serve};

/// Crawls a front page with a link to /bad and, after it, /good; the latter must always be saved.
#[track_caller]
fn crawl_past(bad: impl Into<testweb::Turns>, options: &str) -> (Ended, usize) {
    let site = Site::new().page("/", linking_to(&["/bad", "/good"])).page("/good", "x").answer("/bad", bad);
    let web = serve(site);
    let ended = Crawl::of(web.url("/")).with(options).run().expect(0);
    let saved = ended.sorted_paths();
    assert!(saved.contains(&"/good".into()), "{saved:?}");
    (ended, web.log().of_path("/bad").len())
}

#[test]
fn each_kind_of_failure_is_named_and_counted_and_only_passing_ones_are_tried_again() {
    let short = "--timeout 400ms";
    let cases: Vec<(Answer, &str, &str, &str, usize)> = vec![
        (Answer::status(404), "", "HTTP error status", "HTTP status 404", 1),
        (Answer::status(403), "", "HTTP error status", "HTTP status 403", 1),
        (Answer::status(410), "", "HTTP error status", "HTTP status 410", 1),
        (Answer::status(500), "", "HTTP error status", "HTTP status 500", 2),
        (Answer::status(502), "", "HTTP error status", "HTTP status 502", 2),
        (Answer::status(503), "", "HTTP error status", "HTTP status 503", 2),
        (Answer::status(429), "", "HTTP error status", "HTTP status 429", 2),
        (Answer::status(204), "", "neither HTML nor text", "no content", 1),
        (Answer::hostile(Hostile::ResetAtOnce), "", "connection failed", "connection reset", 2),
        (Answer::hostile(Hostile::ResetAfterHeaders), "", "connection failed", "connection reset", 2),
        (Answer::hostile(Hostile::CloseAtOnce), "", "connection failed", "closed before the answer", 2),
        (Answer::hostile(Hostile::ShortBody), "", "connection failed", "closed", 2),
        (Answer::hostile(Hostile::Silence), short, "timed out", "the request took longer than 400ms", 2),
        (
            Answer::hostile(Hostile::DripBody),
            "--timeout 400ms --max-page-bytes 2MB",
            "timed out",
            "the request took longer than 400ms",
            2,
        ),
        (Answer::hostile(Hostile::GarbageStatusLine), "", "malformed response", "", 1),
        (Answer::hostile(Hostile::BrokenChunk), "", "malformed response", "", 1),
        (
            Answer::page("x").encoded("compress", "x"),
            "",
            "malformed response",
            "\"compress\" was not offered",
            1,
        ),
        (
            Answer::page("x").encoded("gzip", "no gzip at all"),
            "",
            "malformed response",
            "not encoded as it says",
            1,
        ),
        (
            Answer::text("ID3\x04 and a tune"),
            "",
            "neither HTML nor text",
            "binary, although it says text/plain",
            1,
        ),
        (
            Answer::page("x").content_type(&format!("image/{}", "x".repeat(1000))),
            "",
            "neither HTML nor text",
            "text: image/xxxx",
            1,
        ),
        (Answer::page(vec![b'x'; 500_001]), "", "too large", "more than 500000 bytes", 1),
    ];
    for (answer, options, kind, reason, tries) in cases {
        let about = format!("{kind}: {reason}");
        let (ended, asked) = crawl_past(answer, options);
        assert_eq!(ended.outcomes(), counts(&[("saved", 2), (kind, 1)]), "{about}\n{}", ended.stderr);
        assert!(ended.complaint("/bad").contains(reason), "{about}: {}", ended.stderr);
        assert!(ended.complaint("/bad").len() < 250, "{about}: {}", ended.stderr);
        assert_eq!(asked, tries, "{about}");
    }
}

#[test]
fn a_page_that_fails_once_is_saved_by_the_second_try() {
    let failures = [
        Answer::status(500),
        Answer::status(503),
        Answer::status(429),
        Answer::hostile(Hostile::ResetAtOnce),
    ];
    for failure in failures {
        let (ended, asked) = crawl_past(Answer::in_turn(vec![failure, Answer::page("at last")]), "");
        assert_eq!(ended.body_of("/bad"), b"at last");
        assert_eq!(asked, 2);
        assert_eq!(ended.stderr, "", "what went well in the end is no error");
    }
}

#[test]
fn a_page_that_fails_twice_is_given_up() {
    let turns = vec![Answer::status(500), Answer::status(500), Answer::page("too late")];
    let (ended, asked) = crawl_past(Answer::in_turn(turns), "");
    assert_eq!(ended.outcomes(), counts(&[("saved", 2), ("HTTP error status", 1)]));
    assert_eq!(asked, 2);
}

#[test]
fn a_server_that_is_not_there_is_refused_connection() {
    // Bound and not listening: nobody else gets the port meanwhile.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    let ended = Crawl::of(format!("http://127.0.0.1:{port}/")).with("--ignore-robots").run().expect(1);
    assert_eq!(ended.outcomes(), counts(&[("saved", 0), ("connection failed", 1)]));
    assert!(ended.stderr.contains("connection refused"), "{}", ended.stderr);
    let ended = Crawl::of(format!("http://127.0.0.1:{port}/")).run().expect(1);
    assert_eq!(ended.outcomes(), counts(&[("saved", 0), ("robots.txt unavailable", 1)]));
    assert!(ended.stderr.contains("connection refused"), "the cause is named: {}", ended.stderr);
}

#[test]
fn a_name_without_an_address_is_named() {
    let ended = Crawl::of("http://nowhere.invalid/").with("--ignore-robots").run().expect(1);
    assert_eq!(ended.outcomes(), counts(&[("saved", 0), ("name not found", 1)]));
}

#[test]
fn a_server_that_does_not_accept_is_cut_off_by_the_connect_timeout() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    // The queue holds two; whoever comes later gets no answer at all.
    let connect = || std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100));
    let _queue: Vec<_> = std::iter::from_fn(|| connect().ok()).take(10).collect();
    let begun = Instant::now();
    let crawl = Crawl::of(format!("http://{address}/")).with("--ignore-robots --connect-timeout 300ms");
    let ended = crawl.run().expect(1);
    assert_eq!(ended.outcomes(), counts(&[("saved", 0), ("timed out", 1)]));
    assert!(ended.stderr.contains("connecting took longer than 300ms"), "{}", ended.stderr);
    assert!(begun.elapsed() < Duration::from_secs(60));
}

type Encode = fn(&[u8]) -> Answer;

/// Every content coding that is offered, and none.
const CODINGS: [(&str, Encode); 7] = [
    ("none", |body| Answer::text(body.to_vec())),
    ("chunked", |body| Answer::text(body.to_vec()).chunked()),
    ("gzip", |body| Answer::text(body.to_vec()).gzip()),
    ("deflate", |body| Answer::text(body.to_vec()).deflate()),
    ("raw deflate", |body| Answer::text(body.to_vec()).raw_deflate()),
    ("zstd", |body| Answer::text(body.to_vec()).zstd()),
    ("brotli", brotli),
];

/// Brotli without compression: the body in blocks that say how long they are (RFC 7932, section 9.2).
fn brotli(body: &[u8]) -> Answer {
    let mut coded = Vec::new();
    for (n, block) in body.chunks(1 << 16).enumerate() {
        // Not the last; four digits of length; stored. The first block follows one bit of window size.
        let header = ((block.len() as u32 - 1) << 3 | 1 << 19) << u32::from(n == 0);
        coded.extend_from_slice(&header.to_le_bytes()[..3]);
        coded.extend_from_slice(block);
    }
    coded.push(3);
    Answer::text("").brotli_bytes(coded)
}

#[test]
fn every_offered_coding_is_undone_and_counted_decoded_up_to_the_very_limit() {
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
            .fold(site, |site, ((_, encode), path)| site.answer(path, encode(&body)));
        let web = serve(site);
        let ended = Crawl::of(web.url("/")).with(&format!("--max-page-bytes {LIMIT}")).run().expect(0);
        for ((coding, _), path) in CODINGS.iter().zip(&paths) {
            match size {
                LIMIT => assert!(ended.body_of(path) == body, "{coding}"),
                _ => assert!(ended.complaint(path).contains("too large: more than 100000 bytes"), "{coding}"),
            }
        }
        let offered = web.log()[1].header("accept-encoding").unwrap_or_default().to_owned();
        assert!(["gzip", "deflate", "br", "zstd"].iter().all(|coding| offered.contains(coding)), "{offered}");
    }
}

#[test]
fn the_default_limit_is_500_kilobytes() {
    let (ended, _) = crawl_past(Answer::page(vec![b'x'; 500_000]), "");
    assert_eq!(ended.body_of("/bad").len(), 500_000);
}

#[test]
fn the_summary_adds_up_when_everything_goes_wrong_at_once() {
    let site = Site::new()
        .robots("User-agent: *\nDisallow: /secret")
        .page(
            "/",
            linking_to(&[
                "/404", "/500", "/reset", "/slow", "/png", "/big", "/odd", "/secret", "/out", "/in", "/ok",
            ]),
        )
        .status("/500", 500)
        .answer("/reset", Answer::hostile(Hostile::ResetAtOnce))
        .answer("/slow", Answer::hostile(Hostile::Silence))
        .answer("/png", Answer::page("x").content_type("image/png"))
        .page("/big", vec![b'x'; 5000])
        .answer("/odd", Answer::hostile(Hostile::GarbageStatusLine))
        .redirect("/out", "http://elsewhere.invalid/")
        .redirect("/in", "/ok")
        .page("/ok", "x");
    let web = serve(site);
    let crawl = Crawl::of(web.url("/")).with("--timeout 400ms --max-page-bytes 4000 --concurrency 4");
    let ended = crawl.run().expect(0);
    let expected = [
        ("saved", 2),
        ("HTTP error status", 2),
        ("connection failed", 1),
        ("timed out", 1),
        ("neither HTML nor text", 1),
        ("too large", 1),
        ("malformed response", 1),
        ("disallowed by robots.txt", 1),
        ("redirected out of bounds", 1),
        ("redirected", 1),
    ];
    assert_eq!(ended.outcomes(), counts(&expected));
    assert_eq!(ended.summary().admitted, 12);
}
