//! `crawler demo --pipeline`: fifty hosts on loopback, a crawl of them that is killed and goes on, and what came of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crawler::Stored;
use crawler::resources::durable::Fate;
use serde_json::Value;
use testweb::{DEMO_SEED, Web, demo_hosts, demo_mirrored, demo_pages};
use tokio::signal::unix::{SignalKind, signal};
use url::Url;

use crate::args::Verbosity;
use crate::printable::{complain, say};
use crate::{EXIT_FAILED, EXIT_INTERRUPTED, EXIT_TERMINATED};

/// What every host is given between two requests.
const DELAY: Duration = Duration::from_millis(400);

/// The crawl is killed when the hosts have been asked so often: about half-way.
const KILLED_AFTER: usize = 250;

/// How often the crawl is looked at.
const GLANCE: Duration = Duration::from_millis(10);

type Told<T> = Result<T, String>;

/// Runs the demonstration and returns its exit status: 0 only if everything it shows is as it should be.
pub async fn run(verbosity: Verbosity) -> u8 {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        complain("the demonstration cannot run: signals cannot be listened for");
        return EXIT_FAILED;
    };
    // Whichever ends first, the others are dropped, and with them the crawl that is under way.
    let shown = tokio::select! {
        shown = demonstrate(verbosity) => shown.map_err(|error| (EXIT_FAILED, error)),
        _ = interrupt.recv() => Err((EXIT_INTERRUPTED, "it was ended".into())),
        _ = terminate.recv() => Err((EXIT_TERMINATED, "it was ended".into())),
    };
    match shown {
        Ok(true) => 0,
        Ok(false) => {
            complain("the demonstration shows that something is wrong");
            EXIT_FAILED
        }
        Err((status, error)) => {
            complain(&format!("the demonstration did not come to its end: {error}"));
            status
        }
    }
}

/// The web, and where the crawl keeps what it has.
struct Stage {
    web: Web,
    state: PathBuf,
    lines: PathBuf,
    summary: PathBuf,
}

async fn demonstrate(verbosity: Verbosity) -> Told<bool> {
    let web = demo_hosts().try_start().map_err(|error| error.to_string())?;
    // Removed with everything in it, unless the demonstration comes to its end.
    let directory = tempfile::Builder::new().prefix("crawler-demo-").tempdir().map_err(|e| e.to_string())?;
    let place = |name: &str| directory.path().join(name);
    let [state, lines, summary] = ["state", "pages.jsonl", "summary.json"].map(place);
    let stage = Stage { web, state, lines, summary };
    let seed = stage.web.url_of(DEMO_SEED, "/");
    tell(&format!(
        "Fifty hosts are being served on loopback, behind {seed}: a calendar and a maze\nwithout end, a mirror, a \
         slow host, a dead one, and pages that robots.txt forbids.\n"
    ))?;

    let mut crawl = Shown::start(&crawl_arguments(&stage, &seed, verbosity))?;
    crawl.until(|| stage.web.hits() >= KILLED_AFTER).await?;
    crawl.kill();
    tell(&format!("\nIt was killed (kill -9) after {} requests. It goes on:\n", stage.web.hits()))?;

    let ended = Shown::start(&["resume".into(), stage.state.display().to_string()])?.wait().await?;
    tell("\nWhat came of it:\n")?;
    let mut good = check(ended.success(), "it ended by itself, with exit status 0")?;
    let pages = pages_in(&stage.lines)?;
    good &= check_pages(&stage, &pages)?;
    good &= check_requests(&stage.web)?;

    tell("\nWhat became of a page, and why:\n")?;
    let deepest = pages.iter().max_by_key(|page| page["depth"].as_u64());
    good &= why(&stage, deepest.and_then(|page| page["url"].as_str()).unwrap_or(&seed), "kept").await?;
    match near_duplicate(&stage)? {
        Some(url) => good &= why(&stage, &url, "near duplicate of").await?,
        None => good &= check(false, "of two pages alike one is dropped")?,
    }
    tell(&format!("\nEverything is in {}\n", directory.keep().display()))?;
    Ok(good)
}

fn crawl_arguments(stage: &Stage, seed: &str, verbosity: Verbosity) -> Vec<String> {
    let mut arguments: Vec<String> = ["crawl", seed, "--resolve", "*=127.0.0.1", "--allow-private"]
        .into_iter()
        .map(str::to_owned)
        .chain(["--delay".into(), format!("{DELAY:?}")])
        .chain(["--max-pages-per-host", "12", "--state"].map(str::to_owned))
        .collect();
    arguments.extend([
        stage.state.display().to_string(),
        "--module".into(),
        format!("jsonl={}", stage.lines.display()),
        "--summary".into(),
        stage.summary.display().to_string(),
    ]);
    if verbosity == Verbosity::Verbose {
        arguments.push("-v".into());
    }
    arguments
}

/// Every page is there, and once.
fn check_pages(stage: &Stage, pages: &[Value]) -> Told<bool> {
    let urls: BTreeSet<&str> = pages.iter().filter_map(|page| page["url"].as_str()).collect();
    let summary = fs::read(&stage.summary).map_err(|error| format!("the summary: {error}"))?;
    let summary: Value = serde_json::from_slice(&summary).map_err(|error| format!("the summary: {error}"))?;
    let (count, kept) = (pages.len(), summary["pages"].as_u64().unwrap_or(0));
    let once = urls.len() == count && kept == count as u64;
    let mut good = check(once, &format!("the {kept} pages kept are in pages.jsonl, each of them once"))?;
    let expected = demo_pages();
    let missing =
        expected.iter().filter(|(host, path)| !urls.contains(stage.web.url_of(host, path).as_str()));
    let missing = missing.count();
    good &= check(
        missing == 0,
        &format!("of the {} pages that must be there, {missing} are missing", expected.len()),
    )?;
    Ok(good)
}

/// The hosts were asked as they want to be, by their own account.
fn check_requests(web: &Web) -> Told<bool> {
    let log = web.log();
    let gap = log.smallest_gap().unwrap_or_default();
    let polite = format!(
        "no host was asked sooner than {} ms after its last answer: {} requests, the shortest pause {} ms",
        DELAY.as_millis(),
        log.len(),
        gap.as_millis()
    );
    let mut good = check(gap >= DELAY, &polite)?;
    let forbidden = log.only(|hit| hit.path.starts_with("/private/")).len();
    good &= check(forbidden == 0, "what robots.txt forbids was not asked for")?;
    Ok(good)
}

/// A page of the mirror or its original, whichever was met second.
fn near_duplicate(stage: &Stage) -> Told<Option<String>> {
    let mut stored = Stored::open(&stage.state).map_err(|error| error.to_string())?;
    let (original, paths) = demo_mirrored();
    for (host, path) in paths.iter().flat_map(|path| [("mirror.test", path), (original.as_str(), path)]) {
        let url = stage.web.url_of(host, path);
        let parsed = Url::parse(&url).map_err(|error| error.to_string())?;
        let why = stored.why(&parsed).map_err(|error| error.to_string())?;
        if let Some(Fate::Ended { outcome, .. }) = why.map(|why| why.fate)
            && outcome.starts_with("near duplicate")
        {
            return Ok(Some(url));
        }
    }
    Ok(None)
}

/// Shows what `crawler why` tells about a URL, which should have these words in it.
async fn why(stage: &Stage, url: &str, words: &str) -> Told<bool> {
    let arguments = ["why".into(), url.into(), "--state".into(), stage.state.display().to_string()];
    let mut command = command(&arguments)?;
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    tell(&format!("{}{told}", prompt(&arguments)))?;
    Ok(output.status.success() && told.contains(words))
}

fn pages_in(lines: &Path) -> Told<Vec<Value>> {
    let text = fs::read_to_string(lines).map_err(|error| format!("pages.jsonl: {error}"))?;
    let pages = text.lines().map(serde_json::from_str).collect::<Result<_, _>>();
    pages.map_err(|error| format!("pages.jsonl: {error}"))
}

/// A crawl that is shown, in a process of its own, which does not outlive this.
struct Shown(Child);

impl Shown {
    fn start(arguments: &[String]) -> Told<Shown> {
        tell(&prompt(arguments))?;
        let child = command(arguments)?.stdin(Stdio::null()).spawn();
        child.map(Shown).map_err(|error| format!("the crawl cannot be started: {error}"))
    }

    /// Waits for something to be true while the crawl runs.
    async fn until(&mut self, is_true: impl Fn() -> bool) -> Told<()> {
        while !is_true() {
            if let Some(status) = self.ended()? {
                return Err(format!("the crawl ended too early ({status})"));
            }
            tokio::time::sleep(GLANCE).await;
        }
        Ok(())
    }

    async fn wait(mut self) -> Told<ExitStatus> {
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
    fn kill(self) {}
}

impl Drop for Shown {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// This very program, with other arguments.
fn command(arguments: &[String]) -> Told<Command> {
    let program =
        std::env::current_exe().map_err(|error| format!("this program cannot be found: {error}"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// A command as it would be typed.
fn prompt(arguments: &[String]) -> String {
    let typed = arguments.iter().map(|argument| match argument.contains('*') {
        true => format!("'{argument}'"),
        false => argument.clone(),
    });
    format!("\n$ crawler {}\n", typed.collect::<Vec<_>>().join(" "))
}

fn check(is_true: bool, what: &str) -> Told<bool> {
    tell(&format!("  {} {what}\n", if is_true { "yes:" } else { "NO: " }))?;
    Ok(is_true)
}

fn tell(text: &str) -> Told<()> {
    if say(text) { Ok(()) } else { Err("nobody listens".into()) }
}
