//! When a crawl fails, through the callback face's Rust API: threads that cannot be had, and callbacks that panic.

use crawler::internal::callbacks::{CallbackCrawl, StartError};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::cell::OnceCell;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::{env, fs};

fn pools(download_workers: usize, parse_workers: usize, work_queue_size: usize) -> CallbackCrawl {
    CallbackCrawl::new()
        .download_workers(download_workers)
        .parse_workers(parse_workers)
        .work_queue_size(work_queue_size)
}

/// A page whose links are the numbers of a range, each after the prefix.
fn page_of_links(prefix: &str, numbers: std::ops::Range<usize>) -> String {
    numbers.map(|number| format!("link:{prefix}{number}\n")).collect()
}

/// Something that happens once, and that others wait for.
#[derive(Default)]
struct Event(Mutex<bool>, Condvar);

impl Event {
    fn happen(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn wait(&self) {
        drop(self.1.wait_while(self.0.lock().unwrap(), |happened| !*happened).unwrap());
    }
}

#[test]
fn a_refused_thread_is_reported_with_a_remedy() {
    let error = StartError::Threads { wanted: 64, started: 40, source: ErrorKind::WouldBlock.into() };
    assert_eq!(error.to_string(), "cannot start thread 41 of 64: operation would block; use fewer workers");
}

/// Says to the process that it is the one to run out of memory.
const LACKS_MEMORY: &str = "CRAWL_LACKS_MEMORY";

/// Leaves this process address space for about this many more threads, and for half a stack beyond: a thread that is
/// granted must not lack the kilobytes that it sets itself up with.
fn leave_room_for_threads(count: u64) {
    const STACK: u64 = 8 << 20;
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")?.strip_suffix("kB")).unwrap();
    let used = size.trim().parse::<u64>().unwrap() * 1024;
    let limit = Some(used + count * (STACK + (32 << 10)) + STACK / 2);
    setrlimit(Resource::As, Rlimit { current: limit, maximum: limit }).unwrap();
}

#[test]
fn a_thread_that_the_system_refuses_ends_the_crawl_before_it_begins() {
    const NAME: &str = "a_thread_that_the_system_refuses_ends_the_crawl_before_it_begins";
    if env::var_os(LACKS_MEMORY).is_none() {
        // The same test in a process of its own, where threads share their heap, so that what they take is known.
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["--exact", NAME]).env(LACKS_MEMORY, "1").env("MALLOC_ARENA_MAX", "1");
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
    let StartError::Threads { wanted, started, source } = &error else { panic!("{error:?}") };
    assert_eq!((*wanted, source.kind()), (10_000, ErrorKind::WouldBlock));
    assert!((45..=51).contains(started), "{error}");
    assert_eq!(calls.load(SeqCst), 0);
    // And those that there is room for still crawl.
    let report = pools(20, 20, 1).run_str("start", fetch, |_, _| ()).unwrap();
    assert_eq!((report.broken, calls.load(SeqCst)), (1, 1));
}

/// A page that knows how many of its kind there are.
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

/// Crawls a clique whose callbacks panic now and then, and checks what is left: the panic, no page, no
/// thread.
fn survives_a_panic(fetch_panics_at: &str, edge_panics_at: &str) {
    let (alive, inside) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let crawl = || {
        let fetch = |link: &[u8]| {
            assert_ne!(link, fetch_panics_at.as_bytes(), "the fetch function gave up");
            alive.fetch_add(1, SeqCst);
            Some(CountedPage(page_of_links("", 0..200), alive.clone()))
        };
        let edge = |_: &[u8], to: &[u8]| {
            inside.fetch_add(1, SeqCst);
            if to == edge_panics_at.as_bytes() {
                inside.fetch_sub(1, SeqCst);
                panic!("the edge function gave up");
            }
            inside.fetch_sub(1, SeqCst);
        };
        pools(4, 4, 2).run(b"0", fetch, edge)
    };
    let panic = catch_unwind(AssertUnwindSafe(crawl)).expect_err("the panic reaches the caller");
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or(panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap();
    assert!(text.contains("gave up"), "{text}");
    assert_eq!((alive.load(SeqCst), inside.load(SeqCst)), (0, 0));
}

#[test]
fn a_panic_in_fetch_ends_the_crawl_and_reaches_the_caller() {
    survives_a_panic("0", "");
    survives_a_panic("100", "");
}

#[test]
fn a_panic_in_edge_ends_the_crawl_and_reaches_the_caller() {
    survives_a_panic("", "0");
    survives_a_panic("", "150");
}

/// Happens when the thread that keeps it has ended.
struct ThreadEnd(Arc<Event>);

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        self.0.happen();
    }
}

thread_local! {
    static THREAD_END: OnceCell<ThreadEnd> = const { OnceCell::new() };
}

#[test]
fn no_callback_begins_after_a_panic_though_the_page_has_more_links() {
    let (inside, panicked, edges) = (Event::default(), Arc::new(Event::default()), AtomicUsize::new(0));
    let fetch = |link: &str| {
        Some(match link {
            "start" => "link:panics link:goes-on".to_owned(),
            "panics" => "link:start".to_owned(),
            _ => "link:start ".repeat(1_000),
        })
    };
    let edge = |from: &str, _: &str| match from {
        "start" => (),
        "panics" => {
            inside.wait();
            THREAD_END.with(|end| end.set(ThreadEnd(panicked.clone())).ok());
            panic!("the edge function gave up");
        }
        _ => {
            edges.fetch_add(1, SeqCst);
            inside.happen();
            panicked.wait();
        }
    };
    let crawl = AssertUnwindSafe(|| pools(2, 2, 10).run_str("start", fetch, edge));
    assert!(catch_unwind(crawl).is_err());
    // Only the one that was running.
    assert_eq!(edges.load(SeqCst), 1);
}
