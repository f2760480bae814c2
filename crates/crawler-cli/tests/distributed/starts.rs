//! What `crawl --redis`, `submit` and `status` do when a crawl starts, is refused, or has no process.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::{fs, path::Path};

use rustix::process::{Signal, kill_process};

use super::fixture::Fixture;
use super::process::{Process, run, texts};

const CHANGED: &str = "the crawl continues with changed options";

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_with_another_seed_is_refused_with_the_remedies() {
    let fixture = Fixture::new(2, 3);
    Process::start(fixture.crawl(1, &[])).wait_for_success();
    let (other, hits) = (fixture.web.url_of("h1.test", "/"), fixture.web.hits());
    let refuse = || {
        let output = run(fixture.crawler(&["crawl", &other, "--redis", "--module", "words"]));
        (output.status.code(), texts(&output).1)
    };
    let (status, stderr) = refuse();
    assert_eq!(status, Some(2), "{stderr}");
    for words in
        [&format!("{other} is none of its seeds"), "'crawler submit'", "--crawl NAME", "'crawler purge'"]
    {
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
    assert!(!stderr.contains(CHANGED), "nothing continues: {stderr}");
    assert_eq!(fixture.web.hits(), hits);

    // A submitted URL is a seed, too.
    fixture.submit(&other, &[]);
    let mut crawl = fixture.crawler(&["crawl", &other, "--redis"]);
    crawl.args(fixture.options()).args(["--module", "words"]);
    let output = Process::start(crawl).wait_for_success();
    assert!(output.contains(&format!("{CHANGED}: --module")), "{output}");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn failed_start_leaves_no_crawl() {
    let fixture = Fixture::new(2, 3);
    let file = |name: &str| fixture.directory.path().join(name);
    // A part file of an earlier crawl, and an output that no worker can create.
    fs::write(file("pages.1.jsonl"), "an earlier crawl").unwrap();
    let missing = format!("jsonl={}", Path::new("missing").join("pages.jsonl").display());
    for more in [&[][..], &["--overwrite", "--module", &missing]] {
        let (status, output) = Process::start(fixture.crawl(2, more)).wait();
        assert_eq!(status, Some(2), "{output}");
        let info = run(fixture.crawler(&["status"]));
        let stderr = texts(&info).1;
        assert_eq!(info.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("there is no crawl 'crawl' on Redis at redis://127.0.0.1:"), "{stderr}");
        assert_eq!(fixture.web.hits(), 0);
    }
    fs::remove_file(file("pages.1.jsonl")).unwrap();
    Process::start(fixture.crawl(2, &["--queue-size", "77"])).wait_for_success();
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn submit_and_status_name_the_processes_that_a_crawl_needs() {
    let fixture = Fixture::new(2, 3);
    let needed = "No process is running; start 'crawler frontier' and 'crawler worker'.\n";
    let submitted = fixture.submit(&fixture.seed(), &["--max-pages", "20", "--quiet"]);
    assert_eq!(submitted, "");
    let submitted = fixture.submit(&fixture.seed(), &[]);
    assert_eq!(submitted, format!("queued 1 URL for crawl 'crawl'\n{needed}"));
    let status = fixture.run(&["status"]);
    assert!(status.starts_with("Crawl 'crawl': waiting for processes\n"), "{status}");
    assert!(status.ends_with(needed), "{status}");

    let frontier = Process::start(fixture.crawler(&["frontier"]));
    fixture.wait_for_status("the frontier", |status| status["members"].as_array().unwrap().len() == 1);
    assert!(fixture.run(&["status"]).ends_with("No worker is running; start 'crawler worker'.\n"));
    // The quiet submit did not silence the processes of the crawl.
    let mut worker = Process::start(fixture.crawler(&["worker"]));
    worker.wait_for_output("its number", |output| output.contains("running as worker 0"));
    frontier.wait_for_success();
    worker.wait_for_success();
    assert!(fixture.run(&["status"]).starts_with("Crawl 'crawl': finished\n"));
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn interrupt_of_all_processes_is_reported_once() {
    let fixture = Fixture::slow(6, 12);
    let controller = fixture.start_crawl(2, &[]);
    for role in ["worker 0", "worker 1", "frontier"] {
        kill_process(fixture.process_of(role).unwrap(), Signal::INT).unwrap();
    }
    controller.signal(Signal::INT);
    let (status, output) = controller.wait();
    assert_eq!(status, Some(130), "{output}");
    assert_eq!(output.matches("press Ctrl-C again to stop now").count(), 1, "{output}");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn closed_standard_output_stops_a_crawl_that_writes_nowhere_else() {
    let fixture = Fixture::slow(6, 12);
    for (name, options) in [("pages", &["--module", "jsonl=-"][..]), ("outcomes", &["-v"])] {
        let mut crawl = fixture.crawler(&["crawl", &fixture.seed(), "--redis", "--workers", "2"]);
        crawl.args(["--crawl", name, "--resolve", "*=127.0.0.1", "--allow-private", "--delay", "150ms"]);
        let output = close_after_first_line(crawl.args(options));
        assert!(name == "outcomes" || output.contains("\nStopped: the reader closed"), "{output}");
        let status = fixture.run(&["status", "--crawl", name]);
        assert!(status.contains(": stopped"), "{status}");
    }
}

/// Closes standard output after the first line. The command must exit with status 0; returns its standard error.
fn close_after_first_line(command: &mut Command) -> String {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    stderr
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn worker_whose_standard_output_is_closed_leaves_its_urls_to_others() {
    let fixture = Fixture::slow(6, 12);
    let options = ["--resolve", "*=127.0.0.1", "--allow-private", "--delay", "150ms", "--module", "jsonl=-"];
    fixture.run(
        &[&["submit", &fixture.seed(), "--max-pages", "25", "--similarity", "0"][..], &options].concat(),
    );
    let frontier = Process::start(fixture.crawler(&["frontier", "--redis"]));
    let stderr = close_after_first_line(&mut fixture.crawler(&["worker", "--redis"]));
    assert!(stderr.contains("the reader closed standard output; leaving the crawl"), "{stderr}");
    let pages = fixture.status()["pages"].as_u64().unwrap();
    assert!(pages < 25, "{pages} pages before the worker noticed");
    Process::start(fixture.crawler(&["worker", "--redis"])).wait_for_success();
    frontier.wait_for_success();
    assert_eq!(fixture.status()["pages"], 25);
}
