//! Notices when this machine's network is down: several hosts fail in a row and none responds. Requests then wait until the
//! network is back, so that their URLs do not fail.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::http::Downloader;
use crate::log;
use crate::origin::Origin;
use crate::outcome::{CONNECTING, Outcome};

/// After this many hosts failed, without a response of any host, the network is checked.
const MIN_FAILING_HOSTS: usize = 5;

/// How many of the hosts that responded, and of those that failed, the check tries to connect to.
const CHECKED_HOSTS: usize = 3;

/// The most failing hosts that are remembered.
const MAX_FAILING_HOSTS: usize = 100;

/// The pause between two checks. It doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause between two checks.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The state of this machine's network, as the requests of all workers of the process show it.
#[derive(Debug)]
pub struct NetworkMonitor {
    max_wait: Duration,
    hosts: Mutex<Hosts>,
    status: watch::Sender<Status>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Up,
    /// A request finds out whether it is up.
    Checked,
    Down {
        since: Instant,
    },
}

#[derive(Debug, Default)]
struct Hosts {
    /// Hosts that failed since the last response of any host.
    failing: HashSet<Origin>,
    /// Hosts that responded, the most recent one last.
    responded: VecDeque<Origin>,
    /// The network was down for too long. Failures count as the hosts' own until one responds.
    gave_up: bool,
}

/// What a failure of a request says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureSource {
    /// The host failed.
    Host,
    /// The network was down, and is up again or was given up: the request can be sent again.
    Network,
}

impl NetworkMonitor {
    /// A network that is up. When it is down, requests wait for at most `max_wait`.
    pub fn new(max_wait: Duration) -> NetworkMonitor {
        NetworkMonitor { max_wait, hosts: Mutex::default(), status: watch::Sender::new(Status::Up) }
    }

    /// For how long the network has been down, if it is.
    pub fn down_for(&self) -> Option<Duration> {
        match *self.status.borrow() {
            Status::Down { since } => Some(since.elapsed()),
            Status::Up | Status::Checked => None,
        }
    }

    /// Waits while the network is down.
    pub(super) async fn up(&self) {
        if self.down_for().is_some() {
            let _ = self.status.subscribe().wait_for(|status| !matches!(status, Status::Down { .. })).await;
        }
    }

    /// A host responded.
    pub(super) fn responded(&self, origin: &Origin) {
        let mut hosts = self.hosts();
        if hosts.responded.back() != Some(origin) {
            hosts.responded.retain(|other| other != origin);
            hosts.responded.push_back(origin.clone());
            if hosts.responded.len() > CHECKED_HOSTS {
                hosts.responded.pop_front();
            }
        }
        if !hosts.failing.is_empty() || hosts.gave_up {
            hosts.failing.clear();
            hosts.gave_up = false;
            drop(hosts);
            if self.down_for().is_some() {
                self.status.send_replace(Status::Up);
            }
        }
    }

    /// A request to a host failed as it would [without a network](is_network_failure). Finds out whether that was the host's
    /// or the network's fault, and if the network is down, waits until it is back.
    pub(super) async fn failed(&self, origin: &Origin, downloader: &Downloader) -> FailureSource {
        {
            let mut hosts = self.hosts();
            if hosts.failing.len() < MAX_FAILING_HOSTS {
                hosts.failing.insert(origin.clone());
            }
            if hosts.gave_up || hosts.failing.len() < MIN_FAILING_HOSTS {
                return FailureSource::Host;
            }
        }
        let is_first = self.status.send_if_modified(|status| {
            let is_up = *status == Status::Up;
            if is_up {
                *status = Status::Checked;
            }
            is_up
        });
        if is_first {
            let _guard = Checking(self);
            return self.check(downloader).await;
        }
        // Another request checks the network.
        let (mut status, mut source) = (self.status.subscribe(), FailureSource::Host);
        loop {
            match *status.borrow_and_update() {
                Status::Up => return source,
                Status::Checked => {}
                Status::Down { .. } => source = FailureSource::Network,
            }
            if status.changed().await.is_err() {
                return source;
            }
        }
    }

    /// Checks the network until it is up, or for as long as the crawl waits for it.
    async fn check(&self, downloader: &Downloader) -> FailureSource {
        let started = Instant::now();
        let (mut pause, mut source) = (FIRST_PAUSE, FailureSource::Host);
        while !self.is_up(downloader).await {
            if source == FailureSource::Host {
                log::network_down();
            }
            source = FailureSource::Network;
            self.status.send_replace(Status::Down { since: started });
            let left = self.max_wait.saturating_sub(started.elapsed());
            if left.is_zero() {
                self.hosts().gave_up = true;
                break;
            }
            sleep(pause.min(left)).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
        if source == FailureSource::Network {
            log::network_up(started.elapsed(), self.hosts().gave_up);
        }
        self.hosts().failing.clear();
        source
    }

    /// Whether a host can be connected to, or has responded meanwhile.
    async fn is_up(&self, downloader: &Downloader) -> bool {
        let origins: Vec<Origin> = {
            let hosts = self.hosts();
            hosts.responded.iter().rev().chain(hosts.failing.iter().take(CHECKED_HOSTS)).cloned().collect()
        };
        for origin in origins {
            if self.hosts().failing.is_empty() || downloader.can_connect(&origin).await {
                return true;
            }
        }
        false
    }

    fn hosts(&self) -> MutexGuard<'_, Hosts> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The network is being checked until this is dropped, also if the request is cancelled.
struct Checking<'a>(&'a NetworkMonitor);

impl Drop for Checking<'_> {
    fn drop(&mut self) {
        self.0.status.send_replace(Status::Up);
    }
}

/// Whether a failure may be that of this machine's network: the name could not be looked up, or the host not connected to.
pub(super) fn is_network_failure(failure: &Outcome) -> bool {
    match failure {
        Outcome::DnsFailed { is_temporary, .. } => *is_temporary,
        Outcome::ConnectionFailed { .. } => true,
        Outcome::Timeout { doing, .. } => *doing == CONNECTING,
        _ => false,
    }
}
