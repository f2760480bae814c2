//! What the moves of a page cost on Redis: CPU of the server and of this process, calls within scripts, and memory.
//!
//! `cargo run --release --example redis_moves -- PORT [PAGES [PARTITIONS [HOSTS]]]` on a Redis of its own, which it fills.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{RedisBackend, RedisCrawl};
use crawler::internal::backend::{Backend, CompleteResult, Completion, DiscoveredUrl, Lease, WorkerId};
use crawler::internal::domain::Domain;
use crawler::internal::outcome::Outcome;
use crawler::internal::prioritizer::{Priority, PriorityQueues};
use crawler::internal::similarity::{Fingerprint, Threshold};

const LINKS: usize = 25;
const IN_FLIGHT: usize = 16;

/// A web of so many pages on so many hosts.
#[derive(Clone, Copy)]
struct Web {
    pages: usize,
    hosts: usize,
}

impl Web {
    fn url(self, page: usize) -> String {
        let (host, section) = (page % self.hosts, page / self.hosts % 10);
        format!("http://www.host{host}.test/section{section}/page-{page}.html")
    }

    /// Of the links of a page one leads on, some are on every page of its host, and the others lead back anywhere.
    fn links(self, page: usize) -> Vec<DiscoveredUrl> {
        let Web { pages, hosts } = self;
        let mut seed = page as u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below.max(1)
        };
        // The first page of a host leads to several: a chain would keep everybody waiting.
        let first = if page < hosts {
            page + hosts..=page + hosts * 64
        } else {
            page + hosts * 64..=page + hosts * 64
        };
        let mut links: Vec<usize> = first.step_by(hosts).collect();
        for link in 1..LINKS {
            let of_host = if link < 15 { link } else { random(page / hosts + 1) };
            links.push(of_host * hosts + page % hosts);
        }
        links.retain(|link| *link < pages);
        links.into_iter().map(|link| DiscoveredUrl { url: self.url(link), depth: 1, redirects: 0 }).collect()
    }
}

fn body(page: usize) -> Vec<u8> {
    let words = (0..400).map(|word| format!("w{} ", (page * 7919 + word * word * 31) % 100_003));
    words.collect::<String>().into_bytes()
}

async fn visit(backend: Arc<RedisBackend>, lease: Lease, web: Web) {
    let page: usize =
        lease.url.rsplit('-').next().and_then(|end| end.strip_suffix(".html")).unwrap().parse().unwrap();
    backend.reserve(&lease, 0).await.unwrap();
    let body = body(page);
    let fingerprint = Fingerprint::of_text(backend.hash_key(), None, &body);
    backend.store_content(&lease.url, &fingerprint, &body).await.unwrap();
    let done = Completion {
        outcome: Outcome::Page,
        bytes: body.len() as u64,
        outlinks: web.links(page),
        linked_domains: vec![Domain::from_url_str(&lease.url)],
        ..Completion::new(&lease)
    };
    assert!(matches!(backend.complete(vec![done]).await.unwrap()[..], [CompleteResult::Applied { .. }]));
}

async fn frontier(backend: Arc<RedisBackend>) {
    loop {
        let incoming = backend.take_unprioritized(256, Duration::from_millis(500)).await.unwrap();
        backend
            .enqueue_prioritized(incoming.iter().map(|one| (one.task_id, Priority::MIDDLE)).collect())
            .await
            .unwrap();
    }
}

async fn route(backend: Arc<RedisBackend>) {
    loop {
        backend.route(vec![Priority::MIDDLE; 256], Duration::from_millis(500)).await.unwrap();
    }
}

/// CPU seconds of this process.
fn cpu() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

struct Server(redis::Connection);

impl Server {
    fn field(&mut self, section: &str, name: &str) -> f64 {
        let information: String = redis::cmd("INFO").arg(section).query(&mut self.0).unwrap();
        let line = information.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or("0").trim().parse().unwrap_or(0.0)
    }

    fn cpu(&mut self) -> f64 {
        self.field("cpu", "used_cpu_user") + self.field("cpu", "used_cpu_sys")
    }

    /// Of each command how often it was called, and the microseconds it took.
    fn commands(&mut self) -> Vec<(String, f64, f64)> {
        let information: String = redis::cmd("INFO").arg("commandstats").query(&mut self.0).unwrap();
        let lines = information.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(':'));
        let number = |text: &str, name: &str| {
            let fields = text.split(',').filter_map(|field| field.split_once('='));
            fields
                .into_iter()
                .find(|(field, _)| *field == name)
                .map_or(0.0, |(_, value)| value.parse().unwrap())
        };
        lines.map(|(name, text)| (name.to_owned(), number(text, "calls"), number(text, "usec"))).collect()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().expect("the port of a Redis");
    let pages: usize = arguments.next().map_or(20_000, |pages| pages.parse().unwrap());
    let partitions = arguments.next().map_or(1, |partitions| partitions.parse().unwrap());
    let hosts = arguments.next().map_or(400, |hosts| hosts.parse().unwrap());
    let web = Web { pages, hosts };
    let settings = BackendConfig {
        queue_size: 10_000,
        priority_queues: PriorityQueues::new(10).unwrap(),
        workers: 1,
        ttl: Duration::from_secs(3600),
        domain_ttl: Duration::from_secs(300),
        keep_depths: false,
        similarity: Threshold::new(0.9),
        keep_content: true,
        max_pages: u64::MAX,
        max_bytes: u64::MAX,
        max_page_bytes: 500_000,
        max_pages_per_host: u64::MAX,
    };
    let redis_url = format!("redis://127.0.0.1:{port}/");
    let mut server = Server(redis::Client::open(redis_url.as_str()).unwrap().get_connection().unwrap());
    let place =
        RedisCrawl { partitions: Some(partitions), ..RedisCrawl::new(redis_url.parse().unwrap(), "moves") };
    let backend = Arc::new(RedisBackend::open(place, settings).await.unwrap());

    let prepared = Instant::now();
    let own = cpu();
    for page in 0..pages.min(2_000) {
        std::hint::black_box((Fingerprint::of_text(backend.hash_key(), None, &body(page)), web.links(page)));
    }
    let own = (cpu() - own) / pages.min(2_000) as f64;
    println!("what the test itself does: {:.1} µs a page ({:.1?})", own * 1e6, prepared.elapsed());

    let seeds = (0..hosts).map(|page| DiscoveredUrl { url: web.url(page), depth: 0, redirects: 0 }).collect();
    redis::cmd("CONFIG").arg("RESETSTAT").exec(&mut server.0).unwrap();
    let (server_before, before, begun) = (server.cpu(), cpu(), Instant::now());
    backend.admit(seeds).await.unwrap();
    let frontiers = [tokio::spawn(frontier(Arc::clone(&backend))), tokio::spawn(route(Arc::clone(&backend)))];
    let (mut visits, mut done) = (tokio::task::JoinSet::new(), 0);
    while done < pages {
        let leases = backend.lease(WorkerId(0), 64, Duration::from_millis(20)).await.unwrap();
        for lease in leases {
            if visits.len() >= IN_FLIGHT {
                visits.join_next().await.unwrap().unwrap();
                done += 1;
            }
            visits.spawn(visit(Arc::clone(&backend), lease, web));
        }
        while visits.try_join_next().is_some() {
            done += 1;
        }
    }
    frontiers.iter().for_each(tokio::task::JoinHandle::abort);
    let (client, elapsed) = (cpu() - before, begun.elapsed());
    let of_server = server.cpu() - server_before;
    let a_page = 1e6 / pages as f64;
    println!(
        "{pages} pages in {elapsed:.1?}: Redis {:.1} µs a page, here {:.1} µs a page without the test's own",
        of_server * a_page,
        client * a_page - own * 1e6
    );
    let mut commands = server.commands();
    commands.sort_by(|a, b| b.2.total_cmp(&a.2));
    let scripts: f64 =
        commands.iter().filter(|command| command.0 == "evalsha").map(|command| command.1).sum();
    let calls: f64 = commands.iter().map(|command| command.1).sum::<f64>() - scripts;
    println!("{:.1} scripts and {:.1} other calls a page", scripts / pages as f64, calls / pages as f64);
    for (name, calls, microseconds) in commands.iter().take(30) {
        println!(
            "  {name:12} {:6.2} a page {:7.2} µs a page {:6.2} µs each",
            calls / pages as f64,
            microseconds / pages as f64,
            microseconds / calls
        );
    }
    println!("{:?}", backend.snapshot().await.unwrap());
}
