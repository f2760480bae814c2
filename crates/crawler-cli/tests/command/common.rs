//! Runs the binary and reads its outputs. Checks what must hold for every crawl: no panic, no control character on the
//! terminal, complete files with consecutive numbers, a summary that adds up.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use std::os::unix::process::ExitStatusExt;
use tempfile::TempDir;
use testweb::{Site, Web};

/// A crawl that takes longer hangs.
const CRAWL_TIMEOUT: Duration = Duration::from_secs(300);

/// How often a running crawl is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Builds a classic crawl. By default it has a high depth limit, no delay and its own directory.
pub struct Crawl {
    seed: String,
    directory: PathBuf,
    own_directory: Option<TempDir>,
    depth: String,
    delay: Option<String>,
    options: Vec<String>,
    environment: Vec<(String, String)>,
    shell: Option<String>,
}

impl Crawl {
    pub fn of(seed: impl Into<String>) -> Crawl {
        let own = TempDir::new().expect("a temporary directory");
        Crawl {
            seed: seed.into(),
            directory: own.path().to_owned(),
            own_directory: Some(own),
            depth: "99".into(),
            delay: Some("0".into()),
            options: Vec::new(),
            environment: Vec::new(),
            shell: None,
        }
    }

    pub fn depth(mut self, depth: impl ToString) -> Crawl {
        self.depth = depth.to_string();
        self
    }

    /// Uses this directory instead of its own.
    pub fn into_directory(mut self, directory: &Path) -> Crawl {
        self.directory = directory.to_owned();
        self
    }

    pub fn delay(mut self, delay: &str) -> Crawl {
        self.delay = Some(delay.into());
        self
    }

    /// Leaves `--delay` out.
    pub fn default_delay(mut self) -> Crawl {
        self.delay = None;
        self
    }

    /// Adds arguments, separated by spaces.
    pub fn with(mut self, options: &str) -> Crawl {
        self.options.extend(options.split_whitespace().map(str::to_owned));
        self
    }

    /// Adds one argument, which may contain spaces.
    pub fn with_one(mut self, option: impl Into<String>) -> Crawl {
        self.options.push(option.into());
        self
    }

    pub fn environment(mut self, name: &str, value: &str) -> Crawl {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Runs in a shell: `script` uses `"$@"` for the crawler and its arguments.
    pub fn in_shell(mut self, script: &str) -> Crawl {
        self.shell = Some(script.into());
        self
    }

    pub fn command(&self) -> Command {
        let mut arguments = vec![self.seed.clone(), self.directory.display().to_string(), self.depth.clone()];
        arguments.extend(self.delay.iter().flat_map(|delay| ["--delay".into(), delay.clone()]));
        arguments.extend(self.options.iter().cloned());
        let mut command = match &self.shell {
            None => binary(),
            Some(script) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", script, "sh", &executable()]);
                remove_options(&mut shell);
                shell
            }
        };
        command.args(arguments).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn run(self) -> Ended {
        self.start().wait()
    }

    pub fn start(self) -> Running {
        let command = self.command();
        Running::start(command, self.directory, self.own_directory)
    }
}

/// The path of the binary: that of the variable `CRAWLER_TEST_BINARY`, so that the tests can run with another build.
pub fn executable() -> String {
    std::env::var("CRAWLER_TEST_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_crawler").into())
}

/// The binary, without environment variables that set options.
pub fn binary() -> Command {
    let mut command = Command::new(executable());
    remove_options(&mut command);
    remove_proxies(&mut command);
    command
}

/// Removes the variables that set options: those of the tests themselves have names like them.
fn remove_options(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"CRAWLER_") {
            command.env_remove(name);
        }
    }
}

/// Removes the variables that set a proxy.
pub fn remove_proxies(command: &mut Command) {
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy", "CRAWLER_PROXY"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
}

/// Runs the binary with these arguments only.
pub fn run(arguments: &[&str]) -> Ended {
    let mut command = binary();
    command.args(arguments);
    Running::start(command, PathBuf::from("/nowhere"), None).wait()
}

/// A running crawl.
pub struct Running {
    child: Child,
    stdout: CapturedStream,
    stderr: CapturedStream,
    directory: PathBuf,
    own_directory: Option<TempDir>,
    peak_rss: u64,
}

impl Running {
    pub fn start(mut command: Command, directory: PathBuf, own_directory: Option<TempDir>) -> Running {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let stdout = CapturedStream::from(child.stdout.take().expect("a pipe"));
        let stderr = CapturedStream::from(child.stderr.take().expect("a pipe"));
        Running { child, stdout, stderr, directory, own_directory, peak_rss: 0 }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32).expect("a child has a number")
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the child is there until it is waited for");
    }

    /// Lets every write fail that makes a file larger than `bytes` bytes.
    pub fn limit_file_size(&self, bytes: u64) {
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        prlimit(Some(self.pid()), Resource::Fsize, limit).expect("the child is there until it is waited for");
    }

    /// Waits for a condition while the crawl runs.
    pub fn until(&mut self, what: &str, mut is_true: impl FnMut(&Path) -> bool) {
        let started = Instant::now();
        while !is_true(&self.directory) {
            assert!(started.elapsed() < CRAWL_TIMEOUT, "timeout: {what}");
            assert!(!self.has_ended(), "the crawl ended before {what}");
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Waits until the crawl has printed this to standard error.
    pub fn until_message(&mut self, words: &str) {
        self.until_printed(words, |running| running.stderr.has(words));
    }

    /// Waits until the crawl has printed this to standard output.
    pub fn until_output(&mut self, words: &str) {
        self.until_printed(words, |running| running.stdout.has(words));
    }

    fn until_printed(&mut self, words: &str, is_printed: impl Fn(&Running) -> bool) {
        let started = Instant::now();
        while !is_printed(self) {
            assert!(
                started.elapsed() < CRAWL_TIMEOUT && !self.has_ended(),
                "the crawl did not print {words}"
            );
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// What the crawl has printed to standard error so far.
    pub fn stderr_so_far(&self) -> String {
        String::from_utf8_lossy(&self.stderr.so_far.lock().unwrap()).into_owned()
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child process").is_some()
    }

    /// Waits for the exit, and checks nothing else.
    pub fn status(mut self) -> Option<i32> {
        self.child.wait().expect("a child process").code()
    }

    pub fn wait(mut self) -> Ended {
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child process") {
                break status;
            }
            self.peak_rss = self.peak_rss.max(peak_rss(self.child.id()));
            if started.elapsed() > CRAWL_TIMEOUT {
                let _ = self.child.kill();
                panic!("the crawl hangs; standard error: {}", self.stderr.all());
            }
            thread::sleep(POLL_INTERVAL);
        };
        let ended = Ended {
            status,
            stdout: self.stdout.all(),
            stderr: self.stderr.all(),
            directory: self.directory,
            peak_rss: self.peak_rss,
            _own_directory: self.own_directory,
        };
        ended.check();
        ended
    }
}

/// What the binary has printed to one stream.
struct CapturedStream {
    so_far: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl CapturedStream {
    fn from(mut stream: impl Read + Send + 'static) -> CapturedStream {
        let so_far = Arc::new(Mutex::new(Vec::new()));
        let output = Arc::clone(&so_far);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 1 << 16];
            while let Ok(read @ 1..) = stream.read(&mut buffer) {
                output.lock().unwrap().extend(&buffer[..read]);
            }
        });
        CapturedStream { so_far, reader }
    }

    fn has(&self, words: &str) -> bool {
        String::from_utf8_lossy(&self.so_far.lock().unwrap()).contains(words)
    }

    /// The complete output. Bytes that are not UTF-8 would be escape sequences to some terminals.
    fn all(self) -> String {
        self.reader.join().expect("a pipe can be read");
        String::from_utf8(std::mem::take(&mut *self.so_far.lock().unwrap())).expect("the output is UTF-8")
    }
}

/// The peak resident memory of a process in bytes; 0 if it has exited, or has not executed the binary yet.
fn peak_rss(process: u32) -> u64 {
    // Before it executes the binary, a child has the memory of its parent.
    let is_our_own = |exe: PathBuf| std::env::current_exe().is_ok_and(|own| own == exe);
    if fs::read_link(format!("/proc/{process}/exe")).is_ok_and(is_our_own) {
        return 0;
    }
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// A crawl that has exited.
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    pub directory: PathBuf,
    pub peak_rss: u64,
    _own_directory: Option<TempDir>,
}

/// The content of a page file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    pub url: String,
    pub depth: usize,
    pub body: Vec<u8>,
}

/// The summary as numbers.
#[derive(Debug, Default)]
pub struct Summary {
    /// URLs by outcome.
    pub outcomes: BTreeMap<String, u64>,
    pub links: u64,
    /// Links by the detail of the summary: new, seen, out of scope …
    pub link_counts: BTreeMap<String, u64>,
    pub requests: u64,
}

impl Ended {
    /// Checks what must hold for every crawl.
    fn check(&self) {
        for text in [&self.stdout, &self.stderr] {
            assert!(!text.contains("panicked"), "{text}");
            let raw = text.chars().find(|c| c.is_control() && *c != '\n');
            assert_eq!(raw, None, "a control character reached the terminal: {text:?}");
        }
        // A rejected crawl does not change the directory.
        if self.directory.is_dir() && self.code() != 2 {
            let depths: Vec<usize> = self.pages().iter().map(|page| page.depth).collect();
            assert!(depths.is_sorted(), "pages of a smaller depth come first: {depths:?}");
        }
        if self.stdout.contains("\nRequests ") {
            // Checks that the rows add up.
            self.summary();
        }
    }

    /// The exit status; 128 + the signal number after a signal, as in shells.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// What was printed to standard error, without what the crawl said at first: what it will do.
    pub fn messages(&self) -> String {
        let is_plan =
            |line: &&str| line.starts_with("crawling ") || line.starts_with("pages are only counted");
        self.stderr.lines().filter(|line| !is_plan(line)).map(|line| format!("{line}\n")).collect()
    }

    /// Panics unless the exit status is this one.
    #[track_caller]
    pub fn expect(self, code: i32) -> Ended {
        assert_eq!(self.code(), code, "\nstdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// The pages in the order of their numbers, which are consecutive.
    pub fn pages(&self) -> Vec<Saved> {
        let mut numbers: Vec<u64> =
            names(&self.directory).iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "{numbers:?}");
        numbers.iter().map(|number| read_page(&self.directory.join(number.to_string()))).collect()
    }

    /// Path (and query) and depth of each page, in the order of their numbers.
    pub fn paths(&self) -> Vec<(String, usize)> {
        self.pages().iter().map(|page| (path_of(&page.url), page.depth)).collect()
    }

    /// The paths, sorted.
    pub fn sorted_paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = self.paths().into_iter().map(|(path, _)| path).collect();
        paths.sort();
        paths
    }

    pub fn body_of(&self, path: &str) -> Vec<u8> {
        let found = self.pages().into_iter().find(|page| path_of(&page.url) == path);
        found.unwrap_or_else(|| panic!("{path} was not saved; {}", self.stderr)).body
    }

    /// URLs by outcome, from the summary.
    pub fn outcomes(&self) -> BTreeMap<String, u64> {
        self.summary().outcomes
    }

    /// The rows of the summary. The reasons of a row add up to its count.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        // Events of -v may precede the summary.
        let start = self.stdout.find("Pages  ").expect("a summary");
        for line in self.stdout[start..].lines() {
            let Some((name, rest)) = line.split_once("  ") else { continue };
            let (count, detail) = rest.trim_start().split_once("   ").unwrap_or((rest.trim_start(), ""));
            let Some(count) = number(count) else { continue };
            let reasons = || detail.split(" · ").filter(|reason| !reason.is_empty());
            let mut by_reason: BTreeMap<String, u64> = BTreeMap::new();
            match name {
                "Pages" => drop(summary.outcomes.insert("page".into(), count)),
                "Redirects" => drop(summary.outcomes.insert("redirect".into(), count)),
                "Not reached" => drop(summary.outcomes.insert("not reached".into(), count)),
                "Requests" => summary.requests = count,
                "Links" => {
                    by_reason.extend(reasons().map(|reason| {
                        let (count, reason) = reason.split_once(' ').expect("a count and a reason");
                        (reason.to_owned(), number(count).expect("a count"))
                    }));
                    assert_eq!(count, by_reason.values().sum::<u64>(), "{line}");
                    (summary.links, summary.link_counts) = (count, by_reason);
                }
                "Skipped" | "Failed" => {
                    by_reason.extend(reasons().map(|reason| {
                        let (reason, count) = reason.rsplit_once(' ').expect("a reason and a count");
                        (reason.to_owned(), number(count.trim_start_matches('×')).expect("a count"))
                    }));
                    assert_eq!(count, by_reason.values().sum::<u64>(), "{line}");
                    summary.outcomes.extend(by_reason);
                }
                _ => {}
            }
        }
        summary
    }

    /// The line of standard error about this path.
    #[track_caller]
    pub fn line_about(&self, path: &str) -> &str {
        let mut lines = self.stderr.lines();
        let found = lines.find(|line| line.split(": ").next().is_some_and(|url| url.ends_with(path)));
        found.unwrap_or_else(|| panic!("there is no line about {path}: {}", self.stderr))
    }
}

/// A number with thousands separators.
fn number(text: &str) -> Option<u64> {
    text.replace(',', "").parse().ok()
}

/// The names of a directory's files.
pub fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("the directory is there");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name().into_string();
    entries.map(|entry| name(entry).expect("names are UTF-8")).collect()
}

/// Parses a page file: a line with the URL, a line with the depth, then the body.
pub fn read_page(path: &Path) -> Saved {
    let bytes = fs::read(path).expect("the page file is there");
    let mut parts = bytes.splitn(3, |byte| *byte == b'\n');
    let mut line = || String::from_utf8(parts.next().expect("three parts").to_vec()).expect("UTF-8");
    let (url, depth) = (line(), line().parse().expect("a depth"));
    Saved { url, depth, body: parts.next().expect("three parts").to_vec() }
}

/// The path and query of a URL.
pub fn path_of(url: &str) -> String {
    let rest = url.split_once("://").expect("an absolute URL").1;
    rest[rest.find('/').expect("a path")..].to_owned()
}

pub fn serve(site: Site) -> Web {
    Web::builder().site(site).start()
}

/// A site of two pages.
pub fn small_web() -> Web {
    serve(Site::new().page("/", linking_to(&["/a"])).page("/a", "x"))
}

/// Runs the binary with arguments in which SEED and DIR stand for a valid seed and an empty directory. Checks that it rejects them
/// in one line that contains `words`, and that it fetches and writes nothing.
#[track_caller]
pub fn is_rejected(arguments: &[&str], words: &[&str]) {
    let (web, directory) = (small_web(), tempfile::tempdir().unwrap());
    let filled: Vec<String> = arguments
        .iter()
        .map(|text| {
            text.replace("SEED", &web.url("/")).replace("DIR", &directory.path().display().to_string())
        })
        .collect();
    let ended = run(&filled.iter().map(String::as_str).collect::<Vec<_>>()).expect(2);
    assert_eq!((ended.stdout.as_str(), ended.stderr.lines().count()), ("", 1), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("crawler: "), "{}", ended.stderr);
    for word in words {
        assert!(ended.stderr.contains(word), "{word:?} is not in {}", ended.stderr);
    }
    assert!(web.log().is_empty(), "{:?}", web.log().paths());
    assert!(names(directory.path()).is_empty());
}

/// A page that links to these targets.
pub fn linking_to(targets: &[&str]) -> String {
    targets.iter().map(|target| format!("<a href=\"{target}\">{target}</a>\n")).collect()
}

/// These counts as a map, to compare with a summary.
pub fn counts(expected: &[(&str, u64)]) -> BTreeMap<String, u64> {
    expected.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect()
}

/// The text without ports and times, which differ from run to run.
pub fn without_times(text: &str, web: &Web) -> String {
    let text = text.replace(&web.url(""), "http://site.test");
    text.lines()
        .map(|line| match line.starts_with("Requests ") {
            true => format!("{}   R pages/s · T s\n", &line[..20]),
            false => format!("{line}\n"),
        })
        .collect()
}
