//! Tests of ordinary responses and of the log.

mod client;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use client::{body, connect, exchange, exchange_bytes, get};
use testweb::{Protocol, Response, Site, Web};

#[test]
fn host_is_found_by_its_name_ignoring_port_and_case() {
    let web = Web::builder()
        .host("a.test", Site::new().page("/", "this is a"))
        .site(Site::new().page("/", "this is the default"))
        .start();
    assert!(exchange(&web, &get(&format!("A.test:{}", web.port()), "/")).ends_with("\r\n\r\nthis is a"));
    assert!(exchange(&web, &get("a.test", "/")).ends_with("\r\n\r\nthis is a"));
    assert!(exchange(&web, &get("127.0.0.1", "/")).ends_with("\r\n\r\nthis is the default"));
    let hosts: Vec<String> = web.log().into_iter().map(|hit| hit.host).collect();
    assert_eq!(hosts, ["a.test", "a.test", "127.0.0.1"]);
}

#[test]
fn page_redirect_status_and_unknown_path_are_valid_http_responses() {
    let site = Site::new().page("/", "<p>hello").redirect("/r", "/").status("/gone", 410);
    let web = Web::builder().site(site).start();
    let page = exchange(&web, &get("x", "/"));
    assert!(
        page.starts_with(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 8\r\n"
        )
    );
    assert!(page.ends_with("\r\n\r\n<p>hello"));
    let redirect = exchange(&web, &get("x", "/r"));
    assert!(redirect.starts_with("HTTP/1.1 302 Found\r\n") && redirect.contains("\r\nLocation: /\r\n"));
    assert!(exchange(&web, &get("x", "/gone")).starts_with("HTTP/1.1 410 Gone\r\n"));
    assert!(exchange(&web, &get("x", "/robots.txt")).starts_with("HTTP/1.1 404 Not Found\r\n"));
    let statuses: Vec<_> = web.log().iter().map(|hit| hit.status).collect();
    assert_eq!(statuses, [Some(200), Some(302), Some(410), Some(404)]);
}

#[test]
fn connection_is_kept_alive_and_head_has_no_body() {
    let web = Web::builder().site(Site::new().page("/", "body").page("/b", "other").robots("")).start();
    let first = "HEAD / HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n";
    let text = exchange(&web, &(first.to_owned() + &get("x", "/robots.txt")));
    let responses: Vec<&str> = text.split("HTTP/1.1 200 OK\r\n").skip(1).collect();
    assert!(responses[0].contains("Content-Length: 4\r\n") && responses[0].ends_with("\r\n\r\n"));
    assert!(responses[1].ends_with("\r\n\r\nother"));
    assert!(responses[2].contains("text/plain") && responses[2].contains("Connection: close"));
    let log = web.log();
    assert_eq!(log.paths(), ["/", "/b", "/robots.txt"]);
    assert!(log.iter().all(|hit| hit.connection == 1 && hit.protocol == Protocol::H1));
    assert_eq!(log[0].method, "HEAD");
    assert_eq!(log[2].header("connection"), Some("close"));
}

#[test]
fn sequence_of_responses_repeats_the_last() {
    let sequence =
        Response::sequence(vec![Response::status(503).header("Retry-After", "1"), Response::page("ready")]);
    let web = Web::builder().site(Site::new().response("/", sequence)).start();
    assert!(exchange(&web, &get("x", "/")).contains("503 Service Unavailable\r\n"));
    assert!(exchange(&web, &get("x", "/")).ends_with("ready"));
    assert!(exchange(&web, &get("x", "/")).ends_with("ready"));
}

#[test]
fn redirect_chain_has_the_given_number_of_redirects() {
    let web = Web::builder().site(Site::new().redirect_chain("/c", 2)).start();
    assert!(exchange(&web, &get("x", "/c")).contains("Location: /c/1\r\n"));
    assert!(exchange(&web, &get("x", "/c/1")).contains("Location: /c/2\r\n"));
    assert!(exchange(&web, &get("x", "/c/2")).starts_with("HTTP/1.1 200"));
}

#[test]
fn responses_can_be_generated_for_any_path() {
    let calendar =
        Site::new().fallback(|request| Response::page(format!("{}x{}", request.origin(), request.path)));
    let web = Web::builder().site(calendar).start();
    assert!(exchange(&web, &get("x:1", "/2026/11?d=3")).ends_with("http://x:1x/2026/11?d=3"));
}

#[test]
fn bodies_have_every_coding_and_framing() {
    let text = "again and again ".repeat(200);
    let page = || Response::page(text.clone());
    let site = Site::new()
        .response("/gzip", page().gzip())
        .response("/deflate", page().deflate())
        .response("/raw", page().raw_deflate())
        .response("/zstd", page().zstd())
        .response("/chunked", page().chunked())
        .response("/until-close", page().until_close());
    let web = Web::builder().site(site).start();
    let fetch = |path| exchange_bytes(&web, &get("x", path));
    let mut decoded = String::new();
    flate2::read::GzDecoder::new(body(&fetch("/gzip"))).read_to_string(&mut decoded).unwrap();
    flate2::read::ZlibDecoder::new(body(&fetch("/deflate"))).read_to_string(&mut decoded).unwrap();
    flate2::read::DeflateDecoder::new(body(&fetch("/raw"))).read_to_string(&mut decoded).unwrap();
    zstd::Decoder::new(body(&fetch("/zstd"))).unwrap().read_to_string(&mut decoded).unwrap();
    assert_eq!(decoded, text.repeat(4));

    let chunked = String::from_utf8(fetch("/chunked")).unwrap();
    assert!(chunked.contains("Transfer-Encoding: chunked\r\n") && !chunked.contains("Content-Length"));
    let mut chunks = body(chunked.as_bytes());
    let mut joined: Vec<u8> = Vec::new();
    while let httparse::Status::Complete((start, length)) = httparse::parse_chunk_size(chunks).unwrap() {
        if length == 0 {
            break;
        }
        joined.extend(&chunks[start..start + length as usize]);
        chunks = &chunks[start + length as usize + 2..];
    }
    assert_eq!(joined, text.as_bytes());
    assert_eq!(chunks, b"0\r\n\r\n");
    assert_eq!(body(&fetch("/until-close")), text.as_bytes());
}

#[test]
fn log_measures_gaps_and_concurrency() {
    let slow = Response::page("slow").delay(Duration::from_millis(200));
    let web = Web::builder().site(Site::new().page("/", "x").response("/slow", slow)).start();
    exchange(&web, &get("a.test", "/"));
    std::thread::sleep(Duration::from_millis(100));
    exchange(&web, &get("a.test", "/"));
    exchange(&web, &get("b.test", "/"));
    let log = web.log();
    let gap = log.smallest_gap().unwrap();
    assert!(gap >= Duration::from_millis(100) && gap < Duration::from_secs(5), "{gap:?}");
    assert!(log.smallest_start_gap().unwrap() >= gap);
    assert_eq!(log.for_host("b.test").smallest_gap(), None);
    assert_eq!(log.max_concurrent(), 1);

    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| exchange(&web, &get("c.test", "/slow")));
        }
    });
    let slow = web.log().for_host("c.test");
    assert_eq!(slow.max_concurrent(), 3);
    assert_eq!(slow.smallest_gap(), Some(Duration::ZERO));
    assert!(slow.iter().all(|hit| hit.ended.unwrap() - hit.started >= Duration::from_millis(200)));
}

#[test]
fn request_ends_in_the_log_when_the_client_disconnects() {
    let slow = Response::page("slow").delay(Duration::from_secs(3600));
    let web = Web::builder().site(Site::new().response("/", slow)).start();
    let mut socket = connect(&web);
    socket.write_all(get("x", "/").as_bytes()).unwrap();
    let wait_until = |done: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    wait_until(&|| web.hits() == 1);
    assert!(web.log()[0].ended.is_none());
    drop(socket);
    wait_until(&|| web.log()[0].ended.is_some());
}

#[tokio::test]
async fn server_works_in_async_tests_and_stops_when_dropped() {
    let web = Web::builder().site(Site::new().page("/", "x")).start();
    let port = web.port();
    assert!(exchange(&web, &get("x", "/")).ends_with("x"));
    assert_eq!(web.log().len(), 1);
    drop(web);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn server_listens_on_the_given_address_and_port() {
    let web =
        Web::builder().address("127.0.0.5".parse().unwrap()).site(Site::new().page("/", "five")).start();
    assert!(web.url("/").starts_with("http://127.0.0.5:"));
    assert!(TcpStream::connect(("127.0.0.5", web.port())).is_ok());
    let again = Web::builder().address("127.0.0.5".parse().unwrap()).port(web.port()).try_start();
    assert!(again.is_err());
}
