//! `crawler demo --pipeline`, which itself checks what it shows.

use std::fs;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{binary, names};

#[test]
fn pipeline_demo_kills_and_resumes_a_crawl() {
    let directory = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let mut demo = binary();
    // The crawls of the demo take no options from the environment.
    demo.args(["demo", "--pipeline"]).env("TMPDIR", directory.path()).env("CRAWLER_MAX_PAGES", "1");
    let output = demo.output().unwrap();
    let (printed, errors) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{printed}{errors}");
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    for words in [
        "$ crawler crawl http://harbour.test:",
        "kill -9",
        "$ crawler resume ",
        "\nRequests ",
        "repeated path segments",
        "host page limit ",
        "each once",
        "no request came sooner than 400 ms",
        "$ crawler why ",
        "  outcome: near-duplicate of ",
    ] {
        assert!(printed.contains(words), "{words} is not in {printed}");
    }
    assert!(!printed.contains("NO: "), "{printed}");
    assert!(errors.contains("resuming: "), "{errors}");
    assert_eq!(names(directory.path()).len(), 1);
}

/// The child processes of a process.
fn children_of(parent: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

#[test]
fn interrupted_demo_leaves_no_process_behind() {
    for signal in [Signal::INT, Signal::TERM] {
        let directory = tempfile::tempdir().unwrap();
        let mut demo: Child = binary()
            .args(["demo", "--pipeline"])
            .env("TMPDIR", directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let started = Instant::now();
        let children = loop {
            let children = children_of(demo.id());
            if !children.is_empty() {
                break children;
            }
            assert!(started.elapsed() < Duration::from_secs(10), "no crawl was started");
            thread::sleep(Duration::from_millis(5));
        };
        kill_process(Pid::from_raw(demo.id() as i32).unwrap(), signal).unwrap();
        let code = if signal == Signal::INT { 130 } else { 143 };
        assert_eq!(demo.wait().unwrap().code(), Some(code));
        for child in children {
            assert!(!fs::exists(format!("/proc/{child}")).unwrap(), "the crawl outlives the demonstration");
        }
        assert!(names(directory.path()).is_empty(), "nothing else is left either");
    }
}
