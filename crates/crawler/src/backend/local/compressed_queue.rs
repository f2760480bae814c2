//! A queue of URLs in memory that takes few bytes per URL, because a large crawl queues millions of them.

use std::collections::VecDeque;
use std::iter;
use std::sync::Arc;

use super::super::TaskId;
use super::storage::{QueuedTask, TaskRef};
use crate::prioritizer::SourceLink;
use crate::url_record::Discovery;

/// URLs are stored in chunks of this size. A growing queue copies nothing, and a chunk is freed when it has been read.
const CHUNK_BYTES: usize = 64 * 1024;

/// A FIFO queue of tasks. It stores each URL without the prefix that it shares with the previous one, and each number
/// as a difference: URLs that wait next to each other were mostly found on the same page.
#[derive(Debug, Default)]
pub(crate) struct CompressedUrlQueue {
    chunks: VecDeque<Vec<u8>>,
    /// Number of bytes read of the first chunk.
    read: usize,
    length: usize,
    /// The last task pushed, on which the encoding of the next one is based.
    last_pushed: PreviousTask,
    /// The last task popped, on which the decoding of the next one is based.
    last_popped: PreviousTask,
    /// Whether the queue keeps up to a chunk of memory when it is empty.
    keeps_memory: bool,
}

#[derive(Debug, Default)]
struct PreviousTask {
    task_id: u64,
    url: String,
    queued_at: u64,
    discovery: Option<Arc<Discovery>>,
}

/// The flags of a task.
const IS_REFETCH: u64 = 1;
const HAS_SOURCE_LINK: u64 = 2;
/// It was queued at another time than the previous task.
const HAS_TIME: u64 = 4;
/// It was found otherwise than the previous task.
const HAS_DISCOVERY: u64 = 8;
/// The URL is visited again.
const WAS_VISITED: u64 = 16;
const FLAG_BITS: u32 = 5;

impl PreviousTask {
    fn clear(&mut self) {
        self.url.clear();
        *self = PreviousTask { url: std::mem::take(&mut self.url), ..PreviousTask::default() };
    }
}

impl CompressedUrlQueue {
    /// A queue that is often empty, and keeps its memory then.
    pub(crate) fn keeping_memory() -> CompressedUrlQueue {
        CompressedUrlQueue { keeps_memory: true, ..CompressedUrlQueue::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn push(&mut self, task: TaskRef) {
        let TaskRef { task_id: TaskId(task_id), from: TaskId(from), url, depth, redirects, .. } = task;
        let shared = common_prefix_len(&self.last_pushed.url, url);
        let suffix = &url.as_bytes()[shared..];
        // A task is stored in one chunk. Its numbers take at most 80 bytes.
        let last = &self.last_pushed;
        let new_discovery = (task.discovery != last.discovery.as_ref()).then_some(task.discovery);
        let discovery_bytes = new_discovery.flatten().map_or(0, |discovery| encoded_len(discovery));
        let text_bytes = task.source_link.map_or(0, |link| link.text.len());
        let needed = suffix.len() + text_bytes + discovery_bytes + 80;
        match self.chunks.back() {
            Some(chunk) if chunk.len() + needed <= CHUNK_BYTES => {}
            // The first chunk grows on demand, because most queues are short.
            None => self.chunks.push_back(Vec::new()),
            Some(_) => self.chunks.push_back(Vec::with_capacity(CHUNK_BYTES.max(needed))),
        }
        let Some(chunk) = self.chunks.back_mut() else { return };
        write_varint(chunk, zigzag_delta(task_id, self.last_pushed.task_id));
        write_varint(chunk, zigzag_delta(task_id, from));
        write_varint(chunk, u64::from(depth));
        let flag = |flag: u64, is_set: bool| if is_set { flag } else { 0 };
        let flags = flag(IS_REFETCH, task.is_refetch)
            | flag(HAS_SOURCE_LINK, task.source_link.is_some())
            | flag(HAS_TIME, task.queued_at != last.queued_at)
            | flag(HAS_DISCOVERY, new_discovery.is_some())
            | flag(WAS_VISITED, task.was_visited);
        write_varint(chunk, u64::from(redirects) << FLAG_BITS | flags);
        write_varint(chunk, shared as u64);
        write_varint(chunk, suffix.len() as u64);
        chunk.extend(suffix);
        if let Some(SourceLink { text, position }) = task.source_link {
            write_varint(chunk, u64::from(*position));
            write_varint(chunk, text.len() as u64);
            chunk.extend(text.as_bytes());
        }
        if task.queued_at != last.queued_at {
            write_varint(chunk, zigzag_delta(task.queued_at, last.queued_at));
        }
        if let Some(discovery) = new_discovery {
            write_discovery(chunk, discovery.map(|discovery| &**discovery), url);
            self.last_pushed.discovery = discovery.cloned();
        }
        (self.last_pushed.task_id, self.last_pushed.queued_at) = (task_id, task.queued_at);
        self.last_pushed.url.truncate(shared);
        self.last_pushed.url.push_str(&url[shared..]);
        self.length += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<QueuedTask> {
        // An empty queue may have an empty chunk.
        let chunk = self.chunks.front().filter(|_| self.length > 0)?;
        let mut rest = &chunk[self.read..];
        let task_id = self.last_popped.task_id.wrapping_add(zigzag_decode(read_varint(&mut rest)));
        let from = task_id.wrapping_sub(zigzag_decode(read_varint(&mut rest)));
        let depth = read_varint(&mut rest) as u32;
        let flags = read_varint(&mut rest);
        let (shared, length) = (read_varint(&mut rest) as usize, read_varint(&mut rest) as usize);
        let (url, mut rest) = rest.split_at(length);
        self.last_popped.url.truncate(shared);
        self.last_popped.url.push_str(str::from_utf8(url).unwrap_or_default());
        let has = |flag: u64| flags & flag != 0;
        let source_link = has(HAS_SOURCE_LINK).then(|| Arc::new(read_source_link(&mut rest)));
        if has(HAS_TIME) {
            let delta = zigzag_decode(read_varint(&mut rest));
            self.last_popped.queued_at = self.last_popped.queued_at.wrapping_add(delta);
        }
        if has(HAS_DISCOVERY) {
            self.last_popped.discovery = read_discovery(&mut rest, &self.last_popped.url);
        }
        let (queued_at, discovery) = (self.last_popped.queued_at, self.last_popped.discovery.clone());
        self.last_popped.task_id = task_id;
        self.read = chunk.len() - rest.len();
        self.length -= 1;
        let url = self.last_popped.url.as_str().into();
        if self.length == 0 {
            self.clear();
        } else if self.read == chunk.len() {
            self.chunks.pop_front();
            self.read = 0;
        }
        Some(QueuedTask {
            task_id: TaskId(task_id),
            from: TaskId(from),
            url,
            depth,
            redirects: (flags >> FLAG_BITS) as u8,
            is_refetch: has(IS_REFETCH),
            was_visited: has(WAS_VISITED),
            queued_at,
            source_link,
            discovery,
            domain: None,
            queue: 0,
            attempts: 0,
        })
    }

    /// Frees the memory of the queue, which is empty, unless it keeps it.
    fn clear(&mut self) {
        if !self.keeps_memory {
            *self = CompressedUrlQueue::default();
            return;
        }
        self.chunks.iter_mut().for_each(Vec::clear);
        self.read = 0;
        self.last_pushed.clear();
        self.last_popped.clear();
    }
}

fn read_source_link(bytes: &mut &[u8]) -> SourceLink {
    let position = read_varint(bytes) as u32;
    SourceLink::new(read_text(bytes), position)
}

/// The most bytes that an encoded discovery takes.
fn encoded_len(discovery: &Discovery) -> usize {
    let urls = discovery.found_on.iter().chain(&discovery.redirects);
    urls.map(|url| url.len() + 20).sum::<usize>() + 20
}

/// Writes the number of URLs, and each URL without the prefix that it shares with the task's. A discovery without a page has an
/// empty URL for it.
fn write_discovery(bytes: &mut Vec<u8>, discovery: Option<&Discovery>, task_url: &str) {
    let Some(Discovery { found_on, redirects }) = discovery else { return write_varint(bytes, 0) };
    write_varint(bytes, 1 + redirects.len() as u64);
    let found_on = found_on.as_deref().unwrap_or_default();
    for url in iter::once(found_on).chain(redirects.iter().map(String::as_str)) {
        let shared = common_prefix_len(task_url, url);
        write_varint(bytes, shared as u64);
        write_varint(bytes, (url.len() - shared) as u64);
        bytes.extend(&url.as_bytes()[shared..]);
    }
}

fn read_discovery(bytes: &mut &[u8], task_url: &str) -> Option<Arc<Discovery>> {
    let redirects = read_varint(bytes).checked_sub(1)?;
    let mut url = || {
        let shared = read_varint(bytes) as usize;
        task_url.get(..shared).unwrap_or_default().to_owned() + &read_text(bytes)
    };
    let found_on = Some(url()).filter(|url| !url.is_empty());
    Some(Arc::new(Discovery { found_on, redirects: (0..redirects).map(|_| url()).collect() }))
}

fn read_text(bytes: &mut &[u8]) -> String {
    let length = read_varint(bytes) as usize;
    let (text, rest) = bytes.split_at(length);
    *bytes = rest;
    str::from_utf8(text).unwrap_or_default().to_owned()
}

/// The number of leading bytes that two URLs share, up to a character boundary.
fn common_prefix_len(left: &str, right: &str) -> usize {
    // In blocks first: links of a page may share some 2,000 bytes.
    const BLOCK: usize = 16;
    let blocks = left.as_bytes().chunks_exact(BLOCK).zip(right.as_bytes().chunks_exact(BLOCK));
    let of_blocks = BLOCK * blocks.take_while(|(left, right)| left == right).count();
    let rest = left.as_bytes()[of_blocks..].iter().zip(&right.as_bytes()[of_blocks..]);
    let shared = of_blocks + rest.take_while(|(left, right)| left == right).count();
    (0..=shared).rev().find(|end| right.is_char_boundary(*end)).unwrap_or(0)
}

/// The zigzag-encoded difference of two numbers: small for small differences of either sign.
fn zigzag_delta(number: u64, from: u64) -> u64 {
    let difference = number.wrapping_sub(from).cast_signed();
    (difference << 1 ^ difference >> 63).cast_unsigned()
}

fn zigzag_decode(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

/// Writes a number as a varint: seven bits per byte.
fn write_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read_varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let Some((byte, rest)) = bytes.split_first() else { break };
        *bytes = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if *byte < 0x80 {
            break;
        }
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The fields of a task. The redirects also decide whether it has a source link.
    type Fields = (u64, u64, String, u32, u8, bool);

    fn task((task_id, from, url, depth, redirects, is_refetch): Fields) -> QueuedTask {
        let text = url.chars().rev().collect();
        let found_on = || Some("http://page/ä".to_owned());
        let discoveries = [
            None,
            None,
            Some(Discovery { found_on: found_on(), redirects: Vec::new() }),
            Some(Discovery {
                found_on: found_on(),
                redirects: vec!["http://old/".into(), "http://older/".into()],
            }),
            Some(Discovery { found_on: None, redirects: vec!["http://seed/".into()] }),
        ];
        let source_link = (redirects % 2 == 1).then(|| Arc::new(SourceLink::new(text, depth)));
        QueuedTask {
            task_id: TaskId(task_id),
            from: TaskId(from),
            url: url.into(),
            depth,
            redirects,
            is_refetch,
            was_visited: is_refetch,
            queued_at: 1_793_858_828_009 + from % 3,
            source_link,
            discovery: discoveries[(from % 5) as usize].clone().map(Arc::new),
            domain: None,
            queue: 0,
            attempts: 0,
        }
    }

    proptest! {
        #[test]
        fn pop_returns_what_was_pushed(rounds in proptest::collection::vec((proptest::collection::vec(
            (any::<u64>(), any::<u64>(), "(http://a/)?[abä]{0,6}", any::<u32>(), any::<u8>(), any::<bool>()), 0..6), 0..7usize), 0..20), keeps_memory: bool) {
            let (mut queue, mut model) = (CompressedUrlQueue { keeps_memory, ..CompressedUrlQueue::default() }, VecDeque::new());
            for (pushed, popped) in rounds {
                for fields in pushed {
                    queue.push(task(fields.clone()).borrowed());
                    model.push_back(task(fields));
                }
                for _ in 0..popped {
                    prop_assert_eq!(format!("{:?}", queue.pop()), format!("{:?}", model.pop_front()));
                }
                prop_assert_eq!(queue.len(), model.len());
            }
        }
    }

    #[test]
    fn time_and_page_take_few_bytes_per_url() {
        let bytes_per_url = |with_discovery: bool, urls_per_page: u64| {
            let mut queue = CompressedUrlQueue::default();
            for number in 0..10_000 {
                let page = number / urls_per_page;
                let found_on = Some(format!("http://www.example.org/articles/{page}"));
                let discovery = Arc::new(Discovery { found_on, redirects: Vec::new() });
                let mut task = task((
                    number,
                    page,
                    format!("http://www.example.org/articles/{number}/index.html"),
                    3,
                    0,
                    false,
                ));
                task.queued_at = if with_discovery { 1_793_858_828_009 + page } else { 0 };
                task.discovery = with_discovery.then_some(discovery);
                queue.push(task.borrowed());
            }
            queue.chunks.iter().map(Vec::len).sum::<usize>() as f64 / 10_000.0
        };
        assert!(bytes_per_url(true, 50) < bytes_per_url(false, 50) + 0.2);
        assert!(bytes_per_url(true, 1) < bytes_per_url(false, 1) + 10.0);
    }

    #[test]
    fn long_queues_and_long_urls_stay_in_order() {
        let mut queue = CompressedUrlQueue::default();
        let url =
            |number: u64| format!("http://host/{number}/{}", "x".repeat((number as usize * 7919) % 70_000));
        for number in 0..200 {
            queue.push(task((number, number / 2, url(number), 3, (number % 2) as u8, false)).borrowed());
        }
        assert!(queue.chunks.len() > 50);
        for number in 0..200 {
            assert_eq!(
                queue.pop().map(|task| (task.task_id.0, task.url.to_string())),
                Some((number, url(number)))
            );
        }
        assert!(queue.pop().is_none() && queue.chunks.is_empty());
    }
}
