//! Answers that are lost, servers that are not there or not as they should be.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crawler::internal::backend::redis::{Address, RedisBackend, RedisCrawl};
use crawler::internal::backend::{Backend, BackendError, DiscoveredUrl};
use testredis::{Cluster, Fsync, Server};
use testweb::Web;

use super::{Crawl, assert_asked_once, assert_is_whole, block_on, settings};

/// Stands before a server and cuts connections, each after so many answers, the last of which it keeps to itself:
/// what was asked was done, and nobody knows.
fn before(server: &Server, answers: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = server.address();
    thread::spawn(move || {
        for (number, client) in listener.incoming().enumerate() {
            let (client, server) = (client.unwrap(), TcpStream::connect(server).unwrap());
            // Not all after the same number, so that every move loses its answer once.
            pass_on(client, server, answers + number % 17);
        }
    });
    format!("redis://{address}/")
}

fn pass_on(client: TcpStream, server: TcpStream, answers: usize) {
    let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Both);
    });
    thread::spawn(move || {
        let (mut server, mut client, mut buffer) = (server, client, vec![0; 1 << 20]);
        for _ in 0..answers {
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
fn moves_whose_answers_are_lost_are_made_once() {
    for partitions in [1, 16] {
        lose_answers(partitions);
    }
}

fn lose_answers(partitions: u16) {
    let (web, redis) = (Web::builder().seeded_hosts(7, 20, 12).start(), Server::start());
    // Opening a crawl takes some thirty answers; after that every sixtieth or so is lost.
    let crawl = Crawl { redis: before(&redis, 50), partitions, ..Crawl::of(&web, &redis, "cut", 3) };
    let (kept, snapshot) = crawl.run();
    assert_is_whole(kept, &snapshot, &web);
    assert_asked_once(&web);
    assert_eq!(
        snapshot.links_new + 1,
        snapshot.admitted,
        "all but the seed were found on a page, each on one"
    );
    assert!(redis.info("total_connections_received").parse::<u32>().unwrap() > 20);
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_crawl_on_a_cluster_is_whole() {
    let (web, cluster) = (Web::builder().seeded_hosts(7, 20, 12).start(), Cluster::start());
    let (kept, snapshot) = Crawl::of(&web, &cluster.nodes[0], "spread", 3).run();
    assert_is_whole(kept, &snapshot, &web);
    assert_asked_once(&web);
    assert!(cluster.nodes.iter().all(|node| node.ask::<u64>("DBSIZE") > 0), "every node has a part");
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_crawl_goes_on_after_restarts_of_redis_and_loses_nothing() {
    let web = Web::builder().seeded_hosts(7, 20, 12).start();
    let redis = Server::builder().append_only(Fsync::EverySecond).start();
    let crawl = Crawl { delay: Duration::from_millis(50), ..Crawl::of(&web, &redis, "restarted", 3) };
    let (kept, snapshot) = thread::scope(|scope| {
        let crawling = scope.spawn(|| crawl.run());
        for pages in [20, 100] {
            while web.log().len() < pages && !crawling.is_finished() {
                thread::sleep(Duration::from_millis(5));
            }
            assert!(!crawling.is_finished(), "the crawl was over before Redis was killed");
            redis.kill();
            thread::sleep(Duration::from_millis(300));
            redis.restart();
        }
        crawling.join().unwrap()
    });
    assert_is_whole(kept, &snapshot, &web);
    assert_asked_once(&web);
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_server_that_forgot_the_scripts_learns_them_again() {
    let (web, redis) = (Web::builder().seeded_hosts(7, 20, 2).start(), Server::start());
    let backend = Crawl::of(&web, &redis, "forgetful", 1).open();
    redis.ask::<()>("SCRIPT FLUSH");
    let seed = DiscoveredUrl { url: "http://a.test/".into(), depth: 0, redirects: 0 };
    assert_eq!(block_on(backend.admit(vec![seed])).unwrap().new, 1);
}

fn refused(
    url: &str,
    crawl: &str,
    change: impl FnOnce(&mut crawler::internal::backend::local::BackendConfig),
) -> String {
    let mut settings = settings(1);
    change(&mut settings);
    let address: Address = match url.parse() {
        Ok(address) => address,
        Err(BackendError(message)) => return message,
    };
    let place = RedisCrawl { partitions: Some(1), ..RedisCrawl::new(address, crawl) };
    let BackendError(message) = block_on(RedisBackend::open(place, settings)).err().expect("it is refused");
    message
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn what_is_wrong_with_a_redis_is_said_with_its_address_and_without_the_password() {
    let unused = "127.0.0.1:1";
    let message = refused(&format!("redis://me:secret@{unused}/"), "x", |_| {});
    assert!(message.starts_with(&format!("cannot reach Redis at redis://{unused}: ")), "{message}");
    assert!(message.ends_with("is it running, and can it be reached from here?"), "{message}");
    assert!(!message.contains("secret"), "{message}");

    let locked = Server::builder().password("sesame").start();
    let message = refused(&locked.url().replace("sesame", "wrong"), "x", |_| {});
    assert!(message.contains("password") && !message.contains("wrong@"), "{message}");

    let evicting =
        Server::builder().setting("maxmemory", "100mb").setting("maxmemory-policy", "allkeys-lru").start();
    let message = refused(&evicting.url(), "x", |_| {});
    assert!(message.ends_with("set maxmemory-policy to noeviction"), "{message}");

    let message = refused("http://127.0.0.1/", "x", |_| {});
    assert!(message.ends_with("give one like redis://host:6379/0"), "{message}");
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn who_joins_a_crawl_must_mean_the_same_by_it() {
    let redis = Server::start();
    let place = RedisCrawl {
        partitions: Some(4),
        delay: Duration::ZERO,
        ..RedisCrawl::new(redis.url().parse().unwrap(), "mine")
    };
    let first = block_on(RedisBackend::open(place.clone(), settings(1))).unwrap();
    let second =
        block_on(RedisBackend::open(RedisCrawl { partitions: Some(9), ..place }, settings(3))).unwrap();
    let seed = || vec![DiscoveredUrl { url: "http://a.test/".into(), depth: 0, redirects: 0 }];
    assert_eq!(block_on(first.admit(seed())).unwrap().new, 1);
    assert_eq!(
        block_on(second.admit(seed())).unwrap().new,
        0,
        "it has the partitions and the secret of the first"
    );
    let message = refused(&redis.url(), "mine", |settings| settings.ttl = Duration::from_secs(1));
    assert!(message.contains("--ttl in milliseconds is 3600000 there and 1000 here"), "{message}");
    let message = refused(&redis.url(), "a{b", |_| {});
    assert!(message.contains("cannot be the name of a crawl"), "{message}");
}
