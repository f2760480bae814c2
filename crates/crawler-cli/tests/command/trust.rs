//! Trust: self-signed certificates, --insecure, and TLS errors in words.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use testweb::{Certificate, Site, Web};

use crate::common::{Crawl, Ended, linking_to};
use crate::pipeline::Pipeline;

fn site() -> Site {
    Site::new().page("/", linking_to(&["/1"])).page("/1", "one").status("/robots.txt", 404)
}

/// Crawls a host with the certificates in a PEM file.
fn crawl(seed: String, pem: &str, options: &str) -> Ended {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("given.pem");
    fs::write(&file, pem).unwrap();
    let crawl = Crawl::of(seed).with("--resolve *=127.0.0.1 --ca-file");
    crawl.with_one(file.display().to_string()).with(options).run()
}

#[test]
fn certificate_of_a_server_itself_can_be_given() {
    for certificate in [Certificate::SelfSigned, Certificate::UnknownIssuer] {
        let web = Web::builder().host("self.test", site()).https(certificate).start();
        let ended =
            crawl(web.https_url_of("self.test", "/"), &web.certificate_pem("self.test"), "").expect(0);
        assert_eq!(ended.sorted_paths(), ["/", "/1"], "{certificate:?}");
    }
    // The right one is needed: that of another host has another key or name.
    let web = Web::builder().host("self.test", site()).https(Certificate::SelfSigned).start();
    let ended = crawl(web.https_url_of("self.test", "/"), &web.certificate_pem("other.test"), "").expect(1);
    assert!(
        ended
            .stderr
            .contains("the certificate is self-signed; if you trust it, give its certificate with --ca-file"),
        "{}",
        ended.stderr
    );
}

#[test]
fn given_certificate_must_be_valid_in_time_and_for_the_name() {
    let expired = Web::builder().host("self.test", site()).https(Certificate::Expired).start();
    let ended =
        crawl(expired.https_url_of("self.test", "/"), &expired.certificate_pem("self.test"), "").expect(1);
    assert!(ended.stderr.contains("the certificate has expired on 2020-01-01"), "{}", ended.stderr);
    let wrong = Web::builder().host("self.test", site()).https(Certificate::WrongName).start();
    let ended =
        crawl(wrong.https_url_of("self.test", "/"), &wrong.certificate_pem("self.test"), "").expect(1);
    assert!(ended.stderr.contains("the certificate is for another name: wrong.example"), "{}", ended.stderr);
    assert!(expired.log().is_empty() && wrong.log().is_empty());
}

#[test]
fn insecure_crawl_accepts_every_certificate_and_warns() {
    let warning = "warning: certificates are not verified (--insecure)";
    for certificate in
        [Certificate::SelfSigned, Certificate::UnknownIssuer, Certificate::Expired, Certificate::WrongName]
    {
        let web = Web::builder().host("self.test", site()).https(certificate).start();
        let seed = web.https_url_of("self.test", "/");
        let ended = Crawl::of(&seed).with("--resolve *=127.0.0.1 --insecure").run().expect(0);
        assert_eq!(ended.sorted_paths(), ["/", "/1"], "{certificate:?}");
        assert_eq!(ended.stderr.matches(warning).count(), 1, "{}", ended.stderr);
        let ended = Pipeline::of(&seed).with("--insecure").run().expect(0);
        assert_eq!(ended.stderr.matches(warning).count(), 1, "{}", ended.stderr);
    }
}

#[test]
fn resumed_crawl_is_insecure_again_and_warns_again() {
    let web = Web::builder().host("self.test", site()).https(Certificate::SelfSigned).start();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state").display().to_string();
    let crawl = Pipeline::of(web.https_url_of("self.test", "/")).with("--insecure --max-pages 1 --state");
    crawl.with_one(&state).run().expect(0);
    let mut command = crate::common::binary();
    command.args(["resume", &state, "--max-pages", "9"]);
    let ended = crate::common::Running::start(command, "/nowhere".into(), None).wait().expect(0);
    assert_eq!(ended.outcomes()["page"], 2, "{}", ended.stdout);
    assert!(ended.stderr.contains("warning: certificates are not verified"), "{}", ended.stderr);
}

/// A server of `openssl s_server`, which is killed when dropped.
struct OpensslServer {
    child: Child,
    port: u16,
}

impl OpensslServer {
    fn start(directory: &Path, options: &[&str]) -> OpensslServer {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut child = Command::new("openssl")
            .args(["s_server", "-www", "-cert", "cert.pem", "-key", "key.pem", "-accept"])
            .arg(format!("127.0.0.1:{port}"))
            .args(options)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl runs");
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(child.try_wait().unwrap().is_none(), "openssl s_server {options:?} exited");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        OpensslServer { child, port }
    }
}

impl Drop for OpensslServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A certificate with the defaults of `openssl req -x509`.
fn self_signed(directory: &Path, name: &str) -> String {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", &format!("/CN={name}")])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(directory)
        .output()
        .expect("openssl runs");
    assert!(made.status.success());
    fs::read_to_string(directory.join("cert.pem")).unwrap()
}

#[test]
#[ignore = "needs openssl: run by make test"]
fn certificate_of_openssl_with_its_defaults_works_with_ca_file() {
    for name in ["plain.test", "127.0.0.1"] {
        let directory = tempfile::tempdir().unwrap();
        let pem = self_signed(directory.path(), name);
        let server = OpensslServer::start(directory.path(), &[]);
        let url = |host: &str| format!("https://{host}:{}/", server.port);
        let ended = crawl(url(name), &pem, "--ignore-robots").expect(0);
        assert_eq!(ended.pages().len(), 1);
        let ended = crawl(url("other.test"), &pem, "--ignore-robots").expect(1);
        assert!(
            ended.stderr.contains(&format!("the certificate is for another name: {name}")),
            "{}",
            ended.stderr
        );
        let ended = Crawl::of(url(name)).with("--resolve *=127.0.0.1 --ignore-robots").run().expect(1);
        assert!(ended.stderr.contains("the certificate is self-signed"), "{}", ended.stderr);
    }
}

#[test]
#[ignore = "needs openssl: run by make test"]
fn old_and_strange_servers_of_openssl_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let pem = self_signed(directory.path(), "plain.test");
    let cases: [(&[&str], &str); 3] = [
        (&["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], "versions of TLS that are too old"),
        (
            &["-tls1_2", "-cipher", "AES256-SHA"],
            "the server refused the TLS handshake with the alert HandshakeFailure",
        ),
        (&["-tls1_2"], ""),
    ];
    for (options, words) in cases {
        let server = OpensslServer::start(directory.path(), options);
        let url = format!("https://plain.test:{}/", server.port);
        let ended = crawl(url, &pem, "--ignore-robots").expect(i32::from(!words.is_empty()));
        assert!(ended.stderr.contains(words), "{options:?}: {}", ended.stderr);
    }
}
