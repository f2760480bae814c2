//! `crawler demo --pipeline`: crawls fifty hosts on loopback, kills the crawl, resumes it, and checks the result.

use std::path::PathBuf;
use std::process::Stdio;

use crawler::internal::backend::durable::{StateReader, UrlStatus};
use demoweb::{Server, many_hosts};
use url::Url;

use super::common::{
    DELAY, DemoProcess, DemoResult, check, check_pages, check_requests, command, pages_in, print, prompt,
    run_demo,
};
use crate::args::Verbosity;
use crate::commands::with_hint;

/// The crawl is killed after this many requests: about half-way.
const KILLED_AFTER: usize = 250;

/// Runs the demo and returns its exit status: 0 only if all checks succeed.
pub async fn run(verbosity: Verbosity) -> u8 {
    run_demo(demonstrate(verbosity)).await
}

/// The web, and the paths of the state and the outputs.
struct PipelineDemo {
    server: Server,
    state: PathBuf,
    lines: PathBuf,
    summary: PathBuf,
}

async fn demonstrate(verbosity: Verbosity) -> DemoResult<bool> {
    let server = Server::start(many_hosts::respond).map_err(|error| error.to_string())?;
    // Removed, unless the demo finishes.
    let directory = tempfile::Builder::new().prefix("crawler-demo-").tempdir().map_err(|e| e.to_string())?;
    let path = |name: &str| directory.path().join(name);
    let [state, lines, summary] = ["state", "pages.jsonl", "summary.json"].map(path);
    let demo = PipelineDemo { server, state, lines, summary };
    let seed = demo.server.url_of(many_hosts::SEED, "/");
    print(&format!(
        "Serving fifty hosts on loopback, starting at {seed}: an endless calendar and\nan endless maze, a mirror, a slow \
         host, a dead one, and pages that robots.txt disallows.\n"
    ))?;

    let mut crawl = DemoProcess::start(&crawl_arguments(&demo, &seed, verbosity))?;
    crawl.until(|| demo.server.hits() >= KILLED_AFTER).await?;
    crawl.kill();
    print(&format!("\nIt was killed (kill -9) after {} requests. Resuming it:\n", demo.server.hits()))?;

    let ended = DemoProcess::start(&["resume".into(), demo.state.display().to_string()])?.wait().await?;
    print("\nChecks:\n")?;
    let mut is_good = check(ended.success(), "the resumed crawl exited with status 0")?;
    let pages = pages_in(&demo.lines)?;
    is_good &= check_pages(&demo.server, &demo.summary, &pages)?;
    is_good &= check_requests(&demo.server)?;

    print("\nThe outcome of a page, and how it was discovered:\n")?;
    let deepest = pages.iter().max_by_key(|page| page["depth"].as_u64());
    is_good &=
        why(&demo, deepest.and_then(|page| page["url"].as_str()).unwrap_or(&seed), "outcome: page ").await?;
    match near_duplicate(&demo)? {
        Some(url) => is_good &= why(&demo, &url, "outcome: near-duplicate of ").await?,
        None => is_good &= check(false, "one of two near-duplicates is skipped")?,
    }
    print(&format!("\nEverything is in {}\n", directory.keep().display()))?;
    Ok(is_good)
}

fn crawl_arguments(demo: &PipelineDemo, seed: &str, verbosity: Verbosity) -> Vec<String> {
    let mut arguments: Vec<String> = ["crawl", seed, "--resolve", "*=127.0.0.1", "--allow-private"]
        .into_iter()
        .map(str::to_owned)
        .chain(["--delay".into(), format!("{DELAY:?}")])
        .chain(["--max-pages-per-host", "12", "--state"].map(str::to_owned))
        .collect();
    arguments.extend([
        demo.state.display().to_string(),
        "--module".into(),
        format!("jsonl={}", demo.lines.display()),
        "--summary".into(),
        demo.summary.display().to_string(),
    ]);
    if verbosity == Verbosity::Verbose {
        arguments.push("-v".into());
    }
    arguments
}

/// A page of the mirror or its original, whichever was fetched second.
fn near_duplicate(demo: &PipelineDemo) -> DemoResult<Option<String>> {
    let mut stored = StateReader::open(&demo.state).map_err(|error| with_hint(&error))?;
    let (original, paths) = many_hosts::mirrored();
    for (host, path) in paths.iter().flat_map(|path| [("mirror.test", path), (original.as_str(), path)]) {
        let url = demo.server.url_of(host, path);
        let parsed = Url::parse(&url).map_err(|error| error.to_string())?;
        let why = stored.history(&parsed).map_err(|error| with_hint(&error))?;
        if let Some(UrlStatus::Completed { outcome, .. }) = why.map(|why| why.status)
            && outcome.starts_with("near-duplicate")
        {
            return Ok(Some(url));
        }
    }
    Ok(None)
}

/// Prints the output of `crawler why` for a URL, which must contain these words.
async fn why(demo: &PipelineDemo, url: &str, words: &str) -> DemoResult<bool> {
    let arguments = ["why".into(), url.into(), "--state".into(), demo.state.display().to_string()];
    let mut command = command(&arguments)?;
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    print(&format!("{}{printed}", prompt(&arguments)))?;
    Ok(output.status.success() && printed.contains(words))
}
