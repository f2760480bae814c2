//! Measures what it costs to resume a crawl: fills a state with queued URLs, ends with or without closing it, and opens
//! it again.
//!
//!     cargo run --release --example resume_cost -- DIRECTORY URLS

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crawler::Error;
use crawler::prioritizer::Queues;
use crawler::resources::durable::{self, Begin, Opened, Terms};
use crawler::resources::embedded::Settings;
use crawler::resources::{Found, Resources};

/// As many as a page may well have links.
const BATCH: u64 = 1_000;

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let [program, directory, urls, how @ ..] = arguments.as_slice() else {
        eprintln!("usage: resume_cost DIRECTORY URLS");
        std::process::exit(2);
    };
    let (directory, count) = (Path::new(directory), urls.parse::<u64>().unwrap_or(1_000_000));
    let state = |how: &str| directory.join(format!("{how}-{urls}"));
    if let [how] = how {
        return fill(&state(how), count, how == "closed");
    }
    for how in ["closed", "killed"] {
        let begun = Instant::now();
        // A process of its own, which can end without closing anything.
        let _ = Command::new(program).args([&arguments[1], urls, how]).status();
        let (filled, state) = (begun.elapsed(), state(how));
        let size = std::fs::metadata(state.join("crawl.state")).map_or(0, |file| file.len()) / 1_000_000;
        let begun = Instant::now();
        let Opened { resources, keeper, .. } = durable::open(&state, begin())?;
        let opened = begun.elapsed();
        let first = block_on(resources.incoming(100, Duration::ZERO))?.len();
        let ready = begun.elapsed();
        let snapshot = block_on(resources.snapshot())?;
        println!(
            "{how}: {} queued, {size} MB, filled in {filled:.1?}; opened in {opened:.1?}, first {first} URLs after {ready:.1?}, {} kB resident",
            snapshot.outstanding(),
            resident(),
        );
        drop(resources);
        keeper.close()?;
    }
    Ok(())
}

fn fill(state: &Path, count: u64, close: bool) -> Result<(), Error> {
    let Opened { resources, keeper, .. } = durable::open(state, begin())?;
    for first in (0..count).step_by(BATCH as usize) {
        let found = (first..count.min(first + BATCH)).map(|number| Found {
            url: format!("http://host{}.example/some/directory/page-{number}.html", number % 10_007),
            depth: 1,
            redirects: 0,
        });
        block_on(resources.admit(found.collect()))?;
    }
    if close {
        drop(resources);
        return keeper.close();
    }
    // Nothing is closed, and nobody has a chance to.
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    Ok(())
}

fn begin() -> Begin {
    let settings = Settings {
        queue_size: 10_000,
        priority_queues: Queues::new(10).expect("ten is a number of queues"),
        workers: 2,
        ttl: Duration::from_secs(3600),
        domain_ttl: Duration::from_secs(300),
        keep_depths: false,
        similarity: None,
        keep_content: false,
        max_pages: u64::MAX,
        max_bytes: u64::MAX,
        max_page_bytes: 500_000,
        max_pages_per_host: u64::MAX,
    };
    Begin { settings, delay: Duration::from_secs(1), terms: Terms::default(), note: Vec::new() }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime on this thread").block_on(future)
}

/// What the process takes in memory, in kB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
