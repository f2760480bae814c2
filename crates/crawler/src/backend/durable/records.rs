//! The rows of a durable state as bytes, and back. What cannot be read back is damaged.

use super::super::TaskId;
use crate::backend::local::storage::{Body, CompletedUrl, QueuedTask};
use crate::modules::OutputWrite;
use crate::outcome::Outcome;
use crate::similarity::Fingerprint;
use crate::task::Depth;

/// A URL that is outstanding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskRow {
    pub(crate) from: TaskId,
    pub(crate) depth: Depth,
    pub(crate) generation: u32,
    pub(crate) redirects: u8,
    pub(crate) is_revisit: bool,
    pub(crate) url: String,
}

/// A URL that was completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompletedRow {
    pub(crate) from: TaskId,
    pub(crate) depth: Depth,
    pub(crate) generation: u32,
    pub(crate) redirects: u8,
    /// The number of the page that was kept; 0 for none.
    pub(crate) document: u64,
    /// Seconds since 1970.
    pub(crate) time: u64,
    pub(crate) url: String,
    /// The outcome in words.
    pub(crate) outcome: String,
}

/// What link storage knows of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeenRow {
    /// The last one the URL was admitted under.
    pub(crate) task_id: TaskId,
    pub(crate) depth: Depth,
    /// When it was last met.
    pub(crate) generation: u32,
}

/// What recognises a kept page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageRow {
    /// Milliseconds of the crawl's own time.
    pub(crate) stored: u64,
    /// Where its body is, if it is stored.
    pub(crate) body: Option<BodyPlace>,
    pub(crate) url: String,
    pub(crate) fingerprint: Fingerprint,
}

/// Where the body of a page is: bodies that were committed together are stored together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyPlace {
    pub(crate) segment: u64,
    pub(crate) offset: u32,
    pub(crate) length: u32,
    pub(crate) is_compressed: bool,
}

/// What is known of a host. All times in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HostRow {
    /// Since 1970: not to be asked before.
    pub(crate) until: u64,
    pub(crate) delay: u64,
    pub(crate) pages: u64,
}

impl TaskRow {
    pub(crate) fn of(item: &QueuedTask, generation: u32) -> TaskRow {
        let QueuedTask { from, depth, redirects, is_revisit, .. } = *item;
        TaskRow { from, depth, generation, redirects, is_revisit, url: item.url.to_string() }
    }

    pub(crate) fn item(self, task_id: TaskId) -> QueuedTask {
        let TaskRow { from, depth, redirects, is_revisit, url, .. } = self;
        QueuedTask { task_id, from, url: url.into(), depth, redirects, is_revisit, domain: None }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(18 + self.url.len());
        bytes.extend(self.from.0.to_le_bytes());
        bytes.extend(self.depth.to_le_bytes());
        bytes.extend(self.generation.to_le_bytes());
        bytes.extend([self.redirects, self.is_revisit.into()]);
        bytes.extend(self.url.as_bytes());
        bytes
    }

    pub(crate) fn from_bytes(mut bytes: &[u8]) -> Option<TaskRow> {
        let from = TaskId(u64::from_le_bytes(take(&mut bytes)?));
        let depth = u32::from_le_bytes(take(&mut bytes)?);
        let generation = u32::from_le_bytes(take(&mut bytes)?);
        let [redirects, is_revisit] = take(&mut bytes)?;
        let url = String::from_utf8(bytes.to_vec()).ok()?;
        Some(TaskRow { from, depth, generation, redirects, is_revisit: is_revisit != 0, url })
    }
}

impl CompletedRow {
    pub(crate) fn of(item: &QueuedTask, end: &CompletedUrl, generation: u32, time: u64) -> CompletedRow {
        CompletedRow {
            from: item.from,
            depth: end.depth,
            generation,
            redirects: item.redirects,
            document: end.document.unwrap_or(0),
            time,
            url: item.url.to_string(),
            outcome: end.outcome.to_string(),
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(37 + self.url.len() + self.outcome.len());
        bytes.extend(self.from.0.to_le_bytes());
        bytes.extend(self.depth.to_le_bytes());
        bytes.extend(self.generation.to_le_bytes());
        bytes.push(self.redirects);
        bytes.extend(self.document.to_le_bytes());
        bytes.extend(self.time.to_le_bytes());
        bytes.extend((self.url.len() as u32).to_le_bytes());
        bytes.extend(self.url.as_bytes());
        bytes.extend(self.outcome.as_bytes());
        bytes
    }

    /// Whether something was found there that leads on.
    pub(crate) fn has_links(&self) -> bool {
        Outcome::text_has_links(&self.outcome)
    }

    pub(crate) fn from_bytes(mut bytes: &[u8]) -> Option<CompletedRow> {
        let from = TaskId(u64::from_le_bytes(take(&mut bytes)?));
        let depth = u32::from_le_bytes(take(&mut bytes)?);
        let generation = u32::from_le_bytes(take(&mut bytes)?);
        let [redirects] = take(&mut bytes)?;
        let document = u64::from_le_bytes(take(&mut bytes)?);
        let time = u64::from_le_bytes(take(&mut bytes)?);
        let length = u32::from_le_bytes(take(&mut bytes)?) as usize;
        let (url, outcome) = bytes.split_at_checked(length)?;
        let url = String::from_utf8(url.to_vec()).ok()?;
        let outcome = String::from_utf8(outcome.to_vec()).ok()?;
        Some(CompletedRow { from, depth, generation, redirects, document, time, url, outcome })
    }
}

impl SeenRow {
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.task_id.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.depth.to_le_bytes());
        bytes[12..].copy_from_slice(&self.generation.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(mut bytes: &[u8]) -> Option<SeenRow> {
        let task_id = TaskId(u64::from_le_bytes(take(&mut bytes)?));
        let depth = u32::from_le_bytes(take(&mut bytes)?);
        let generation = u32::from_le_bytes(take(&mut bytes)?);
        Some(SeenRow { task_id, depth, generation })
    }
}

impl PageRow {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(300 + self.url.len());
        bytes.extend(self.stored.to_le_bytes());
        let (place, kind) = match self.body {
            None => (BodyPlace { segment: 0, offset: 0, length: 0, is_compressed: false }, 0),
            Some(place) => (place, if place.is_compressed { 2 } else { 1 }),
        };
        bytes.push(kind);
        bytes.extend(place.segment.to_le_bytes());
        bytes.extend(place.offset.to_le_bytes());
        bytes.extend(place.length.to_le_bytes());
        bytes.extend((self.url.len() as u32).to_le_bytes());
        bytes.extend(self.url.as_bytes());
        bytes.extend(self.fingerprint.to_bytes());
        bytes
    }

    pub(crate) fn from_bytes(mut bytes: &[u8]) -> Option<PageRow> {
        let stored = u64::from_le_bytes(take(&mut bytes)?);
        let [kind] = take(&mut bytes)?;
        let segment = u64::from_le_bytes(take(&mut bytes)?);
        let offset = u32::from_le_bytes(take(&mut bytes)?);
        let length = u32::from_le_bytes(take(&mut bytes)?);
        let body = (kind > 0).then_some(BodyPlace { segment, offset, length, is_compressed: kind > 1 });
        let length = u32::from_le_bytes(take(&mut bytes)?) as usize;
        let (url, fingerprint) = bytes.split_at_checked(length)?;
        let url = String::from_utf8(url.to_vec()).ok()?;
        Some(PageRow { stored, body, url, fingerprint: Fingerprint::from_bytes(fingerprint)? })
    }
}

impl HostRow {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        [self.until, self.delay, self.pages].into_iter().flat_map(u64::to_le_bytes).collect()
    }

    pub(crate) fn from_bytes(mut bytes: &[u8]) -> Option<HostRow> {
        let mut next = || Some(u64::from_le_bytes(take(&mut bytes)?));
        Some(HostRow { until: next()?, delay: next()?, pages: next()? })
    }
}

impl BodyPlace {
    /// The body, of the bodies it is stored with.
    pub(crate) fn of(self, segment: &[u8]) -> Option<Body> {
        let start = self.offset as usize;
        let body = segment.get(start..start.checked_add(self.length as usize)?)?;
        Some(if self.is_compressed { Body::Compressed(body.into()) } else { Body::Plain(body.into()) })
    }
}

/// What a page adds to the outputs, as bytes.
pub(crate) fn output_to_bytes(output: &[(usize, OutputWrite)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, addition) in output {
        let (kind, added) = match addition {
            OutputWrite::Append(added) => (0, added),
            OutputWrite::File(added) => (1, added),
        };
        bytes.extend((*index as u32).to_le_bytes());
        bytes.push(kind);
        bytes.extend((added.len() as u32).to_le_bytes());
        bytes.extend(added);
    }
    bytes
}

/// What a page adds to the outputs.
pub(crate) fn output_from_bytes(mut bytes: &[u8]) -> Option<Vec<(usize, OutputWrite)>> {
    let mut output = Vec::new();
    while !bytes.is_empty() {
        let index = u32::from_le_bytes(take(&mut bytes)?) as usize;
        let [kind] = take(&mut bytes)?;
        let length = u32::from_le_bytes(take(&mut bytes)?) as usize;
        let (added, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        let added = added.to_vec();
        output.push((index, if kind == 0 { OutputWrite::Append(added) } else { OutputWrite::File(added) }));
    }
    Some(output)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows_come_back_as_they_were() {
        let task = TaskRow {
            from: TaskId(7),
            depth: 3,
            generation: 9,
            redirects: 2,
            is_revisit: true,
            url: "http://a/ä".into(),
        };
        assert_eq!(TaskRow::from_bytes(&task.to_bytes()), Some(task.clone()));
        let end = CompletedRow {
            from: TaskId(7),
            depth: 3,
            generation: 9,
            redirects: 0,
            document: 11,
            time: 12,
            url: task.url,
            outcome: "page".into(),
        };
        assert_eq!(CompletedRow::from_bytes(&end.to_bytes()), Some(end));
        let link = SeenRow { task_id: TaskId(1 << 40), depth: 5, generation: 6 };
        assert_eq!(SeenRow::from_bytes(&link.to_bytes()), Some(link));
        let host = HostRow { until: 1, delay: 2, pages: 3 };
        assert_eq!(HostRow::from_bytes(&host.to_bytes()), Some(host));
        let output = vec![(0, OutputWrite::Append(b"line\n".to_vec())), (3, OutputWrite::File(Vec::new()))];
        assert_eq!(output_from_bytes(&output_to_bytes(&output)), Some(output));
        let body = BodyPlace { segment: 4, offset: 1, length: 3, is_compressed: true };
        for body in [None, Some(body), Some(BodyPlace { is_compressed: false, ..body })] {
            let fingerprint = Fingerprint { exact: 5, sketch: None };
            let page = PageRow { stored: 6, body, url: "http://a/".into(), fingerprint };
            assert_eq!(PageRow::from_bytes(&page.to_bytes()), Some(page));
        }
        assert_eq!(body.of(b"wxyz"), Some(Body::Compressed(b"xyz".as_slice().into())));
        assert_eq!(body.of(b"wxy"), None, "a segment that was cut");
    }

    proptest! {
        #[test]
        fn damaged_rows_are_refused_and_never_a_panic(bytes: Vec<u8>) {
            let _ = (TaskRow::from_bytes(&bytes), CompletedRow::from_bytes(&bytes), SeenRow::from_bytes(&bytes));
            let _ = (PageRow::from_bytes(&bytes), HostRow::from_bytes(&bytes));
            let _ = output_from_bytes(&bytes);
        }
    }
}
