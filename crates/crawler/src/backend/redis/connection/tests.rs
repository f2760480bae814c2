//! Promises of the connection, held against real servers.

mod failovers;
mod openings;
mod troubles;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Call, Connection, RedisConnectOptions};
use crate::backend::BackendError;

/// What was told to who watches the crawl.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    /// A manner that is quick to give up at the beginning, and tells this.
    fn manner(&self) -> RedisConnectOptions {
        let told = self.clone();
        let notice = Arc::new(move |message: &str| told.0.lock().unwrap().push(message.to_owned()));
        RedisConnectOptions { patience: Duration::from_millis(300), notice, ..RedisConnectOptions::default() }
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Waits for a message that begins so, while everything else goes on.
    async fn wait_for(&self, beginning: &str) {
        for _ in 0..500 {
            if self.all().iter().any(|message| message.starts_with(beginning)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("nobody said {beginning:?} within ten seconds, but {:?}", self.all());
    }
}

async fn open(url: &str) -> Connection {
    Connection::open(&url.parse().unwrap(), Told::default().manner()).await.unwrap()
}

/// Why there is no connection.
async fn refused(url: &str, manner: RedisConnectOptions) -> String {
    let opened = Connection::open(&url.parse().unwrap(), manner).await;
    let BackendError(message) = opened.err().expect("it is refused");
    message
}

/// A command, in words.
fn call(words: &str) -> Call {
    let mut words = words.split(' ');
    let mut call = Call::plain(words.next().unwrap());
    for word in words {
        call.arg(word);
    }
    call
}
