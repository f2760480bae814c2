//! The files of contrib/ for distributed crawls: the unit of systemd.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use super::fixture::Fixture;
use super::process::Process;

#[test]
#[ignore = "needs redis-server: run by make test"]
fn worker_of_the_systemd_unit_survives_sighup_and_ends_with_success() {
    let fixture = Fixture::new(1, 1);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/systemd/crawler-worker@.service");
    let unit = fs::read_to_string(path).unwrap();
    let setting = |name: &str| -> Vec<&str> {
        let line = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("there is no {name}")).split(' ').collect()
    };
    assert_eq!(setting("Restart"), ["always"], "also if a signal ended it");
    let words = setting("ExecStart").into_iter().map(|word| word.replace("%i", "0"));
    let words: Vec<String> = words.collect();
    assert_eq!(words[0], "/usr/local/bin/crawler");
    let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    let command: Command = fixture.crawler(&arguments);
    let mut worker = Process::start(command);
    worker.wait_for_output("a worker without a crawl", |log| log.contains("waiting for the crawl"));
    worker.signal(Signal::HUP);
    worker.wait_for_output("the signal in the log", |log| log.contains("SIGHUP"));
    worker.signal(Signal::TERM);
    let (status, output) = worker.wait();
    let status = status.unwrap_or_else(|| panic!("a signal killed it: {output}")).to_string();
    assert!(setting("SuccessExitStatus").contains(&&*status), "{status}: {output}");
}
