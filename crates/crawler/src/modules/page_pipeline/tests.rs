use std::fs;
use std::path::Path;

use super::*;
use crate::modules::{BuiltinModule, BuiltinOutput, example};

/// Panics on every page whose URL contains this text.
struct Panicking(&'static str);

impl BuiltinModule for Panicking {
    fn name(&self) -> &str {
        "panicking"
    }

    fn process_page(&self, page: &Page) -> Result<(), String> {
        assert!(!page.url.as_str().contains(self.0), "failed on {}", page.url);
        Ok(())
    }

    fn finish(&self) -> Result<(), String> {
        panic!("failed in finish")
    }
}

impl BuiltinOutput for Panicking {
    fn name(&self) -> &str {
        "panicking"
    }

    fn render(&self, page: &Page) -> OutputWrite {
        assert!(!page.url.as_str().contains(self.0), "failed on {}", page.url);
        OutputWrite::File(page.url.as_str().into())
    }
}

fn page(path: &str) -> Page {
    example::page(&format!("http://a.test/{path}"), b"<p>", &[])
}

fn pipeline(modules: Vec<Box<dyn BuiltinModule>>, outputs: Vec<OutputSpec>) -> PagePipeline {
    let files = OutputFiles::open(&outputs, Start::Fresh).unwrap();
    PagePipeline::new(modules, outputs, files, Arc::new(|_, _| {}))
}

fn panicking_output(directory: &Path) -> OutputSpec {
    OutputSpec { output: Box::new(Panicking("bad")), target: Target::Directory(directory.join("out")) }
}

#[test]
fn panic_counts_as_a_failure_and_other_modules_get_the_page() {
    let seen = std::sync::Arc::new(Mutex::new(0));
    let count = std::sync::Arc::clone(&seen);
    let counting = move |_: &Page| *lock(&count) += 1;
    let pipeline = pipeline(vec![Box::new(Panicking("bad")), Box::new(counting)], Vec::new());
    for path in ["good", "bad", "better", "bad/again"] {
        pipeline.run_modules(&page(path));
    }
    assert_eq!((*lock(&seen), lock(&pipeline.counts).failures["panicking"]), (4, 2));
    let failure = lock(&pipeline.counts).last_failure.clone().unwrap();
    assert!(
        failure.contains("page_pipeline/tests.rs") && failure.ends_with("failed on http://a.test/bad/again"),
        "{failure}"
    );
    let (counts, _) = pipeline.finish();
    assert_eq!(counts.failures["panicking"], 3);
    assert!(pipeline.output_failure().is_none());
}

#[test]
fn panicking_output_fails_and_leaves_no_gap_in_the_page_numbers() {
    let directory = tempfile::tempdir().unwrap();
    let pipeline = pipeline(Vec::new(), vec![panicking_output(directory.path())]);
    let written = ["good", "bad", "better"].map(page).map(|page| pipeline.render(&page));
    for (id, writes) in (1..).zip(written) {
        pipeline.write(id, Some(id), writes);
    }
    let failure = pipeline.output_failure().unwrap().to_string();
    assert!(failure.starts_with("panicking cannot write http://a.test/bad: it panicked"), "{failure}");
    let file = |name: &str| fs::read(directory.path().join("out").join(name)).unwrap();
    assert_eq!([file("1"), file("2"), file("3")], [&b"http://a.test/good"[..], b"", b"http://a.test/better"]);
}

#[test]
fn flush_reports_no_position_after_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    let pipeline = pipeline(Vec::new(), vec![panicking_output(directory.path())]);
    pipeline.write(1, Some(1), vec![(0, OutputWrite::File(Vec::new()))]);
    let written = OutputPosition { sequence: 1, page: 1 };
    assert_eq!(pipeline.flush_outputs(true), Some((written, vec![0])));
    let obstacle = directory.path().join("out/2");
    fs::create_dir(&obstacle).unwrap();
    assert!(!pipeline.write(2, Some(2), vec![(0, OutputWrite::File(Vec::new()))]));
    fs::remove_dir(&obstacle).unwrap();
    assert_eq!(pipeline.flush_outputs(true), None, "although this flush would succeed");
    assert!(!pipeline.write(3, Some(3), vec![(0, OutputWrite::File(Vec::new()))]));
}

#[test]
fn page_after_a_missing_page_is_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    let waiting = pipeline(Vec::new(), vec![panicking_output(directory.path())]);
    assert!(waiting.write(2, Some(2), vec![(0, OutputWrite::File(Vec::new()))]));
    let expected = OutputPosition { sequence: 2, page: 2 };
    assert!(waiting.check_position(expected).is_err());
    assert!(waiting.check_position(OutputPosition::default()).is_ok());
    waiting.finish();
    let failure = waiting.output_failure().unwrap().to_string();
    assert_eq!(failure, "cannot write to the outputs: number 2 waits, and 1 was never written");
}
