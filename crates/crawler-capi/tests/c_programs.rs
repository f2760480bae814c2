//! The promises of `crawl.h`, one C program each, run against the shared and the static library.

mod toolchain;

use toolchain::{Linkage, Program, crate_directory, succeed_silently};

/// Each program checks itself and exits with a failure if a promise is broken. It prints nothing otherwise,
/// and neither must the library.
fn keeps_its_promise(name: &str) {
    let source = crate_directory().join("tests/c").join(name);
    for linkage in [Linkage::Shared, Linkage::Static] {
        succeed_silently(&mut Program::compile(&source, linkage).command());
    }
}

macro_rules! promises {
    ($($promise:ident: $program:literal,)*) => {
        $(#[test] fn $promise() { keeps_its_promise($program); })*

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

promises! {
    bad_arguments_are_refused_without_a_callback: "bad_arguments.c",
    a_link_is_a_word_that_begins_with_link_and_a_colon: "link_rule.c",
    every_occurrence_is_an_edge_in_the_order_of_the_page: "every_edge_in_order.c",
    a_link_found_by_many_at_once_is_fetched_once: "fetched_once.c",
    all_workers_can_be_inside_their_callbacks_at_once: "all_inside_at_once.c",
    the_queue_never_holds_more_than_it_may: "queue_bound.c",
    any_positive_sizes_work_on_any_graph: "any_sizes.c",
    a_broken_link_is_no_failure: "broken_links.c",
    each_page_is_freed_once: "freed_once.c",
    a_refused_thread_ends_the_crawl_before_it_begins: "threads_refused.c",
    more_threads_than_memory_is_a_failure_to_recover_from: "no_memory_for_threads.c",
    crawls_do_not_know_each_other: "crawls_apart.c",
    idle_workers_cost_nothing: "idle_costs_nothing.c",
    links_are_any_bytes_of_any_length: "any_bytes.c",
    html_links_are_resolved_against_their_page: "html_links.c",
}
