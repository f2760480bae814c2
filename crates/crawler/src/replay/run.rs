//! Runs a replay: threads that read archives, threads that process their records, and the one that watches them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use super::batches::{RecordBatch, RecordBatches};
use super::decisions::{Decisions, UrlDecision};
use super::report::{ReplayCounts, ReplayReport};
use super::turns::Turns;
use super::url_of_record::{RecordContent, RecordParser, RecordedUrl};
use super::{Callbacks, Replay};
use crate::backend::Budget;
use crate::error::Error;
use crate::modules::page_pipeline::PagePipeline;
use crate::outcome::Outcome;
use crate::panics::catch_panic;
use crate::pipeline::CrawlEnd;
use crate::stop::StopHandle;
use crate::task_kind::TaskKind;
use crate::url_record::UrlRecord;
use crate::warc::archives::Archives;
use crate::warc::reader::{ArchiveItem, Damage};

/// The interval between two calls of the progress callback.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// How long modules may take for their pages after a request to stop.
const MODULE_TIMEOUT: Duration = Duration::from_secs(2);

/// How many batches each thread may be ahead of the slowest one.
const BATCHES_PER_THREAD: u64 = 4;

/// What the threads of a replay share.
struct Run<'r> {
    archives: &'r Arc<Archives>,
    parser: RecordParser<'r>,
    pipeline: &'r PagePipeline,
    callbacks: &'r Callbacks,
    batches: Mutex<Option<RecordBatches>>,
    decisions: Mutex<Decisions>,
    turns: Turns,
    counts: Mutex<ReplayCounts>,
    bytes_read: &'r Arc<AtomicU64>,
    stop: &'r StopHandle,
    limit_reached: AtomicBool,
}

impl Replay {
    /// Runs the replay on threads, to its end, and returns the report.
    pub fn run(mut self) -> Result<ReplayReport, Error> {
        let started = Instant::now();
        let archives = Arc::new(Archives::find(&self.archives)?);
        self.config.check()?;
        let threads = self.thread_count();
        let pipeline = self.open_outputs()?;
        let bytes_read = Arc::default();
        let key = crate::similarity::HashKey::new(archives.identity);
        let parser = RecordParser {
            scope: &self.scope,
            config: &self.config,
            accepted: self.config.accepted_types()?,
            key,
            similarity: self.similarity,
            wanted: pipeline.wants(),
            keeps_requisites: pipeline.keeps_requisites(),
        };
        let run = Run {
            archives: &archives,
            parser,
            pipeline: &pipeline,
            callbacks: &self.callbacks,
            batches: Mutex::default(),
            decisions: Mutex::new(Decisions::new(key, self.similarity, self.max_pages)),
            turns: Turns::new(BATCHES_PER_THREAD * threads as u64),
            counts: Mutex::default(),
            bytes_read: &bytes_read,
            stop: &self.stop,
            limit_reached: AtomicBool::new(false),
        };
        run.process_all(threads, started)?;
        Ok(run.finish(started))
    }

    /// A program gets its next page while it processes the last one, so one thread is too few for it.
    fn thread_count(&self) -> usize {
        let least = if self.modules.iter().any(|module| module.waits_for_next_page()) { 2 } else { 1 };
        self.threads.max(least)
    }
}

impl Run<'_> {
    /// Processes all batches, and reports the progress meanwhile.
    fn process_all(&self, threads: usize, started: Instant) -> Result<(), Error> {
        thread::scope(|scope| {
            let batches =
                RecordBatches::read(self.archives, self.parser.max_block(), self.bytes_read, self.stop);
            *lock(&self.batches) = Some(batches.inspect_err(|_| self.stop.stop())?);
            let (sender, finished) = channel::<()>();
            for number in 0..threads {
                let sender = sender.clone();
                let work = move || {
                    self.process_batches();
                    drop(sender);
                };
                let thread = Builder::new().name(format!("replay {number}")).spawn_scoped(scope, work);
                if let Err(source) = thread {
                    self.stop.stop();
                    self.close();
                    return Err(Error::System { action: "start a thread", source });
                }
            }
            drop(sender);
            let mut stopping = None::<Instant>;
            while let Err(RecvTimeoutError::Timeout) = finished.recv_timeout(PROGRESS_INTERVAL) {
                self.report_progress(started);
                self.pipeline.flush_outputs(false);
                self.pipeline.notices().for_each(|notice| (self.callbacks.on_notice)(&notice));
                if self.stop.is_stop_requested() {
                    let since = *stopping.get_or_insert_with(Instant::now);
                    if since.elapsed() >= MODULE_TIMEOUT {
                        self.pipeline.shutdown_requested();
                    }
                }
            }
            Ok(())
        })
    }

    fn report_progress(&self, started: Instant) {
        let mut counts = lock(&self.counts).clone();
        counts.archive_bytes = self.bytes_read.load(Ordering::Relaxed);
        (self.callbacks.on_progress)(&counts, self.archives.total_bytes, started.elapsed());
    }

    fn process_batches(&self) {
        loop {
            let batch = lock(&self.batches).as_mut().and_then(RecordBatches::next);
            let Some(batch) = batch else { return };
            let number = batch.number;
            self.process(batch);
            self.turns.done(number);
            if self.stop.is_stop_requested() {
                return self.close();
            }
        }
    }

    /// Takes no more batches, so that the threads that read archives end.
    fn close(&self) {
        *lock(&self.batches) = None;
    }

    fn process(&self, batch: RecordBatch) {
        let archive = &self.archives.list[batch.archive];
        let mut counts = ReplayCounts {
            left_out: batch.left_out.iter().map(|(why, count)| ((*why).to_owned(), *count)).collect(),
            records: batch.left_out.values().sum(),
            ..ReplayCounts::default()
        };
        let mut urls = Vec::with_capacity(batch.items.len());
        for item in batch.items {
            let content = match item {
                ArchiveItem::Damage(damage) => RecordContent::Damaged(damage),
                ArchiveItem::Record(record) => {
                    counts.records += 1;
                    let offset = record.offset;
                    // A thread that panics would never take its turn, for which the others wait.
                    catch_panic(|| self.parser.parse(record)).unwrap_or_else(|panic| {
                        RecordContent::Damaged(Damage { offset, cause: format!("the parser {panic}") })
                    })
                }
            };
            match content {
                RecordContent::Url(url) => urls.push(*url),
                RecordContent::LeftOut(why) => *counts.left_out.entry(why.to_owned()).or_default() += 1,
                RecordContent::Damaged(damage) => {
                    counts.damaged += 1;
                    (self.callbacks.on_damage)(&archive.describe(&damage));
                }
            }
        }
        if let Some(cause) = batch.failure {
            counts.failed_archives += 1;
            (self.callbacks.on_damage)(&format!("cannot read archive '{}': {cause}", archive.name));
        }
        let decided = self.turns.in_order(batch.number, || self.decide(urls, &mut counts));
        for (url, sequence, page) in decided {
            self.process_url(url, sequence, page, &mut counts);
        }
        lock(&self.counts).add(&counts);
    }

    /// Decides about the URLs of a batch. Nothing is decided any more when the replay stops.
    fn decide(
        &self,
        urls: Vec<RecordedUrl>,
        counts: &mut ReplayCounts,
    ) -> Vec<(RecordedUrl, u64, Option<u64>)> {
        let mut decisions = lock(&self.decisions);
        let mut decided = Vec::with_capacity(urls.len());
        for mut url in urls {
            if self.stop.is_stop_requested() {
                break;
            }
            match decisions.decide(&mut url) {
                UrlDecision::Use { sequence, page } => decided.push((url, sequence, page)),
                UrlDecision::Repeated => *counts.left_out.entry("repeated URL".to_owned()).or_default() += 1,
                UrlDecision::LimitReached => {
                    self.limit_reached.store(true, Ordering::Relaxed);
                    self.stop.stop();
                }
            }
        }
        decided
    }

    /// Runs the modules on a URL and its page, and writes what it adds to the outputs.
    fn process_url(&self, url: RecordedUrl, sequence: u64, number: Option<u64>, counts: &mut ReplayCounts) {
        let RecordedUrl { url, outcome, page, requisite, request } = url;
        let page = page.map(|parsed| parsed.page);
        let task_url = match outcome {
            Outcome::Requisite => TaskKind::Requisite.task_url(&url),
            _ => url.into(),
        };
        counts.bytes += request.bytes.decoded;
        let mut writes = Vec::new();
        let mut is_processed = true;
        let (done, truncated) = (request.done, page.as_ref().is_some_and(|page| page.truncated));
        let record = UrlRecord::new(task_url.into(), outcome, 0, None, 0);
        let record = UrlRecord { done, request, truncated, ..record };
        if let Some(page) = &page {
            is_processed = self.pipeline.run_modules(page);
            if is_processed {
                writes = self.pipeline.render(page);
            }
        }
        if let Some(requisite) = &requisite {
            writes = self.pipeline.render_requisite(requisite);
        }
        if is_processed && self.pipeline.wants_urls() {
            self.pipeline.add_url(&UrlRecord { page: page.as_ref(), ..record.clone() }, &mut writes);
            is_processed = self.pipeline.process_url(&record);
        }
        // A number that is never written would hold up those after it.
        let number = number.filter(|_| is_processed);
        let is_written =
            self.pipeline.write(sequence, number, if is_processed { writes } else { Vec::new() });
        if !is_processed || !is_written {
            return self.stop.stop();
        }
        *counts.outcomes.entry(record.outcome.label().into_owned()).or_default() += 1;
        self.pipeline.report_url(&record.task_url, record.depth, &record.outcome);
    }

    /// Completes the modules and outputs.
    fn finish(self, started: Instant) -> ReplayReport {
        let pipeline = self.pipeline;
        let early_end = pipeline.end();
        let is_limit = self.limit_reached.load(Ordering::Relaxed);
        let is_stopped = self.stop.is_stop_requested() && !is_limit;
        if is_stopped {
            pipeline.shutdown_requested();
        }
        let (module_failures, mut module_summaries) = pipeline.finish();
        pipeline.flush_outputs(false);
        pipeline.finish_outputs(false, &*self.callbacks.on_notice);
        module_summaries.extend(pipeline.output_summaries());
        let output_failure = pipeline.output_failure();
        let end = match early_end {
            _ if output_failure.is_some() => CrawlEnd::OutputFailed,
            Some(end) => end,
            None if is_limit => CrawlEnd::LimitReached(Budget::Pages),
            None if is_stopped => CrawlEnd::Stopped,
            None => CrawlEnd::Finished,
        };
        let mut counts = lock(&self.counts).clone();
        counts.archive_bytes = self.bytes_read.load(Ordering::Relaxed);
        ReplayReport {
            end,
            counts,
            archives: self.archives.list.len(),
            elapsed: started.elapsed(),
            module_failures,
            module_summaries,
            output_failure,
            module_failure: pipeline.module_failure(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
