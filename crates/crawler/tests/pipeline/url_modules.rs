//! Modules that get every URL get it before its completion: a crawl that is killed loses none of them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crawler::internal::backend::local::LocalBackend;
use crawler::internal::backend::{Backend, BackendError, DiscoveredUrl};
use crawler::internal::config::FetchConfig;
use crawler::internal::frontier;
use crawler::internal::modules::BuiltinModule;
use crawler::internal::modules::output::files::{OutputFiles, Start};
use crawler::internal::modules::page_pipeline::PagePipeline;
use crawler::internal::page::Page;
use crawler::internal::prioritizer::DepthPopularity;
use crawler::internal::url_record::UrlRecord;
use crawler::internal::worker::WorkerContext;
use crawler::{StopHandle, StorageErrorKind};
use testweb::{Response, Site, Web};

use super::fixtures::{config, context, worker};
use super::hooked_backend::{Hook, HookedBackend};

/// Fails each completion, as if the process were killed before it.
struct NoCompletion;

impl Hook for NoCompletion {
    async fn before(&self, operation: &'static str) -> Result<(), BackendError> {
        match operation {
            "complete" => Err(BackendError::state(StorageErrorKind::Io, "killed")),
            _ => Ok(()),
        }
    }
}

/// Records the outcome of each URL.
struct Urls(Arc<Mutex<Vec<String>>>);

impl BuiltinModule for Urls {
    fn name(&self) -> &str {
        "urls"
    }

    fn process_page(&self, _: &Page) -> Result<(), String> {
        Ok(())
    }

    fn wants_urls(&self) -> bool {
        true
    }

    fn process_url(&self, record: &UrlRecord) -> Result<(), String> {
        self.0.lock().unwrap().push(record.outcome.label().into());
        Ok(())
    }
}

/// The outcomes that the module gets of a crawl of one page, which ends with its first completion.
async fn outcomes(page: Response) -> Vec<String> {
    let web = Web::builder().host("a.test", Site::new().response("/", page)).start();
    let url = web.url_of("a.test", "/");
    let mut fetch_config = FetchConfig { delay: Duration::from_millis(1), ..FetchConfig::default() };
    fetch_config.requests.dns_overrides = vec![("*".into(), [127, 0, 0, 1].into())];
    let backend = Arc::new(HookedBackend { inner: LocalBackend::new(config()), hook: NoCompletion });
    let (stop, outcomes) = (StopHandle::new(), Arc::default());
    let files = OutputFiles::open(&[], Start::Fresh).unwrap();
    let modules: Vec<Box<dyn BuiltinModule>> = vec![Box::new(Urls(Arc::clone(&outcomes)))];
    let pipeline = Arc::new(PagePipeline::new(modules, Vec::new(), files, Arc::new(|_, _| {})));
    let context = Arc::into_inner(context(&backend, &stop)).unwrap();
    let context = Arc::new(WorkerContext { pipeline, ..context });
    let worker = worker(0, &[url.parse().unwrap()], fetch_config, &context);
    backend.inner.admit(vec![DiscoveredUrl { url, depth: 0, redirects: 0 }]).await.unwrap();
    tokio::select! {
        worked = worker.run() => assert_eq!(worked.unwrap_err().to_string(), "killed"),
        _ = frontier::run(&backend.inner, &DepthPopularity, &stop) => panic!("no URL was completed"),
    }
    let outcomes = outcomes.lock().unwrap();
    outcomes.clone()
}

#[tokio::test]
async fn module_gets_a_url_before_its_completion() {
    assert_eq!(outcomes(Response::page("x")).await, ["page"]);
    assert_eq!(outcomes(Response::status(404)).await, ["HTTP 404"]);
    assert!(outcomes(Response::status(503)).await.is_empty(), "it is requested again");
}
