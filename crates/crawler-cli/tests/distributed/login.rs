//! Headers, cookies and credentials of a distributed crawl: workers get them, and Redis does not.

use std::fs;
use std::path::Path;

use super::fixture::Fixture;
use super::process::{Process, run, texts};

const SECRETS: [&str; 4] = ["s3cr-header", "s3cr-cookie", "s3cr-password", "bWU6czNjci1wYXNzd29yZA=="];

/// The bytes of all files below a directory.
pub fn all_bytes(directory: &Path) -> Vec<u8> {
    fs::read_dir(directory).unwrap().fold(Vec::new(), |mut bytes, entry| {
        let path = entry.unwrap().path();
        bytes.extend(if path.is_dir() { all_bytes(&path) } else { fs::read(path).unwrap() });
        bytes
    })
}

fn shows_no_secret(bytes: &[u8]) {
    for secret in SECRETS {
        assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()), "{secret}");
    }
}

/// Writes a secret to a file, and returns the argument that reads it.
fn secret_file(directory: &Path, name: &str, text: &str) -> String {
    fs::write(directory.join(name), text).unwrap();
    format!("@{}", directory.join(name).display())
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn workers_get_secrets_that_are_in_no_argument_and_not_in_redis() {
    let (fixture, secrets) = (Fixture::slow(4, 12), tempfile::tempdir().unwrap());
    let header = secret_file(secrets.path(), "header", "X-Token: s3cr-header");
    let auth = secret_file(secrets.path(), "auth", "me:s3cr-password\n");
    let cookie = secret_file(secrets.path(), "cookie", "id=s3cr-cookie");
    let saved = secrets.path().join("saved");
    let save = format!("--save-cookies={}", saved.display());
    let options = ["--header", &header, "--auth", &auth, "--cookie", &cookie, "-v", &save];
    let crawl = fixture.start_crawl(2, &options);
    for role in ["frontier", "worker 0", "worker 1"] {
        let pid = fixture.process_of(role).unwrap().as_raw_pid();
        shows_no_secret(&fs::read(format!("/proc/{pid}/cmdline")).unwrap());
    }
    shows_no_secret(crawl.wait_for_success().as_bytes());
    fixture.check();
    // The append-only file has all that was ever written to Redis.
    let [_, stored]: [String; 2] =
        fixture.redis.query::<Vec<String>>("CONFIG GET dir").try_into().expect("a name and a directory");
    let redis = all_bytes(Path::new(&stored));
    assert!(redis.windows(6).any(|window| window == b"--auth"), "the fact is known");
    shows_no_secret(&redis);
    shows_no_secret(&all_bytes(fixture.directory.path()));
    let cookies = fs::read_to_string(&saved).unwrap();
    assert_eq!(cookies, "# Netscape HTTP Cookie File\ngate.test\tFALSE\t/\tFALSE\t0\tid\ts3cr-cookie\n");
    assert_eq!(fs::read_dir(secrets.path()).unwrap().count(), 4, "no part file is left");
    let (own, log) = (fixture.web.log().for_host("gate.test"), fixture.web.log());
    assert!(own.iter().any(|hit| hit.path == "/robots.txt") && own.iter().any(|hit| hit.path == "/"));
    let others = log.filter(|hit| hit.host != "gate.test");
    for (name, value) in [
        ("x-token", "s3cr-header"),
        ("authorization", "Basic bWU6czNjci1wYXNzd29yZA=="),
        ("cookie", "id=s3cr-cookie"),
    ] {
        assert!(own.iter().all(|hit| hit.header(name) == Some(value)), "{name}");
        assert!(others.iter().all(|hit| hit.header(name).is_none()), "{name}");
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn worker_started_by_hand_is_given_the_secrets_again() {
    let fixture = Fixture::new(2, 6);
    let output =
        run(fixture.crawl(1, &["--auth", "me:s3cr-password", "--scope", "host", "--max-pages", "1"]));
    assert!(output.status.success(), "{:?}", texts(&output));
    let authorized = || fixture.web.log().filter(|hit| hit.header("authorization").is_some()).len();
    let before = (authorized(), fixture.web.log().len());
    assert!(before.0 > 0);
    fixture.run(&["submit", &fixture.web.url_of("h0.test", "/1"), "--max-pages", "2"]);
    let frontier = Process::start(fixture.crawler(&["frontier", "--stay"]));
    let output = Process::start(fixture.crawler(&["worker", "--id", "0"])).wait_for_success();
    assert!(output.contains("was started with --auth, whose values are not stored"), "{output}");
    assert!(fixture.web.log().len() > before.1 && authorized() == before.0, "{output}");
    fixture.run(&["submit", &fixture.web.url_of("h0.test", "/2"), "--max-pages", "4"]);
    let mut worker = fixture.crawler(&["worker", "--id", "0"]);
    worker.env("CRAWLER_AUTH", "me:s3cr-password");
    let output = Process::start(worker).wait_for_success();
    assert!(!output.contains("not stored"), "{output}");
    assert!(authorized() > before.0);
    drop(frontier);
}
