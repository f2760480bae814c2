//! Commands sent at the same moment go in one batch, and commands wait while a server is down, full or read-only.

use std::time::Duration;

use testredis::{Fsync, Mode, Proxy, Server};
use tokio::time::{Instant, sleep};

use super::super::RedisConnection;
use super::{Notices, call, open, wait_until_waiting};

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn concurrent_commands_are_sent_together_and_each_gets_its_own_error() {
    let server = Server::start();
    let connection = open(&server.url()).await;
    connection.one::<()>(call("SET text words")).await.unwrap();
    let reads = || server.info("total_reads_processed").parse::<u64>().unwrap();
    let ((trips, commands), reads_before) = (connection.traffic(), reads());
    let command = |number: usize| {
        let connection = connection.clone();
        async move {
            match number % 10 {
                0 => connection.one::<u64>(call("INCR text")).await,
                _ => connection.one(call(&format!("INCR count:{number}"))).await,
            }
        }
    };
    let commands_sent: Vec<_> = (0..100).map(command).collect();
    // All start on the thread of the connection at the same time.
    let started = async { commands_sent.into_iter().map(tokio::spawn).collect::<Vec<_>>() };
    for (number, command) in connection.spawn(started).await.unwrap().into_iter().enumerate() {
        let reply = command.await.unwrap();
        match number % 10 {
            0 => assert!(format!("{:#}", reply.unwrap_err()).contains("value is not an integer")),
            _ => assert_eq!(reply.unwrap(), 1),
        }
    }
    let (trips, commands) = (connection.traffic().0 - trips, connection.traffic().1 - commands);
    assert!(trips < 10 && commands == 100, "{trips} round trips for {commands} commands");
    let reads = reads() - reads_before;
    assert!(reads < 10, "the server reads several commands at a time: {reads} reads");
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn replies_to_large_commands_are_in_order() {
    let server = Server::start();
    let connection = open(&server.url()).await;
    let echo = |number: usize| call("ECHO").arg(format!("{number} {}", "x".repeat(50_000)));
    let replies: Vec<String> = connection.all((0..100).map(echo).collect()).await.unwrap();
    for (number, reply) in replies.iter().enumerate() {
        assert!(reply.starts_with(&format!("{number} ")) && reply.len() > 50_000);
    }
    assert!(connection.all::<String>(Vec::new()).await.unwrap().is_empty());
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn writes_wait_while_memory_is_full_and_reads_succeed() {
    let server = Server::builder().max_memory("100mb").start();
    let notices = Notices::default();
    let connection = RedisConnection::open(&server.url().parse().unwrap(), notices.options()).await.unwrap();
    server.query::<String>("CONFIG SET maxmemory 1");
    let writing = tokio::spawn({
        let connection = connection.clone();
        async move { connection.one::<String>(call("SET key value")).await }
    });
    notices.wait_for("waiting for Redis at redis://127.0.0.1:").await;
    assert!(notices.all()[0].contains("OOM command not allowed"), "{:?}", notices.all());
    assert_eq!(connection.one::<Option<String>>(call("GET key")).await.unwrap(), None);
    assert!(connection.shared.outage.start().is_some(), "a read does not end the wait of a write");
    server.query::<String>("CONFIG SET maxmemory 0");
    assert_eq!(writing.await.unwrap().unwrap(), "OK");
    assert!(connection.shared.outage.start().is_none());
    notices.wait_for("Redis at redis://127.0.0.1:").await;
    assert!(notices.all()[1].contains("replies again after "), "{:?}", notices.all());
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn commands_wait_while_a_server_with_an_append_only_file_restarts() {
    let server = Server::builder().append_only(Fsync::Always).password("sesame").start();
    let notices = Notices::default();
    let connection = RedisConnection::open(&server.url().parse().unwrap(), notices.options()).await.unwrap();
    connection.one::<()>(call("SET key before")).await.unwrap();
    server.kill();
    let sent = Instant::now();
    let waiting = tokio::spawn({
        let connection = connection.clone();
        async move { connection.all::<String>(vec![call("GET key"), call("SET other after")]).await }
    });
    notices.wait_for("waiting for Redis at redis://127.0.0.1:").await;
    assert!(notices.all()[0].ends_with(" s now: connection refused"), "{:?}", notices.all());
    let since = connection.shared.outage.start().unwrap();
    // Since the command was sent, a second before the notice: not since the notice.
    assert!(since >= sent && since.elapsed() >= Duration::from_secs(1));
    server.restart();
    assert_eq!(waiting.await.unwrap().unwrap(), ["before", "OK"]);
    assert!(!notices.all().concat().contains("sesame"));
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn commands_are_retried_when_replies_are_truncated_lost_or_late() {
    let server = Server::start();
    let proxy = Proxy::for_server(&server);
    let connection = open(&proxy.url()).await;
    let text = "x".repeat(1000);
    let set_and_get = async || {
        let set: String = connection.one(call("SET key").arg(&text)).await.unwrap();
        [set, connection.one(call("GET key")).await.unwrap()]
    };
    proxy.truncate_next_reply(500);
    assert_eq!(set_and_get().await, ["OK", &text]);
    proxy.drop_next_reply();
    assert_eq!(set_and_get().await, ["OK", &text]);
    assert!(!proxy.is_armed());
    proxy.close_connections();
    assert_eq!(set_and_get().await, ["OK", &text]);
    proxy.set_mode(Mode::Delay(Duration::from_millis(100)));
    assert_eq!(set_and_get().await, ["OK", &text]);
    proxy.set_mode(Mode::BlackHole);
    let (restore, replies) = (
        async {
            proxy.set_mode({
                sleep(Duration::from_secs(1)).await;
                Mode::Pass
            })
        },
        set_and_get(),
    );
    assert_eq!(tokio::join!(restore, replies).1, ["OK", &text]);
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn server_that_does_not_reply_gets_a_new_connection() {
    let server = Server::start();
    let proxy = Proxy::for_server(&server);
    let notices = Notices::default();
    let connection = RedisConnection::open(&proxy.url().parse().unwrap(), notices.options()).await.unwrap();
    proxy.set_mode(Mode::Hold);
    let waiting = tokio::spawn({
        let connection = connection.clone();
        async move { connection.one::<String>(call("PING")).await }
    });
    notices.wait_for("waiting for Redis").await;
    assert!(notices.all()[0].ends_with(" s now: no reply within 5 s"), "{:?}", notices.all());
    proxy.set_mode(Mode::Pass);
    assert_eq!(waiting.await.unwrap().unwrap(), "PONG");
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn writes_wait_while_the_server_is_a_replica() {
    let (server, other) = (Server::start(), Server::start());
    let connection = open(&server.url()).await;
    server.query::<String>(&format!("REPLICAOF 127.0.0.1 {}", other.port()));
    let writing = tokio::spawn({
        let connection = connection.clone();
        async move { connection.one::<String>(call("SET key value")).await }
    });
    wait_until_waiting(&connection).await;
    assert!(!writing.is_finished());
    server.query::<String>("REPLICAOF NO ONE");
    assert_eq!(writing.await.unwrap().unwrap(), "OK");
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn permanent_errors_are_not_retried() {
    let server = Server::start();
    let connection = open(&server.url()).await;
    connection.one::<()>(call("SET key text")).await.unwrap();
    let before = connection.traffic();
    for (words, cause) in [
        ("LPUSH key value", "WRONGTYPE"),
        ("NONSENSE key", "unknown command"),
        ("EVAL error('bad') 0", "bad"),
    ] {
        let message = format!("{:#}", connection.one::<String>(call(words)).await.unwrap_err());
        assert!(message.contains(cause) && message.contains("cannot run a command"), "{message}");
    }
    server.query::<String>("ACL SETUSER default -set");
    let message = format!("{:#}", connection.one::<String>(call("SET key value")).await.unwrap_err());
    assert!(message.contains("NOPERM") && message.contains("refuses"), "{message}");
    let (batches, commands) = connection.traffic();
    assert_eq!((batches - before.0, commands - before.1), (4, 4), "each command is sent once");
}
