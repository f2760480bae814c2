//! Lets URLs wait in a crawl's queues, or makes them known to link storage, and says what memory that takes.
//!
//! ```text
//! frontier_memory fill queued|seen URLS [STATE]    in memory, or in a state that is begun in the directory STATE
//! frontier_memory reopen STATE                     how long until the first URL of that state can be prioritized
//! ```
//!
//! `fill` prints what it measured in JSON when all URLs are where they belong and safe, then waits for the end of standard
//! input and closes the state; whoever wants to see a state that was not closed kills it instead. `bench/frontier.py`
//! does all of that. What is measured is the memory of the whole process, the allocator's own included.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs};

use crawler::internal::backend::durable::{self, OpenState, RecordedSettings, StateOptions};
use crawler::internal::backend::local::{BackendConfig, LocalBackend};
use crawler::internal::backend::{Backend, BackendError, Completion, DiscoveredUrl, WorkerId};
use crawler::internal::outcome::Outcome;
use crawler::internal::prioritizer::{Candidate, DepthPopularity, PriorityQueues, Random, draw};
use crawler::internal::similarity::Threshold;
use tokio::task::JoinSet;

const HOSTS: u64 = 1_000;
const WORKERS: u16 = 2;

/// The links of a page that are new, about; and how many pages of a crawl are completed side by side, and share a commit.
const BATCH: usize = 100;
const SIDE_BY_SIDE: usize = 128;
const ROUND: u64 = (BATCH * SIDE_BY_SIDE) as u64;

/// What the loops of the frontier take at a time.
const MOVE: usize = 256;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match arguments[..] {
        ["fill", what, urls] => runtime.block_on(fill(LocalBackend::new(settings()), what, urls.parse()?)),
        ["fill", what, urls, state] => {
            let OpenState { backend, keeper, .. } = open(state)?;
            runtime.block_on(fill(backend, what, urls.parse()?))?;
            Ok(keeper.close()?)
        }
        ["reopen", state] => runtime.block_on(reopen(state)),
        _ => Err("usage: frontier_memory fill queued|seen URLS [STATE] | reopen STATE".into()),
    }
}

/// As a crawl has them by default.
fn settings() -> BackendConfig {
    BackendConfig {
        queue_size: 10_000,
        priority_queues: PriorityQueues::new(10).expect("ten is a number of queues"),
        workers: WORKERS,
        ttl: Duration::from_secs(60 * 60),
        domain_ttl: Duration::from_secs(5 * 60),
        keep_depths: false,
        similarity: Threshold::new(0.9),
        keep_content: true,
        max_pages: u64::MAX / 2,
        max_bytes: u64::MAX / 2,
        max_page_bytes: 500_000,
        max_pages_per_host: u64::MAX,
    }
}

fn open(state: &str) -> Result<OpenState, crawler::Error> {
    let delay = Duration::from_secs(1);
    durable::open(
        Path::new(state),
        StateOptions { settings: settings(), delay, terms: RecordedSettings::default(), note: Vec::new() },
    )
}

async fn fill<R: Backend>(backend: R, what: &str, urls: u64) -> Result<(), Failure> {
    let backend = Arc::new(backend);
    let mut random = Random::seeded(1);
    // What comes and goes with every round is there already when the measuring begins: it is no URL's own.
    add(&backend, urls..urls + ROUND, &mut random, true).await?;
    let (empty, begun) = (Memory::now()?, Instant::now());
    add(&backend, 0..urls, &mut random, what == "seen").await?;
    let (full, took) = (Memory::now()?, begun.elapsed());
    let snapshot = backend.snapshot().await?;
    let left = if what == "seen" { 0 } else { urls };
    if snapshot.known as u64 != urls + ROUND || snapshot.outstanding() != left {
        return Err(format!("{} URLs are known and {} wait", snapshot.known, snapshot.outstanding()).into());
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
        ("overflow", snapshot.url_queue.1 as f64),
        ("waiting", snapshot.waiting as f64),
    ]);
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Admits URLs, round by round; each round is filed and routed as far as possible, or completed.
async fn add<R: Backend>(
    backend: &Arc<R>,
    mut numbers: Range<u64>,
    random: &mut Random,
    complete: bool,
) -> Result<(), Failure> {
    while !numbers.is_empty() {
        let mut admissions = JoinSet::new();
        for _ in 0..SIDE_BY_SIDE {
            let found: Vec<DiscoveredUrl> = numbers.by_ref().take(BATCH).map(found).collect();
            let backend = Arc::clone(backend);
            admissions.spawn(async move { backend.admit(found).await });
        }
        while let Some(admitted) = admissions.join_next().await {
            admitted??;
        }
        frontier(&**backend, random).await?;
        if complete {
            complete_all(backend, random).await?;
        }
    }
    Ok(())
}

/// Runs the prioritizer and the router until neither can do more: URLs wait where they would in a crawl.
async fn frontier(backend: &impl Backend, random: &mut Random) -> Result<(), BackendError> {
    loop {
        let incoming = backend.take_unprioritized(MOVE, Duration::ZERO).await?;
        let came = incoming.len();
        let priorities = incoming.into_iter().map(|incoming| {
            let (domain, depth, linking_pages) = (incoming.domain, incoming.depth, incoming.linking_pages);
            (incoming.task_id, DepthPopularity::priority(&Candidate { domain, depth, linking_pages }))
        });
        backend.enqueue_prioritized(priorities.collect()).await?;
        let draws = (0..MOVE).map(|_| draw(random)).collect();
        if backend.route(draws, Duration::ZERO).await? + came == 0 {
            return Ok(());
        }
    }
}

/// Completes all that waits, as a host that has none of these pages would have it.
async fn complete_all<R: Backend>(backend: &Arc<R>, random: &mut Random) -> Result<(), Failure> {
    while backend.outstanding().await? > 0 {
        let mut completions = JoinSet::new();
        for worker in 0..WORKERS {
            loop {
                let leases = backend.lease(WorkerId(worker), MOVE, Duration::ZERO).await?;
                if leases.is_empty() {
                    break;
                }
                let backend = Arc::clone(backend);
                let outcome = Outcome::HttpStatus { code: 404, retry_after: None };
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
        frontier(&**backend, random).await?;
    }
    Ok(())
}

async fn reopen(state: &str) -> Result<(), Failure> {
    let begun = Instant::now();
    let OpenState { backend, keeper, .. } = open(state)?;
    let opened = begun.elapsed();
    let first = backend.take_unprioritized(1, Duration::ZERO).await?;
    let ready = begun.elapsed();
    let (snapshot, memory) = (backend.snapshot().await?, Memory::now()?);
    if first.is_empty() {
        return Err(format!("no URL waits in {state}").into());
    }
    drop(backend);
    keeper.close()?;
    print(&[
        ("urls", snapshot.outstanding() as f64),
        ("known", snapshot.known as f64),
        ("opened", opened.as_secs_f64()),
        ("ready", ready.as_secs_f64()),
        ("full", memory.resident),
        ("peak", memory.peak),
    ]);
    Ok(())
}

fn found(number: u64) -> DiscoveredUrl {
    // A copy has no room to spare: what a page's links are admitted from is one as well.
    DiscoveredUrl { url: url(number).as_str().to_owned(), depth: 3, redirects: 0 }
}

/// A URL with a path of 40 to 60 characters; neighbours are on different hosts, and no two are the same.
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

/// What the process takes of the machine's memory, in bytes.
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
