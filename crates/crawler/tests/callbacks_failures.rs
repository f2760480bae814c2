//! Tests of failures in callback mode, with its Rust API: threads that cannot be started, and callbacks that panic.

mod callback_helpers;

use callback_helpers::{Event, page_of_links, pools};
use crawler::internal::callbacks::StartError;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::cell::OnceCell;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::{env, fs};

/// Set in the child process that limits its memory.
const LIMITED_MEMORY: &str = "CRAWL_LIMITED_MEMORY";

/// Limits the address space of this process to about this many more threads and half a stack, so that the last thread
/// that starts has the memory for its setup.
fn leave_room_for_threads(count: u64) {
    const STACK: u64 = 8 << 20;
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")?.strip_suffix("kB")).unwrap();
    let used = size.trim().parse::<u64>().unwrap() * 1024;
    let limit = Some(used + count * (STACK + (32 << 10)) + STACK / 2);
    setrlimit(Resource::As, Rlimit { current: limit, maximum: limit }).unwrap();
}

#[test]
fn crawl_does_not_start_without_all_its_threads() {
    const NAME: &str = "crawl_does_not_start_without_all_its_threads";
    if env::var_os(LIMITED_MEMORY).is_none() {
        // Run this test in a child process, where threads share one heap, so that their memory use is predictable.
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["--exact", NAME]).env(LIMITED_MEMORY, "1").env("MALLOC_ARENA_MAX", "1");
        let output = child.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
        return;
    }
    leave_room_for_threads(50);
    let calls = AtomicUsize::new(0);
    let fetch = |_: &str| {
        calls.fetch_add(1, SeqCst);
        None::<String>
    };
    let error = pools(5_000, 5_000, 1).run_str("start", fetch, |_, _| ()).unwrap_err();
    let StartError::Threads { wanted, started, source, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*wanted, source.kind()), (10_000, ErrorKind::WouldBlock));
    assert!((45..=51).contains(started), "{error}");
    assert_eq!(calls.load(SeqCst), 0);
    // A crawl with fewer threads still works.
    let report = pools(20, 20, 1).run_str("start", fetch, |_, _| ()).unwrap();
    assert_eq!((report.broken, calls.load(SeqCst)), (1, 1));
}

/// A page that counts its live instances.
struct CountedPage(String, Arc<AtomicUsize>);

impl AsRef<[u8]> for CountedPage {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl Drop for CountedPage {
    fn drop(&mut self) {
        self.1.fetch_sub(1, SeqCst);
    }
}

/// Crawls a clique with callbacks that panic. Checks that the panic reaches the caller, and that no page and no thread
/// is left.
fn survives_a_panic(fetch_panics_at: &str, edge_panics_at: &str) {
    let (alive, inside) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let crawl = || {
        let fetch = |link: &[u8]| {
            assert_ne!(link, fetch_panics_at.as_bytes(), "test panic in fetch");
            alive.fetch_add(1, SeqCst);
            Some(CountedPage(page_of_links("", 0..200), alive.clone()))
        };
        let edge = |_: &[u8], to: &[u8]| {
            inside.fetch_add(1, SeqCst);
            if to == edge_panics_at.as_bytes() {
                inside.fetch_sub(1, SeqCst);
                panic!("test panic in edge");
            }
            inside.fetch_sub(1, SeqCst);
        };
        pools(4, 4, 2).run(b"0", fetch, edge)
    };
    let panic = catch_unwind(AssertUnwindSafe(crawl)).expect_err("the panic reaches the caller");
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or(panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap();
    assert!(text.contains("test panic"), "{text}");
    assert_eq!((alive.load(SeqCst), inside.load(SeqCst)), (0, 0));
}

#[test]
fn panic_in_fetch_ends_the_crawl_and_reaches_the_caller() {
    survives_a_panic("0", "");
    survives_a_panic("100", "");
}

#[test]
fn panic_in_edge_ends_the_crawl_and_reaches_the_caller() {
    survives_a_panic("", "0");
    survives_a_panic("", "150");
}

/// Sets an event when its thread ends.
struct ThreadEnd(Arc<Event>);

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        self.0.set();
    }
}

thread_local! {
    static THREAD_END: OnceCell<ThreadEnd> = const { OnceCell::new() };
}

#[test]
fn no_callback_starts_after_a_panic() {
    let (inside, panicked, edges) = (Event::default(), Arc::new(Event::default()), AtomicUsize::new(0));
    let fetch = |link: &str| {
        Some(match link {
            "start" => "link:panics link:continues".to_owned(),
            "panics" => "link:start".to_owned(),
            _ => "link:start ".repeat(1_000),
        })
    };
    let edge = |from: &str, _: &str| match from {
        "start" => (),
        "panics" => {
            inside.wait();
            THREAD_END.with(|end| end.set(ThreadEnd(panicked.clone())).ok());
            panic!("test panic in edge");
        }
        _ => {
            edges.fetch_add(1, SeqCst);
            inside.set();
            panicked.wait();
        }
    };
    let crawl = AssertUnwindSafe(|| pools(2, 2, 10).run_str("start", fetch, edge));
    assert!(catch_unwind(crawl).is_err());
    // Only the callback that was running.
    assert_eq!(edges.load(SeqCst), 1);
}
