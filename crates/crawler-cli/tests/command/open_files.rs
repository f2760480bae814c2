//! Crawls of more hosts than the open file limit: idle connections are closed in time, and no page is lost.

use std::fs;

use serde_json::Value;
use testweb::{Certificate, Response, Site, Web};

use crate::common::{counts, serve};
use crate::pipeline::{Pipeline, adds_up};

/// Far more than the open file limit of these crawls.
const HOSTS: usize = 600;

/// Crawls two pages of each host, half of them over HTTP/2, in a shell that runs this script first. No page is lost.
#[track_caller]
fn crawl_loses_no_page(script: &str) {
    let host = Site::new().page("/", "<a href=/2>2</a>").fallback(|_| Response::page("page"));
    let hosts = Web::builder().site(host).https(Certificate::Good).start();
    let link = |number: usize| match number % 2 {
        0 => format!("<a href={}>x</a>", hosts.url_of(&format!("h{number}.test"), "/")),
        _ => format!("<a href={}>x</a>", hosts.https_url_of(&format!("h{number}.test"), "/")),
    };
    let start = serve(Site::new().page("/", (0..HOSTS).map(link).collect::<String>()));
    let directory = tempfile::tempdir().unwrap();
    let [root, summary] = ["root.pem", "summary"].map(|name| directory.path().join(name));
    fs::write(&root, hosts.ca_pem()).unwrap();
    let ended = Pipeline::of(start.url("/"))
        .with("--workers 1 --concurrency 32 --similarity 0 --ca-file")
        .with_one(root.display().to_string())
        .with("--summary")
        .with_one(summary.display().to_string())
        .in_shell(&format!("{script} exec \"$@\""))
        .run()
        .expect(0);
    let summary: Value = serde_json::from_slice(&fs::read(summary).unwrap()).unwrap();
    assert_eq!(adds_up(&summary), counts(&[("page", 2 * HOSTS as u64 + 1)]), "{}", ended.stderr);
    assert!(!ended.stderr.contains("open files"), "{}", ended.stderr);
}

#[test]
fn hosts_of_both_protocols_share_the_open_file_limit() {
    crawl_loses_no_page("ulimit -n 400;");
}

#[test]
fn idle_connections_are_closed_when_no_more_files_can_be_opened() {
    // Files that were open before the crawler started.
    crawl_loses_no_page(
        "ulimit -n 400; exec bash -c 'for n in {100..249}; do eval \"exec $n</dev/null\"; done; exec \"$@\"' bash \"$@\";",
    );
}
