//! `crawler demo --redis URL`: fifty hosts on loopback, four workers that share them, one of them killed, and what came
//! of it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use demoweb::{Server, many_hosts};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::stage::{
    DELAY, Shown, Told, check, check_pages, check_requests, command, pages_in, prompt, shown, tell,
};
use crate::args::Verbosity;

/// One of the workers is killed when the hosts have been asked so often: about half-way.
const KILLED_AFTER: usize = 250;

/// The worker that is killed.
const VICTIM: &str = "worker 2";

/// Runs the demonstration and returns its exit status: 0 only if everything it shows is as it should be.
pub async fn run(redis: String, verbosity: Verbosity) -> u8 {
    shown(demonstrate(redis, verbosity)).await
}

/// The hosts, the crawl, and where its output goes.
struct Stage {
    server: Server,
    /// There may be a password in it.
    redis: String,
    /// A name that no other crawl on that Redis has.
    crawl: String,
    directory: PathBuf,
}

async fn demonstrate(redis: String, verbosity: Verbosity) -> Told<bool> {
    let server = Server::start(many_hosts::answer).map_err(|error| error.to_string())?;
    let directory = tempfile::Builder::new().prefix("crawler-demo-").tempdir().map_err(|e| e.to_string())?;
    let name = directory.path().file_name().map(|name| name.to_string_lossy().into_owned());
    let crawl = name.unwrap_or_else(|| "crawler-demo".into());
    let stage = Stage { server, redis, crawl, directory: directory.path().to_owned() };
    let seed = stage.server.url_of(many_hosts::SEED, "/");
    tell(&format!("Serving fifty hosts on loopback, starting at {seed}.\nFour workers crawl them:\n"))?;

    let mut crawl = Shown::of(&crawl_arguments(&stage, &seed, verbosity), |command| stage.in_place(command))?;
    crawl.until(|| stage.server.hits() >= KILLED_AFTER).await?;
    let process = stage.process_of(VICTIM)?;
    kill_process(process, Signal::KILL).map_err(|error| format!("{VICTIM}: {error}"))?;
    let number = process.as_raw_nonzero();
    tell(&format!("\n{VICTIM} (pid {number}) was killed (kill -9). The crawl continues.\n\n"))?;
    let ended = crawl.wait().await?;

    tell("\nEach worker wrote its own part file. Merging them:\n")?;
    let collect = ["collect", "--of", "pages.jsonl"].map(str::to_owned);
    let collected = stage.run(&collect)?;
    tell("\nChecks:\n")?;
    let mut good = check(ended.success() && collected, "the crawl exited with status 0")?;
    let pages: Vec<Value> = pages_in(&stage.directory.join("pages.jsonl"))?;
    good &= check_pages(&stage.server, &stage.directory.join("summary.json"), &pages)?;
    good &= check_requests(&stage.server)?;

    tell("\nRemoving the crawl from Redis:\n")?;
    let purge = ["purge", "--crawl", &stage.crawl].map(str::to_owned);
    good &= stage.run(&purge)?;
    tell(&format!("\nThe pages are in {}\n", directory.keep().join("pages.jsonl").display()))?;
    Ok(good)
}

fn crawl_arguments(stage: &Stage, seed: &str, verbosity: Verbosity) -> Vec<String> {
    // Where Redis is comes from the environment: whoever looks at the list of processes needs not know.
    let mut arguments: Vec<String> = ["crawl", seed, "--resolve", "*=127.0.0.1", "--allow-private"]
        .into_iter()
        .map(str::to_owned)
        .chain(["--delay".into(), format!("{DELAY:?}"), "--crawl".into(), stage.crawl.clone()])
        .chain(["--redis", "--workers", "4", "--max-pages-per-host", "12"].map(str::to_owned))
        .chain(["--module", "jsonl=pages.jsonl", "--summary", "summary.json"].map(str::to_owned))
        .collect();
    if verbosity == Verbosity::Verbose {
        arguments.push("-v".into());
    }
    arguments
}

impl Stage {
    /// A command where the output goes, which knows where Redis is.
    fn in_place(&self, command: &mut Command) {
        command.current_dir(&self.directory).env("CRAWLER_REDIS", &self.redis);
    }

    /// Runs a command, shown as it would be typed; tells whether it went well.
    fn run(&self, arguments: &[String]) -> Told<bool> {
        tell(&prompt(arguments))?;
        let mut command = command(arguments)?;
        self.in_place(&mut command);
        let status = command.stdin(Stdio::null()).status().map_err(|error| error.to_string())?;
        Ok(status.success())
    }

    /// The process of a member of the crew.
    fn process_of(&self, role: &str) -> Told<Pid> {
        let mut command = command(&["status", "--json", "--crawl", &self.crawl].map(str::to_owned))?;
        self.in_place(&mut command);
        let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        let status: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
        let member = status["members"].as_array().and_then(|all| all.iter().find(|one| one["role"] == role));
        let process =
            member.and_then(|member| member["pid"].as_i64()).and_then(|number| number.try_into().ok());
        process.and_then(Pid::from_raw).ok_or_else(|| format!("{role} is not running"))
    }
}
