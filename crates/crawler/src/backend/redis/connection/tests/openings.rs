//! Servers that are not there, or not as they should be, are refused at the beginning, in words that help.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use testredis::{Cluster, Fsync, Sentinels, Server, Tls};

use super::super::{Connection, Kind, Persistence, RedisConnectOptions};
use super::{Told, call, open, refused};
use crate::config;

#[tokio::test]
#[ignore = "needs redis-server; make test installs it"]
async fn a_server_that_is_not_there_is_waited_for_for_a_while() {
    let server = Server::start();
    server.kill();
    let (url, begun) = (server.url().replace("//", "//me:secret@"), Instant::now());
    let message = refused(&url, Told::default().manner()).await;
    let address = server.address();
    assert!(
        message.starts_with(&format!("cannot reach Redis at redis://{address}: connection refused")),
        "{message}"
    );
    assert!(message.ends_with("is it running, and can it be reached from here?"), "{message}");
    assert!(begun.elapsed() < Duration::from_secs(2));

    let comes = thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        server.restart();
        server
    });
    let url = url.replace("me:secret@", "");
    let connection = Connection::open(&url.parse().unwrap(), RedisConnectOptions::default()).await.unwrap();
    assert_eq!(connection.one::<String>(call("PING")).await.unwrap(), "PONG");
    drop(comes.join());
}

#[tokio::test]
#[ignore = "needs redis-server; make test installs it"]
async fn who_has_no_access_is_told_at_once_and_without_the_password() {
    let server = Server::builder().password("sesame").start();
    server.ask::<String>("ACL SETUSER mute on >secret ~* +@all -@scripting");
    let with = |who: &str| server.url().replace(":sesame@", who);
    for who in ["", ":secret@", "nobody:secret@", "mute:secret@"] {
        let begun = Instant::now();
        let message = refused(&with(who), RedisConnectOptions::default()).await;
        assert!(
            message.ends_with(
                "give a user name and password that may use scripts and the keys of the crawl: \
                 redis://user:password@host:port/"
            ),
            "{message}"
        );
        assert!(!message.contains("secret") && !message.contains("sesame"), "{message}");
        assert!(begun.elapsed() < Duration::from_secs(1), "{who} was tried again");
    }
    assert_eq!(open(&server.url()).await.address(), format!("redis://{}", server.address()));
    let open_to_all = Server::start();
    let message =
        refused(&open_to_all.url().replace("//", "//:secret@"), RedisConnectOptions::default()).await;
    assert!(message.contains("without any password configured"), "{message}");
}

#[tokio::test]
#[ignore = "needs redis-server; make test installs it"]
async fn tls_is_spoken_where_the_certificate_is_trusted() {
    let directory = tempfile::tempdir().unwrap();
    let tls = Tls::make(directory.path());
    let server = Server::builder().tls(&tls).start();
    let roots = config::certificates(&std::fs::read(&tls.root).unwrap()).unwrap();
    let trusting = || RedisConnectOptions { extra_roots: roots.clone(), ..Told::default().manner() };
    assert!(server.url().starts_with("rediss://"));
    let connection = Connection::open(&server.url().parse().unwrap(), trusting()).await.unwrap();
    // More than TLS takes in one record.
    let long = "x".repeat(3 << 20);
    let mut set = call("SET key");
    set.arg(&long);
    connection.all(vec![set]).await.unwrap();
    assert_eq!(connection.one::<String>(call("GET key")).await.unwrap(), long);

    let message = refused(&server.url(), RedisConnectOptions::default()).await;
    assert!(message.contains("invalid peer certificate"), "{message}");
    let secure_port_plainly = server.url().replace("rediss://", "redis://");
    let message = refused(&secure_port_plainly, Told::default().manner()).await;
    assert!(
        message.contains("cannot reach") || message.contains("does it want TLS (rediss://)"),
        "{message}"
    );
    let plain_port_securely = format!("rediss://{}/", server.address());
    let message = refused(&plain_port_securely, trusting()).await;
    assert!(message.contains("cannot reach") || message.contains("or not (redis://)"), "{message}");
}

/// Answers as an old server does, or as no Redis does.
fn pretends(version: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || pretend(client, version));
        }
    });
    url
}

fn pretend(mut client: TcpStream, version: &str) {
    let lines = BufReader::new(client.try_clone().unwrap()).lines().map_while(Result::ok);
    for line in lines {
        let information = format!("redis_version:{version}\r\ncluster_enabled:0\r\n");
        let answer = match line.as_str() {
            _ if version.is_empty() => "HTTP/1.1 400 Bad Request\r\n\r\n".to_owned(),
            "INFO" => format!("${}\r\n{information}\r\n", information.len()),
            "CLIENT" => "+OK\r\n".to_owned(),
            _ => continue,
        };
        if client.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn a_server_that_is_too_old_or_no_redis_is_refused() {
    let message = refused(&pretends("6.2.14"), RedisConnectOptions::default()).await;
    assert!(message.ends_with("is version 6.2.14; the crawl needs 7.0 or later, or Valkey"), "{message}");
    let message = refused(&pretends(""), RedisConnectOptions::default()).await;
    assert!(message.contains("\"HTTP/1.1 400 Bad Request\", which is not how Redis answers"), "{message}");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}/", silent.local_addr().unwrap());
    let message = refused(&url, Told::default().manner()).await;
    assert!(message.contains("no answer; is it running"), "{message}");
}

#[tokio::test]
#[ignore = "needs redis-server; make test installs it"]
async fn a_server_that_would_lose_what_it_is_given_is_refused() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let message = refused(&replica.url(), RedisConnectOptions::default()).await;
    assert!(message.contains("is a replica, and what is written to a replica is lost"), "{message}");
    let evicting = Server::builder().setting("maxmemory", "100mb").setting("maxmemory-policy", "allkeys-lru");
    let message = refused(&evicting.start().url(), RedisConnectOptions::default()).await;
    assert!(message.ends_with("set maxmemory-policy to noeviction"), "{message}");
}

#[tokio::test]
#[ignore = "needs redis-server; make test installs it"]
async fn an_address_that_does_not_fit_what_is_there_is_refused() {
    let (cluster, sentinels) = (Cluster::start(), Sentinels::start(1));
    let message = refused(&format!("{}3", cluster.url()), RedisConnectOptions::default()).await;
    assert!(
        message.ends_with("is a cluster, which has no databases; give the address without one"),
        "{message}"
    );
    let alone = [&sentinels.servers[0], &sentinels.servers[1]].map(|server| server.address().to_string());
    let message = refused(&format!("redis://{}/", alone.join(",")), RedisConnectOptions::default()).await;
    assert!(message.contains("it is no cluster, and only a cluster has several addresses"), "{message}");
    let sentinel = sentinels.addresses()[0];
    let message =
        refused(&format!("redis+sentinel://{sentinel}/other"), RedisConnectOptions::default()).await;
    assert!(message.contains("it knows no primary named \"other\""), "{message}");
    let message = refused(&format!("redis://{}/99", alone[0]), RedisConnectOptions::default()).await;
    assert!(message.ends_with("has no such database; give one that it has, like 0"), "{message}");
}

#[tokio::test]
#[ignore = "needs redis-server; make test installs it"]
async fn what_is_there_and_whether_it_persists_is_told() {
    let forgetful = Server::start();
    let connection = open(&forgetful.url()).await;
    assert_eq!(connection.persistence().await.unwrap(), Persistence::Nothing);
    let server = connection.server().await.unwrap();
    assert_eq!((server.kind, server.version), (Kind::Plain, forgetful.info("redis_version")));
    assert_eq!(server.address, format!("redis://{}", forgetful.address()));
    forgetful.cli::<String>(&["CONFIG", "SET", "save", "60 1"]);
    assert_eq!(connection.persistence().await.unwrap(), Persistence::Snapshots);
    forgetful.ask::<String>("ACL SETUSER default -config");
    assert_eq!(connection.persistence().await.unwrap(), Persistence::Unknown);
    let careful = Server::builder().append_only(Fsync::EverySecond).start();
    assert_eq!(open(&careful.url()).await.persistence().await.unwrap(), Persistence::AppendOnlyFile);
}
