//! Crawls with `--state`: stopped, resumed, rejected, finished.

use crawler::internal::pipeline::CrawlerInternals as _;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use testweb::{Site, Web};

use crate::common::{Ended, Running, binary, counts, names, read_page, run, serve};
use crate::pipeline::{Pipeline, adds_up, objects, objects_in, urls};

/// A directory with the state of a crawl and the outputs of its modules.
pub struct StateDir(TempDir);

impl StateDir {
    pub fn new() -> StateDir {
        StateDir(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn state(&self) -> String {
        self.path("state").display().to_string()
    }

    /// A crawl with its state in this directory.
    pub fn crawl(&self, seed: impl Into<String>) -> Pipeline {
        Pipeline::of(seed).with("--state").with_one(self.state())
    }

    /// The same with every kind of output.
    fn crawl_into_files(&self, seed: &str) -> Pipeline {
        let crawl = self.crawl(seed).with("--similarity 0 --workers 2");
        ["jsonl", "pages", "edges"]
            .into_iter()
            .fold(crawl, |crawl, name| crawl.module(name, &self.path(name)))
    }

    /// Resumes the crawl.
    pub fn resume(&self, options: &str) -> Running {
        self.continued_by("resume", options)
    }

    /// Visits its URLs again.
    pub fn recrawl(&self, options: &str) -> Running {
        self.continued_by("recrawl", options)
    }

    fn continued_by(&self, name: &str, options: &str) -> Running {
        let mut command: Command = binary();
        command.args([name, &self.state()]).args(options.split_whitespace());
        Running::start(command, PathBuf::from("/nowhere"), None)
    }
}

/// Stops a crawl after this many more requests.
fn stopped_after(web: &Web, requests: usize, mut crawl: Running) -> Ended {
    let before = web.hits();
    crawl.until("some requests", |_| web.hits() >= before + requests);
    crawl.signal(Signal::INT);
    crawl.wait().expect(130)
}

/// A seeded web on many hosts.
fn large_web() -> (Web, String) {
    let web = Web::builder().seeded_hosts(21, 15, 20).start();
    let seed = web.url_of("h0.test", "/");
    (web, seed)
}

/// Slow enough to be stopped before it ends, and without hosts that do not respond.
const WITHIN: &str = r"--delay 10ms --include ^http://h\d+\.test:";

#[test]
fn stopped_and_resumed_crawl_has_the_outputs_of_an_uninterrupted_one() {
    let (web, seed) = large_web();
    let (uninterrupted, resumed) = (StateDir::new(), StateDir::new());
    uninterrupted.crawl_into_files(&seed).with(WITHIN).run().expect(0);

    let first = stopped_after(&web, 60, resumed.crawl_into_files(&seed).with(WITHIN).start());
    assert!(
        first.stderr.contains(&format!("to resume: crawler resume {}\n", resumed.state())),
        "{}",
        first.stderr
    );
    let second = stopped_after(&web, 60, resumed.resume("--workers 3"));
    assert!(second.stderr.contains("resuming: ") && second.stderr.contains(" so far, "), "{}", second.stderr);
    stopped_after(&web, 60, resumed.crawl_into_files(&seed).with(WITHIN).start());
    let last = resumed.resume(&format!("--summary {}", resumed.path("sum").display())).wait().expect(0);
    let summary: Value = serde_json::from_slice(&fs::read(resumed.path("sum")).unwrap()).unwrap();
    assert_eq!(adds_up(&summary)["page"] as usize, names(&resumed.path("pages")).len());
    assert_eq!((&summary["state"], &summary["resumed"]), (&"finished".into(), &true.into()));
    assert!(!last.stdout.contains("Stopped"), "{}", last.stdout);

    let truth = web.truth_from(&seed, 1_000);
    let pages = objects_in(&resumed.path("jsonl"));
    assert!(urls(&pages).iter().eq(truth.keys()));
    assert!(urls(&objects_in(&uninterrupted.path("jsonl"))).iter().eq(truth.keys()));
    let mut numbers: Vec<u64> = names(&resumed.path("pages")).iter().filter_map(|n| n.parse().ok()).collect();
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(1..=truth.len() as u64), "{numbers:?}");
    for (index, page) in pages.iter().enumerate() {
        let saved = read_page(&resumed.path("pages").join((index + 1).to_string()));
        assert_eq!(page["url"], saved.url);
        assert_eq!(truth[&saved.url].1, saved.body);
    }
    let edges = |state_dir: &StateDir| -> BTreeSet<String> {
        fs::read_to_string(state_dir.path("edges")).unwrap().lines().map(str::to_owned).collect()
    };
    assert_eq!(edges(&resumed), edges(&uninterrupted));
    let requested: Vec<_> = web.log().iter().map(|hit| (hit.host.clone(), hit.path.clone())).collect();
    let once: BTreeSet<_> = requested.iter().collect();
    assert_eq!(requested.len(), 2 * once.len(), "each crawl requested everything once");
}

#[test]
fn finished_crawl_does_nothing_when_resumed() {
    let web = serve(Site::seeded(5, 20));
    let state_dir = StateDir::new();
    let crawl =
        || state_dir.crawl(web.url("/")).with("--scope host").module("jsonl", &state_dir.path("lines"));
    let first = crawl().run().expect(0);
    let (lines, hits) = (fs::read(state_dir.path("lines")).unwrap(), web.hits());
    for again in [crawl().run(), state_dir.resume("").wait(), state_dir.resume("--max-pages 90000").wait()] {
        let again = again.expect(0);
        let message = format!(
            "the crawl in '{}' is already finished ({} pages); nothing to do\n",
            state_dir.state(),
            first.outcomes()["page"]
        );
        assert!(again.stderr.contains(&message), "{}", again.stderr);
        assert_eq!(again.outcomes(), first.outcomes());
        assert_eq!((fs::read(state_dir.path("lines")).unwrap(), web.hits()), (lines.clone(), hits));
    }
    assert_eq!(state_dir.resume("-q").wait().expect(0).stderr, "");
    let object = objects(&state_dir.resume("--progress json").wait().expect(0).stderr).pop().unwrap();
    assert_eq!(object["state"], "finished");
    let again = objects(&state_dir.resume("--progress json").wait().expect(0).stderr).pop().unwrap();
    assert_eq!(object["elapsed_seconds"], again["elapsed_seconds"], "a start-up is no crawl time");
}

#[test]
fn state_that_is_not_a_directory_is_a_usage_error() {
    let (web, state_dir) = (serve(Site::new()), StateDir::new());
    fs::write(state_dir.path("state"), "").unwrap();
    for ended in [state_dir.crawl(web.url("/")).run(), state_dir.resume("").wait()] {
        let ended = ended.expect(2);
        let message =
            format!("cannot use the state directory '{}': it is not a directory", state_dir.state());
        assert!(ended.stderr.contains(&message), "{}", ended.stderr);
    }
    assert_eq!(web.hits(), 0);
}

#[test]
fn reached_limit_is_named_and_can_be_raised() {
    let web = serve(Site::seeded(5, 60));
    let state_dir = StateDir::new();
    let crawl =
        |options: &str| state_dir.crawl(web.url("/")).with("--scope host --similarity 0").with(options).run();
    let check_hint = |ended: &Ended, option: &str| {
        let words = format!(": crawler resume {} {option} N\n", state_dir.state());
        assert!(ended.stderr.contains(&format!("to continue, raise {option} (now ")), "{}", ended.stderr);
        assert!(ended.stderr.contains(&words), "{words} is not in {}", ended.stderr);
    };
    check_hint(&crawl("--max-pages 10").expect(0), "--max-pages");
    let hits = web.hits();
    let again = crawl("--max-pages 10").expect(0);
    check_hint(&again, "--max-pages");
    assert!(again.stderr.contains("resuming: 10 pages so far, "), "{}", again.stderr);
    assert_eq!((again.outcomes()["page"], web.hits()), (10, hits), "no request was sent");
    assert_eq!(state_dir.resume("--max-pages 20").wait().expect(0).outcomes()["page"], 20);
    assert_eq!(crawl("--max-pages 25").expect(0).outcomes()["page"], 25);
    for (option, most, more) in [("--max-bytes", "5KB", "6KB"), ("--max-time", "3s", "3100ms")] {
        let state_dir = StateDir::new();
        let crawl = state_dir.crawl(web.url("/")).with("--scope host --delay 100ms").with(option).with(most);
        let words = format!("): crawler resume {} {option} N\n", state_dir.state());
        for ended in
            [crawl.run(), state_dir.resume("").wait(), state_dir.resume(&format!("{option} {more}")).wait()]
        {
            let ended = ended.expect(0);
            assert!(ended.stderr.contains(&words), "{words} is not in {}", ended.stderr);
        }
    }
}

#[test]
fn unusable_state_is_named_and_not_modified() {
    let web = serve(Site::seeded(5, 10));
    let state_dir = StateDir::new();
    let at =
        |path: &Path| Pipeline::of(web.url("/")).with("--state").with_one(path.display().to_string()).run();
    let nowhere = at(&state_dir.path("no/such")).expect(2);
    assert!(nowhere.stderr.contains("cannot create the state directory '"), "{}", nowhere.stderr);
    fs::write(state_dir.path("file"), "dear").unwrap();
    let file = at(&state_dir.path("file")).expect(2);
    assert!(file.stderr.contains("/file': it is not a directory; "), "{}", file.stderr);
    for command in ["resume", "show", "why"] {
        let empty = state_dir.path("").display().to_string();
        let arguments: &[&str] = match command {
            "resume" => &["resume", &empty],
            command => &[command, "http://a.test/", "--state", &empty],
        };
        let ended = run(arguments).expect(2);
        assert!(ended.stderr.contains("': there is none; give the state directory"), "{}", ended.stderr);
    }
    assert_eq!(names(&state_dir.path("")), ["file"], "nothing was created");
    assert_eq!(web.hits(), 0);

    fs::create_dir(state_dir.path("state")).unwrap();
    let text = "This is not a state at all, but a letter. ".repeat(200);
    let state = state_dir.path("state").join("crawl.state");
    fs::write(&state, &text).unwrap();
    let url = web.url("/");
    for ended in [
        state_dir.crawl(&url).run(),
        state_dir.resume("").wait(),
        run(&["why", &url, "--state", &state_dir.state()]),
        run(&["show", &url, "--state", &state_dir.state()]),
    ] {
        let ended = ended.expect(1);
        assert!(ended.stderr.contains("crawl.state"), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
    assert_eq!((fs::read_to_string(&state).unwrap(), web.hits()), (text, 0));
}

#[test]
fn crawl_of_another_program_is_not_resumed() {
    let web = serve(Site::new().page("/", "x"));
    for note in ["", "a note", r#"{"options":{}}"#, r#"{"crawler":"9.0","options":{"seeds":[]}}"#] {
        let state_dir = StateDir::new();
        let report = crawler::Crawler::new(&web.url("/"))
            .unwrap()
            .state_dir(state_dir.path("state"))
            .metadata(note)
            .run_blocking();
        report.unwrap();
        let ended = state_dir.resume("").wait().expect(2);
        let words = match note.contains("9.0") {
            true => "version 9.0 saved them",
            false => "a program that uses the library started it",
        };
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
        let why = run(&["why", &web.url("/"), "--state", &state_dir.state()]).expect(0);
        assert!(why.stdout.contains("outcome: page 1, "), "{}", why.stdout);
    }
}

#[test]
fn passwords_are_not_saved_and_resume_warns_about_them() {
    let web = serve(Site::seeded(5, 30));
    let state_dir = StateDir::new();
    let seed = web.url("/").replace("http://", "http://me:s3cret@");
    let crawl = |pages: &str| {
        state_dir.crawl(&seed).with("--scope host --similarity 0 --max-pages").with(pages).run()
    };
    crawl("5").expect(0);
    let state = fs::read(state_dir.path("state").join("crawl.state")).unwrap();
    assert!(!state.windows(6).any(|bytes| bytes == b"s3cret"));
    let warning = "the state does not contain the user name and password for 127.0.0.1";
    for pages in ["--max-pages 10", "--max-pages 15"] {
        let before = web.hits();
        let ended = state_dir.resume(pages).wait().expect(0);
        assert!(ended.stderr.contains(warning), "{}", ended.stderr);
        assert!(web.log()[before..].iter().all(|hit| hit.header("authorization").is_none()));
    }
    let before = web.hits();
    let ended = crawl("20").expect(0);
    assert!(!ended.stderr.contains(warning), "{}", ended.stderr);
    assert!(web.log()[before..].iter().any(|hit| hit.header("authorization").is_some()));
}

#[test]
fn resumed_crawl_does_not_follow_a_public_seed_to_a_private_address() {
    let (web, place) = (serve(Site::new().page("/", "x")), StateDir::new());
    let file = place.path("addresses");
    fs::write(&file, "h.test=1.1.1.1").unwrap();
    // The retry waits for the delay, so that the crawl stops before it.
    let crawl = Pipeline::bare(web.url_of("h.test", "/"))
        .with("--ignore-robots --connect-timeout 100ms --delay 1s --max-time 600ms --state")
        .with_one(place.state())
        .with("--resolve-file")
        .with_one(file.display().to_string());
    let stopped = crawl.run();
    assert!(stopped.stdout.contains("Not reached"), "{}{}", stopped.stdout, stopped.stderr);
    fs::write(&file, "h.test=127.0.0.1").unwrap();
    let resumed = place.resume("--max-time 50s").wait();
    assert_eq!(resumed.outcomes(), counts(&[("page", 0), ("private address", 1)]), "{}", resumed.stderr);
    assert_eq!(web.hits(), 0);
}
