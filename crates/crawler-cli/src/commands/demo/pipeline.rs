//! `crawler demo --pipeline`: fifty hosts on loopback, a crawl of them that is killed and goes on, and what came of it.

use std::path::PathBuf;
use std::process::Stdio;

use crawler::StateReader;
use crawler::internal::backend::durable::UrlStatus;
use demoweb::{Server, many_hosts};
use url::Url;

use super::stage::{
    DELAY, Shown, Told, check, check_pages, check_requests, command, pages_in, prompt, shown, tell,
};
use crate::args::Verbosity;

/// The crawl is killed when the hosts have been asked so often: about half-way.
const KILLED_AFTER: usize = 250;

/// Runs the demonstration and returns its exit status: 0 only if everything it shows is as it should be.
pub async fn run(verbosity: Verbosity) -> u8 {
    shown(demonstrate(verbosity)).await
}

/// The hosts, and where the crawl keeps what it has.
struct Stage {
    server: Server,
    state: PathBuf,
    lines: PathBuf,
    summary: PathBuf,
}

async fn demonstrate(verbosity: Verbosity) -> Told<bool> {
    let server = Server::start(many_hosts::answer).map_err(|error| error.to_string())?;
    // Removed with everything in it, unless the demonstration comes to its end.
    let directory = tempfile::Builder::new().prefix("crawler-demo-").tempdir().map_err(|e| e.to_string())?;
    let place = |name: &str| directory.path().join(name);
    let [state, lines, summary] = ["state", "pages.jsonl", "summary.json"].map(place);
    let stage = Stage { server, state, lines, summary };
    let seed = stage.server.url_of(many_hosts::SEED, "/");
    tell(&format!(
        "Serving fifty hosts on loopback, starting at {seed}: an endless calendar and\nan endless maze, a mirror, a slow \
         host, a dead one, and pages that robots.txt disallows.\n"
    ))?;

    let mut crawl = Shown::start(&crawl_arguments(&stage, &seed, verbosity))?;
    crawl.until(|| stage.server.hits() >= KILLED_AFTER).await?;
    crawl.kill();
    tell(&format!("\nIt was killed (kill -9) after {} requests. Resuming it:\n", stage.server.hits()))?;

    let ended = Shown::start(&["resume".into(), stage.state.display().to_string()])?.wait().await?;
    tell("\nChecks:\n")?;
    let mut good = check(ended.success(), "the resumed crawl exited with status 0")?;
    let pages = pages_in(&stage.lines)?;
    good &= check_pages(&stage.server, &stage.summary, &pages)?;
    good &= check_requests(&stage.server)?;

    tell("\nThe outcome of a page, and how it was discovered:\n")?;
    let deepest = pages.iter().max_by_key(|page| page["depth"].as_u64());
    good &=
        why(&stage, deepest.and_then(|page| page["url"].as_str()).unwrap_or(&seed), "outcome: page ").await?;
    match near_duplicate(&stage)? {
        Some(url) => good &= why(&stage, &url, "outcome: near-duplicate of ").await?,
        None => good &= check(false, "one of two near-duplicates is skipped")?,
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

/// A page of the mirror or its original, whichever was met second.
fn near_duplicate(stage: &Stage) -> Told<Option<String>> {
    let mut stored = StateReader::open(&stage.state).map_err(|error| error.to_string())?;
    let (original, paths) = many_hosts::mirrored();
    for (host, path) in paths.iter().flat_map(|path| [("mirror.test", path), (original.as_str(), path)]) {
        let url = stage.server.url_of(host, path);
        let parsed = Url::parse(&url).map_err(|error| error.to_string())?;
        let why = stored.history(&parsed).map_err(|error| error.to_string())?;
        if let Some(UrlStatus::Completed { outcome, .. }) = why.map(|why| why.status)
            && outcome.starts_with("near-duplicate")
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
