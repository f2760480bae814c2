//! Invalid arguments of the classic crawl: the error names them and the remedy, and nothing is fetched or written.

use std::fs;
use std::path::Path;

use testweb::{Site, Web};

use crate::common::{Crawl, Ended, binary, counts, is_rejected, linking_to, names, serve, small_web};

#[test]
fn three_arguments_are_required() {
    let usage = "; usage: crawler [OPTIONS] <seedURL> <pageDirectory> <maxDepth>; try 'crawler --help'";
    is_rejected(&["-v"], &["missing <seedURL>, <pageDirectory>, <maxDepth>", usage]);
    is_rejected(&["SEED"], &["missing <pageDirectory>, <maxDepth>", usage]);
    is_rejected(&["SEED", "DIR"], &["missing <maxDepth>", usage]);
    is_rejected(&["SEED", "DIR", "1", "2"], &["unexpected argument '2'", usage]);
}

#[test]
fn depth_is_a_whole_number_from_0() {
    for depth in ["-1", "1x", "1.5", "", "+1", " 1", "4294967296", "99999999999999999999", "two"] {
        is_rejected(&["SEED", "DIR", depth], &["maxDepth", "whole number"]);
    }
}

#[test]
fn seed_is_an_absolute_http_or_https_url() {
    for seed in ["", "a", "/a.html"] {
        let message = format!("crawler: not a URL: '{seed}'; give an absolute http or https URL");
        is_rejected(&[seed, "DIR", "1"], &[&message]);
    }
    for seed in ["ftp://127.0.0.1/", "file:///etc/passwd", "http://", "http://a b/"] {
        is_rejected(&[seed, "DIR", "1"], &["seedURL is invalid: ", "give an absolute http or https URL"]);
    }
    let long = format!("SEED{}", "a".repeat(5000));
    is_rejected(&[&long, "DIR", "1"], &["seedURL is invalid: ", "bytes, more than 2048"]);
}

#[test]
fn error_names_the_option_and_a_valid_value() {
    let invalid = [
        ("--delay", "fast", "a time like"),
        ("--delay", "-1", "must not be negative; give a time like"),
        ("--delay", "-1s", "must not be negative"),
        ("--timeout", "-500ms", "must not be negative"),
        ("--concurrency", "-2", "must not be negative; give a whole number from 1"),
        ("--concurrency", "0", "whole number from 1"),
        ("--concurrency", "many", "whole number from 1"),
        ("--timeout", "0", "longer than 0"),
        ("--timeout", "10d", "a time like"),
        ("--connect-timeout", "0ms", "longer than 0"),
        ("--max-page-bytes", "0", "a size like"),
        ("--max-page-bytes", "-5", "must not be negative; give a size like"),
        ("--max-page-bytes", "-5KB", "must not be negative"),
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
    for (option, value, words) in invalid {
        is_rejected(&["SEED", "DIR", "1", option, value], &[option, words]);
    }
    is_rejected(&["SEED", "DIR", "1", "--delay"], &["--delay needs a value"]);
    is_rejected(&["demo", "now"], &["unexpected argument 'now'; usage: crawler demo [OPTIONS]; "]);
    is_rejected(&["SEED", "DIR", "1", "-q", "-v"], &["--quiet cannot be used with --verbose"]);
    is_rejected(&["SEED", "DIR", "1", "--delay", "1", "--delay", "2"], &["--delay", "multiple times"]);
}

#[test]
fn misspelt_option_is_reported_at_every_position() {
    for position in 0..4 {
        let mut arguments = vec!["SEED", "DIR", "1"];
        arguments.splice(position..position, ["--dleay", "0"]);
        let words = "crawler: unknown option '--dleay'; did you mean '--delay'? Try 'crawler --help'\n";
        is_rejected(&arguments, &[words]);
    }
    is_rejected(&["-x", "SEED", "DIR", "1"], &["crawler: unknown option '-x'; try"]);
}

#[test]
fn help_that_cannot_be_printed_is_an_error() {
    for option in ["--help", "--version"] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = binary().arg(option).stdout(full).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.starts_with("crawler: cannot write to standard output: "), "{stderr}");
    }
}

#[test]
fn certificate_file_must_contain_a_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("not.pem");
    for content in ["hello", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        fs::write(&path, content).unwrap();
        is_rejected(&["SEED", "DIR", "1", "--ca-file", path.to_str().unwrap()], &["--ca-file", "PEM"]);
    }
}

fn crawl_within(web: &Web, seed: &str, prefix: &str) -> Ended {
    Crawl::of(web.url(seed)).with_one("--internal").with_one(web.url(prefix)).run()
}

#[test]
fn prefix_matches_whole_path_segments() {
    let web = serve(
        Site::new()
            .page("/tse", linking_to(&["/tse/a", "/tse?q", "/tsetse", "/", "/TSE", "/tse.html", "/tse/../x"]))
            .fallback(|_| testweb::Response::page("x")),
    );
    let ended = crawl_within(&web, "/tse", "/tse").expect(0);
    assert_eq!(ended.sorted_paths(), ["/tse", "/tse/a", "/tse?q"]);
    assert_eq!(ended.summary().link_counts, counts(&[("new", 2), ("out of scope", 5)]));
}

#[test]
fn internal_urls_have_the_scheme_host_and_port_of_the_seed() {
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
    let link_counts = [("new", 1), ("out of scope", 5), ("with credentials", 1), ("not http or https", 1)];
    assert_eq!(ended.summary().link_counts, counts(&link_counts));
}

#[test]
fn seed_outside_the_prefix_is_rejected() {
    for prefix in ["/docs/", "/a.html/", "//"] {
        let web = small_web();
        let ended = crawl_within(&web, "/a", prefix).expect(2);
        assert!(ended.stderr.contains("--internal"), "{}", ended.stderr);
        assert!(web.log().is_empty() && names(&ended.directory).is_empty());
    }
    is_rejected(
        &["SEED", "DIR", "1", "--internal", "https://127.0.0.1/"],
        &["is out of scope", "--internal"],
    );
}

#[test]
fn environment_sets_the_prefix_and_the_option_overrides_it() {
    let web = serve(Site::new().page("/a/", linking_to(&["/a/b", "/c"])).page("/a/b", "x").page("/c", "x"));
    let within = |name: &str| Crawl::of(web.url("/a/")).environment("CRAWLER_INTERNAL", &web.url(name));
    assert_eq!(within("/a/").run().expect(0).sorted_paths(), ["/a/", "/a/b"]);
    let rejected = within("/b/").run().expect(2);
    assert!(rejected.stderr.contains("is out of scope"), "{}", rejected.stderr);
    assert!(rejected.stderr.contains("CRAWLER_INTERNAL"), "{}", rejected.stderr);
    let unset = Crawl::of(web.url("/a/")).environment("CRAWLER_INTERNAL", "").run().expect(0);
    assert_eq!(unset.sorted_paths(), ["/a/", "/a/b", "/c"]);
    let invalid = Crawl::of(web.url("/a/")).environment("CRAWLER_INTERNAL", "docs").run().expect(2);
    assert!(invalid.stderr.contains("CRAWLER_INTERNAL is invalid: "), "{}", invalid.stderr);
    let both = within("/b/").with_one("--internal").with_one(web.url("/")).run().expect(0);
    assert_eq!(both.sorted_paths(), ["/a/", "/a/b", "/c"]);
}

#[test]
fn seed_is_normalized() {
    let web = small_web();
    let seed = format!("HTTP://LocalHost:{}/x/../%7Ea/./?#part", web.port());
    let ended = Crawl::of(seed).with("--resolve localhost=127.0.0.1").run().expect(1);
    assert_eq!(web.log().paths(), ["/robots.txt", "/~a/"]);
    assert_eq!(web.log()[0].host, "localhost");
    assert!(ended.stderr.contains("HTTP 404"), "{}", ended.stderr);
}

/// Crawls into an unusable directory, and returns the error.
#[track_caller]
fn rejected_directory(directory: &Path, options: &str) -> String {
    let web = small_web();
    let ended = Crawl::of(web.url("/")).into_directory(directory).with(options).run().expect(2);
    assert!(web.log().is_empty());
    assert!(ended.stderr.contains(&directory.display().to_string()), "{}", ended.stderr);
    ended.stderr
}

#[test]
fn page_directory_must_be_a_writable_directory() {
    let directory = tempfile::tempdir().unwrap();
    let missing = rejected_directory(&directory.path().join("missing"), "");
    assert!(
        missing.contains("cannot use directory") && missing.contains("name an existing directory"),
        "{missing}"
    );
    assert!(!directory.path().join("missing").exists());
    let file = directory.path().join("file");
    fs::write(&file, "mine").unwrap();
    let not_a_directory = rejected_directory(&file, "--overwrite");
    assert!(not_a_directory.contains("name an existing directory"), "{not_a_directory}");
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    // Not even root can write here.
    let unwritable = rejected_directory(Path::new("/proc/self"), "");
    assert!(unwritable.contains("you may write to"), "{unwritable}");
}

#[test]
fn page_directory_can_have_any_name() {
    use std::os::unix::ffi::OsStrExt;
    let (web, parent) = (small_web(), tempfile::tempdir().unwrap());
    let odd = parent.path().join(std::ffi::OsStr::from_bytes(b"-a name with spaces,\nlines and \xFF"));
    fs::create_dir(&odd).unwrap();
    let mut command = binary();
    let odd_name = odd.file_name().unwrap();
    command.current_dir(&parent).args(["--delay", "0", "--", &web.url("/")]).arg(odd_name).arg("1");
    assert!(command.output().unwrap().status.success());
    assert_eq!(names(&odd).len(), 2);
    // A message escapes the control characters of the name.
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1, "{output:?}");
    is_rejected(&["SEED", "", "1"], &["pageDirectory needs a value"]);
}

#[test]
fn pages_of_an_earlier_crawl_are_not_mixed_with_new_pages() {
    let (web, directory) = (small_web(), tempfile::tempdir().unwrap());
    for name in ["1", "2", "3", "17", "notes.txt"] {
        fs::write(directory.path().join(name), name).unwrap();
    }
    let error = rejected_directory(directory.path(), "");
    assert!(error.contains("--overwrite") && error.contains("file 1"), "{error}");
    assert_eq!(fs::read(directory.path().join("3")).unwrap(), b"3");

    Crawl::of(web.url("/")).into_directory(directory.path()).with("--overwrite").run().expect(0);
    let mut remaining = names(directory.path());
    remaining.sort();
    assert_eq!(remaining, ["1", "2", "notes.txt"]);
    assert_eq!(fs::read(directory.path().join("notes.txt")).unwrap(), b"notes.txt");
}

#[test]
fn invalid_argument_does_not_delete_earlier_pages() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("1"), "page").unwrap();
    let output =
        Crawl::of("ftp://127.0.0.1/").into_directory(directory.path()).with("--overwrite").command().output();
    assert_eq!(output.unwrap().status.code(), Some(2));
    assert_eq!(fs::read(directory.path().join("1")).unwrap(), b"page");
}

#[test]
fn open_file_limit_is_raised_for_the_concurrency_or_the_crawl_is_rejected() {
    let paths: Vec<String> = (0..120).map(|n| format!("/{n}")).collect();
    let links: Vec<&str> = paths.iter().map(String::as_str).collect();
    let slow =
        |_: &testweb::Request| testweb::Response::page("x").delay(std::time::Duration::from_millis(300));
    let web = serve(Site::new().page("/", linking_to(&links)).status("/robots.txt", 404).fallback(slow));
    let crawl = |script: &str| Crawl::of(web.url("/")).with("--concurrency 120").in_shell(script).run();
    let rejected = crawl("ulimit -n 100; exec \"$@\"").expect(2);
    assert!(rejected.stderr.contains("--concurrency 120 needs 184 open files"), "{}", rejected.stderr);
    assert!(web.log().is_empty() && names(&rejected.directory).is_empty());
    let ended = crawl("ulimit -S -n 100; exec \"$@\"").expect(0);
    assert_eq!(ended.pages().len(), 121);
    assert!(web.log().max_concurrent() > 100, "{}", web.log().max_concurrent());
}

#[test]
fn second_crawl_in_the_same_directory_is_rejected() {
    let slow = testweb::Response::page("x").delay(std::time::Duration::from_secs(30));
    let web = serve(Site::new().response("/", slow));
    let directory = tempfile::tempdir().unwrap();
    let mut first = Crawl::of(web.url("/")).into_directory(directory.path()).with("--timeout 1m").start();
    first.until("the first request", |_| web.hits() > 1);
    let error = rejected_directory(directory.path(), "--overwrite");
    assert!(error.contains("another crawl"), "{error}");
    first.signal(rustix::process::Signal::KILL);
    first.wait();
}
