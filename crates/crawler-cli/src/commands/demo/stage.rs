//! What demonstrations of many hosts share: a crawl in a process of its own, and what must have come of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use demoweb::{Server, many_hosts};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use crate::printable::{print_error, print_stdout};
use crate::{EXIT_FAILED, EXIT_INTERRUPTED, EXIT_TERMINATED};

/// What every host is given between two requests.
pub const DELAY: Duration = Duration::from_millis(400);

/// How often the crawl is looked at.
const GLANCE: Duration = Duration::from_millis(10);

pub type Told<T> = Result<T, String>;

/// Runs a demonstration and returns its exit status: 0 only if everything it shows is as it should be.
pub async fn shown(demonstration: impl Future<Output = Told<bool>>) -> u8 {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        print_error("cannot run the demo: cannot listen for signals");
        return EXIT_FAILED;
    };
    // Whichever ends first, the others are dropped, and with them the crawl that is under way.
    let shown = tokio::select! {
        shown = demonstration => shown.map_err(|error| (EXIT_FAILED, error)),
        _ = interrupt.recv() => Err((EXIT_INTERRUPTED, "interrupted".into())),
        _ = terminate.recv() => Err((EXIT_TERMINATED, "terminated".into())),
    };
    match shown {
        Ok(true) => 0,
        Ok(false) => {
            print_error("the demo failed: a check above says NO");
            EXIT_FAILED
        }
        Err((status, error)) => {
            print_error(&format!("the demo stopped early: {error}"));
            status
        }
    }
}

/// Every page is there, and once.
pub fn check_pages(server: &Server, summary: &Path, pages: &[Value]) -> Told<bool> {
    let urls: BTreeSet<&str> = pages.iter().filter_map(|page| page["url"].as_str()).collect();
    let summary = fs::read(summary).map_err(|error| format!("the summary: {error}"))?;
    let summary: Value = serde_json::from_slice(&summary).map_err(|error| format!("the summary: {error}"))?;
    let (count, kept) = (pages.len(), summary["pages"].as_u64().unwrap_or(0));
    let once = urls.len() == count && kept == count as u64;
    let mut good = check(once, &format!("pages.jsonl has all {kept} pages, each once"))?;
    let expected = many_hosts::kept_pages();
    let missing = expected.iter().filter(|(host, path)| !urls.contains(server.url_of(host, path).as_str()));
    let missing = missing.count();
    good &= check(missing == 0, &format!("{missing} of the {} expected pages are missing", expected.len()))?;
    Ok(good)
}

/// The hosts were asked as they want to be, by their own account.
pub fn check_requests(server: &Server) -> Told<bool> {
    let log = server.log();
    let gap = log.smallest_gap().unwrap_or_default();
    let polite = format!(
        "no request came sooner than {} ms after the host's last response: {} requests, shortest pause {} ms",
        DELAY.as_millis(),
        log.len(),
        gap.as_millis()
    );
    let mut good = check(gap >= DELAY, &polite)?;
    let forbidden = log.only(|hit| hit.path.starts_with("/private/")).len();
    good &= check(forbidden == 0, "nothing that robots.txt disallows was requested")?;
    Ok(good)
}

/// The objects in the lines of a file.
pub fn pages_in(lines: &Path) -> Told<Vec<Value>> {
    let text = fs::read_to_string(lines).map_err(|error| format!("pages.jsonl: {error}"))?;
    let pages = text.lines().map(serde_json::from_str).collect::<Result<_, _>>();
    pages.map_err(|error| format!("pages.jsonl: {error}"))
}

/// A crawl that is shown, in a process of its own, which does not outlive this.
pub struct Shown(Child);

impl Shown {
    pub fn start(arguments: &[String]) -> Told<Shown> {
        Shown::of(arguments, |_| {})
    }

    /// The same, in a place of its own.
    pub fn of(arguments: &[String], put: impl FnOnce(&mut Command)) -> Told<Shown> {
        tell(&prompt(arguments))?;
        let mut command = command(arguments)?;
        put(&mut command);
        let child = command.stdin(Stdio::null()).spawn();
        child.map(Shown).map_err(|error| format!("the crawl cannot be started: {error}"))
    }

    /// Waits for something to be true while the crawl runs.
    pub async fn until(&mut self, is_true: impl Fn() -> bool) -> Told<()> {
        while !is_true() {
            if let Some(status) = self.ended()? {
                return Err(format!("the crawl ended too early ({status})"));
            }
            tokio::time::sleep(GLANCE).await;
        }
        Ok(())
    }

    pub async fn wait(mut self) -> Told<ExitStatus> {
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            tokio::time::sleep(GLANCE).await;
        }
    }

    fn ended(&mut self) -> Told<Option<ExitStatus>> {
        self.0.try_wait().map_err(|error| error.to_string())
    }

    /// SIGKILL: it has no chance to put anything in order.
    pub fn kill(self) {}
}

impl Drop for Shown {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// This very program, with other arguments.
pub fn command(arguments: &[String]) -> Told<Command> {
    let program =
        std::env::current_exe().map_err(|error| format!("this program cannot be found: {error}"))?;
    let mut command = Command::new(program);
    command.args(arguments);
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

pub fn check(is_true: bool, what: &str) -> Told<bool> {
    tell(&format!("  {} {what}\n", if is_true { "yes:" } else { "NO: " }))?;
    Ok(is_true)
}

pub fn tell(text: &str) -> Told<()> {
    if print_stdout(text) { Ok(()) } else { Err("nobody listens".into()) }
}
