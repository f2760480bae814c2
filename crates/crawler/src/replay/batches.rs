//! Reads archives in parallel, and hands their records out in an order that depends on the archives alone.
//!
//! Up to [`MAX_LANES`] archives are read at a time, each *lane* by a thread: the first lane reads the first archive, then the ninth, and so
//! on. Records come in batches, which the lanes give in turn.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::Duration;

use crate::error::Error;
use crate::stop::StopHandle;
use crate::warc::archives::{Archive, Archives};
use crate::warc::header::{RecordHeader, RecordType};
use crate::warc::reader::{ArchiveItem, WarcRecord};

/// How many archives are read at a time.
const MAX_LANES: usize = 8;

/// The most records of a batch.
const MAX_RECORDS: usize = 16;

/// The bytes of records after which a batch is full.
const BATCH_BYTES: usize = 128 * 1024;

/// How many batches of a lane wait.
const WAITING_BATCHES: usize = 2;

/// How soon a request to stop is noticed while there is nothing to read.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// Records of one archive, in their order.
#[derive(Default)]
pub struct RecordBatch {
    /// Its number in the order of the replay, from 0.
    pub number: u64,
    /// The index of the archive.
    pub archive: usize,
    /// What can have a URL, and what is damaged.
    pub items: Vec<ArchiveItem>,
    /// The records that were left out, by type.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Why the archive could not be read to its end.
    pub failure: Option<String>,
}

/// The batches of all archives, in their order.
pub struct RecordBatches {
    lanes: Vec<Receiver<RecordBatch>>,
    /// The lane that is next.
    next: usize,
    number: u64,
    stop: StopHandle,
}

impl RecordBatches {
    /// Starts to read archives. `max_block` is the most that is kept of a record. The threads end when their batches are no longer received; one
    /// that waits for standard input stays.
    pub fn read(
        archives: &Arc<Archives>,
        max_block: usize,
        bytes_read: &Arc<AtomicU64>,
        stop: &StopHandle,
    ) -> Result<RecordBatches, Error> {
        let count = archives.list.len().min(MAX_LANES);
        let mut lanes = Vec::with_capacity(count);
        for lane in 0..count {
            let (sender, receiver) = sync_channel(WAITING_BATCHES);
            lanes.push(receiver);
            let (archives, bytes_read, stop) = (Arc::clone(archives), Arc::clone(bytes_read), stop.clone());
            let read = move || {
                for (index, archive) in archives.list.iter().enumerate().skip(lane).step_by(count) {
                    let batches = LaneBatches { index, sender: &sender, stop: &stop };
                    if !batches.read_archive(archive, max_block, &bytes_read) {
                        return;
                    }
                }
            };
            let thread = Builder::new().name(format!("archive {lane}")).spawn(read);
            thread.map_err(|source| Error::System { action: "start a thread", source })?;
        }
        Ok(RecordBatches { lanes, next: 0, number: 0, stop: stop.clone() })
    }

    /// The next batch; `None` when all archives are read, or the replay stops.
    pub fn next(&mut self) -> Option<RecordBatch> {
        while !self.lanes.is_empty() {
            let lane = self.next % self.lanes.len();
            match self.lanes[lane].recv_timeout(STOP_INTERVAL) {
                // Standard input may have nothing to read for a long time.
                Err(RecvTimeoutError::Timeout) if self.stop.is_stop_requested() => return None,
                Err(RecvTimeoutError::Timeout) => {}
                Ok(batch) => {
                    self.next = lane + 1;
                    self.number += 1;
                    return Some(RecordBatch { number: self.number - 1, ..batch });
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.lanes.remove(lane);
                    self.next = lane;
                }
            }
        }
        None
    }
}

/// Sends the batches of an archive.
struct LaneBatches<'l> {
    index: usize,
    sender: &'l SyncSender<RecordBatch>,
    stop: &'l StopHandle,
}

impl LaneBatches<'_> {
    /// Reads an archive to its end. Returns false if the replay stops.
    fn read_archive(&self, archive: &Archive, max_block: usize, bytes_read: &Arc<AtomicU64>) -> bool {
        let mut batch = self.new_batch();
        let mut bytes = 0;
        let wanted = |header: &RecordHeader| if left_out(header).is_none() { max_block } else { 0 };
        let mut reader = match archive.open(Arc::clone(bytes_read)) {
            Ok(reader) => reader,
            Err(error) => {
                batch.failure = Some(error.to_string());
                return self.send(batch);
            }
        };
        loop {
            match reader.next(&wanted) {
                Ok(None) => return self.send(batch),
                Ok(Some(ArchiveItem::Record(WarcRecord { header, .. })))
                    if let Some(why) = left_out(&header) =>
                {
                    *batch.left_out.entry(why).or_default() += 1;
                    continue;
                }
                Ok(Some(item)) => {
                    bytes += if let ArchiveItem::Record(record) = &item { record.block.len() } else { 0 };
                    batch.items.push(item);
                }
                Err(error) => {
                    batch.failure = Some(error.to_string());
                    return self.send(batch);
                }
            }
            if bytes >= BATCH_BYTES || batch.items.len() >= MAX_RECORDS {
                bytes = 0;
                if !self.send(std::mem::replace(&mut batch, self.new_batch())) {
                    return false;
                }
            }
        }
    }

    fn new_batch(&self) -> RecordBatch {
        RecordBatch { archive: self.index, ..RecordBatch::default() }
    }

    /// Returns false if the replay stops.
    fn send(&self, batch: RecordBatch) -> bool {
        !self.stop.is_stop_requested() && self.sender.send(batch).is_ok()
    }
}

/// Why a record has no URL of interest, if it has none.
fn left_out(header: &RecordHeader) -> Option<&'static str> {
    let record_type = header.record_type();
    let is_web = header.target_uri().is_some_and(|uri| {
        let scheme = uri.split(':').next().unwrap_or_default();
        scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
    });
    match record_type {
        RecordType::Response | RecordType::Resource | RecordType::Revisit if is_web => None,
        RecordType::Response | RecordType::Resource | RecordType::Revisit => Some("not http or https"),
        other => Some(other.name()),
    }
}
