//! The C programs and the example under valgrind: no leak, no invalid access, no race between callbacks.

use std::fs;

use tempfile::TempDir;

use super::toolchain::{Linkage, Program, crate_directory, succeed, succeed_silently};

const LEAK_CHECK: [&str; 3] = ["--leak-check=full", "--show-leak-kinds=all", "--errors-for-leak-kinds=all"];

fn run_without_leaks(name: &str) {
    let source = crate_directory().join("tests/c").join(name);
    for linkage in [Linkage::Shared, Linkage::Static] {
        succeed_silently(&mut Program::of(&source, linkage).under_valgrind(&LEAK_CHECK));
    }
}

macro_rules! no_leaks {
    ($($test:ident: $program:literal,)*) => {
        $(#[test] #[ignore = "needs valgrind: run by make test"] fn $test() { run_without_leaks($program); })*
    };
}

// All programs except the one that replaces valgrind's free with its own, and those that measure time and memory.
no_leaks! {
    invalid_arguments_leak_nothing: "bad_arguments.c",
    link_scanner_reads_no_byte_beyond_the_page: "link_rule.c",
    edges_are_valid_during_their_callback: "every_edge_in_order.c",
    clique_leaks_nothing: "fetched_once.c",
    busy_workers_leak_nothing: "all_inside_at_once.c",
    full_queue_leaks_nothing: "queue_bound.c",
    broken_links_leak_nothing: "broken_links.c",
    thread_that_cannot_start_leaks_nothing: "threads_refused.c",
    nested_crawls_leak_nothing: "crawls_apart.c",
    long_links_leak_nothing: "any_bytes.c",
    html_pages_leak_nothing: "html_links.c",
}

fn race_detectors() -> [[String; 2]; 2] {
    let suppressions = crate_directory().join("tests/valgrind.supp");
    ["helgrind", "drd"]
        .map(|tool| [format!("--tool={tool}"), format!("--suppressions={}", suppressions.display())])
}

/// A directory of pages that all link to each other.
fn directory_of_pages() -> TempDir {
    let directory = TempDir::new().unwrap();
    let links: String = (0..20).map(|number| format!("link:{number} ")).collect();
    for number in 0..20 {
        fs::write(directory.path().join(number.to_string()), &links).unwrap();
    }
    directory
}

#[test]
#[ignore = "needs valgrind: run by make test"]
fn callbacks_of_the_example_do_not_race() {
    let (example, pages) = (crate_directory().join("examples/crawl_directory.c"), directory_of_pages());
    let program = Program::of(&example, Linkage::Shared);
    for options in race_detectors() {
        let mut command = program.under_valgrind(&options.each_ref().map(String::as_str));
        let output = succeed(command.arg(pages.path()).arg("0"));
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 400);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "20 pages, 0 broken links, 400 edges\n");
    }
}

#[test]
#[ignore = "needs valgrind: run by make test"]
fn racing_callbacks_are_detected() {
    let program = Program::of(&crate_directory().join("tests/c/races/racy.c"), Linkage::Shared);
    for options in race_detectors() {
        let output = program.under_valgrind(&options.each_ref().map(String::as_str)).output().unwrap();
        let report = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(99), "{report}");
        assert!(report.contains("racy.c"), "{report}");
    }
}
