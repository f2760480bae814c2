//! The trait of the built-in modules, which need more of a crawl than the public one offers.

use super::Module;
use crate::html::parts::PageParts;
use crate::page::Page;
use crate::url_record::UrlRecord;

/// A module with all that the built-in ones need of a crawl. Every [`Module`] is one, with the defaults.
pub trait BuiltinModule: Send + Sync {
    /// As [`Module::name`].
    fn name(&self) -> &str;

    /// As [`Module::process_page`].
    fn process_page(&self, page: &Page) -> Result<(), String>;

    /// As [`Module::is_blocking`].
    fn is_blocking(&self) -> bool {
        true
    }

    /// Whether a page is processed sooner if another one follows. Then a further URL of each host is leased meanwhile.
    fn waits_for_next_page(&self) -> bool {
        false
    }

    /// Whether it can still use pages. If no module and no output can, the crawl stops.
    fn wants_pages(&self) -> bool {
        true
    }

    /// Whether it uses [`Page::found_on`] or [`Page::redirects`]. If neither a module nor an output does, they are not stored.
    fn wants_found_on(&self) -> bool {
        true
    }

    /// Whether it gets the record of every URL.
    fn wants_urls(&self) -> bool {
        false
    }

    /// Processes a URL that is being completed, after its page if it is one. The record has no page. It may block, and get a URL
    /// again, as [`process_page`](BuiltinModule::process_page) may.
    fn process_url(&self, _record: &UrlRecord) -> Result<(), String> {
        Ok(())
    }

    /// The parts of pages that it uses, beyond title and links.
    fn wants(&self) -> PageParts {
        PageParts::default()
    }

    /// Why it can process no page any more, if it cannot. The crawl then stops, and the page that it was given last is not
    /// completed: its URL stays pending.
    fn failure(&self) -> Option<String> {
        None
    }

    /// A message for the operator of the crawl. Called about once per second.
    fn notice(&self) -> Option<String> {
        None
    }

    /// Called when the crawl stops early: [`finish`](BuiltinModule::finish) comes next, and should take seconds at most.
    fn shutdown_requested(&self) {}

    /// As [`Module::finish`].
    fn finish(&self) -> Result<(), String> {
        Ok(())
    }

    /// As [`Module::summary`].
    fn summary(&self) -> Option<String> {
        None
    }
}

impl<M: Module> BuiltinModule for M {
    fn name(&self) -> &str {
        Module::name(self)
    }

    fn process_page(&self, page: &Page) -> Result<(), String> {
        Module::process_page(self, page)
    }

    fn is_blocking(&self) -> bool {
        Module::is_blocking(self)
    }

    fn finish(&self) -> Result<(), String> {
        Module::finish(self)
    }

    fn summary(&self) -> Option<String> {
        Module::summary(self)
    }
}
