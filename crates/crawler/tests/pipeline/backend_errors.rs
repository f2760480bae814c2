//! A backend whose operation fails ends the crawl with that error, whichever operation it is.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crawler::StopHandle;
use crawler::StorageErrorKind;
use crawler::internal::backend::durable::{self, OpenState, RecordedSettings, StateOptions};
use crawler::internal::backend::local::LocalBackend;
use crawler::internal::backend::{Backend, BackendError, DiscoveredUrl, WorkerId};
use crawler::internal::config::FetchConfig;
use crawler::internal::frontier;
use crawler::internal::prioritizer::DepthPopularity;
use testweb::{Response, Site, Web};
use tokio::time::timeout;

use super::fixtures::{config, context, worker};
use super::hooked_backend::{Hook, HookedBackend};

/// Longer than such a crawl takes on a busy machine, and shorter than the cooldown of its host.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Fails one operation, and records which ones were called.
struct Fault {
    operation: &'static str,
    called: Mutex<BTreeSet<&'static str>>,
}

impl Hook for Fault {
    async fn before(&self, operation: &'static str) -> Result<(), BackendError> {
        self.called.lock().unwrap().insert(operation);
        match operation == self.operation {
            true => Err(BackendError::state(StorageErrorKind::Io, format!("{operation} failed"))),
            false => Ok(()),
        }
    }
}

/// A web whose robots.txt is that of another domain, and whose page is overloaded, at first or for some minutes.
fn web(is_overloaded: bool) -> Web {
    let seconds = if is_overloaded { "200" } else { "0" };
    let overloaded = || Response::status(503).header("retry-after", seconds);
    let elsewhere = |port: &str| Response::redirect(302, &format!("http://elsewhere.test:{port}/robots.txt"));
    let first = super::site_with_port(move |path, port| match path {
        "/robots.txt" => elsewhere(port),
        _ => Response::page("x"),
    });
    let first = first.response("/", Response::sequence(vec![overloaded(), Response::page("one page")]));
    Web::builder().host("seed.test", first).site(Site::new().fallback(|_| Response::status(404))).start()
}

/// Crawls a page. Returns the error of the worker, and the operations that were called.
async fn crawl(
    backend: impl Backend,
    operation: &'static str,
    is_overloaded: bool,
) -> (Option<BackendError>, BTreeSet<&'static str>) {
    let web = web(is_overloaded);
    let url = web.url_of("seed.test", "/");
    let mut fetch_config =
        FetchConfig { delay: Duration::from_millis(1), concurrency: 4, ..FetchConfig::default() };
    fetch_config.requests.dns_overrides = vec![("*".into(), [127, 0, 0, 1].into())];
    let hook = Fault { operation, called: Mutex::default() };
    let backend = Arc::new(HookedBackend { inner: backend, hook });
    let stop = StopHandle::new();
    let seeds = [url.clone(), web.url_of("elsewhere.test", "/")].map(|url| url.parse().unwrap());
    let worker = worker(0, &seeds, fetch_config, &context(&backend, &stop));
    backend.inner.remove_worker(WorkerId(1)).await.unwrap();
    backend.inner.admit(vec![DiscoveredUrl { url, depth: 0, redirects: 0 }]).await.unwrap();
    let crawl = async {
        let mut working = tokio::spawn(worker.run());
        tokio::select! {
            worked = &mut working => worked.unwrap(),
            finished = frontier::run(&backend.inner, &DepthPopularity, &stop) => {
                finished.unwrap();
                stop.stop();
                working.await.unwrap()
            }
        }
    };
    let result =
        timeout(TIMEOUT, crawl).await.unwrap_or_else(|_| panic!("the crawl hangs after {operation}"));
    let called = backend.hook.called.lock().unwrap().clone();
    (result.err(), called)
}

#[tokio::test]
async fn error_of_any_operation_ends_the_crawl_with_it() {
    for operation in [
        "lease",
        "pin_address_kinds",
        "exhausted_budget",
        "load_robots",
        "claim_host",
        "store_robots",
        "reserve",
        "set_host_delay",
        "store_content",
        "complete",
    ] {
        let (error, called) = crawl(LocalBackend::new(config()), operation, false).await;
        let message = error.unwrap_or_else(|| panic!("{operation} did not fail; called: {called:?}"));
        assert_eq!(message.to_string(), format!("{operation} failed"));
    }
    let (error, called) = crawl(LocalBackend::new(config()), "none", false).await;
    assert!(error.is_none() && called.contains("complete"), "{error:?}");
}

#[tokio::test]
async fn failing_state_ends_a_crawl_whose_host_has_a_cooldown() {
    let directory = tempfile::tempdir().unwrap();
    let options = StateOptions {
        recrawl: None,
        clock_interval: durable::CLOCK_INTERVAL,
        config: config(),
        delay: Duration::ZERO,
        recorded_settings: RecordedSettings::default(),
        metadata: Vec::new(),
        retry_failed: false,
    };
    let OpenState { backend, writer, .. } = durable::open(directory.path(), options).unwrap();
    let (error, _) = crawl(backend, "set_host_delay", true).await;
    assert_eq!(error.unwrap().to_string(), "set_host_delay failed");
    writer.close().unwrap();
}
