//! What goes wrong around a crawl: a full disk, files that vanish or cannot be written, a second process.

use std::fs;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use tempfile::TempDir;
use testweb::Web;

use super::checks;
use super::process::{Orders, ended};
use super::world::World;

const WORLD: World = World { hosts: 3, pages: 40, print_views: false };

fn begin() -> (Web, TempDir, Orders) {
    let (web, directory) = (WORLD.serve(), tempfile::tempdir().unwrap());
    let orders = Orders::new(&web.url_of("h0.test", "/"), directory.path()).set("delay", 1);
    (web, directory, orders)
}

fn assert_whole(directory: &Path, web: &Web) {
    checks::counts(directory, WORLD);
    checks::state(directory, WORLD, web);
    checks::outputs(directory, WORLD, web);
}

fn assert_refused((status, said): (ExitStatus, String), words: &str) {
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.starts_with("error: ") && said.contains(words), "{said}");
    assert!(said.lines().count() == 1 && !said.contains("panicked"), "{said}");
}

#[test]
fn a_full_disk_ends_the_crawl_with_a_word_and_loses_nothing() {
    let world = World { pages: 300, ..WORLD };
    let (web, directory) = (world.serve(), tempfile::tempdir().unwrap());
    let orders = Orders::new(&web.url_of("h0.test", "/"), directory.path()).set("delay", 0);
    let size =
        || fs::metadata(directory.path().join("state/crawl.state")).map_or(0, |file| file.len() / 1024);
    // Too little for a state to be begun at all, then for it to grow, again and again.
    assert_refused(orders.run_confined(100), "state");
    assert_eq!(size(), 0);
    let (mut ends, mut kilobytes) = (0, 1_000);
    loop {
        let ended = orders.run_confined(kilobytes);
        if ended.0.success() {
            break;
        }
        assert_refused(ended, "state");
        (ends, kilobytes) = (ends + 1, kilobytes * 3 / 2);
    }
    assert!(ends >= 2, "{ends} ends, {} kB", size());
    checks::counts(directory.path(), world);
    checks::state(directory.path(), world, &web);
    checks::outputs(directory.path(), world, &web);
}

#[test]
fn an_output_that_is_not_what_it_was_is_refused_and_once_put_back_gone_on_with() {
    let (web, directory, orders) = begin();
    let (jsonl, aside) = (directory.path().join("jsonl"), directory.path().join("aside"));
    let orders = orders.set("max-pages", 5);
    assert!(orders.run().0.success());
    let orders = orders.set("max-pages", 1_000_000);
    fs::rename(&jsonl, &aside).unwrap();
    fs::create_dir(&jsonl).unwrap();
    assert_refused(orders.run(), "not a regular file");
    fs::remove_dir(&jsonl).unwrap();
    assert_refused(orders.run(), "put the whole file back");
    fs::rename(&aside, &jsonl).unwrap();
    let (status, said) = orders.run();
    assert!(status.success(), "{said}");
    assert_whole(directory.path(), &web);
}

#[test]
fn a_second_process_is_refused_while_the_first_is_at_work() {
    let (web, directory, orders) = begin();
    let orders = orders.set("delay", 20);
    let first = orders.start();
    while web.hits() < 10 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_refused(orders.run(), "another process is at work");
    let (status, said) = ended(first);
    assert!(status.success(), "{said}");
    assert_whole(directory.path(), &web);
}

#[test]
fn a_state_that_cannot_be_used_is_refused_by_name() {
    let (_web, directory, orders) = begin();
    let state = directory.path().join("state");
    fs::write(&state, "a file").unwrap();
    assert_refused(orders.run(), "state");
    fs::remove_file(&state).unwrap();
    fs::create_dir_all(state.join("crawl.state")).unwrap();
    assert_refused(orders.run(), "directory");
    let nowhere = directory.path().join("no").join("where").display().to_string();
    assert_refused(orders.clone().set("state", nowhere).run(), "cannot make state directory");
    assert!(!directory.path().join("jsonl").exists(), "nothing was begun");
}

#[test]
fn a_state_that_may_not_be_written_is_refused_and_left_alone() {
    use std::os::unix::fs::PermissionsExt;
    let (web, directory, orders) = begin();
    assert!(orders.clone().set("max-pages", 5).run().0.success());
    let file = directory.path().join("state").join("crawl.state");
    let before = fs::read(&file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    // Root may write whatever the permissions say.
    if fs::OpenOptions::new().write(true).open(&file).is_err() {
        assert_refused(orders.run(), "crawl.state");
        assert!(fs::read(&file).unwrap() == before);
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let (status, said) = orders.run();
    assert!(status.success(), "{said}");
    assert_whole(directory.path(), &web);
}

#[test]
fn outputs_whose_state_has_vanished_are_not_written_over() {
    let (web, directory, orders) = begin();
    let first = orders.clone().set("delay", 20).start();
    while web.hits() < 10 {
        std::thread::sleep(Duration::from_millis(5));
    }
    fs::remove_dir_all(directory.path().join("state")).unwrap();
    let (status, said) = ended(first);
    // Its files are open, and stay until it ends.
    assert!(status.success() && !said.contains("panicked"), "{said}");
    let lines = fs::read(directory.path().join("jsonl")).unwrap();
    assert!(!lines.is_empty());
    assert_refused(orders.run(), "exists and holds");
    assert!(fs::read(directory.path().join("jsonl")).unwrap() == lines);
}
