//! The modules of one crawl, and the counts that only its own process keeps.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::backend::{Completion, Lease};
use crate::error::Error;
use crate::modules::output::files::{Handles, OutputFiles, Start};
use crate::modules::output::parts::Parts;
use crate::modules::{Module, OutputSpec, OutputWrite, Target};
use crate::outcome::Outcome;
use crate::page::Page;
use crate::panics::catch_panic;

/// Somebody who wants to hear how each URL ended.
pub type OutcomeCallback = Box<dyn Fn(&str, &Outcome) + Send + Sync>;

/// What is done with pages, and what is told.
pub struct PagePipeline {
    modules: Vec<Box<dyn Module>>,
    outputs: Vec<OutputSpec>,
    files: Mutex<OrderedOutputs>,
    /// Held by whoever writes out, which may take as long as the disk does; nobody else waits for it.
    writing_out: Mutex<()>,
    counts: Mutex<ModuleFailures>,
    teller: OutcomeCallback,
}

/// Pages are written in the order of their numbers, although they are completed side by side.
struct OrderedOutputs {
    open: OutputFiles,
    early: BTreeMap<u64, Vec<(usize, OutputWrite)>>,
    /// Where other workers write too, this one writes parts, and nothing else.
    parts: Option<Parts>,
    failure: Option<String>,
}

/// What modules led to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModuleFailures {
    /// Failures of modules, by name.
    pub failures: BTreeMap<String, u64>,
    /// The last failure of a module, or the first of an output.
    pub last_failure: Option<String>,
}

impl PagePipeline {
    /// Installs modules and opened outputs.
    pub fn new(
        modules: Vec<Box<dyn Module>>,
        outputs: Vec<OutputSpec>,
        open: OutputFiles,
        teller: OutcomeCallback,
    ) -> PagePipeline {
        let files = OrderedOutputs { open, early: BTreeMap::new(), parts: None, failure: None };
        PagePipeline::over(modules, outputs, files, teller)
    }

    /// Installs modules, and one worker's parts of outputs.
    pub fn with_parts(
        modules: Vec<Box<dyn Module>>,
        outputs: Vec<OutputSpec>,
        parts: Parts,
        teller: OutcomeCallback,
    ) -> Result<PagePipeline, Error> {
        let open = OutputFiles::open(&[], Start::Fresh)?;
        let files = OrderedOutputs { open, early: BTreeMap::new(), parts: Some(parts), failure: None };
        Ok(PagePipeline::over(modules, outputs, files, teller))
    }

    fn over(
        modules: Vec<Box<dyn Module>>,
        outputs: Vec<OutputSpec>,
        files: OrderedOutputs,
        teller: OutcomeCallback,
    ) -> PagePipeline {
        let (files, writing_out, counts) = (Mutex::new(files), Mutex::default(), Mutex::default());
        PagePipeline { modules, outputs, files, writing_out, counts, teller }
    }

    /// Whether showing a page to the modules may block.
    pub fn is_blocking(&self) -> bool {
        self.modules.iter().any(|module| module.is_blocking())
    }

    /// Shows a page to every module. One that panics has failed, as one that returns an error has.
    pub fn run_modules(&self, page: &Page) {
        for module in &self.modules {
            self.attempt(&**module, |module| module.process_page(page));
        }
    }

    /// What a page adds to every output. One that panics has lost the page.
    pub fn render(&self, page: &Page) -> Vec<(usize, OutputWrite)> {
        let addition = |(index, spec): (usize, &OutputSpec)| {
            let rendered = catch_panic(|| spec.output.render(page)).unwrap_or_else(|why| {
                let (name, url) = (spec.output.name(), &page.url);
                self.lost(lock(&self.files), format!("{name} {why}, and has nothing of {url}"));
                // The files of a directory are counted on to be there: the page's is empty.
                match spec.target {
                    Target::File(_) => OutputWrite::Append(Vec::new()),
                    Target::Directory(_) => OutputWrite::File(Vec::new()),
                }
            });
            (index, rendered)
        };
        self.outputs.iter().enumerate().map(addition).collect()
    }

    /// Writes a page to this worker's parts, where there are parts: before it counts, so that every page that counts is in
    /// them. One that was delivered before, and gave no page this time, is taken back. Tells whether all went well so far.
    pub fn write_parts(&self, done: &Completion) -> bool {
        let Completion { lease, outcome, writes: output, .. } = done;
        let mut files = lock(&self.files);
        let Some(parts) = files.parts.as_mut().filter(|_| !self.outputs.is_empty() && !lease.is_revisit)
        else {
            return true;
        };
        let written = match outcome {
            Outcome::Page => parts.add(lease.task_id.0, lease.lease_id, output),
            _ => parts.withdraw(lease.task_id.0, lease.lease_id),
        };
        if let Err(error) = written {
            self.lost(files, error.to_string());
            return false;
        }
        files.failure.is_none()
    }

    /// Writes what page `id` adds, when the pages before it have been written. Tells whether all went well so far.
    pub fn write(&self, id: u64, additions: Vec<(usize, OutputWrite)>) -> bool {
        // Without outputs nothing is recorded that would tell a resumed crawl how far they are.
        if self.outputs.is_empty() {
            return true;
        }
        let mut files = lock(&self.files);
        if files.parts.is_some() {
            return files.failure.is_none();
        }
        files.early.insert(id, additions);
        if let Err(error) = files.write_in_order() {
            self.lost(files, error.to_string());
            return false;
        }
        files.failure.is_none()
    }

    /// Refuses to go on if the outputs do not have all pages kept so far.
    pub fn check_complete(&self, pages: u64) -> Result<(), Error> {
        let last = lock(&self.files).open.last_id();
        if self.outputs.is_empty() || last == pages {
            return Ok(());
        }
        Err(Error::State(format!(
            "the crawl's state has {pages} pages and what it recorded for its outputs ends at page {last}: it is \
             damaged; begin a new crawl in another directory"
        )))
    }

    /// Tells how a URL ended.
    pub fn report_outcome(&self, outcome: &Outcome, lease: &Lease) {
        (self.teller)(&lease.url, outcome);
    }

    /// Lets a module do something.
    fn attempt(&self, module: &dyn Module, run: impl FnOnce(&dyn Module) -> Result<(), String>) {
        if let Err(why) = catch_panic(|| run(module)).flatten() {
            self.failed(module.name(), why);
        }
    }

    /// Notes that an output is not whole; the first reason is kept.
    fn lost(&self, mut files: MutexGuard<OrderedOutputs>, why: String) {
        files.failure.get_or_insert_with(|| why.clone());
        drop(files);
        self.failed("output", why);
    }

    fn failed(&self, name: &str, why: String) {
        let mut counts = lock(&self.counts);
        *counts.failures.entry(name.to_owned()).or_default() += 1;
        counts.last_failure = Some(format!("{name}: {why}"));
    }

    /// Hands everything to the system, and to the disk itself if it is to be synced; tells how far the outputs are,
    /// where that is certain. After a failure it is certain no more: the system tells of a lost write once, and the
    /// next sync succeeds without it.
    pub fn flush_outputs(&self, sync: bool) -> Option<(u64, Vec<u64>)> {
        let _alone = lock(&self.writing_out);
        let mut files = lock(&self.files);
        if files.failure.is_some() {
            return None;
        }
        let flushed = files.open.flush();
        let flushed = flushed.and_then(|()| if sync { files.handles().map(Some) } else { Ok(None) });
        let handles = match flushed {
            Ok(handles) => handles,
            Err(error) => {
                self.lost(files, error.to_string());
                return None;
            }
        };
        let written = (files.open.last_id(), files.open.lengths());
        // Pages are written meanwhile; what is synced of them besides does no harm.
        drop(files);
        if let Some(Err(error)) = handles.map(|handles| handles.sync()) {
            self.lost(lock(&self.files), error.to_string());
            return None;
        }
        Some(written)
    }

    /// The crawl was told to end: nobody waits long for the modules.
    pub fn shutdown_requested(&self) {
        for module in &self.modules {
            self.attempt(&**module, |module| {
                module.shutdown_requested();
                Ok(())
            });
        }
    }

    /// Ends the modules, and returns the counts and what the modules have to say. No page comes after it.
    pub fn finish(&self) -> (ModuleFailures, Vec<String>) {
        for module in &self.modules {
            self.attempt(&**module, |module| module.finish());
        }
        let mut summaries = Vec::new();
        for module in &self.modules {
            self.attempt(&**module, |module| {
                summaries.extend(module.summary());
                Ok(())
            });
        }
        let files = lock(&self.files);
        if files.failure.is_none()
            && let Some(early) = files.early.keys().next().copied()
        {
            let missing = files.open.last_id() + 1;
            self.lost(files, format!("page {missing} was never completed, and page {early} waits for it"));
        } else {
            drop(files);
        }
        (lock(&self.counts).clone(), summaries)
    }

    /// Why the outputs are not whole, if they are not.
    pub fn output_failure(&self) -> Option<String> {
        lock(&self.files).failure.clone()
    }
}

impl OrderedOutputs {
    fn handles(&self) -> io::Result<Handles> {
        self.parts.as_ref().map_or_else(|| self.open.handles(), Parts::handles)
    }

    fn write_in_order(&mut self) -> io::Result<()> {
        while let Some(next) = self.early.first_entry()
            && *next.key() == self.open.last_id() + 1
        {
            self.open.apply(*next.key(), next.get())?;
            next.remove();
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::modules::{Output, example};

    /// Panics at every page whose URL has this in it.
    struct Clumsy(&'static str);

    impl Module for Clumsy {
        fn name(&self) -> &str {
            "clumsy"
        }

        fn process_page(&self, page: &Page) -> Result<(), String> {
            assert!(!page.url.as_str().contains(self.0), "stumbled over {}", page.url);
            Ok(())
        }

        fn finish(&self) -> Result<(), String> {
            panic!("stumbled at the end")
        }
    }

    impl Output for Clumsy {
        fn name(&self) -> &str {
            "clumsy"
        }

        fn render(&self, page: &Page) -> OutputWrite {
            assert!(!page.url.as_str().contains(self.0), "stumbled over {}", page.url);
            OutputWrite::File(page.url.as_str().into())
        }
    }

    fn page(path: &str) -> Page {
        example::page(&format!("http://a.test/{path}"), b"<p>", &[])
    }

    fn installed(modules: Vec<Box<dyn Module>>, outputs: Vec<OutputSpec>) -> PagePipeline {
        let open = OutputFiles::open(&outputs, Start::Fresh).unwrap();
        PagePipeline::new(modules, outputs, open, Box::new(|_, _| {}))
    }

    fn clumsy_output(directory: &Path) -> OutputSpec {
        OutputSpec { output: Box::new(Clumsy("bad")), target: Target::Directory(directory.join("out")) }
    }

    #[test]
    fn a_module_that_panics_has_failed_and_the_others_see_the_page() {
        let seen = std::sync::Arc::new(Mutex::new(0));
        let count = std::sync::Arc::clone(&seen);
        let counting = move |_: &Page| *lock(&count) += 1;
        let installed = installed(vec![Box::new(Clumsy("bad")), Box::new(counting)], Vec::new());
        for path in ["good", "bad", "better", "bad/again"] {
            installed.run_modules(&page(path));
        }
        assert_eq!((*lock(&seen), lock(&installed.counts).failures["clumsy"]), (4, 2));
        let said = lock(&installed.counts).last_failure.clone().unwrap();
        assert!(
            said.contains("page_pipeline.rs") && said.ends_with("stumbled over http://a.test/bad/again"),
            "{said}"
        );
        let (counts, _) = installed.finish();
        assert_eq!(counts.failures["clumsy"], 3);
        assert_eq!(installed.output_failure(), None);
    }

    #[test]
    fn an_output_that_panics_has_lost_the_page_and_leaves_no_hole() {
        let directory = tempfile::tempdir().unwrap();
        let installed = installed(Vec::new(), vec![clumsy_output(directory.path())]);
        let written = ["good", "bad", "better"].map(page).map(|page| installed.render(&page));
        for (id, additions) in (1..).zip(written) {
            installed.write(id, additions);
        }
        let failure = installed.output_failure().unwrap();
        assert!(failure.ends_with("has nothing of http://a.test/bad"), "{failure}");
        let file = |name: &str| fs::read(directory.path().join("out").join(name)).unwrap();
        assert_eq!(
            [file("1"), file("2"), file("3")],
            [&b"http://a.test/good"[..], b"", b"http://a.test/better"]
        );
    }

    #[test]
    fn after_a_failure_nothing_is_certain_any_more() {
        let directory = tempfile::tempdir().unwrap();
        let installed = installed(Vec::new(), vec![clumsy_output(directory.path())]);
        installed.write(1, vec![(0, OutputWrite::File(Vec::new()))]);
        assert_eq!(installed.flush_outputs(true), Some((1, vec![0])));
        let obstacle = directory.path().join("out/2");
        fs::create_dir(&obstacle).unwrap();
        assert!(!installed.write(2, vec![(0, OutputWrite::File(Vec::new()))]));
        fs::remove_dir(&obstacle).unwrap();
        assert_eq!(installed.flush_outputs(true), None, "although this time all would go well");
        assert!(!installed.write(3, vec![(0, OutputWrite::File(Vec::new()))]));
    }

    #[test]
    fn a_page_that_waits_for_one_that_never_came_is_a_failure_and_nothing_gathers_without_outputs() {
        let directory = tempfile::tempdir().unwrap();
        let waiting = installed(Vec::new(), vec![clumsy_output(directory.path())]);
        assert!(waiting.write(2, vec![(0, OutputWrite::File(Vec::new()))]));
        assert!(waiting.check_complete(2).is_err() && waiting.check_complete(0).is_ok());
        waiting.finish();
        assert_eq!(waiting.output_failure().unwrap(), "page 1 was never completed, and page 2 waits for it");
        let without = installed(Vec::new(), Vec::new());
        assert!(without.write(2, Vec::new()) && lock(&without.files).early.is_empty());
        without.check_complete(2).unwrap();
    }
}
