//! What the command, tests and benchmarks change beyond the public settings of a crawl.

use std::sync::Arc;

use url::Url;

use super::Crawler;
use crate::backend::durable::Recrawl;
use crate::backend::local::BackendConfig;
use crate::config::FetchConfig;
use crate::crawl_view::CrawlView;
use crate::error::Error;
use crate::fetch::proxy_health::ProxyHealth;
use crate::fetch::robots::waits::RobotsWaits;
use crate::live_settings::CrawlControl;
use crate::modules::{BuiltinModule, BuiltinOutput, OutputSpec, Target};
use crate::prioritizer::{PageRank, Prioritizer};
use crate::visit::RevisitAfter;

/// The settings that only the command, tests and benchmarks change.
pub trait CrawlerInternals {
    /// The seeds.
    fn seeds(&self) -> &[Url];

    /// Adds seeds that are read when the crawl starts. The name says where they come from.
    fn with_seed_list(
        self,
        name: String,
        urls: impl IntoIterator<Item = Result<Url, Error>, IntoIter: Send + 'static>,
    ) -> Self;

    /// Changes how pages are fetched.
    fn configure(self, change: impl FnOnce(&mut FetchConfig)) -> Self;

    /// Changes queues, storages and limits.
    fn configure_backend(self, change: impl FnOnce(&mut BackendConfig)) -> Self;

    /// Stores bytes in the state of a durable crawl, for the program that resumes it.
    fn metadata(self, metadata: impl Into<Vec<u8>>) -> Self;

    /// Calls a function with messages about what does not stop the crawl.
    fn on_notice(self, callback: impl Fn(&str) + Send + Sync + 'static) -> Self;

    /// Calls a function with all that is known of the crawl: at its start, once per second, and at its end.
    fn on_status(self, callback: impl Fn(&CrawlView) + Send + Sync + 'static) -> Self;

    /// Adds the sites whose URLs wait for a robots.txt to these.
    fn robots_waits(self, waits: RobotsWaits) -> Self;

    /// Keeps the health of the proxies here.
    fn proxy_health(self, health: ProxyHealth) -> Self;

    /// Adds a module that uses more of a crawl than the public trait offers.
    fn builtin_module(self, module: impl BuiltinModule + 'static) -> Self;

    /// Adds an output that uses more of a crawl than the public trait offers.
    fn builtin_output(self, output: impl BuiltinOutput + 'static, target: Target) -> Self;

    /// Asks this service for the ranks of domains. Snapshots have its counters.
    fn pagerank(self, pagerank: PageRank) -> Self;

    /// Visits the known URLs of a durable crawl again. If its last visit has not ended, that is continued.
    fn recrawl(self, recrawl: Recrawl) -> Self;

    /// Visits URLs again while the crawl runs. The crawl continues until a limit is reached or it is stopped.
    fn revisit_after(self, after: RevisitAfter) -> Self;

    /// Sets the handle that changes this crawl while it runs. Each crawl needs its own.
    fn control(self, control: CrawlControl) -> Self;
}

#[doc(hidden)]
impl CrawlerInternals for Crawler {
    fn seeds(&self) -> &[Url] {
        &self.seeds
    }

    fn with_seed_list(
        mut self,
        name: String,
        urls: impl IntoIterator<Item = Result<Url, Error>, IntoIter: Send + 'static>,
    ) -> Crawler {
        self.seed_list = Some(Box::new(urls.into_iter()));
        self.seed_list_name = name;
        self
    }

    fn configure(mut self, change: impl FnOnce(&mut FetchConfig)) -> Crawler {
        change(&mut self.config);
        self
    }

    fn configure_backend(mut self, change: impl FnOnce(&mut BackendConfig)) -> Crawler {
        change(&mut self.settings);
        self
    }

    fn metadata(mut self, metadata: impl Into<Vec<u8>>) -> Crawler {
        self.metadata = metadata.into();
        self
    }

    fn on_notice(mut self, callback: impl Fn(&str) + Send + Sync + 'static) -> Crawler {
        self.on_notice = Box::new(callback);
        self
    }

    fn on_status(mut self, callback: impl Fn(&CrawlView) + Send + Sync + 'static) -> Crawler {
        self.on_status = Some(Box::new(callback));
        self
    }

    fn robots_waits(mut self, waits: RobotsWaits) -> Crawler {
        self.robots_waits = waits;
        self
    }

    fn proxy_health(mut self, health: ProxyHealth) -> Crawler {
        self.proxy_health = health;
        self
    }

    fn builtin_module(mut self, module: impl BuiltinModule + 'static) -> Crawler {
        self.modules.push(Box::new(module));
        self
    }

    fn builtin_output(mut self, output: impl BuiltinOutput + 'static, target: Target) -> Crawler {
        self.outputs.push(OutputSpec { output: Box::new(output), target });
        self
    }

    fn pagerank(self, pagerank: PageRank) -> Crawler {
        let pagerank = Arc::new(pagerank);
        let prioritizer = Arc::clone(&pagerank) as Arc<dyn Prioritizer>;
        Crawler { prioritizer, has_builtin_prioritizer: true, pagerank: Some(pagerank), ..self }
    }

    fn recrawl(mut self, recrawl: Recrawl) -> Crawler {
        self.recrawl = Some(recrawl);
        self
    }

    fn revisit_after(mut self, after: RevisitAfter) -> Crawler {
        self.settings.visits.revisit_after = Some(after);
        self
    }

    fn control(mut self, control: CrawlControl) -> Crawler {
        self.control = control;
        self
    }
}
