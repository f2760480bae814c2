//! A web, a Redis and the binary, and the checks that every distributed crawl must pass, whatever failed during it.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use testredis::{Fsync, Server};
use testweb::{Response, Site, Web};

use super::process::{Process, poll, run, texts};

/// How often the status of a crawl is queried: each query starts a process.
const STATUS_INTERVAL: Duration = Duration::from_millis(50);

/// The delay between two requests to a host, for crawls that only have to finish.
const SHORT_DELAY: Duration = Duration::from_millis(40);

/// The delay for crawls in the middle of which something happens. A crawl of a dozen pages per host then takes some
/// seconds on an idle machine too.
pub const LONG_DELAY: Duration = Duration::from_millis(150);

/// The host that a crawl starts at when the fixture holds the web back.
const GATE_HOST: &str = "gate.test";

/// The gate opens by itself after this time, so that a failing test does not hang.
const GATE_TIMEOUT: Duration = Duration::from_secs(100);

/// A web, a Redis, and a directory for the outputs.
pub struct Fixture {
    pub web: Web,
    pub redis: Server,
    pub directory: TempDir,
    /// The address of Redis that the processes are given.
    pub redis_url: String,
    /// The delay between two requests to a host.
    pub delay: Duration,
    pub gate: Gate,
}

/// Holds back a request until it is opened. It is a host of the web that redirects to the seed; while it is closed, a
/// request for it blocks the whole web.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn set_closed(&self, is_closed: bool) {
        *self.is_closed() = is_closed;
        self.0.1.notify_all();
    }

    fn wait_until_open(&self) {
        let waited = self.0.1.wait_timeout_while(self.is_closed(), GATE_TIMEOUT, |is_closed| *is_closed);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn is_closed(&self) -> MutexGuard<'_, bool> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn site(&self) -> Site {
        let gate = self.clone();
        Site::new().fallback(move |request| {
            if request.path != "/" {
                return Response::status(404);
            }
            gate.wait_until_open();
            Response::redirect(302, &format!("{}/", request.origin().replace(GATE_HOST, "h0.test")))
        })
    }
}

impl Fixture {
    /// A web of this many hosts with this many pages each, and a Redis that persists its data.
    pub fn new(hosts: usize, pages: usize) -> Fixture {
        Fixture::with_redis(Server::builder().append_only(Fsync::EverySecond).start(), hosts, pages)
    }

    /// The same, with a delay that is long enough for something to happen in the middle of the crawl.
    pub fn slow(hosts: usize, pages: usize) -> Fixture {
        Fixture { delay: LONG_DELAY, ..Fixture::new(hosts, pages) }
    }

    pub fn with_redis(redis: Server, hosts: usize, pages: usize) -> Fixture {
        let gate = Gate::default();
        let web = Web::builder().seeded_hosts(11, hosts, pages).host(GATE_HOST, gate.site()).start();
        let (directory, redis_url) = (TempDir::new().unwrap(), redis.url());
        Fixture { web, redis, directory, redis_url, delay: SHORT_DELAY, gate }
    }

    /// The URL from which every page of the web can be reached.
    pub fn seed(&self) -> String {
        self.web.url_of("h0.test", "/")
    }

    /// A URL that redirects to the seed, but not while the web is held back.
    pub fn gate_url(&self) -> String {
        self.web.url_of(GATE_HOST, "/")
    }

    /// The binary, in the directory of the outputs.
    pub fn crawler(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crawler"));
        command.args(arguments).current_dir(self.directory.path());
        // The variables of the tests have names like those of options.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"CRAWLER_") {
                command.env_remove(name);
            }
        }
        command.env("CRAWLER_REDIS", &self.redis_url).stdin(Stdio::null());
        // The web is on this machine, where no proxy of the environment finds it.
        for name in ["http_proxy", "https_proxy", "all_proxy", "CRAWLER_PROXY"] {
            command.env_remove(name).env_remove(name.to_uppercase());
        }
        command
    }

    /// The options of a crawl that reaches every page.
    pub fn options(&self) -> Vec<String> {
        self.options_with_max_bytes("1GB")
    }

    fn options_with_max_bytes(&self, max_bytes: &str) -> Vec<String> {
        let delay = format!("{:?}", self.delay);
        let options = ["--delay", &delay, "--similarity", "0", "--allow-private", "--resolve", "*=127.0.0.1"];
        let more = ["--module", "jsonl=pages.jsonl", "--max-bytes", max_bytes, "--timeout", "60s"];
        options.into_iter().chain(more).map(str::to_owned).collect()
    }

    /// A controller with this many workers.
    pub fn crawl(&self, workers: usize, more: &[&str]) -> Command {
        self.crawl_from(&self.seed(), &self.redis_url, workers, "1GB", more)
    }

    /// A controller that continues a crawl of [`start_crawl`](Fixture::start_crawl).
    pub fn crawl_again(&self, workers: usize, more: &[&str]) -> Command {
        self.crawl_from(&self.gate_url(), &self.redis_url, workers, "1GB", more)
    }

    /// The same as [`crawl`](Fixture::crawl), with a limit of bytes.
    pub fn crawl_with_max_bytes(&self, workers: usize, max_bytes: &str, more: &[&str]) -> Command {
        self.crawl_from(&self.seed(), &self.redis_url, workers, max_bytes, more)
    }

    fn crawl_from(
        &self,
        url: &str,
        redis_url: &str,
        workers: usize,
        max_bytes: &str,
        more: &[&str],
    ) -> Command {
        let workers = workers.to_string();
        let mut command = self.crawler(&["crawl", url, "--redis", redis_url, "--workers", &workers]);
        command.env("CRAWLER_REDIS", redis_url);
        command.args(self.options_with_max_bytes(max_bytes)).args(["--summary", "summary.json"]).args(more);
        command
    }

    /// Starts a controller and waits until it, its frontier and its workers are in the middle of the crawl. The web is
    /// held back until all of them have joined, so that none comes too late.
    pub fn start_crawl(&self, workers: usize, more: &[&str]) -> Process {
        self.start_crawl_through(&self.redis_url, workers, more)
    }

    /// The same with another address of Redis for the controller. The test itself queries Redis at the fixture's.
    pub fn start_crawl_through(&self, redis_url: &str, workers: usize, more: &[&str]) -> Process {
        let command = self.crawl_from(&self.gate_url(), redis_url, workers, "1GB", more);
        let processes = self.hold_web_until_joined(workers + 1, || vec![Process::start(command)]);
        self.wait_for_pages(20);
        processes.into_iter().next().unwrap()
    }

    /// Starts processes, and holds the web back until the crawl has this many members. The crawl must start at the
    /// [gate](Fixture::gate_url).
    pub fn hold_web_until_joined(&self, count: usize, start: impl FnOnce() -> Vec<Process>) -> Vec<Process> {
        self.gate.set_closed(true);
        let processes = start();
        self.wait_for_status("all members to join", |status| members(status) == count);
        self.gate.set_closed(false);
        processes
    }

    /// Submits a URL with the options of the fixture. Returns what the command prints.
    pub fn submit(&self, url: &str, more: &[&str]) -> String {
        let options = self.options();
        let mut arguments = vec!["submit", url];
        arguments.extend(options.iter().map(String::as_str));
        arguments.extend(more);
        self.run(&arguments)
    }

    /// Runs a command that must succeed. Returns what it prints to stdout.
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = run(self.crawler(arguments));
        let (stdout, stderr) = texts(&output);
        assert!(output.status.success(), "{arguments:?}: {}\n{stdout}{stderr}", output.status);
        stdout
    }

    /// The status of the crawl.
    pub fn status(&self) -> Value {
        serde_json::from_str(&self.run(&["status", "--json"])).unwrap()
    }

    /// Waits until the status of the crawl satisfies a condition.
    pub fn wait_for_status(&self, what: &str, is_true: impl Fn(&Value) -> bool) {
        poll(what, STATUS_INTERVAL, || {
            let output = run(self.crawler(&["status", "--json"]));
            output.status.success() && is_true(&serde_json::from_slice(&output.stdout).unwrap())
        });
    }

    /// Waits until the crawl has more than this many pages.
    pub fn wait_for_pages(&self, pages: u64) {
        self.wait_for_status("some pages", |status| status["pages"].as_u64() > Some(pages));
    }

    /// The URLs of the pages in all output files together. Fails if one is there twice.
    pub fn pages(&self) -> BTreeSet<String> {
        let parts: Vec<PathBuf> = fs::read_dir(self.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
            .filter(|path| path.file_name().is_some_and(|name| name != "all.jsonl"))
            .collect();
        let mut collect = self.crawler(&["collect", "--output", "all.jsonl", "--overwrite"]);
        collect.args(&parts);
        let output = run(collect);
        assert!(output.status.success(), "{}", texts(&output).1);
        let text = fs::read_to_string(self.directory.path().join("all.jsonl")).unwrap();
        let urls: Vec<String> = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["url"].as_str().unwrap().to_owned())
            .collect();
        let distinct: BTreeSet<String> = urls.iter().cloned().collect();
        assert_eq!(urls.len(), distinct.len(), "a page is in the outputs twice");
        distinct
    }

    /// Asserts that every page is in the outputs and was counted once, and that no host got a request too early.
    pub fn check(&self) {
        self.check_pages();
        let gap = self.web.log().smallest_gap().unwrap();
        assert!(gap >= self.delay, "a host got a request {gap:?} after its last response");
    }

    fn check_pages(&self) {
        let expected: BTreeSet<String> = self.web.truth_from(&self.seed(), 1_000).into_keys().collect();
        let pages = self.pages();
        let missing: Vec<&String> = expected.difference(&pages).collect();
        assert!(missing.is_empty(), "{} of {} are missing: {missing:?}", missing.len(), expected.len());
        let extra: Vec<&String> = pages.difference(&expected).collect();
        assert!(extra.is_empty(), "{extra:?}");
        let status = self.status();
        assert_eq!(status["pages"], expected.len(), "{status}");
        assert_eq!(status["pending"], 0, "{status}");
    }

    /// The process that has a role, as `worker 1` or `frontier`.
    pub fn process_of(&self, role: &str) -> Option<Pid> {
        let status = self.status();
        let members = status["members"].as_array().unwrap();
        let member = members.iter().find(|member| member["role"] == role && member["dead"] == false)?;
        Pid::from_raw(member["pid"].as_i64()?.try_into().ok()?)
    }

    /// Kills the process that has a role.
    pub fn kill(&self, role: &str) {
        let pid = self.process_of(role).unwrap_or_else(|| panic!("no process is {role}"));
        kill_process(pid, Signal::KILL).unwrap();
    }
}

/// The number of members in a crawl's status.
pub fn members(status: &Value) -> usize {
    status["members"].as_array().map_or(0, Vec::len)
}

/// Whether a crawl has finished or was stopped.
pub fn is_over(status: &Value) -> bool {
    ["finished", "stopped"].iter().any(|state| status["state"] == *state)
}
