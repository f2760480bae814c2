//! Tests of HTTPS: which certificates a client accepts, and which protocol it negotiates.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use testweb::{Certificate, Hostile, Protocol, Response, Site, Web};

/// A client that trusts only the server's root.
fn client(web: &Web, protocols: &[&str]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(web.ca_pem().as_bytes()).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    Arc::new(config)
}

fn fetch(web: &Web, host: &str) -> Result<String, String> {
    let name = ServerName::try_from(host.to_owned()).unwrap();
    let tls = ClientConnection::new(client(web, &[]), name).unwrap();
    let socket = TcpStream::connect(("127.0.0.1", web.https_port())).unwrap();
    let mut stream = rustls::StreamOwned::new(tls, socket);
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
    let mut response = String::new();
    stream.read_to_string(&mut response).map_err(|error| error.to_string())?;
    Ok(response)
}

fn web(certificate: Certificate) -> Web {
    let site = Site::new().page("/", "secure").response("/hostile", Response::hostile(Hostile::EndlessBody));
    Web::builder().site(site).https(certificate).start()
}

#[test]
fn good_certificate_is_valid_for_the_address_and_every_name() {
    let web = web(Certificate::Good);
    for host in ["127.0.0.1", "localhost", "a.test", "www.b.test", "c.example"] {
        assert!(fetch(&web, host).unwrap().ends_with("\r\n\r\nsecure"), "{host}");
    }
    assert!(web.log().iter().all(|hit| hit.port == web.https_port()));
}

#[test]
fn bad_certificate_is_rejected_with_its_reason() {
    for (certificate, reason) in [
        (Certificate::UnknownIssuer, "UnknownIssuer"),
        (Certificate::Expired, "expired"),
        (Certificate::WrongName, "not valid for name"),
        (Certificate::SelfSigned, "CaUsedAsEndEntity"),
    ] {
        let web = web(certificate);
        let error = fetch(&web, "a.test").unwrap_err();
        assert!(error.contains(reason), "{certificate:?}: {error}");
        assert!(web.log().is_empty());
    }
}

#[tokio::test]
async fn http2_is_negotiated_and_hostile_behaviour_resets_the_stream() {
    let web = web(Certificate::Good);
    let tls = tokio_rustls::TlsConnector::from(client(&web, &["h2", "http/1.1"]));
    let socket = tokio::net::TcpStream::connect(("127.0.0.1", web.https_port())).await.unwrap();
    let stream = tls.connect(ServerName::try_from("a.test").unwrap(), socket).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let io = TokioIo::new(stream);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let mut get = |path: &str| {
        let url = web.https_url_of("a.test", path);
        sender.send_request(hyper::Request::get(url).body(Empty::<bytes::Bytes>::new()).unwrap())
    };
    let response = get("/").await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "secure");
    assert!(get("/hostile").await.is_err());
    let log = web.log();
    assert_eq!(log.paths(), ["/", "/hostile"]);
    assert!(
        log.iter().all(|hit| hit.protocol == Protocol::H2 && hit.host == "a.test" && hit.ended.is_some())
    );
}

#[tokio::test]
async fn http1_only_server_negotiates_http1() {
    let web = Web::builder().site(Site::new()).https(Certificate::Good).http1_only().start();
    let tls = tokio_rustls::TlsConnector::from(client(&web, &["h2", "http/1.1"]));
    let socket = tokio::net::TcpStream::connect(("127.0.0.1", web.https_port())).await.unwrap();
    let stream = tls.connect(ServerName::try_from("a.test").unwrap(), socket).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
}
