//! Tests of the guarantees of `crawl.h`: one C program each, run with the shared and the static library.

mod toolchain;

use toolchain::{Linkage, Program, crate_directory, succeed_silently};

/// Each program checks one guarantee, and exits with a failure if it is broken. Otherwise neither the program nor the
/// library prints anything.
fn holds(name: &str) {
    let source = crate_directory().join("tests/c").join(name);
    for linkage in [Linkage::Shared, Linkage::Static] {
        succeed_silently(&mut Program::compile(&source, linkage).command());
    }
}

macro_rules! guarantees {
    ($($name:ident: $program:literal,)*) => {
        $(#[test] fn $name() { holds($program); })*

        #[test]
        fn every_program_is_run() {
            let mut run = vec![$($program),*];
            run.sort();
            let files = crate_directory().join("tests/c").read_dir().unwrap();
            let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
            let mut programs: Vec<_> = names.filter(|name| name.ends_with(".c")).collect();
            programs.sort();
            assert_eq!(run, programs);
        }
    };
}

guarantees! {
    bad_arguments_are_rejected_without_a_callback: "bad_arguments.c",
    link_is_a_word_that_starts_with_link_and_a_colon: "link_rule.c",
    every_occurrence_of_a_link_is_an_edge_in_page_order: "every_edge_in_order.c",
    link_found_by_several_parsers_at_once_is_fetched_once: "fetched_once.c",
    all_workers_can_run_their_callbacks_at_once: "all_inside_at_once.c",
    queue_never_exceeds_its_size: "queue_bound.c",
    any_positive_sizes_work_on_any_graph: "any_sizes.c",
    broken_link_is_not_a_failure: "broken_links.c",
    each_page_is_freed_once: "freed_once.c",
    thread_creation_failure_stops_the_crawl_before_it_starts: "threads_refused.c",
    too_many_threads_for_the_memory_is_a_recoverable_failure: "no_memory_for_threads.c",
    concurrent_and_nested_crawls_are_independent: "crawls_apart.c",
    idle_workers_use_no_cpu: "idle_costs_nothing.c",
    links_may_have_any_bytes_and_any_length: "any_bytes.c",
    html_links_are_resolved_against_their_page: "html_links.c",
}
