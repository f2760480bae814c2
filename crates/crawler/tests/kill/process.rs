//! A crawl in a child process, which can be killed. The child is this test program, with its options in a variable.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crawler::internal::exchange::ArchiveSettings;
use crawler::internal::pipeline::CrawlReport;
use crawler::internal::pipeline::CrawlerInternals as _;
use crawler::internal::similarity::Threshold;
use crawler::{Crawler, Error};
use serde_json::{Value, json};

/// The environment variable with the options of the crawl.
const OPTIONS_VARIABLE: &str = "CRAWLER_TEST_DURABLE_CRAWL";

/// Not a test: the entry point of the child process.
#[test]
fn child_process_entry_point() {
    let Ok(options) = std::env::var(OPTIONS_VARIABLE) else { return };
    let options: Value = serde_json::from_str(&options).unwrap();
    match crawl(&options) {
        Ok(report) => {
            let snapshot = &report.snapshot;
            let counts = json!({
                "end": report.end.to_string(),
                "resumed": format!("{:?}", report.resumed),
                "admitted": snapshot.admitted,
                "completed": snapshot.completed,
                "refetches": snapshot.refetches,
                "outcomes": snapshot.outcomes,
                "pages": snapshot.pages,
            });
            if let Some(file) = options["report"].as_str() {
                std::fs::write(file, counts.to_string()).unwrap();
            }
            if let Some(failure) = report.output_failure {
                eprintln!("error: {failure:#}");
                std::process::exit(1);
            }
            std::process::exit(0);
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            std::process::exit(1);
        }
    }
}

fn crawl(options: &Value) -> Result<CrawlReport, Error> {
    let number = |name: &str| options[name].as_u64().unwrap();
    let mut crawler = Crawler::new(options["seed"].as_str().unwrap())?
        .configure(|config| {
            config.requests.dns_overrides = vec![("*".into(), [127, 0, 0, 1].into())];
            config.requests.allow_private = true;
            config.delay = Duration::from_millis(number("delay"));
            config.concurrency = number("concurrency") as usize;
            // So that kills hit the start of a file.
            let max_file_bytes = number("archive-file-bytes");
            config.archive = Some(ArchiveSettings { max_file_bytes, ..ArchiveSettings::default() });
        })
        .configure_backend(|config| {
            config.similarity = Threshold::new(options["similarity"].as_f64().unwrap());
            config.queue_size = number("queue-size") as usize;
        })
        .workers(number("workers") as u16)
        .max_pages(number("max-pages"))
        .state_dir(options["state"].as_str().unwrap());
    if let Some(depth) = options["max-depth"].as_u64() {
        crawler = crawler.max_depth(depth as u32);
    }
    for module in options["modules"].as_array().unwrap() {
        crawler = crawler.module_from_spec(module.as_str().unwrap())?;
    }
    crawler.run_blocking()
}

/// Runs a crawl with these options in a child process.
#[derive(Debug, Clone)]
pub struct CrawlCommand(pub Value);

impl CrawlCommand {
    /// A crawl with its state and its outputs in a directory.
    pub fn new(seed: &str, directory: &Path) -> CrawlCommand {
        let path = |name: &str| directory.join(name).display().to_string();
        let modules: Vec<String> = ["jsonl", "edges", "pages", "urls", "parquet", "graphml"]
            .iter()
            .map(|name| format!("{name}={}", path(name)))
            .chain([format!("warc={}", path("archive.warc.gz"))])
            .collect();
        CrawlCommand(json!({
            "seed": seed,
            "state": path("state"),
            "report": path("report"),
            "modules": modules,
            "delay": 20,
            "concurrency": 4,
            "workers": 2,
            "queue-size": 50,
            "similarity": 0.0,
            "max-pages": 1_000_000,
            "max-depth": null,
            "archive-file-bytes": 20_000,
        }))
    }

    pub fn set(mut self, name: &str, value: impl Into<Value>) -> CrawlCommand {
        self.0[name] = value.into();
        self
    }

    /// Maximum number of URLs between their request and their completion.
    pub fn in_flight(&self) -> usize {
        let number = |name: &str| self.0[name].as_u64().unwrap() as usize;
        2 * number("concurrency") * number("workers")
    }

    fn command(&self, mut command: Command) -> Command {
        command
            .args(["--exact", "process::child_process_entry_point", "--nocapture", "--test-threads=1"])
            .env(OPTIONS_VARIABLE, self.0.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// Starts the process.
    pub fn start(&self) -> Child {
        self.command(Command::new(std::env::current_exe().unwrap())).spawn().unwrap()
    }

    /// Runs the process to its end. Returns what it printed to standard error.
    pub fn run(&self) -> (ExitStatus, String) {
        wait(self.start())
    }

    /// Runs the process with a limit on the size of each file, which fails writes like a full file system.
    pub fn run_with_file_limit(&self, kilobytes: usize) -> (ExitStatus, String) {
        let mut shell = Command::new("bash");
        // With the signal ignored, the write returns an error.
        shell.args(["-c", "trap '' XFSZ; ulimit -f $0 && exec \"$@\"", &kilobytes.to_string()]);
        shell.arg(std::env::current_exe().unwrap());
        wait(self.command(shell).spawn().unwrap())
    }
}

/// Waits for a process to exit. Returns what it printed to standard error.
pub fn wait(process: Child) -> (ExitStatus, String) {
    let output = process.wait_with_output().unwrap();
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}
