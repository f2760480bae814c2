//! `status`, `why` and `show` while a crawl with `--state` runs, and after it was killed.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testweb::{Request, Response, Site, Web};

use crate::common::{Running, binary, linking_to, run, serve};
use crate::dashboard::until;
use crate::pipeline::Pipeline;
use crate::state::StateDir;

/// A site whose page `/slow` responds after a minute.
fn slow_site() -> Web {
    serve(Site::new().page("/", linking_to(&["/fast", "/slow"]) + "the first page").fallback(
        |request: &Request| {
            let seconds = if request.path == "/slow" { 60 } else { 0 };
            Response::page("a page").delay(Duration::from_secs(seconds))
        },
    ))
}

/// A crawl that waits for its last page.
fn waiting_crawl(web: &Web, place: &StateDir) -> Running {
    let mut crawl = place.crawl(web.url("/")).with("--timeout 2m --similarity 0").start();
    crawl.until("all requests", |_| web.hits() == 3);
    let fast = web.url("/fast");
    crawl.until("a commit", |_| {
        let why = binary().args(["why", &fast, "--state", &place.state()]).output().unwrap();
        String::from_utf8_lossy(&why.stdout).contains("outcome: page")
    });
    crawl
}

/// Suspends a process, as Ctrl-Z does.
pub fn suspend(process: &Running) {
    process.signal(Signal::STOP);
    let stat = format!("/proc/{}/stat", process.id());
    until("the stop", || fs::read_to_string(&stat).unwrap().contains(") T "));
}

fn status(place: &StateDir) -> Value {
    serde_json::from_str(&run(&["status", &place.state(), "--json"]).expect(0).stdout).unwrap()
}

#[test]
fn running_crawl_answers_and_a_killed_one_is_read_from_its_state() {
    let (web, place) = (slow_site(), StateDir::new());
    let crawl = waiting_crawl(&web, &place);
    let (state, url) = (place.state(), |path: &str| web.url(path));
    let show = run(&["show", &url("/"), "--state", &state]).expect(0);
    assert!(show.stdout.contains("the first page"), "{}", show.stdout);
    let pending = run(&["why", &url("/slow"), "--state", &state]).expect(0);
    assert!(
        pending.stdout.contains("outcome: pending") && pending.stdout.contains("reached: found on"),
        "{}",
        pending.stdout
    );
    let unknown = run(&["why", &url("/unknown"), "--state", &state]).expect(1);
    assert!(unknown.stdout.contains("never admitted, no crawled page"), "{}", unknown.stdout);
    let long = url(&format!("/{}", "x".repeat(30_000)));
    assert!(run(&["why", &long, "--state", &state]).expect(1).stdout.contains("URL too long"));
    let text = run(&["status", &state]).expect(0).stdout;
    assert!(text.starts_with(&format!("Crawl in '{state}': running (process ")), "{text}");
    assert!(text.contains("\nPending            1\n") && !text.contains("Queues: "), "{text}");
    assert!(run(&["status", &state, "-v"]).expect(0).stdout.contains("\nQueues:  new 0 · "));
    let object = status(&place);
    assert_eq!(
        (&object["state"], &object["pages"], &object["pending"]),
        (&"running".into(), &2.into(), &1.into())
    );
    assert!(object["process"].is_u64() && object["queues"]["priority_queues"].is_array(), "{object}");
    assert_eq!(run(&["status", &state, "-q"]).expect(0).stdout, "");

    let words = format!("crawler: cannot open the state in '{state}': another process is using it");
    for second in [place.crawl(web.url("/")).run(), place.resume("").wait()] {
        let second = second.expect(1);
        assert!(second.stderr.starts_with(&words), "{}", second.stderr);
    }
    let socket = place.path("state").join("crawl.socket");
    let metadata = fs::symlink_metadata(&socket).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);

    crawl.signal(Signal::KILL);
    crawl.wait().expect(137);
    assert!(socket.exists(), "a killed process leaves its socket");
    let text = run(&["status", &state]).expect(0).stdout;
    assert!(text.starts_with(&format!("Crawl in '{state}': stopped\n")), "{text}");
    assert!(text.ends_with(&format!("To resume: crawler resume {state}\n")), "{text}");
    assert!(run(&["why", &url("/slow"), "--state", &state]).expect(0).stdout.contains("outcome: pending"));
    let mut again = place.resume("");
    again.until("another request", |_| web.hits() == 4);
    assert_eq!(status(&place)["state"], "running", "the stale socket is replaced");
    again.signal(Signal::KILL);
    again.wait().expect(137);
    let ended = place.resume("--timeout 100ms").wait().expect(0);
    assert!(ended.stdout.contains("timeout"), "{}", ended.stdout);
    let text = run(&["status", &state]).expect(0).stdout;
    assert!(
        text.starts_with(&format!("Crawl in '{state}': finished\n")) && text.contains("--retry-failed"),
        "{text}"
    );
    assert_eq!(status(&place)["state"], "finished");
    assert!(!socket.exists(), "it is removed at the end");
}

#[test]
fn hundred_readers_and_stalled_connections_do_not_stop_the_crawl() {
    let (web, place) = (serve(Site::seeded(5, 150)), StateDir::new());
    let crawl = place.crawl(web.url("/")).with("--scope host --similarity 0 --delay 10ms --workers 1");
    let mut crawl = crawl.module("jsonl", &place.path("lines")).start();
    crawl.until("some requests", |_| web.hits() >= 5);
    let socket = place.path("state").join("crawl.socket");
    // Connections that never ask, and one that asks for far too much.
    let stalled: Vec<UnixStream> = (0..20).filter_map(|_| UnixStream::connect(&socket).ok()).collect();
    if let Some(mut stream) = stalled.first() {
        let _ = std::io::Write::write_all(&mut stream, &[0xFF; 64]);
    }
    let readers: Vec<_> = (0..100)
        .map(|reader| {
            let mut command = binary();
            match reader % 3 {
                0 => command.args(["status", &place.state()]),
                1 => command.args(["why", &web.url("/"), "--state", &place.state()]),
                _ => command.args(["show", &web.url("/"), "--state", &place.state()]),
            };
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let failed: Vec<String> = readers
        .into_iter()
        .map(|reader| reader.wait_with_output().unwrap())
        .filter(|output| !output.status.success())
        .map(|output| String::from_utf8_lossy(&output.stderr).into_owned())
        .collect();
    drop(stalled);
    let ended = crawl.wait().expect(0);
    assert!(failed.is_empty(), "{} readers failed: {failed:?}", failed.len());
    assert_eq!(crate::pipeline::objects_in(&place.path("lines")).len() as u64, ended.outcomes()["page"]);
}

#[test]
fn readers_of_a_suspended_crawl_name_its_process_instead_of_waiting() {
    let (web, place) = (slow_site(), StateDir::new());
    let crawl = waiting_crawl(&web, &place);
    suspend(&crawl);
    let (state, url) = (place.state(), web.url("/"));
    let id = crawl.id();
    for query in
        [&["status", &state][..], &["why", &url, "--state", &state], &["show", &url, "--state", &state]]
    {
        let ended = run(query).expect(1);
        let words = format!(
            "crawler: cannot read the state in '{state}': the process that uses it (pid {id}) is suspended; \
             continue it with 'fg' or 'kill -CONT {id}'\n"
        );
        assert_eq!(ended.stderr, words);
    }
    crawl.signal(Signal::CONT);
    assert_eq!(status(&place)["state"], "running");
    crawl.signal(Signal::KILL);
    crawl.wait().expect(137);
}

#[test]
fn socket_in_a_deep_directory_can_be_used() {
    let (web, place) = (slow_site(), StateDir::new());
    let deep = place.path(&["a_directory_with_a_rather_long_name"; 6].join("/"));
    fs::create_dir_all(&deep).unwrap();
    let state = deep.join("state").display().to_string();
    assert!(state.len() > 200);
    let crawl = crate::pipeline::Pipeline::of(web.url("/")).with("--timeout 2m --similarity 0 --state");
    let mut crawl = crawl.with_one(state.clone()).start();
    crawl.until("all requests", |_| web.hits() == 3);
    let text = run(&["status", &state]).expect(0).stdout;
    assert!(text.contains("': running (process "), "{text}");
    crawl.signal(Signal::KILL);
    crawl.wait().expect(137);
    assert!(run(&["status", &state]).expect(0).stdout.contains("': stopped\n"));
}

#[test]
fn crawl_runs_without_a_socket_and_says_so_once() {
    let (web, place) = (slow_site(), StateDir::new());
    let state = place.path("state");
    fs::create_dir(&state).unwrap();
    fs::write(state.join("crawl.socket"), "not a socket").unwrap();
    let mut crawl = place.crawl(web.url("/")).with("--timeout 2m --similarity 0").start();
    crawl.until("all requests", |_| web.hits() == 3);
    let ended = run(&["status", &place.state()]).expect(1);
    assert!(ended.stderr.contains("another process is using it"), "{}", ended.stderr);
    crawl.signal(Signal::KILL);
    let notice = "crawler: cannot reply to other processes that read the state while the crawl runs: ";
    let stderr = crawl.wait().stderr;
    assert_eq!(stderr.matches(notice).count(), 1, "{stderr}");
    assert_eq!(read(&state.join("crawl.socket")), "not a socket", "it is not deleted");
    assert!(run(&["status", &place.state()]).expect(0).stdout.contains("': stopped\n"));
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn why_and_status_name_the_robots_txt_for_which_the_only_url_of_a_host_waits() {
    let (web, place) = (serve(Site::new().fallback(|_: &Request| Response::status(503))), StateDir::new());
    let seed = web.url("/");
    let crawl = Pipeline::bare(&seed).with("--similarity 0 --delay 1s --state").with_one(place.state());
    let mut crawl = crawl.start();
    crawl.until("the reason", |_| {
        let why = binary().args(["why", &seed, "--state", &place.state()]).output().unwrap();
        let why = String::from_utf8_lossy(&why.stdout).into_owned();
        why.contains("outcome: pending\n  waits: robots.txt fails (HTTP 503")
    });
    let text = run(&["status", &place.state()]).expect(0).stdout;
    let host = seed.trim_start_matches("http://").trim_end_matches('/');
    let line = text.lines().find(|line| line.starts_with("Waiting: ")).unwrap_or_default();
    assert!(line.contains(host) && line.contains("robots.txt fails (HTTP 503"), "{text}");
    crawl.signal(Signal::KILL);
    crawl.wait().expect(137);
}
