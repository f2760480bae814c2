//! The proxy of a distributed crawl: workers get it, and Redis does not.

use std::fs;
use std::path::Path;

use testweb::Proxy;

use super::fixture::Fixture;
use super::login::all_bytes;
use super::process::{Process, run, texts};

const PASSWORD: &str = "s3cr-proxy";

fn shows_no_password(bytes: &[u8]) {
    assert!(!bytes.windows(PASSWORD.len()).any(|window| window == PASSWORD.as_bytes()));
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn all_requests_go_through_the_proxy_and_redis_does_not_get_its_password() {
    let (fixture, proxy) = (Fixture::slow(4, 12), Proxy::http().credentials("me", PASSWORD).start());
    let url = proxy.url_with(&format!("me:{PASSWORD}"));
    let crawl = fixture.start_crawl(2, &["--proxy", &url, "--insecure", "-v"]);
    for role in ["frontier", "worker 0", "worker 1"] {
        let pid = fixture.process_of(role).unwrap().as_raw_pid();
        shows_no_password(&fs::read(format!("/proc/{pid}/cmdline")).unwrap());
    }
    let output = crawl.wait_for_success();
    shows_no_password(output.as_bytes());
    assert_eq!(output.matches("certificates are not verified").count(), 1, "{output}");
    fixture.check();
    let reached = proxy.log().iter().filter(|request| !request.target.contains("elsewhere.invalid")).count();
    assert!(reached >= fixture.web.log().len());
    // The append-only file has all that was ever written to Redis.
    let [_, stored]: [String; 2] =
        fixture.redis.query::<Vec<String>>("CONFIG GET dir").try_into().expect("a name and a directory");
    shows_no_password(&all_bytes(Path::new(&stored)));
    shows_no_password(&all_bytes(fixture.directory.path()));
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn worker_started_by_hand_is_given_the_proxy_again() {
    let (fixture, proxy) = (Fixture::new(2, 6), Proxy::socks5().start());
    let output = run(fixture.crawl(1, &["--proxy", &proxy.url(), "--max-pages", "1"]));
    assert!(output.status.success(), "{:?}", texts(&output));
    fixture.run(&["submit", &fixture.web.url_of("h0.test", "/1"), "--max-pages", "3"]);
    let frontier = Process::start(fixture.crawler(&["frontier", "--stay"]));
    let refused = run(fixture.crawler(&["worker", "--id", "0"]));
    assert_eq!(refused.status.code(), Some(2));
    let (_, message) = texts(&refused);
    assert!(
        message.contains("started with a proxy, which is not saved; give it again with --proxy"),
        "{message}"
    );
    let (before, hits) = (proxy.log().len(), fixture.web.log().len());
    let mut worker = fixture.crawler(&["worker", "--id", "0"]);
    worker.env("CRAWLER_PROXY", proxy.url());
    Process::start(worker).wait_for_success();
    assert!(proxy.log().len() > before && fixture.web.log().len() > hits);
    drop(frontier);
}
