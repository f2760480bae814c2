//! Invalid arguments of `crawler crawl`: the error names them and the remedy, and nothing is fetched or written.

use std::fs;

use testweb::Site;

use crate::common::{self, names, run, serve};
use crate::pipeline::Pipeline;

/// Checks that `crawler crawl` [rejects](common::is_rejected) arguments.
#[track_caller]
fn is_rejected(arguments: &[&str], words: &[&str]) {
    common::is_rejected(&[&["crawl"], arguments].concat(), words);
}

#[test]
fn error_names_the_option_and_a_valid_value() {
    let invalid = [
        ("--queue-size", "0", "a whole number from 1 to 10,000,000"),
        ("--queue-size", "-1", "a whole number from 1"),
        ("--priority-queues", "0", "a whole number from 1 to 101"),
        ("--priority-queues", "102", "a whole number from 1 to 101"),
        ("--pagerank-url", "ranks", "give an absolute http or https URL"),
        ("--pagerank-url", "ftp://127.0.0.1/", "give an absolute http or https URL"),
        ("--domain-ttl", "0", "a time like 90s, 30m or 12h, longer than 0"),
        ("--ttl", "0s", "a time like 90s, 30m or 12h, longer than 0"),
        ("--ttl", "1y", "a time like"),
        ("--workers", "0", "a whole number from 1 to 1,000"),
        ("--workers", "many", "a whole number from 1"),
        ("--concurrency", "0", "a whole number from 1"),
        ("--per-host", "0", "a whole number from 1"),
        ("--delay", "fast", "a time like 0, 250ms, 2s or 1m"),
        ("--delay", "-1", "must not be negative; give a time like"),
        ("--delay", "-1s", "must not be negative"),
        ("--max-pages", "-1", "must not be negative; give a whole number from 1"),
        ("--max-bytes", "-1MB", "must not be negative; give a size like"),
        ("--max-time", "-1h", "must not be negative; give a time like"),
        ("--dead-after", "-1s", "must not be negative; give a time like"),
        ("--dead-after", "200ms", "at least 300ms"),
        ("--replicas", "-1", "must not be negative; give a whole number from 0 to 8"),
        ("--replicas", "9", "a whole number from 0 to 8"),
        ("--similarity", "1.1", "a number from 0 to 1, like 0.9"),
        ("--similarity", "90%", "a number from 0 to 1, like 0.9"),
        ("--similarity", "-1", "a number from 0 to 1, like 0.9"),
        ("--module", "json=DIR/x", "modules are noop, pages=DIR, jsonl=FILE"),
        ("--module", "words=none", "a number of words from 1 to 1000"),
        ("--module", "pages", "needs a directory"),
        ("--module", "pages=DIR/no/such", "name an existing directory"),
        ("--module", "jsonl=DIR/no/such", "name a file you may write to"),
        ("--module", "jsonl=DIR", "name a file you may write to"),
        ("--scope", "site", "must be any, domain, host or prefix"),
        ("--include", "a(", "must be a regular expression: unclosed group"),
        ("--exclude", "[", "must be a regular expression: unclosed character class"),
        ("--max-depth", "-1", "a whole number from 0"),
        ("--max-pages", "0", "a whole number from 1"),
        ("--max-pages", "1e6", "a whole number from 1"),
        ("--max-bytes", "0", "a size like 500KB, 50MB or 2GiB"),
        ("--max-bytes", "lots", "a size like"),
        ("--max-time", "0", "a time like 90s, 30m or 12h, longer than 0"),
        ("--max-pages-per-host", "0", "a whole number from 1"),
        ("--max-pages-per-site", "0", "a whole number from 1"),
        ("--progress", "xml", "must be auto, plain or json"),
        ("--summary", "DIR", "it is not a regular file; name a file that can be written"),
        ("--summary", "DIR/no/such", "the directory does not exist; name a file that can be written"),
        ("--timeout", "0", "longer than 0"),
        ("--max-page-bytes", "0", "a size like"),
        ("--resolve", "a.test", "HOST=ADDRESS"),
        ("--ca-file", "/nowhere/ca.pem", "/nowhere/ca.pem"),
        ("--user-agent", "caf\u{e9}", "printable ASCII"),
        ("--contact", "me", "give an absolute URL"),
        ("--internal", "x", "is an option of 'crawler [OPTIONS] <seedURL> <pageDirectory> <maxDepth>'"),
        (
            "--quue-size",
            "5",
            "unknown option '--quue-size'; did you mean '--queue-size'? Try 'crawler crawl --help'",
        ),
    ];
    for (option, value, words) in invalid {
        // The error about an output file names the file.
        let option_named =
            if value.starts_with("pages=") || value.starts_with("jsonl=") { "DIR" } else { option };
        let named = option_named.replace("DIR", "/");
        is_rejected(&["SEED", option, value], &[named.as_str(), words]);
    }
    is_rejected(&["SEED", "--max-pages"], &["--max-pages needs a value"]);
    is_rejected(&["SEED", "--ttl", "1h", "--ttl", "2h"], &["--ttl", "multiple times"]);
}

#[test]
fn all_seeds_are_checked_and_no_password_is_printed() {
    is_rejected(
        &[],
        &["missing <URL>...; usage: crawler crawl [OPTIONS] <URL>...; try 'crawler crawl --help'"],
    );
    is_rejected(&["ftp://a.test/"], &["the seed URL is invalid: ", "give an absolute http or https URL"]);
    is_rejected(&["SEED", "SEED", "ftp://me:secret@a.test/"], &["seed URL number 3", "its scheme is 'ftp'"]);
    let ended = run(&["crawl", "http://a.test/", "http://me:secret@a b/"]).expect(2);
    assert!(!ended.stderr.contains("secret") && ended.stderr.contains("number 2"), "{}", ended.stderr);
}

#[test]
fn conflicting_options_are_rejected() {
    is_rejected(&["SEED", "-q", "-v"], &["--quiet cannot be used with --verbose"]);
    is_rejected(&["SEED", "-q", "--progress", "json"], &["--quiet", "--progress"]);
    is_rejected(
        &["SEED", "--module", "jsonl=-", "--module", "edges=-"],
        &["--module jsonl=- and --module edges=-", "give one of them a file"],
    );
    is_rejected(
        &["SEED", "--module", "jsonl=DIR/x", "--summary", "DIR/x"],
        &["--summary and --module jsonl=", "write the same file"],
    );
}

#[test]
fn concurrency_above_the_open_file_limit_is_rejected() {
    let ended = Pipeline::bare("http://127.0.0.1:9/")
        .with("--workers 3 --concurrency 100")
        .in_shell("ulimit -n 200 && exec \"$@\"")
        .run()
        .expect(2);
    let expected = "--concurrency 100 with 3 workers needs 388 open files, more than the system allows";
    assert!(ended.stderr.contains(expected), "{}", ended.stderr);
}

#[test]
fn outputs_of_an_earlier_crawl_are_replaced_only_with_overwrite() {
    let web = serve(Site::new().page("/", "x"));
    let directory = tempfile::tempdir().unwrap();
    let [lines, pages] = ["lines", "pages"].map(|name| directory.path().join(name));
    let crawl = |options: &str| {
        Pipeline::of(web.url("/")).module("pages", &pages).module("jsonl", &lines).with(options).run()
    };
    crawl("").expect(0);
    let before = fs::read(&lines).unwrap();
    let hits = web.hits();
    let ended = crawl("").expect(2);
    assert!(ended.stderr.contains("or overwrite them (--overwrite)"), "{}", ended.stderr);
    assert_eq!((fs::read(&lines).unwrap(), web.hits()), (before, hits));
    crawl("--overwrite").expect(0);
    assert_eq!((fs::read_to_string(&lines).unwrap().lines().count(), names(&pages).len()), (1, 1));
}

#[test]
fn directory_can_have_the_name_of_a_command() {
    let web = serve(Site::new().page("/", "x"));
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("crawl")).unwrap();
    let mut classic = crate::common::binary();
    classic
        .args([web.url("/").as_str(), "crawl", "0", "-q", "--ignore-robots"])
        .current_dir(directory.path());
    assert!(classic.status().unwrap().success());
    assert_eq!(names(&directory.path().join("crawl")), ["1"]);
    let invalid = ["-v", &web.url("/"), "crawl", "0", "--max-pages", "5"];
    let ended = run(&invalid).expect(2);
    assert!(ended.stderr.contains("--max-pages is an option of 'crawler crawl'"), "{}", ended.stderr);
}
