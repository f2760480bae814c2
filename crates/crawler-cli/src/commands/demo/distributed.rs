//! `crawler demo --redis URL`: four workers crawl fifty hosts on loopback, one worker is killed, and the result is
//! checked.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crawler::internal::backend::redis::Address;
use demoweb::{Server, many_hosts};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::common::{
    DELAY, DemoProcess, DemoResult, check, check_pages, check_requests, command, pages_in, print, prompt,
    run_demo,
};
use crate::args::Verbosity;

/// A worker is killed after this many requests: about half-way.
const KILLED_AFTER: usize = 250;

/// The worker that is killed.
const KILLED_WORKER: &str = "worker 2";

/// Runs the demo and returns its exit status: 0 only if all checks succeed.
pub async fn run(redis: String, verbosity: Verbosity) -> u8 {
    run_demo(demonstrate(redis, verbosity)).await
}

/// The web, the crawl, and the directory of its output.
struct DistributedDemo {
    server: Server,
    /// It may contain a password.
    redis: String,
    /// A name that no other crawl on that Redis has.
    crawl: String,
    directory: PathBuf,
}

async fn demonstrate(redis: String, verbosity: Verbosity) -> DemoResult<bool> {
    let server = Server::start(many_hosts::respond).map_err(|error| error.to_string())?;
    let directory = tempfile::Builder::new().prefix("crawler-demo-").tempdir().map_err(|e| e.to_string())?;
    let name = directory.path().file_name().map(|name| name.to_string_lossy().into_owned());
    let crawl = name.unwrap_or_else(|| "crawler-demo".into());
    let demo = DistributedDemo { server, redis, crawl, directory: directory.path().to_owned() };
    let seed = demo.server.url_of(many_hosts::SEED, "/");
    let address = Address::parse(&demo.redis, None).map_err(|error| error.to_string())?;
    print(&format!("Serving fifty hosts on loopback, starting at {seed}.\nFour workers crawl them:\n"))?;
    // What the commands below need when they are typed. The address is shown without its password.
    print(&format!("\n$ cd {}\n$ export CRAWLER_REDIS={address}", demo.directory.display()))?;

    let mut crawl = DemoProcess::start_with(&crawl_arguments(&demo, &seed, verbosity), |command| {
        demo.configure(command)
    })?;
    crawl.until(|| demo.server.hits() >= KILLED_AFTER).await?;
    let process = demo.process_of(KILLED_WORKER)?;
    kill_process(process, Signal::KILL).map_err(|error| format!("{KILLED_WORKER}: {error}"))?;
    let number = process.as_raw_nonzero();
    print(&format!("\n{KILLED_WORKER} (pid {number}) was killed (kill -9). The crawl continues.\n\n"))?;
    let ended = crawl.wait().await?;

    print("\nEach worker wrote its own part file. Merging them:\n")?;
    let collect = ["collect", "--of", "pages.jsonl"].map(str::to_owned);
    let collected = demo.run(&collect)?;
    print("\nChecks:\n")?;
    let mut is_good = check(ended.success() && collected, "the crawl exited with status 0")?;
    let pages: Vec<Value> = pages_in(&demo.directory.join("pages.jsonl"))?;
    is_good &= check_pages(&demo.server, &demo.directory.join("summary.json"), &pages)?;
    is_good &= check_requests(&demo.server)?;

    print("\nRemoving the crawl from Redis:\n")?;
    let purge = ["purge", "--crawl", &demo.crawl].map(str::to_owned);
    is_good &= demo.run(&purge)?;
    print(&format!("\nThe pages are in {}\n", directory.keep().join("pages.jsonl").display()))?;
    Ok(is_good)
}

fn crawl_arguments(demo: &DistributedDemo, seed: &str, verbosity: Verbosity) -> Vec<String> {
    // The address of Redis is in the environment: other users can see the arguments of a process.
    let mut arguments: Vec<String> = ["crawl", seed, "--resolve", "*=127.0.0.1", "--allow-private"]
        .into_iter()
        .map(str::to_owned)
        .chain(["--delay".into(), format!("{DELAY:?}"), "--crawl".into(), demo.crawl.clone()])
        .chain(["--redis", "--workers", "4", "--max-pages-per-host", "12"].map(str::to_owned))
        .chain(["--module", "jsonl=pages.jsonl", "--summary", "summary.json"].map(str::to_owned))
        .collect();
    if verbosity == Verbosity::Verbose {
        arguments.push("-v".into());
    }
    arguments
}

impl DistributedDemo {
    /// Sets the output directory and the address of Redis for a command.
    fn configure(&self, command: &mut Command) {
        command.current_dir(&self.directory).env("CRAWLER_REDIS", &self.redis);
    }

    /// Prints a command as it would be typed, runs it, and returns whether it succeeded.
    fn run(&self, arguments: &[String]) -> DemoResult<bool> {
        print(&prompt(arguments))?;
        let mut command = command(arguments)?;
        self.configure(&mut command);
        let status = command.stdin(Stdio::null()).status().map_err(|error| error.to_string())?;
        Ok(status.success())
    }

    /// The pid of a role.
    fn process_of(&self, role: &str) -> DemoResult<Pid> {
        let mut command = command(&["status", "--json", "--crawl", &self.crawl].map(str::to_owned))?;
        self.configure(&mut command);
        let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        let status: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
        let member = status["members"].as_array().and_then(|all| all.iter().find(|one| one["role"] == role));
        let process =
            member.and_then(|member| member["pid"].as_i64()).and_then(|number| number.try_into().ok());
        process.and_then(Pid::from_raw).ok_or_else(|| format!("{role} is not running"))
    }
}
