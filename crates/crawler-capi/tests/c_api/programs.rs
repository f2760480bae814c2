//! The guarantees of `crawl.h`: one C program each, run with the shared and the static library.

use super::toolchain::{Linkage, Program, crate_directory, succeed_silently};

/// Each program checks itself and exits with a failure if a guarantee is broken. Otherwise it prints nothing, and
/// neither does the library.
fn run(name: &str) {
    let source = crate_directory().join("tests/c").join(name);
    for linkage in [Linkage::Shared, Linkage::Static] {
        succeed_silently(&mut Program::of(&source, linkage).command());
    }
}

macro_rules! guarantees {
    ($($guarantee:ident: $program:literal,)*) => {
        $(#[test] fn $guarantee() { run($program); })*

        #[test]
        fn every_program_has_a_test() {
            let mut tested = vec![$($program),*];
            tested.sort();
            let files = crate_directory().join("tests/c").read_dir().unwrap();
            let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
            let mut programs: Vec<_> = names.filter(|name| name.ends_with(".c")).collect();
            programs.sort();
            assert_eq!(tested, programs);
        }
    };
}

guarantees! {
    invalid_arguments_are_rejected_before_any_callback: "bad_arguments.c",
    link_is_a_word_that_starts_with_link_and_a_colon: "link_rule.c",
    every_link_occurrence_is_an_edge_in_page_order: "every_edge_in_order.c",
    link_found_on_many_pages_is_fetched_once: "fetched_once.c",
    all_workers_can_be_in_callbacks_at_once: "all_inside_at_once.c",
    queue_never_exceeds_its_size: "queue_bound.c",
    any_positive_sizes_work_on_any_graph: "any_sizes.c",
    broken_link_is_not_a_failure: "broken_links.c",
    each_page_is_freed_once: "freed_once.c",
    thread_that_cannot_start_fails_the_crawl_before_any_callback: "threads_refused.c",
    too_little_memory_for_the_threads_is_a_recoverable_failure: "no_memory_for_threads.c",
    crawls_are_independent: "crawls_apart.c",
    idle_workers_use_no_cpu: "idle_costs_nothing.c",
    links_are_bytes_of_any_value_and_length: "any_bytes.c",
    html_links_are_resolved_against_their_page: "html_links.c",
}
