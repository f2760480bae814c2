//! One polite request: waits for the host's turn, asks, gives the turn back.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;
use url::Url;

use super::download::{Download, Downloader, Meter, Want};
use super::pace::Pace;
use crate::config::MAX_RETRY_AFTER;
use crate::origin::Origin;
use crate::outcome::Outcome;
use crate::resources::Pacing;
use crate::stop::Stop;

/// How often a server may decline to look at a request before that counts as its answer.
const MAX_NOT_TAKEN: usize = 5;

/// How long to wait for what others have reserved; most are in flight, and come back within their timeouts.
const NOT_NOW: Duration = Duration::from_millis(20);

/// Says how much a request may read, at the moment it can be made, and learns what came of it.
pub trait Allowance: Sync {
    /// The host's turn is being waited for, maybe for minutes: nothing is in flight meanwhile.
    fn waits(&self) -> impl Future<Output = ()> + Send;

    /// What may be read; `None` if nothing now, but maybe soon; an outcome if nothing at all.
    fn want(&self) -> impl Future<Output = Result<Option<Want>, Outcome>> + Send;

    /// So many body bytes were read.
    fn used(&self, bytes: u64);

    /// What a URL ends with whose first try failed, when the crawl ends before the second.
    fn unfinished(&self, first: Outcome) -> Outcome {
        first
    }

    /// The host wants more time than others get. Nothing more is asked of it before this returns, so that it can be
    /// noted where it outlives this process.
    fn slowed(&self, host: &str, pacing: Pacing) -> impl Future<Output = ()> + Send;
}

/// The same for everybody.
impl Allowance for Want {
    async fn waits(&self) {}

    async fn want(&self) -> Result<Option<Want>, Outcome> {
        Ok(Some(*self))
    }

    fn used(&self, _: u64) {}

    async fn slowed(&self, _: &str, _: Pacing) {}
}

/// The one way to a server, for pages and robots.txt alike.
pub struct Ask {
    /// When each host may be asked.
    pub pace: Arc<Pace>,
    /// Requests in flight: taken in the host's turn, so that one who waits for a host keeps nobody else waiting.
    slots: Semaphore,
    downloader: Downloader,
    stop: Stop,
}

impl Ask {
    /// Asks at this pace, with so many requests in flight, until told to stop.
    pub fn new(pace: Arc<Pace>, in_flight: usize, downloader: Downloader, stop: Stop) -> Ask {
        Ask { pace, slots: Semaphore::new(in_flight.clamp(1, Semaphore::MAX_PERMITS)), downloader, stop }
    }

    /// Asks once. A request that the server did not even look at does not count, and is made again in a turn of
    /// its own.
    pub async fn once(&self, url: &Url, allowance: &impl Allowance) -> Result<Download, Outcome> {
        for _ in 1..MAX_NOT_TAKEN {
            match self.in_turn(url, allowance).await {
                Err(Outcome::NotTaken) => {}
                answer => return answer,
            }
        }
        self.in_turn(url, allowance).await
    }

    async fn in_turn(&self, url: &Url, allowance: &impl Allowance) -> Result<Download, Outcome> {
        let host = Origin::of(url).paced_host();
        allowance.waits().await;
        let ready = async {
            let turn = self.pace.turn(&host).await;
            loop {
                let slot = self.slots.acquire().await.expect("the semaphore is never closed");
                match allowance.want().await {
                    // Whoever has what is missing may need the slot to bring it back.
                    Ok(None) => drop(slot),
                    Ok(Some(want)) => break (turn, slot, Ok(want)),
                    Err(outcome) => break (turn, slot, Err(outcome)),
                }
                tokio::time::sleep(NOT_NOW).await;
            }
        };
        let (turn, _slot, want) = tokio::select! {
            biased;
            () = self.stop.asked() => return Err(Outcome::NotReached),
            ready = ready => ready,
        };
        let meter = Meter::default();
        let (want, asked) = (want?, Instant::now());
        // A request's own state is large, and most who are in here wait for their host's turn: they do without.
        let answer = tokio::select! {
            biased;
            answer = Box::pin(self.downloader.get(url, want, &meter)) => answer,
            () = self.stop.asked_at_once() => Err(Outcome::NotReached),
        };
        turn.took(asked.elapsed());
        allowance.used(meter.bytes());
        if let Ok(Download { status: 429 | 503, retry_after: Some(time), .. }) = answer {
            turn.rest(time.min(MAX_RETRY_AFTER));
            if let Some(pacing) = self.pace.pacing(&host) {
                allowance.slowed(&host, pacing).await;
            }
        }
        answer
    }

    /// Waits, unless told to stop meanwhile; tells whether the time has passed.
    pub async fn pause(&self, time: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.stop.asked() => false,
            () = tokio::time::sleep(time) => true,
        }
    }
}
