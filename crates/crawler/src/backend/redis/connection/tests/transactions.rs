//! Transactions run once, and only if the keys have the values that they are expected to have.

use testredis::{Proxy, Server};

use super::super::{RedisConnection, Transaction};
use super::{open, wait_until_waiting};

/// Runs the transaction of a batch, as a frontier does whose number is 7. Returns the first condition that does not hold, or 0.
async fn run(connection: &RedisConnection, batch: u64) -> u8 {
    let before = if batch == 1 { String::new() } else { (batch - 1).to_string() };
    let mut transaction = Transaction::new([("epoch".into(), "7".into()), ("batch".into(), before)]);
    transaction.write(("SET", "batch", batch));
    transaction.write(("INCR", "written"));
    transaction.write_rows("rows", [("a", Some(batch)), ("b", None)].into_iter());
    connection.one(transaction.call("batch")).await.unwrap()
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn transaction_runs_only_if_the_keys_have_the_expected_values() {
    let server = Server::start();
    let connection = open(&server.url()).await;
    assert_eq!(run(&connection, 1).await, 1, "there is no number of a frontier");
    server.query::<String>("SET epoch 7");
    assert_eq!(run(&connection, 1).await, 0);
    assert_eq!(run(&connection, 2).await, 0);
    assert_eq!(run(&connection, 2).await, 2, "it was written already");
    server.query::<String>("SET epoch 8");
    assert_eq!(run(&connection, 3).await, 1);
    // A key that was written since and has the same value.
    server.query::<String>("SET epoch 7");
    assert_eq!(run(&connection, 3).await, 0);
    server.query::<String>("SET batch 3");
    assert_eq!(run(&connection, 4).await, 0);
    server.query::<String>("DEL epoch");
    assert_eq!(run(&connection, 5).await, 1);
    assert_eq!(server.query::<u64>("GET written"), 4);
    assert_eq!(server.query::<u64>("HGET rows a"), 4);
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn transaction_takes_one_round_trip() {
    let server = Server::start();
    let connection = open(&server.url()).await;
    server.query::<String>("SET epoch 7");
    run(&connection, 1).await;
    let reads = || server.info("total_reads_processed").parse::<u64>().unwrap();
    let before = reads();
    for batch in 2..=20 {
        assert_eq!(run(&connection, batch).await, 0);
    }
    // One more is that of the command that asks.
    assert!(reads() - before <= 20 + 1, "{}", reads() - before);
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn transaction_is_written_once_when_replies_are_lost_and_the_server_is_full() {
    let server = Server::builder().max_memory("100mb").start();
    let proxy = Proxy::for_server(&server);
    let connection = open(&proxy.url()).await;
    server.query::<String>("SET epoch 7");
    for batch in 1..=30 {
        match batch % 4 {
            0 => proxy.drop_next_reply(),
            1 => proxy.truncate_next_reply(batch as usize * 3),
            2 => proxy.close_connections(),
            _ => {}
        }
        // A frontier looks whether the batch is its own.
        let failed = run(&connection, batch).await;
        assert!(failed == 0 || failed == 2, "{failed}");
        assert_eq!(server.query::<u64>("GET batch"), batch);
        assert_eq!(server.query::<u64>("GET written"), batch);
    }
    server.query::<String>("CONFIG SET maxmemory 1");
    let waiting = tokio::spawn({
        let connection = connection.clone();
        async move { run(&connection, 31).await }
    });
    wait_until_waiting(&connection).await;
    assert_eq!(server.query::<u64>("GET written"), 30);
    server.query::<String>("CONFIG SET maxmemory 0");
    assert_eq!(waiting.await.unwrap(), 0);
    assert_eq!(server.query::<u64>("GET written"), 31);
}
