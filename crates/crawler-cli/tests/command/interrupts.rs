//! Ctrl-C, SIGTERM and a closed terminal while a command waits for something else.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testweb::{Request, Response, Site, Web};

use crate::common::{Crawl, binary, linking_to, serve};
use crate::pipeline::Pipeline;
use crate::terminal::Terminal;

/// How long a test waits for an exit.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Sends SIGINT again and again until the process exits, and returns its exit status. Signals may be merged while it is busy.
#[track_caller]
fn interrupt_until_exit(child: &mut Child) -> Option<i32> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if started.elapsed() > TIMEOUT {
            child.kill().unwrap();
            panic!("it does not end");
        }
        // The process may have just exited.
        let _ = kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::INT);
        thread::sleep(Duration::from_millis(200));
    }
}

/// A page with more links than `-v` can print into a pipe that nobody reads.
fn many_links() -> Web {
    let links: Vec<String> = (0..3_000).map(|n| format!("/a-page-with-a-long-name-{n}")).collect();
    let links: Vec<&str> = links.iter().map(String::as_str).collect();
    serve(
        Site::new()
            .page("/", linking_to(&links))
            .fallback(|request: &Request| Response::page(request.path.clone())),
    )
}

#[test]
fn crawl_whose_output_is_not_read_can_be_interrupted() {
    let web = many_links();
    let directory = tempfile::tempdir().unwrap();
    let commands: [Command; 2] = [
        Crawl::of(web.url("/")).with("-v").into_directory(directory.path()).command(),
        Pipeline::of(web.url("/")).with("-v --similarity 0").command(),
    ];
    for mut command in commands {
        let before = web.hits();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let started = Instant::now();
        while web.hits() < before + 2 && started.elapsed() < TIMEOUT {
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(interrupt_until_exit(&mut child), Some(130));
    }
}

#[test]
fn crawl_that_writes_its_last_files_can_be_interrupted() {
    let web = serve(Site::new().page("/", "x"));
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Nothing reads the pipe.
    let command = Pipeline::of(web.url("/")).with("--summary").with_one(pipe.display().to_string()).command();
    let mut terminal = Terminal::run(&command, 80, 24);
    terminal.until("the summary", |screen| screen.has("Requests "));
    terminal.press(b"\x03");
    terminal.until("the key", |screen| screen.has("^C"));
    terminal.press_until_exit(b"\x03");
    let (status, screen) = terminal.wait();
    assert_eq!(status, Some(130), "{}", screen.text());
    assert_eq!(screen.count(" pending"), 0, "{}", screen.text());
}

#[test]
fn check_on_a_terminal_has_live_lines_and_its_report_below() {
    let slow = |request: &Request| Response::page(request.path.clone()).delay(Duration::from_secs(3));
    let web =
        serve(Site::new().page("/", linking_to(&["/a", "/b"])).status("/robots.txt", 404).fallback(slow));
    let mut command = binary();
    command.args(["check", &web.url("/"), "--allow-private", "--delay", "0", "--timeout", "2m"]);
    let mut terminal = Terminal::run(&command, 80, 24);
    terminal.until("the lines", |screen| screen.count(" pending") == 1 && screen.has("1 page · "));
    let (status, screen) = terminal.wait();
    assert_eq!(status, Some(0), "{}", screen.text());
    assert_eq!(screen.count(" pending") + screen.count("Fetched: "), 0, "{}", screen.text());
    assert!(screen.lines().last().unwrap().contains("none broken"), "{}", screen.text());
}

#[test]
fn crawl_whose_terminal_is_closed_ends_unless_it_has_a_log() {
    let slow = |request: &Request| Response::page(request.path.clone()).delay(Duration::from_secs(3));
    let web = serve(Site::new().page("/", linking_to(&["/a"])).status("/robots.txt", 404).fallback(slow));
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    for has_log in [false, true] {
        let mut crawl = Pipeline::of(web.url("/")).with("--timeout 2m");
        if has_log {
            crawl = crawl.with("--log").with_one(log.display().to_string());
        }
        let mut terminal = Terminal::run(&crawl.command(), 80, 24);
        terminal.until("the lines", |screen| screen.has(" pending"));
        terminal.signal(Signal::HUP);
        let (status, screen) = terminal.wait();
        assert_eq!(status, has_log.then_some(0), "{}", screen.text());
    }
    assert!(fs::read_to_string(log).unwrap().contains("crawl: crawl ended"));
}
