//! What the tests of callback mode share: crawls with given pools, pages of links, and events that callbacks wait for.

use std::sync::{Condvar, Mutex};

use crawler::internal::callbacks::CallbackCrawl;

/// A crawl with these numbers of threads and this queue.
pub fn pools(download_workers: usize, parse_workers: usize, work_queue_size: usize) -> CallbackCrawl {
    CallbackCrawl::default()
        .download_workers(download_workers)
        .parse_workers(parse_workers)
        .work_queue_size(work_queue_size)
}

/// A page with a link for each number of the range: the prefix and the number.
pub fn page_of_links(prefix: &str, numbers: std::ops::Range<usize>) -> String {
    numbers.map(|number| format!("link:{prefix}{number}\n")).collect()
}

/// An event that happens once. Other threads wait for it.
#[derive(Default)]
pub struct Event(Mutex<bool>, Condvar);

impl Event {
    pub fn set(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    pub fn wait(&self) {
        drop(self.1.wait_while(self.0.lock().unwrap(), |is_set| !*is_set).unwrap());
    }
}
