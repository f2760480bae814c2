//! Bad arguments of `crawler crawl`: named, with the remedy, before anything is fetched or written.

use std::fs;

use testweb::Site;

use crate::common::{linking_to, names, run, serve};
use crate::pipeline::Pipeline;

/// Runs the binary with arguments in which SEED and DIR stand for a good seed and an empty directory, and checks that it
/// refuses them, says why in these words and in one line, fetches nothing and writes nothing.
#[track_caller]
fn is_refused(arguments: &[&str], words: &[&str]) {
    let web = serve(Site::new().page("/", linking_to(&["/a"])).page("/a", "x"));
    let directory = tempfile::tempdir().unwrap();
    let filled: Vec<String> = ["crawl"]
        .iter()
        .chain(arguments)
        .map(|text| {
            text.replace("SEED", &web.url("/")).replace("DIR", &directory.path().display().to_string())
        })
        .collect();
    let ended = run(&filled.iter().map(String::as_str).collect::<Vec<_>>()).expect(2);
    assert_eq!((ended.stdout.as_str(), ended.stderr.lines().count()), ("", 1), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("crawler: "), "{}", ended.stderr);
    for word in words {
        assert!(ended.stderr.contains(word), "{word:?} is not in {}", ended.stderr);
    }
    assert!(web.log().is_empty(), "{:?}", web.log().paths());
    assert!(names(directory.path()).is_empty());
}

#[test]
fn a_bad_option_is_named_and_what_would_be_good() {
    let bad = [
        ("--queue-size", "0", "a whole number from 1 to 10000000"),
        ("--queue-size", "-1", "a whole number from 1"),
        ("--priority-queues", "0", "a whole number from 1 to 101"),
        ("--priority-queues", "102", "a whole number from 1 to 101"),
        ("--pagerank-url", "ranks", "give an absolute http or https URL"),
        ("--pagerank-url", "ftp://127.0.0.1/", "give an absolute http or https URL"),
        ("--domain-ttl", "0", "a time like 90s, 30m or 12h, longer than 0"),
        ("--ttl", "0s", "a time like 90s, 30m or 12h, longer than 0"),
        ("--ttl", "1y", "a time like"),
        ("--workers", "0", "a whole number from 1 to 1000"),
        ("--workers", "many", "a whole number from 1"),
        ("--concurrency", "0", "a whole number from 1"),
        ("--per-host", "0", "a whole number from 1"),
        ("--delay", "fast", "a time like 0, 250ms, 2s or 1m"),
        ("--delay", "-1", "a time like"),
        ("--similarity", "1.1", "a number from 0 to 1, like 0.9"),
        ("--similarity", "90%", "a number from 0 to 1, like 0.9"),
        ("--similarity", "-1", "a number from 0 to 1, like 0.9"),
        ("--module", "json=DIR/x", "modules are noop, pages=DIR, jsonl=FILE"),
        ("--module", "words=none", "a number of words from 1 to 1000"),
        ("--module", "pages", "needs a directory"),
        ("--module", "pages=DIR/no/such", "name an existing directory"),
        ("--module", "jsonl=DIR/no/such", "name a file you may write to"),
        ("--module", "jsonl=DIR", "name a file you may write to"),
        ("--scope", "site", "any, domain, host, prefix"),
        ("--include", "a(", "is no regular expression: unclosed group"),
        ("--exclude", "[", "is no regular expression: unclosed character class"),
        ("--max-depth", "-1", "a whole number from 0"),
        ("--max-pages", "0", "a whole number from 1"),
        ("--max-pages", "1e6", "a whole number from 1"),
        ("--max-bytes", "0", "a size like 500KB, 50MB or 2GiB"),
        ("--max-bytes", "lots", "a size like"),
        ("--max-time", "0", "a time like 90s, 30m or 12h, longer than 0"),
        ("--max-pages-per-host", "0", "a whole number from 1"),
        ("--progress", "xml", "auto, plain, json"),
        ("--summary", "DIR", "it is not a regular file; name a file you may write to"),
        ("--summary", "DIR/no/such", "there is no such directory; name a file you may write to"),
        ("--timeout", "0", "longer than 0"),
        ("--max-page-bytes", "0", "a size like"),
        ("--resolve", "a.test", "HOST=ADDRESS"),
        ("--ca-file", "/nowhere/ca.pem", "/nowhere/ca.pem"),
        ("--user-agent", "caf\u{e9}", "printable ASCII"),
        ("--contact", "me", "give an absolute URL"),
        ("--internal", "x", "there is no option '--internal'"),
        ("--quue-size", "5", "a similar one is '--queue-size'"),
    ];
    for (option, value, words) in bad {
        // What concerns a file that is to be written is named by the file.
        let option_named =
            if value.starts_with("pages=") || value.starts_with("jsonl=") { "DIR" } else { option };
        let named = option_named.replace("DIR", "/");
        is_refused(&["SEED", option, value], &[named.as_str(), words]);
    }
    is_refused(&["SEED", "--max-pages"], &["--max-pages"]);
    is_refused(&["SEED", "--ttl", "1h", "--ttl", "2h"], &["--ttl", "multiple times"]);
}

#[test]
fn each_of_several_seeds_is_checked_and_none_is_repeated_in_a_message() {
    is_refused(&[], &["<URL>", "try 'crawler crawl --help'"]);
    is_refused(&["example.org"], &["the seed URL is not usable", "give an absolute http or https URL"]);
    is_refused(&["SEED", "SEED", "ftp://me:secret@a.test/"], &["seed URL number 3", "its scheme is 'ftp'"]);
    let ended = run(&["crawl", "http://a.test/", "http://me:secret@a b/"]).expect(2);
    assert!(!ended.stderr.contains("secret") && ended.stderr.contains("number 2"), "{}", ended.stderr);
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    is_refused(&["SEED", "-q", "-v"], &["--quiet", "--verbose"]);
    is_refused(&["SEED", "-q", "--progress", "json"], &["--quiet", "--progress"]);
    is_refused(
        &["SEED", "--module", "jsonl=-", "--module", "edges=-"],
        &["--module jsonl=- and --module edges=-", "give one of them a file"],
    );
    is_refused(
        &["SEED", "--module", "jsonl=DIR/x", "--summary", "DIR/x"],
        &["--summary and --module jsonl=", "the same file"],
    );
}

#[test]
fn a_crawl_of_more_connections_than_files_is_refused() {
    let ended = Pipeline::bare("http://127.0.0.1:9/")
        .with("--workers 3 --concurrency 100")
        .in_shell("ulimit -n 200 && exec \"$@\"")
        .run()
        .expect(2);
    let told = "--concurrency 100 for each of 3 workers needs 388 open files, more than the system allows";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
}

#[test]
fn outputs_of_an_earlier_crawl_are_not_touched_unless_told_to() {
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
    assert!(ended.stderr.contains("give --overwrite to remove them"), "{}", ended.stderr);
    assert_eq!((fs::read(&lines).unwrap(), web.hits()), (before, hits));
    crawl("--overwrite").expect(0);
    assert_eq!((fs::read_to_string(&lines).unwrap().lines().count(), names(&pages).len()), (1, 1));
}

#[test]
fn the_command_is_not_taken_for_a_seed_nor_a_directory_for_the_command() {
    let web = serve(Site::new().page("/", "x"));
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("crawl")).unwrap();
    let mut classic = crate::common::binary();
    classic
        .args([web.url("/").as_str(), "crawl", "0", "-q", "--ignore-robots"])
        .current_dir(directory.path());
    assert!(classic.status().unwrap().success());
    assert_eq!(names(&directory.path().join("crawl")), ["1"]);
    let late = run(&["-v", "crawl", &web.url("/")]).expect(2);
    assert!(late.stderr.contains("'crawl' is the command where it comes first"), "{}", late.stderr);
}

#[test]
fn help_names_every_option_in_groups() {
    let help = run(&["crawl", "--help"]).expect(0).stdout;
    let groups: Vec<&str> =
        help.lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).collect();
    let expected = [
        "Arguments:",
        "Options:",
        "Pages:",
        "Scope:",
        "Budgets:",
        "State:",
        "Many processes:",
        "Workers:",
        "Politeness:",
        "Frontier:",
        "Limits:",
        "Network:",
        "Output:",
        "Exit status:",
    ];
    assert_eq!(groups, expected);
    assert!(run(&["--help"]).expect(0).stdout.contains("crawler crawl [OPTIONS] <URL>..."));
}
