//! Bad arguments: named, with the remedy, before anything is fetched or written.

use std::fs;
use std::path::Path;

use testweb::{Site, Web};

use crate::common::{Crawl, Ended, binary, counts, linking_to, names, run, serve};

fn small_web() -> Web {
    serve(Site::new().page("/", linking_to(&["/a"])).page("/a", "x"))
}

/// Runs the binary with arguments in which SEED and DIR stand for a good seed and a good directory, and checks that it
/// refuses them, says why in these words, fetches nothing and writes nothing.
#[track_caller]
fn is_refused(arguments: &[&str], words: &[&str]) {
    let (web, directory) = (small_web(), tempfile::tempdir().unwrap());
    let filled: Vec<String> = arguments
        .iter()
        .map(|text| {
            text.replace("SEED", &web.url("/")).replace("DIR", &directory.path().display().to_string())
        })
        .collect();
    let ended = run(&filled.iter().map(String::as_str).collect::<Vec<_>>()).expect(2);
    assert_eq!(ended.stdout, "");
    assert!(ended.stderr.starts_with("crawler: "), "{}", ended.stderr);
    for word in words {
        assert!(ended.stderr.contains(word), "{word:?} is not in {}", ended.stderr);
    }
    assert!(web.log().is_empty(), "{:?}", web.log().paths());
    assert!(names(directory.path()).is_empty());
}

#[test]
fn the_three_arguments_are_needed_and_no_fourth() {
    is_refused(&[], &["seedURL", "pageDirectory", "maxDepth"]);
    is_refused(&["SEED"], &["pageDirectory", "maxDepth"]);
    is_refused(&["SEED", "DIR"], &["maxDepth", "--help"]);
    is_refused(&["SEED", "DIR", "1", "2"], &["'2'", "seedURL, pageDirectory and maxDepth"]);
}

#[test]
fn a_depth_is_a_whole_number_from_0() {
    for depth in ["-1", "1x", "1.5", "", "+1", " 1", "4294967296", "99999999999999999999", "two"] {
        is_refused(&["SEED", "DIR", depth], &["maxDepth", "whole number"]);
    }
}

#[test]
fn a_seed_is_an_absolute_http_or_https_url() {
    for seed in [
        "",
        "a",
        "127.0.0.1",
        "//127.0.0.1/",
        "ftp://127.0.0.1/",
        "file:///etc/passwd",
        "http://",
        "http://a b/",
    ] {
        is_refused(&[seed, "DIR", "1"], &["seedURL", "give an absolute http or https URL"]);
    }
    let long = format!("SEED{}", "a".repeat(5000));
    is_refused(&[&long, "DIR", "1"], &["seedURL", "bytes, more than 2048"]);
}

#[test]
fn a_bad_option_is_named_and_what_would_be_good() {
    let bad = [
        ("--delay", "fast", "a time like"),
        ("--delay", "-1", ""),
        ("--concurrency", "0", "whole number from 1"),
        ("--concurrency", "many", "whole number from 1"),
        ("--timeout", "0", "longer than 0"),
        ("--timeout", "10d", "a time like"),
        ("--connect-timeout", "0ms", "longer than 0"),
        ("--max-page-bytes", "0", "a size like"),
        ("--max-page-bytes", "-5", ""),
        ("--max-page-bytes", "2GB", "a size like"),
        ("--resolve", "a.test", "HOST=ADDRESS"),
        ("--resolve", "a.test=b.test", "HOST=ADDRESS"),
        ("--ca-file", "/nowhere/ca.pem", "/nowhere/ca.pem"),
        ("--contact", "me", "give an absolute URL"),
        ("--user-agent", "", "printable ASCII"),
        ("--user-agent", "caf\u{e9}", "printable ASCII"),
        ("--internal", "docs", "give an absolute http or https URL"),
        ("--internal", "ftp://127.0.0.1/", "give an absolute http or https URL"),
        ("--internal", "http://me:secret@127.0.0.1/", "user name or password"),
        ("--no-such-option", "", "--no-such-option"),
    ];
    for (option, value, words) in bad {
        is_refused(&["SEED", "DIR", "1", option, value], &[option, words]);
    }
    is_refused(&["SEED", "DIR", "1", "--delay"], &["--delay"]);
    is_refused(&["demo", "now"], &["unexpected argument 'now'"]);
    is_refused(&["SEED", "DIR", "1", "-q", "-v"], &["--quiet", "--verbose"]);
    is_refused(&["SEED", "DIR", "1", "--delay", "1", "--delay", "2"], &["--delay", "multiple times"]);
}

#[test]
fn a_mistyped_option_is_named_wherever_it_stands() {
    for place in 0..4 {
        let mut arguments = vec!["SEED", "DIR", "1"];
        arguments.splice(place..place, ["--dleay", "0"]);
        let words =
            "crawler: there is no option '--dleay'; a similar one is '--delay'; try 'crawler --help'\n";
        is_refused(&arguments, &[words]);
    }
    is_refused(&["-x", "SEED", "DIR", "1"], &["crawler: there is no option '-x'; try"]);
}

#[test]
fn help_that_cannot_be_printed_is_an_error() {
    for option in ["--help", "--version"] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = binary().arg(option).stdout(full).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.starts_with("crawler: cannot write to standard output: "), "{told}");
    }
}

#[test]
fn a_certificate_file_must_hold_a_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("not.pem");
    for content in ["hello", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        fs::write(&path, content).unwrap();
        is_refused(&["SEED", "DIR", "1", "--ca-file", path.to_str().unwrap()], &["--ca-file", "PEM"]);
    }
}

#[test]
fn help_and_version_go_to_standard_output() {
    let help = run(&["--help"]).expect(0);
    insta::assert_snapshot!("help", help.stdout);
    assert_eq!(help.stderr, "");
    assert_eq!(run(&["-h"]).expect(0).stderr, "");
    let version = run(&["--version"]).expect(0);
    assert_eq!(version.stdout, format!("crawler {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(run(&["-V"]).expect(0).stdout, version.stdout);
}

fn crawl_within(web: &Web, seed: &str, prefix: &str) -> Ended {
    Crawl::of(web.url(seed)).with_one("--internal").with_one(web.url(prefix)).run()
}

#[test]
fn a_prefix_ends_at_a_boundary() {
    let web = serve(
        Site::new()
            .page("/tse", linking_to(&["/tse/a", "/tse?q", "/tsetse", "/", "/TSE", "/tse.html", "/tse/../x"]))
            .otherwise(|_| testweb::Answer::page("x")),
    );
    let ended = crawl_within(&web, "/tse", "/tse").expect(0);
    assert_eq!(ended.sorted_paths(), ["/tse", "/tse/a", "/tse?q"]);
    assert_eq!(ended.summary().fates, counts(&[("new", 2), ("known already", 0), ("external", 5)]));
}

#[test]
fn internal_is_the_seeds_own_scheme_host_and_port() {
    let other_port = small_web();
    let site = Site::new();
    let web = Web::builder().https(testweb::Certificate::Good);
    let port = other_port.port();
    let links = [
        format!("http://127.0.0.1:{port}/a"),
        "http://127.0.0.1.evil.example/".into(),
        "http://127.0.0.1@evil.example/".into(),
        "http://localhost/".into(),
        "https://127.0.0.1/".into(),
        "//elsewhere.invalid/".into(),
        "mailto:me@example.org".into(),
        "/a".into(),
    ];
    let links: Vec<&str> = links.iter().map(String::as_str).collect();
    let web = web.site(site.page("/", linking_to(&links)).page("/a", "x")).start();
    let ended = Crawl::of(web.url("/")).run().expect(0);
    assert_eq!(ended.sorted_paths(), ["/", "/a"]);
    assert!(other_port.log().is_empty());
    assert_eq!(web.log().paths(), ["/robots.txt", "/", "/a"]);
    let fates = [
        ("new", 1),
        ("known already", 0),
        ("external", 5),
        ("with credentials", 1),
        ("neither http nor https", 1),
    ];
    assert_eq!(ended.summary().fates, counts(&fates));
}

#[test]
fn a_seed_outside_of_the_prefix_is_refused() {
    for prefix in ["/docs/", "/a.html/", "//"] {
        let web = small_web();
        let ended = crawl_within(&web, "/a", prefix).expect(2);
        assert!(ended.stderr.contains("--internal"), "{}", ended.stderr);
        assert!(web.log().is_empty() && names(&ended.directory).is_empty());
    }
    is_refused(&["SEED", "DIR", "1", "--internal", "https://127.0.0.1/"], &["is outside of", "--internal"]);
}

#[test]
fn the_environment_may_designate_the_prefix_and_the_option_goes_before_it() {
    let web = serve(Site::new().page("/a/", linking_to(&["/a/b", "/c"])).page("/a/b", "x").page("/c", "x"));
    let within = |name: &str| Crawl::of(web.url("/a/")).environment("CRAWLER_INTERNAL", &web.url(name));
    assert_eq!(within("/a/").run().expect(0).sorted_paths(), ["/a/", "/a/b"]);
    let refused = within("/b/").run().expect(2);
    assert!(refused.stderr.contains("is outside of"), "{}", refused.stderr);
    assert!(refused.stderr.contains("from CRAWLER_INTERNAL"), "{}", refused.stderr);
    let unset = Crawl::of(web.url("/a/")).environment("CRAWLER_INTERNAL", "").run().expect(0);
    assert_eq!(unset.sorted_paths(), ["/a/", "/a/b", "/c"]);
    let bad = Crawl::of(web.url("/a/")).environment("CRAWLER_INTERNAL", "docs").run().expect(2);
    assert!(bad.stderr.contains("CRAWLER_INTERNAL is not usable: "), "{}", bad.stderr);
    let both = within("/b/").with_one("--internal").with_one(web.url("/")).run().expect(0);
    assert_eq!(both.sorted_paths(), ["/a/", "/a/b", "/c"]);
}

#[test]
fn a_seed_is_normalised_before_it_is_used() {
    let web = small_web();
    let seed = format!("HTTP://LocalHost:{}/x/../%7Ea/./?#part", web.port());
    let ended = Crawl::of(seed).with("--resolve localhost=127.0.0.1").run().expect(1);
    assert_eq!(web.log().paths(), ["/robots.txt", "/%7Ea/?"]);
    assert_eq!(web.log()[0].host, "localhost");
    assert!(ended.stderr.contains("HTTP status 404"), "{}", ended.stderr);
}

/// Crawls into a directory that is no good, and returns what was said.
fn refused_directory(directory: &Path, options: &str) -> String {
    let web = small_web();
    let ended = Crawl::of(web.url("/")).into_directory(directory).with(options).run().expect(2);
    assert!(web.log().is_empty());
    assert!(ended.stderr.contains(&directory.display().to_string()), "{}", ended.stderr);
    ended.stderr
}

#[test]
fn the_page_directory_must_be_a_directory_that_can_be_written_to() {
    let directory = tempfile::tempdir().unwrap();
    let missing = refused_directory(&directory.path().join("missing"), "");
    assert!(
        missing.contains("page directory") && missing.contains("name an existing directory"),
        "{missing}"
    );
    assert!(!directory.path().join("missing").exists());
    let file = directory.path().join("file");
    fs::write(&file, "mine").unwrap();
    let not_a_directory = refused_directory(&file, "--overwrite");
    assert!(not_a_directory.contains("name an existing directory"), "{not_a_directory}");
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    // Nobody, root included, may write here.
    let unwritable = refused_directory(Path::new("/proc/self"), "");
    assert!(unwritable.contains("you may write to"), "{unwritable}");
}

#[test]
fn the_page_directory_may_have_any_name() {
    use std::os::unix::ffi::OsStrExt;
    let (web, parent) = (small_web(), tempfile::tempdir().unwrap());
    let odd = parent.path().join(std::ffi::OsStr::from_bytes(b"-a name with spaces,\nlines and \xFF"));
    fs::create_dir(&odd).unwrap();
    let mut command = binary();
    let odd_name = odd.file_name().unwrap();
    command.current_dir(&parent).args(["--delay", "0", "--", &web.url("/")]).arg(odd_name).arg("1");
    assert!(command.output().unwrap().status.success());
    assert_eq!(names(&odd).len(), 2);
    // In a message it is shown, not sent to the terminal as it is.
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1, "{output:?}");
    is_refused(&["SEED", "", "1"], &["pageDirectory", "value is required"]);
}

#[test]
fn pages_of_an_earlier_crawl_are_not_mixed_with_new_ones() {
    let (web, directory) = (small_web(), tempfile::tempdir().unwrap());
    for name in ["1", "2", "3", "17", "notes.txt"] {
        fs::write(directory.path().join(name), name).unwrap();
    }
    let refused = refused_directory(directory.path(), "");
    assert!(refused.contains("--overwrite") && refused.contains("file 1"), "{refused}");
    assert_eq!(fs::read(directory.path().join("3")).unwrap(), b"3");

    Crawl::of(web.url("/")).into_directory(directory.path()).with("--overwrite").run().expect(0);
    let mut left = names(directory.path());
    left.sort();
    assert_eq!(left, ["1", "2", "notes.txt"]);
    assert_eq!(fs::read(directory.path().join("notes.txt")).unwrap(), b"notes.txt");
}

#[test]
fn a_bad_argument_leaves_earlier_pages_alone() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("1"), "page").unwrap();
    let bad =
        Crawl::of("ftp://127.0.0.1/").into_directory(directory.path()).with("--overwrite").command().output();
    assert_eq!(bad.unwrap().status.code(), Some(2));
    assert_eq!(fs::read(directory.path().join("1")).unwrap(), b"page");
}

#[test]
fn more_requests_in_flight_than_files_may_be_open_are_made_room_for_or_refused() {
    let paths: Vec<String> = (0..120).map(|n| format!("/{n}")).collect();
    let links: Vec<&str> = paths.iter().map(String::as_str).collect();
    let slow = |_: &testweb::Request| testweb::Answer::page("x").after(std::time::Duration::from_millis(300));
    let web = serve(Site::new().page("/", linking_to(&links)).status("/robots.txt", 404).otherwise(slow));
    let crawl = |script: &str| Crawl::of(web.url("/")).with("--concurrency 120").in_shell(script).run();
    let refused = crawl("ulimit -n 100; exec \"$@\"").expect(2);
    assert!(refused.stderr.contains("--concurrency 120 needs 184 open files"), "{}", refused.stderr);
    assert!(web.log().is_empty() && names(&refused.directory).is_empty());
    let ended = crawl("ulimit -S -n 100; exec \"$@\"").expect(0);
    assert_eq!(ended.pages().len(), 121);
    assert!(web.log().most_at_once() > 100, "{}", web.log().most_at_once());
}

#[test]
fn two_crawls_do_not_share_a_directory() {
    let slow = testweb::Answer::page("x").after(std::time::Duration::from_secs(30));
    let web = serve(Site::new().answer("/", slow));
    let directory = tempfile::tempdir().unwrap();
    let mut first = Crawl::of(web.url("/")).into_directory(directory.path()).with("--timeout 1m").start();
    first.until("the first request", |_| web.hits() > 1);
    let refused = refused_directory(directory.path(), "--overwrite");
    assert!(refused.contains("another crawl"), "{refused}");
    first.signal(rustix::process::Signal::KILL);
    first.wait();
}
