//! The report on a crawl: `crawler report` and `--report`.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;
use testweb::{Request, Response, Site, Web};

use crate::common::{Crawl, Ended, binary, linking_to, run, serve};
use crate::markdown_report::MarkdownReport;
use crate::pipeline::Pipeline;
use crate::state::StateDir;

/// What a page says, so that others can be duplicates of it.
const LONG: &str = "the same words again and again in a page that is long enough to be compared with others, which takes some \
                    twenty words at the least, and a few more for good measure, as any text has that says something";

/// A site with broken links, redirects and a duplicate.
fn broken_site() -> Web {
    serve(
        Site::new()
            .page("/", linking_to(&["/docs/a", "/docs/b", "/old", "/gone"]) + "<p>the first page")
            .page("/docs/a", linking_to(&["/gone", "/docs/deep/lost", "/docs/a"]) + "<p>a page")
            .page("/docs/b", linking_to(&["/docs/copy", "/../gone#part"]) + LONG)
            .page("/docs/copy", linking_to(&["/docs/copy", "/../gone#part"]) + LONG)
            .redirect("/old", "/docs/a")
            .response("/docs/deep/lost", Response::status(410))
            .status("/gone", 404),
    )
}

/// The pages that link to each broken URL.
fn broken_links(web: &Web) -> Vec<(String, (String, Vec<String>))> {
    let urls = |paths: &[&str]| paths.iter().map(|path| web.url(path)).collect::<Vec<_>>();
    vec![
        (web.url("/docs/deep/lost"), ("HTTP 410".into(), urls(&["/docs/a"]))),
        (web.url("/gone"), ("HTTP 404".into(), urls(&["/", "/docs/a", "/docs/b"]))),
    ]
}

#[track_caller]
fn report_on(state: &StateDir) -> MarkdownReport {
    MarkdownReport(run(&["report", &state.state(), "--format", "markdown"]).expect(0).stdout)
}

#[track_caller]
fn read(path: &Path) -> MarkdownReport {
    MarkdownReport(fs::read_to_string(path).unwrap())
}

fn status(state: &StateDir) -> Value {
    serde_json::from_str(&run(&["status", &state.state(), "--json"]).expect(0).stdout).unwrap()
}

#[track_caller]
fn summary(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Checks what every report on the [broken site](broken_site) says.
#[track_caller]
fn check_broken_site(report: &MarkdownReport, web: &Web) {
    assert_eq!(report.failed().into_iter().collect::<Vec<_>>(), broken_links(web), "{}", report.0);
    let redirects = report.rows("Redirects");
    assert_eq!(redirects[0][..2], [web.url("/old"), web.url("/docs/a")], "{redirects:?}");
    let structure = report.section("Structure");
    assert!(structure.contains("`docs`: 4 URLs, 2 pages, 1 failed"), "{structure}");
    assert!(structure.contains("`deep`: 1 URL, 0 pages, 1 failed"), "{structure}");
    let pages: Vec<String> = report.rows("Broken links").into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(pages, ["/docs/a", "/", "/docs/b"].map(|path| web.url(path)));
}

#[test]
fn report_on_a_state_has_its_counts_and_names_all_pages_with_broken_links() {
    let (web, place) = (broken_site(), StateDir::new());
    let file = place.path("at-end.md");
    let crawl =
        place.crawl(web.url("/")).with("--max-pages 50 --report").with_one(file.display().to_string());
    let ended = crawl.run().expect(0);
    assert!(ended.stderr.contains(&format!("report: {}\n", file.display())), "{}", ended.stderr);
    for report in [read(&file), report_on(&place)] {
        report.check_counts(&status(&place));
        check_broken_site(&report, &web);
        assert!(report.section("Broken links").contains("All stored pages were searched"), "{}", report.0);
        let duplicates = report.rows("Duplicates");
        assert_eq!(duplicates, [[web.url("/docs/copy"), web.url("/docs/b"), "exactly".into()]]);
        let given = report.rows("Seeds and options");
        assert!(given.contains(&vec!["--max-pages".into(), "50".into()]), "{given:?}");
        assert_eq!(given[0][1], web.url("/"));
    }
    let html = place.path("r.html");
    let ended = run(&["report", &place.state(), "-o", &html.display().to_string()]).expect(0);
    assert_eq!((ended.stdout.as_str(), ended.stderr), ("", format!("report: {}\n", html.display())));
    let html = fs::read_to_string(html).unwrap();
    assert!(html.starts_with("<!") && html.contains(&web.url("/docs/deep/lost")), "{html}");
    // A program that reads standard output gets HTML.
    assert!(run(&["report", &place.state()]).expect(0).stdout.starts_with("<!"));
}

#[test]
fn crawl_in_memory_has_the_report_of_one_with_a_state() {
    let (web, place) = (broken_site(), StateDir::new());
    let (file, sums) = (place.path("r.md"), place.path("sums.json"));
    for options in ["", "--no-content", "--module urls=-"] {
        let crawl = Pipeline::of(web.url("/")).with(options);
        let crawl = crawl.with("--report").with_one(file.display().to_string());
        let crawl = crawl.with("--summary").with_one(sums.display().to_string());
        crawl.run().expect(0);
        let report = read(&file);
        report.check_counts(&summary(&sums));
        check_broken_site(&report, &web);
        assert!(report.section("Broken links").contains("All stored pages were searched"), "{}", report.0);
    }
    // The module that sees the pages for the report does not keep a crawl alive whose output is closed.
    let crawl =
        Pipeline::of(web.url("/")).with("--module jsonl=- --report").with_one(file.display().to_string());
    crawl.in_shell("\"$@\" 2>&1 >&- | grep -c . ; exit 0").run().expect(0);
}

#[test]
fn classic_crawl_and_link_check_write_a_report() {
    let (web, place) = (broken_site(), StateDir::new());
    let (file, sums) = (place.path("r.md"), place.path("sums.json"));
    let crawl = Crawl::of(web.url("/")).with("--report").with_one(file.display().to_string());
    crawl.with("--summary").with_one(sums.display().to_string()).run().expect(0);
    let report = read(&file);
    report.check_counts(&summary(&sums));
    let failed = report.failed();
    assert_eq!(failed[&web.url("/gone")], ("HTTP 404".into(), vec![web.url("/")]));
    assert!(report.section("Broken links").contains("Only the page is known"), "{}", report.0);
    assert!(report.rows("Seeds and options").contains(&vec!["maxDepth".into(), "99".into()]), "{}", report.0);

    let mut check = binary();
    check.args(["check", &web.url("/"), "--allow-private", "--ignore-robots", "--delay", "0"]);
    check.args(["--output", &place.path("check.txt").display().to_string()]);
    let checked = check.args(["--report", &file.display().to_string()]).output().unwrap();
    assert_eq!(checked.status.code(), Some(1), "{}", String::from_utf8_lossy(&checked.stderr));
    let failed = read(&file).failed();
    let pages = &failed[&web.url("/gone")].1;
    // A check drops no duplicates.
    assert!(pages.len() == 4 || pages.contains(&"more".into()), "{pages:?}");
}

/// A site of slow pages, one of which is missing.
fn slow_site() -> Web {
    serve(Site::new().page("/", linking_to(&["/gone", "/slow"])).fallback(|request: &Request| {
        if request.path == "/gone" {
            return Response::status(404);
        }
        Response::page("a page").delay(std::time::Duration::from_secs(60))
    }))
}

#[test]
fn running_killed_and_resumed_crawls_have_reports() {
    let (web, place) = (slow_site(), StateDir::new());
    let mut crawl = place.crawl(web.url("/")).with("--timeout 2m").start();
    crawl.until("all requests", |_| web.hits() == 3);
    crawl.until("a commit", |_| status(&place)["failed"]["total"] == 1);
    let gone = |report: &MarkdownReport| report.failed().get(&web.url("/gone")).cloned();
    let expected = Some(("HTTP 404".to_owned(), vec![web.url("/")]));
    crawl.until("the URL in the report", |_| gone(&report_on(&place)) == expected);
    let report = report_on(&place);
    assert!(report.0.contains("- **State:** Running"), "{}", report.0);
    report.check_counts(&{
        let mut status = status(&place);
        status["not_reached"] = 0.into();
        status
    });
    crawl.signal(Signal::KILL);
    crawl.wait();
    let report = report_on(&place);
    assert!(report.0.contains("interrupted"), "{}", report.0);
    assert_eq!(gone(&report), expected);

    let file = place.path("resumed.html");
    fs::write(&file, "an old report").unwrap();
    let mut resumed = place.resume(&format!("--timeout 500ms --report {}", file.display()));
    resumed.until("the last request", |_| web.hits() > 3);
    resumed.wait().expect(0);
    let html = fs::read_to_string(&file).unwrap();
    assert!(html.contains(&web.url("/gone")) && !html.contains("an old report"), "{html}");
    let report = report_on(&place);
    report.check_counts(&status(&place));
    assert_eq!(report.failed().len(), 2, "{}", report.0);
}

#[test]
fn stopped_crawls_write_their_reports() {
    let (web, place) = (slow_site(), StateDir::new());
    let (file, sums) = (place.path("r.md"), place.path("sums.json"));
    let files = |crawl: Pipeline| {
        let crawl = crawl.with("--report").with_one(file.display().to_string());
        crawl.with("--summary").with_one(sums.display().to_string())
    };
    let mut crawl = files(Pipeline::of(web.url("/"))).with("--timeout 500ms").start();
    crawl.until("all requests", |_| web.hits() == 3);
    crawl.signal(Signal::INT);
    crawl.wait().expect(130);
    read(&file).check_counts(&summary(&sums));
    fs::remove_file(&file).unwrap();
    files(Pipeline::of(web.url("/"))).with("--max-pages 1").run().expect(0);
    let report = read(&file);
    report.check_counts(&summary(&sums));
    assert!(report.0.contains("limit of pages is reached"), "{}", report.0);
}

#[test]
fn no_secret_is_in_a_report() {
    let (web, place) = (broken_site(), StateDir::new());
    let seed = web.url("/").replace("http://", "http://me:sesame@");
    for with_state in [true, false] {
        let crawl = if with_state { place.crawl(&*seed) } else { Pipeline::of(&*seed) };
        let crawl = crawl.with("--cookie session=sesame --header").with_one("X-Token: sesame");
        let crawl = crawl.with("--contact https://me:sesame@example.org/");
        let files = ["r.html", "r.md"].map(|name| place.path(name));
        crawl.with("--report").with_one(files[0].display().to_string()).run().expect(0);
        if with_state {
            fs::write(&files[1], report_on(&place).0).unwrap();
        }
        for file in files {
            let report = fs::read_to_string(file).unwrap();
            assert!(!report.contains("sesame"), "{report}");
            assert!(report.contains("--header") && report.contains("--cookie"), "{report}");
        }
    }
}

#[test]
fn site_with_many_broken_links_has_a_bounded_report() {
    let long = "x".repeat(1_500);
    let pages = serve(Site::new().fallback(move |request: &Request| match request.path.as_str() {
        "/" => Response::page(linking_to(&["/1", "/2"])),
        path @ ("/1" | "/2") => {
            let links = (0..1_500).map(|number| format!("<a href='{path}/d{number}/{long}'>x</a>"));
            Response::page(links.collect::<String>())
        }
        _ => Response::status(404),
    }));
    let place = StateDir::new();
    place.crawl(pages.url("/")).with("--max-page-bytes 5MB --per-host 8 --max-bytes 1GB").run().expect(0);
    let (status, html) = (status(&place), run(&["report", &place.state()]).expect(0).stdout);
    assert_eq!(status["failed"]["total"], 3_000);
    assert!(html.len() < 30_000_000, "{}", html.len());
    let report = report_on(&place);
    assert!(report.0.contains("3,000 URLs failed"), "{}", &report.0[..2_000]);
    assert!(report.0.len() < 10_000_000, "{}", report.0.len());
}

#[track_caller]
fn refused(ended: Ended, words: &str) {
    let ended = ended.expect(2);
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
}

#[test]
fn files_and_crawls_that_cannot_be_used_are_refused_before_anything_is_fetched() {
    let (web, place) = (broken_site(), StateDir::new());
    let missing = place.path("missing").join("r.html").display().to_string();
    let crawl = || Pipeline::of(web.url("/")).with("--report");
    refused(crawl().with_one("report.txt").run(), "must end with .html or .md");
    refused(crawl().with_one("-").run(), "must end with .html or .md");
    refused(
        crawl().with_one(&*missing).run(),
        "the directory does not exist; name a file that can be written",
    );
    refused(Crawl::of(web.url("/")).with("--report r.pdf").run(), "must end with .html or .md");
    refused(
        Crawl::of(web.url("/")).with("--report").with_one(&*missing).run(),
        "the directory does not exist",
    );
    let same = place.path("x.md").display().to_string();
    let same = crawl().with_one(&*same).with("--module").with_one(format!("jsonl={same}")).run();
    refused(same, "write the same file");
    assert_eq!(web.hits(), 0);

    let state = place.state();
    refused(run(&["report"]), "missing <DIR> or --redis <URL>");
    let error = run(&["status", &state]).expect(2).stderr;
    assert_eq!(run(&["report", &state]).expect(2).stderr, error);
    place.crawl(web.url("/")).run().expect(0);
    refused(run(&["report", &state, "-o", "r.txt"]), "name a file .html or .md, or use --format");
    refused(run(&["report", &state, "-o", &missing]), "the directory does not exist");
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let full = binary().args(["report", &state]).stdout(full).status().unwrap();
    assert_eq!(full.code(), Some(3));
    for entry in fs::read_dir(&state).unwrap() {
        let path = entry.unwrap().path();
        if fs::metadata(&path).unwrap().len() > 1_000 {
            fs::write(path, "no state at all, but some text").unwrap();
        }
    }
    let error = run(&["status", &state]).expect(1).stderr;
    assert_eq!(run(&["report", &state]).expect(1).stderr, error);
}

#[test]
fn report_that_cannot_be_written_at_the_end_fails_the_crawl() {
    let (web, place) = (slow_site(), StateDir::new());
    let directory = place.path("reports");
    fs::create_dir(&directory).unwrap();
    let file = directory.join("r.html").display().to_string();
    let mut crawl = Pipeline::of(web.url("/")).with("--timeout 2s --report").with_one(file).start();
    crawl.until("all requests", |_| web.hits() >= 3);
    fs::remove_dir_all(&directory).unwrap();
    let ended = crawl.wait().expect(3);
    assert!(ended.stderr.contains("cannot write the report to "), "{}", ended.stderr);
}

#[test]
fn report_says_that_delays_were_kept_also_if_they_changed_or_requests_overlap() {
    let (web, state) = (crate::dashboard::endless_site(), StateDir::new());
    state.crawl(web.url("/0")).with("--delay 10ms --similarity 0 --max-pages 6").run().expect(0);
    state.resume("--delay 200ms --max-pages 9").wait().expect(0);
    let report = run(&["report", &state.state(), "--format", "markdown"]).expect(0).stdout;
    assert!(
        report.contains("; the delay is 200 ms. No host got a request before its delay had passed."),
        "{report}"
    );

    let file = state.path("parallel.md");
    let crawl =
        Pipeline::of(web.url("/0")).with("--delay 50ms --per-host 4 --similarity 0 --max-pages 9 --report");
    crawl.with_one(file.display().to_string()).run().expect(0);
    let report = std::fs::read_to_string(&file).unwrap();
    assert!(report.contains("No host got a request before its delay had passed."), "{report}");
    let gap = report.split_once("\nSmallest gap ").unwrap().1.split_once(" ms").unwrap().0;
    assert!(gap.parse::<u64>().unwrap() >= 50, "from start to start: {gap}");
}
