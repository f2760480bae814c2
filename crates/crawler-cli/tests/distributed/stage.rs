//! A web, a Redis and the binary, and what a shared crawl must have come to, whatever happened meanwhile.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use tempfile::TempDir;
use testredis::{Fsync, Server};
use testweb::Web;

/// No crawl here takes nearly as long; one that does hangs.
const LONGEST: Duration = Duration::from_secs(120);

/// How often what is waited for is looked at.
const GLANCE: Duration = Duration::from_millis(10);

/// What every host is given between two requests.
pub const DELAY: Duration = Duration::from_millis(40);

/// A web, a Redis, and a directory for the outputs.
pub struct Stage {
    pub web: Web,
    pub redis: Server,
    pub directory: TempDir,
    /// Where the processes are told that Redis is.
    pub address: String,
}

impl Stage {
    /// So many hosts with so many pages each, and a Redis that keeps what it is told.
    pub fn new(hosts: usize, pages: usize) -> Stage {
        Stage::on(Server::builder().append_only(Fsync::EverySecond).start(), hosts, pages)
    }

    pub fn on(redis: Server, hosts: usize, pages: usize) -> Stage {
        let web = Web::builder().seeded_hosts(11, hosts, pages).start();
        let (directory, address) = (TempDir::new().unwrap(), redis.url());
        Stage { web, redis, directory, address }
    }

    pub fn seed(&self) -> String {
        self.web.url_of("h0.test", "/")
    }

    /// The binary, in the directory of the outputs.
    pub fn crawler(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crawler"));
        command.args(arguments).current_dir(self.directory.path());
        command.env("CRAWLER_REDIS", &self.address).stdin(Stdio::null());
        command
    }

    /// The options of a crawl that finds everything.
    pub fn options(&self) -> Vec<String> {
        self.options_within("1GB")
    }

    fn options_within(&self, bytes: &str) -> Vec<String> {
        let delay = format!("{DELAY:?}");
        let options = ["--delay", &delay, "--similarity", "0", "--allow-private", "--resolve", "*=127.0.0.1"];
        let more = ["--module", "jsonl=pages.jsonl", "--max-bytes", bytes];
        options.into_iter().chain(more).map(str::to_owned).collect()
    }

    /// A controller with so many workers.
    pub fn crawl(&self, workers: usize, more: &[&str]) -> Command {
        self.crawl_within(workers, "1GB", more)
    }

    /// The same, that reads no more than so much.
    pub fn crawl_within(&self, workers: usize, bytes: &str, more: &[&str]) -> Command {
        let (seed, workers) = (self.seed(), workers.to_string());
        let mut command = self.crawler(&["crawl", &seed, "--redis", &self.address, "--workers", &workers]);
        command.args(self.options_within(bytes)).args(["--summary", "summary.json"]).args(more);
        command
    }

    /// Runs a command to its end, which is a good one, and returns what it printed.
    pub fn say(&self, arguments: &[&str]) -> String {
        let output = finished(self.crawler(arguments));
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{arguments:?}: {}\n{out}{err}", output.status);
        out
    }

    /// How the crawl stands.
    pub fn status(&self) -> Value {
        serde_json::from_str(&self.say(&["status", "--json"])).unwrap()
    }

    /// Waits until something is so of the crawl.
    pub fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) {
        wait_for(what, || {
            let output = finished(self.crawler(&["status", "--json"]));
            output.status.success() && is_so(&serde_json::from_slice(&output.stdout).unwrap())
        });
    }

    /// The URLs of the pages in the outputs, all parts together: each once.
    pub fn pages(&self) -> BTreeSet<String> {
        let parts: Vec<PathBuf> = fs::read_dir(self.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
            .filter(|path| path.file_name().is_some_and(|name| name != "all.jsonl"))
            .collect();
        let mut collect = self.crawler(&["collect", "--output", "all.jsonl", "--overwrite"]);
        collect.args(&parts);
        let output = finished(collect);
        assert!(output.status.success(), "{}", texts(&output).1);
        let text = fs::read_to_string(self.directory.path().join("all.jsonl")).unwrap();
        let urls: Vec<String> = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["url"].as_str().unwrap().to_owned())
            .collect();
        let distinct: BTreeSet<String> = urls.iter().cloned().collect();
        assert_eq!(urls.len(), distinct.len(), "no page is there twice");
        distinct
    }

    /// Everything was visited, is in the outputs and was counted once, and no host was asked too soon.
    pub fn check(&self) {
        self.check_counts();
        let gap = self.web.log().smallest_gap().unwrap();
        assert!(gap >= DELAY, "a host was asked {gap:?} after its last answer");
    }

    pub fn check_counts(&self) {
        let truth: BTreeSet<String> = self.web.truth_from(&self.seed(), 1_000).into_keys().collect();
        let pages = self.pages();
        let missing: Vec<&String> = truth.difference(&pages).collect();
        assert!(missing.is_empty(), "{} of {} are missing: {missing:?}", missing.len(), truth.len());
        let extra: Vec<&String> = pages.difference(&truth).collect();
        assert!(extra.is_empty(), "{extra:?}");
        let status = self.status();
        assert_eq!(status["pages"], truth.len(), "{status}");
        assert_eq!(status["pending"], 0, "{status}");
    }

    /// The process of a member of the crew.
    pub fn process_of(&self, role: &str) -> Option<Pid> {
        let status = self.status();
        let members = status["members"].as_array().unwrap();
        let member = members.iter().find(|member| member["role"] == role && member["dead"] == false)?;
        Pid::from_raw(member["pid"].as_i64()?.try_into().ok()?)
    }

    /// Kills the process of a member of the crew.
    pub fn kill(&self, role: &str) {
        let pid = self.process_of(role).unwrap_or_else(|| panic!("{role} is not there"));
        kill_process(pid, Signal::KILL).unwrap();
    }
}

/// Whether a crawl with this status has ended.
pub fn is_over(status: &Value) -> bool {
    ["finished", "stopped"].iter().any(|state| status["state"] == *state)
}

/// A process and all its children, which do not outlive the test.
pub struct Running {
    pub child: Child,
    output: Vec<thread::JoinHandle<String>>,
}

impl Running {
    pub fn start(mut command: Command) -> Running {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Running { child, output: vec![read(out), read(err)] }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed()).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits for its end. What it printed, to both streams, and its exit status.
    pub fn end(mut self) -> (Option<i32>, String) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if begun.elapsed() > LONGEST {
                let _ = kill_process_group(self.pid(), Signal::KILL);
                let said: Vec<String> = self.output.drain(..).map(|text| text.join().unwrap()).collect();
                panic!("it does not end: {}", said.join("\n"));
            }
            thread::sleep(GLANCE);
        };
        // Children of one that was killed live on, and hold its streams.
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let said: Vec<String> = self.output.drain(..).map(|text| text.join().unwrap()).collect();
        let said = said.concat();
        assert!(!said.contains("panicked"), "{said}");
        (status.code(), said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let _ = self.child.wait();
    }
}

fn read(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Runs a command to its end.
pub fn finished(mut command: Command) -> Output {
    command.output().unwrap()
}

pub fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Waits until something is so.
pub fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONGEST, "waited in vain for {what}");
        thread::sleep(GLANCE);
    }
}
