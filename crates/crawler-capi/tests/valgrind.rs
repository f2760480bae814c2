//! The C programs and the example under valgrind: no leak, no bad access, no race between callbacks.

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
    ($($promise:ident: $program:literal,)*) => {
        $(#[test] #[ignore = "needs valgrind: run by make test"] fn $promise() { without_leaks($program); })*
    };
}

// All but the one that puts its own free in place of valgrind's, and those that measure time and memory.
without_leaks! {
    bad_arguments_leave_nothing_behind: "bad_arguments.c",
    scanning_reads_no_byte_too_many: "link_rule.c",
    edges_are_whole_while_they_are_announced: "every_edge_in_order.c",
    a_clique_leaves_nothing_behind: "fetched_once.c",
    full_pools_leave_nothing_behind: "all_inside_at_once.c",
    a_full_queue_leaves_nothing_behind: "queue_bound.c",
    broken_links_leave_nothing_behind: "broken_links.c",
    a_refused_thread_leaves_nothing_behind: "threads_refused.c",
    crawls_in_crawls_leave_nothing_behind: "crawls_apart.c",
    long_links_leave_nothing_behind: "any_bytes.c",
    html_pages_leave_nothing_behind: "html_links.c",
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
fn the_callbacks_of_the_example_do_not_race() {
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
fn callbacks_that_race_are_found_out() {
    let program = Program::compile(&crate_directory().join("tests/c/races/racy.c"), Linkage::Shared);
    for options in race_detectors() {
        let output = program.under_valgrind(&options.each_ref().map(String::as_str)).output().unwrap();
        let report = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(99), "{report}");
        assert!(report.contains("racy.c"), "{report}");
    }
}
