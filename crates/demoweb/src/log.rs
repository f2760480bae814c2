//! The server's own account of who asked what and when, and the questions tests put to it.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::request::{Protocol, Request};

/// One request and when it was served.
///
/// The times never make a client look less polite than it is: `started` is not before the client began
/// to ask, and for an answer that was wholly sent `ended` is not after the client could have had it.
#[derive(Debug, Clone)]
pub struct Hit {
    /// Numbers the connections of this web, from 1.
    pub connection: u64,
    /// The host name of the Host header, in lower case, without port.
    pub host: String,
    /// The port that was asked.
    pub port: u16,
    /// The method.
    pub method: String,
    /// Path and query, as sent.
    pub path: String,
    /// All headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Which protocol brought it.
    pub protocol: Protocol,
    /// When the request's head had been read.
    pub started: Instant,
    /// When the last byte of the answer was handed to the socket, or the connection was found broken;
    /// `None` while it is being served.
    pub ended: Option<Instant>,
    /// The status that was sent; `None` if none was, or nothing that is one.
    pub status: Option<u16>,
}

impl Hit {
    /// The first header of that name (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// Hits in the order in which they started.
#[derive(Debug, Clone, Default)]
pub struct Log(Vec<Hit>);

impl Log {
    /// Only the hits of this host name.
    pub fn of_host(&self, host: &str) -> Log {
        self.only(|hit| hit.host == host)
    }

    /// Only the hits of this path (with its query).
    pub fn of_path(&self, path: &str) -> Log {
        self.only(|hit| hit.path == path)
    }

    /// Only the hits for which `keep` is true.
    pub fn only(&self, keep: impl Fn(&Hit) -> bool) -> Log {
        Log(self.0.iter().filter(|hit| keep(hit)).cloned().collect())
    }

    /// The paths in order.
    pub fn paths(&self) -> Vec<&str> {
        self.0.iter().map(|hit| hit.path.as_str()).collect()
    }

    /// The shortest rest that any host (name and port) had between the end of all its earlier requests and
    /// the start of its next. Zero if two overlapped; `None` if no host was asked twice.
    pub fn smallest_gap(&self) -> Option<Duration> {
        // A request still being served (`None`) keeps its host busy past any later start.
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

    /// The largest number of requests that were being served at one moment.
    pub fn most_at_once(&self) -> usize {
        let starts = self.0.iter().map(|hit| (hit.started, 1));
        let ends = self.0.iter().filter_map(|hit| Some((hit.ended?, -1)));
        let mut changes: Vec<(Instant, i64)> = starts.chain(ends).collect();
        // At the same instant an end goes before a start: those two did not overlap.
        changes.sort();
        let running = changes.iter().scan(0, |now, (_, change)| {
            *now += change;
            Some(*now)
        });
        running.max().unwrap_or(0) as usize
    }
}

impl Deref for Log {
    type Target = [Hit];
    fn deref(&self) -> &[Hit] {
        &self.0
    }
}

impl FromIterator<Hit> for Log {
    fn from_iter<I: IntoIterator<Item = Hit>>(hits: I) -> Self {
        let mut hits: Vec<Hit> = hits.into_iter().collect();
        hits.sort_by_key(|hit| hit.started);
        Log(hits)
    }
}

impl IntoIterator for Log {
    type Item = Hit;
    type IntoIter = std::vec::IntoIter<Hit>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Where the server writes its hits down.
#[derive(Debug)]
pub(crate) struct Recorder {
    hits: Mutex<Vec<Hit>>,
    /// Whether there is a log at all.
    enabled: bool,
}

impl Recorder {
    pub(crate) fn new(enabled: bool) -> Self {
        Self { hits: Mutex::default(), enabled }
    }

    fn hits(&self) -> MutexGuard<'_, Vec<Hit>> {
        self.hits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self) -> usize {
        self.hits().len()
    }

    pub(crate) fn log(&self) -> Log {
        self.hits().iter().cloned().collect()
    }

    /// Writes down that a request has come in.
    pub(crate) fn begin(self: &Arc<Self>, connection: u64, port: u16, request: &Request) -> Entry {
        if !self.enabled {
            return Entry { place: None, status: None, ended: None };
        }
        let hit = Hit {
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
        Entry { place: Some((self.clone(), hits.len() - 1)), status: None, ended: None }
    }
}

/// A hit being served. It ends when this is dropped, however that comes about, or at the moment noted before.
#[derive(Debug)]
pub struct Entry {
    place: Option<(Arc<Recorder>, usize)>,
    /// The status that was sent.
    pub status: Option<u16>,
    /// When the last byte was handed to the socket, if that was before this is dropped.
    pub ended: Option<Instant>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some((recorder, index)) = self.place.take() else { return };
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
        let hit = |(started, ended): &(u64, Option<u64>)| Hit {
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
    fn a_long_request_keeps_its_host_busy_beyond_a_short_one_beside_it() {
        let log = log(&[(0, Some(100)), (10, Some(20)), (50, Some(60)), (150, Some(160))]);
        assert_eq!(log.smallest_gap(), Some(Duration::ZERO));
        assert_eq!(log.smallest_start_gap(), Some(Duration::from_millis(10)));
        assert_eq!(log.most_at_once(), 2);
    }

    #[test]
    fn a_gap_runs_from_an_end_to_the_next_start() {
        let log = log(&[(0, Some(10)), (40, Some(80)), (100, Some(101))]);
        assert_eq!(log.smallest_gap(), Some(Duration::from_millis(20)));
        assert_eq!(log.smallest_start_gap(), Some(Duration::from_millis(40)));
        assert_eq!(log.most_at_once(), 1);
    }

    #[test]
    fn a_request_without_an_end_leaves_no_gap() {
        assert_eq!(log(&[(0, None), (100, Some(110))]).smallest_gap(), Some(Duration::ZERO));
        assert_eq!(log(&[(0, None)]).smallest_gap(), None);
    }
}
