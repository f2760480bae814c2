//! What modules do with the pages of a crawl.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use testweb::{Response, Site};

use crate::common::{counts, linking_to, names, read_page, serve};
use crate::pipeline::{Pipeline, objects, objects_in, paths, urls};

#[test]
fn several_modules_receive_every_page() {
    let web = serve(Site::seeded(31, 40));
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let ended = Pipeline::of(web.url("/"))
        .with("--similarity 0 --scope host --module noop --module words=3")
        .module("pages", &path("pages"))
        .module("jsonl", &path("lines"))
        .module("edges", &path("edges"))
        .run()
        .expect(0);
    let truth = web.truth_from(&web.url("/"), 1_000);
    let pages: Vec<_> =
        names(&path("pages")).iter().map(|name| read_page(&path("pages").join(name))).collect();
    assert_eq!(pages.len(), truth.len());
    assert!(pages.iter().all(|page| truth[&page.url].1 == page.body));
    assert!(urls(&objects_in(&path("lines"))).iter().eq(truth.keys()));
    let edges = fs::read_to_string(path("edges")).unwrap();
    let links: usize =
        objects_in(&path("lines")).iter().map(|page| page["links"].as_array().unwrap().len()).sum();
    assert_eq!((edges.lines().next(), edges.lines().count()), (Some("from,to"), links + 1));
    assert!(ended.stdout.contains(" words, "), "{}", ended.stdout);
}

#[test]
fn exec_program_receives_every_page_and_owns_standard_output() {
    let web = serve(Site::new().page("/", linking_to(&["/a"])).page("/a", "<title>second</title>"));
    let ended = Pipeline::of(web.url("/")).with("--module").with_one("exec=cat").run().expect(0);
    assert_eq!(paths(&web, &objects(&ended.stdout)), ["/", "/a"]);
    assert!(ended.stderr.contains("\nRequests "), "{}", ended.stderr);
}

/// Closes standard output after the first page, and returns the exit status and what was printed to standard error.
fn close_after_first_page(crawl: Pipeline) -> (Option<i32>, String) {
    let mut child = crawl.command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(!line.is_empty());
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn closed_standard_output_stops_a_crawl_that_writes_nowhere_else() {
    let next = |path: &str| format!("/{}", path.trim_start_matches('/').parse().unwrap_or(0) + 1);
    let endless = Site::new().fallback(move |request| Response::page(linking_to(&[&next(&request.path)])));
    let web = serve(endless);
    let crawl = || Pipeline::of(web.url("/")).with("--delay 10ms --max-pages 60 --similarity 0 --workers 1");
    let (status, stderr) = close_after_first_page(crawl().with("--module jsonl=-"));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("\nStopped: the reader closed standard output\n"), "{stderr}");
    let (status, stderr) = close_after_first_page(crawl().with("--module jsonl=- --module words"));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("\nStopped: 60 pages (--max-pages)\n"), "{stderr}");
    // The summary of such a crawl goes to the closed standard output.
    let before = web.hits();
    let (status, stderr) = close_after_first_page(crawl().with("-v"));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(web.hits() - before < 60, "{stderr}");
    let before = web.hits();
    let (status, stderr) = close_after_first_page(crawl().with("-v --module words"));
    assert_eq!(status, Some(0), "{stderr}");
    assert_eq!(web.hits() - before, 60, "{stderr}");
}

#[test]
fn pages_on_standard_output_are_not_mixed_with_messages() {
    let web = serve(Site::seeded(8, 30));
    let truth = web.truth_from(&web.url("/"), 1_000);
    for options in ["", "-v", "-q", "--progress plain", "--progress json"] {
        let ended = Pipeline::of(web.url("/"))
            .with("--similarity 0 --scope host --module jsonl=-")
            .with(options)
            .run()
            .expect(0);
        assert!(urls(&objects(&ended.stdout)).iter().eq(truth.keys()), "{options}");
        match options {
            "-q" => {
                assert!(ended.stderr.lines().all(|line| line.ends_with(": HTTP 404")), "{}", ended.stderr)
            }
            "--progress json" => drop(objects(&ended.stderr)),
            _ => assert!(ended.stderr.contains("\nRequests "), "{}", ended.stderr),
        }
        assert_eq!(options == "-v", ended.stderr.contains("      Page: "), "{options}");
    }
}

#[test]
fn module_paths_are_relative_to_the_working_directory() {
    let web = serve(Site::new().page("/", "x"));
    let directory = tempfile::tempdir().unwrap();
    let crawl = Pipeline::of(web.url("/")).with("--module jsonl=lines --module pages=pages --summary sum");
    let output = crawl.command().current_dir(directory.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut made = names(directory.path());
    made.sort();
    assert_eq!(made, ["lines", "pages", "sum"]);
}

#[test]
fn outputs_that_cannot_be_used_leave_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(".", directory.path().join("link")).unwrap();
    let other = "another module writes to it; name another one";
    for (modules, words) in [
        ("--module jsonl=s.jsonl --module jsonl=./s.jsonl", other),
        ("--module jsonl=s.jsonl --module csv=link/s.jsonl", other),
        ("--module jsonl=p.parquet.records --module parquet=p.parquet", other),
        ("--module pages=d --module markdown=d", other),
        ("--module jsonl=s.jsonl --module pages=d --module jsonl=none/s.jsonl", "No such file or directory"),
        ("--module jsonl=s.jsonl --module pages=d --module pages=none/d", "No such file or directory"),
        (
            "--module jsonl=s.jsonl,feilds=url,title",
            "it has no option 'feilds'; use jsonl=FILE[,fields=NAME,...]",
        ),
        ("--module urls=u.jsonl,fields=url", "it has no option 'fields'; use urls=FILE"),
    ] {
        let crawl = Pipeline::of("http://127.0.0.1:1/").with(modules);
        let output = crawl.command().current_dir(directory.path()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{modules}: {stderr}");
        assert!(stderr.contains(words), "{modules}: {stderr}");
        assert_eq!(names(directory.path()), ["link"], "{modules}: {stderr}");
    }
}

#[test]
fn rejected_links_are_counted_by_reason() {
    let links = ["/a", "/a", "mailto:me@a.test", "http://me:pw@a.test/", "/x/x/x/x/x/x", "/"];
    let web = serve(Site::new().page("/", linking_to(&links)).page("/a", "x"));
    let ended = Pipeline::of(web.url("/")).run().expect(0);
    let link_counts = ended.summary().link_counts;
    assert_eq!(link_counts["not http or https"], 1);
    assert_eq!(link_counts["with credentials"], 1);
    assert_eq!(link_counts["repeated path segments"], 1);
    assert_eq!(ended.outcomes(), counts(&[("page", 2)]));
}
