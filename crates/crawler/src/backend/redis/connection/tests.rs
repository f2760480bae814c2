//! Tests of the connection with real servers.

mod failovers;
mod outages;
mod startup;
mod transactions;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Call, RedisConnectOptions, RedisConnection};

/// The notices that a connection has given.
#[derive(Clone, Default)]
struct Notices(Arc<Mutex<Vec<String>>>);

impl Notices {
    /// Options to give up soon when connecting for the first time, and to collect the notices here.
    fn options(&self) -> RedisConnectOptions {
        let notices = self.clone();
        let notice = Arc::new(move |message: &str| notices.0.lock().unwrap().push(message.to_owned()));
        RedisConnectOptions {
            connect_timeout: Duration::from_millis(300),
            notice,
            ..RedisConnectOptions::default()
        }
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Waits for a notice that starts so.
    async fn wait_for(&self, start: &str) {
        for _ in 0..3_000 {
            if self.all().iter().any(|message| message.starts_with(start)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("no notice starts with {start:?} after a minute: {:?}", self.all());
    }
}

/// Waits until a command of the connection has failed and is retried.
async fn wait_until_waiting(connection: &RedisConnection) {
    for _ in 0..3_000 {
        if connection.shared.outage.start().is_some() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no command has failed after a minute");
}

async fn open(url: &str) -> RedisConnection {
    RedisConnection::open(&url.parse().unwrap(), Notices::default().options()).await.unwrap()
}

/// The error of a connection that cannot be opened.
async fn open_error(url: &str, options: RedisConnectOptions) -> String {
    let opened = RedisConnection::open(&url.parse().unwrap(), options).await;
    let message = format!("{:#}", opened.err().expect("the connection fails"));
    message
}

/// A command, as words separated by spaces.
fn call(words: &str) -> Call {
    let words: Vec<&str> = words.split(' ').collect();
    Call::for_key(words[0], words.get(1).copied().unwrap_or_default()).arg(&words[1..])
}
