//! Encodes and decodes the rows of a durable state. A row that cannot be decoded is damaged.

use std::sync::Arc;
use std::time::Duration;

use super::super::{HostDelay, TaskId};
use crate::backend::local::storage::{Body, CompletedUrl, QueuedTask, TaskRef};
use crate::backend::local::{compress, decompress};
use crate::config::MAX_RETRY_AFTER;
use crate::modules::output::{OutputWrite, Writes};
use crate::outcome::Outcome;
use crate::prioritizer::SourceLink;
use crate::similarity::Fingerprint;
use crate::task::Depth;
use crate::url_record::Discovery;
use crate::visit::VisitRecord;

/// A pending URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskRow {
    pub(crate) from: TaskId,
    pub(crate) depth: Depth,
    pub(crate) redirects: u8,
    pub(crate) is_refetch: bool,
    /// Whether the URL was completed before: it still has the row of its last visit.
    pub(crate) was_visited: bool,
    /// When it was admitted: Unix time in milliseconds.
    pub(crate) queued_at: u64,
    pub(crate) source_link: Option<SourceLink>,
    /// How it was found, where it cannot be looked up.
    pub(crate) discovery: Option<Arc<Discovery>>,
    pub(crate) url: String,
}

/// A completed URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompletedRow {
    pub(crate) from: TaskId,
    pub(crate) depth: Depth,
    pub(crate) redirects: u8,
    /// Whether the URL failed temporarily.
    pub(crate) is_temporary: bool,
    /// Whether the URL was fetched again for its links only.
    pub(crate) is_refetch: bool,
    /// The page number; 0 if it was not a page.
    pub(crate) page_number: u64,
    /// Unix time in milliseconds.
    pub(crate) completed_at: u64,
    pub(crate) url: String,
    /// The outcome as text.
    pub(crate) outcome: String,
    /// What is remembered of its visits.
    pub(crate) visits: VisitRecord,
}

/// A URL in the seen set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeenRow {
    /// The last task of the URL.
    pub(crate) task_id: TaskId,
    pub(crate) depth: Depth,
}

/// A stored page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageRow {
    /// Active crawl time in milliseconds.
    pub(crate) stored_at: u64,
    /// Where the body is, if it is stored.
    pub(crate) body: Option<BodyLocation>,
    /// How similar it is to the version before, in percent, if there was one and that is known.
    pub(crate) similarity: Option<u8>,
    pub(crate) url: String,
    pub(crate) fingerprint: Fingerprint,
}

/// Where the body of a page is. Bodies that were committed together share a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyLocation {
    pub(crate) segment: u64,
    pub(crate) offset: u32,
    pub(crate) length: u32,
    pub(crate) is_compressed: bool,
}

/// What is stored about a host. All times are in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HostRow {
    /// Unix time before which no request is allowed.
    pub(crate) not_before: u64,
    pub(crate) delay: u64,
    pub(crate) pages: u64,
    /// The kinds of address that a seed's host had at first; 0 if it is none, or was not looked up yet.
    pub(crate) address_kinds: u64,
}

/// The flags of a [`TaskRow`] and a [`CompletedRow`].
const IS_REFETCH: u8 = 1;
const HAS_SOURCE_LINK: u8 = 2;
const IS_TEMPORARY: u8 = 4;
const HAS_DISCOVERY: u8 = 8;
const WAS_VISITED: u8 = 16;

/// Stands for a similarity that is not known.
const NO_SIMILARITY: u8 = u8::MAX;

/// The bytes of a time in milliseconds.
const TIME_BYTES: usize = 6;

impl TaskRow {
    pub(crate) fn from_task(task: TaskRef) -> TaskRow {
        let TaskRef { from, depth, redirects, is_refetch, was_visited, queued_at, .. } = task;
        let (source_link, discovery) = (task.source_link.cloned(), task.discovery.cloned());
        let url = task.url.to_string();
        TaskRow { from, depth, redirects, is_refetch, was_visited, queued_at, source_link, discovery, url }
    }

    pub(crate) fn into_task(self, task_id: TaskId) -> QueuedTask {
        self.as_task(task_id).to_task()
    }

    /// The task of this number.
    pub(crate) fn as_task(&self, task_id: TaskId) -> TaskRef<'_> {
        let TaskRow { from, depth, redirects, is_refetch, was_visited, queued_at, ref url, .. } = *self;
        let (source_link, discovery) = (self.source_link.as_ref(), self.discovery.as_ref());
        TaskRef {
            task_id,
            from,
            url,
            depth,
            redirects,
            is_refetch,
            was_visited,
            queued_at,
            source_link,
            discovery,
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        TaskRow::bytes_of(&self.as_task(TaskId::default()))
    }

    /// The row of a task.
    pub(crate) fn bytes_of(task: &TaskRef) -> Vec<u8> {
        let text_bytes = task.source_link.map_or(0, |link| 8 + link.text.len());
        let mut bytes = Vec::with_capacity(14 + TIME_BYTES + text_bytes + task.url.len());
        bytes.extend(task.from.0.to_le_bytes());
        bytes.extend(task.depth.to_le_bytes());
        let flag = |flag: u8, is_set: bool| if is_set { flag } else { 0 };
        let flags = flag(IS_REFETCH, task.is_refetch)
            | flag(HAS_SOURCE_LINK, task.source_link.is_some())
            | flag(HAS_DISCOVERY, task.discovery.is_some())
            | flag(WAS_VISITED, task.was_visited);
        bytes.extend([task.redirects, flags]);
        bytes.extend(&task.queued_at.to_le_bytes()[..TIME_BYTES]);
        if let Some(SourceLink { text, position }) = task.source_link {
            bytes.extend(position.to_le_bytes());
            push_text(&mut bytes, text);
        }
        if let Some(Discovery { found_on, redirects }) = task.discovery.map(|discovery| &**discovery) {
            bytes.push(u8::try_from(redirects.len()).unwrap_or(u8::MAX));
            push_text(&mut bytes, found_on.as_deref().unwrap_or_default());
            redirects.iter().take(u8::MAX.into()).for_each(|url| push_text(&mut bytes, url));
        }
        bytes.extend(task.url.as_bytes());
        bytes
    }

    pub(crate) fn from_bytes(mut bytes: &[u8]) -> Option<TaskRow> {
        let from = TaskId(u64::from_le_bytes(take(&mut bytes)?));
        let depth = u32::from_le_bytes(take(&mut bytes)?);
        let [redirects, flags] = take(&mut bytes)?;
        let time: [u8; TIME_BYTES] = take(&mut bytes)?;
        let queued_at = time.iter().rev().fold(0, |time, byte| time << 8 | u64::from(*byte));
        let (is_refetch, was_visited) = (flags & IS_REFETCH != 0, flags & WAS_VISITED != 0);
        let (mut source_link, mut discovery) = (None, None);
        if flags & HAS_SOURCE_LINK != 0 {
            let position = u32::from_le_bytes(take(&mut bytes)?);
            source_link = Some(SourceLink::new(take_text(&mut bytes)?, position));
        }
        if flags & HAS_DISCOVERY != 0 {
            let [count] = take(&mut bytes)?;
            let found_on = Some(take_text(&mut bytes)?).filter(|url| !url.is_empty());
            let redirects = (0..count).map(|_| take_text(&mut bytes)).collect::<Option<_>>()?;
            discovery = Some(Arc::new(Discovery { found_on, redirects }));
        }
        let url = String::from_utf8(bytes.to_vec()).ok()?;
        Some(TaskRow {
            from,
            depth,
            redirects,
            is_refetch,
            was_visited,
            queued_at,
            source_link,
            discovery,
            url,
        })
    }
}

impl CompletedRow {
    pub(crate) fn new(task: &QueuedTask, completed: CompletedUrl) -> CompletedRow {
        CompletedRow {
            from: task.from,
            depth: completed.depth,
            redirects: task.redirects,
            is_temporary: completed.outcome.is_temporary(),
            is_refetch: task.is_refetch,
            page_number: completed.page_number.unwrap_or(0),
            completed_at: completed.at,
            url: task.url.to_string(),
            outcome: completed.outcome.to_string(),
            visits: completed.visits,
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let visits = self.visits.to_bytes();
        let mut bytes = Vec::with_capacity(38 + self.url.len() + self.outcome.len() + visits.len());
        bytes.extend(self.from.0.to_le_bytes());
        bytes.extend(self.depth.to_le_bytes());
        let is_refetch = if self.is_refetch { IS_REFETCH } else { 0 };
        let is_temporary = if self.is_temporary { IS_TEMPORARY } else { 0 };
        bytes.extend([self.redirects, is_refetch | is_temporary]);
        bytes.extend(self.page_number.to_le_bytes());
        bytes.extend(self.completed_at.to_le_bytes());
        push_text(&mut bytes, &self.url);
        push_text(&mut bytes, &self.outcome);
        bytes.extend(visits);
        bytes
    }

    /// Whether the outcome led to links.
    pub(crate) fn has_links(&self) -> bool {
        Outcome::text_has_links(&self.outcome)
    }

    pub(crate) fn from_bytes(mut bytes: &[u8]) -> Option<CompletedRow> {
        let from = TaskId(u64::from_le_bytes(take(&mut bytes)?));
        let depth = u32::from_le_bytes(take(&mut bytes)?);
        let [redirects, flags] = take(&mut bytes)?;
        let (is_temporary, is_refetch) = (flags & IS_TEMPORARY != 0, flags & IS_REFETCH != 0);
        let page_number = u64::from_le_bytes(take(&mut bytes)?);
        let completed_at = u64::from_le_bytes(take(&mut bytes)?);
        let (url, outcome) = (take_text(&mut bytes)?, take_text(&mut bytes)?);
        let visits = VisitRecord::from_bytes(bytes)?;
        Some(CompletedRow {
            from,
            depth,
            redirects,
            is_temporary,
            is_refetch,
            page_number,
            completed_at,
            url,
            outcome,
            visits,
        })
    }
}

impl SeenRow {
    pub(crate) fn to_bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.task_id.0.to_le_bytes());
        bytes[8..].copy_from_slice(&self.depth.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(mut bytes: &[u8]) -> Option<SeenRow> {
        let task_id = TaskId(u64::from_le_bytes(take(&mut bytes)?));
        let depth = u32::from_le_bytes(take(&mut bytes)?);
        Some(SeenRow { task_id, depth })
    }
}

impl PageRow {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(300 + self.url.len());
        bytes.extend(self.stored_at.to_le_bytes());
        let (location, kind) = match self.body {
            None => (BodyLocation { segment: 0, offset: 0, length: 0, is_compressed: false }, 0),
            Some(location) => (location, if location.is_compressed { 2 } else { 1 }),
        };
        bytes.push(kind);
        bytes.extend(location.segment.to_le_bytes());
        bytes.extend(location.offset.to_le_bytes());
        bytes.extend(location.length.to_le_bytes());
        bytes.push(self.similarity.unwrap_or(NO_SIMILARITY));
        bytes.extend((self.url.len() as u32).to_le_bytes());
        bytes.extend(self.url.as_bytes());
        bytes.extend(self.fingerprint.to_bytes());
        bytes
    }

    pub(crate) fn from_bytes(mut bytes: &[u8]) -> Option<PageRow> {
        let stored_at = u64::from_le_bytes(take(&mut bytes)?);
        let [kind] = take(&mut bytes)?;
        let segment = u64::from_le_bytes(take(&mut bytes)?);
        let offset = u32::from_le_bytes(take(&mut bytes)?);
        let length = u32::from_le_bytes(take(&mut bytes)?);
        let [similarity] = take(&mut bytes)?;
        let similarity = (similarity != NO_SIMILARITY).then_some(similarity);
        let body = (kind > 0).then_some(BodyLocation { segment, offset, length, is_compressed: kind > 1 });
        let length = u32::from_le_bytes(take(&mut bytes)?) as usize;
        let (url, fingerprint) = bytes.split_at_checked(length)?;
        let url = String::from_utf8(url.to_vec()).ok()?;
        Some(PageRow { stored_at, body, similarity, url, fingerprint: Fingerprint::from_bytes(fingerprint)? })
    }
}

impl HostRow {
    /// Changes the row. Returns the row to store, where default values need none; `None` if nothing changed.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut HostRow)) -> Option<Option<Vec<u8>>> {
        let before = *self;
        change(self);
        (*self != before).then(|| (*self != HostRow::default()).then(|| self.to_bytes()))
    }

    /// Sets when the next request to the host is allowed, if that is later than the default delay after a restart.
    pub(crate) fn set_delay(
        &mut self,
        HostDelay { delay, cooldown }: HostDelay,
        default_delay: Duration,
        now: u64,
    ) {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        // Round up: too late is polite.
        let not_before = now.saturating_add(millis(cooldown)).saturating_add(1);
        // Updates can arrive out of order, so keep the later deadline.
        let has_longer_cooldown = self.not_before > now.saturating_add(millis(default_delay));
        self.not_before = match has_longer_cooldown || cooldown > default_delay {
            true => self.not_before.max(not_before),
            false => 0,
        };
        self.delay = if delay > default_delay { millis(delay) } else { 0 };
    }

    /// For how long no request may be sent to the host after a restart. A request may have been in flight when the
    /// previous process ended, so the full delay starts now. The cooldown is limited, because the wall clock may have been
    /// set back.
    pub(crate) fn cooldown_after_restart(self, default_delay: Duration, now: u64) -> HostDelay {
        let (remaining, delay) = (self.not_before.saturating_sub(now), Duration::from_millis(self.delay));
        let cooldown = Duration::from_millis(remaining).max(delay).min(MAX_RETRY_AFTER.max(default_delay));
        HostDelay { delay, cooldown }
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        [self.not_before, self.delay, self.pages, self.address_kinds]
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect()
    }

    pub(crate) fn from_bytes(mut bytes: &[u8]) -> Option<HostRow> {
        let mut next = || Some(u64::from_le_bytes(take(&mut bytes)?));
        Some(HostRow { not_before: next()?, delay: next()?, pages: next()?, address_kinds: next()? })
    }
}

impl BodyLocation {
    /// Reads the body from its segment.
    pub(crate) fn read(self, segment: &[u8]) -> Option<Body<'static>> {
        let start = self.offset as usize;
        let body = segment.get(start..start.checked_add(self.length as usize)?)?;
        Some(if self.is_compressed {
            Body::Compressed(body.into())
        } else {
            Body::Plain(body.to_vec().into())
        })
    }
}

/// What a URL adds to the outputs is compressed from this size on: a page with a long base URL can add ten times its own
/// size, nearly all of it repeated. Most pages are not worth the time.
const MIN_COMPRESSED_BYTES: usize = 64 << 10;

const PLAIN: u8 = 0;
const COMPRESSED: u8 = 1;

/// Encodes what a URL adds to the outputs, with the number of its page if it is one.
pub(crate) fn writes_to_bytes(page: Option<u64>, writes: &[(usize, OutputWrite)]) -> Vec<u8> {
    let mut bytes = vec![PLAIN];
    bytes.extend(page.unwrap_or(0).to_le_bytes());
    for (index, write) in writes {
        let (kind, data) = match write {
            OutputWrite::Append(data) => (0, data),
            OutputWrite::File(data) => (1, data),
        };
        bytes.extend((*index as u32).to_le_bytes());
        bytes.push(kind);
        bytes.extend((data.len() as u32).to_le_bytes());
        bytes.extend(data);
    }
    if bytes.len() >= MIN_COMPRESSED_BYTES
        && let Body::Compressed(compressed) = compress(&bytes[1..])
    {
        return [&[COMPRESSED], &*compressed].concat();
    }
    bytes
}

/// Decodes what a URL adds to the outputs, and the number of its page.
pub(crate) fn writes_from_bytes(bytes: &[u8]) -> Option<(Option<u64>, Writes)> {
    let plain;
    let mut bytes = match bytes.split_first()? {
        (&PLAIN, bytes) => bytes,
        (&COMPRESSED, compressed) => {
            plain = decompress(Body::Compressed(compressed.into())).ok()?;
            &plain
        }
        _ => return None,
    };
    let page = Some(u64::from_le_bytes(take(&mut bytes)?)).filter(|page| *page > 0);
    let mut writes = Vec::new();
    while !bytes.is_empty() {
        let index = u32::from_le_bytes(take(&mut bytes)?) as usize;
        let [kind] = take(&mut bytes)?;
        let length = u32::from_le_bytes(take(&mut bytes)?) as usize;
        let (data, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        let data = data.to_vec();
        writes.push((index, if kind == 0 { OutputWrite::Append(data) } else { OutputWrite::File(data) }));
    }
    Some((page, writes))
}

fn push_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u32).to_le_bytes());
    bytes.extend(text.as_bytes());
}

fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let length = u32::from_le_bytes(take(bytes)?) as usize;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).ok()
}

pub(crate) fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows_survive_a_round_trip() {
        let task = TaskRow {
            from: TaskId(7),
            depth: 3,
            redirects: 2,
            is_refetch: true,
            was_visited: true,
            queued_at: 1_793_858_828_009,
            source_link: None,
            discovery: None,
            url: "http://a/ä".into(),
        };
        assert_eq!(TaskRow::from_bytes(&task.to_bytes()), Some(task.clone()));
        for found_on in [None, Some("http://a/".into())] {
            let discovery =
                Some(Arc::new(Discovery { found_on, redirects: vec!["http://ä/".into(), "x".into()] }));
            let task = TaskRow { discovery, ..task.clone() };
            assert_eq!(TaskRow::from_bytes(&task.to_bytes()), Some(task));
        }
        for text in ["", "näher"] {
            let source_link = Some(SourceLink::new(text.into(), 70_000));
            let task = TaskRow { source_link, is_refetch: false, ..task.clone() };
            assert_eq!(TaskRow::from_bytes(&task.to_bytes()), Some(task));
        }
        let completed = CompletedRow {
            from: TaskId(7),
            depth: 3,
            redirects: 0,
            is_temporary: true,
            is_refetch: true,
            page_number: 11,
            completed_at: 12,
            url: task.url,
            outcome: "timeout".into(),
            visits: VisitRecord::default(),
        };
        let mut visited = VisitRecord::default();
        (visited.version, visited.earlier) = (3, Some("page".into()));
        for visits in [VisitRecord::default(), visited] {
            let completed = CompletedRow { visits, ..completed.clone() };
            assert_eq!(CompletedRow::from_bytes(&completed.to_bytes()), Some(completed));
        }
        let link = SeenRow { task_id: TaskId(1 << 40), depth: 5 };
        assert_eq!(SeenRow::from_bytes(&link.to_bytes()), Some(link));
        let host = HostRow { not_before: 1, delay: 2, pages: 3, address_kinds: 4 };
        assert_eq!(HostRow::from_bytes(&host.to_bytes()), Some(host));
        let writes = vec![(0, OutputWrite::Append(b"line\n".to_vec())), (3, OutputWrite::File(Vec::new()))];
        assert_eq!(writes_from_bytes(&writes_to_bytes(Some(7), &writes)), Some((Some(7), writes)));
        let writes = vec![(1, OutputWrite::Append(b"the same line\n".repeat(10_000)))];
        assert!(writes_to_bytes(None, &writes).len() < 10_000);
        assert_eq!(writes_from_bytes(&writes_to_bytes(None, &writes)), Some((None, writes)));
        let body = BodyLocation { segment: 4, offset: 1, length: 3, is_compressed: true };
        for body in [None, Some(body), Some(BodyLocation { is_compressed: false, ..body })] {
            let fingerprint = Fingerprint { exact: 5, ..Fingerprint::not_compared() };
            for similarity in [None, Some(0), Some(100)] {
                let (url, fingerprint) = ("http://a/".into(), fingerprint.clone());
                let page = PageRow { stored_at: 6, body, similarity, url, fingerprint };
                assert_eq!(PageRow::from_bytes(&page.to_bytes()), Some(page));
            }
        }
        assert_eq!(body.read(b"wxyz"), Some(Body::Compressed(b"xyz".as_slice().into())));
        assert_eq!(body.read(b"wxy"), None, "a truncated segment");
    }

    proptest! {
        #[test]
        fn damaged_rows_are_refused_without_a_panic(bytes: Vec<u8>) {
            let _ = (TaskRow::from_bytes(&bytes), CompletedRow::from_bytes(&bytes), SeenRow::from_bytes(&bytes));
            let _ = (PageRow::from_bytes(&bytes), HostRow::from_bytes(&bytes));
            let _ = writes_from_bytes(&bytes);
        }
    }
}
