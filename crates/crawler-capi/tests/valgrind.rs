//! Runs the C programs and the example under valgrind: no leaks, no invalid accesses, no data races.

mod toolchain;

use std::fs;
use tempfile::TempDir;
use toolchain::{Linkage, Program, crate_directory, succeed, succeed_silently};

const LEAKS: [&str; 3] = ["--leak-check=full", "--show-leak-kinds=all", "--errors-for-leak-kinds=all"];

fn without_leaks(name: &str) {
    let source = crate_directory().join("tests/c").join(name);
    for linkage in [Linkage::Shared, Linkage::Static] {
        succeed_silently(&mut Program::compile(&source, linkage).under_valgrind(&LEAKS));
    }
}

macro_rules! without_leaks {
    ($($name:ident: $program:literal,)*) => {
        $(#[test] #[ignore = "needs valgrind: run by make test"] fn $name() { without_leaks($program); })*
    };
}

// All programs except the one that replaces `free` itself, and those that measure time and memory.
without_leaks! {
    bad_arguments_leak_nothing: "bad_arguments.c",
    link_scanner_reads_within_bounds: "link_rule.c",
    edge_strings_are_valid_during_the_callback: "every_edge_in_order.c",
    clique_leaks_nothing: "fetched_once.c",
    busy_workers_leak_nothing: "all_inside_at_once.c",
    full_queue_leaks_nothing: "queue_bound.c",
    broken_links_leak_nothing: "broken_links.c",
    thread_creation_failure_leaks_nothing: "threads_refused.c",
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
fn callbacks_of_the_example_have_no_data_race() {
    let (example, pages) = (crate_directory().join("examples/crawl_directory.c"), directory_of_pages());
    let program = Program::compile(&example, Linkage::Shared);
    for options in race_detectors() {
        let mut command = program.under_valgrind(&options.each_ref().map(String::as_str));
        let output = succeed(command.arg(pages.path()).arg("0"));
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 400);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "20 pages, 0 broken links, 400 edges\n");
    }
}

#[test]
#[ignore = "needs valgrind: run by make test"]
fn data_race_between_callbacks_is_detected() {
    let program = Program::compile(&crate_directory().join("tests/c/races/racy.c"), Linkage::Shared);
    for options in race_detectors() {
        let output = program.under_valgrind(&options.each_ref().map(String::as_str)).output().unwrap();
        let report = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(99), "{report}");
        assert!(report.contains("racy.c"), "{report}");
    }
}
