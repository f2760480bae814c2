//! Real programs: well-behaved, dying, deaf and missing ones.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::*;
use crate::modules::example;
use std::time::Instant;

/// Programs are started again soon; everything else may take its time on a busy machine.
const SOON: Times = Times { first_restart: Duration::from_millis(5), ..TIMES };

/// Pages do not wait long.
const IMPATIENT: Times = Times { stall: Duration::from_millis(300), ..SOON };

fn page(number: usize) -> Page {
    example::page(&format!("http://a.test/{number}"), b"<p>some text", &[])
}

/// A page of about so many bytes, in which every other byte is escaped.
fn large_page(number: usize, bytes: usize) -> Page {
    example::page(&format!("http://a.test/{number}"), "\"x".repeat(bytes / 2).as_bytes(), &[])
}

/// The command with FILE standing for a file in the directory.
fn command(directory: &Path, command: &str) -> String {
    command.replace("FILE", directory.join("seen").to_str().unwrap())
}

/// The numbers of the pages that a program wrote to its file as whole lines of JSON.
fn seen(directory: &Path) -> Vec<usize> {
    let lines = fs::read_to_string(directory.join("seen")).unwrap_or_default();
    let number = |line: &str| {
        let page: serde_json::Value = serde_json::from_str(line).unwrap();
        page["url"].as_str().unwrap().rsplit('/').next().unwrap().parse().unwrap()
    };
    lines.lines().map(number).collect()
}

#[test]
fn a_program_sees_every_page_once_in_order_and_has_ended_when_the_crawl_has() {
    let directory = tempfile::tempdir().unwrap();
    let exec = Exec::new(&command(directory.path(), "cat > FILE"));
    for number in 0..500 {
        exec.process_page(&page(number)).unwrap();
    }
    exec.process_page(&large_page(500, 400_000)).unwrap();
    exec.finish().unwrap();
    assert_eq!(seen(directory.path()), (0..=500).collect::<Vec<_>>());
    assert!(exec.summary().unwrap().ends_with("was sent 501 pages; exit status: 0"), "{:?}", exec.summary());
    assert!(exec.process_page(&page(1)).unwrap_err().contains("has been ended"));
}

#[test]
fn pages_of_many_threads_arrive_whole() {
    let directory = tempfile::tempdir().unwrap();
    let exec = Exec::new(&command(directory.path(), "cat > FILE"));
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

/// Feeds pages to a program that dies again and again, and finds every one of them in its file.
fn every_page_is_seen(program: &str, page: impl Fn(usize) -> Page) -> Vec<usize> {
    let directory = tempfile::tempdir().unwrap();
    let exec = Exec::with(&command(directory.path(), program), SOON);
    for number in 0..20 {
        exec.process_page(&page(number)).unwrap();
    }
    // How the last of the programs ended is of no concern here.
    let _ = exec.finish();
    let numbers = seen(directory.path());
    assert_eq!(numbers.iter().copied().collect::<BTreeSet<_>>(), (0..20).collect(), "{program}: {numbers:?}");
    assert!(exec.summary().unwrap().contains("restarted"), "{:?}", exec.summary());
    numbers
}

/// Writes three lines to its file and dies over the fourth, having read ahead as far as it could.
const DIES_OVER_THE_FOURTH: &str = "python3 -c '
import sys
for count, line in enumerate(sys.stdin):
    if count == 3: sys.exit(1)
    open(\"FILE\", \"a\").write(line)
'";

#[test]
fn a_program_that_dies_is_restarted_and_what_it_had_in_work_is_sent_again() {
    let numbers = every_page_is_seen(DIES_OVER_THE_FOURTH, page);
    assert!(numbers.len() <= 20 + 20 / 3 + 1, "no more is sent twice than must be: {numbers:?}");
    every_page_is_seen(DIES_OVER_THE_FOURTH, |number| large_page(number, 150_000));
}

#[test]
fn a_program_that_dies_over_the_last_page_gets_it_again() {
    let directory = tempfile::tempdir().unwrap();
    let times = Times { settle: Duration::from_secs(3), ..SOON };
    let exec = Exec::with(&command(directory.path(), DIES_OVER_THE_FOURTH), times);
    (0..4).for_each(|number| exec.process_page(&page(number)).unwrap());
    exec.finish().unwrap();
    assert_eq!(seen(directory.path()), [0, 1, 2, 3]);
}

#[test]
fn a_program_that_reads_byte_by_byte_and_is_killed_sees_every_page() {
    let kills_itself = "n=0; while IFS= read -r line; do printf '%s\\n' \"$line\" >> FILE; n=$((n+1)); [ $n = 2 ] && kill -9 $$; done";
    every_page_is_seen(kills_itself, page);
}

#[test]
fn a_program_that_ends_with_success_has_finished_what_it_read() {
    let numbers = every_page_is_seen("head -n 3 >> FILE", page);
    assert_eq!(numbers, (0..20).collect::<Vec<_>>());
    let numbers = every_page_is_seen("head -n 1 >> FILE", page);
    assert_eq!(numbers, (0..20).collect::<Vec<_>>());
}

#[test]
fn a_page_over_which_every_program_dies_ends_in_giving_up() {
    let directory = tempfile::tempdir().unwrap();
    let poisoned = "python3 -uc '
import sys
for line in sys.stdin:
    if \"test/3\" in line: sys.exit(9)
    open(\"FILE\", \"a\").write(line)
'";
    let exec = Exec::with(&command(directory.path(), poisoned), SOON);
    let failed: Vec<usize> = (0..8).filter(|number| exec.process_page(&page(*number)).is_err()).collect();
    assert!(
        exec.finish().unwrap_err().contains("6 times in a row without finishing a page (exit status: 9)")
    );
    assert_eq!(seen(directory.path()), [0, 1, 2]);
    assert!(!failed.is_empty() && failed[0] > 3 && failed.ends_with(&[7]), "{failed:?}");
}

#[test]
fn a_program_that_never_reads_does_not_hold_the_crawl_up() {
    let exec = Exec::with("exec sleep 1000", Times { last_work: Duration::from_millis(400), ..IMPATIENT });
    let begun = Instant::now();
    let outcomes: Vec<_> = (0..100).map(|number| exec.process_page(&large_page(number, 20_000))).collect();
    assert!(outcomes[0].is_ok(), "it is in the pipe");
    let refused = outcomes[1].as_ref().unwrap_err();
    assert!(refused.contains("has read nothing for 300ms"), "{refused}");
    assert!(outcomes[1..].iter().all(Result::is_err));
    assert!(begun.elapsed() < Duration::from_secs(10), "only the first page waited");
    assert!(exec.finish().unwrap_err().contains("did not read all its pages"));
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(exec.summary().unwrap().contains("99 could not be sent"), "{:?}", exec.summary());
}

#[test]
fn a_program_that_reads_again_after_a_stall_gets_pages_again() {
    let directory = tempfile::tempdir().unwrap();
    let exec = Exec::with(&command(directory.path(), "sleep 2; cat > FILE"), IMPATIENT);
    let begun = Instant::now();
    let mut number = 0;
    while exec.process_page(&page(number)).is_ok() {
        number += 1;
    }
    while exec.process_page(&page(1000)).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it never reads again");
        thread::sleep(Duration::from_millis(20));
    }
    // An idle time is not a stall.
    thread::sleep(IMPATIENT.stall * 2);
    exec.process_page(&page(1001)).unwrap();
    exec.finish().unwrap();
    assert!(seen(directory.path()).ends_with(&[1000, 1001]), "{:?}", seen(directory.path()));
}

#[test]
fn a_program_that_does_not_end_is_killed_with_all_it_started() {
    let directory = tempfile::tempdir().unwrap();
    let program = command(directory.path(), "cat > /dev/null; sleep 1000 & echo $! > FILE; wait");
    let exec = Exec::with(&program, Times { last_work: Duration::from_secs(2), ..SOON });
    exec.process_page(&page(1)).unwrap();
    let refused = exec.finish().unwrap_err();
    assert!(refused.contains("did not end within 2s"), "{refused}");
    let sleeper = fs::read_to_string(directory.path().join("seen")).unwrap();
    let state = format!("/proc/{}/stat", sleeper.trim());
    let begun = Instant::now();
    // Gone, or dead and not yet collected by the system.
    while fs::read_to_string(&state).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(begun.elapsed() < Duration::from_secs(10), "it still sleeps");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_exit_status_is_reported() {
    let exec = Exec::with("cat > /dev/null; exit 3", SOON);
    exec.process_page(&page(1)).unwrap();
    let ended = exec.finish().unwrap_err();
    assert_eq!(ended, "program 'cat > /dev/null; exit 3' ended with exit status: 3");
    assert!(exec.summary().unwrap().ends_with("was sent 1 page; exit status: 3"));
}

#[test]
fn a_program_that_does_not_exist_is_given_up() {
    let exec = Exec::with("no-such-program-anywhere 2> /dev/null", SOON);
    let begun = Instant::now();
    let failed = (0..20).filter(|number| exec.process_page(&page(*number)).is_err()).count();
    assert!(failed >= 18, "{failed}");
    assert!(exec.finish().unwrap_err().contains("exit status: 127"));
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_program_is_not_started_before_the_first_page_and_ended_when_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let exec = Exec::new(&command(directory.path(), "cat >> FILE; echo >> FILE.end"));
    assert!(!directory.path().join("seen").exists());
    exec.process_page(&page(1)).unwrap();
    drop(exec);
    assert_eq!(seen(directory.path()), [1]);
    assert!(directory.path().join("seen.end").exists());
}

/// The variable that tells a test it is the crawl that shall be killed.
const DOOMED: &str = "CRAWLER_TEST_DOOMED_DIRECTORY";

#[test]
fn a_page_that_was_seen_is_read_even_if_the_crawl_is_killed_at_once() {
    if let Some(directory) = std::env::var_os(DOOMED) {
        let exec = Exec::new(&command(Path::new(&directory), "sleep 1; cat > FILE; echo > FILE.end"));
        exec.process_page(&page(7)).unwrap();
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        unreachable!("killed");
    }
    let directory = tempfile::tempdir().unwrap();
    let this_test = "modules::exec::tests::a_page_that_was_seen_is_read_even_if_the_crawl_is_killed_at_once";
    let crawl = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", this_test])
        .env(DOOMED, directory.path())
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert_eq!(crawl.to_string(), "signal: 9 (SIGKILL)");
    let begun = Instant::now();
    while !directory.path().join("seen.end").exists() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the program has not ended");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(seen(directory.path()), [7]);
}
