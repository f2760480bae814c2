//! The log (`--log`): what is in it, that it can be rotated while it is written, and that no log holds a crawl up or ends it.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use testweb::{Hostile, Proxy, Request, Response, Site, Web};

use crate::common::{Crawl, linking_to, run, serve};
use crate::pipeline::Pipeline;

/// A site of `pages` pages below its first one.
fn site_of(pages: usize) -> Web {
    let paths: Vec<String> = (0..pages).map(|page| format!("/{page}")).collect();
    let links: Vec<&str> = paths.iter().map(String::as_str).collect();
    serve(Site::new().page("/", linking_to(&links)).fallback(
        |request: &Request| match request.path.as_str() {
            "/robots.txt" => Response::status(404),
            path => Response::page(format!("page {path}")),
        },
    ))
}

struct LogFile {
    directory: TempDir,
}

impl LogFile {
    fn new() -> LogFile {
        LogFile { directory: TempDir::new().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    fn options(&self, level: &str) -> String {
        format!("--log {} --log-format json --log-level {level}", self.path().display())
    }

    fn events(&self) -> Vec<Value> {
        events(&fs::read_to_string(self.path()).unwrap())
    }
}

/// The events in the lines of a log. Checks what holds for every line.
#[track_caller]
fn events(text: &str) -> Vec<Value> {
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is not complete");
    let mut events = Vec::new();
    for line in text.lines() {
        let is_raw =
            |c: char| c.is_control() || matches!(c, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}');
        assert!(line.len() <= 4096 && !line.contains(is_raw), "{line:?}");
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let time = event["time"].as_str().unwrap();
        assert!(time.len() == 24 && time.starts_with("20") && time.ends_with('Z'), "{line}");
        assert!(event["pid"].as_u64().is_some() && !event["target"].as_str().unwrap().is_empty(), "{line}");
        events.push(event);
    }
    events
}

fn of<'a>(events: &'a [Value], event: &str) -> Vec<&'a Value> {
    events.iter().filter(|value| value["event"] == event).collect()
}

#[test]
fn log_has_every_request_and_every_url_of_each_mode() {
    let web =
        serve(Site::new().page("/", linking_to(&["/a", "/b", "/gone"])).page("/a", "a").page("/b", "b"));
    for is_classic in [true, false] {
        let (log, before) = (LogFile::new(), web.hits());
        match is_classic {
            true => drop(Crawl::of(web.url("/")).with(&log.options("debug")).run().expect(0)),
            false => {
                let crawl = Pipeline::bare(web.url("/")).with("--similarity 0").with(&log.options("debug"));
                drop(crawl.run().expect(0));
            }
        }
        let events = log.events();
        let requests = web.hits() - before;
        assert_eq!(of(&events, "request sent").len(), requests, "{events:#?}");
        assert_eq!(of(&events, "response").len(), requests, "{events:#?}");
        assert_eq!(of(&events, "URL completed").len(), 3);
        let failed = of(&events, "URL failed");
        assert_eq!((failed.len(), failed[0]["outcome"].as_str()), (1, Some("HTTP 404")));
        assert_eq!(
            (failed[0]["level"].as_str(), failed[0]["url"].as_str()),
            (Some("info"), Some(&*web.url("/gone")))
        );
        let ended = of(&events, "crawl ended")[0];
        assert_eq!((of(&events, "crawl started").len(), ended["pages"].as_u64()), (1, Some(3)));
        assert_eq!(ended["requests"].as_u64(), Some(requests as u64));
    }
}

#[test]
fn level_and_targets_select_the_events() {
    let web = site_of(3);
    let targets = |level: &str| {
        let log = LogFile::new();
        Pipeline::bare(web.url("/")).with(&log.options(level)).run().expect(0);
        let mut targets: Vec<(String, String)> = log
            .events()
            .iter()
            .map(|event| {
                (event["target"].as_str().unwrap().to_owned(), event["level"].as_str().unwrap().to_owned())
            })
            .collect();
        targets.sort();
        targets.dedup();
        targets
    };
    let pair = |target: &str, level: &str| (target.to_owned(), level.to_owned());
    assert_eq!(targets("warn"), []);
    assert_eq!(targets("off,url=debug"), [pair("url", "debug")]);
    assert_eq!(targets("info"), [pair("crawl", "info"), pair("notice", "info")]);
    assert!(targets("trace").contains(&pair("worker", "trace")));
    let ended =
        run(&["crawl", "http://h.test/", "--log", "/dev/null", "--log-level", "info,hosts=debug"]).expect(2);
    assert!(
        ended.stderr.contains("there is no target 'hosts'; there are command, crawl, host, "),
        "{}",
        ended.stderr
    );
}

#[test]
fn hostile_servers_break_no_line() {
    let paths: Vec<String> = Hostile::ALL.iter().map(|hostile| format!("/{hostile:?}/")).collect();
    let mut links: Vec<&str> = paths.iter().map(String::as_str).collect();
    links.extend(["/esc", "/bidi\u{202e}\u{7f}\"\\", "/long"]);
    let site = Site::new().page("/", linking_to(&links)).fallback(|request: &Request| {
        let text = "\u{1b}[2J\u{202e}\"\\\u{9b}1m";
        match request.path.as_str() {
            "/esc" => Response::redirect(302, &format!("http://h.test:1/{}", "x".repeat(6_000))),
            "/long" => Response::page(linking_to(&[&format!("/{}", "%01".repeat(600))])),
            _ => Response::status(404).header("X-Text", "a").body(format!("<title>{text}</title>")),
        }
    });
    let site = Hostile::ALL
        .iter()
        .zip(&paths)
        .fold(site, |site, (hostile, path)| site.response(path, Response::hostile(*hostile)));
    let (web, log) = (serve(site), LogFile::new());
    let crawl = Pipeline::bare(web.url("/"))
        .with("--scope host --timeout 700ms --max-page-bytes 500KB --concurrency 16");
    crawl.with(&log.options("trace")).run();
    let events = log.events();
    assert!(events.len() > 2 * Hostile::ALL.len(), "{}: {events:#?}", events.len());

    let text = TempDir::new().unwrap();
    let path = text.path().join("log");
    let crawl = Crawl::of(web.url("/"))
        .with("--timeout 700ms --max-page-bytes 500KB --concurrency 16 --log-level trace");
    crawl.with("--log").with_one(path.display().to_string()).run();
    let text = fs::read_to_string(path).unwrap();
    let is_raw = |c: char| c.is_control() && c != '\n' || ('\u{202A}'..='\u{202E}').contains(&c);
    assert!(!text.contains(is_raw) && text.lines().all(|line| line.starts_with("20") && line.len() <= 4096));
}

#[test]
fn rotation_loses_no_line_and_the_crawl_continues() {
    const PAGES: usize = 1_500;
    let (web, log) = (site_of(PAGES), LogFile::new());
    let crawl =
        Pipeline::bare(web.url("/")).with("--similarity 0 --concurrency 16").with(&log.options("trace"));
    let mut crawl = crawl.start();
    let mut files = Vec::new();
    for rotation in 0..10 {
        let old = log.directory.path().join(format!("log.{rotation}"));
        let requests = web.hits();
        crawl.until("lines", |_| {
            log.path().exists() && fs::metadata(log.path()).unwrap().len() > 0 && web.hits() > requests + 20
        });
        fs::rename(log.path(), &old).unwrap();
        crawl.signal(Signal::HUP);
        crawl.until("a new file", |_| log.path().exists());
        files.push(old);
    }
    crawl.wait().expect(0);
    files.push(log.path());
    let mut all = Vec::new();
    for file in &files {
        let events = events(&fs::read_to_string(file).unwrap());
        assert!(!events.is_empty(), "{}", file.display());
        all.extend(events);
    }
    assert_eq!(of(&all, "URL completed").len(), PAGES + 1);
    assert_eq!((of(&all, "response").len(), of(&all, "request sent").len()), (web.hits(), web.hits()));
    assert_eq!((of(&all, "lines dropped").len(), of(&all, "signal received").len()), (0, 10));
}

#[test]
fn file_that_is_truncated_in_place_continues_at_its_start() {
    let (web, log) = (site_of(400), LogFile::new());
    let mut crawl = Pipeline::bare(web.url("/")).with("--similarity 0").with(&log.options("debug")).start();
    crawl.until("lines", |_| fs::metadata(log.path()).is_ok_and(|file| file.len() > 2_000));
    OpenOptions::new().write(true).truncate(true).open(log.path()).unwrap();
    crawl.wait().expect(0);
    assert!(!fs::read(log.path()).unwrap().contains(&0), "the file has a hole");
    assert_eq!(of(&log.events(), "crawl ended").len(), 1);
}

#[test]
fn file_that_cannot_be_opened_again_stays_in_use() {
    let (web, log) = (site_of(600), LogFile::new());
    let inner = log.directory.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let file = inner.join("log");
    let options = format!("--log {} --log-format json --log-level debug", file.display());
    let mut crawl = Pipeline::bare(web.url("/")).with("--similarity 0").with(&options).start();
    crawl.until("lines", |_| file.exists());
    let moved = log.directory.path().join("moved");
    fs::rename(&inner, &moved).unwrap();
    crawl.signal(Signal::HUP);
    crawl.until_message("the old file stays in use");
    let ended = crawl.wait().expect(0);
    let message = format!("cannot open the log '{}' again: No such file or directory", file.display());
    assert_eq!(ended.stderr.matches(&message).count(), 1, "{}", ended.stderr);
    let events = events(&fs::read_to_string(moved.join("log")).unwrap());
    assert!(events.iter().any(|event| event["event"].as_str().unwrap().starts_with(&message)), "{message}");
    assert_eq!((of(&events, "URL completed").len(), of(&events, "crawl ended").len()), (601, 1));
}

#[test]
fn full_disk_is_said_once_and_does_not_end_the_crawl() {
    for is_classic in [true, false] {
        let (web, options) = (site_of(50), "--log /dev/full --log-level trace");
        let ended = match is_classic {
            true => Crawl::of(web.url("/")).with(options).run().expect(0),
            false => Pipeline::bare(web.url("/")).with("--similarity 0").with(options).run().expect(0),
        };
        assert_eq!(ended.outcomes()["page"], 51);
        let message = "crawler: cannot write to the log '/dev/full': No space left on device";
        assert_eq!(ended.stderr.matches(message).count(), 1, "{}", ended.stderr);
    }
}

#[test]
fn stalled_reader_of_a_pipe_does_not_stall_the_crawl() {
    let (web, directory) = (site_of(1_000), TempDir::new().unwrap());
    let pipe = directory.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    // It is opened, and never read.
    let reader = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(&pipe)
        .unwrap();
    let crawl = Pipeline::bare(web.url("/")).with("--similarity 0 --concurrency 16 --log-level trace --log");
    let ended = crawl.with_one(pipe.display().to_string()).run().expect(0);
    assert_eq!((ended.outcomes()["page"], web.hits()), (1_001, 1_002));
    drop(reader);
}

#[test]
fn two_processes_write_whole_lines_to_one_file() {
    let (first, second, log) = (site_of(400), site_of(400), LogFile::new());
    let start = |web: &Web| {
        Pipeline::bare(web.url("/"))
            .with("--similarity 0 --concurrency 16")
            .with(&log.options("trace"))
            .start()
    };
    let (one, two) = (start(&first), start(&second));
    one.wait().expect(0);
    two.wait().expect(0);
    let events = log.events();
    assert_eq!(of(&events, "URL completed").len(), 802);
    let pids: std::collections::BTreeSet<u64> =
        events.iter().map(|event| event["pid"].as_u64().unwrap()).collect();
    assert_eq!(pids.len(), 2);
}

#[test]
fn no_secret_is_logged() {
    let (web, proxy) = (site_of(3), Proxy::http().credentials("me", "s3cr-proxy").start());
    let logged = |options: &str| {
        let log = LogFile::new();
        let seed = web.url("/").replace("http://", "http://you:s3cr-seed@");
        let crawl = Pipeline::bare(seed).with(options).with(&log.options("trace"));
        crawl.with("--header").with_one("X-Token: s3cr-header").run();
        let text = fs::read_to_string(log.path()).unwrap();
        assert!(text.contains("URL completed") && !text.contains("s3cr"), "{text}");
    };
    logged("--cookie id=s3cr-cookie");
    logged(&format!("--proxy {}", proxy.url_with("me:s3cr-proxy")));
    // A proxy that rejects the password.
    let log = LogFile::new();
    let proxy = format!("--proxy {} --network-timeout 1s", proxy.url_with("me:s3cr-wrong"));
    Pipeline::bare(web.url("/")).with(&proxy).with(&log.options("trace")).run().expect(1);
    let text = fs::read_to_string(log.path()).unwrap();
    assert!(text.contains("rejects the user name and password") && !text.contains("s3cr"), "{text}");
}

#[test]
fn log_that_cannot_be_opened_is_an_error_before_the_first_request() {
    let (web, directory) = (site_of(1), TempDir::new().unwrap());
    let path = |name: &str| directory.path().join(name).display().to_string();
    assert!(std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
    for (file, cause) in [
        (path("none/log"), "No such file or directory"),
        (path(""), "Is a directory"),
        (path("pipe"), "no process reads it"),
    ] {
        for is_classic in [true, false] {
            let ended = match is_classic {
                true => Crawl::of(web.url("/")).with("--log").with_one(&file).run().expect(2),
                false => Pipeline::bare(web.url("/")).with("--log").with_one(&file).run().expect(2),
            };
            let message = format!("crawler: cannot open --log '{file}': {cause}");
            assert!(ended.stderr.starts_with(&message), "{}", ended.stderr);
        }
    }
    assert_eq!(web.hits(), 0);
}

#[test]
fn standard_error_has_the_log_alone() {
    let web = site_of(2);
    let options = "--log - --log-format json";
    let ended = Pipeline::bare(web.url("/")).with("--similarity 0").with(options).run().expect(0);
    assert_eq!(of(&events(&ended.stderr), "crawl ended").len(), 1);
    assert_eq!(ended.outcomes()["page"], 3);
    let ended = Crawl::of(web.url("/")).with(options).run().expect(0);
    assert_eq!(of(&events(&ended.stderr), "crawl ended").len(), 1);
    let ended =
        Crawl::of(web.url("/gone").replace("127.0.0.1", "127.0.0.1:1/x?")).with(options).run().expect(1);
    let events = events(&ended.stderr);
    let error = events.iter().find(|event| event["target"] == "command").unwrap();
    assert!(error["event"].as_str().unwrap().starts_with("cannot crawl the seed: "), "{error}");
}

#[test]
fn verbose_crawl_prints_outcomes_to_standard_output_and_other_events_to_standard_error() {
    let other = Site::new().page("/", "other").response("/robots.txt", Response::status(304));
    let site = Site::new().fallback(|request: &Request| match request.path.as_str() {
        "/" => Response::page(linking_to(&["/a", &request.origin().replace("a.test", "b.test")])),
        _ => Response::page("a page"),
    });
    let web = Web::builder().host("a.test", site).host("b.test", other).start();
    let crawl = Pipeline::bare(web.url_of("a.test", "/")).with("--resolve *=127.0.0.1 --allow-private -v");
    let ended = crawl.run().expect(0);
    assert_eq!(ended.stdout.matches("      Page: http").count(), 2, "{}", ended.stdout);
    let site = web.url_of("b.test", "");
    let event = format!(
        "crawler: INFO robots: robots.txt unavailable site={site} cause=\"robots.txt unavailable: HTTP 304\"\n"
    );
    assert_eq!(ended.messages(), event);
}

#[test]
fn signals_are_logged_and_the_last_lines_are_written() {
    let web = serve(Site::new().fallback(|request: &Request| match request.path.as_str() {
        "/robots.txt" => Response::status(404),
        path => Response::page(linking_to(&[&format!("{path}x")])),
    }));
    let log = LogFile::new();
    let mut crawl = Pipeline::bare(web.url("/")).with("--delay 20ms").with(&log.options("info")).start();
    crawl.until("requests", |_| web.hits() > 5);
    crawl.signal(Signal::TERM);
    crawl.wait().expect(143);
    let events = log.events();
    assert_eq!(of(&events, "signal received")[0]["signal"], "SIGTERM");
    assert_eq!(events.last().unwrap()["event"], "crawl ended");
}
