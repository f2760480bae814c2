//! Tests of fetching from real servers, most of which cannot be reached.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use testweb::{Certificate, Hostile, Response, Site, Web};
use tokio::net::{TcpListener, TcpSocket};

use super::*;
use crate::fetch::http::BodyPolicy;

/// A configuration without delay and with short timeouts.
fn config() -> FetchConfig {
    FetchConfig {
        delay: Duration::ZERO,
        connect_timeout: Duration::from_millis(300),
        timeout: Duration::from_millis(600),
        ..FetchConfig::default()
    }
}

fn serve(site: Site) -> Web {
    Web::builder().site(site).start()
}

/// Fetches a URL twice, which must fail in the same way, and returns the outcome.
async fn failure(url: &str, config: FetchConfig) -> Outcome {
    let url = Url::parse(url).unwrap();
    let throttle = Arc::new(HostThrottle::from_config(&config));
    let fetcher = Fetcher::new(config, std::slice::from_ref(&url), throttle, StopHandle::new()).unwrap();
    let first = fetcher.fetch(&url, &BodyPolicy::page(1_000)).await.unwrap_err();
    let second = fetcher.fetch(&url, &BodyPolicy::page(1_000)).await.unwrap_err();
    assert_eq!(std::mem::discriminant(&first), std::mem::discriminant(&second), "{first}; {second}");
    first
}

/// Fetches a URL with and without robots.txt, which must fail in the same way, and returns the cause.
async fn failure_either_way(url: &str, config: FetchConfig) -> String {
    let [checked, unchecked] = [
        failure(url, config.clone()).await,
        failure(url, FetchConfig { obey_robots: false, ..config }).await,
    ];
    assert_eq!(checked.to_string(), unchecked.to_string());
    checked.to_string()
}

#[tokio::test]
async fn unreachable_host_fails_its_urls_with_the_cause_and_not_with_robots_txt() {
    let unknown_name = failure("http://nowhere.invalid/", config()).await;
    assert!(matches!(unknown_name, Outcome::DnsFailed { .. }), "{unknown_name}");

    // Bound but not listening, so that no other process gets the port.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let refused = failure(&format!("http://{}/", socket.local_addr().unwrap()), config()).await;
    assert!(
        matches!(&refused, Outcome::ConnectionFailed { cause } if cause.contains("refused")),
        "{refused}"
    );

    // The kernel accepts connections for the listener, which never reads from them.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let connected = failure(&format!("http://{address}/"), config()).await;
    assert!(matches!(connected, Outcome::Timeout { .. }), "{connected}");
    let no_handshake = failure(&format!("https://{address}/"), config()).await;
    assert!(matches!(no_handshake, Outcome::Timeout { doing: "connecting", .. }), "{no_handshake}");

    let blocked = serve(Site::new().page("/", "x"));
    let [seed, other] = ["http://seed.test/", &blocked.url_of("localhost", "/")];
    let fetcher = Fetcher::new(
        config(),
        &[Url::parse(seed).unwrap()],
        Arc::new(HostThrottle::from_config(&config())),
        StopHandle::new(),
    );
    let outcome = fetcher.unwrap().fetch(&Url::parse(other).unwrap(), &BodyPolicy::page(1_000)).await;
    assert!(matches!(outcome, Err(Outcome::BlockedAddress { .. })), "{outcome:?}");
    assert!(blocked.log().is_empty());
}

#[tokio::test]
async fn failing_robots_txt_of_a_reachable_host_is_unavailable_and_no_page_is_requested() {
    for robots in [Response::status(503), Response::hostile(Hostile::GarbageStatusLine)] {
        let web = serve(Site::new().page("/", "x").response("/robots.txt", robots));
        let outcome = failure(&web.url("/"), config()).await;
        assert!(matches!(outcome, Outcome::RobotsUnavailable { .. }), "{outcome}");
        assert_eq!(web.log().paths(), ["/robots.txt"; 3]);
    }
}

#[tokio::test]
async fn robots_txt_that_redirects_to_an_unreachable_host_is_unavailable() {
    let web = serve(Site::new().page("/", "x").redirect("/robots.txt", "http://nowhere.invalid/"));
    let outcome = failure(&web.url("/"), config()).await;
    assert!(matches!(outcome, Outcome::RobotsUnavailable { .. }), "{outcome}");
    assert_eq!(web.log().paths(), ["/robots.txt"; 3]);
}

#[tokio::test]
async fn https_to_a_plain_http_port_reports_that_the_server_does_not_speak_tls() {
    let web = serve(Site::new().page("/", "x"));
    let cause = failure_either_way(&web.url("/").replace("http:", "https:"), config()).await;
    assert!(cause.ends_with(": the server does not speak TLS"), "{cause}");
}

#[tokio::test]
async fn invalid_certificates_are_described_in_words() {
    for (certificate, reason) in [
        (Certificate::Expired, "the certificate has expired"),
        (Certificate::WrongName, "the certificate is for another name, wrong.example"),
        (
            Certificate::UnknownIssuer,
            "the issuer of the certificate is unknown, or the certificate is self-signed",
        ),
        (Certificate::SelfSigned, "the certificate is self-signed"),
    ] {
        let web = Web::builder().site(Site::new().page("/", "x")).https(certificate).start();
        let root = CertificateDer::from_pem_slice(web.ca_pem().as_bytes()).unwrap();
        let config = FetchConfig { extra_roots: vec![root], ..config() };
        let cause = failure_either_way(&web.https_url("/"), config).await;
        assert!(cause.ends_with(&format!(": {reason}")), "{certificate:?}: {cause}");
        assert!(web.log().is_empty());
    }
}
