//! Lost replies, Redis restarts, clusters, and servers that are unreachable or misconfigured.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crawler::internal::backend::redis::{Address, DistributedCrawl, RedisCrawl, RemoteBackend, Role};
use crawler::internal::backend::{Backend, CompleteResult, WorkerId};
use crawler::internal::prioritizer::Random;
use crawler::internal::similarity::Fingerprint;
use crawler::internal::stats::BodyBytes;
use testredis::{Cluster, Fsync, Mode, Proxy, Server};
use testweb::Web;
use tokio::time::sleep;

use super::distributed_crawl::{Ledger, TestCrawl, Tree, hosts, lease, page, wait_until};
use super::{Crawl, assert_complete, assert_requested_once, block_on, config};

/// A proxy that closes each connection after about `replies` replies and drops one more: Redis executed the
/// request, but the client does not know.
fn lossy_proxy(server: &Server, replies: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = server.address();
    thread::spawn(move || {
        for (number, client) in listener.incoming().enumerate() {
            let (client, server) = (client.unwrap(), TcpStream::connect(server).unwrap());
            // The number varies, so that every kind of operation loses its reply once.
            forward(client, server, replies + number % 17);
        }
    });
    format!("redis://{address}/")
}

fn forward(client: TcpStream, server: TcpStream, replies: usize) {
    let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Both);
    });
    thread::spawn(move || {
        let (mut server, mut client, mut buffer) = (server, client, vec![0; 1 << 20]);
        for _ in 0..replies {
            match server.read(&mut buffer) {
                Ok(read @ 1..) if client.write_all(&buffer[..read]).is_ok() => {}
                _ => break,
            }
        }
        let _ = server.read(&mut buffer);
        let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn operations_with_lost_replies_are_applied_once() {
    let (web, redis) = (Web::builder().seeded_hosts(7, 20, 12).start(), Server::start());
    // Opening a crawl takes about ten replies. After that, about every fortieth reply is lost.
    let crawl = Crawl { redis: lossy_proxy(&redis, 30), ..Crawl::new(&web, &redis, "cut", 3) };
    let (urls, snapshot) = crawl.run();
    assert_complete(urls, &snapshot, &web);
    assert_requested_once(&web);
    assert_eq!(
        snapshot.links_new + 1,
        snapshot.admitted,
        "all URLs but the seed were new on exactly one page"
    );
    assert!(redis.info("total_connections_received").parse::<u32>().unwrap() > 20);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn completed_page_has_its_body_on_redis_when_replies_are_lost() {
    let redis = Server::start();
    block_on(async {
        let crawl = TestCrawl::new(&redis, "bodies");
        let _frontier = crawl.take_over().await;
        crawl.seed((0..200).map(|number| format!("http://a.test/{number}"))).await;
        let worker = TestCrawl { redis: lossy_proxy(&redis, 20), ..crawl }.worker(0, 1).await;
        let mut completed = 0;
        while completed < 200 {
            let leases = worker.lease(WorkerId(0), 5, Duration::from_millis(100)).await.unwrap();
            for lease in &leases {
                let fingerprint = Fingerprint::of_text(worker.hash_key(), None, lease.url.as_bytes());
                let body = lease.url.repeat(1_000);
                worker.store_content(&lease.url, &fingerprint, body.as_bytes(), false).await.unwrap();
            }
            let results = worker.complete(leases.iter().map(page).collect()).await.unwrap();
            assert!(results.iter().all(|result| matches!(result, CompleteResult::Applied { .. })));
            completed += leases.len();
            let bodies: Vec<String> = redis.query("KEYS crawler:*:body:*");
            assert!(bodies.len() >= completed, "{} bodies of {completed} pages", bodies.len());
        }
    });
    assert!(redis.info("total_connections_received").parse::<u32>().unwrap() > 10);
}

/// Crawls a tree as a worker does, until it is stopped.
async fn work(worker: &RemoteBackend, tree: Tree, ledger: &Ledger, is_finished: &std::cell::Cell<bool>) {
    while !is_finished.get() {
        let leases = worker.lease(WorkerId(0), 8, Duration::from_millis(20)).await.unwrap();
        for lease in &leases {
            worker.reserve(lease, BodyBytes::default()).await.unwrap();
        }
        let completions = leases.iter().map(|lease| tree.completion(lease)).collect();
        let results = worker.complete(completions).await.unwrap();
        leases.iter().zip(results).for_each(|(lease, result)| ledger.record(lease, result));
    }
}

/// Crawls a tree with two workers and a frontier through a proxy, while `disturb` runs.
fn crawl_through(
    server: &Server,
    proxy: &Proxy,
    tree: Tree,
    disturb: impl AsyncFnOnce(&std::cell::Cell<bool>),
) {
    let (ledger, is_finished) = (Ledger::default(), std::cell::Cell::new(false));
    block_on(async {
        let crawl = TestCrawl::new(server, "disturbed");
        let through = TestCrawl { redis: proxy.url(), ..crawl.clone() };
        let frontier = through.take_over().await;
        let (one, two) = (through.worker(0, 1).await, through.worker(1, 1).await);
        crawl.seed([tree.url(0)]).await;
        let finish = async {
            wait_until("all URLs are completed", async || frontier.pending().await == 0).await;
            is_finished.set(true);
        };
        tokio::join!(
            work(&one, tree, &ledger, &is_finished),
            work(&two, tree, &ledger, &is_finished),
            finish,
            disturb(&is_finished),
        );
        tree.assert_crawled(&frontier.snapshot().await);
    });
    ledger.assert_complete(tree);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn requests_and_replies_that_are_cut_late_or_lost_are_applied_once() {
    for seed in 0..2 {
        let server = Server::start();
        let proxy = Proxy::for_server(&server);
        crawl_through(&server, &proxy, Tree(600), async |is_finished| {
            let (mut random, mut cuts) = (Random::seeded(seed), 0);
            while !is_finished.get() && cuts < 25 {
                match random.below(6) {
                    0 => proxy.close_connections(),
                    1 => proxy.drop_next_reply(),
                    2 => proxy.truncate_next_reply(random.below(30) as usize),
                    3 => {
                        proxy.set_mode(Mode::Delay(Duration::from_millis(15)));
                        sleep(Duration::from_millis(40)).await;
                        proxy.set_mode(Mode::Pass);
                    }
                    4 => {
                        proxy.set_mode(Mode::Refuse);
                        sleep(Duration::from_millis(20)).await;
                        proxy.set_mode(Mode::Pass);
                    }
                    // It arrives after what was sent instead of it.
                    _ => {
                        proxy.hold_request_after(random.below(4) as usize);
                        wait_until("a request is held back", async || !proxy.is_armed() || is_finished.get())
                            .await;
                        sleep(Duration::from_millis(u64::from(random.below(30)))).await;
                        if !proxy.is_armed() {
                            proxy.deliver_held_request();
                        }
                    }
                }
                cuts += 1;
                sleep(Duration::from_millis(20 + u64::from(random.below(60)))).await;
            }
            assert!(cuts > 10, "{cuts} cuts");
        });
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_continues_when_redis_has_memory_again_and_heartbeats_need_none() {
    let server = Server::start();
    block_on(async {
        let crawl = TestCrawl::new(&server, "full");
        let frontier = crawl.take_over().await;
        let (control, worker) = (crawl.open().await, crawl.worker(0, 1).await);
        control.set_seeding(b"").await.unwrap();
        control.join(Some(Role::Frontier), "f", "here", None).await.unwrap();
        crawl.seed(hosts(10)).await;
        let leases = lease(&worker, 10).await;
        server.query::<()>("CONFIG SET maxmemory 1");
        let completing = worker.complete(leases.iter().map(page).collect());
        let recover = async {
            for _ in 0..5 {
                let (is_member, _) = control.heartbeat(Role::Frontier, "f", Duration::ZERO).await.unwrap();
                assert!(is_member);
                sleep(Duration::from_millis(20)).await;
            }
            assert_eq!(server.query::<u64>("HLEN crawler:{full:frontier}:tasks"), 10);
            server.query::<()>("CONFIG SET maxmemory 0");
        };
        let (results, ()) = tokio::join!(completing, recover);
        let results = results.unwrap();
        assert!(results.iter().all(|result| matches!(result, CompleteResult::Applied { .. })), "{results:?}");
        assert_eq!(frontier.snapshot().await.pages, 10);
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn workers_wait_while_there_is_no_frontier() {
    let server = Server::start();
    block_on(async {
        let crawl = TestCrawl::new(&server, "headless");
        let frontier = crawl.take_over().await;
        let worker = crawl.worker(0, 1).await;
        crawl.seed(hosts(10)).await;
        let leases = lease(&worker, 10).await;
        drop(frontier);
        let completing = worker.complete(leases.iter().map(page).collect());
        let seeds: Vec<_> = hosts(12).map(|url| super::distributed_crawl::discovered(&url, 0)).collect();
        let seeding = async {
            let control = crawl.open().await;
            assert_eq!(control.add_seeds(&seeds, false).await.unwrap(), None);
        };
        let next = async {
            sleep(Duration::from_millis(50)).await;
            crawl.take_over().await
        };
        let (results, (), next) = tokio::join!(completing, seeding, next);
        assert_eq!(results.unwrap().len(), 10);
        wait_until("the seeds are admitted", async || next.snapshot().await.admitted == 12).await;
        assert_eq!(lease(&worker, 2).await.len(), 2);
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_on_a_cluster_is_complete() {
    let (web, cluster) = (Web::builder().seeded_hosts(7, 20, 12).start(), Cluster::start());
    let (urls, snapshot) = Crawl::new(&web, &cluster.nodes[0], "spread", 3).run();
    assert_complete(urls, &snapshot, &web);
    assert_requested_once(&web);
    assert!(cluster.nodes.iter().all(|node| node.query::<u64>("DBSIZE") > 0), "every node has keys");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_continues_after_redis_restarts_and_loses_nothing() {
    let web = Web::builder().seeded_hosts(7, 20, 12).start();
    let redis = Server::builder().append_only(Fsync::Always).start();
    let crawl = Crawl { delay: Duration::from_millis(50), ..Crawl::new(&web, &redis, "restarted", 3) };
    let (urls, snapshot) = thread::scope(|scope| {
        let crawling = scope.spawn(|| crawl.run());
        for pages in [20, 100] {
            while web.log().len() < pages && !crawling.is_finished() {
                thread::sleep(Duration::from_millis(5));
            }
            assert!(!crawling.is_finished(), "the crawl finished before Redis was killed");
            redis.kill();
            thread::sleep(Duration::from_millis(300));
            redis.restart();
        }
        crawling.join().unwrap()
    });
    assert_complete(urls, &snapshot, &web);
    assert_requested_once(&web);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn flushed_scripts_are_loaded_again() {
    let server = Server::start();
    block_on(async {
        let crawl = TestCrawl::new(&server, "flushed");
        let _frontier = crawl.take_over().await;
        server.query::<()>("SCRIPT FLUSH");
        crawl.seed(hosts(1)).await;
    });
}

fn error_of_opening(
    url: &str,
    crawl: &str,
    change: impl FnOnce(&mut crawler::internal::backend::local::BackendConfig),
) -> String {
    let mut config = config(1);
    change(&mut config);
    let address: Address = match url.parse() {
        Ok(address) => address,
        Err(error) => return format!("{error:#}"),
    };
    let crawl = RedisCrawl::new(address, crawl);
    format!("{:#}", block_on(DistributedCrawl::open(crawl, config)).err().expect("it is rejected"))
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn errors_name_the_address_of_redis_without_the_password() {
    let unused = "127.0.0.1:1";
    let message = error_of_opening(&format!("redis://me:secret@{unused}/"), "x", |_| {});
    assert!(message.starts_with(&format!("cannot reach Redis at redis://{unused}: ")), "{message}");
    assert!(message.ends_with("is it running, and can it be reached from here?"), "{message}");
    assert!(!message.contains("secret"), "{message}");

    let locked = Server::builder().password("sesame").start();
    let message = error_of_opening(&locked.url().replace("sesame", "wrong"), "x", |_| {});
    assert!(message.contains("password") && !message.contains("wrong@"), "{message}");

    let evicting =
        Server::builder().setting("maxmemory", "100mb").setting("maxmemory-policy", "allkeys-lru").start();
    let message = error_of_opening(&evicting.url(), "x", |_| {});
    assert!(message.ends_with("set maxmemory-policy to noeviction"), "{message}");

    let message = error_of_opening("http://127.0.0.1/", "x", |_| {});
    assert!(message.ends_with("give one like redis://host:6379/0"), "{message}");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn name_of_a_crawl_has_no_special_characters() {
    let redis = Server::start();
    let message = error_of_opening(&redis.url(), "a{b", |_| {});
    assert!(message.contains("cannot be the name of a crawl"), "{message}");
}
