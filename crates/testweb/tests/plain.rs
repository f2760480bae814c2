//! What tests of a crawler rely on when the server behaves.

mod client;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use client::{body, connect, exchange, exchange_bytes, get};
use testweb::{Answer, Protocol, Site, Web};

#[test]
fn a_host_is_found_by_its_name_whatever_the_port_and_case() {
    let web = Web::builder()
        .host("a.test", Site::new().page("/", "this is a"))
        .site(Site::new().page("/", "this is the rest"))
        .start();
    assert!(exchange(&web, &get(&format!("A.test:{}", web.port()), "/")).ends_with("\r\n\r\nthis is a"));
    assert!(exchange(&web, &get("a.test", "/")).ends_with("\r\n\r\nthis is a"));
    assert!(exchange(&web, &get("127.0.0.1", "/")).ends_with("\r\n\r\nthis is the rest"));
    let hosts: Vec<String> = web.log().into_iter().map(|hit| hit.host).collect();
    assert_eq!(hosts, ["a.test", "a.test", "127.0.0.1"]);
}

#[test]
fn a_page_a_redirect_a_status_and_an_unknown_path_are_answered_as_http_says() {
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
fn a_connection_serves_one_request_after_another_and_head_has_no_body() {
    let web = Web::builder().site(Site::new().page("/", "body").page("/b", "other").robots("")).start();
    let first = "HEAD / HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n";
    let answer = exchange(&web, &(first.to_owned() + &get("x", "/robots.txt")));
    let answers: Vec<&str> = answer.split("HTTP/1.1 200 OK\r\n").skip(1).collect();
    assert!(answers[0].contains("Content-Length: 4\r\n") && answers[0].ends_with("\r\n\r\n"));
    assert!(answers[1].ends_with("\r\n\r\nother"));
    assert!(answers[2].contains("text/plain") && answers[2].contains("Connection: close"));
    let log = web.log();
    assert_eq!(log.paths(), ["/", "/b", "/robots.txt"]);
    assert!(log.iter().all(|hit| hit.connection == 1 && hit.protocol == Protocol::H1));
    assert_eq!(log[0].method, "HEAD");
    assert_eq!(log[2].header("connection"), Some("close"));
}

#[test]
fn answers_in_turn_come_one_by_one_and_the_last_repeats() {
    let turns = Answer::in_turn(vec![Answer::status(503).header("Retry-After", "1"), Answer::page("ready")]);
    let web = Web::builder().site(Site::new().answer("/", turns)).start();
    assert!(exchange(&web, &get("x", "/")).contains("503 Service Unavailable\r\n"));
    assert!(exchange(&web, &get("x", "/")).ends_with("ready"));
    assert!(exchange(&web, &get("x", "/")).ends_with("ready"));
}

#[test]
fn a_redirect_chain_has_as_many_redirects_as_it_says() {
    let web = Web::builder().site(Site::new().redirect_chain("/c", 2)).start();
    assert!(exchange(&web, &get("x", "/c")).contains("Location: /c/1\r\n"));
    assert!(exchange(&web, &get("x", "/c/1")).contains("Location: /c/2\r\n"));
    assert!(exchange(&web, &get("x", "/c/2")).starts_with("HTTP/1.1 200"));
}

#[test]
fn what_is_not_written_down_can_be_generated() {
    let calendar =
        Site::new().otherwise(|request| Answer::page(format!("{}x{}", request.origin(), request.path)));
    let web = Web::builder().site(calendar).start();
    assert!(exchange(&web, &get("x:1", "/2026/11?d=3")).ends_with("http://x:1x/2026/11?d=3"));
}

#[test]
fn bodies_come_in_every_coding_and_framing() {
    let text = "again and again ".repeat(200);
    let page = || Answer::page(text.clone());
    let site = Site::new()
        .answer("/gzip", page().gzip())
        .answer("/deflate", page().deflate())
        .answer("/raw", page().raw_deflate())
        .answer("/zstd", page().zstd())
        .answer("/chunked", page().chunked())
        .answer("/until-close", page().until_close());
    let web = Web::builder().site(site).start();
    let fetch = |path| exchange_bytes(&web, &get("x", path));
    let mut unpacked = String::new();
    flate2::read::GzDecoder::new(body(&fetch("/gzip"))).read_to_string(&mut unpacked).unwrap();
    flate2::read::ZlibDecoder::new(body(&fetch("/deflate"))).read_to_string(&mut unpacked).unwrap();
    flate2::read::DeflateDecoder::new(body(&fetch("/raw"))).read_to_string(&mut unpacked).unwrap();
    zstd::Decoder::new(body(&fetch("/zstd"))).unwrap().read_to_string(&mut unpacked).unwrap();
    assert_eq!(unpacked, text.repeat(4));

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
fn the_log_tells_how_long_a_host_rested_and_how_much_went_on_at_once() {
    let slow = Answer::page("slow").after(Duration::from_millis(200));
    let web = Web::builder().site(Site::new().page("/", "x").answer("/slow", slow)).start();
    exchange(&web, &get("a.test", "/"));
    std::thread::sleep(Duration::from_millis(100));
    exchange(&web, &get("a.test", "/"));
    exchange(&web, &get("b.test", "/"));
    let log = web.log();
    let gap = log.smallest_gap().unwrap();
    assert!(gap >= Duration::from_millis(100) && gap < Duration::from_secs(5), "{gap:?}");
    assert!(log.smallest_start_gap().unwrap() >= gap);
    assert_eq!(log.of_host("b.test").smallest_gap(), None);
    assert_eq!(log.most_at_once(), 1);

    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| exchange(&web, &get("c.test", "/slow")));
        }
    });
    let slow = web.log().of_host("c.test");
    assert_eq!(slow.most_at_once(), 3);
    assert_eq!(slow.smallest_gap(), Some(Duration::ZERO));
    assert!(slow.iter().all(|hit| hit.ended.unwrap() - hit.started >= Duration::from_millis(200)));
}

#[test]
fn a_client_that_goes_away_ends_its_request_in_the_log() {
    let slow = Answer::page("slow").after(Duration::from_secs(3600));
    let web = Web::builder().site(Site::new().answer("/", slow)).start();
    let mut socket = connect(&web);
    socket.write_all(get("x", "/").as_bytes()).unwrap();
    let within = |done: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    within(&|| web.hits() == 1);
    assert!(web.log()[0].ended.is_none());
    drop(socket);
    within(&|| web.log()[0].ended.is_some());
}

#[tokio::test]
async fn a_web_serves_asynchronous_tests_and_stops_when_dropped() {
    let web = Web::builder().site(Site::new().page("/", "x")).start();
    let port = web.port();
    assert!(exchange(&web, &get("x", "/")).ends_with("x"));
    assert_eq!(web.log().len(), 1);
    drop(web);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn a_web_listens_where_it_is_told() {
    let web = Web::builder().on("127.0.0.5".parse().unwrap()).site(Site::new().page("/", "five")).start();
    assert!(web.url("/").starts_with("http://127.0.0.5:"));
    assert!(TcpStream::connect(("127.0.0.5", web.port())).is_ok());
    let again = Web::builder().on("127.0.0.5".parse().unwrap()).port(web.port()).try_start();
    assert!(again.is_err());
}
