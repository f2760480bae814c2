//! Seed lists, and seeds without a scheme.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use testweb::{Site, Web};

use crate::common::{Crawl, executable, linking_to, run, serve};
use crate::pipeline::{Pipeline, objects_in, paths, urls};
use crate::state::StateDir;

/// A crawl of a seed list, without other seeds.
fn listed(list: &Path) -> Pipeline {
    Pipeline::bare("--seeds").with_one(list.display().to_string()).with("--similarity 0")
}

fn site() -> Site {
    Site::new().page("/", linking_to(&["/x"])).page("/a", "a").page("/b", "b").page("/x", "x")
}

#[test]
fn list_has_one_url_per_line_and_bad_lines_are_reported_and_skipped() {
    let web = serve(site());
    let directory = tempfile::tempdir().unwrap();
    let (list, lines) = (directory.path().join("list.txt"), directory.path().join("pages.jsonl"));
    let bare = web.url("/b").replace("http://", "");
    let text = format!(
        "\u{feff}{}\r\n\r\n# a comment\r\nnot a url\n  {bare}  \nhttp://me:secret@a.test/\nftp://a.test/\n{}",
        web.url("/a"),
        web.url("/a#again")
    );
    fs::write(&list, text + &"x".repeat(100_000)).unwrap();
    let ended = listed(&list).module("jsonl", &lines).run().expect(0);
    assert_eq!(paths(&web, &objects_in(&lines)), ["/a", "/b"]);
    let name = list.display();
    for message in [
        format!("{name}:4: not a URL: 'not a url'; "),
        format!("{name}:6: a URL in a seed list must not contain a user name or password; skipped"),
        format!("{name}:7: the URL is invalid: its scheme is 'ftp'; "),
        format!("{name}:8: the line is longer than 16384 bytes; skipped"),
        format!("{name}: 1 line has no scheme, which was added (line 5: {bare} is http://{bare})"),
    ] {
        assert!(ended.stderr.contains(&message), "{message}\n{}", ended.stderr);
    }
    assert!(!ended.stderr.contains("secret"), "{}", ended.stderr);
    let quiet = listed(&list).with("--quiet").run().expect(0);
    assert_eq!(quiet.stderr, "");
}

#[test]
fn standard_input_and_arguments_are_seeds_too() {
    let web = serve(site());
    let lines = tempfile::NamedTempFile::new().unwrap();
    let script = format!("printf '%s\\n' {} {} | \"$@\"", web.url("/a"), web.url("/b"));
    let crawl = Pipeline::bare(web.url("/"))
        .with("--seeds - --scope prefix --similarity 0")
        .module("jsonl", lines.path());
    crawl.in_shell(&script).run().expect(0);
    assert_eq!(paths(&web, &objects_in(lines.path())), ["/", "/a", "/b", "/x"]);
    assert_eq!(web.hits(), 5);
}

#[test]
fn list_without_a_url_is_an_error_and_nothing_is_requested() {
    let directory = tempfile::tempdir().unwrap();
    let list = directory.path().join("list.txt");
    let many: String = (0..100).fold(String::new(), |mut text, line| {
        writeln!(text, "bad line {line}").unwrap();
        text
    });
    for (text, words) in [
        ("# nothing\n\n", "no line of the seed list is a URL"),
        (&*many, "100 lines are not URLs and were skipped"),
    ] {
        fs::write(&list, text).unwrap();
        let ended = listed(&list).run().expect(2);
        assert!(
            ended.stderr.contains(words) && ended.stderr.contains("cannot start the crawl"),
            "{}",
            ended.stderr
        );
        assert!(ended.stderr.lines().count() < 25, "{}", ended.stderr);
    }
    let ended = listed(&directory.path().join("missing")).run().expect(2);
    assert!(ended.stderr.contains("cannot read the seed list '"), "{}", ended.stderr);
    run(&["crawl"]).expect(2);
    let twice = run(&["crawl", "--seeds", "-", "--seeds", "-"]).expect(2);
    assert!(twice.stderr.contains("standard input can be read once"), "{}", twice.stderr);
}

#[test]
fn scope_consists_of_the_hosts_of_all_seeds() {
    let [listed_host, other] = [(); 2].map(|()| serve(Site::new().page("/", "x").page("/y", "y")));
    let first = serve(Site::new().page("/", linking_to(&[&listed_host.url("/y"), &other.url("/y")])));
    let directory = tempfile::tempdir().unwrap();
    let (list, lines) = (directory.path().join("list"), directory.path().join("pages"));
    fs::write(&list, listed_host.url("/")).unwrap();
    let crawl = Pipeline::bare(first.url("/"))
        .with("--scope host --similarity 0 --seeds")
        .with_one(list.display().to_string());
    let ended = crawl.module("jsonl", &lines).run().expect(0);
    let expected = [first.url("/"), listed_host.url("/"), listed_host.url("/y")];
    assert_eq!(urls(&objects_in(&lines)), expected.into());
    assert_eq!((other.hits(), ended.summary().link_counts["out of scope"]), (0, 1));
}

#[test]
fn resumed_crawl_needs_the_list_no_more() {
    let web = Web::builder()
        .site(Site::new().page("/x", "x").fallback(|_| testweb::Response::page(linking_to(&["/x"]))))
        .start();
    for source in ["file", "stdin"] {
        let directory = StateDir::new();
        let (list, lines) = (directory.path("list"), directory.path("pages"));
        let text: String =
            (0..60).map(|page| format!("{}\n", web.url(&format!("/{source}/{page}")))).collect();
        fs::write(&list, text).unwrap();
        let seeds = if source == "file" { list.display().to_string() } else { "-".into() };
        let options = "--scope host --similarity 0 --workers 1 --max-pages 20 --state";
        let crawl = || {
            let crawl = Pipeline::bare("--seeds").with_one(&seeds).with(options).with_one(directory.state());
            crawl.module("jsonl", &lines)
        };
        crawl().in_shell(&format!("\"$@\" < '{}'", list.display())).run().expect(0);
        fs::remove_file(&list).unwrap();
        crawl().run().expect(0);
        let ended = directory.resume("--max-pages 1000").wait().expect(0);
        assert_eq!(urls(&objects_in(&lines)).len(), 61, "{}", ended.stderr);
        let other = crawl().with("--seeds /nowhere").run().expect(2);
        assert!(other.stderr.contains("seeds"), "{}", other.stderr);
        let other = directory.resume("--seeds /nowhere").wait().expect(2);
        assert!(other.stderr.contains("/nowhere") && other.stderr.contains("seeds"), "{}", other.stderr);
    }
}

#[test]
fn list_that_cannot_be_read_leaves_no_state() {
    let web = serve(site());
    let directory = StateDir::new();
    let (list, lines) = (directory.path("list"), directory.path("pages"));
    fs::write(&list, web.url("/a")).unwrap();
    let crawl =
        |list: &Path| listed(list).with("--state").with_one(directory.state()).module("jsonl", &lines).run();
    let ended = crawl(&directory.path("lits")).expect(2);
    assert!(ended.stderr.contains("cannot read the seed list '"), "{}", ended.stderr);
    crawl(&list).expect(0);
    assert_eq!(paths(&web, &objects_in(&lines)), ["/a"]);
}

#[test]
fn many_seeds_take_little_memory() {
    let directory = tempfile::tempdir().unwrap();
    let list = directory.path().join("list");
    let text: String =
        (0..100_000).map(|seed| format!("http://host{}.invalid/some/path/{seed}\n", seed % 100)).collect();
    fs::write(&list, text).unwrap();
    let ended = listed(&list).with("--scope host --max-time 1ms --resolve *=127.0.0.1 --workers 1").run();
    assert!(ended.stdout.contains("Not reached"), "{}\n{}", ended.stdout, ended.stderr);
    assert!(ended.peak_rss < 100 << 20, "{} bytes", ended.peak_rss);
}

#[test]
fn seed_without_a_scheme_is_completed_with_a_note() {
    let web = serve(site());
    let bare = web.url("/a").replace("http://", "");
    let note = format!("crawler: '{bare}' has no scheme; crawling http://{bare}\n");
    let ended = Pipeline::bare(bare.clone()).run().expect(0);
    assert_eq!(ended.messages(), note);
    let ended = Crawl::of(bare.clone()).run().expect(0);
    assert!(ended.stderr.starts_with(&note), "{}", ended.stderr);
    assert_eq!(ended.sorted_paths(), ["/a"]);
    assert_eq!(Pipeline::bare(bare).with("--quiet").run().expect(0).stderr, "");
    let messages = [
        ("a", "not a URL: 'a'"),
        ("/a.html", "not a URL: '/a.html'"),
        ("example.org:x", "its scheme is 'example.org'"),
        ("me:secret@example.org", "its scheme is 'me'"),
    ];
    for (no_host, message) in messages {
        let ended = run(&["crawl", no_host]).expect(2);
        assert!(ended.stderr.contains(message), "{}", ended.stderr);
        assert!(!ended.stderr.contains("secret"), "{}", ended.stderr);
    }
}

#[test]
fn signal_ends_a_crawl_that_waits_for_its_seed_list() {
    let directory = tempfile::tempdir().unwrap();
    let list = directory.path().join("list");
    assert!(std::process::Command::new("mkfifo").arg(&list).status().unwrap().success());
    let mut crawl = std::process::Command::new(executable())
        .args(["crawl", "--seeds"])
        .arg(&list)
        .stderr(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // Returns when the crawl has opened the list. No line follows.
    let _writer = std::fs::OpenOptions::new().write(true).open(&list).unwrap();
    let pid = crawl.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let status = crawl.wait().unwrap();
    assert!(status.code().is_some_and(|code| code != 0), "{status}");
}
