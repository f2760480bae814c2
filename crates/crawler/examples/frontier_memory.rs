//! Fills a crawl's queues or its seen set with URLs, and prints how much memory they take.
//!
//! ```text
//! frontier_memory fill queued|seen URLS [STATE]    in memory, or in a new state in the directory STATE
//! frontier_memory reopen STATE                     prints the time until the first URL of that state can be prioritized
//! ```
//!
//! `fill` prints its measurements as JSON when all URLs are stored and committed, then waits for the end of standard
//! input and closes the state. To get a state that was not closed, kill the process instead. `bench/frontier.py` runs
//! both. The figures are the memory of the whole process, including the allocator's overhead.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs};

use crawler::internal::backend::durable::{self, OpenState, RecordedSettings, StateOptions};
use crawler::internal::backend::local::{BackendConfig, HostLimits, LocalBackend};
use crawler::internal::backend::{Backend, BackendError, Completion, DiscoveredUrl, WorkerId};
use crawler::internal::outcome::{Outcome, OutcomeInternals as _};
use crawler::internal::prioritizer::{Candidate, DepthPopularity, PriorityQueues};
use crawler::internal::similarity::Threshold;
use tokio::task::JoinSet;

const HOSTS: u64 = 1_000;
const WORKERS: u16 = 2;

/// Typical numbers of new links per page, and of pages that are completed concurrently and share a commit.
const LINKS_PER_PAGE: usize = 100;
const CONCURRENT_PAGES: usize = 128;
const URLS_PER_ROUND: u64 = (LINKS_PER_PAGE * CONCURRENT_PAGES) as u64;

/// Number of URLs that the frontier loops take at a time.
const MAX_PER_OPERATION: usize = 256;

type AnyError = Box<dyn std::error::Error>;

fn main() -> Result<(), AnyError> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match arguments[..] {
        ["fill", what, urls] => runtime.block_on(fill(LocalBackend::new(config()), what, urls.parse()?)),
        ["fill", what, urls, state] => {
            let OpenState { backend, writer, .. } = open(state)?;
            runtime.block_on(fill(backend, what, urls.parse()?))?;
            Ok(writer.close()?)
        }
        ["reopen", state] => runtime.block_on(reopen(state)),
        _ => Err("usage: frontier_memory fill queued|seen URLS [STATE] | reopen STATE".into()),
    }
}

/// The defaults of a crawl.
fn config() -> BackendConfig {
    BackendConfig {
        visits: Default::default(),
        queue_size: 10_000,
        priority_queues: PriorityQueues::new(10).expect("ten queues are valid"),
        workers: WORKERS,
        ttl: Duration::from_secs(60 * 60),
        domain_ttl: Duration::from_secs(5 * 60),
        keep_depths: false,
        keep_discovery: false,
        similarity: Threshold::new(0.9),
        strip_query: Default::default(),
        keep_content: true,
        max_pages: u64::MAX / 2,
        max_bytes: u64::MAX / 2,
        max_page_bytes: 500_000,
        max_pages_per_host: u64::MAX,
        max_pages_per_site: u64::MAX,
        hosts: HostLimits::default(),
    }
}

fn open(state: &str) -> Result<OpenState, crawler::Error> {
    let delay = Duration::from_secs(1);
    durable::open(
        Path::new(state),
        StateOptions {
            recrawl: None,
            clock_interval: durable::CLOCK_INTERVAL,
            config: config(),
            delay,
            recorded_settings: RecordedSettings::default(),
            metadata: Vec::new(),
            retry_failed: false,
        },
    )
}

async fn fill<R: Backend>(backend: R, what: &str, urls: u64) -> Result<(), AnyError> {
    let backend = Arc::new(backend);
    // Warm up: what every round allocates is not counted as memory of the URLs.
    add(&backend, urls..urls + URLS_PER_ROUND, true).await?;
    let (empty, started) = (Memory::now()?, Instant::now());
    add(&backend, 0..urls, what == "seen").await?;
    let (full, took) = (Memory::now()?, started.elapsed());
    let snapshot = backend.snapshot().await?;
    let left = if what == "seen" { 0 } else { urls };
    if snapshot.seen_urls as u64 != urls + URLS_PER_ROUND || snapshot.pending() != left {
        return Err(format!(
            "{} URLs are in the seen set and {} are pending",
            snapshot.seen_urls,
            snapshot.pending()
        )
        .into());
    }
    let sample = urls.min(10_000);
    let text: usize = (0..sample).map(|number| url(number).len()).sum();
    print(&[
        ("urls", urls as f64),
        ("url_characters", text as f64 / sample as f64),
        ("empty", empty.resident),
        ("full", full.resident),
        ("peak", full.peak),
        ("seconds", took.as_secs_f64()),
        ("overflow", snapshot.overflow as f64),
    ]);
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Admits URLs, round by round. Each round is prioritized as far as possible, or completed.
async fn add<R: Backend>(backend: &Arc<R>, mut numbers: Range<u64>, complete: bool) -> Result<(), AnyError> {
    while !numbers.is_empty() {
        let mut admissions = JoinSet::new();
        for _ in 0..CONCURRENT_PAGES {
            let discovered: Vec<DiscoveredUrl> =
                numbers.by_ref().take(LINKS_PER_PAGE).map(discovered).collect();
            let backend = Arc::clone(backend);
            admissions.spawn(async move { backend.admit(discovered).await });
        }
        while let Some(admitted) = admissions.join_next().await {
            admitted??;
        }
        run_frontier(&**backend).await?;
        if complete {
            complete_all(backend).await?;
        }
    }
    Ok(())
}

/// Runs the prioritizer until it can do no more, so that URLs wait where they would in a crawl.
async fn run_frontier(backend: &impl Backend) -> Result<(), BackendError> {
    loop {
        let unprioritized = backend.take_unprioritized(MAX_PER_OPERATION, Duration::ZERO).await?;
        let taken = unprioritized.len();
        let priorities = unprioritized.into_iter().map(|url| {
            let task_id = url.task_id;
            (task_id, DepthPopularity::priority(&Candidate::from(url)))
        });
        backend.enqueue_prioritized(priorities.collect()).await?;
        if taken == 0 {
            return Ok(());
        }
    }
}

/// Completes all pending URLs with HTTP status 404.
async fn complete_all<R: Backend>(backend: &Arc<R>) -> Result<(), AnyError> {
    while backend.pending().await? > 0 {
        let mut completions = JoinSet::new();
        for worker in 0..WORKERS {
            loop {
                let leases = backend.lease(WorkerId(worker), MAX_PER_OPERATION, Duration::ZERO).await?;
                if leases.is_empty() {
                    break;
                }
                let backend = Arc::clone(backend);
                let outcome = Outcome::http_status(404);
                let done = leases
                    .iter()
                    .map(|lease| Completion { outcome: outcome.clone(), ..Completion::new(lease) });
                let done: Vec<Completion> = done.collect();
                completions.spawn(async move { backend.complete(done).await });
            }
        }
        while let Some(completed) = completions.join_next().await {
            completed??;
        }
        run_frontier(&**backend).await?;
    }
    Ok(())
}

async fn reopen(state: &str) -> Result<(), AnyError> {
    let started = Instant::now();
    let OpenState { backend, writer, .. } = open(state)?;
    let opened = started.elapsed();
    let first = backend.take_unprioritized(1, Duration::ZERO).await?;
    let ready = started.elapsed();
    let (snapshot, memory) = (backend.snapshot().await?, Memory::now()?);
    if first.is_empty() {
        return Err(format!("{state} has no pending URL").into());
    }
    drop(backend);
    writer.close()?;
    print(&[
        ("urls", snapshot.pending() as f64),
        ("seen", snapshot.seen_urls as f64),
        ("opened", opened.as_secs_f64()),
        ("ready", ready.as_secs_f64()),
        ("full", memory.resident),
        ("peak", memory.peak),
    ]);
    Ok(())
}

fn discovered(number: u64) -> DiscoveredUrl {
    // A copy without spare capacity, like the links of a page.
    DiscoveredUrl { url: url(number).as_str().to_owned(), depth: 3, redirects: 0 }
}

/// A unique URL with a path of 40 to 60 characters. Consecutive URLs are on different hosts.
fn url(number: u64) -> String {
    let host = number % HOSTS;
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let section = ["news", "articles", "products/archive", "documentation"][(mixed % 4) as usize];
    let title = ["how-it-came-to-be", "a-short-note", "what-nobody-told-us-yet"][(mixed / 4 % 3) as usize];
    format!(
        "http://www.site-{host}.example/{section}/2026/{:02}/{title}-{number:08}.html",
        1 + mixed / 12 % 12
    )
}

/// The memory of the process in bytes.
struct Memory {
    resident: f64,
    peak: f64,
}

impl Memory {
    fn now() -> io::Result<Memory> {
        let status = fs::read_to_string("/proc/self/status")?;
        let lines: BTreeMap<&str, &str> = status.lines().filter_map(|line| line.split_once(':')).collect();
        let kilobytes = |name: &str| {
            let value = lines.get(name).and_then(|value| value.trim().strip_suffix(" kB"));
            value.and_then(|value| value.trim().parse::<f64>().ok()).ok_or(io::ErrorKind::InvalidData)
        };
        Ok(Memory { resident: 1024.0 * kilobytes("VmRSS")?, peak: 1024.0 * kilobytes("VmHWM")? })
    }
}

fn print(measured: &[(&str, f64)]) {
    let fields: Vec<String> =
        measured.iter().map(|(name, value)| format!("\"{name}\": {value:.3}")).collect();
    println!("{{{}}}", fields.join(", "));
}
