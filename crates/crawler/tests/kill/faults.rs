//! Faults around a crawl: a full disk, missing or read-only files, a second process.

use std::fs;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use tempfile::TempDir;
use testweb::Web;

use super::checks;
use super::known_web::KnownWeb;
use super::process::{CrawlCommand, wait};

const KNOWN_WEB: KnownWeb = KnownWeb { hosts: 3, pages: 40, print_views: false };

fn setup() -> (Web, TempDir, CrawlCommand) {
    let (web, directory) = (KNOWN_WEB.serve(), tempfile::tempdir().unwrap());
    let command = CrawlCommand::new(&web.url_of("h0.test", "/"), directory.path()).set("delay", 1);
    (web, directory, command)
}

fn assert_complete(directory: &Path, web: &Web) {
    checks::counts(directory, KNOWN_WEB);
    checks::state(directory, KNOWN_WEB, web);
    checks::outputs(directory, KNOWN_WEB, web);
}

fn assert_refused((status, stderr): (ExitStatus, String), words: &str) {
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("error: ") && stderr.contains(words), "{stderr}");
    assert!(stderr.lines().count() == 1 && !stderr.contains("panicked"), "{stderr}");
}

#[test]
fn full_disk_ends_the_crawl_with_an_error_and_loses_nothing() {
    let known_web = KnownWeb { pages: 300, ..KNOWN_WEB };
    let (web, directory) = (known_web.serve(), tempfile::tempdir().unwrap());
    let command = CrawlCommand::new(&web.url_of("h0.test", "/"), directory.path()).set("delay", 0);
    let size =
        || fs::metadata(directory.path().join("state/crawl.state")).map_or(0, |file| file.len() / 1024);
    // Too little space to create the state, then too little for it to grow, again and again.
    assert_refused(command.run_with_file_limit(100), "state");
    assert_eq!(size(), 0);
    let (mut failures, mut kilobytes) = (0, 1_000);
    loop {
        let result = command.run_with_file_limit(kilobytes);
        if result.0.success() {
            break;
        }
        assert_refused(result, "state");
        (failures, kilobytes) = (failures + 1, kilobytes * 3 / 2);
    }
    assert!(failures >= 2, "{failures} failures, {} kB", size());
    checks::counts(directory.path(), known_web);
    checks::state(directory.path(), known_web, &web);
    checks::outputs(directory.path(), known_web, &web);
}

#[test]
fn replaced_output_is_refused_until_it_is_restored() {
    let (web, directory, command) = setup();
    let (jsonl, aside) = (directory.path().join("jsonl"), directory.path().join("aside"));
    let command = command.set("max-pages", 5);
    assert!(command.run().0.success());
    let command = command.set("max-pages", 1_000_000);
    fs::rename(&jsonl, &aside).unwrap();
    fs::create_dir(&jsonl).unwrap();
    assert_refused(command.run(), "not a regular file");
    fs::remove_dir(&jsonl).unwrap();
    assert_refused(command.run(), "restore the file");
    fs::rename(&aside, &jsonl).unwrap();
    let (status, stderr) = command.run();
    assert!(status.success(), "{stderr}");
    assert_complete(directory.path(), &web);
}

#[test]
fn second_process_is_refused_while_the_first_runs() {
    let (web, directory, command) = setup();
    let command = command.set("delay", 20);
    let first = command.start();
    while web.hits() < 10 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_refused(command.run(), "another process is using it");
    let (status, stderr) = wait(first);
    assert!(status.success(), "{stderr}");
    assert_complete(directory.path(), &web);
}

#[test]
fn unusable_state_directory_is_refused() {
    let (_web, directory, command) = setup();
    let state = directory.path().join("state");
    fs::write(&state, "a file").unwrap();
    assert_refused(command.run(), "state");
    fs::remove_file(&state).unwrap();
    fs::create_dir_all(state.join("crawl.state")).unwrap();
    assert_refused(command.run(), "directory");
    let missing_parent = directory.path().join("no").join("where").display().to_string();
    assert_refused(command.clone().set("state", missing_parent).run(), "cannot create the state directory");
    assert!(!directory.path().join("jsonl").exists(), "no output was created");
}

#[test]
fn read_only_state_is_refused_and_not_changed() {
    use std::os::unix::fs::PermissionsExt;
    let (web, directory, command) = setup();
    assert!(command.clone().set("max-pages", 5).run().0.success());
    let file = directory.path().join("state").join("crawl.state");
    let before = fs::read(&file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    // Root can write whatever the permissions are.
    if fs::OpenOptions::new().write(true).open(&file).is_err() {
        assert_refused(command.run(), "crawl.state");
        assert!(fs::read(&file).unwrap() == before);
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let (status, stderr) = command.run();
    assert!(status.success(), "{stderr}");
    assert_complete(directory.path(), &web);
}

#[test]
fn outputs_without_their_state_are_not_overwritten() {
    let (web, directory, command) = setup();
    let first = command.clone().set("delay", 20).start();
    while web.hits() < 10 {
        std::thread::sleep(Duration::from_millis(5));
    }
    fs::remove_dir_all(directory.path().join("state")).unwrap();
    // The files that it has open stay until it exits.
    let (status, stderr) = wait(first);
    assert!(status.success() && !stderr.contains("panicked"), "{stderr}");
    let lines = fs::read(directory.path().join("jsonl")).unwrap();
    assert!(!lines.is_empty());
    assert_refused(command.run(), "already has");
    assert!(fs::read(directory.path().join("jsonl")).unwrap() == lines);
}
