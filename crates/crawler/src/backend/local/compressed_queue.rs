//! URLs that wait in memory, as few bytes each as possible: a crawl of the web has millions of them waiting.

use std::collections::VecDeque;

use super::super::TaskId;
use super::storage::QueuedTask;

/// The room for URLs is made in pieces of this size: none is copied as the line grows, and each is given back when it
/// has been read.
const CHUNK_BYTES: usize = 64 * 1024;

/// URLs in the order they came. Of each URL only what differs from the one before is kept, and its numbers are kept as
/// differences: what waits together was mostly found together.
#[derive(Debug, Default)]
pub(crate) struct CompressedUrlQueue {
    chunks: VecDeque<Vec<u8>>,
    /// How much of the first chunk has been read.
    read: usize,
    length: usize,
    /// The last one in, which the next one in is compared with.
    newest: PreviousTask,
    /// The last one out, which the next one out is made of.
    oldest: PreviousTask,
}

#[derive(Debug, Default)]
struct PreviousTask {
    task_id: u64,
    url: String,
}

impl CompressedUrlQueue {
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn push(&mut self, item: QueuedTask) {
        let QueuedTask {
            task_id: TaskId(task_id),
            from: TaskId(from),
            url,
            depth,
            redirects,
            is_revisit,
            domain: _,
        } = item;
        let shared = shared_start(&self.newest.url, &url);
        let rest = &url.as_bytes()[shared..];
        // All of a URL is in one chunk: the numbers take no more than this.
        let needed = rest.len() + 48;
        match self.chunks.back() {
            Some(chunk) if chunk.len() + needed <= CHUNK_BYTES => {}
            // The first piece grows by itself, since most lines are short.
            None => self.chunks.push_back(Vec::new()),
            Some(_) => self.chunks.push_back(Vec::with_capacity(CHUNK_BYTES.max(needed))),
        }
        let Some(chunk) = self.chunks.back_mut() else { return };
        put(chunk, signed(task_id, self.newest.task_id));
        put(chunk, signed(task_id, from));
        put(chunk, u64::from(depth));
        put(chunk, u64::from(redirects) << 1 | u64::from(is_revisit));
        put(chunk, shared as u64);
        put(chunk, rest.len() as u64);
        chunk.extend(rest);
        self.newest.task_id = task_id;
        self.newest.url.truncate(shared);
        self.newest.url.push_str(&url[shared..]);
        self.length += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<QueuedTask> {
        let chunk = self.chunks.front()?;
        let mut rest = &chunk[self.read..];
        let task_id = self.oldest.task_id.wrapping_add(unsigned(take(&mut rest)));
        let from = task_id.wrapping_sub(unsigned(take(&mut rest)));
        let depth = take(&mut rest) as u32;
        let flags = take(&mut rest);
        let (shared, length) = (take(&mut rest) as usize, take(&mut rest) as usize);
        let (url, rest) = rest.split_at(length);
        self.oldest.url.truncate(shared);
        self.oldest.url.push_str(str::from_utf8(url).unwrap_or_default());
        self.oldest.task_id = task_id;
        self.read = chunk.len() - rest.len();
        self.length -= 1;
        let url = self.oldest.url.as_str().into();
        if self.length == 0 {
            *self = CompressedUrlQueue::default();
        } else if self.read == chunk.len() {
            self.chunks.pop_front();
            self.read = 0;
        }
        Some(QueuedTask {
            task_id: TaskId(task_id),
            from: TaskId(from),
            url,
            depth,
            redirects: (flags >> 1) as u8,
            is_revisit: flags & 1 == 1,
            domain: None,
        })
    }
}

/// How many bytes two URLs begin with alike, up to a whole character.
fn shared_start(one: &str, other: &str) -> usize {
    let shared = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    (0..=shared).rev().find(|end| other.is_char_boundary(*end)).unwrap_or(0)
}

/// The difference of two numbers as a small number, whichever is larger.
fn signed(number: u64, from: u64) -> u64 {
    let difference = number.wrapping_sub(from).cast_signed();
    (difference << 1 ^ difference >> 63).cast_unsigned()
}

fn unsigned(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

/// A number in as many bytes as it needs, seven bits in each.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take(bytes: &mut &[u8]) -> u64 {
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

    fn item(task_id: u64, from: u64, url: &str, depth: u32, redirects: u8, is_revisit: bool) -> QueuedTask {
        QueuedTask {
            task_id: TaskId(task_id),
            from: TaskId(from),
            url: url.into(),
            depth,
            redirects,
            is_revisit,
            domain: None,
        }
    }

    proptest! {
        #[test]
        fn urls_come_out_as_they_went_in(rounds in proptest::collection::vec((proptest::collection::vec(
            (any::<u64>(), any::<u64>(), "(http://a/)?[abä]{0,6}", any::<u32>(), any::<u8>(), any::<bool>()), 0..6), 0..7usize), 0..20)) {
            let (mut line, mut model) = (CompressedUrlQueue::default(), VecDeque::new());
            for (pushed, popped) in rounds {
                for (task_id, from, url, depth, redirects, is_revisit) in pushed {
                    line.push(item(task_id, from, &url, depth, redirects, is_revisit));
                    model.push_back(item(task_id, from, &url, depth, redirects, is_revisit));
                }
                for _ in 0..popped {
                    prop_assert_eq!(format!("{:?}", line.pop()), format!("{:?}", model.pop_front()));
                }
                prop_assert_eq!(line.len(), model.len());
            }
        }
    }

    #[test]
    fn long_lines_and_long_urls_keep_their_order() {
        let mut line = CompressedUrlQueue::default();
        let url =
            |number: u64| format!("http://host/{number}/{}", "x".repeat((number as usize * 7919) % 70_000));
        for number in 0..200 {
            line.push(item(number, number / 2, &url(number), 3, 0, false));
        }
        assert!(line.chunks.len() > 50);
        for number in 0..200 {
            assert_eq!(
                line.pop().map(|item| (item.task_id.0, String::from(item.url))),
                Some((number, url(number)))
            );
        }
        assert!(line.pop().is_none() && line.chunks.is_empty());
    }
}
