//! A crawl whose state is on disk, told everything on its command line: end it in any way, start it again, and it goes
//! on where it was.
//!
//!     cargo run --example durable_crawl -- http://localhost:8000/ state=DIR jsonl=FILE edges=FILE pages=DIR
//!
//! `workers=`, `concurrency=`, `delay=` (milliseconds), `max-pages=`, `similarity=`, `queue-size=` and `resolve=` (an
//! address for every host, private or not) set what they name; `report` prints the counts at the end as JSON.

use std::process::ExitCode;
use std::time::Duration;

use crawler::config::Resolve;
use crawler::worker::similarity::Threshold;
use crawler::{Crawler, Error};

fn main() -> ExitCode {
    match crawl() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("durable_crawl: {error}");
            ExitCode::FAILURE
        }
    }
}

fn crawl() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let mut crawler = Crawler::new(&arguments.next().unwrap_or_default())?;
    let mut report_wanted = false;
    for argument in arguments {
        let (name, value) = argument.split_once('=').unwrap_or((&argument, ""));
        crawler = match name {
            "report" => {
                report_wanted = true;
                crawler
            }
            "state" => crawler.state(value),
            "jsonl" | "edges" | "pages" => crawler.named_module(&argument)?,
            "workers" => crawler.workers(number(name, value)?),
            "max-pages" => crawler.max_pages(number(name, value)?),
            "concurrency" => {
                let concurrency = number(name, value)?;
                crawler.configure(|config| config.concurrency = concurrency)
            }
            "delay" => {
                let delay = Duration::from_millis(number(name, value)?);
                crawler.configure(|config| config.delay = delay)
            }
            "similarity" => {
                let threshold = Threshold::new(number(name, value)?);
                crawler.settings(|settings| settings.similarity = threshold)
            }
            "queue-size" => {
                let size = number(name, value)?;
                crawler.settings(|settings| settings.queue_size = size)
            }
            "resolve" => {
                let address = number(name, value)?;
                crawler.configure(|config| {
                    config.resolve = vec![Resolve { host: "*".into(), address }];
                    config.allow_private = true;
                })
            }
            other => return Err(Error::Setting(format!("there is no setting '{other}'"))),
        };
    }
    let report = crawler.run()?;
    if let Some(failure) = report.output_failure {
        return Err(Error::Setting(failure));
    }
    if report_wanted {
        let snapshot = &report.snapshot;
        let counts = serde_json::json!({
            "end": report.end.to_string(),
            "resumed": format!("{:?}", report.resumed),
            "admitted": snapshot.admitted,
            "completed": snapshot.completed,
            "outcomes": snapshot.outcomes,
            "pages": snapshot.pages,
            "bytes": snapshot.bytes,
        });
        println!("{counts}");
    }
    Ok(())
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, Error> {
    value.parse().map_err(|_| Error::Setting(format!("{name} is a number or an address, not '{value}'")))
}
