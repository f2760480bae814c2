//! The modules of one crawl, and the counts that only its own process keeps.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::modules::files::OutputFiles;
use crate::modules::{Addition, Module, OutputSpec};
use crate::outcome::Outcome;
use crate::page::Page;
use crate::resources::Lease;

/// Somebody who wants to hear how each URL ended.
pub type Teller = Box<dyn Fn(&str, &Outcome) + Send + Sync>;

/// What is done with pages, and what is told.
pub struct Installed {
    modules: Vec<Box<dyn Module>>,
    outputs: Vec<OutputSpec>,
    files: Mutex<Files>,
    counts: Mutex<Counts>,
    teller: Teller,
}

/// Pages are written in the order of their numbers, although they are completed side by side.
struct Files {
    open: OutputFiles,
    early: BTreeMap<u64, Vec<(usize, Addition)>>,
    failure: Option<String>,
}

/// What modules led to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Failures of modules, by name.
    pub failures: BTreeMap<String, u64>,
    /// The last failure of a module, or the first of an output.
    pub last_failure: Option<String>,
}

impl Installed {
    /// Installs modules and opened outputs.
    pub fn new(
        modules: Vec<Box<dyn Module>>,
        outputs: Vec<OutputSpec>,
        open: OutputFiles,
        teller: Teller,
    ) -> Installed {
        let files = Mutex::new(Files { open, early: BTreeMap::new(), failure: None });
        Installed { modules, outputs, files, counts: Mutex::default(), teller }
    }

    /// Whether showing a page to the modules may block.
    pub fn blocks(&self) -> bool {
        self.modules.iter().any(|module| module.blocks())
    }

    /// Shows a page to every module.
    pub fn see(&self, page: &Page) {
        for module in &self.modules {
            if let Err(why) = module.page(page) {
                self.failed(module.name(), why);
            }
        }
    }

    /// What a page adds to every output.
    pub fn render(&self, page: &Page) -> Vec<(usize, Addition)> {
        self.outputs.iter().enumerate().map(|(index, spec)| (index, spec.output.render(page))).collect()
    }

    /// Writes what page `id` adds, when the pages before it have been written. Tells whether all went well so far.
    pub fn write(&self, id: u64, additions: Vec<(usize, Addition)>) -> bool {
        let mut files = lock(&self.files);
        files.early.insert(id, additions);
        if let Err(error) = files.write_in_order() {
            let why = error.to_string();
            files.failure.get_or_insert_with(|| why.clone());
            drop(files);
            self.failed("output", why);
            return false;
        }
        files.failure.is_none()
    }

    /// Tells how a URL ended.
    pub fn count(&self, outcome: &Outcome, lease: &Lease) {
        (self.teller)(&lease.url, outcome);
    }

    fn failed(&self, name: &str, why: String) {
        let mut counts = lock(&self.counts);
        *counts.failures.entry(name.to_owned()).or_default() += 1;
        counts.last_failure = Some(format!("{name}: {why}"));
    }

    /// Hands everything to the system, and to the disk itself if it is to be synced; tells how far the outputs are,
    /// where that is certain.
    pub fn write_out(&self, sync: bool) -> Option<(u64, Vec<u64>)> {
        let mut files = lock(&self.files);
        let written = if sync { files.open.sync() } else { files.open.flush() };
        match written {
            Ok(()) => Some((files.open.last_id(), files.open.lengths())),
            Err(error) => {
                let why = error.to_string();
                files.failure.get_or_insert_with(|| why.clone());
                drop(files);
                self.failed("output", why);
                None
            }
        }
    }

    /// Ends the modules, and returns the counts and what the modules have to say.
    pub fn finish(&self) -> (Counts, Vec<String>) {
        for module in &self.modules {
            if let Err(why) = module.finish() {
                self.failed(module.name(), why);
            }
        }
        (lock(&self.counts).clone(), self.modules.iter().filter_map(|module| module.summary()).collect())
    }

    /// Why the outputs are not whole, if they are not.
    pub fn output_failure(&self) -> Option<String> {
        lock(&self.files).failure.clone()
    }
}

impl Files {
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
