//! A crawl in a process of its own, which can be killed: this very program, told by a variable what to do.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crawler::internal::config::DnsOverride;
use crawler::internal::pipeline::CrawlReport;
use crawler::internal::pipeline::CrawlerInternals as _;
use crawler::internal::similarity::Threshold;
use crawler::{Crawler, Error};
use serde_json::{Value, json};

/// The variable.
const TOLD: &str = "CRAWLER_TEST_DURABLE_CRAWL";

/// Not a test: what the processes do.
#[test]
fn a_process_that_crawls_as_it_is_told() {
    let Ok(told) = std::env::var(TOLD) else { return };
    let told: Value = serde_json::from_str(&told).unwrap();
    match crawl(&told) {
        Ok(report) => {
            let snapshot = &report.snapshot;
            let counts = json!({
                "end": report.end.to_string(),
                "resumed": format!("{:?}", report.resumed),
                "admitted": snapshot.admitted,
                "completed": snapshot.completed,
                "revisits": snapshot.revisits,
                "outcomes": snapshot.outcomes,
                "pages": snapshot.pages,
            });
            if let Some(file) = told["report"].as_str() {
                std::fs::write(file, counts.to_string()).unwrap();
            }
            if let Some(failure) = report.output_failure {
                eprintln!("error: {failure}");
                std::process::exit(1);
            }
            std::process::exit(0);
        }
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    }
}

fn crawl(told: &Value) -> Result<CrawlReport, Error> {
    let number = |name: &str| told[name].as_u64().unwrap();
    let mut crawler = Crawler::new(told["seed"].as_str().unwrap())?
        .configure(|config| {
            config.dns_overrides = vec![DnsOverride { host: "*".into(), address: [127, 0, 0, 1].into() }];
            config.allow_private = true;
            config.delay = Duration::from_millis(number("delay"));
            config.concurrency = number("concurrency") as usize;
        })
        .configure_backend(|settings| {
            settings.similarity = Threshold::new(told["similarity"].as_f64().unwrap());
            settings.queue_size = number("queue-size") as usize;
        })
        .workers(number("workers") as u16)
        .max_pages(number("max-pages"))
        .state_dir(told["state"].as_str().unwrap());
    if let Some(depth) = told["max-depth"].as_u64() {
        crawler = crawler.max_depth(depth as u32);
    }
    for module in told["modules"].as_array().unwrap() {
        crawler = crawler.module_from_spec(module.as_str().unwrap())?;
    }
    crawler.run_blocking()
}

/// What a crawl is told.
#[derive(Debug, Clone)]
pub struct Orders(pub Value);

impl Orders {
    /// A crawl with its state and its outputs in a directory.
    pub fn new(seed: &str, directory: &Path) -> Orders {
        let place = |name: &str| directory.join(name).display().to_string();
        let modules: Vec<String> =
            ["jsonl", "edges", "pages"].iter().map(|name| format!("{name}={}", place(name))).collect();
        Orders(json!({
            "seed": seed,
            "state": place("state"),
            "report": place("report"),
            "modules": modules,
            "delay": 20,
            "concurrency": 4,
            "workers": 2,
            "queue-size": 50,
            "similarity": 0.0,
            "max-pages": 1_000_000,
            "max-depth": null,
        }))
    }

    pub fn set(mut self, name: &str, value: impl Into<Value>) -> Orders {
        self.0[name] = value.into();
        self
    }

    /// The most URLs that are between their request and their completion.
    pub fn in_flight(&self) -> usize {
        let number = |name: &str| self.0[name].as_u64().unwrap() as usize;
        2 * number("concurrency") * number("workers")
    }

    fn command(&self, mut command: Command) -> Command {
        command
            .args([
                "--exact",
                "process::a_process_that_crawls_as_it_is_told",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(TOLD, self.0.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// Starts it.
    pub fn start(&self) -> Child {
        self.command(Command::new(std::env::current_exe().unwrap())).spawn().unwrap()
    }

    /// Runs it to its end; tells what it said.
    pub fn run(&self) -> (ExitStatus, String) {
        ended(self.start())
    }

    /// Runs it where no file may have more than so many kB, which a file system does that is full.
    pub fn run_confined(&self, kilobytes: usize) -> (ExitStatus, String) {
        let mut shell = Command::new("bash");
        // Ignored, the signal leaves the error of the write to the process.
        shell.args(["-c", "trap '' XFSZ; ulimit -f $0 && exec \"$@\"", &kilobytes.to_string()]);
        shell.arg(std::env::current_exe().unwrap());
        ended(self.command(shell).spawn().unwrap())
    }
}

/// Waits for the end of a process; tells what it said.
pub fn ended(process: Child) -> (ExitStatus, String) {
    let output = process.wait_with_output().unwrap();
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}
