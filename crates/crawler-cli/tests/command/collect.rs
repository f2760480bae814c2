//! `crawler collect`: merges the part files of workers.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crawler::internal::config::FetchConfig;
use crawler::internal::exchange::ArchiveSettings;
use crawler::internal::modules::edges::Edges;
use crawler::internal::modules::output::parts::{CrawlIdentity, Parts};
use crawler::internal::modules::pages::Pages;
use crawler::internal::modules::registry::{self, RegisteredModule};
use crawler::internal::modules::{OutputSpec, OutputWrite, Target};
use tempfile::TempDir;

use crate::archive_records::files;
use crate::common::{Ended, binary, executable, names, run};
use crate::replay::archives::{gzip, page};

/// The part files of two outputs of a crawl.
struct Crawled(TempDir);

impl Crawled {
    /// Two workers: the first wrote page 2 and crashed, and the second wrote it again.
    fn new() -> Crawled {
        let crawled = Crawled(tempfile::tempdir().unwrap());
        crawled.worker(1, "example", &[(3, 1), (2, 1)]);
        crawled.worker(2, "example", &[(1, 1), (2, 2)]);
        crawled
    }

    fn worker(&self, worker: u16, crawl: &str, leases: &[(u64, u64)]) {
        let specs = [
            OutputSpec { output: Box::<Edges>::default(), target: Target::File(self.path("edges.csv")) },
            OutputSpec { output: Box::new(Pages), target: Target::Directory(self.path("pages")) },
        ];
        let crawl = CrawlIdentity { name: crawl.into(), id: "1".into() };
        let mut parts = Parts::open(&specs, worker, &crawl, false).unwrap();
        for (task_id, lease_id) in leases {
            let bytes = |what: &str| format!("{what} {task_id}, lease {lease_id}\n").into_bytes();
            let writes = [(0, OutputWrite::Append(bytes("edge"))), (1, OutputWrite::File(bytes("page")))];
            parts.add(*task_id, *lease_id, &writes).unwrap();
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs `crawler collect` with these arguments, with all parts and outputs in the directory.
    fn collect(&self, parts: &[&str], output: &str, options: &[&str]) -> Ended {
        let path = |name: &&str| self.path(name).display().to_string();
        let mut arguments = vec!["collect".to_owned()];
        arguments.extend(parts.iter().map(path));
        arguments.extend(["--output".into(), if output == "-" { "-".into() } else { path(&output) }]);
        arguments.extend(options.iter().map(|option| (*option).to_owned()));
        run(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

const EDGES: &str = "from,to\nedge 1, lease 1\nedge 2, lease 2\nedge 3, lease 1\n";

#[test]
fn collect_yields_each_page_once_and_reports_what_it_left_out() {
    let crawled = Crawled::new();
    let printed = "merged 3 pages from 2 part files; left out 1 repeated page\n";
    let ended = crawled.collect(&["edges.1.csv", "edges.2.csv"], "edges.csv", &[]).expect(0);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), (printed, ""));
    assert_eq!(text(crawled.path("edges.csv")), EDGES);
    let ended = crawled.collect(&["pages.2", "pages.1"], "pages", &[]).expect(0);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), (printed, ""));
    let mut pages = names(&crawled.path("pages"));
    pages.sort();
    assert_eq!(pages, ["1", "2", "3"]);
    assert_eq!(text(crawled.path("pages/2")), "page 2, lease 2\n");

    // A crash left an incomplete page.
    let part = crawled.path("edges.1.csv");
    fs::write(&part, text(&part) + "half an e").unwrap();
    let ended = crawled.collect(&["edges.1.csv"], "one.csv", &[]).expect(0);
    assert_eq!(ended.stdout, "merged 2 pages from 1 part file; left out 9 bytes of an incomplete page\n");
    assert_eq!(text(crawled.path("one.csv")), "from,to\nedge 2, lease 1\nedge 3, lease 1\n");
}

#[test]
fn parts_of_an_output_are_found_by_its_name() {
    let crawled = Crawled::new();
    crawled.worker(3, "example", &[]);
    let collected = |name: &str, options: &[&str]| {
        let path = crawled.path(name).display().to_string();
        run(&[&["collect", "--of", &path], options].concat())
    };
    assert!(collected("edges.csv", &[]).expect(0).stdout.starts_with("merged 3 pages from 3 part files;"));
    assert_eq!(text(crawled.path("edges.csv")), EDGES);
    assert!(collected("edges.csv", &[]).expect(2).stderr.contains("--overwrite"));
    assert_eq!(collected("edges.csv", &["--output", "-"]).expect(0).stdout, EDGES);
    assert!(collected("pages", &[]).expect(0).stdout.starts_with("merged 3 pages from 3 part files;"));
    let refused = collected("lines.jsonl", &[]).expect(2).stderr;
    assert!(refused.contains("cannot find part files of '") && refused.contains("lines.jsonl"), "{refused}");
    let part = crawled.path("edges.1.csv").display().to_string();
    assert!(collected("edges.csv", &[&part]).expect(2).stderr.contains("--of"));
}

#[test]
fn dash_writes_to_standard_output_and_the_report_to_standard_error() {
    let crawled = Crawled::new();
    let ended = crawled.collect(&["edges.1.csv", "edges.2.csv"], "-", &[]).expect(0);
    assert_eq!(ended.stdout, EDGES);
    assert!(ended.stderr.starts_with("merged 3 pages from 2 part files;"), "{}", ended.stderr);
    let ended = crawled.collect(&["pages.1", "pages.2"], "-", &[]).expect(2);
    assert!(ended.stderr.contains("name a directory as output"), "{}", ended.stderr);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let part = crawled.path("edges.1.csv");
    let status = binary().arg("collect").arg(part).args(["-o", "-"]).stdout(full).status().unwrap();
    assert_eq!(status.code(), Some(3));
}

#[test]
fn invalid_parts_and_outputs_are_rejected_before_anything_is_written() {
    let crawled = Crawled::new();
    crawled.worker(3, "another", &[(1, 1)]);
    fs::write(crawled.path("precious.csv"), "precious").unwrap();
    for (parts, output, words) in [
        (&["edges.csv"][..], "out", &["edges.csv': it does not exist; its parts are ", "edges.1.csv, "][..]),
        (&["precious.csv"], "out", &["no index", "name parts that workers have written"]),
        (
            &["edges.1.csv", "edges.3.csv"],
            "out",
            &["crawl 'example' (1)", "crawl 'another' (1)", "separately"],
        ),
        (&["edges.1.csv", "pages.2"], "out", &["module 'edges'", "module 'pages'"]),
        (&["edges.1.csv", "edges.1.csv"], "out", &["named twice"]),
        (&["edges.1.csv"], "edges.1.csv", &["is one of the parts"]),
        (&["edges.1.csv"], "precious.csv", &["precious.csv'", "already has 8 bytes", "--overwrite"]),
        (&["edges.1.csv"], "none/out", &["none/out'", "No such file"]),
    ] {
        let ended = crawled.collect(parts, output, &[]).expect(2);
        assert!(ended.stderr.starts_with("crawler: ") && ended.stdout.is_empty(), "{}", ended.stderr);
        for word in words {
            assert!(ended.stderr.contains(word), "{word:?} is not in {}", ended.stderr);
        }
    }
    assert!(!crawled.path("out").exists());
    assert_eq!(text(crawled.path("precious.csv")), "precious");
    crawled.collect(&["edges.1.csv"], "precious.csv", &["--overwrite"]).expect(0);
    assert!(text(crawled.path("precious.csv")).starts_with("from,to\n"));
}

#[test]
fn damaged_part_has_its_own_exit_status() {
    let crawled = Crawled::new();
    let part = crawled.path("edges.2.csv");
    fs::write(&part, "from,to\n").unwrap();
    let ended = crawled.collect(&["edges.1.csv", "edges.2.csv"], "out", &[]).expect(1);
    assert!(ended.stderr.contains("edges.2.csv': it has 8 bytes, but its index names"), "{}", ended.stderr);
    assert!(!crawled.path("out").exists());
}

#[test]
fn full_disk_leaves_no_output() {
    let crawled = Crawled::new();
    crawled.worker(4, "example", &(10..500).map(|task_id| (task_id, 1)).collect::<Vec<_>>());
    let status = std::process::Command::new("sh")
        .args(["-c", r#"ulimit -f 4; exec "$0" collect "$1" --output "$2""#, &executable()])
        .args([crawled.path("edges.4.csv"), crawled.path("out.csv")])
        .output()
        .unwrap();
    assert_eq!(status.status.code(), Some(3), "{status:?}");
    assert!(String::from_utf8_lossy(&status.stderr).contains("out.csv'"), "{status:?}");
    assert!(names(crawled.0.path()).iter().all(|name| !name.contains("out")));
}

#[test]
fn help_explains_the_arguments() {
    let help = run(&["collect", "--help"]).expect(0).stdout;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "crawler collect pages.*.jsonl --output pages.jsonl",
        "<PART>...",
        "Exit status:",
        "'-' is standard output",
    ] {
        assert!(help.contains(words), "{words:?} is not in {help}");
    }
    let refused = run(&["collect", "x"]).expect(2).stderr;
    assert!(refused.contains("--output") && refused.contains("crawler collect --help"), "{refused}");
    assert!(run(&["collect", "--output", "x"]).expect(2).stderr.contains("<PART>"));
}

const PAGES_OF_ARCHIVE: u64 = 600;

/// Writes a part file of an archive, in files of some kilobytes.
fn part_of_archive(archive: &Path, worker: u16, pages: std::ops::Range<u64>) {
    let Ok(RegisteredModule::Output(mut spec)) = registry::parse(&format!("warc={}", archive.display()))
    else {
        panic!("warc is an output");
    };
    let settings = ArchiveSettings { max_file_bytes: 10_000, ..ArchiveSettings::default() };
    spec.output.set_fetch_config(&FetchConfig { archive: Some(settings), ..FetchConfig::default() });
    let crawl = CrawlIdentity { name: "example".into(), id: "1".into() };
    let mut parts = Parts::open(&[spec], worker, &crawl, false).unwrap();
    for number in pages {
        let record = gzip(&page(&format!("http://a.test/{number}"), format!("page {number}")));
        parts.add(number + 1, 1, &[(0, OutputWrite::Append(record))]).unwrap();
    }
}

/// The names and the bytes of the files of an archive.
fn files_of_archive(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = files(directory, "crawl", "warc.gz");
    files.into_iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect()
}

/// How many pages an archive has.
fn pages_of_archive(directory: &Path) -> usize {
    let files = files(directory, "crawl", "warc.gz");
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let arguments: Vec<&str> = ["index"].into_iter().chain(files.iter().map(String::as_str)).collect();
    run(&arguments).expect(0).stdout.lines().count()
}

#[test]
fn collect_replaces_no_index_and_no_wacz_file_without_overwrite() {
    let directory = tempfile::tempdir().unwrap();
    let archive = directory.path().join("crawl.warc.gz");
    let path = archive.display().to_string();
    part_of_archive(&archive, 1, 0..10);
    for name in ["crawl.cdxj", "crawl.wacz"] {
        let other = directory.path().join(name);
        fs::write(&other, "precious").unwrap();
        let refused = run(&["collect", "--of", &path, "--wacz"]).expect(2).stderr;
        assert!(refused.contains(&format!("{name}': it already has 8 bytes")), "{refused}");
        assert_eq!(text(&other), "precious");
        assert!(names(directory.path()).iter().all(|name| !name.contains("0001")), "nothing is merged");
        run(&["collect", "--of", &path, "--wacz", "--overwrite"]).expect(0);
        assert!(fs::read(&other).unwrap() != b"precious");
        files_of_archive(directory.path()).iter().for_each(|(file, _)| fs::remove_file(file).unwrap());
        for made in ["crawl.cdxj", "crawl.wacz"] {
            fs::remove_file(directory.path().join(made)).unwrap();
        }
    }
}

#[test]
fn collect_that_ended_while_it_made_the_index_is_completed_by_the_next_one() {
    let directory = tempfile::tempdir().unwrap();
    let archive = directory.path().join("crawl.warc.gz");
    let path = archive.display().to_string();
    part_of_archive(&archive, 1, 0..PAGES_OF_ARCHIVE);
    // The index is larger than the files of the archive.
    let limited = std::process::Command::new("sh")
        .args(["-c", r#"ulimit -f 60; exec "$0" collect --of "$1""#, &executable(), &path])
        .output()
        .unwrap();
    assert_eq!(limited.status.code(), Some(3), "{limited:?}");
    assert!(String::from_utf8_lossy(&limited.stderr).contains("crawl.cdxj'"), "{limited:?}");
    assert_eq!(pages_of_archive(directory.path()), 600);
    run(&["collect", "--of", &path]).expect(0);
    let index = text(directory.path().join("crawl.cdxj"));
    assert_eq!(index.lines().count(), 600);
    assert!(!directory.path().join(".crawl.warc.gz.complete").exists());
    assert!(run(&["collect", "--of", &path]).expect(2).stderr.contains("--overwrite"), "it is complete");
}

#[test]
fn killed_collect_leaves_the_earlier_archive_or_one_that_the_next_collect_completes() {
    let directory = tempfile::tempdir().unwrap();
    let archive = directory.path().join("crawl.warc.gz");
    let path = archive.display().to_string();
    part_of_archive(&archive, 1, 0..PAGES_OF_ARCHIVE / 2);
    run(&["collect", "--of", &path]).expect(0);
    let earlier = files_of_archive(directory.path());
    assert!(earlier.len() > 3 && pages_of_archive(directory.path()) == 300);
    part_of_archive(&archive, 2, PAGES_OF_ARCHIVE / 2..PAGES_OF_ARCHIVE);
    let complete = directory.path().join(".crawl.warc.gz.complete");
    for delay in (0..20).map(|step| Duration::from_millis(step * 8)) {
        let mut collect = binary().args(["collect", "--of", &path, "--overwrite"]).spawn().unwrap();
        thread::sleep(delay);
        collect.kill().unwrap();
        collect.wait().unwrap();
        if !complete.exists() && files_of_archive(directory.path()) != earlier {
            assert_eq!(pages_of_archive(directory.path()), 600, "killed after {delay:?}");
            break;
        }
    }
    run(&["collect", "--of", &path, "--overwrite"]).expect(0);
    assert_eq!(pages_of_archive(directory.path()), 600);

    // Killed while the files got their names: the first one gets it last.
    fs::create_dir(&complete).unwrap();
    for number in [1, 2] {
        let name = format!("crawl-{number:05}.warc.gz");
        fs::rename(directory.path().join(&name), complete.join(&name)).unwrap();
    }
    // Killed while they were written.
    let unfinished = directory.path().join(".crawl.warc.gz.unfinished");
    fs::create_dir(&unfinished).unwrap();
    fs::write(unfinished.join("crawl-00001.warc.gz"), "half a rec").unwrap();
    run(&["collect", "--of", &path]).expect(0);
    assert_eq!(pages_of_archive(directory.path()), 600);
    assert!(!complete.exists() && !unfinished.exists());
    assert!(run(&["collect", "--of", &path]).expect(2).stderr.contains("--overwrite"), "it is complete");
}
