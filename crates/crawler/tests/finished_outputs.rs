//! Outputs that are made at the end of a crawl: in memory and with a state, after stops, failures and changes of the outputs.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use crawler::internal::modules::BuiltinOutput;
use crawler::internal::modules::output::finish::{Finisher, Records, push_record};
use crawler::internal::modules::output::new_file::NewFile;
use crawler::internal::pipeline::CrawlerInternals as _;
use crawler::internal::pipeline::{CrawlEnd, ResumeStatus};
use crawler::{Crawler, OutputWrite, Page, StorageError, Target};
use testweb::{Site, Web};

/// The URLs of all pages, after their number.
struct Counted;

impl BuiltinOutput for Counted {
    fn name(&self) -> &str {
        "counted"
    }

    fn finisher(&self) -> Option<&dyn Finisher> {
        Some(self)
    }

    fn render(&self, page: &Page) -> OutputWrite {
        let mut bytes = Vec::new();
        push_record(&mut bytes, page.url.as_str().as_bytes());
        OutputWrite::Append(bytes)
    }
}

impl Finisher for Counted {
    fn finish(&self, records: &Records, target: &Path) -> Result<(), StorageError> {
        let (mut reader, mut record, mut urls) = (records.read()?, Vec::new(), Vec::new());
        while reader.next(&mut record)? {
            urls.push(String::from_utf8_lossy(&record).into_owned());
        }
        let mut file = NewFile::create(target)?;
        let written = writeln!(file, "{}\n{}", urls.len(), urls.join("\n"));
        written.map_err(|error| file.error(error))?;
        file.finish()
    }
}

/// A web of 30 pages, and a directory for the output and the state.
struct Fixture {
    web: Web,
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture {
            web: Web::builder().site(Site::seeded(11, 30)).start(),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn crawl(&self) -> Crawler {
        Crawler::new(&self.web.url("/"))
            .unwrap()
            .configure(|config| {
                config.requests.allow_private = true;
                config.requests.obey_robots = false;
                config.delay = Duration::ZERO;
            })
            .configure_backend(|config| config.similarity = None)
            .scope(crawler::Scope::hosts(&[self.web.url("/").parse().unwrap()]))
    }

    fn counting(&self) -> Crawler {
        self.crawl().builtin_output(Counted, Target::File(self.directory.path().join("counted")))
    }

    fn counting_durably(&self) -> Crawler {
        self.counting().state_dir(self.directory.path().join("state"))
    }

    /// Checks that the target has this many pages, each once.
    #[track_caller]
    fn assert_pages(&self, pages: u64) {
        let text = fs::read_to_string(self.directory.path().join("counted")).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(pages.to_string().as_str()));
        assert_eq!(lines.collect::<BTreeSet<_>>().len() as u64, pages);
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<_> = entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn crawl_in_memory_makes_the_target_and_removes_the_records() {
    let fixture = Fixture::new();
    let report = fixture.counting().run_blocking().unwrap();
    assert_eq!(report.end, CrawlEnd::Finished);
    fixture.assert_pages(report.snapshot.pages);
    assert_eq!(fixture.names(), ["counted"]);
    let requests = fixture.web.hits();
    let error = fixture.counting().run_blocking().unwrap_err().to_string();
    assert!(error.contains("counted': it already has"), "{error}");
    assert_eq!(fixture.web.hits(), requests, "nothing was fetched");
    let report = fixture.counting().overwrite(true).max_pages(5).run_blocking().unwrap();
    assert_eq!(report.snapshot.pages, 5);
    fixture.assert_pages(5);
}

#[test]
fn crawl_with_a_state_makes_the_target_again_after_each_run() {
    let fixture = Fixture::new();
    for pages in [3, 9, 9] {
        let report = fixture.counting_durably().max_pages(pages).run_blocking().unwrap();
        assert_eq!(report.snapshot.pages, pages);
        fixture.assert_pages(pages);
        assert_eq!(fixture.names(), ["counted", "counted.records", "state"]);
    }
    let report = fixture.counting_durably().run_blocking().unwrap();
    assert_eq!(report.end, CrawlEnd::Finished);
    fixture.assert_pages(report.snapshot.pages);
    fs::remove_file(fixture.directory.path().join("counted")).unwrap();
    let again = fixture.counting_durably().run_blocking().unwrap();
    assert_eq!(again.resumed, ResumeStatus::AlreadyFinished);
    fixture.assert_pages(report.snapshot.pages);
}

#[test]
fn file_that_another_program_makes_during_the_crawl_is_not_replaced() {
    for durable in [false, true] {
        let fixture = Fixture::new();
        let target = fixture.directory.path().join("counted");
        let crawl = || if durable { fixture.counting_durably() } else { fixture.counting() };
        let writes = |crawl: Crawler| {
            let target = target.clone();
            crawl.module(move |_: &Page| fs::write(&target, "precious").unwrap()).run_blocking().unwrap()
        };
        let report = writes(crawl());
        assert_eq!(report.end, CrawlEnd::OutputFailed);
        let failure = report.output_failure.unwrap().to_string();
        assert!(
            failure.contains("/counted': another program has written to it during the crawl;"),
            "{failure}"
        );
        assert!(
            failure.contains("its pages are kept in '") && failure.contains("counted.records'"),
            "{failure}"
        );
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
        // The records are complete.
        let records = Records::open(&fixture.directory.path().join("counted.records")).unwrap().unwrap();
        let made = fixture.directory.path().join("made");
        Counted.finish(&records, &made).unwrap();
        fs::rename(&made, &target).unwrap();
        fixture.assert_pages(report.snapshot.pages);
    }
    let fixture = Fixture::new();
    let target = fixture.directory.path().join("counted");
    let report = fixture.counting().overwrite(true).module(move |_: &Page| fs::write(&target, "x").unwrap());
    let report = report.run_blocking().unwrap();
    assert_eq!(report.end, CrawlEnd::Finished);
    fixture.assert_pages(report.snapshot.pages);
}

#[test]
fn target_that_cannot_be_made_is_a_failure_and_the_same_crawl_makes_it_later() {
    let fixture = Fixture::new();
    let obstacle = fixture.directory.path().join(".counted.unfinished");
    fs::create_dir(&obstacle).unwrap();
    let report = fixture.counting_durably().run_blocking().unwrap();
    assert_eq!(report.end, CrawlEnd::OutputFailed);
    let failure = report.output_failure.unwrap().to_string();
    assert!(
        failure.starts_with("cannot write to output file '") && failure.contains("/counted'"),
        "{failure}"
    );
    assert!(failure.contains("its pages are kept in '") && failure.contains("counted.records'"), "{failure}");
    fs::remove_dir(&obstacle).unwrap();
    let requests = fixture.web.hits();
    let again = fixture.counting_durably().run_blocking().unwrap();
    assert_eq!((again.end, again.resumed), (CrawlEnd::Finished, ResumeStatus::AlreadyFinished));
    assert_eq!(fixture.web.hits(), requests, "nothing was fetched again");
    fixture.assert_pages(report.snapshot.pages);

    let fixture = Fixture::new();
    fs::create_dir(fixture.directory.path().join(".counted.unfinished")).unwrap();
    let report = fixture.counting().run_blocking().unwrap();
    assert_eq!(report.end, CrawlEnd::OutputFailed);
    assert_eq!(
        fixture.names(),
        [".counted.unfinished", "counted.records"],
        "the records of a crawl in memory stay"
    );
}

#[test]
fn file_of_another_format_is_refused_on_resume() {
    let fixture = Fixture::new();
    fixture.counting_durably().max_pages(3).run_blocking().unwrap();
    let other = fixture.crawl().state_dir(fixture.directory.path().join("state"));
    let spec = format!("jsonl={}", fixture.directory.path().join("counted").display());
    let error = other.module_from_spec(&spec).unwrap().run_blocking().unwrap_err().to_string();
    assert!(error.contains("was written by counted, and would be written by jsonl now"), "{error}");
}
