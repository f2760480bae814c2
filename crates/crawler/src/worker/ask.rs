//! One polite request: waits for the host's turn, asks, gives the turn back.

use std::time::Duration;

use url::Url;

use super::download::{Download, Downloader, Want};
use super::pace::Pace;
use crate::config::MAX_RETRY_AFTER;
use crate::origin::Origin;
use crate::outcome::Outcome;
use crate::stop::Stop;

/// How often a server may decline to look at a request before that counts as its answer.
const MAX_NOT_TAKEN: usize = 5;

/// The one way to a server, for pages and robots.txt alike.
pub struct Ask {
    /// When each host may be asked.
    pub pace: Pace,
    downloader: Downloader,
    stop: Stop,
}

impl Ask {
    /// Asks at this pace until told to stop.
    pub fn new(pace: Pace, downloader: Downloader, stop: Stop) -> Ask {
        Ask { pace, downloader, stop }
    }

    /// Asks once. A request that the server did not even look at does not count, and is made again in a turn of
    /// its own.
    pub async fn once(&self, url: &Url, want: Want) -> Result<Download, Outcome> {
        for _ in 1..MAX_NOT_TAKEN {
            match self.in_turn(url, want).await {
                Err(Outcome::NotTaken) => {}
                answer => return answer,
            }
        }
        self.in_turn(url, want).await
    }

    async fn in_turn(&self, url: &Url, want: Want) -> Result<Download, Outcome> {
        let host = Origin::of(url).paced_host();
        let turn = tokio::select! {
            biased;
            () = self.stop.asked() => return Err(Outcome::NotReached),
            turn = self.pace.turn(&host) => turn,
        };
        let answer = self.downloader.get(url, want).await;
        if let Ok(Download { status: 429 | 503, retry_after: Some(time), .. }) = answer {
            turn.rest(time.min(MAX_RETRY_AFTER));
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
