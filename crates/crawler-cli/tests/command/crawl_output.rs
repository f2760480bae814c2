//! The output of a pipeline for users and for programs.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::Value;
use testweb::{Response, Site, Web};

use crate::common::{counts, linking_to, names, serve, without_times};
use crate::pipeline::{Pipeline, adds_up, objects};

/// A site with every kind of outcome and link.
fn site() -> Site {
    Site::new()
        .robots("User-agent: *\nDisallow: /private")
        .page(
            "/",
            linking_to(&[
                "/a",
                "/gone",
                "/private",
                "/twin",
                "http://me@elsewhere.invalid/",
                "mailto:me@a.test",
            ]),
        )
        .page("/a", linking_to(&["/", "/moved", "/picture", "/deep"]))
        .page("/twin", linking_to(&["/", "/moved", "/picture", "/deep"]))
        .redirect("/moved", "/notes")
        .text("/notes", "no links")
        .response("/picture", Response::page("x").content_type("image/png"))
        .page("/deep", "deep")
}

#[test]
fn summary_accounts_for_every_url_and_link() {
    let web = serve(site());
    let ended = Pipeline::bare(web.url("/")).with("--module words=2 --workers 1").run().expect(0);
    // The target of a redirect counts as a link, so every admitted URL is a seed or a new link.
    let expected = "\
Pages              4   444 bytes
Redirects          1
Skipped            3   duplicate 1 · not a page 1 · robots.txt 1
Failed             1   HTTP 404 ×1
Links             11   8 new · 1 seen · 1 not http or https · 1 with credentials
Requests           9   R pages/s · T s
";
    let printed = without_times(&ended.stdout, &web);
    assert!(printed.starts_with(expected), "{printed}");
    assert!(!printed.contains("Stopped"), "{printed}");
    assert_eq!(web.hits(), 9);
    assert_eq!(ended.messages(), "to list the failed URLs, use -v\n", "single failures are not printed");
}

#[test]
fn verbose_prints_the_outcome_of_each_url() {
    let web = serve(site());
    let ended = Pipeline::bare(web.url("/")).with("--workers 1 -v").run().expect(0);
    let printed = without_times(&ended.stdout, &web);
    for line in [
        "      Page: http://site.test/a",
        "  Redirect: http://site.test/moved to http://site.test/notes",
        "    Failed: http://site.test/gone (HTTP 404)",
        "   Skipped: http://site.test/picture (not a page: image/png)",
        "   Skipped: http://site.test/twin (duplicate of http://site.test/a)",
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{line}\n{printed}");
    }
    let ends = printed.lines().take_while(|line| !line.starts_with("Pages ")).count();
    assert_eq!((ends, ended.messages().as_str()), (9, ""));
}

#[test]
fn quiet_prints_only_failed_urls_and_otherwise_a_hint_says_how_to_list_them() {
    let web = serve(Site::new().page("/", linking_to(&["/a", "/gone"])).page("/a", "x"));
    let crawl = || Pipeline::bare(web.url("/"));
    let ended = crawl().with("--quiet").run().expect(0);
    let failed = format!("{}: HTTP 404\n", web.url("/gone"));
    assert_eq!((ended.stdout.as_str(), ended.stderr), ("", failed));

    assert_eq!(crawl().run().expect(0).messages(), "to list the failed URLs, use -v\n");
    assert_eq!(crawl().with("-v").run().expect(0).messages(), "");
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state").display().to_string();
    let ended = crawl().with("--state").with_one(&state).run().expect(0);
    let hint = format!("to list the failed URLs, use -v; for one URL: crawler why URL --state {state}\n");
    assert_eq!(ended.messages(), hint);

    let clean = serve(Site::new().page("/", linking_to(&["/a"])).page("/a", "x"));
    for option in ["", "-q"] {
        let ended = Pipeline::bare(clean.url("/")).with(option).run().expect(0);
        assert_eq!((ended.stdout.is_empty(), ended.messages().as_str()), (option == "-q", ""));
    }
}

#[test]
fn json_progress_is_one_object_per_second_and_adds_up() {
    let web = Web::builder().seeded_hosts(2, 6, 12).start();
    let ended = Pipeline::of(web.url_of("h0.test", "/"))
        .with("--progress json --delay 150ms --workers 2 --max-time 2500ms")
        .run()
        .expect(0);
    let seen = objects(&ended.stderr);
    assert!((2..=4).contains(&seen.len()), "{}", ended.stderr);
    for object in &seen {
        adds_up(object);
        assert_eq!(object["workers"].as_array().unwrap().len(), 2);
        let leased: u64 =
            object["workers"].as_array().unwrap().iter().map(|load| load["leased"].as_u64().unwrap()).sum();
        let unfinished = object["pending"].as_u64().unwrap() + object["not_reached"].as_u64().unwrap();
        assert!(leased <= unfinished, "{object}");
    }
    let times: Vec<f64> = seen.iter().map(|object| object["elapsed_seconds"].as_f64().unwrap()).collect();
    assert!(times.is_sorted() && times[0] > 0.9, "{times:?}");
    let (last, others) = seen.split_last().unwrap();
    assert!(others.iter().all(|object| object["state"] == "running" && object["stopped_by"] == Value::Null));
    assert!(others[0]["active_hosts"].as_u64().unwrap() > 0);
    assert_eq!((&last["state"], &last["stopped_by"]), (&"stopped".into(), &"max-time".into()));
    let names: Vec<&str> = last.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected = vec![
        "state",
        "stopped_by",
        "elapsed_seconds",
        "pages_per_second",
        "pages",
        "bytes",
        "redirects",
        "skipped",
        "failed",
        "failed_temporarily",
        "sitemaps",
        "failed_sitemaps",
        "not_reached",
        "pending",
        "admitted",
        "requisites",
        "checked",
        "refetches",
        "links",
        "requests",
        "queues",
        "received",
        "truncated",
        "workers",
        "active_hosts",
        "owned_domains",
        "network_down_seconds",
        "unchanged",
        "unreachable_hosts",
        "seen_urls",
        "stored_pages",
        "stored_bytes",
        "pagerank",
    ];
    expected.sort();
    assert_eq!(names, expected);
    assert!(ended.stdout.contains("\nRequests "), "{}", ended.stdout);
}

#[test]
fn summary_file_has_the_counts_of_the_summary_and_replaces_an_older_one() {
    let web = serve(site());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("summary.json");
    fs::write(&file, "older").unwrap();
    let ended = Pipeline::bare(web.url("/"))
        .with("--module words --summary")
        .with_one(file.display().to_string())
        .run()
        .expect(0);
    let summary: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(adds_up(&summary)["page"], 4);
    assert_eq!((&summary["state"], &summary["stopped_by"]), (&"finished".into(), &Value::Null));
    assert_eq!(summary["failed"], serde_json::json!({"total": 1, "by_reason": {"HTTP 404": 1}}));
    assert_eq!((&summary["skipped"]["total"], &summary["requests"]), (&3.into(), &web.hits().into()));
    assert_eq!(summary["module_failures"], serde_json::json!({}));
    assert!(summary["module_summaries"][0].as_str().unwrap().contains(" words, "));
    assert_eq!(names(directory.path()), ["summary.json"], "no temporary file is left");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o666 & !umask());
    assert_eq!(ended.outcomes(), adds_up(&summary));
}

/// The umask of this process.
fn umask() -> u32 {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    File::create(&file).unwrap();
    0o666 & !fs::metadata(&file).unwrap().permissions().mode()
}

#[test]
fn symlink_to_a_summary_file_stays_a_symlink() {
    let web = serve(site());
    let directory = tempfile::tempdir().unwrap();
    let [file, link] = ["file", "link"].map(|name| directory.path().join(name));
    fs::write(&file, "").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    Pipeline::bare(web.url("/")).with("--summary").with_one(link.display().to_string()).run().expect(0);
    assert!(fs::read_link(&link).is_ok());
    adds_up(&serde_json::from_slice(&fs::read(&file).unwrap()).unwrap());
}

#[test]
fn control_characters_from_servers_are_escaped() {
    let odd = Response::page("x").content_type("image/png;\t\u{9b}2J \u{202e}gnp");
    let title = "<title>\u{1b}]0;mine\u{7}</title>\u{1b}[2Jw\u{202e}ord \u{9b}1m";
    let site = Site::new().page("/", linking_to(&["/odd"]) + title).response("/odd", odd);
    let web = serve(site);
    // `common` checks all output for control characters.
    for options in
        ["", "-v", "-q", "--progress json", "--module words", "--module jsonl=-", "-v --module edges=-"]
    {
        let ended = Pipeline::of(web.url("/")).with(options).run().expect(0);
        let printed = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(
            options.contains("-v"),
            printed.contains(r"image/png;\u{9}\u{9b}2J \u{202e}gnp"),
            "{printed}"
        );
    }
    let ended = Pipeline::of(web.url("/odd")).run().expect(1);
    assert!(ended.stderr.contains(r"image/png;\u{9}\u{9b}2J"), "{}", ended.stderr);
}

#[test]
fn slow_crawl_prints_progress_without_a_terminal() {
    let slow = Response::page("x").delay(Duration::from_secs(6));
    let web = serve(Site::new().page("/", linking_to(&["/a", "/gone"])).response("/a", slow));
    let ended = Pipeline::of(web.url("/")).with("--timeout 1m --workers 1").run().expect(0);
    let printed = &ended.messages();
    assert_eq!(printed.lines().count(), 2, "one line of progress and a hint: {printed}");
    let start = "1 of 10,000 pages · 46 bytes of 50 MB · 0:05 · 0.2 pages/s; ";
    assert!(printed.starts_with(start), "{printed}");
    assert!(printed.contains(" pending · 1 in flight · ") && !printed.contains("Queues"), "{printed}");
    assert_eq!(ended.outcomes(), counts(&[("page", 2), ("HTTP 404", 1)]));
}
