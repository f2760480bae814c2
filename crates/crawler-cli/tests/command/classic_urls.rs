//! `--urls FILE` and `--summary FILE` of the classic mode: every URL of a crawl once, checked against the log of the server.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;
use testweb::{Response, Site, Web};

use crate::common::{Crawl, linking_to, names, serve};
use crate::pipeline::{adds_up, objects, objects_in};
use crate::resume::directories;
use crate::urls::{agrees_with_log, by_path, every_outcome, has_details_of_every_outcome, outcomes};

/// The options with which robots.txt is obeyed.
const POLITE: &str = "--resolve *=127.0.0.1 --allow-private";

/// A crawl that writes the rows to a file of this name, outside of its directory.
fn crawl(web: &Web, urls: &Path) -> Crawl {
    Crawl::of(web.url("/")).with("--urls").with_one(urls.display().to_string())
}

#[test]
fn every_url_has_one_row_that_agrees_with_the_log() {
    let (web, directory) = (every_outcome(), tempfile::tempdir().unwrap());
    let [path, summary] = ["urls.jsonl", "summary"].map(|name| directory.path().join(name));
    let crawl = crawl(&web, &path).with(POLITE).with("--summary").with_one(summary.display().to_string());
    let ended = crawl.run().expect(0);
    let plan = ended.stderr.lines().next().unwrap();
    assert!(plan.contains("/, URLs to /") && plan.ends_with("/urls.jsonl"), "{plan}");
    let rows = by_path(&web, &objects_in(&path));
    agrees_with_log(&web, &rows);
    let outcomes: BTreeMap<&str, &str> =
        rows.iter().map(|(path, row)| (path.as_str(), row["outcome"].as_str().unwrap())).collect();
    let expected = [
        ("/", "page"),
        ("/a", "page"),
        ("/away", "redirect out of scope"),
        ("/busy", "HTTP 503"),
        ("/closed", "connection"),
        ("/copy", "page"),
        ("/gone", "HTTP 404"),
        ("/image", "not a page"),
        ("/loop", "redirect loop"),
        ("/new", "page"),
        ("/old", "redirect"),
        ("/older", "redirect"),
        ("/plain?x=1,2", "page"),
        ("/private", "robots.txt"),
    ];
    assert_eq!(outcomes, BTreeMap::from(expected));
    let summary: Value = serde_json::from_slice(&fs::read(summary).unwrap()).unwrap();
    assert_eq!(
        (&summary["admitted"], &summary["state"]),
        (&rows.len().into(), &"finished".into()),
        "{summary}"
    );
    assert_eq!(adds_up(&summary)["page"], 5);

    has_details_of_every_outcome(&web, &rows);
}

#[test]
fn url_that_is_found_again_at_a_smaller_depth_has_one_row() {
    let site = Site::new()
        .page("/", linking_to(&["/a", "/moved"]))
        .page("/a", linking_to(&["/target"]))
        .redirect("/moved", "/target")
        .page("/target", "found on /a, and at a smaller depth by a redirect");
    let (web, directory) = (serve(site), tempfile::tempdir().unwrap());
    let path = directory.path().join("urls.csv");
    crawl(&web, &path).run().expect(0);
    let rows = fs::read_to_string(path).unwrap();
    assert_eq!(rows.lines().count(), 5, "a header and each URL: {rows}");
    let target = rows.lines().find(|row| row.starts_with(&web.url("/target"))).unwrap();
    assert!(target.contains(&format!(",1,{},", web.url("/"))), "depth and found_on: {target}");
}

#[test]
fn stopped_crawl_has_a_row_for_every_admitted_url() {
    let (web, directory) = (serve(directories(&["x"], 40)), tempfile::tempdir().unwrap());
    let [path, summary] = ["urls.jsonl", "summary"].map(|name| directory.path().join(name));
    let crawl = crawl(&web, &path).delay("20ms").with("--concurrency 3 --summary");
    let mut crawl = crawl.with_one(summary.display().to_string()).start();
    // Rows are written at once.
    crawl.until("some rows", |_| fs::read_to_string(&path).is_ok_and(|rows| rows.lines().count() >= 5));
    crawl.signal(Signal::INT);
    let ended = crawl.wait().expect(130);
    let rows = by_path(&web, &objects_in(&path));
    agrees_with_log(&web, &rows);
    let pages = ended.pages().len();
    let expected = BTreeMap::from([("page".into(), pages), ("not reached".into(), 41 - pages)]);
    assert_eq!(outcomes(&rows), expected);
    let waiting = rows.values().find(|row| row["outcome"] == "not reached").unwrap();
    assert_eq!((&waiting["found_on"], &waiting["done"]), (&web.url("/").into(), &Value::Null));
    let summary: Value = serde_json::from_slice(&fs::read(summary).unwrap()).unwrap();
    assert_eq!((&summary["stopped_by"], &summary["not_reached"]), (&"request".into(), &(41 - pages).into()));
}

#[test]
fn rows_or_the_summary_have_standard_output_for_themselves() {
    let web = every_outcome();
    for (option, is_rows) in [("--urls -", true), ("--urls /dev/stdout", true), ("--summary -", false)] {
        for verbosity in ["", "-v", "-q"] {
            let crawl = Crawl::of(web.url("/")).with(POLITE).with(option).with(verbosity);
            let ended = crawl.run().expect(0);
            match is_rows {
                true => assert_eq!(by_path(&web, &objects(&ended.stdout)).len(), 14),
                false => {
                    let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
                    assert_eq!(summary["admitted"], 14, "{summary}");
                }
            }
            assert_eq!(ended.stderr.contains("\nRequests "), verbosity != "-q", "{}", ended.stderr);
            assert_eq!(ended.stderr.contains(" Scanning: "), verbosity == "-v", "{}", ended.stderr);
        }
    }
}

#[test]
fn closed_standard_output_does_not_stop_the_crawl() {
    let (web, directory) = (serve(directories(&["x"], 40)), tempfile::tempdir().unwrap());
    let crawl = Crawl::of(web.url("/")).into_directory(directory.path()).delay("1ms").with("--urls -");
    let mut child = crawl.command().stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("\"outcome\":\"page\""), "{line}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(names(directory.path()).len(), 41);
}

#[test]
fn file_that_cannot_be_used_is_rejected_before_the_first_request() {
    let (web, directory) = (serve(Site::new().page("/", "a page")), tempfile::tempdir().unwrap());
    let [full, pages, missing] =
        ["full.csv", "pages", "missing/urls"].map(|name| directory.path().join(name));
    fs::write(&full, "content").unwrap();
    fs::create_dir(&pages).unwrap();
    fs::write(pages.join("1"), "a page of an earlier crawl").unwrap();
    std::os::unix::fs::symlink(pages.join("1"), directory.path().join("link")).unwrap();
    let rejected = |urls: &Path, options: &str, cause: &str| {
        let ended = crawl(&web, urls).into_directory(&pages).with(options).run().expect(2);
        assert!(ended.stderr.contains(cause), "{cause}: {}", ended.stderr);
        assert_eq!(fs::read_to_string(pages.join("1")).unwrap(), "a page of an earlier crawl");
        assert_eq!(fs::read_to_string(&full).unwrap(), "content");
    };
    rejected(&directory.path().join("new"), "", "contains pages of an earlier crawl");
    assert!(!directory.path().join("new").exists());
    rejected(&pages, "--overwrite", "it is the directory of the pages");
    rejected(directory.path(), "--overwrite", "it is not a regular file");
    rejected(&missing, "--overwrite", "No such file or directory");
    for page in [pages.join("1"), pages.join("2"), pages.join("../pages/3"), directory.path().join("link")] {
        rejected(&page, "--overwrite", "pages have names of this form there; give another name or directory");
    }
    let same = format!("--overwrite --summary {}", full.display());
    rejected(&full, &same, "--urls and --summary write the same file");
    rejected(Path::new("-"), "--summary -", "both write to standard output");

    fs::remove_file(pages.join("1")).unwrap();
    let ended = crawl(&web, &full).into_directory(&pages).run().expect(2);
    assert!(ended.stderr.contains("it already has 7 bytes"), "{}", ended.stderr);
    assert!(ended.stderr.contains("overwrite it (--overwrite)"), "{}", ended.stderr);
    assert_eq!(web.hits(), 0);
    crawl(&web, &full).into_directory(&pages).with("--overwrite").run().expect(0);
    assert_eq!(fs::read_to_string(&full).unwrap().lines().count(), 2);
}

#[test]
fn rows_that_cannot_be_written_are_an_error_and_pages_are_saved() {
    let (web, directory) = (serve(directories(&["x"], 40)), tempfile::tempdir().unwrap());
    let path = directory.path().join("urls.jsonl");
    let script = "ulimit -f 8; exec \"$@\"";
    let ended = crawl(&web, &path).in_shell(script).run().expect(3);
    assert!(
        ended.stderr.contains("cannot write all URLs: cannot write to output file '"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.pages().len(), 41, "pages are smaller than the limit");
    let rows = objects_in(&path);
    assert!(!rows.is_empty() && rows.len() < 41, "whole rows only");
    let full = Crawl::of(web.url("/")).with("--urls -").in_shell("exec \"$@\" > /dev/full").run().expect(3);
    assert!(full.stderr.contains("cannot write to standard output: No space left"), "{}", full.stderr);
    assert_eq!(full.pages().len(), 41);
}

#[test]
fn accepted_content_and_pages_that_are_not_saved_have_rows() {
    let site = Site::new()
        .page("/", linking_to(&["/paper", "/skip"]))
        .response("/paper", Response::text("%PDF-1.4").content_type("application/pdf"))
        .page("/skip", "not saved");
    let (web, directory) = (serve(site), tempfile::tempdir().unwrap());
    let path = directory.path().join("urls.jsonl");
    crawl(&web, &path).with("--accept application/pdf --save-exclude /skip").run().expect(0);
    let rows = by_path(&web, &objects_in(&path));
    let outcome = |path: &str| rows[path]["outcome"].as_str().unwrap().to_owned();
    assert_eq!(["/", "/paper", "/skip"].map(outcome), ["page", "page", "not saved"]);
    assert_eq!(rows["/paper"]["content_type"], "application/pdf");
}
