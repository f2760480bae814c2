//! The server's log of requests, with measures of politeness.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::request::{Protocol, Request};

/// One request with its times.
///
/// The times never make a client look less polite than it is: `started` is not before the client sent the request, and
/// for a complete response `ended` is not after the client could have received it.
#[derive(Debug, Clone)]
pub struct LoggedRequest {
    /// The number of the connection, from 1.
    pub connection: u64,
    /// The host name in the Host header, in lower case, without the port.
    pub host: String,
    /// The port of the listener.
    pub port: u16,
    /// The method.
    pub method: String,
    /// Path and query, as sent.
    pub path: String,
    /// All headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The protocol of the request.
    pub protocol: Protocol,
    /// When the head of the request had been read.
    pub started: Instant,
    /// When the last byte of the response was written to the socket, or the connection broke. `None` while the request
    /// is in progress.
    pub ended: Option<Instant>,
    /// The status sent; `None` if no valid status was sent.
    pub status: Option<u16>,
}

impl LoggedRequest {
    /// The value of the first header with this lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// Requests in the order of their starts.
#[derive(Debug, Clone, Default)]
pub struct Log(Vec<LoggedRequest>);

impl Log {
    /// The requests to this host name.
    pub fn for_host(&self, host: &str) -> Log {
        self.filter(|hit| hit.host == host)
    }

    /// The requests for this path (with its query).
    pub fn for_path(&self, path: &str) -> Log {
        self.filter(|hit| hit.path == path)
    }

    /// The requests for which `keep` is true.
    pub fn filter(&self, keep: impl Fn(&LoggedRequest) -> bool) -> Log {
        Log(self.0.iter().filter(|hit| keep(hit)).cloned().collect())
    }

    /// The paths in order.
    pub fn paths(&self) -> Vec<&str> {
        self.0.iter().map(|hit| hit.path.as_str()).collect()
    }

    /// The shortest time between the end of all earlier requests to a host (name and port) and the start of its next
    /// request. Zero if two overlapped; `None` if no host had two requests.
    pub fn smallest_gap(&self) -> Option<Duration> {
        // A request in progress (`None`) keeps its host busy past any later start.
        let mut busy_until: HashMap<(&str, u16), Option<Instant>> = HashMap::new();
        let mut smallest: Option<Duration> = None;
        for hit in &self.0 {
            let host = (hit.host.as_str(), hit.port);
            let mut end = hit.ended;
            if let Some(before) = busy_until.get(&host).copied() {
                let gap =
                    before.map_or(Duration::ZERO, |before| hit.started.saturating_duration_since(before));
                smallest = Some(smallest.unwrap_or(gap).min(gap));
                end = before.zip(end).map(|(before, end)| before.max(end));
            }
            busy_until.insert(host, end);
        }
        smallest
    }

    /// The shortest time between the starts of two consecutive requests to the same host (name and port).
    pub fn smallest_start_gap(&self) -> Option<Duration> {
        let mut last = HashMap::new();
        let gaps = self.0.iter().filter_map(|hit| {
            let before: Instant = last.insert((hit.host.as_str(), hit.port), hit.started)?;
            Some(hit.started.saturating_duration_since(before))
        });
        gaps.min()
    }

    /// By how much a request started too early, if any two consecutive requests, whatever their hosts, are to start at least
    /// `interval` apart. Each request is compared with all before it, so that one that was logged late counts only once.
    pub fn earliness(&self, interval: Duration) -> Duration {
        let (mut latest, mut earliness) = (None::<Instant>, Duration::ZERO);
        for LoggedRequest { started, .. } in &self.0 {
            let due = latest.map_or(*started, |latest| latest + interval);
            earliness = earliness.max(due.saturating_duration_since(*started));
            latest = Some(due.max(*started));
        }
        earliness
    }

    /// The largest number of requests in progress at one time.
    pub fn max_concurrent(&self) -> usize {
        let starts = self.0.iter().map(|hit| (hit.started, 1));
        let ends = self.0.iter().filter_map(|hit| Some((hit.ended?, -1)));
        let mut changes: Vec<(Instant, i64)> = starts.chain(ends).collect();
        // At the same instant, an end sorts before a start: the two requests did not overlap.
        changes.sort();
        let running = changes.iter().scan(0, |now, (_, change)| {
            *now += change;
            Some(*now)
        });
        running.max().unwrap_or(0) as usize
    }
}

impl Deref for Log {
    type Target = [LoggedRequest];
    fn deref(&self) -> &[LoggedRequest] {
        &self.0
    }
}

impl FromIterator<LoggedRequest> for Log {
    fn from_iter<I: IntoIterator<Item = LoggedRequest>>(hits: I) -> Self {
        let mut hits: Vec<LoggedRequest> = hits.into_iter().collect();
        hits.sort_by_key(|hit| hit.started);
        Log(hits)
    }
}

impl IntoIterator for Log {
    type Item = LoggedRequest;
    type IntoIter = std::vec::IntoIter<LoggedRequest>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Records the server's requests.
#[derive(Debug)]
pub(crate) struct Recorder {
    hits: Mutex<Vec<LoggedRequest>>,
    /// Whether there is a log at all.
    enabled: bool,
}

impl Recorder {
    pub(crate) fn new(enabled: bool) -> Self {
        Self { hits: Mutex::default(), enabled }
    }

    fn hits(&self) -> MutexGuard<'_, Vec<LoggedRequest>> {
        self.hits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self) -> usize {
        self.hits().len()
    }

    pub(crate) fn log(&self) -> Log {
        self.hits().iter().cloned().collect()
    }

    /// Records the start of a request.
    pub(crate) fn start(self: &Arc<Self>, connection: u64, port: u16, request: &Request) -> Entry {
        if !self.enabled {
            return Entry { slot: None, status: None, ended: None };
        }
        let hit = LoggedRequest {
            connection,
            host: request.host(),
            port,
            method: request.method.clone(),
            path: request.path.clone(),
            headers: request.headers.clone(),
            protocol: request.protocol,
            started: Instant::now(),
            ended: None,
            status: None,
        };
        let mut hits = self.hits();
        hits.push(hit);
        Entry { slot: Some((self.clone(), hits.len() - 1)), status: None, ended: None }
    }
}

/// A request in progress. It ends at the time in `ended`, or else when this is dropped.
#[derive(Debug)]
pub struct Entry {
    slot: Option<(Arc<Recorder>, usize)>,
    /// The status that was sent.
    pub status: Option<u16>,
    /// When the last byte was written to the socket.
    pub ended: Option<Instant>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some((recorder, index)) = self.slot.take() else { return };
        let hit = &mut recorder.hits()[index];
        hit.ended = Some(self.ended.unwrap_or_else(Instant::now));
        hit.status = self.status;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hits of one host with these starts and ends, in milliseconds.
    fn log(times: &[(u64, Option<u64>)]) -> Log {
        let zero = Instant::now();
        let at = |time| zero + Duration::from_millis(time);
        let hit = |(started, ended): &(u64, Option<u64>)| LoggedRequest {
            connection: 1,
            host: "a.test".into(),
            port: 80,
            method: "GET".into(),
            path: "/".into(),
            headers: Vec::new(),
            protocol: Protocol::H1,
            started: at(*started),
            ended: ended.map(at),
            status: None,
        };
        times.iter().map(hit).collect()
    }

    #[test]
    fn long_request_keeps_its_host_busy_after_a_short_concurrent_one() {
        let log = log(&[(0, Some(100)), (10, Some(20)), (50, Some(60)), (150, Some(160))]);
        assert_eq!(log.smallest_gap(), Some(Duration::ZERO));
        assert_eq!(log.smallest_start_gap(), Some(Duration::from_millis(10)));
        assert_eq!(log.max_concurrent(), 2);
    }

    #[test]
    fn gap_is_from_an_end_to_the_next_start() {
        let log = log(&[(0, Some(10)), (40, Some(80)), (100, Some(101))]);
        assert_eq!(log.smallest_gap(), Some(Duration::from_millis(20)));
        assert_eq!(log.smallest_start_gap(), Some(Duration::from_millis(40)));
        assert_eq!(log.max_concurrent(), 1);
    }

    #[test]
    fn request_in_progress_leaves_no_gap() {
        assert_eq!(log(&[(0, None), (100, Some(110))]).smallest_gap(), Some(Duration::ZERO));
        assert_eq!(log(&[(0, None)]).smallest_gap(), None);
    }
}
