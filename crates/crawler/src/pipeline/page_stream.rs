//! The pages of a crawl as a stream with backpressure.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use futures_core::Stream;
use tokio::sync::{mpsc, oneshot};

use super::{CrawlReport, Crawler};
use crate::error::Error;
use crate::modules::Module;
use crate::page::Page;
use crate::stop::StopHandle;

/// How many pages wait for the consumer before the crawl does.
const BUFFERED_PAGES: usize = 16;

/// The pages of a running crawl: see [`Crawler::pages`].
///
/// Dropping the stream stops the crawl gracefully. It is also a [`Stream`].
#[derive(Debug)]
pub struct PageStream {
    pages: mpsc::Receiver<Page>,
    report: oneshot::Receiver<thread::Result<Result<CrawlReport, Error>>>,
    stop: StopHandle,
}

/// Hands each page to the stream, and waits while the stream is full.
struct PageSender {
    pages: mpsc::Sender<Page>,
    stop: StopHandle,
}

impl Module for PageSender {
    fn name(&self) -> &str {
        "stream"
    }

    fn process_page(&self, page: &Page) -> Result<(), String> {
        // The send fails only when the consumer has dropped the stream, which stops the crawl.
        if self.pages.blocking_send(page.clone()).is_err() {
            self.stop.stop();
        }
        Ok(())
    }
}

impl PageStream {
    pub(super) fn start(crawler: Crawler) -> Result<PageStream, Error> {
        let (sender, pages) = mpsc::channel(BUFFERED_PAGES);
        let stop = crawler.stop.clone();
        let report = crawler.module(PageSender { pages: sender, stop: stop.clone() }).spawn()?;
        Ok(PageStream { pages, report, stop })
    }

    /// The next page; `None` when the crawl has ended.
    pub async fn next(&mut self) -> Option<Page> {
        self.pages.recv().await
    }

    /// Stops the crawl if it still runs, and returns its report.
    pub async fn report(mut self) -> Result<CrawlReport, Error> {
        self.stop.stop();
        // Modules must not wait for a consumer that has stopped reading.
        self.pages.close();
        match (&mut self.report).await {
            Ok(Ok(report)) => report,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => unreachable!("the thread sends its result, also when it panics"),
        }
    }
}

impl Stream for PageStream {
    type Item = Page;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Page>> {
        self.pages.poll_recv(context)
    }
}

impl Drop for PageStream {
    fn drop(&mut self) {
        self.stop.stop();
    }
}
