//! Lost replies, Redis restarts, clusters, and servers that are unreachable or misconfigured.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crawler::internal::backend::redis::{Address, RedisBackend, RedisCrawl};
use crawler::internal::backend::{Backend, DiscoveredUrl};
use testredis::{Cluster, Fsync, Server};
use testweb::Web;

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
#[ignore = "needs redis-server; make test installs it"]
fn operations_with_lost_replies_are_applied_once() {
    for partitions in [1, 16] {
        crawl_with_lost_replies(partitions);
    }
}

fn crawl_with_lost_replies(partitions: u16) {
    let (web, redis) = (Web::builder().seeded_hosts(7, 20, 12).start(), Server::start());
    // Opening a crawl takes about thirty replies. After that, about every sixtieth reply is lost.
    let crawl = Crawl { redis: lossy_proxy(&redis, 50), partitions, ..Crawl::new(&web, &redis, "cut", 3) };
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
#[ignore = "needs redis-server; make test installs it"]
fn crawl_on_a_cluster_is_complete() {
    let (web, cluster) = (Web::builder().seeded_hosts(7, 20, 12).start(), Cluster::start());
    let (urls, snapshot) = Crawl::new(&web, &cluster.nodes[0], "spread", 3).run();
    assert_complete(urls, &snapshot, &web);
    assert_requested_once(&web);
    assert!(cluster.nodes.iter().all(|node| node.query::<u64>("DBSIZE") > 0), "every node has keys");
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn crawl_continues_after_redis_restarts_and_loses_nothing() {
    let web = Web::builder().seeded_hosts(7, 20, 12).start();
    let redis = Server::builder().append_only(Fsync::EverySecond).start();
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
#[ignore = "needs redis-server; make test installs it"]
fn flushed_scripts_are_loaded_again() {
    let (web, redis) = (Web::builder().seeded_hosts(7, 20, 2).start(), Server::start());
    let backend = Crawl::new(&web, &redis, "flushed", 1).open();
    redis.query::<()>("SCRIPT FLUSH");
    let seed = DiscoveredUrl { url: "http://a.test/".into(), depth: 0, redirects: 0 };
    assert_eq!(block_on(backend.admit(vec![seed])).unwrap().new, 1);
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
    let crawl = RedisCrawl { partitions: Some(1), ..RedisCrawl::new(address, crawl) };
    format!("{:#}", block_on(RedisBackend::open(crawl, config)).err().expect("it is rejected"))
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
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
#[ignore = "needs redis-server; make test installs it"]
fn processes_of_a_crawl_must_have_the_same_settings() {
    let redis = Server::start();
    let crawl = RedisCrawl {
        partitions: Some(4),
        delay: Duration::ZERO,
        ..RedisCrawl::new(redis.url().parse().unwrap(), "mine")
    };
    let first = block_on(RedisBackend::open(crawl.clone(), config(1))).unwrap();
    let second =
        block_on(RedisBackend::open(RedisCrawl { partitions: Some(9), ..crawl }, config(3))).unwrap();
    let seed = || vec![DiscoveredUrl { url: "http://a.test/".into(), depth: 0, redirects: 0 }];
    assert_eq!(block_on(first.admit(seed())).unwrap().new, 1);
    assert_eq!(
        block_on(second.admit(seed())).unwrap().new,
        0,
        "it uses the partitions and the hash key of the first"
    );
    let message = error_of_opening(&redis.url(), "mine", |config| config.ttl = Duration::from_secs(1));
    assert!(message.contains("--ttl is 1h there and 1s here"), "{message}");
    let message = error_of_opening(&redis.url(), "a{b", |_| {});
    assert!(message.contains("cannot be the name of a crawl"), "{message}");
}
