//! Tests with real programs: well-behaved, crashing, stalled and missing ones.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::*;
use crate::modules::example;
use std::time::Instant;

/// Short restart delays, and a short time after which a single page counts as processed. The other timeouts stay long, for a
/// busy machine.
const QUICK: Timeouts = Timeouts {
    first_restart_delay: Duration::from_millis(5),
    page_grace: Duration::from_millis(1),
    ..TIMEOUTS
};

/// Short restart delays, and long enough for a program to exit after it has read a page.
const QUICK_RESTART: Timeouts = Timeouts { page_grace: Duration::from_millis(700), ..QUICK };

fn page(number: usize) -> Page {
    example::page(&format!("http://a.test/{number}"), b"<p>some text", &[])
}

/// A page of about this many bytes, in which every other byte is escaped.
fn large_page(number: usize, bytes: usize) -> Page {
    example::page(&format!("http://a.test/{number}"), "\"x".repeat(bytes / 2).as_bytes(), &[])
}

/// The command with FILE replaced by the path of a file in the directory.
fn command(directory: &Path, command: &str) -> String {
    command.replace("FILE", directory.join("seen").to_str().unwrap())
}

/// The numbers of the pages that a program wrote to its file. Every line must be complete JSON.
fn seen(directory: &Path) -> Vec<usize> {
    let lines = fs::read_to_string(directory.join("seen")).unwrap_or_default();
    let number = |line: &str| {
        let page: serde_json::Value = serde_json::from_str(line).unwrap();
        page["url"].as_str().unwrap().rsplit('/').next().unwrap().parse().unwrap()
    };
    lines.lines().map(number).collect()
}

#[test]
fn program_gets_every_page_once_in_order_and_exits_before_the_crawl() {
    let directory = tempfile::tempdir().unwrap();
    let exec = Exec::with_timeouts(&command(directory.path(), "cat > FILE"), QUICK);
    for number in 0..500 {
        exec.process_page(&page(number)).unwrap();
    }
    exec.process_page(&large_page(500, 400_000)).unwrap();
    exec.finish().unwrap();
    assert_eq!(seen(directory.path()), (0..=500).collect::<Vec<_>>());
    assert!(exec.summary().unwrap().ends_with("was sent 501 pages; exit status: 0"), "{:?}", exec.summary());
    assert!(exec.process_page(&page(1)).unwrap_err().contains("it has been stopped"));
}

#[test]
fn lines_of_concurrent_threads_are_not_mixed() {
    let directory = tempfile::tempdir().unwrap();
    let exec = Exec::with_timeouts(&command(directory.path(), "cat > FILE"), QUICK);
    thread::scope(|threads| {
        for first in 0..8 {
            let exec = &exec;
            threads.spawn(move || {
                (first * 50..first * 50 + 50).for_each(|n| exec.process_page(&page(n)).unwrap())
            });
        }
    });
    exec.finish().unwrap();
    let mut numbers = seen(directory.path());
    numbers.sort_unstable();
    assert_eq!(numbers, (0..400).collect::<Vec<_>>());
}

/// Sends pages to a program that exits again and again, and checks that it got every page.
fn assert_every_page_arrives(program: &str, page: impl Fn(usize) -> Page + Sync) -> Vec<usize> {
    let directory = tempfile::tempdir().unwrap();
    let exec = Exec::with_timeouts(&command(directory.path(), program), QUICK_RESTART);
    // The page after a page decides that it is finished, so several wait.
    thread::scope(|threads| {
        for first in 0..4 {
            let (exec, page) = (&exec, &page);
            threads.spawn(move || {
                (first..20).step_by(4).for_each(|number| exec.process_page(&page(number)).unwrap())
            });
        }
    });
    // The exit status of the last program does not matter here.
    let _ = exec.finish();
    let mut numbers = seen(directory.path());
    assert_eq!(numbers.iter().copied().collect::<BTreeSet<_>>(), (0..20).collect(), "{program}: {numbers:?}");
    assert!(exec.summary().unwrap().contains("restarted"), "{:?}", exec.summary());
    numbers.sort_unstable();
    numbers
}

/// Writes three lines to its file and fails on the fourth, having read ahead as far as it can.
const FAILS_ON_THE_FOURTH: &str = "python3 -c '
import sys
for count, line in enumerate(sys.stdin):
    if count == 3: sys.exit(1)
    open(\"FILE\", \"a\").write(line)
'";

#[test]
fn crashed_program_is_restarted_and_unfinished_pages_are_sent_again() {
    let numbers = assert_every_page_arrives(FAILS_ON_THE_FOURTH, page);
    assert!(numbers.len() <= 20 + 20 / 3 + 1, "pages are sent twice without need: {numbers:?}");
    assert_every_page_arrives(FAILS_ON_THE_FOURTH, |number| large_page(number, 150_000));
}

#[test]
fn program_that_fails_on_the_last_page_gets_it_again() {
    let directory = tempfile::tempdir().unwrap();
    let exec = Exec::with_timeouts(&command(directory.path(), FAILS_ON_THE_FOURTH), QUICK_RESTART);
    thread::scope(|threads| {
        for number in 0..4 {
            let exec = &exec;
            threads.spawn(move || exec.process_page(&page(number)).unwrap());
        }
    });
    exec.finish().unwrap();
    let mut numbers = seen(directory.path());
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2, 3]);
}

#[test]
fn killed_program_that_reads_byte_by_byte_gets_every_page() {
    let kills_itself = "n=0; while IFS= read -r line; do printf '%s\\n' \"$line\" >> FILE; n=$((n+1)); [ $n = 2 ] && kill -9 $$; done";
    assert_every_page_arrives(kills_itself, page);
}

#[test]
fn program_that_exits_with_success_has_finished_what_it_read() {
    let numbers = assert_every_page_arrives("head -n 3 >> FILE", page);
    assert_eq!(numbers, (0..20).collect::<Vec<_>>());
    let numbers = assert_every_page_arrives("head -n 1 >> FILE", page);
    assert_eq!(numbers, (0..20).collect::<Vec<_>>());
}

#[test]
fn page_on_which_a_program_always_fails_is_not_processed() {
    let directory = tempfile::tempdir().unwrap();
    let poisoned = "python3 -uc '
import sys
for line in sys.stdin:
    if \"test/3\" in line: sys.exit(9)
    open(\"FILE\", \"a\").write(line)
'";
    let exec = Exec::with_timeouts(&command(directory.path(), poisoned), QUICK_RESTART);
    let failed: Vec<usize> = thread::scope(|threads| {
        let sent = (0..8).map(|number| {
            let exec = &exec;
            threads.spawn(move || exec.process_page(&page(number)).is_err().then_some(number))
        });
        sent.collect::<Vec<_>>().into_iter().filter_map(|sent| sent.join().unwrap()).collect()
    });
    let failure = exec.failure().unwrap();
    assert!(failure.ends_with("6 times in a row without finishing a page (exit status: 9)"), "{failure}");
    assert!(exec.finish().unwrap_err().ends_with(&failure));
    let processed: BTreeSet<usize> = seen(directory.path()).into_iter().collect();
    assert!(failed.contains(&3) && !processed.contains(&3), "{failed:?}");
    assert!((0..8).all(|number| processed.contains(&number) != failed.contains(&number)), "{failed:?}");
}

#[test]
fn page_that_a_program_fails_on_after_it_counts_as_processed_is_named() {
    let fails_late = "read -r line; sleep 1; exit 9";
    let timeouts = Timeouts { page_grace: Duration::from_millis(50), ..QUICK };
    let exec = Exec::with_timeouts(fails_late, timeouts);
    exec.process_page(&page(0)).unwrap();
    let error = exec.process_page(&page(1)).unwrap_err();
    assert!(error.ends_with("(exit status: 9); it may not have finished http://a.test/0"), "{error}");
}

#[test]
fn pages_wait_for_a_program_that_does_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let program = command(directory.path(), "while [ ! -e FILE.go ]; do sleep 0.01; done; cat > FILE");
    let exec = Exec::with_timeouts(&program, Timeouts { stall: Duration::from_millis(100), ..QUICK });
    thread::scope(|threads| {
        let sent: Vec<_> = (0..4)
            .map(|number| {
                let exec = &exec;
                threads.spawn(move || exec.process_page(&large_page(number, 200_000)).unwrap())
            })
            .collect();
        let start = Instant::now();
        let notice = loop {
            if let Some(notice) = exec.notice() {
                break notice;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "nothing is said about the program");
            thread::sleep(Duration::from_millis(5));
        };
        assert!(notice.ends_with("has read nothing for 0 s; the crawl waits for it"), "{notice}");
        assert!(sent.iter().all(|sent| !sent.is_finished()) && exec.failure().is_none());
        fs::write(directory.path().join("seen.go"), "").unwrap();
    });
    exec.finish().unwrap();
    assert_eq!(seen(directory.path()).len(), 4);
}

#[test]
fn program_that_never_reads_is_killed_when_the_crawl_stops() {
    let directory = tempfile::tempdir().unwrap();
    let program = command(directory.path(), "echo > FILE; exec sleep 1000");
    let exec = Exec::with_timeouts(&program, Timeouts { exit: Duration::from_millis(400), ..QUICK });
    let start = Instant::now();
    thread::scope(|threads| {
        let sent = threads.spawn(|| exec.process_page(&page(0)));
        // The program is started for the page.
        while !directory.path().join("seen").exists() {
            thread::sleep(Duration::from_millis(1));
        }
        exec.shutdown_requested();
        assert!(sent.join().unwrap().unwrap_err().ends_with("it has been stopped"));
    });
    assert!(exec.finish().unwrap_err().contains("did not read all its pages"));
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn program_that_does_not_exit_is_killed_with_its_children() {
    let directory = tempfile::tempdir().unwrap();
    let program = command(directory.path(), "cat > /dev/null; sleep 1000 & echo $! > FILE; wait");
    let exec = Exec::with_timeouts(&program, Timeouts { exit: Duration::from_secs(2), ..QUICK });
    exec.process_page(&page(1)).unwrap();
    let error = exec.finish().unwrap_err();
    assert!(error.contains("did not exit within 2s"), "{error}");
    let sleeper = fs::read_to_string(directory.path().join("seen")).unwrap();
    let stat_file = format!("/proc/{}/stat", sleeper.trim());
    let start = Instant::now();
    // Gone, or a zombie.
    while fs::read_to_string(&stat_file).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(start.elapsed() < Duration::from_secs(10), "the child still runs");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn exit_status_is_reported() {
    let exec = Exec::with_timeouts("cat > /dev/null; exit 3", QUICK);
    exec.process_page(&page(1)).unwrap();
    let error = exec.finish().unwrap_err();
    assert!(
        error.starts_with(
            "program 'cat > /dev/null; exit 3' failed at the end of its input (exit status: 3); "
        ),
        "{error}"
    );
    assert_eq!(exec.failure(), Some(error));
    assert!(exec.summary().unwrap().ends_with("was sent 1 page; exit status: 3"));
}

#[test]
fn missing_program_is_abandoned() {
    let exec = Exec::with_timeouts("no-such-program-anywhere 2> /dev/null", QUICK_RESTART);
    let start = Instant::now();
    let failed = (0..20).filter(|number| exec.process_page(&page(*number)).is_err()).count();
    assert_eq!(failed, 20);
    assert!(exec.finish().unwrap_err().contains("exit status: 127"));
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn program_starts_with_the_first_page_and_is_stopped_by_a_drop() {
    let directory = tempfile::tempdir().unwrap();
    let exec = Exec::new(&command(directory.path(), "cat >> FILE; echo >> FILE.end"));
    assert!(!directory.path().join("seen").exists());
    exec.process_page(&page(1)).unwrap();
    drop(exec);
    assert_eq!(seen(directory.path()), [1]);
    assert!(directory.path().join("seen.end").exists());
}

/// The environment variable that is set in the child process, which kills itself.
const KILLED_CRAWL: &str = "CRAWLER_TEST_DOOMED_DIRECTORY";

#[test]
fn program_reads_a_processed_page_after_the_crawl_was_killed() {
    if let Some(directory) = std::env::var_os(KILLED_CRAWL) {
        let exec = Exec::new(&command(Path::new(&directory), "sleep 1; cat > FILE; echo > FILE.end"));
        exec.process_page(&page(7)).unwrap();
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        unreachable!("killed");
    }
    let directory = tempfile::tempdir().unwrap();
    let this_test = "modules::exec::tests::program_reads_a_processed_page_after_the_crawl_was_killed";
    let crawl = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", this_test])
        .env(KILLED_CRAWL, directory.path())
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert_eq!(crawl.to_string(), "signal: 9 (SIGKILL)");
    let start = Instant::now();
    while !directory.path().join("seen.end").exists() {
        assert!(start.elapsed() < Duration::from_secs(30), "the program has not exited");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(seen(directory.path()), [7]);
}
