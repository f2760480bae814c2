//! Writes a row for every URL of a classic crawl, the rows of the output `urls` of the pipeline, calls a function with it, and passes its
//! requests and responses to an output that archives them.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use super::task_budget::TaskRequests;
use crate::config::FetchConfig;
use crate::error::StorageError;
use crate::modules::output::files::{OutputFiles, Start};
use crate::modules::page_pipeline::PagePipeline;
use crate::modules::registry::{RegisteredModule, file_or_stdout};
use crate::modules::urls::Urls;
use crate::modules::{BuiltinModule, OutputSpec};
use crate::outcome::Outcome;
use crate::page::Page;
use crate::task::{Admission, Task};
use crate::url_record::UrlRecord;

/// The open output.
pub(super) struct UrlRows(PagePipeline);

/// Called with every URL that has its outcome.
pub(super) type UrlCallback = Arc<dyn Fn(&UrlRecord) + Send + Sync>;

/// Returns an output that archives requests and responses.
pub(super) type ArchiveOutput = Arc<dyn Fn() -> OutputSpec + Send + Sync>;

/// Calls a function with every URL.
struct UrlObserver(UrlCallback);

impl BuiltinModule for UrlObserver {
    fn name(&self) -> &str {
        "function"
    }

    fn process_page(&self, _: &Page) -> Result<(), String> {
        Ok(())
    }

    fn wants_urls(&self) -> bool {
        true
    }

    fn process_url(&self, record: &UrlRecord) -> Result<(), String> {
        (self.0)(record);
        Ok(())
    }
}

impl UrlRows {
    /// Opens a new or empty file, if there is one, or any if `overwrite` is set, and the same for an archive. `-` is standard output.
    pub(super) fn open(
        path: Option<&Path>,
        overwrite: bool,
        callback: Option<UrlCallback>,
        archive: Option<OutputSpec>,
    ) -> Result<UrlRows, StorageError> {
        let (mut modules, mut outputs) = (Vec::<Box<dyn BuiltinModule>>::new(), Vec::new());
        match path.map(|path| file_or_stdout(Urls::for_file(path), path)) {
            Some(RegisteredModule::Module(module)) => modules.push(module),
            Some(RegisteredModule::Output(output)) => outputs.push(output),
            None => {}
        }
        if let Some(callback) = callback {
            modules.push(Box::new(UrlObserver(callback)));
        }
        outputs.extend(archive);
        let files = OutputFiles::open(&outputs, if overwrite { Start::Overwrite } else { Start::Fresh })?;
        Ok(UrlRows(PagePipeline::new(modules, outputs, files, Arc::new(|_, _| {}))))
    }

    /// Whether every URL gets a row, or a function is called with it.
    pub(super) fn wants_urls(&self) -> bool {
        self.0.wants_urls()
    }

    /// The settings for fetching pages, with which requests and responses are recorded if they are archived.
    pub(super) fn fetch_config(&self, config: &FetchConfig) -> FetchConfig {
        self.0.fetch_config(config)
    }

    /// Writes the row of a URL that has its outcome, and its requests. After a failure, nothing more is written.
    pub(super) fn add(&self, task: &Task, outcome: &Outcome, requests: TaskRequests) {
        let (queued_at, discovery) = match task.admission.as_deref() {
            Some(Admission { discovery, queued_at }) => (*queued_at, discovery.clone()),
            None => (0, None),
        };
        let (url, outcome) = (task.url.as_str().into(), outcome.clone());
        let record = UrlRecord::new(url, outcome, task.depth, discovery, queued_at);
        let TaskRequests { last: request, retries, exchanges } = requests;
        if !exchanges.is_empty() {
            self.0.write_unrecorded_exchanges(task.url.as_str(), &exchanges);
        }
        if record.outcome == Outcome::NotReached {
            return self.0.write_unrecorded(&record);
        }
        self.0.write_unrecorded(&UrlRecord { retries, request, done: Some(SystemTime::now()), ..record });
        // A killed process leaves the rows of all URLs that had their outcomes.
        self.0.flush_outputs(false);
    }

    /// Writes what is buffered, and makes what is made at the end. Returns why rows are missing, if some are, and what the archive has.
    pub(super) fn finish(self) -> (Option<String>, Option<String>) {
        self.0.flush_outputs(false);
        self.0.finish_outputs(false, &|_| {});
        let failure = self.0.output_failure().map(|failure| format!("{failure:#}"));
        (failure.or_else(|| self.0.module_failure()), self.0.output_summaries().into_iter().next())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::TcpListener;
    use std::time::Duration;

    use crate::classic::{ClassicCrawl, ClassicInternals as _};
    use crate::error::Error;
    use crate::proxy::Proxies;

    #[tokio::test]
    async fn url_has_a_row_when_the_proxy_is_given_up() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let directory = tempfile::tempdir().unwrap();
        let urls = directory.path().join("urls.csv");
        let crawl = ClassicCrawl::new("http://a.test/", directory.path(), 1).unwrap().urls(&urls);
        let crawl = crawl.configure(|config| {
            config.network_timeout = Duration::from_millis(50);
            config.requests.proxies = Proxies::new(&format!("http://127.0.0.1:{port}")).unwrap();
        });
        let failed = crawl.run().await.unwrap_err();
        assert!(matches!(failed, Error::Proxy(_)), "{failed}");
        let rows = fs::read_to_string(urls).unwrap();
        let rows: Vec<&str> = rows.lines().collect();
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert!(rows[1].starts_with("http://a.test/,page,not reached,not reached,,"), "{rows:?}");
    }
}
