//! Crawls of more hosts than files may be open: connections are closed in time, and no page is lost for want of one.

use std::fs;

use serde_json::Value;
use testweb::{Answer, Certificate, Site, Web};

use crate::common::{counts, serve};
use crate::pipeline::{Pipeline, adds_up};

/// Far more than may be open in any of these crawls.
const HOSTS: usize = 600;

/// Crawls two pages of each host, half of them over HTTP/2, in a shell that does this first. All pages are kept.
#[track_caller]
fn loses_no_page(script: &str) {
    let host = Site::new().page("/", "<a href=/2>2</a>").otherwise(|_| Answer::page("page"));
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
    assert_eq!(adds_up(&summary), counts(&[("kept", 2 * HOSTS as u64 + 1)]), "{}", ended.stderr);
    assert!(!ended.stderr.contains("open files"), "{}", ended.stderr);
}

#[test]
fn hosts_of_both_protocols_share_the_files_that_may_be_open() {
    loses_no_page("ulimit -n 400;");
}

#[test]
fn idle_connections_are_given_up_when_no_more_files_can_be_opened() {
    // Files that were open before, and that nobody here knows of.
    loses_no_page(
        "ulimit -n 400; exec bash -c 'for n in {100..249}; do eval \"exec $n</dev/null\"; done; exec \"$@\"' bash \"$@\";",
    );
}
