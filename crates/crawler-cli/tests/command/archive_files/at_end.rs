//! The index and the WACZ file that a crawl with an archive leaves.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use tempfile::TempDir;
use testweb::{Site, Web};

use super::crawler;
use crate::archive_records::files;
use crate::common::{Crawl, serve};
use crate::pipeline::Pipeline;

fn crawl(web: &Web, archive: &Path) -> Pipeline {
    Pipeline::of(web.url("/")).with("--scope host --similarity 0").module("warc", archive)
}

/// Checks that the index has all records of the archive.
#[track_caller]
fn is_indexed(directory: &Path, stem: &str) -> usize {
    let names: Vec<String> =
        files(directory, stem, "warc.gz").iter().map(|file| file.display().to_string()).collect();
    let index = fs::read_to_string(directory.join(format!("{stem}.cdxj"))).unwrap();
    assert_eq!(index, crawler(&format!("index {}", names.join(" "))).expect(0).stdout);
    assert!(fs::read_dir(directory).unwrap().all(|entry| {
        let name = entry.unwrap().file_name();
        !name.to_string_lossy().contains("unfinished")
    }));
    index.lines().count()
}

#[test]
fn crawl_that_ends_stops_or_is_resumed_leaves_an_index_of_all_records() {
    let directory = TempDir::new().unwrap();
    let web = serve(Site::seeded(3, 60));
    let archive = directory.path().join("site.warc.gz");
    let state = format!("--state {} --warc-size 10KB --wacz", directory.path().join("state").display());
    crawl(&web, &archive).with(&state).with("--max-pages 10").run().expect(0);
    let first = is_indexed(directory.path(), "site");
    let mut running = crawl(&web, &archive).with(&state).with("--max-pages 10000 --delay 20ms").start();
    let goal = web.hits() + 10;
    running.until("some requests", |_| web.hits() >= goal);
    running.signal(Signal::INT);
    running.wait().expect(130);
    let second = is_indexed(directory.path(), "site");
    assert!(second > first);
    crawl(&web, &archive).with(&state).with("--max-pages 10000").run().expect(0);
    assert!(is_indexed(directory.path(), "site") > second);
    let wacz = directory.path().join("site.wacz").display().to_string();
    let pages = crawler(&format!("replay {wacz} --quiet --similarity 0 --module jsonl=-")).expect(0).stdout;
    assert!(pages.lines().count() > 40, "{}", pages.lines().count());
    // Without it, the file is as it was.
    let before = fs::read(&wacz).unwrap();
    crawl(&web, &directory.path().join("memory")).run().expect(0);
    is_indexed(directory.path(), "memory");
    assert!(!directory.path().join("memory.wacz").exists());
    assert_eq!(fs::read(&wacz).unwrap(), before);
}

#[test]
fn classic_crawl_leaves_an_index_and_a_wacz_file() {
    let directory = TempDir::new().unwrap();
    let web = serve(Site::seeded(4, 20));
    let archive = directory.path().join("classic");
    Crawl::of(web.url("/")).with(&format!("--warc {} --wacz", archive.display())).run().expect(0);
    assert_eq!(is_indexed(directory.path(), "classic"), web.hits());
    let replayed = crawler(&format!("replay {}.wacz --quiet --module jsonl=-", archive.display())).expect(0);
    assert!(replayed.stdout.lines().count() > 10, "{}", replayed.stdout);
}

#[test]
fn index_that_cannot_be_made_is_a_failure_that_costs_nothing_else() {
    let directory = TempDir::new().unwrap();
    let web = serve(Site::seeded(5, 20));
    // A directory has the temporary name of the index.
    let blocked = directory.path().join(".site.cdxj.unfinished");
    fs::create_dir(&blocked).unwrap();
    let state = format!("--state {}", directory.path().join("state").display());
    let archive = directory.path().join("site.warc.gz");
    let ended = crawl(&web, &archive).with(&state).run().expect(3);
    let cause =
        "the archive itself is complete: make the file from it later ('crawler index', 'crawler wacz')";
    assert!(ended.stderr.contains("site.cdxj'") && ended.stderr.contains(cause), "{}", ended.stderr);
    fs::remove_dir(&blocked).unwrap();
    let file = directory.path().join("site-00001.warc.gz").display().to_string();
    let index = crawler(&format!("index {file}")).expect(0).stdout;
    assert_eq!(index.lines().count(), web.hits());
    // A resume makes what is missing.
    crawl(&web, &archive).with(&state).run().expect(0);
    is_indexed(directory.path(), "site");
}

#[test]
fn files_of_others_are_not_replaced_unasked() {
    let directory = TempDir::new().unwrap();
    let web = serve(Site::seeded(6, 5));
    let path = |name: &str| -> PathBuf { directory.path().join(name) };
    for name in ["site.cdxj", "site.wacz"] {
        fs::write(path(name), "precious").unwrap();
        let refused = crawl(&web, &path("site.warc.gz")).with("--wacz").run().expect(2);
        assert!(refused.stderr.contains(&format!("{name}': it already has 8 bytes")), "{}", refused.stderr);
        assert_eq!((fs::read(path(name)).unwrap(), web.hits()), (b"precious".to_vec(), 0));
        fs::remove_file(path(name)).unwrap();
    }
    for (options, cause) in [
        (format!("--module jsonl={}", path("site.cdxj").display()), "write the same file"),
        (format!("--wacz --summary {}", path("site.wacz").display()), "write the same file"),
    ] {
        let refused = crawl(&web, &path("site.warc.gz")).with(&options).run().expect(2);
        assert!(refused.stderr.contains(cause), "{}", refused.stderr);
    }
    crawl(&web, &path("site.warc.gz")).run().expect(0);
    crawl(&web, &path("site.warc.gz")).with("--overwrite").run().expect(0);
    is_indexed(directory.path(), "site");
}

#[test]
fn wacz_needs_an_archive_that_its_readers_know() {
    let seed = "http://127.0.0.1:1/";
    for (crawl, cause) in [
        (Pipeline::of(seed).with("--wacz"), "--wacz needs --module warc=FILE"),
        (
            Pipeline::of(seed).with("--wacz --module warc=/tmp/x.warc.zst"),
            "--wacz needs an archive without zstd",
        ),
        (
            Pipeline::of(seed).with("--wacz --module warc=x --redis redis://127.0.0.1/"),
            "use 'crawler collect --wacz'",
        ),
    ] {
        let refused = crawl.run().expect(2);
        assert!(refused.stderr.contains(cause), "{}", refused.stderr);
    }
    let refused = Crawl::of(seed).with("--wacz").run().expect(2);
    assert!(refused.stderr.contains("--wacz needs --warc FILE"), "{}", refused.stderr);
}

#[test]
fn page_whose_body_is_not_stored_is_shown_from_the_archive() {
    let directory = TempDir::new().unwrap();
    let site = Site::new().page("/", "<a href=/x>x</a><a href=/none>").page("/x", "<p>the archived page");
    let web = serve(site);
    let state = directory.path().join("state").display().to_string();
    let archive = directory.path().join("site.warc.gz");
    crawl(&web, &archive).with(&format!("--no-content --state {state}")).run().expect(0);
    let shown = crawler(&format!("show {} --state {state}", web.url("/x"))).expect(0);
    assert_eq!(shown.stdout, "<p>the archived page");
    // An error page is in the archive, but it is no page of the crawl.
    let missing = crawler(&format!("show {} --state {state}", web.url("/none"))).expect(1);
    assert!(missing.stderr.contains("HTTP 404"), "{}", missing.stderr);
    for file in files(directory.path(), "site", "warc.gz") {
        fs::remove_file(file).unwrap();
    }
    let missing = crawler(&format!("show {} --state {state}", web.url("/x"))).expect(1);
    assert!(missing.stderr.contains("--no-content"), "{}", missing.stderr);
}
