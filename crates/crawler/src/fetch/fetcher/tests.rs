//! Tests of fetching from real servers, most of which cannot be reached.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use testweb::{Certificate, Hostile, Response, Site, Web};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::*;
use crate::fetch::http::BodyPolicy;
use crate::request_settings::RequestSettings;
use crate::worker::liveness::HeartbeatTime;

const RETRY_PAUSE: Duration = Duration::from_millis(2);

/// A configuration without delay and with short timeouts.
fn config() -> FetchConfig {
    FetchConfig {
        delay: Duration::ZERO,
        requests: RequestSettings {
            connect_timeout: Duration::from_millis(300),
            ..RequestSettings::default()
        },
        timeout: Duration::from_millis(600),
        robots_retry_pause: RETRY_PAUSE,
        ..FetchConfig::default()
    }
}

fn without_robots(mut config: FetchConfig) -> FetchConfig {
    config.requests.obey_robots = false;
    config
}

fn serve(site: Site) -> Web {
    Web::builder().site(site).start()
}

fn fetcher(url: &Url, config: FetchConfig) -> Fetcher {
    let throttle = Arc::new(HostThrottle::from_config(&config));
    Fetcher::new(config, std::slice::from_ref(url), throttle, StopHandle::new()).unwrap()
}

/// Fetches a URL twice, which must fail in the same way, and returns the outcome.
async fn failure(url: &str, config: FetchConfig) -> Outcome {
    let url = Url::parse(url).unwrap();
    let fetcher = fetcher(&url, config);
    let first = fetcher.fetch(&url, &BodyPolicy::page(1_000)).await.unwrap_err();
    let second = fetcher.fetch(&url, &BodyPolicy::page(1_000)).await.unwrap_err();
    assert_eq!(std::mem::discriminant(&first), std::mem::discriminant(&second), "{first}; {second}");
    first
}

/// Fetches a URL with and without robots.txt, which must fail in the same way, and returns the cause.
async fn failure_either_way(url: &str, config: FetchConfig) -> String {
    let [checked, unchecked] =
        [failure(url, config.clone()).await, failure(url, without_robots(config)).await];
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
    let redirect = |location: &str| Response::redirect(302, location);
    for (robots, tries) in [
        (Response::status(503), 9),
        (Response::status(520), 9),
        (Response::hostile(Hostile::GarbageStatusLine), 1),
        (Response::status(302), 1),
        (redirect("http://nowhere.invalid/"), 1),
        (redirect("http://me:secret@127.0.0.1/"), 1),
        (redirect("http://[bad"), 1),
        (redirect("ftp://127.0.0.1/robots.txt"), 1),
        (redirect(&format!("/{}", "x".repeat(3_000))), 1),
    ] {
        let web = serve(Site::new().page("/", "x").response("/robots.txt", robots));
        let outcome = failure(&web.url("/"), config()).await;
        assert!(matches!(outcome, Outcome::RobotsUnavailable { .. }), "{outcome}");
        assert_eq!(web.log().paths(), vec!["/robots.txt"; tries], "{outcome}");
    }
}

#[tokio::test]
async fn robots_txt_is_requested_again_after_growing_pauses_and_all_urls_wait() {
    let robots = (0..6).map(|_| Response::status(503)).chain([Response::status(404)]).collect();
    let web = serve(
        Site::new().page("/1", "x").page("/2", "x").response("/robots.txt", Response::sequence(robots)),
    );
    let [first, second] = ["/1", "/2"].map(|path| Url::parse(&web.url(path)).unwrap());
    let fetcher = fetcher(&first, config());
    let fetch = async |url: &Url| fetcher.fetch(url, &BodyPolicy::page(1_000)).await;
    let (first, second) = tokio::join!(fetch(&first), fetch(&second));
    assert!(first.is_ok() && second.is_ok(), "{first:?} {second:?}");
    let log = web.log();
    let robots = log.for_path("/robots.txt");
    assert_eq!((robots.len(), log.len()), (7, 9));
    for (failures, pair) in robots.windows(2).enumerate() {
        let pause = pair[1].started - pair[0].ended.unwrap();
        assert!(pause >= RETRY_PAUSE * (1 << failures), "{failures}: {pause:?}");
    }
}

#[tokio::test]
async fn url_of_an_unreachable_host_fails_after_two_tries_and_the_next_url_tries_again() {
    let reset = || Response::hostile(Hostile::ResetImmediately);
    let robots = Response::sequence(vec![reset(), reset(), reset(), Response::status(404)]);
    let web = serve(Site::new().page("/", "x").response("/robots.txt", robots));
    let url = Url::parse(&web.url("/")).unwrap();
    let fetcher = fetcher(&url, config());
    let first = fetcher.fetch(&url, &BodyPolicy::page(1_000)).await.unwrap_err();
    assert!(matches!(first, Outcome::ConnectionFailed { .. }), "{first}");
    assert_eq!(web.log().len(), 2);
    fetcher.fetch(&url, &BodyPolicy::page(1_000)).await.unwrap();
    assert_eq!(web.log().len(), 5);
}

#[tokio::test]
async fn urls_of_a_host_that_stays_unreachable_fail_without_further_tries() {
    let web = serve(Site::new().response("/robots.txt", Response::hostile(Hostile::ResetImmediately)));
    let url = Url::parse(&web.url("/")).unwrap();
    let fetcher = fetcher(&url, config());
    for tries in [2, 4, 6, 6, 6] {
        let outcome = fetcher.fetch(&url, &BodyPolicy::page(1_000)).await.unwrap_err();
        assert!(matches!(outcome, Outcome::ConnectionFailed { .. }), "{outcome}");
        assert_eq!(web.log().len(), tries);
    }
}

#[tokio::test]
async fn stop_ends_a_request_that_waits_to_start() {
    let delay = Duration::from_secs(2);
    let web = Web::builder().site(Site::new().page("/", "x")).https(Certificate::Good).start();
    let relay = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("https://{}/", relay.local_addr().unwrap())).unwrap();
    let root = CertificateDer::from_pem_slice(web.ca_pem().as_bytes()).unwrap();
    let long = Duration::from_secs(30);
    let config = FetchConfig {
        delay,
        max_per_host: 2,
        requests: RequestSettings {
            obey_robots: false,
            trusted_certificates: vec![root],
            connect_timeout: long,
            ..RequestSettings::default()
        },
        timeout: long,
        ..config()
    };
    let (stop, throttle) = (StopHandle::new(), Arc::new(HostThrottle::from_config(&config)));
    let fetcher = Fetcher::new(config, std::slice::from_ref(&url), Arc::clone(&throttle), stop.clone());
    let fetcher = fetcher.unwrap();
    let (started, policy) = (Instant::now(), BodyPolicy::page(1_000));
    let stopped = async {
        let (mut client, _) = relay.accept().await.unwrap();
        // While the request is connecting, another one starts. So the next start is a delay later.
        let other = throttle.acquire(crate::origin::throttle_key(url.as_str())).await;
        other.start(None).await.unwrap();
        let mut server = tokio::net::TcpStream::connect(("127.0.0.1", web.https_port())).await.unwrap();
        let relay = tokio::io::copy_bidirectional(&mut client, &mut server);
        let _ = tokio::time::timeout(Duration::from_millis(300), relay).await;
        stop.stop();
    };
    let (result, ()) = tokio::join!(fetcher.fetch(&url, &policy), stopped);
    assert_eq!(result.unwrap_err(), Outcome::NotReached);
    assert!(started.elapsed() < 2 * delay, "{:?}", started.elapsed());
    assert!(web.log().is_empty());
}

/// A server that never responds. It reports each request, and each end of a connection.
async fn silent_server() -> (Url, mpsc::UnboundedReceiver<&'static str>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    let (sender, events) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let sender = sender.clone();
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                while let Ok(1..) = client.read(&mut buffer).await {
                    let _ = sender.send("request");
                }
                let _ = sender.send("end");
            });
        }
    });
    (url, events)
}

#[tokio::test]
async fn request_of_a_worker_without_heartbeats_ends_before_the_next_one_starts() {
    let (url, mut events) = silent_server().await;
    let liveness = LivenessGuard::with_timeout(Duration::from_millis(600));
    let config = without_robots(FetchConfig { timeout: Duration::from_secs(30), ..config() });
    let fetcher = fetcher(&url, config).with_liveness(liveness.clone());
    liveness.renew(HeartbeatTime::now());
    let fetch = tokio::spawn(async move { fetcher.fetch(&url, &BodyPolicy::page(1_000)).await });
    assert_eq!(events.recv().await, Some("request"));
    assert_eq!(events.recv().await, Some("end"));
    let next = tokio::time::timeout(Duration::from_millis(200), events.recv()).await;
    assert!(next.is_err(), "{next:?} without a heartbeat");
    liveness.renew(HeartbeatTime::now());
    assert_eq!(events.recv().await, Some("request"));
    fetch.abort();
    assert_eq!(events.recv().await, Some("end"));
}

#[tokio::test]
async fn causes_of_failed_name_lookups_are_in_words() {
    let cause = failure_either_way("http://nowhere.invalid/", config()).await;
    assert_eq!(cause, "DNS lookup failed: the name does not exist");
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
        (Certificate::Expired, "the certificate has expired on 2020-01-01"),
        (Certificate::WrongName, "the certificate is for another name: wrong.example"),
        (
            Certificate::UnknownIssuer,
            "the certificate is signed by an unknown authority, 'testweb unknown root'",
        ),
        (Certificate::SelfSigned, "the certificate is self-signed"),
    ] {
        let web = Web::builder().site(Site::new().page("/", "x")).https(certificate).start();
        let root = CertificateDer::from_pem_slice(web.ca_pem().as_bytes()).unwrap();
        let mut config = config();
        config.requests.trusted_certificates = vec![root];
        let cause = failure_either_way(&web.https_url("/"), config).await;
        assert!(cause.ends_with(&format!(": {reason}")), "{certificate:?}: {cause}");
        assert!(web.log().is_empty());
    }
}
