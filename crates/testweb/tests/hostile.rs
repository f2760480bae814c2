//! Each hostile behaviour does what its name says.

mod client;

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use client::{body, connect, exchange, exchange_bytes, get};
use testweb::{Answer, Hostile, Site, Web};

fn web(hostile: Hostile) -> Web {
    Web::builder().site(Site::new().answer("/", Answer::hostile(hostile))).start()
}

/// The first bytes of the answer, as many as come before the end, the limit or a pause of two seconds.
fn beginning(hostile: Hostile, limit: usize) -> (Vec<u8>, Option<ErrorKind>) {
    let web = web(hostile);
    let mut socket = connect(&web);
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    socket.write_all(get("x", "/").as_bytes()).unwrap();
    let (mut answer, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    while answer.len() < limit {
        match socket.read(&mut buffer) {
            Ok(0) => return (answer, Some(ErrorKind::UnexpectedEof)),
            Ok(read) => answer.extend(&buffer[..read]),
            Err(error) => return (answer, Some(error.kind())),
        }
    }
    (answer, None)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn what_is_endless_does_not_end() {
    for hostile in [Hostile::EndlessBody, Hostile::EndlessChunkedBody, Hostile::InformationalFlood] {
        let (answer, end) = beginning(hostile, 20 << 20);
        assert!(answer.len() >= 20 << 20 && end.is_none(), "{hostile:?}");
    }
}

#[test]
fn what_drips_drips() {
    for (hostile, head_ends) in [(Hostile::DripBody, true), (Hostile::DripHeaders, false)] {
        let start = Instant::now();
        let web = web(hostile);
        let mut socket = connect(&web);
        socket.write_all(get("x", "/").as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"aaaaa") {
            let mut byte = [0; 100];
            let read = socket.read(&mut byte).unwrap();
            answer.extend(&byte[..read]);
        }
        assert!(start.elapsed() >= Duration::from_millis(500));
        assert_eq!(text(&answer).contains("\r\n\r\n"), head_ends, "{hostile:?}");
    }
}

#[test]
fn silence_is_silent_and_does_not_hang_up() {
    assert_eq!(beginning(Hostile::Silence, 1), (Vec::new(), Some(ErrorKind::WouldBlock)));
}

#[test]
fn connections_end_as_they_should() {
    let nothing = Vec::new();
    assert_eq!(beginning(Hostile::ResetAtOnce, 1), (nothing.clone(), Some(ErrorKind::ConnectionReset)));
    assert_eq!(beginning(Hostile::CloseAtOnce, 1), (nothing, Some(ErrorKind::UnexpectedEof)));
    let (answer, end) = beginning(Hostile::ResetAfterHeaders, 1 << 20);
    assert!(text(&answer).ends_with("\r\n\r\n") && end == Some(ErrorKind::ConnectionReset));
    let (answer, end) = beginning(Hostile::CloseIdleConnection, 1 << 20);
    assert!(text(&answer).contains("keep-alive") && end == Some(ErrorKind::UnexpectedEof));
    let (answer, end) = beginning(Hostile::EarlyClose, 1 << 20);
    assert!(!text(&answer).contains("0\r\n\r\n") && end == Some(ErrorKind::UnexpectedEof));
}

#[test]
fn heads_are_as_wrong_as_they_should_be() {
    let answer = |hostile| text(&beginning(hostile, 1 << 30).0);
    assert!(answer(Hostile::HugeHeader).len() > 8 << 20);
    assert!(answer(Hostile::ManyHeaders).matches("X-Header-").count() == 100_000);
    assert!(answer(Hostile::GarbageStatusLine).starts_with("HTTP/1.1 two"));
    assert!(answer(Hostile::NotHttp).starts_with("SSH-2.0"));
    assert_eq!(beginning(Hostile::GarbageBytes, 1 << 30).0.len(), 4096);
    assert!(answer(Hostile::NegativeContentLength).contains("Content-Length: -1\r\n"));
    assert!(answer(Hostile::TwoContentLengths).contains("Content-Length: 5\r\nContent-Length: 50\r\n"));
    assert!(answer(Hostile::EscapeHeaders).starts_with("HTTP/1.1 200 \x1b]"));
}

#[test]
fn bodies_are_as_wrong_as_they_should_be() {
    let answer = |hostile| beginning(hostile, 1 << 30).0;
    let short = answer(Hostile::ShortBody);
    assert!(text(&short).contains("Content-Length: 100000\r\n") && body(&short).len() < 1000);
    assert_eq!(text(&answer(Hostile::LongBody)).matches("HTTP/1.1 200 OK").count(), 2);
    assert!(text(&answer(Hostile::BrokenChunk)).contains("\r\nfive\r\n"));
    assert!(text(&answer(Hostile::HugeChunkSize)).contains("\r\n7fffffffffffffff\r\n"));
}

#[test]
fn contents_are_as_strange_as_they_should_be() {
    let answer = |hostile| exchange_bytes(&web(hostile), &get("x", "/"));
    assert!(exchange(&web(Hostile::RedirectLoop), &get("x", "/")).contains("Location: /\r\n"));
    assert!(text(&answer(Hostile::EscapeSequences)).contains("\x1b]0;owned\x07"));
    assert!(answer(Hostile::Nuls).contains(&0));
    assert!(answer(Hostile::LongLink).len() > 100_000);
    assert_eq!(text(&answer(Hostile::ManyLinks)).matches("<a href=").count(), 100_001);
    assert_eq!(text(&answer(Hostile::DeepNesting)).matches("<i>").count(), 100_000);
    let picture = answer(Hostile::BinaryAsHtml);
    assert!(text(&picture).contains("Content-Type: text/html") && body(&picture).starts_with(b"\x89PNG"));
    assert!(text(&answer(Hostile::HtmlAsBinary)).contains("Content-Type: application/octet-stream"));
    for hostile in [Hostile::NoContentTypeHtml, Hostile::NoContentTypeBinary] {
        assert!(!text(&answer(hostile)).contains("Content-Type"));
    }
    for hostile in [Hostile::GzipBomb, Hostile::BrotliBomb, Hostile::ZstdBomb] {
        assert!(text(&answer(hostile)).contains("Content-Encoding: "));
    }
}

#[test]
fn every_behaviour_is_in_the_list_once_and_leaves_a_hit_that_ends() {
    let distinct: std::collections::HashSet<Hostile> = Hostile::ALL.into_iter().collect();
    assert_eq!(distinct.len(), Hostile::ALL.len());
    let site = Hostile::ALL
        .iter()
        .fold(Site::new(), |site, hostile| site.answer(&format!("/{hostile:?}"), Answer::hostile(*hostile)));
    let web = Web::builder().site(site).start();
    for hostile in Hostile::ALL {
        let mut socket = connect(&web);
        socket.write_all(get("x", &format!("/{hostile:?}")).as_bytes()).unwrap();
        // As soon as something has come (which a silent one never does), the client leaves.
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let _ = socket.read(&mut [0; 10]);
    }
    let start = Instant::now();
    while web.hits() < Hostile::ALL.len() || web.log().iter().any(|hit| hit.ended.is_none()) {
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", web.log());
        std::thread::sleep(Duration::from_millis(10));
    }
}
