//! Programs of distributed crawls that fail, and proxies that cannot be used: the crawl ends, and nothing is lost.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::fixture::Fixture;
use super::process::Process;

/// The command of a crawl with two workers and these modules, without other outputs.
fn crawl(fixture: &Fixture, more: &[&str]) -> Process {
    let mut crawl =
        fixture.crawler(&["crawl", &fixture.seed(), "--redis", &fixture.redis_url, "--workers", "2"]);
    crawl.args(["--delay", "10ms", "--similarity", "0", "--allow-private", "--resolve", "*=127.0.0.1"]);
    crawl.args(more);
    Process::start(crawl)
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn program_that_fails_ends_the_crawl_and_its_pages_stay_pending() {
    let fixture = Fixture::new(3, 8);
    for (program, words) in [
        ("nosuchcmd", "cannot be run (exit status: 127)"),
        ("read -r page; exit 9", "exited 6 times in a row without finishing a page (exit status: 9)"),
    ] {
        let (status, output) = crawl(&fixture, &["--module", &format!("exec={program}")]).wait();
        assert_eq!(status, Some(3), "{output}");
        assert!(output.contains("crawler: cannot process all pages: worker "), "{output}");
        assert!(output.contains(&format!(": program '{program}' {words}\n")), "{output}");
        assert!(output.contains("Stopped: a module cannot process pages"), "{output}");
        assert!(!output.contains("restarting it"), "{output}");
        assert_eq!(fixture.status()["pages"], 0);
    }
    let processed = fixture.directory.path().join("processed");
    let module = format!("exec=cat >> '{}'", processed.display());
    crawl(&fixture, &["--module", &module]).wait_for_success();
    let lines = fs::read_to_string(&processed).unwrap();
    let url = |line: &str| serde_json::from_str::<Value>(line).unwrap()["url"].as_str().unwrap().to_owned();
    let pages: BTreeSet<String> = lines.lines().map(url).collect();
    assert_eq!(Value::from(pages.len()), fixture.status()["pages"]);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_ends_with_an_error_if_the_proxy_can_never_be_used() {
    let fixture = Fixture::new(1, 3);
    // Nothing listens there.
    let (status, output) =
        crawl(&fixture, &["--proxy", "http://127.0.0.1:1", "--network-timeout", "1s"]).wait();
    assert_eq!(status, Some(1), "{output}");
    assert!(output.contains("cannot use the proxy; restarting it"), "{output}");
    assert!(output.contains("(--proxy, --no-proxy)"), "{output}");
    crawl(&fixture, &["--no-proxy"]).wait_for_success();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn why_gives_the_reason_in_words_and_names_the_pages_that_link_to_a_url() {
    let fixture = Fixture::new(3, 8);
    let output = crawl(&fixture, &["--module", "jsonl=pages.jsonl"]).wait_for_success();
    assert!(
        output.contains(&format!(
            "crawling {}; all hosts; up to 10,000 pages, 50.0 MB; to jsonl=pages.jsonl\n",
            fixture.seed()
        )),
        "{output}"
    );
    let pages = fs::read_dir(fixture.directory.path()).unwrap().filter_map(|entry| {
        let path = entry.unwrap().path();
        path.extension()
            .is_some_and(|extension| extension == "jsonl")
            .then(|| fs::read_to_string(path).unwrap())
    });
    let pages: Vec<Value> =
        pages.collect::<String>().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let links = |page: &Value| page["links"].as_array().unwrap().clone();
    // A page that others link to, and a URL that gave none.
    let is_page = |url: &Value| pages.iter().any(|page| page["url"] == *url);
    let popular = pages.iter().flat_map(links).find(is_page).unwrap();
    let expected =
        pages.iter().filter(|page| page["url"] != popular && links(page).contains(&popular)).count();
    let why = |url: &str| fixture.crawler(&["why", url, "--redis"]).output().unwrap();
    let text = String::from_utf8(why(popular.as_str().unwrap()).stdout).unwrap();
    assert!(
        text.contains(&format!("\n  linked from: {expected} of {} stored pages\n", pages.len())),
        "{text}"
    );
    assert!(text.contains(", a seed\n") || text.contains("reached: it is a seed\n"), "{text}");
    let other =
        pages.iter().flat_map(links).find(|url| url.as_str().unwrap().contains("elsewhere.invalid")).unwrap();
    let text = String::from_utf8(why(other.as_str().unwrap()).stdout).unwrap();
    assert!(
        text.contains("\n  outcome: DNS lookup failed: ")
            || text.contains("\n  outcome: connection failed: "),
        "{text}"
    );
}
