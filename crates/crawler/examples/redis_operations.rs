//! Measures the cost of a page's operations on Redis: CPU time of the server and of this process, and
//! commands within scripts.
//!
//! `cargo run --release --example redis_operations -- PORT [PAGES [PARTITIONS [HOSTS]]]`; the Redis server
//! must be empty.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crawler::internal::backend::local::{BackendConfig, HostLimits};
use crawler::internal::backend::redis::{RedisBackend, RedisCrawl};
use crawler::internal::backend::{
    Backend, CompleteResult, Completion, DiscoveredUrl, Lease, Outlinks, WorkerId,
};
use crawler::internal::domain::Domain;
use crawler::internal::outcome::Outcome;
use crawler::internal::prioritizer::{Priority, PriorityQueues};
use crawler::internal::similarity::{Fingerprint, Threshold};
use crawler::internal::stats::BodyBytes;

const LINKS: usize = 25;
const IN_FLIGHT: usize = 16;

/// A synthetic web.
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

    /// The links of a page: one to a new page, some that all pages of its host share, and the others to
    /// random earlier pages.
    fn links(self, page: usize) -> Outlinks {
        let Web { pages, hosts } = self;
        let mut seed = page as u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below.max(1)
        };
        // The first page of a host links to several new pages: in a chain, only one URL per host would be
        // pending.
        let first = if page < hosts {
            page + hosts..=page + hosts * 64
        } else {
            page + hosts * 64..=page + hosts * 64
        };
        let mut links: Vec<usize> = first.step_by(hosts).collect();
        for link in 1..LINKS {
            let page_of_host = if link < 15 { link } else { random(page / hosts + 1) };
            links.push(page_of_host * hosts + page % hosts);
        }
        links.retain(|link| *link < pages);
        Outlinks::new(links.into_iter().map(|link| self.url(link)), 1)
    }
}

fn body(page: usize) -> Vec<u8> {
    let words = (0..400).map(|word| format!("w{} ", (page * 7919 + word * word * 31) % 100_003));
    words.collect::<String>().into_bytes()
}

async fn process(backend: Arc<RedisBackend>, lease: Lease, web: Web) {
    let page: usize =
        lease.url.rsplit('-').next().and_then(|end| end.strip_suffix(".html")).unwrap().parse().unwrap();
    backend.reserve(&lease, BodyBytes::default()).await.unwrap();
    let body = body(page);
    let fingerprint = Fingerprint::of_text(backend.hash_key(), None, &body);
    backend.store_content(&lease.url, &fingerprint, &body, false).await.unwrap();
    let completion = Completion {
        outcome: Outcome::Page,
        bytes: BodyBytes::unencoded(body.len() as u64),
        outlinks: web.links(page),
        linked_domains: vec![Domain::from_url_str(&lease.url)],
        ..Completion::new(&lease)
    };
    assert!(matches!(
        backend.complete(vec![completion]).await.unwrap()[..],
        [CompleteResult::Applied { .. }]
    ));
}

async fn prioritize(backend: Arc<RedisBackend>) {
    loop {
        let unprioritized = backend.take_unprioritized(256, Duration::from_millis(500)).await.unwrap();
        backend
            .enqueue_prioritized(unprioritized.iter().map(|url| (url.task_id, Priority::MIDDLE)).collect())
            .await
            .unwrap();
    }
}

async fn route(backend: Arc<RedisBackend>) {
    loop {
        backend.route(vec![Priority::MIDDLE; 256], Duration::from_millis(500)).await.unwrap();
    }
}

/// CPU seconds of this process so far.
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

    /// The name, number of calls and total microseconds of each command.
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
    let port = arguments.next().expect("the port of an empty Redis");
    let pages: usize = arguments.next().map_or(20_000, |pages| pages.parse().unwrap());
    let partitions = arguments.next().map_or(1, |partitions| partitions.parse().unwrap());
    let hosts = arguments.next().map_or(400, |hosts| hosts.parse().unwrap());
    let web = Web { pages, hosts };
    let config = BackendConfig {
        queue_size: 10_000,
        priority_queues: PriorityQueues::new(10).unwrap(),
        workers: 1,
        ttl: Duration::from_secs(3600),
        domain_ttl: Duration::from_secs(300),
        keep_depths: false,
        similarity: Threshold::new(0.9),
        strip_query: Default::default(),
        keep_content: true,
        max_pages: u64::MAX,
        max_bytes: u64::MAX,
        max_page_bytes: 500_000,
        max_pages_per_host: u64::MAX,
        max_pages_per_site: u64::MAX,
        hosts: HostLimits::default(),
    };
    let redis_url = format!("redis://127.0.0.1:{port}/");
    let mut server = Server(redis::Client::open(redis_url.as_str()).unwrap().get_connection().unwrap());
    let crawl = RedisCrawl {
        partitions: Some(partitions),
        ..RedisCrawl::new(redis_url.parse().unwrap(), "operations")
    };
    let backend = Arc::new(RedisBackend::open(crawl, config).await.unwrap());

    let start = Instant::now();
    let cpu_before = cpu();
    for page in 0..pages.min(2_000) {
        std::hint::black_box((Fingerprint::of_text(backend.hash_key(), None, &body(page)), web.links(page)));
    }
    let overhead = (cpu() - cpu_before) / pages.min(2_000) as f64;
    println!("overhead of this benchmark: {:.1} µs per page ({:.1?})", overhead * 1e6, start.elapsed());

    let seeds = (0..hosts).map(|page| DiscoveredUrl { url: web.url(page), depth: 0, redirects: 0 }).collect();
    redis::cmd("CONFIG").arg("RESETSTAT").exec(&mut server.0).unwrap();
    let (server_before, client_before, start) = (server.cpu(), cpu(), Instant::now());
    backend.admit(seeds).await.unwrap();
    let frontier =
        [tokio::spawn(prioritize(Arc::clone(&backend))), tokio::spawn(route(Arc::clone(&backend)))];
    let (mut tasks, mut completed) = (tokio::task::JoinSet::new(), 0);
    while completed < pages {
        let leases = backend.lease(WorkerId(0), 64, Duration::from_millis(20)).await.unwrap();
        for lease in leases {
            if tasks.len() >= IN_FLIGHT {
                tasks.join_next().await.unwrap().unwrap();
                completed += 1;
            }
            tasks.spawn(process(Arc::clone(&backend), lease, web));
        }
        while tasks.try_join_next().is_some() {
            completed += 1;
        }
    }
    frontier.iter().for_each(tokio::task::JoinHandle::abort);
    let (client, elapsed) = (cpu() - client_before, start.elapsed());
    let server_time = server.cpu() - server_before;
    let per_page = 1e6 / pages as f64;
    println!(
        "{pages} pages in {elapsed:.1?}: Redis {:.1} µs per page, client {:.1} µs per page without the overhead",
        server_time * per_page,
        client * per_page - overhead * 1e6
    );
    let mut commands = server.commands();
    commands.sort_by(|a, b| b.2.total_cmp(&a.2));
    let scripts: f64 =
        commands.iter().filter(|command| command.0 == "evalsha").map(|command| command.1).sum();
    let calls: f64 = commands.iter().map(|command| command.1).sum::<f64>() - scripts;
    println!("{:.1} scripts and {:.1} other commands per page", scripts / pages as f64, calls / pages as f64);
    for (name, calls, microseconds) in commands.iter().take(30) {
        println!(
            "  {name:12} {:6.2} per page {:7.2} µs per page {:6.2} µs each",
            calls / pages as f64,
            microseconds / pages as f64,
            microseconds / calls
        );
    }
    println!("{:?}", backend.snapshot().await.unwrap());
}
