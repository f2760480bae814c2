//! Programs that get pages, and readers of what the crawl prints: those that fail, stop, or never read.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use testweb::{Response, Site, Web};

use crate::common::{binary, linking_to, serve};
use crate::pipeline::{Pipeline, objects, objects_in, paths};
use crate::state::StateDir;

/// How long the end of a crawl may take that must not wait.
const SOON: Duration = Duration::from_secs(30);

/// A front page with links to `/1` … `/9`.
fn ten_pages() -> Web {
    let links: Vec<String> = (1..10).map(|number| format!("/{number}")).collect();
    let front = linking_to(&links.iter().map(String::as_str).collect::<Vec<_>>());
    serve((1..10).fold(Site::new().page("/", front), |site, number| {
        site.page(&format!("/{number}"), format!("page {number}"))
    }))
}

/// Pages with one link each, without end.
fn endless() -> Web {
    let next = |path: &str| format!("/{}", path.trim_start_matches('/').parse().unwrap_or(0) + 1);
    serve(Site::new().fallback(move |request| Response::page(linking_to(&[&next(&request.path)]))))
}

/// Resumes a crawl whose program failed, with one that works, and checks that every page was processed.
#[track_caller]
fn resume_with_a_working_program(web: &Web, state_dir: &StateDir, processed: &Path) {
    let module = format!("exec=cat >> '{}'", processed.display());
    let resumed = binary().args(["resume", &state_dir.state(), "--module", &module]).output().unwrap();
    assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
    let mut pages: Vec<String> = objects_in(processed)
        .iter()
        .map(|page| page["url"].as_str().unwrap().replace(&web.url(""), ""))
        .collect();
    pages.sort();
    pages.dedup();
    let expected: Vec<String> = std::iter::once("/".into()).chain((1..10).map(|n| format!("/{n}"))).collect();
    assert_eq!(pages, expected);
}

#[test]
fn program_that_cannot_be_run_or_keeps_dying_ends_the_crawl_and_its_pages_stay_pending() {
    let directory = tempfile::tempdir().unwrap();
    let not_executable = directory.path().join("file");
    fs::write(&not_executable, "").unwrap();
    for (program, words) in [
        ("nosuchcmd".to_owned(), "cannot be run (exit status: 127)"),
        (not_executable.display().to_string(), "cannot be run (exit status: 126)"),
        ("exit 9".into(), "exited 6 times in a row without finishing a page (exit status: 9)"),
        ("read -r page; exit 1".into(), "exited 6 times in a row without finishing a page (exit status: 1)"),
        ("true".into(), "exited 6 times in a row without finishing a page (exit status: 0)"),
    ] {
        let (web, state_dir) = (ten_pages(), StateDir::new());
        let crawl = state_dir.crawl(web.url("/")).with("--similarity 0 --module");
        let ended = crawl.with_one(format!("exec={program}")).run().expect(3);
        let error = format!("crawler: cannot process all pages: program '{program}' {words}\n");
        assert!(ended.stderr.contains(&error), "{}", ended.stderr);
        assert!(ended.stderr.contains("\nStopped: a module cannot process pages\n"), "{}", ended.stderr);
        assert!(ended.stderr.contains("when the module works, resume: crawler resume "), "{}", ended.stderr);
        assert!(!ended.stderr.contains("no pages crawled"), "{}", ended.stderr);
        resume_with_a_working_program(&web, &state_dir, &state_dir.path("processed"));
        assert_eq!(ended.code(), 3);
    }
}

#[test]
fn program_that_always_fails_on_one_page_loses_no_page() {
    let (web, state_dir) = (ten_pages(), StateDir::new());
    let processed = state_dir.path("processed");
    let program = format!(
        "while IFS= read -r page; do case \"$page\" in *'/7\",'*) exit 1;; esac; printf '%s\\n' \"$page\" >> '{}'; done",
        processed.display()
    );
    let crawl = state_dir.crawl(web.url("/")).with("--similarity 0 --module");
    let ended = crawl.with_one(format!("exec={program}")).run().expect(3);
    assert!(
        ended.stderr.contains("6 times in a row without finishing a page (exit status: 1)"),
        "{}",
        ended.stderr
    );
    resume_with_a_working_program(&web, &state_dir, &processed);
}

#[test]
fn crawl_in_memory_ends_with_status_3_and_counts_no_page_that_was_not_processed() {
    let web = ten_pages();
    let summary = tempfile::NamedTempFile::new().unwrap();
    let crawl = Pipeline::of(web.url("/")).with("--summary").with_one(summary.path().to_str().unwrap());
    crawl.with("--module").with_one("exec=exit 9").run().expect(3);
    let summary: Value = serde_json::from_str(&fs::read_to_string(summary.path()).unwrap()).unwrap();
    assert_eq!((&summary["stopped_by"], &summary["pages"]), (&"module-failure".into(), &0.into()));
}

#[test]
fn program_that_fails_at_the_end_of_its_input_is_an_error() {
    for program in ["sort > /dev/full", "cat > /dev/null; exit 2"] {
        let (web, state_dir) = (ten_pages(), StateDir::new());
        let summary = state_dir.path("summary");
        let crawl = state_dir.crawl(web.url("/")).with("-q --similarity 0 --summary");
        let crawl = crawl.with_one(summary.to_str().unwrap()).with("--module");
        let ended = crawl.with_one(format!("exec={program}")).run().expect(3);
        let error = format!(
            "crawler: cannot process all pages: program '{program}' failed at the end of its input (exit status: 2); it had read \
             10 pages since it was started, the last one {}",
            web.url("/")
        );
        assert!(ended.stderr.contains(&error), "{}", ended.stderr);
        let end = ", and may not have processed them; they are not sent again: to process them, start a new crawl\n";
        assert!(ended.stderr.ends_with(end), "{}", ended.stderr);
        let summary: Value = serde_json::from_str(&fs::read_to_string(summary).unwrap()).unwrap();
        assert!(summary["module_failure"].as_str().unwrap().contains("at the end of its input"), "{summary}");
        assert_eq!(summary["pages"], 10);
    }
}

#[test]
fn pages_of_a_host_are_sent_without_a_pause() {
    let links: Vec<String> = (1..100).map(|number| format!("/{number}")).collect();
    let front = linking_to(&links.iter().map(String::as_str).collect::<Vec<_>>());
    let web = serve((1..100).fold(Site::new().page("/", front), |site, number| {
        site.page(&format!("/{number}"), format!("page {number}"))
    }));
    let crawl = |module| {
        let started = Instant::now();
        let crawl = Pipeline::of(web.url("/")).with("-q --delay 0 --similarity 0 --module").with_one(module);
        crawl.run().expect(0);
        started.elapsed()
    };
    let (without, with) = (crawl("noop"), crawl("exec=cat > /dev/null"));
    // At 50 ms per page it would take five seconds longer.
    assert!(with < without * 2 + Duration::from_secs(3), "{with:?}, without a program {without:?}");
}

#[test]
fn program_that_exits_with_status_0_has_enough_and_is_started_again_for_the_next_page() {
    let web = ten_pages();
    let directory = tempfile::tempdir().unwrap();
    let processed = directory.path().join("processed");
    let module = format!("exec=head -n 3 >> '{}'", processed.display());
    Pipeline::of(web.url("/")).with("--similarity 0 --module").with_one(module).run().expect(0);
    assert_eq!(paths(&web, &objects_in(&processed)).len(), 10);
}

#[test]
fn crawl_waits_for_a_program_that_never_reads_and_a_signal_ends_it() {
    let web = endless();
    let body = "x".repeat(200_000);
    let large = serve(Site::new().fallback(move |request| {
        let links: Vec<String> = (0..9).map(|n| format!("{}{n}", request.path)).collect();
        Response::page(linking_to(&links.iter().map(String::as_str).collect::<Vec<_>>()) + &body)
    }));
    for seed in [web.url("/"), large.url("/")] {
        let crawl = Pipeline::of(seed).with("--similarity 0 --module").with_one("exec=sleep 1000");
        let mut crawl = crawl.start();
        crawl.until("the first request", |_| web.hits() + large.hits() > 0);
        let mut hits = 0;
        crawl.until("the crawl waits for the program", |_| {
            let before = std::mem::replace(&mut hits, web.hits() + large.hits());
            thread::sleep(Duration::from_millis(200));
            before == hits && hits == web.hits() + large.hits()
        });
        let started = Instant::now();
        crawl.signal(Signal::INT);
        let ended = crawl.wait().expect(130);
        assert!(started.elapsed() < SOON);
        assert!(ended.peak_rss < 200 << 20, "{}", ended.peak_rss);
    }
    // With a state, the pages that the program did not process stay pending.
    let (web, state_dir) = (ten_pages(), StateDir::new());
    let crawl = state_dir.crawl(web.url("/")).with("--similarity 0 --module").with_one("exec=sleep 1000");
    let mut crawl = crawl.start();
    crawl.until("the first page", |_| web.hits() > 0);
    crawl.signal(Signal::INT);
    let ended = crawl.wait().expect(130);
    assert!(ended.stderr.contains("to resume: crawler resume "), "{}", ended.stderr);
    resume_with_a_working_program(&web, &state_dir, &state_dir.path("processed"));
}

/// Closes standard output after the first line, and returns the exit status and what was printed to standard error.
fn close_after_first_line(crawl: &Pipeline) -> (Option<i32>, String) {
    let mut child = crawl.command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(!line.is_empty());
    let started = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(started.elapsed() < SOON);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn closed_standard_output_stops_a_crawl_although_no_page_follows() {
    let web = endless();
    for options in ["--module jsonl=-", "--module jsonl=/dev/stdout", "-v"] {
        let crawl = Pipeline::of(web.url("/")).with("--delay 1h --similarity 0").with(options);
        let (status, stderr) = close_after_first_line(&crawl);
        assert_eq!(status, Some(0), "{options}: {stderr}");
    }
}

#[test]
fn closed_standard_output_stops_a_crawl_whose_program_prints_to_it() {
    let web = endless();
    let crawl = Pipeline::of(web.url("/")).with("--delay 10ms --similarity 0 --module").with_one("exec=cat");
    let (status, stderr) = close_after_first_line(&crawl);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("\nStopped: the reader closed standard output\n"), "{stderr}");
}

#[test]
fn standard_output_that_was_closed_at_the_start_is_an_error_before_the_first_request() {
    let web = ten_pages();
    for (options, shell, status) in [
        ("--module jsonl=-", "exec \"$@\" >&-", 2),
        ("--summary -", "exec \"$@\" >&-", 2),
        ("--module jsonl=-", "exec \"$@\" > /dev/null", 0),
        ("-v", "exec \"$@\" >&-", 0),
    ] {
        let before = web.hits();
        let ended = Pipeline::of(web.url("/")).with(options).in_shell(shell).run().expect(status);
        assert_eq!(web.hits() > before, status == 0, "{options}");
        let error = "crawler: cannot write to standard output: it is closed, or /dev/null that is open for reading, too; redirect it to a file or a program\n";
        assert_eq!(ended.stderr.contains(error), status == 2, "{}", ended.stderr);
    }
}

#[test]
fn page_that_could_not_be_printed_stays_pending() {
    let (web, state_dir) = (ten_pages(), StateDir::new());
    let crawl = || state_dir.crawl(web.url("/")).with("--similarity 0 --delay 20ms --module jsonl=-");
    let (status, _) = close_after_first_line(&crawl());
    assert_eq!(status, Some(0));
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = crawl().command().stdout(full).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(
        stderr.contains("cannot process all pages: cannot write to standard output: No space"),
        "{stderr}"
    );
    let ended = crawl().run().expect(0);
    // The first page was printed, and as many as were in the pipe when it was closed.
    assert!(objects(&ended.stdout).len() >= 6, "{}", ended.stdout);
}

#[test]
fn summary_is_written_to_streams() {
    let web = ten_pages();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    let parse = |text: &str| -> Value { serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}")) };
    for path in ["-", "/dev/stdout", "/dev/fd/1"] {
        let ended = Pipeline::of(web.url("/")).with("--similarity 0 --summary").with(path).run().expect(0);
        assert_eq!(parse(&ended.stdout)["pages"], 10);
        assert!(ended.stderr.contains("\nPages             10"), "{}", ended.stderr);
        let ended = Pipeline::of(web.url("/")).with("-v --summary").with(path).run().expect(0);
        assert!(
            parse(&ended.stdout).is_object() && ended.stderr.contains("      Page: "),
            "{}",
            ended.stderr
        );
    }
    // What was in the file before stays.
    fs::write(&file, "before\n").unwrap();
    let append = || File::options().append(true).open(&file).unwrap();
    let crawl = Pipeline::of(web.url("/")).with("-q --similarity 0 --summary /dev/stdout");
    assert!(crawl.command().stdout(append()).status().unwrap().success());
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(parse(text.strip_prefix("before\n").unwrap())["pages"], 10);

    let ended = Pipeline::of(web.url("/")).with("-q --similarity 0 --summary /dev/stderr").run().expect(0);
    assert_eq!((parse(&ended.stderr)["pages"].clone(), ended.stdout.as_str()), (10.into(), ""));

    let third = format!("exec \"$@\" 3> '{}'", file.display());
    Pipeline::of(web.url("/")).with("-q --similarity 0 --summary /dev/fd/3").in_shell(&third).run().expect(0);
    assert_eq!(parse(&fs::read_to_string(&file).unwrap())["pages"], 10);

    Pipeline::of(web.url("/")).with("-q --summary /dev/null").run().expect(0);
    let ended = Pipeline::of(web.url("/")).with("-q --summary /dev/full").run().expect(3);
    assert!(
        ended.stderr.contains("cannot write the summary to '/dev/full': No space left"),
        "{}",
        ended.stderr
    );
}

#[test]
fn summary_is_written_to_a_named_pipe() {
    let web = ten_pages();
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = pipe.clone();
    let reader = thread::spawn(move || {
        let mut text = String::new();
        File::open(reader).unwrap().read_to_string(&mut text).unwrap();
        text
    });
    let crawl = Pipeline::of(web.url("/")).with("-q --similarity 0 --summary");
    crawl.with_one(pipe.to_str().unwrap()).run().expect(0);
    let summary: Value = serde_json::from_str(&reader.join().unwrap()).unwrap();
    assert_eq!(summary["pages"], 10);
}

#[test]
fn two_outputs_cannot_share_standard_output_and_a_directory_is_no_summary() {
    for (options, words) in [
        ("--summary - --module jsonl=-", "--summary - and --module jsonl=- both write to standard output"),
        (
            "--summary /dev/stdout --module edges=/dev/stdout",
            "and --module edges=- both write to standard output",
        ),
        ("--summary /dev/fd/99", "cannot write --summary '/dev/fd/99': No such file"),
        ("--summary /tmp", "it is not a regular file"),
        ("--module pages=/dev/stdout", "cannot use module 'pages': it needs a directory"),
    ] {
        let ended = Pipeline::of("http://127.0.0.1:1/").with(options).run().expect(2);
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
}

#[test]
fn crawl_begins_by_saying_what_it_will_do() {
    let web = ten_pages();
    let state_dir = StateDir::new();
    let (seed, lines) = (web.url("/"), state_dir.path("lines"));
    let counted = "pages are only counted; to keep them: --module jsonl=FILE or --module pages=DIR\n";
    let ended = Pipeline::of(&*seed).run().expect(0);
    let plan = format!("crawling {seed}; all hosts; up to 10,000 pages, 50.0 MB");
    assert_eq!(ended.stderr, format!("{plan}\n{counted}"));
    let ended = Pipeline::of(&*seed).with("-v").run().expect(0);
    assert_eq!(ended.stderr, format!("{plan}\n{counted}"));
    assert_eq!(Pipeline::of(&*seed).with("-q").run().expect(0).stderr, "");

    let crawl = state_dir.crawl(&*seed).with("--scope host --max-pages 5").module("jsonl", &lines);
    let stderr = crawl.run().expect(0).stderr;
    let plan = format!("crawling {seed}; only the hosts of the seeds; up to 5 pages, 50.0 MB; to jsonl=");
    assert!(stderr.starts_with(&plan) && !stderr.contains("only counted"), "{stderr}");
    let stderr = state_dir.resume("--max-pages 100").wait().expect(0).stderr;
    assert!(stderr.contains(&plan.replace("5 pages", "100 pages")), "{stderr}");
    let stderr = state_dir.resume("").wait().expect(0).stderr;
    assert!(!stderr.contains("crawling"), "{stderr}");

    let directory = tempfile::tempdir().unwrap();
    let classic =
        binary().args([&seed, directory.path().to_str().unwrap(), "1", "--delay", "0"]).output().unwrap();
    let stderr = String::from_utf8(classic.stderr).unwrap();
    let (host, path) = (seed.trim_end_matches('/'), directory.path().display());
    assert!(
        stderr.starts_with(&format!("crawling {seed}; only {host}, depth 1; pages to {path}/\n")),
        "{stderr}"
    );
}
