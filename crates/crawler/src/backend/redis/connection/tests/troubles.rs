//! What is asked at the same moment goes together, and whatever happens to a server is waited for.

use std::time::Duration;

use testredis::{Fsync, Mode, Proxy, Server};
use tokio::time::{Instant, sleep};

use super::super::{Call, Connection};
use super::{Told, call, open};

#[tokio::test]
#[ignore = "needs redis-server; make test installs it"]
async fn what_is_asked_at_the_same_moment_goes_in_one_batch_and_an_error_is_only_for_who_made_it() {
    let server = Server::start();
    let connection = open(&server.url()).await;
    connection.all(vec![call("SET text words")]).await.unwrap();
    let (batches, commands) = connection.traffic();
    let asks = (0..100).map(|number| {
        let connection = connection.clone();
        tokio::spawn(async move {
            match number % 10 {
                0 => connection.one::<u64>(call("INCR text")).await,
                _ => connection.one(call(&format!("INCR count:{number}"))).await,
            }
        })
    });
    for (number, asked) in asks.collect::<Vec<_>>().into_iter().enumerate() {
        let answer = asked.await.unwrap();
        match number % 10 {
            0 => assert!(answer.unwrap_err().0.contains("value is not an integer")),
            _ => assert_eq!(answer.unwrap(), 1),
        }
    }
    let (batches, commands) = (connection.traffic().0 - batches, connection.traffic().1 - commands);
    assert_eq!((batches, commands), (1, 100));
}

#[tokio::test]
#[ignore = "needs redis-server; make test installs it"]
async fn much_is_sent_in_several_batches_and_answered_in_order() {
    let server = Server::start();
    let connection = open(&server.url()).await;
    let before = connection.traffic().0;
    let echo = |number: usize| {
        let mut echo = Call::plain("ECHO");
        echo.arg(format!("{number} {}", "x".repeat(50_000)));
        echo
    };
    let answers: Vec<String> = connection.each((0..100).map(echo).collect()).await.unwrap();
    for (number, answer) in answers.iter().enumerate() {
        assert!(answer.starts_with(&format!("{number} ")) && answer.len() > 50_000);
    }
    assert!((4..=6).contains(&(connection.traffic().0 - before)), "5 MB in batches of one");
    assert!(connection.all(Vec::new()).await.unwrap().is_empty());
}

#[tokio::test]
#[ignore = "needs redis-server; make test installs it"]
async fn full_memory_is_waited_for_while_others_read() {
    let server = Server::builder().max_memory("100mb").start();
    let told = Told::default();
    let connection = Connection::open(&server.url().parse().unwrap(), told.manner()).await.unwrap();
    server.ask::<String>("CONFIG SET maxmemory 1");
    let writing = tokio::spawn({
        let connection = connection.clone();
        async move { connection.one::<String>(call("SET key value")).await }
    });
    told.wait_for("waiting for Redis at redis://127.0.0.1:").await;
    assert!(told.all()[0].contains("OOM command not allowed"), "{:?}", told.all());
    assert_eq!(connection.one::<Option<String>>(call("GET key")).await.unwrap(), None);
    assert!(connection.in_trouble_since().is_some(), "who reads does not end the trouble of who writes");
    server.ask::<String>("CONFIG SET maxmemory 0");
    assert_eq!(writing.await.unwrap().unwrap(), "OK");
    assert!(connection.in_trouble_since().is_none());
    told.wait_for("Redis at redis://127.0.0.1:").await;
    let end = &told.all()[1];
    assert!(end.contains("answers again after 1 s") || end.contains("after 2 s"), "{end}");
}

#[tokio::test]
#[ignore = "needs redis-server; make test installs it"]
async fn a_restart_with_an_append_only_file_is_waited_for_and_loses_nothing() {
    let server = Server::builder().append_only(Fsync::Always).password("sesame").start();
    let told = Told::default();
    let connection = Connection::open(&server.url().parse().unwrap(), told.manner()).await.unwrap();
    connection.all(vec![call("SET key before")]).await.unwrap();
    server.kill();
    let asked = Instant::now();
    let asking = tokio::spawn({
        let connection = connection.clone();
        async move { connection.each::<String>(vec![call("GET key"), call("SET other after")]).await }
    });
    told.wait_for("waiting for Redis at redis://127.0.0.1:").await;
    assert!(told.all()[0].ends_with("for 1 s now: connection refused"), "{:?}", told.all());
    let since = connection.in_trouble_since().unwrap();
    assert!(since >= asked && since - asked < Duration::from_millis(100));
    server.restart();
    assert_eq!(asking.await.unwrap().unwrap(), ["before", "OK"]);
    assert!(!told.all().concat().contains("sesame"));
}

#[tokio::test]
#[ignore = "needs redis-server; make test installs it"]
async fn cut_lost_and_late_answers_are_asked_for_again() {
    let server = Server::start();
    let proxy = Proxy::before(&server);
    let connection = open(&proxy.url()).await;
    let text = "x".repeat(1000);
    let ask = async || {
        let mut set = call("SET key");
        set.arg(&text);
        connection.each::<String>(vec![set, call("GET key")]).await.unwrap()
    };
    proxy.cut_next_answer_after(500);
    assert_eq!(ask().await, ["OK", &text]);
    proxy.swallow_next_answer();
    assert_eq!(ask().await, ["OK", &text]);
    assert!(!proxy.is_armed());
    proxy.cut();
    assert_eq!(ask().await, ["OK", &text]);
    proxy.set(Mode::Delay(Duration::from_millis(100)));
    assert_eq!(ask().await, ["OK", &text]);
    proxy.set(Mode::BlackHole);
    let (mode, asked) = (
        async {
            proxy.set({
                sleep(Duration::from_secs(1)).await;
                Mode::Pass
            })
        },
        ask(),
    );
    assert_eq!(tokio::join!(mode, asked).1, ["OK", &text]);
}

#[tokio::test]
#[ignore = "needs redis-server; make test installs it"]
async fn a_server_that_does_not_answer_is_left_for_a_new_connection() {
    let server = Server::start();
    let proxy = Proxy::before(&server);
    let told = Told::default();
    let connection = Connection::open(&proxy.url().parse().unwrap(), told.manner()).await.unwrap();
    proxy.set(Mode::Hold);
    let asking = tokio::spawn({
        let connection = connection.clone();
        async move { connection.one::<String>(call("PING")).await }
    });
    told.wait_for("waiting for Redis").await;
    assert!(told.all()[0].ends_with("for 5 s now: no answer within 5 s"), "{:?}", told.all());
    proxy.set(Mode::Pass);
    assert_eq!(asking.await.unwrap().unwrap(), "PONG");
}

#[tokio::test]
#[ignore = "needs redis-server; make test installs it"]
async fn a_server_that_becomes_a_replica_is_waited_for() {
    let (server, other) = (Server::start(), Server::start());
    let connection = open(&server.url()).await;
    server.ask::<String>(&format!("REPLICAOF 127.0.0.1 {}", other.port()));
    let writing = tokio::spawn({
        let connection = connection.clone();
        async move { connection.one::<String>(call("SET key value")).await }
    });
    sleep(Duration::from_millis(300)).await;
    assert!(!writing.is_finished() && connection.in_trouble_since().is_some());
    server.ask::<String>("REPLICAOF NO ONE");
    assert_eq!(writing.await.unwrap().unwrap(), "OK");
}

#[tokio::test]
#[ignore = "needs redis-server; make test installs it"]
async fn what_cannot_pass_is_an_error_at_once() {
    let server = Server::start();
    let connection = open(&server.url()).await;
    connection.all(vec![call("SET key text")]).await.unwrap();
    let begun = Instant::now();
    for (words, why) in [
        ("LPUSH key value", "WRONGTYPE"),
        ("NONSENSE key", "unknown command"),
        ("EVAL error('bad') 0", "bad"),
    ] {
        let message = connection.one::<String>(call(words)).await.unwrap_err().0;
        assert!(message.contains(why) && message.contains("cannot do what it is asked"), "{message}");
    }
    server.ask::<String>("ACL SETUSER default -set");
    let message = connection.one::<String>(call("SET key value")).await.unwrap_err().0;
    assert!(message.contains("NOPERM") && message.contains("refuses"), "{message}");
    assert!(begun.elapsed() < Duration::from_secs(1));
}
