//! Tests of each hostile behaviour.

mod client;

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use client::{body, connect, exchange, exchange_bytes, get};
use testweb::{Hostile, Response, Site, Web};

fn web(hostile: Hostile) -> Web {
    Web::builder().site(Site::new().response("/", Response::hostile(hostile))).start()
}

/// The first bytes of the response, up to the end, the limit or a pause of two seconds.
fn beginning(hostile: Hostile, limit: usize) -> (Vec<u8>, Option<ErrorKind>) {
    let web = web(hostile);
    let mut socket = connect(&web);
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    socket.write_all(get("x", "/").as_bytes()).unwrap();
    let (mut response, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    while response.len() < limit {
        match socket.read(&mut buffer) {
            Ok(0) => return (response, Some(ErrorKind::UnexpectedEof)),
            Ok(read) => response.extend(&buffer[..read]),
            Err(error) => return (response, Some(error.kind())),
        }
    }
    (response, None)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn endless_responses_do_not_end() {
    for hostile in [Hostile::EndlessBody, Hostile::EndlessChunkedBody, Hostile::InformationalFlood] {
        let (response, end) = beginning(hostile, 20 << 20);
        assert!(response.len() >= 20 << 20 && end.is_none(), "{hostile:?}");
    }
}

#[test]
fn dripping_responses_send_single_bytes() {
    for (hostile, head_ends) in [(Hostile::DripBody, true), (Hostile::DripHeaders, false)] {
        let start = Instant::now();
        let web = web(hostile);
        let mut socket = connect(&web);
        socket.write_all(get("x", "/").as_bytes()).unwrap();
        let mut response = Vec::new();
        while !response.ends_with(b"aaaaa") {
            let mut byte = [0; 100];
            let read = socket.read(&mut byte).unwrap();
            response.extend(&byte[..read]);
        }
        assert!(start.elapsed() >= Duration::from_millis(500));
        assert_eq!(text(&response).contains("\r\n\r\n"), head_ends, "{hostile:?}");
    }
}

#[test]
fn silence_sends_nothing_and_keeps_the_connection_open() {
    assert_eq!(beginning(Hostile::Silence, 1), (Vec::new(), Some(ErrorKind::WouldBlock)));
}

#[test]
fn connections_end_as_specified() {
    let nothing = Vec::new();
    assert_eq!(beginning(Hostile::ResetImmediately, 1), (nothing.clone(), Some(ErrorKind::ConnectionReset)));
    assert_eq!(beginning(Hostile::CloseImmediately, 1), (nothing, Some(ErrorKind::UnexpectedEof)));
    let (response, end) = beginning(Hostile::ResetAfterHeaders, 1 << 20);
    assert!(text(&response).ends_with("\r\n\r\n") && end == Some(ErrorKind::ConnectionReset));
    let (response, end) = beginning(Hostile::CloseIdleConnection, 1 << 20);
    assert!(text(&response).contains("keep-alive") && end == Some(ErrorKind::UnexpectedEof));
    let (response, end) = beginning(Hostile::EarlyClose, 1 << 20);
    assert!(!text(&response).contains("0\r\n\r\n") && end == Some(ErrorKind::UnexpectedEof));
}

#[test]
fn heads_are_malformed_as_specified() {
    let response = |hostile| text(&beginning(hostile, 1 << 30).0);
    assert!(response(Hostile::HugeHeader).len() > 8 << 20);
    assert!(response(Hostile::ManyHeaders).matches("X-Header-").count() == 100_000);
    assert!(response(Hostile::GarbageStatusLine).starts_with("HTTP/1.1 two"));
    assert!(response(Hostile::NotHttp).starts_with("SSH-2.0"));
    assert_eq!(beginning(Hostile::GarbageBytes, 1 << 30).0.len(), 4096);
    assert!(response(Hostile::NegativeContentLength).contains("Content-Length: -1\r\n"));
    assert!(response(Hostile::TwoContentLengths).contains("Content-Length: 5\r\nContent-Length: 50\r\n"));
    assert!(response(Hostile::EscapeHeaders).starts_with("HTTP/1.1 200 \x1b]"));
}

#[test]
fn bodies_are_malformed_as_specified() {
    let response = |hostile| beginning(hostile, 1 << 30).0;
    let short = response(Hostile::ShortBody);
    assert!(text(&short).contains("Content-Length: 100000\r\n") && body(&short).len() < 1000);
    assert_eq!(text(&response(Hostile::LongBody)).matches("HTTP/1.1 200 OK").count(), 2);
    assert!(text(&response(Hostile::BrokenChunk)).contains("\r\nfive\r\n"));
    assert!(text(&response(Hostile::HugeChunkSize)).contains("\r\n7fffffffffffffff\r\n"));
}

#[test]
fn contents_are_hostile_as_specified() {
    let response = |hostile| exchange_bytes(&web(hostile), &get("x", "/"));
    assert!(exchange(&web(Hostile::RedirectLoop), &get("x", "/")).contains("Location: /\r\n"));
    assert!(text(&response(Hostile::EscapeSequences)).contains("\x1b]0;owned\x07"));
    assert!(response(Hostile::Nuls).contains(&0));
    assert!(response(Hostile::LongLink).len() > 100_000);
    assert_eq!(text(&response(Hostile::ManyLinks)).matches("<a href=").count(), 100_001);
    assert_eq!(text(&response(Hostile::DeepNesting)).matches("<i>").count(), 100_000);
    let picture = response(Hostile::BinaryAsHtml);
    assert!(text(&picture).contains("Content-Type: text/html") && body(&picture).starts_with(b"\x89PNG"));
    assert!(text(&response(Hostile::HtmlAsBinary)).contains("Content-Type: application/octet-stream"));
    for hostile in [Hostile::NoContentTypeHtml, Hostile::NoContentTypeBinary] {
        assert!(!text(&response(hostile)).contains("Content-Type"));
    }
    for hostile in [Hostile::GzipBomb, Hostile::BrotliBomb, Hostile::ZstdBomb] {
        assert!(text(&response(hostile)).contains("Content-Encoding: "));
    }
}

#[test]
fn every_behaviour_is_listed_once_and_its_request_ends_in_the_log() {
    let distinct: std::collections::HashSet<Hostile> = Hostile::ALL.into_iter().collect();
    assert_eq!(distinct.len(), Hostile::ALL.len());
    let site = Hostile::ALL.iter().fold(Site::new(), |site, hostile| {
        site.response(&format!("/{hostile:?}"), Response::hostile(*hostile))
    });
    let web = Web::builder().site(site).start();
    for hostile in Hostile::ALL {
        let mut socket = connect(&web);
        socket.write_all(get("x", &format!("/{hostile:?}")).as_bytes()).unwrap();
        // The client leaves after the first bytes, or after the timeout if there are none.
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let _ = socket.read(&mut [0; 10]);
    }
    let start = Instant::now();
    while web.hits() < Hostile::ALL.len() || web.log().iter().any(|hit| hit.ended.is_none()) {
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", web.log());
        std::thread::sleep(Duration::from_millis(10));
    }
}
