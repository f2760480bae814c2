//! Runs the modules on each page and writes the outputs, for one process of a crawl.

mod made_files;

use std::collections::{BTreeMap, HashMap};
use std::ops::BitOr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use tokio::sync::Notify;
use url::Url;

use crate::backend::durable::OpenOutputs;
use crate::backend::{Completion, Lease};
use crate::config::{FetchConfig, MAX_REDIRECTS};
use crate::error::{Error, StorageError, StorageErrorKind};
use crate::exchange::{DroppedExchanges, Exchange};
use crate::html::parts::PageParts;
use crate::log;
use crate::modules::output::files::{OutputFiles, Start, SyncHandles};
use crate::modules::output::parts::Parts;
use crate::modules::output::{OutputPosition, Writes};
use crate::modules::{BuiltinModule, OutputSpec, OutputWrite, Target};
use crate::origin::without_credentials;
use crate::outcome::Outcome;
use crate::page::Page;
use crate::panics::catch_panic;
use crate::pipeline::CrawlEnd;
use crate::statistics::Recorder;
use crate::task::Depth;
use crate::task_kind::shown_url;
use crate::url_record::UrlRecord;

/// The most outcomes of seeds that are kept for the report. Lists have millions of seeds.
const MAX_SEED_OUTCOMES: usize = 10_000;

/// Called with the outcome of each URL.
pub type OutcomeCallback = Arc<dyn Fn(&str, &Outcome) + Send + Sync>;

/// The modules and outputs of a crawl, and the callback for outcomes.
pub struct PagePipeline {
    modules: Vec<Box<dyn BuiltinModule>>,
    outputs: Vec<OutputSpec>,
    wanted: PageParts,
    outputs_want_urls: bool,
    modules_want_urls: bool,
    checks_links: bool,
    files: Mutex<OrderedOutputs>,
    /// Held during a flush, which may wait for the disk. Threads that write pages do not take it.
    flush_lock: Mutex<()>,
    counts: Mutex<ModuleFailures>,
    /// Why a module can process no page any more: the first one.
    module_failure: OnceLock<String>,
    /// No module and no output wants more pages.
    is_unwanted: AtomicBool,
    /// Notified when one of these two changes.
    ended: Notify,
    /// The outcomes of seeds, and of the URLs that they redirect to.
    seeds: Mutex<HashMap<String, Outcome>>,
    recorder: OnceLock<Recorder>,
    /// When the archives of a crawl with a state were added to it.
    archived_since: OnceLock<SystemTime>,
    on_outcome: OutcomeCallback,
}

/// Writes in the order of completion, although URLs are completed concurrently.
struct OrderedOutputs {
    files: OutputFiles,
    /// Writes that wait for those with a smaller number, and their pages.
    waiting: BTreeMap<u64, (Option<u64>, Writes)>,
    /// The part files of a worker in a distributed crawl. If set, `files` is not used.
    parts: Option<Parts>,
    /// The first failure of an output.
    failure: Option<StorageError>,
}

/// How often modules failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModuleFailures {
    /// The number of failures by module name. Outputs count as `output`.
    pub failures: BTreeMap<String, u64>,
    /// The last failure.
    pub last_failure: Option<String>,
}

impl PagePipeline {
    /// A pipeline with these modules and open outputs.
    pub fn new(
        modules: Vec<Box<dyn BuiltinModule>>,
        outputs: Vec<OutputSpec>,
        files: OutputFiles,
        on_outcome: OutcomeCallback,
    ) -> PagePipeline {
        let files = OrderedOutputs { files, waiting: BTreeMap::new(), parts: None, failure: None };
        PagePipeline::build(modules, outputs, files, on_outcome)
    }

    /// A pipeline with these modules and one worker's part files.
    pub fn with_parts(
        modules: Vec<Box<dyn BuiltinModule>>,
        outputs: Vec<OutputSpec>,
        parts: Parts,
        on_outcome: OutcomeCallback,
    ) -> Result<PagePipeline, Error> {
        let files = OutputFiles::open(&[], Start::Fresh).map_err(Error::Output)?;
        let files = OrderedOutputs { files, waiting: BTreeMap::new(), parts: Some(parts), failure: None };
        Ok(PagePipeline::build(modules, outputs, files, on_outcome))
    }

    fn build(
        modules: Vec<Box<dyn BuiltinModule>>,
        outputs: Vec<OutputSpec>,
        files: OrderedOutputs,
        on_outcome: OutcomeCallback,
    ) -> PagePipeline {
        let wanted = modules.iter().map(|module| module.wants());
        let wanted = wanted.chain(outputs.iter().map(|spec| spec.output.wants()));
        let mut wanted = wanted.fold(PageParts::default(), PageParts::bitor);
        wanted.requisites |= outputs.iter().any(|spec| spec.output.keeps_requisites());
        let checks_links = outputs.iter().any(|spec| spec.output.checks_links());
        PagePipeline {
            outputs_want_urls: outputs.iter().any(|spec| spec.output.wants_urls()),
            modules_want_urls: modules.iter().any(|module| module.wants_urls()),
            modules,
            outputs,
            wanted,
            checks_links,
            files: Mutex::new(files),
            flush_lock: Mutex::default(),
            counts: Mutex::default(),
            module_failure: OnceLock::new(),
            is_unwanted: AtomicBool::new(false),
            ended: Notify::new(),
            seeds: Mutex::default(),
            recorder: OnceLock::new(),
            archived_since: OnceLock::new(),
            on_outcome,
        }
    }

    /// The parts of pages that the modules and outputs use.
    pub fn wants(&self) -> PageParts {
        self.wanted
    }

    /// Whether an output keeps the files that browsers need to show the pages.
    pub fn keeps_requisites(&self) -> bool {
        self.outputs.iter().any(|spec| spec.output.keeps_requisites())
    }

    /// Renders a requisite for the outputs that keep them.
    pub fn render_requisite(&self, page: &Page) -> Writes {
        let keeps = |(_, spec): &(usize, &OutputSpec)| spec.output.keeps_requisites();
        let outputs = self.outputs.iter().enumerate().filter(keeps);
        let write = |(index, spec): (usize, &OutputSpec)| {
            let rendered = self.rendered(spec, page.url.as_str(), || spec.output.render(page))?;
            Some((index, rendered))
        };
        outputs.filter_map(write).collect()
    }

    /// Whether [`run_modules`](PagePipeline::run_modules) may block.
    pub fn is_blocking(&self) -> bool {
        self.modules.iter().any(|module| module.is_blocking())
    }

    /// Runs every module on a page. A panic counts as a failure of the module, like an error. Returns false if the page is not
    /// processed: a module can process no page any more, or nothing wants pages.
    pub fn run_modules(&self, page: &Page) -> bool {
        let mut errors = Vec::new();
        for module in &self.modules {
            let processed = catch_panic(|| module.process_page(page)).flatten();
            if let Some(cause) = module.failure() {
                self.module_failed(cause);
                return false;
            }
            errors.extend(processed.err().map(|error| (module.name(), error)));
        }
        if self.stop_if_unwanted() {
            return false;
        }
        errors.into_iter().for_each(|(name, error)| self.count_failure(name, error));
        true
    }

    /// Stops the crawl if no module and no output wants more pages. Returns whether it does.
    fn stop_if_unwanted(&self) -> bool {
        let are_closed = !self.modules.is_empty() && self.modules.iter().all(|module| !module.wants_pages());
        let is_unwanted = are_closed && self.outputs.is_empty();
        if is_unwanted {
            self.is_unwanted.store(true, Ordering::Relaxed);
            self.ended.notify_one();
        }
        is_unwanted
    }

    fn module_failed(&self, cause: String) {
        self.module_failure.get_or_init(|| cause);
        self.ended.notify_one();
    }

    /// Waits until the modules and outputs are a reason to stop the crawl.
    pub async fn ended(&self) -> CrawlEnd {
        loop {
            if let Some(end) = self.end() {
                return end;
            }
            self.ended.notified().await;
        }
    }

    /// Whether a module wants the record of every URL.
    pub fn modules_want_urls(&self) -> bool {
        self.modules_want_urls
    }

    /// Whether a module or an output wants the record of every URL.
    pub fn wants_urls(&self) -> bool {
        self.outputs_want_urls || self.modules_want_urls
    }

    /// Runs the modules that want URLs on one that is being completed. A panic counts as a failure of the module, like an error.
    /// Returns false if the URL is not processed, as [`run_modules`](PagePipeline::run_modules) does.
    pub fn process_url(&self, record: &UrlRecord) -> bool {
        for module in self.modules.iter().filter(|module| module.wants_urls()) {
            self.call(&**module, |module| module.process_url(record));
        }
        !self.stop_if_unwanted() && self.module_failure().is_none()
    }

    /// Why the modules and outputs stop the crawl, if they do.
    pub fn end(&self) -> Option<CrawlEnd> {
        match () {
            () if self.output_failure().is_some() => Some(CrawlEnd::OutputFailed),
            () if self.module_failure().is_some() => Some(CrawlEnd::ModuleFailed),
            () => self.is_unwanted.load(Ordering::Relaxed).then_some(CrawlEnd::OutputClosed),
        }
    }

    /// Why a module can process no page any more.
    pub fn module_failure(&self) -> Option<String> {
        self.module_failure.get().cloned()
    }

    /// What the modules have to say to the operator of the crawl. To be called about once per second.
    pub fn notices(&self) -> impl Iterator<Item = String> {
        self.modules.iter().filter_map(|module| module.notice())
    }

    /// Renders a page for every output. If an output panics, the page is missing from it, and the outputs fail.
    pub fn render(&self, page: &Page) -> Writes {
        let write = |(index, spec): (usize, &OutputSpec)| {
            let rendered = self.rendered(spec, page.url.as_str(), || spec.output.render(page));
            // A directory must have a file for every page, so write an empty one.
            (index, rendered.unwrap_or_else(|| spec.written().write_of(Vec::new())))
        };
        self.outputs.iter().enumerate().map(write).collect()
    }

    /// Adds what a URL writes to the outputs that have a row for every URL to its other writes.
    pub fn add_url(&self, record: &UrlRecord, writes: &mut Writes) {
        let wants_urls = |(_, spec): &(usize, &OutputSpec)| spec.output.wants_urls();
        for (index, spec) in self.outputs.iter().enumerate().filter(wants_urls) {
            let row =
                self.rendered(spec, record.url(), || spec.output.render_url(record)).unwrap_or_default();
            append(writes, index, spec, row);
        }
    }

    /// Whether an output archives the requests and responses of the crawl.
    pub fn wants_exchanges(&self) -> bool {
        self.outputs.iter().any(|spec| spec.output.wants_exchanges())
    }

    /// Sets when the archives were added to a crawl with a state, if there are any.
    pub fn set_archived_since(&self, added: Option<SystemTime>) {
        if let Some(added) = added {
            let _ = self.archived_since.set(added);
        }
    }

    /// When the archives were added to the crawl, which have nothing that was requested before.
    pub fn archived_since(&self) -> Option<SystemTime> {
        self.archived_since.get().copied()
    }

    /// The settings for fetching pages, with which exchanges are recorded if an output archives them.
    pub fn fetch_config(&self, config: &FetchConfig) -> FetchConfig {
        let archive = self.wants_exchanges().then(|| config.archive.clone().unwrap_or_default());
        FetchConfig { archive, ..config.clone() }
    }

    /// Adds what the exchanges of a URL write to the outputs that archive them to its other writes.
    pub fn add_exchanges(&self, url: &str, exchanges: &[Exchange], writes: &mut Writes) {
        if exchanges.is_empty() {
            return;
        }
        let wants_exchanges = |(_, spec): &(usize, &OutputSpec)| spec.output.wants_exchanges();
        for (index, spec) in self.outputs.iter().enumerate().filter(wants_exchanges) {
            let records =
                self.rendered(spec, url, || spec.output.render_exchanges(exchanges)).unwrap_or_default();
            append(writes, index, spec, records);
        }
    }

    /// Notifies the outputs that exchanges are stored durably: the completion of their URL is committed.
    pub fn exchanges_committed(&self, exchanges: &[Exchange]) {
        let wants_exchanges = |spec: &&OutputSpec| spec.output.wants_exchanges();
        self.outputs
            .iter()
            .filter(wants_exchanges)
            .for_each(|spec| spec.output.exchanges_committed(exchanges));
    }

    /// Reports what was dropped of a URL's exchanges.
    pub(crate) fn exchanges_dropped(&self, url: &str, dropped: DroppedExchanges) {
        log::exchanges_dropped(url, dropped);
        self.outputs.iter().for_each(|spec| spec.output.exchanges_dropped(dropped));
    }

    /// Archives the exchanges of a URL that was not reached, unless a later process fetches it again: a state and Redis keep it.
    pub(crate) fn add_unreached_exchanges(&self, url: &str, exchanges: &[Exchange]) {
        let keeps_pending = || self.archived_since().is_some() || lock(&self.files).parts.is_some();
        if !exchanges.is_empty() && !keeps_pending() {
            self.write_unrecorded_exchanges(url, exchanges);
        }
    }

    /// Passes to split outputs the list of their files, before a resumed crawl continues. What it has to write is written.
    pub(crate) fn resume_outputs(&self) {
        self.flush_outputs(false);
        self.with_segments(|spec, files| spec.output.resume(files));
    }

    /// Calls a function with each output that is split, and its files.
    fn with_segments(&self, call: impl Fn(&OutputSpec, &[PathBuf])) {
        for (index, spec) in self.outputs.iter().enumerate() {
            // The lock is not held while the files are read.
            let files = lock(&self.files).files.segments(index);
            if let Some(files) = files {
                call(spec, &files);
            }
        }
    }

    /// What an output renders. `None` if it panics, which is a failure of the outputs.
    fn rendered<T>(&self, spec: &OutputSpec, url: &str, render: impl FnOnce() -> T) -> Option<T> {
        let rendered = catch_panic(render).map_err(|panic| {
            let cause = format!("{} cannot write {url}: it {panic}", spec.output.name());
            self.output_failed(lock(&self.files), StorageError::new(StorageErrorKind::Internal, cause));
        });
        rendered.ok()
    }

    /// Writes what a URL adds to this worker's part files, if there are any, before the task is completed. What an earlier
    /// lease may have written is retracted if this lease writes nothing. Returns whether no output has failed so far.
    pub fn write_parts(&self, done: &Completion) -> bool {
        let Completion { lease, writes, outcome, .. } = done;
        let (task_id, lease_id) = (lease.task_id.0, lease.lease_id);
        let wants_exchanges = self.wants_exchanges();
        self.write_to_parts(lease, |parts| match lease.is_retried(outcome) {
            // The URL has no result yet, which could replace an earlier one.
            _ if *outcome == Outcome::NotReached && writes.is_empty() => Ok(()),
            _ if *outcome == Outcome::NotReached => {
                parts.add_returned(task_id, lease_id, writes, |output| self.archives(output))
            }
            _ if !wants_exchanges => parts.add(task_id, lease_id, writes),
            // The next try, under a larger lease id, does not replace it.
            true => {
                parts.add_try((task_id, lease.attempts), lease_id, writes, |output| self.archives(output))
            }
            // A worker that died may have written a try that was not completed.
            false => parts
                .add_try((task_id, lease.attempts), lease_id, &[], |output| self.archives(output))
                .and_then(|()| parts.add(task_id, lease_id, writes)),
        })
    }

    /// Writes to this worker's part files, if there are any and they get what the lease adds. Returns whether no output has failed so
    /// far.
    fn write_to_parts(
        &self,
        lease: &Lease,
        write: impl FnOnce(&mut Parts) -> Result<(), StorageError>,
    ) -> bool {
        let is_written = !self.outputs.is_empty() && (!lease.is_refetch || self.wants_exchanges());
        let mut files = lock(&self.files);
        let Some(parts) = files.parts.as_mut().filter(|_| is_written) else { return true };
        if let Err(error) = write(parts) {
            self.output_failed(files, error);
            return false;
        }
        files.failure.is_none()
    }

    /// Whether the output with this index archives requests and responses.
    fn archives(&self, output: usize) -> bool {
        self.outputs.get(output).is_some_and(|spec| spec.output.wants_exchanges())
    }

    /// Retracts what a lease has written to this worker's part files, if there are any: the crawl did not take its page. Returns
    /// whether no output has failed so far.
    pub fn retract_parts(&self, lease: &Lease) -> bool {
        self.write_to_parts(lease, |parts| parts.add(lease.task_id.0, lease.lease_id, &[]))
    }

    /// Writes what a URL adds once everything with smaller numbers is written. Returns whether no output has failed so far.
    pub fn write(&self, sequence: u64, page: Option<u64>, writes: Writes) -> bool {
        let mut files = lock(&self.files);
        if files.parts.is_some() {
            return files.failure.is_none();
        }
        files.waiting.insert(sequence, (page, writes));
        if let Err(error) = files.write_in_order() {
            self.output_failed(files, error);
            return false;
        }
        files.failure.is_none()
    }

    /// Appends the rows of a URL that no state records, such as one that was not reached: a resumed crawl removes them.
    pub fn write_unrecorded(&self, record: &UrlRecord) {
        self.process_url(record);
        let mut writes = Vec::new();
        self.add_url(record, &mut writes);
        self.append_unrecorded(writes);
    }

    /// Appends the exchanges of a URL that no state records.
    pub fn write_unrecorded_exchanges(&self, url: &str, exchanges: &[Exchange]) {
        let mut writes = Vec::new();
        self.add_exchanges(url, exchanges, &mut writes);
        self.append_unrecorded(writes);
        self.exchanges_committed(exchanges);
    }

    fn append_unrecorded(&self, writes: Writes) {
        let mut files = lock(&self.files);
        if files.failure.is_some() || files.parts.is_some() {
            return;
        }
        for (index, write) in writes {
            let (OutputWrite::Append(bytes) | OutputWrite::File(bytes)) = write;
            if let Err(error) = files.files.append_unrecorded(index, &bytes) {
                return self.output_failed(files, error);
            }
        }
    }

    /// Rejects a resumed state whose recorded writes do not bring the outputs to their position.
    pub fn check_position(&self, expected: OutputPosition) -> Result<(), Error> {
        check_position(lock(&self.files).files.position(), expected)
    }

    /// Calls the callback with the outcome of a URL.
    pub fn report_outcome(&self, outcome: &Outcome, lease: &Lease) {
        if lease.is_seed() {
            let mut seeds = lock(&self.seeds);
            if seeds.len() < MAX_SEED_OUTCOMES {
                seeds.insert(lease.url.to_string(), outcome.clone());
            }
        }
        self.report_url(&lease.url, lease.depth, outcome);
    }

    /// Logs the outcome of a task's URL, and calls the callback with it.
    pub(crate) fn report_url(&self, task_url: &str, depth: Depth, outcome: &Outcome) {
        log::url_completed(task_url, depth, outcome);
        (self.on_outcome)(shown_url(task_url), outcome);
    }

    /// The outcomes of the seeds that this process fetched, and of the URLs that they redirect to, by URL.
    pub fn seed_outcomes(&self) -> HashMap<String, Outcome> {
        lock(&self.seeds).clone()
    }

    /// Calls a module, and counts an error or a panic as a failure, unless the module can process no page any more.
    fn call(&self, module: &dyn BuiltinModule, run: impl FnOnce(&dyn BuiltinModule) -> Result<(), String>) {
        let called = catch_panic(|| run(module)).flatten();
        match (module.failure(), called) {
            (Some(cause), _) => self.module_failed(cause),
            (None, Err(error)) => self.count_failure(module.name(), error),
            (None, Ok(())) => {}
        }
    }

    /// Counts an output that the crawl has no more and that could not be completed. The crawl continues without it.
    pub(crate) fn removed_output_failed(&self, cause: &StorageError) {
        self.count_failure("output", format!("{cause:#}"));
    }

    /// Records that an output is incomplete. The first cause is kept.
    fn output_failed(&self, mut files: MutexGuard<OrderedOutputs>, cause: StorageError) {
        files.failure.get_or_insert_with(|| cause.clone());
        drop(files);
        self.count_failure("output", format!("{cause:#}"));
    }

    /// Counts failures of modules and outputs in these statistics, too.
    pub(crate) fn record_failures(&self, recorder: Recorder) {
        // A pipeline belongs to one run.
        let _ = self.recorder.set(recorder);
    }

    fn count_failure(&self, name: &str, cause: String) {
        match name {
            "output" => log::output_failed(&cause),
            name => log::module_failed(name, &cause),
        }
        if let Some(recorder) = self.recorder.get() {
            recorder.record_module_failure();
        }
        let mut counts = lock(&self.counts);
        *counts.failures.entry(name.to_owned()).or_default() += 1;
        counts.last_failure = Some(format!("{name}: {cause}"));
    }

    /// Whether there are outputs.
    pub(crate) fn has_outputs(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// Flushes the outputs, and fsyncs them if `sync` is set. Returns how far they are written, and the file lengths.
    ///
    /// Returns `None` after any failure, for good: the operating system reports a failed write to one fsync only, and
    /// the next fsync succeeds although bytes are missing.
    pub fn flush_outputs(&self, sync: bool) -> Option<(OutputPosition, Vec<u64>)> {
        let _flushing = lock(&self.flush_lock);
        let mut files = lock(&self.files);
        if files.failure.is_some() {
            return None;
        }
        let flushed = files.files.flush();
        let flushed = flushed.and_then(|()| if sync { files.handles().map(Some) } else { Ok(None) });
        let handles = match flushed {
            Ok(handles) => handles,
            Err(error) => {
                self.output_failed(files, error);
                return None;
            }
        };
        let written = (files.files.position(), files.files.lengths());
        // Other threads write pages during the fsync. Syncing them too does no harm.
        drop(files);
        if let Some(Err(error)) = handles.map(|handles| handles.sync()) {
            self.output_failed(lock(&self.files), error);
            return None;
        }
        Some(written)
    }

    /// Called on a request to stop: the modules should finish within seconds.
    pub fn shutdown_requested(&self) {
        for module in &self.modules {
            self.call(&**module, |module| {
                module.shutdown_requested();
                Ok(())
            });
        }
    }

    /// Finishes the modules, and returns the failures and the modules' summaries. No page follows.
    pub fn finish(&self) -> (ModuleFailures, Vec<String>) {
        for module in &self.modules {
            self.call(&**module, |module| module.finish());
        }
        let mut summaries = Vec::new();
        for module in &self.modules {
            self.call(&**module, |module| {
                summaries.extend(module.summary());
                Ok(())
            });
        }
        let files = lock(&self.files);
        if files.failure.is_none()
            && let Some(waiting) = files.waiting.keys().next().copied()
        {
            let missing = files.files.position().sequence + 1;
            let cause = format!(
                "cannot write to the outputs: number {waiting} waits, and {missing} was never written"
            );
            self.output_failed(files, StorageError::new(StorageErrorKind::Internal, cause));
        } else {
            drop(files);
        }
        (lock(&self.counts).clone(), summaries)
    }

    /// Makes the outputs that are made at the end, from records that are flushed. Their records files are removed unless
    /// `keep_records` is set. Does nothing if an output has failed: the records may be incomplete. The callback gets a message about
    /// each output that takes long.
    pub fn finish_outputs(&self, keep_records: bool, notice: &dyn Fn(&str)) {
        if lock(&self.files).parts.is_some() || self.output_failure().is_some() {
            return;
        }
        let outputs = self.outputs.iter().enumerate();
        for (index, spec) in outputs.filter(|(_, spec)| spec.output.finisher().is_some()) {
            if spec.has_many_records() {
                log::informed(notice, &format!("making '{}' from its records", spec.target));
            }
            let finish = || {
                // The lock is not held while the output is made.
                let unchanged = lock(&self.files).files.check_unchanged(index, &spec.target);
                unchanged.and_then(|()| spec.finish())?;
                lock(&self.files).files.note_made(index, &spec.target);
                Ok(())
            };
            let finished = catch_panic(finish).unwrap_or_else(|panic| {
                let cause = format!("cannot make output '{}': it {panic}", spec.target);
                Err(StorageError::new(StorageErrorKind::Internal, cause))
            });
            let removed = finished
                .map_err(|error| not_made(spec, &error))
                .and_then(|()| if keep_records { Ok(()) } else { spec.remove_records() });
            if let Err(error) = removed {
                self.output_failed(lock(&self.files), error);
            }
        }
        self.make_files(notice);
    }

    /// The texts of the outputs for the end of the crawl.
    pub fn output_summaries(&self) -> Vec<String> {
        self.with_segments(|spec, files| spec.output.files_written(files));
        self.outputs.iter().filter_map(|spec| spec.output.summary()).collect()
    }

    /// Whether an output reports which links are broken.
    pub fn checks_links(&self) -> bool {
        self.checks_links
    }

    /// The number of broken links, if an output checks links.
    pub fn broken_links(&self) -> Option<u64> {
        self.outputs.iter().filter_map(|spec| spec.output.broken_links()).max()
    }

    /// Why the outputs are incomplete, if they are.
    pub fn output_failure(&self) -> Option<StorageError> {
        lock(&self.files).failure.clone()
    }
}

impl OrderedOutputs {
    fn handles(&mut self) -> Result<SyncHandles, StorageError> {
        match &self.parts {
            Some(parts) => parts.handles(),
            None => self.files.handles(),
        }
    }

    fn write_in_order(&mut self) -> Result<(), StorageError> {
        while let Some(next) = self.waiting.first_entry()
            && *next.key() == self.files.position().sequence + 1
        {
            let (page, writes) = next.get();
            self.files.apply(*next.key(), *page, writes)?;
            next.remove();
        }
        Ok(())
    }
}

/// Appends bytes to what a URL writes to an output.
fn append(writes: &mut Writes, index: usize, spec: &OutputSpec, added: Vec<u8>) {
    match writes.iter_mut().find(|(written, _)| *written == index) {
        Some((_, OutputWrite::Append(bytes) | OutputWrite::File(bytes))) => bytes.extend(added),
        None if matches!(spec.written(), Target::File(_)) => writes.push((index, OutputWrite::Append(added))),
        None => {}
    }
}

/// The outcomes of these seeds after their redirects. A seed without one was not reached if the crawl `is_new`, and is left
/// out if an earlier process may have fetched it.
pub(crate) fn after_redirects(
    seeds: &[Url],
    outcomes: &HashMap<String, Outcome>,
    is_new: bool,
) -> Vec<(Url, Outcome)> {
    let after_redirects = |seed: &Url| {
        let mut outcome = outcomes.get(seed.as_str());
        for _ in 0..MAX_REDIRECTS {
            let Some(Outcome::Redirect { to }) = outcome else { break };
            outcome = outcomes.get(to).or(outcome);
        }
        outcome.cloned().or(is_new.then_some(Outcome::NotReached))
    };
    let seeds = seeds.iter().map(without_credentials);
    seeds.filter_map(|seed| after_redirects(&seed).map(|outcome| (seed, outcome))).collect()
}

/// The error for an output that was not made. The records file has all of its pages.
fn not_made(spec: &OutputSpec, error: &StorageError) -> StorageError {
    let message = format!("{error:#}; its pages are kept in '{}', to make it later", spec.written());
    StorageError::new(error.kind(), message)
}

/// Rejects a state whose outputs do not end where it expects.
pub(crate) fn check_position(written: OutputPosition, expected: OutputPosition) -> Result<(), Error> {
    if written.sequence == expected.sequence {
        return Ok(());
    }
    let message = format!(
        "cannot resume the crawl: its state is damaged: it has {} writes to outputs, but they end after {}; start a new crawl in \
         another directory",
        expected.sequence, written.sequence
    );
    Err(Error::State(StorageError::new(StorageErrorKind::Damaged, message)))
}

impl OpenOutputs for Arc<PagePipeline> {
    fn wants_urls(&self) -> bool {
        PagePipeline::wants_urls(self)
    }

    fn render_url(&self, record: &UrlRecord) -> Writes {
        let mut writes = Vec::new();
        self.add_url(record, &mut writes);
        self.process_url(record);
        writes
    }

    fn write(&self, sequence: u64, page: Option<u64>, writes: Writes) -> Result<(), Error> {
        PagePipeline::write(self, sequence, page, writes);
        self.output_failure().map(Error::Output).map_or(Ok(()), Err)
    }

    fn complete(&self) -> bool {
        self.flush_outputs(true);
        self.finish_outputs(true, &|_| {});
        self.output_failure().is_none()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
