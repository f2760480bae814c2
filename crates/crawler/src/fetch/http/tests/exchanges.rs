//! Tests that exchanges are recorded byte for byte as they cross the wire, against raw sockets.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use testweb::{Certificate, Response as WebResponse, Site, Web};

use super::*;
use crate::config::{Oversize, header};
use crate::cookies::CookieJar;
use crate::exchange::{Protocol, Truncation};
use crate::proxy::Proxies;
use crate::request_settings::{Authentication, RequestSettings};

/// A page whose links a server sends compressed.
const TEXT: &[u8] = b"<title>page</title> many words many words many words many words";

/// What is sent before the archived head, the head, the lines of the transfer coding in it, the body as it is sent, and the payload.
type Case<'a> = (&'a str, &'a str, &'a str, Vec<u8>, &'a [u8]);

/// What a server does after it has sent its bytes.
#[derive(Clone, Copy)]
enum Then {
    /// Reads the next request.
    Continue,
    /// Closes the connection.
    Close,
    /// Sends nothing more, and keeps the connection open.
    Stall,
}

struct Budget;

impl ByteBudget for Budget {}

/// Serves one connection: replies to each request with the next of these bytes. Returns its URL, and the requests as they arrive.
fn serve(replies: Vec<(Vec<u8>, Then)>) -> (Url, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    let (sender, requests) = channel();
    thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        for (reply, then) in replies {
            let _ = sender.send(read_head(&mut stream));
            let _ = stream.write_all(&reply);
            match then {
                Then::Continue => {}
                Then::Close => return drop(stream.shutdown(Shutdown::Both)),
                // Until the client closes it.
                Then::Stall => return drop(stream.read(&mut [0])),
            }
        }
    });
    (url, requests)
}

fn read_head(stream: &mut TcpStream) -> Vec<u8> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count > 0) {
        head.push(byte[0]);
    }
    head
}

fn config() -> FetchConfig {
    let archive = Some(ArchiveSettings::default());
    FetchConfig { archive, timeout: Duration::from_secs(30), ..FetchConfig::default() }
}

fn downloader(config: FetchConfig, seed: &Url) -> Downloader {
    Downloader::new(Arc::new(config), std::slice::from_ref(seed)).unwrap()
}

/// Requests a URL. Returns the exchange, if a response has begun.
async fn exchange(
    downloader: &Downloader,
    url: &Url,
    policy: BodyPolicy,
) -> (Result<Download, Outcome>, Option<Exchange>) {
    let counter = ByteCounter::new(u64::MAX, &Budget).recording_exchange();
    let result = downloader.get(url, &Origin::from_url(url), async |_| Ok(()), policy, &counter).await;
    let exchange = counter.take_exchange(result.as_ref().err());
    (result, exchange)
}

/// The exchange of a request for a page, and the request as the server got it.
async fn captured(reply: &[u8], then: Then, config: FetchConfig, policy: BodyPolicy) -> (Exchange, Vec<u8>) {
    let (url, requests) = serve(vec![(reply.to_vec(), then)]);
    let (result, exchange) = self::exchange(&downloader(config, &url), &url, policy).await;
    (exchange.unwrap_or_else(|| panic!("no exchange: {result:?}")), requests.recv().unwrap())
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn page() -> BodyPolicy {
    BodyPolicy::page(100_000)
}

#[tokio::test]
async fn requests_and_responses_of_one_connection_are_recorded_as_they_cross_the_wire() {
    let encoded = gzip(TEXT);
    let (first, rest) = encoded.split_at(10);
    let size = format!("\r\n{:x};x=y\r\n", rest.len());
    let chunked = [b"a\r\n", first, size.as_bytes(), rest, b"\r\n0\r\nT: 1\r\n\r\n"].concat();
    let cases: [Case; 9] = [
        (
            "",
            "HTTP/1.1 200 OK\r\nContent-Type:  text/html\t\r\nX-a : 1,\r\n  folded\r\ncontent-LENGTH: 63\r\n",
            "",
            TEXT.into(),
            TEXT,
        ),
        (
            "",
            "HTTP/1.1 200 Fine: really\nContent-Type: text/html\nContent-Length: 63\n",
            "",
            TEXT.into(),
            TEXT,
        ),
        (
            "",
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n",
            "Transfer-Encoding: chunked\r\nTrailer: T\r\n",
            [b"3f\r\n", TEXT, b"\r\n0\r\nT: 1\r\n\r\n"].concat(),
            TEXT,
        ),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nContent-Encoding: gzip\r\n",
            "transfer-encoding:\r\n chunked\r\n",
            chunked,
            &encoded,
        ),
        ("", "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n", "", b"gone".into(), b"gone"),
        (
            "",
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n",
            "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
            [b"3f\r\n", TEXT, b"\r\n0\r\n\r\n"].concat(),
            TEXT,
        ),
        (
            "",
            "HTTP/1.1 301 Moved\r\nLocation: /a\r\n",
            "Transfer-Encoding: chunked\r\n",
            b"5\r\nmoved\r\n0\r\n\r\n".into(),
            b"moved",
        ),
        ("", "HTTP/1.1 304 Not Modified\r\nEtag: \"a\"\r\nContent-Length: 63\r\n", "", Vec::new(), b""),
        ("", "HTTP/1.1 204 No Content\r\n", "", Vec::new(), b""),
    ];
    assert_eq!(TEXT.len(), 63);
    let replies = cases.iter().map(|(before, head, coding, body, _)| {
        let end = if head.contains('\r') { "\r\n" } else { "\n" };
        (
            [before.as_bytes(), head.as_bytes(), coding.as_bytes(), end.as_bytes(), body].concat(),
            Then::Continue,
        )
    });
    let (url, requests) = serve(replies.collect());
    let downloader = downloader(config(), &url);
    for (number, (_, head, _, _, payload)) in cases.iter().enumerate() {
        let url = url.join(&format!("/{number}?q=%20")).unwrap();
        let before = SystemTime::now();
        let (result, exchange) = exchange(&downloader, &url, page()).await;
        let exchange = exchange.unwrap_or_else(|| panic!("{head}: {result:?}"));
        let end = if head.contains('\r') { "\r\n" } else { "\n" };
        assert_eq!(exchange.response_head, [head.as_bytes(), end.as_bytes()].concat(), "{head}");
        assert_eq!(exchange.payload, payload, "{head}");
        assert_eq!(exchange.truncated, None, "{head}");
        assert_eq!(exchange.request_head, requests.recv().unwrap(), "{head}");
        assert_eq!((exchange.url.as_str(), exchange.protocol), (url.as_str(), Protocol::Http1));
        assert_eq!(exchange.address, Some([127, 0, 0, 1].into()));
        assert!((before..=SystemTime::now()).contains(&exchange.requested));
        assert!(head[9..].starts_with(&exchange.status.to_string()));
    }
}

#[tokio::test]
async fn head_request_has_no_payload() {
    let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 63\r\n\r\n";
    let (exchange, request) = captured(reply, Then::Stall, config(), BodyPolicy::Head).await;
    assert!(request.starts_with(b"HEAD / HTTP/1.1\r\n"));
    assert_eq!((&*exchange.request_head, &*exchange.response_head), (&*request, &reply[..]));
    assert_eq!((exchange.payload.len(), exchange.truncated), (0, None));
}

#[tokio::test]
async fn head_may_be_as_large_as_the_limit_and_a_larger_one_is_no_exchange() {
    let head = |size: usize| {
        let line = format!("X: {}\r\n", "a".repeat(995));
        format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{}\r\n", line.repeat(size / 1_000)).into_bytes()
    };
    let (exchange, _) = captured(&head(120_000), Then::Stall, config(), page()).await;
    assert_eq!(exchange.response_head, head(120_000));
    let (url, _requests) = serve(vec![(head(400_000), Then::Stall)]);
    let (result, exchange) = self::exchange(&downloader(config(), &url), &url, page()).await;
    assert!(matches!(result, Err(Outcome::InvalidResponse { .. })) && exchange.is_none(), "{result:?}");
}

#[tokio::test]
async fn incomplete_payload_says_why() {
    let truncating =
        BodyPolicy::Page { limit: 20, oversize: Oversize::Truncate, file_limit: 20, archives_files: false };
    let small_files =
        BodyPolicy::Page { limit: 100, oversize: Oversize::Drop, file_limit: 20, archives_files: true };
    let files =
        BodyPolicy::Page { limit: 100, oversize: Oversize::Drop, file_limit: 100, archives_files: true };
    let html = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 63\r\n\r\n";
    let image = "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 63\r\n\r\n";
    let error = "HTTP/1.1 500 No\r\nContent-Length: 63\r\n\r\n";
    let text = str::from_utf8(TEXT).unwrap();
    let short = FetchConfig { timeout: Duration::from_millis(1_500), ..config() };
    let small = FetchConfig { max_page_bytes: 30, ..config() };
    for (head, sent, then, config, policy, kept, why) in [
        (html, text, Then::Stall, config(), truncating, 20, Truncation::Length),
        (html, &text[..40], Then::Close, config(), page(), 40, Truncation::Disconnect),
        (html, &text[..40], Then::Stall, short.clone(), page(), 40, Truncation::Time),
        (html, text, Then::Stall, config(), BodyPolicy::page(20), 0, Truncation::Length),
        (image, text, Then::Stall, config(), page(), 0, Truncation::Unspecified),
        (image, text, Then::Stall, config(), small_files, 0, Truncation::Unspecified),
        (image, &text[..40], Then::Close, config(), files, 40, Truncation::Disconnect),
        (html, "\0\0\0\0", Then::Close, config(), page(), 4, Truncation::Disconnect),
        (error, &text[..40], Then::Close, config(), page(), 40, Truncation::Disconnect),
        (error, &text[..40], Then::Stall, short, page(), 40, Truncation::Time),
        (error, text, Then::Stall, small, page(), 30, Truncation::Length),
    ] {
        let (exchange, _) = captured(format!("{head}{sent}").as_bytes(), then, config, policy).await;
        assert_eq!(exchange.response_head, head.as_bytes());
        assert_eq!(exchange.payload, &sent.as_bytes()[..kept], "{head}{sent}");
        assert_eq!(exchange.truncated, Some(why), "{head}{sent}");
    }
}

#[tokio::test]
async fn slow_body_of_an_error_does_not_change_the_outcome() {
    let reply = b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot";
    let (url, _requests) = serve(vec![(reply.to_vec(), Then::Stall)]);
    let config = FetchConfig { timeout: Duration::from_millis(1_500), ..config() };
    let (result, exchange) = exchange(&downloader(config, &url), &url, page()).await;
    assert_eq!(result.unwrap().status, 404);
    assert_eq!(exchange.unwrap().payload, "not");
}

#[tokio::test]
async fn without_a_response_there_is_no_exchange() {
    for (reply, then) in
        [("", Then::Close), ("HTTP/1.1 200 OK\r\nContent-Le", Then::Close), ("what\r\n\r\n", Then::Stall)]
    {
        let (url, _requests) = serve(vec![(reply.into(), then)]);
        let (result, exchange) = exchange(&downloader(config(), &url), &url, page()).await;
        assert!(result.is_err() && exchange.is_none(), "{reply:?}");
    }
}

#[tokio::test]
async fn secrets_are_left_out_unless_they_are_wanted() {
    let reply = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nSet-Cookie: a=1\r\nContent-Length: 0\r\n\r\n";
    for has_secrets in [false, true] {
        let mut config = FetchConfig {
            archive: Some(ArchiveSettings { has_secrets, ..ArchiveSettings::default() }),
            headers: vec![header("X-Key", "secret-1").unwrap(), header("Accept", "secret/2").unwrap()],
            ..config()
        };
        let (url, requests) = serve(vec![(reply.to_vec(), Then::Continue), (reply.to_vec(), Then::Stall)]);
        config.requests.authentication = Some(Authentication::Bearer("secret-3".into()));
        config.requests.cookies = Some(CookieJar::default());
        let downloader = downloader(config, &url);
        let url = Url::parse(&url.as_str().replace("http://", "http://me:secret-4@")).unwrap();
        for number in 0..2 {
            let exchange = exchange(&downloader, &url, page()).await.1.unwrap();
            let (sent, kept) = (requests.recv().unwrap(), exchange.request_head);
            let lines = |head: &[u8]| String::from_utf8(head.to_vec()).unwrap();
            let (sent, kept) = (lines(&sent), lines(&kept));
            assert_eq!(sent.contains("cookie: a=1"), number == 1, "{sent}");
            let is_secret = |line: &&str| line.contains("secret") || line.contains("cookie");
            let expected: String =
                sent.split_inclusive("\r\n").filter(|line| has_secrets || !is_secret(line)).collect();
            assert_eq!(kept, expected);
            assert!(kept.contains("user-agent: ") && kept.ends_with("\r\n\r\n"));
            assert!(!exchange.url.contains("secret"));
            assert_eq!(exchange.response_head, reply, "the response is kept as it is");
        }
    }
}

#[tokio::test]
async fn request_to_a_forwarding_proxy_is_kept_as_it_was_sent() {
    let reply = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n";
    let (proxy, requests) = serve(vec![(reply.to_vec(), Then::Stall)]);
    let proxies = proxy.as_str().replace("http://", "http://me:secret@");
    let requests_settings =
        RequestSettings { proxies: Proxies::new(&proxies).unwrap(), ..RequestSettings::default() };
    let url = Url::parse("http://a.test/b?c").unwrap();
    let downloader = downloader(FetchConfig { requests: requests_settings, ..config() }, &url);
    let exchange = exchange(&downloader, &url, page()).await.1.unwrap();
    let sent = String::from_utf8(requests.recv().unwrap()).unwrap();
    assert!(sent.starts_with("GET http://a.test/b?c HTTP/1.1\r\n") && sent.contains("proxy-authorization"));
    let is_kept = |line: &&str| !line.starts_with("proxy-authorization");
    let expected: String = sent.split_inclusive("\r\n").filter(is_kept).collect();
    assert_eq!(String::from_utf8(exchange.request_head).unwrap(), expected);
    assert_eq!((exchange.address, exchange.url.as_str()), (None, "http://a.test/b?c"));
}

#[tokio::test]
async fn http2_is_written_as_http1_and_not_used_if_it_is_not_wanted() {
    let page = WebResponse::page(TEXT).header("x-a", "1").encoded("gzip", gzip(TEXT));
    let web = Web::builder().site(Site::new().response("/a?b", page)).https(Certificate::Good).start();
    let pem = web.ca_pem();
    let url = Url::parse(&web.https_url_of("localhost", "/a?b")).unwrap();
    for http1_only in [false, true] {
        let mut config = FetchConfig { http1_only, ..config() };
        config.requests.trust_certificates(pem.as_bytes()).unwrap();
        config.headers.push(header("x-key", "secret").unwrap());
        let (result, exchange) = exchange(&downloader(config, &url), &url, self::page()).await;
        let exchange = exchange.unwrap_or_else(|| panic!("{result:?}"));
        let protocol = if http1_only { Protocol::Http1 } else { Protocol::Http2 };
        assert_eq!((exchange.protocol, exchange.status, exchange.truncated), (protocol, 200, None));
        assert_eq!(exchange.payload, gzip(TEXT));
        let request = String::from_utf8(exchange.request_head).unwrap().to_lowercase();
        assert!(request.starts_with("get /a?b http/1.1\r\n") && request.ends_with("\r\n\r\n"), "{request}");
        assert!(request.contains(&format!("host: {}\r\n", url.authority())), "{request}");
        assert!(!request.contains("secret"), "{request}");
        let response = String::from_utf8(exchange.response_head).unwrap().to_lowercase();
        assert!(response.starts_with("http/1.1 200 ok\r\n") && response.ends_with("\r\n\r\n"), "{response}");
        for line in ["x-a: 1\r\n", "content-encoding: gzip\r\n"] {
            assert!(response.contains(line), "{response}");
        }
    }
}
