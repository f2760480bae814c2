//! Shared by the demos of many hosts: a crawl in a child process, and the checks of its result.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use demoweb::{Server, many_hosts};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use crate::commands::without_options;
use crate::printable::{print_error, print_stdout};
use crate::{EXIT_FAILED, EXIT_INTERRUPTED, EXIT_TERMINATED};

/// The delay between two requests to a host.
pub const DELAY: Duration = Duration::from_millis(400);

/// How often the crawl is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

pub type DemoResult<T> = Result<T, String>;

/// Runs a demo and returns its exit status: 0 only if all checks succeed.
pub async fn run_demo(demonstration: impl Future<Output = DemoResult<bool>>) -> u8 {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        print_error("cannot run the demo: cannot listen for signals");
        return EXIT_FAILED;
    };
    // When a signal arrives, the demo is dropped, and with it the running crawl.
    let result = tokio::select! {
        result = demonstration => result.map_err(|error| (EXIT_FAILED, error)),
        _ = interrupt.recv() => Err((EXIT_INTERRUPTED, "interrupted".into())),
        _ = terminate.recv() => Err((EXIT_TERMINATED, "terminated".into())),
    };
    match result {
        Ok(true) => 0,
        Ok(false) => {
            print_error("the demo failed: a check above printed NO");
            EXIT_FAILED
        }
        Err((status, error)) => {
            print_error(&format!("the demo stopped early: {error}"));
            status
        }
    }
}

/// Checks that each page is in the output once.
pub fn check_pages(server: &Server, summary: &Path, pages: &[Value]) -> DemoResult<bool> {
    let urls: BTreeSet<&str> = pages.iter().filter_map(|page| page["url"].as_str()).collect();
    let summary = fs::read(summary).map_err(|error| format!("the summary: {error}"))?;
    let summary: Value = serde_json::from_slice(&summary).map_err(|error| format!("the summary: {error}"))?;
    let (count, counted) = (pages.len(), summary["pages"].as_u64().unwrap_or(0));
    let once = urls.len() == count && counted == count as u64;
    let mut is_good = check(once, &format!("pages.jsonl has all {counted} pages, each once"))?;
    let expected = many_hosts::kept_pages();
    let missing = expected.iter().filter(|(host, path)| !urls.contains(server.url_of(host, path).as_str()));
    let missing = missing.count();
    is_good &=
        check(missing == 0, &format!("{missing} of the {} expected pages are missing", expected.len()))?;
    Ok(is_good)
}

/// Checks the delay and robots.txt with the access log.
pub fn check_requests(server: &Server) -> DemoResult<bool> {
    let log = server.log();
    let gap = log.smallest_gap().unwrap_or_default();
    let polite = format!(
        "no request came sooner than {} ms after the host's last response: {} requests, shortest pause {} ms",
        DELAY.as_millis(),
        log.len(),
        gap.as_millis()
    );
    let mut is_good = check(gap >= DELAY, &polite)?;
    let forbidden = log.filter(|hit| hit.path.starts_with("/private/")).len();
    is_good &= check(forbidden == 0, "nothing that robots.txt disallows was requested")?;
    Ok(is_good)
}

/// The JSON objects in the lines of a file.
pub fn pages_in(lines: &Path) -> DemoResult<Vec<Value>> {
    let text = fs::read_to_string(lines).map_err(|error| format!("pages.jsonl: {error}"))?;
    let pages = text.lines().map(serde_json::from_str).collect::<Result<_, _>>();
    pages.map_err(|error| format!("pages.jsonl: {error}"))
}

/// A command in a child process, which is killed when dropped.
pub struct DemoProcess(Child);

impl DemoProcess {
    pub fn start(arguments: &[String]) -> DemoResult<DemoProcess> {
        DemoProcess::start_with(arguments, |_| {})
    }

    /// Starts the command after `configure` has changed its settings.
    pub fn start_with(arguments: &[String], configure: impl FnOnce(&mut Command)) -> DemoResult<DemoProcess> {
        print(&prompt(arguments))?;
        let mut command = command(arguments)?;
        configure(&mut command);
        let child = command.stdin(Stdio::null()).spawn();
        child.map(DemoProcess).map_err(|error| format!("cannot start the crawl: {error}"))
    }

    /// Waits for a condition while the crawl runs.
    pub async fn until(&mut self, is_true: impl Fn() -> bool) -> DemoResult<()> {
        while !is_true() {
            if let Some(status) = self.exit_status()? {
                return Err(format!("the crawl ended too early ({status})"));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    pub async fn wait(mut self) -> DemoResult<ExitStatus> {
        loop {
            if let Some(status) = self.exit_status()? {
                return Ok(status);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn exit_status(&mut self) -> DemoResult<Option<ExitStatus>> {
        self.0.try_wait().map_err(|error| error.to_string())
    }

    /// Sends SIGKILL.
    pub fn kill(self) {}
}

impl Drop for DemoProcess {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// This program, with other arguments.
pub fn command(arguments: &[String]) -> DemoResult<Command> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = Command::new(program);
    // The hosts of the demo are on this machine, where no proxy finds them.
    without_options(command.args(arguments)).env("no_proxy", "*");
    Ok(command)
}

/// A command as it would be typed.
pub fn prompt(arguments: &[String]) -> String {
    let typed = arguments.iter().map(|argument| match argument.contains('*') {
        true => format!("'{argument}'"),
        false => argument.clone(),
    });
    format!("\n$ crawler {}\n", typed.collect::<Vec<_>>().join(" "))
}

pub fn check(is_true: bool, what: &str) -> DemoResult<bool> {
    print(&format!("  {} {what}\n", if is_true { "yes:" } else { "NO: " }))?;
    Ok(is_true)
}

pub fn print(text: &str) -> DemoResult<()> {
    if print_stdout(text) { Ok(()) } else { Err("standard output is closed".into()) }
}
