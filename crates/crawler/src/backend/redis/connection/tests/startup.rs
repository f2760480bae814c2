//! Opening a connection fails, with cause and remedy, where no server is or where a crawl would not be safe.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use testredis::{Cluster, Fsync, Sentinels, Server, Tls};

use super::super::{Persistence, RedisConnectOptions, RedisConnection};
use super::{Notices, call, open, open_error};
use crate::config;

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn opening_waits_for_a_server_for_a_while() {
    let server = Server::start();
    server.kill();
    let url = server.url().replace("//", "//me:secret@");
    let message = open_error(&url, Notices::default().options()).await;
    let address = server.address();
    assert!(
        message.starts_with(&format!("cannot reach Redis at redis://{address}: connection refused")),
        "{message}"
    );
    assert!(message.ends_with("is it running, and can it be reached from here?"), "{message}");

    let comes = thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        server.restart();
        server
    });
    let url = url.replace("me:secret@", "");
    let connection =
        RedisConnection::open(&url.parse().unwrap(), RedisConnectOptions::default()).await.unwrap();
    assert_eq!(connection.one::<String>(call("PING")).await.unwrap(), "PONG");
    drop(comes.join());
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn denied_access_is_reported_at_once_and_without_the_password() {
    let server = Server::builder().password("sesame").start();
    server.query::<String>("ACL SETUSER mute on >secret ~* +@all -@scripting");
    let connections = || server.info("total_connections_received").parse::<u64>().unwrap();
    let with = |credentials: &str| server.url().replace(":sesame@", credentials);
    for credentials in ["", ":secret@", "nobody:secret@", "mute:secret@"] {
        let before = connections();
        let message = open_error(&with(credentials), RedisConnectOptions::default()).await;
        assert!(
            message.ends_with(
                "; give a user name and password that may use scripts, transactions and the keys of the crawl: \
                 redis://user:password@host:port/"
            ),
            "{message}"
        );
        assert!(!message.contains("secret") && !message.contains("sesame"), "{message}");
        // A retry would continue for five seconds. One of these connections counts them.
        assert!(connections() - before <= 3, "{credentials} was tried again");
    }
    assert_eq!(open(&server.url()).await.address(), format!("redis://{}", server.address()));
    let open_to_all = Server::start();
    let message =
        open_error(&open_to_all.url().replace("//", "//:secret@"), RedisConnectOptions::default()).await;
    assert!(message.contains("without any password configured"), "{message}");
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn tls_needs_a_trusted_certificate_on_a_tls_port() {
    let directory = tempfile::tempdir().unwrap();
    let tls = Tls::generate(directory.path());
    let server = Server::builder().tls(&tls).start();
    let roots = config::certificates(&std::fs::read(&tls.root).unwrap()).unwrap();
    let trusting = || RedisConnectOptions { extra_roots: roots.clone(), ..Notices::default().options() };
    assert!(server.url().starts_with("rediss://"));
    let connection = RedisConnection::open(&server.url().parse().unwrap(), trusting()).await.unwrap();
    // More than one TLS record.
    let long = "x".repeat(3 << 20);
    connection.one::<()>(call("SET key").arg(&long)).await.unwrap();
    assert_eq!(connection.one::<String>(call("GET key")).await.unwrap(), long);

    let message = open_error(&server.url(), RedisConnectOptions::default()).await;
    assert!(message.contains("invalid peer certificate"), "{message}");
    let secure_port_plainly = server.url().replace("rediss://", "redis://");
    let message = open_error(&secure_port_plainly, Notices::default().options()).await;
    assert!(
        message.contains("cannot reach") && message.contains("does it want TLS (rediss://)"),
        "{message}"
    );
    let plain_port_securely = format!("rediss://{}/", server.address());
    let message = open_error(&plain_port_securely, trusting()).await;
    assert!(message.contains("or not (redis://)"), "{message}");
}

/// A server that replies with this version of Redis, or, without one, as a web server.
fn fake_server(version: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || reply_as_fake(client, version));
        }
    });
    url
}

fn reply_as_fake(mut client: TcpStream, version: &str) {
    let lines = BufReader::new(client.try_clone().unwrap()).lines().map_while(Result::ok);
    for line in lines {
        let information = format!("redis_version:{version}\r\ncluster_enabled:0\r\n");
        let reply = match line.as_str() {
            _ if version.is_empty() => "HTTP/1.1 400 Bad Request\r\n\r\n".to_owned(),
            "INFO" => format!("${}\r\n{information}\r\n", information.len()),
            "CLIENT" => "+OK\r\n".to_owned(),
            _ => continue,
        };
        if client.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn old_versions_and_other_servers_are_rejected() {
    let message = open_error(&fake_server("6.2.14"), RedisConnectOptions::default()).await;
    assert!(message.ends_with("is version 6.2.14; the crawl needs 7.0 or later, or Valkey"), "{message}");
    let message = open_error(&fake_server(""), RedisConnectOptions::default()).await;
    assert!(message.contains("its reply is not in the protocol of Redis; is it Redis"), "{message}");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}/", silent.local_addr().unwrap());
    let message = open_error(&url, Notices::default().options()).await;
    assert!(message.contains("no reply; is it running"), "{message}");
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn replicas_and_servers_that_evict_keys_are_rejected() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let message = open_error(&replica.url(), RedisConnectOptions::default()).await;
    assert!(message.contains("is a replica, and what is written to a replica is lost"), "{message}");
    let evicting = Server::builder().setting("maxmemory", "100mb").setting("maxmemory-policy", "allkeys-lru");
    let message = open_error(&evicting.start().url(), RedisConnectOptions::default()).await;
    assert!(message.ends_with("set maxmemory-policy to noeviction"), "{message}");
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn address_of_the_wrong_kind_is_rejected() {
    let (cluster, sentinels) = (Cluster::start(), Sentinels::start(1));
    let message = open_error(&format!("{}3", cluster.url()), RedisConnectOptions::default()).await;
    assert!(
        message.ends_with("is a cluster, which has no databases; give the address without one"),
        "{message}"
    );
    let alone = [&sentinels.servers[0], &sentinels.servers[1]].map(|server| server.address().to_string());
    let message = open_error(&format!("redis://{}/", alone.join(",")), RedisConnectOptions::default()).await;
    assert!(message.contains("it is no cluster, and only a cluster has several addresses"), "{message}");
    let sentinel = sentinels.addresses()[0];
    let message =
        open_error(&format!("redis+sentinel://{sentinel}/other"), RedisConnectOptions::default()).await;
    assert!(message.contains("it knows no primary named 'other'"), "{message}");
    let message = open_error(&format!("redis://{}/99", alone[0]), RedisConnectOptions::default()).await;
    assert!(message.ends_with("has no such database; give one that it has, like 0"), "{message}");
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn connection_reports_the_persistence_of_the_server() {
    let volatile = Server::start();
    let connection = open(&volatile.url()).await;
    assert_eq!(connection.persistence().await.unwrap(), Persistence::Nothing);
    volatile.query_args::<String>(&["CONFIG", "SET", "save", "60 1"]);
    assert_eq!(connection.persistence().await.unwrap(), Persistence::Snapshots);
    volatile.query::<String>("ACL SETUSER default -config");
    assert_eq!(connection.persistence().await.unwrap(), Persistence::Unknown);
    let persistent = Server::builder().append_only(Fsync::EverySecond).start();
    assert_eq!(open(&persistent.url()).await.persistence().await.unwrap(), Persistence::AppendOnlyFile);
}
