//! Tests of parts: their format, which existing parts are rejected, and restarts of a worker.

mod archives;
mod crashes;
mod merged;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::modules::edges::Edges;
use crate::modules::example;
use crate::modules::jsonl::Jsonl;
use crate::modules::pages::Pages;

fn specs(directory: &Path) -> Vec<OutputSpec> {
    vec![
        OutputSpec {
            output: Box::new(Jsonl::default()),
            target: Target::File(directory.join("pages.jsonl")),
        },
        OutputSpec { output: Box::<Edges>::default(), target: Target::File(directory.join("edges.csv")) },
        OutputSpec { output: Box::new(Pages), target: Target::Directory(directory.join("pages")) },
    ]
}

/// A change to a directory, and the text of the error that it causes.
type Case = (Box<dyn Fn(&Path)>, &'static str);

fn crawl(name: &str) -> CrawlIdentity {
    CrawlIdentity { name: name.into(), id: "7f".into() }
}

fn open(directory: &Path, worker: u16) -> Result<Parts, StorageError> {
    Parts::open(&specs(directory), worker, &crawl("example"), false)
}

/// The writes of a task's page, fetched under this lease.
fn writes(specs: &[OutputSpec], task_id: u64, lease_id: u64) -> Vec<(usize, OutputWrite)> {
    let url = format!("http://a.test/{task_id}");
    let body = format!("<p>page {task_id} under lease {lease_id}");
    let links = [format!("http://b.test/{lease_id},"), "http://c.test/".into()];
    let links: Vec<&str> = links[..task_id as usize % 3].iter().map(String::as_str).collect();
    let page = example::page(&url, body.as_bytes(), &links);
    specs.iter().map(|spec| spec.output.render(&page)).enumerate().collect()
}

fn add(parts: &mut Parts, task_id: u64, lease_id: u64) {
    parts.add(task_id, lease_id, &writes(&specs(Path::new("")), task_id, lease_id)).unwrap();
}

/// All files below a directory with their bytes.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

fn text(path: PathBuf) -> String {
    String::from_utf8(fs::read(path).unwrap()).unwrap()
}

#[test]
fn worker_number_precedes_the_extension() {
    let file = |path: &str| part_of(&Target::File(path.into()), 3).unwrap().to_string();
    assert_eq!(file("dir/pages.jsonl"), "dir/pages.3.jsonl");
    assert_eq!(file("/a.b/pages"), "/a.b/pages.3");
    assert_eq!(file("all.tar.gz"), "all.tar.3.gz");
    assert_eq!(file(".hidden"), ".hidden.3");
    let directory = |path: &str| part_of(&Target::Directory(path.into()), 12).map(|it| it.to_string());
    assert_eq!(directory("a/pages.d/").unwrap(), "a/pages.d.12");
    let error = directory("..").unwrap_err().to_string();
    assert!(error.contains("'..'") && error.contains("ends with a name"), "{error}");
}

#[test]
fn part_has_the_format_of_its_module_and_the_index_names_the_pages() {
    let directory = tempfile::tempdir().unwrap();
    let mut parts = open(directory.path(), 4).unwrap();
    add(&mut parts, 9, 1);
    add(&mut parts, 10, 2);
    add(&mut parts, 11, 1);
    parts.add(10, 3, &[]).unwrap();
    let file = |name: &str| text(directory.path().join(name));
    let edges = "from,to\n\
                 http://a.test/10,\"http://b.test/2,\"\n\
                 http://a.test/11,\"http://b.test/1,\"\n\
                 http://a.test/11,http://c.test/\n";
    assert_eq!(file("edges.4.csv"), edges);
    assert_eq!(
        file("edges.4.csv.index"),
        "{\"format\":\"crawler-part-1\",\"crawl\":\"example\",\"id\":\"7f\",\"output\":\"edges\",\"head\":8}\n\
         9 1 8 0\n10 2 8 36\n11 1 44 68\n10 3 112 -\n"
    );
    assert_eq!(file("pages.4.jsonl").lines().count(), 3);
    assert_eq!(file("pages.4/9.1"), "http://a.test/9\n2\n<p>page 9 under lease 1");
    assert_eq!(file("pages.4/withdrawn"), "10 3\n");
    assert_eq!(contents(&directory.path().join("pages.4")).len(), 5);
    assert_eq!(parts.lengths()[1..], [edges.len() as u64, 0]);
    parts.sync().unwrap();
}

#[test]
fn restarted_worker_continues_after_its_last_page_even_with_overwrite() {
    let directory = tempfile::tempdir().unwrap();
    let uninterrupted = tempfile::tempdir().unwrap();
    let mut parts = open(uninterrupted.path(), 1).unwrap();
    for task_id in 0..6 {
        add(&mut parts, task_id, 1);
        let parts = Parts::open(&specs(directory.path()), 1, &crawl("example"), task_id % 2 == 0);
        add(&mut parts.unwrap(), task_id, 1);
    }
    let relative = |root: &Path| -> Vec<(PathBuf, Vec<u8>)> {
        let strip = |(path, bytes): (PathBuf, _)| (path.strip_prefix(root).unwrap().to_owned(), bytes);
        contents(root).into_iter().map(strip).collect()
    };
    assert_eq!(relative(directory.path()), relative(uninterrupted.path()));
}

#[test]
fn part_of_another_crawl_is_rejected_and_replaced_only_with_overwrite() {
    let another_crawl = |directory: &Path| {
        let mut parts = Parts::open(&specs(directory), 1, &crawl("another"), false).unwrap();
        add(&mut parts, 3, 1);
    };
    let same_name = |directory: &Path| {
        let identity = CrawlIdentity { name: "example".into(), id: "8".into() };
        drop(Parts::open(&specs(directory)[..2], 1, &identity, false).unwrap());
    };
    let unknown_file = |name: &'static str, bytes: &'static str| {
        move |directory: &Path| {
            fs::create_dir_all(directory.join("pages.1")).unwrap();
            fs::write(directory.join(name), bytes).unwrap();
        }
    };
    let cases: [Case; 6] = [
        (Box::new(another_crawl), "it belongs to crawl 'another' (7f), and this is crawl 'example' (7f)"),
        (Box::new(same_name), "crawl 'example' (8)"),
        (Box::new(unknown_file("edges.1.csv", "a,b\n")), "it has 4 bytes that its index does not name"),
        (
            Box::new(unknown_file("edges.1.csv.index", "a,b\n")),
            "edges.1.csv.index' does not start with the header of a part",
        ),
        (Box::new(unknown_file("pages.1/3.1", "x")), "it has pages (file 3.1) and no crawl.json"),
        (
            Box::new(unknown_file("pages.1/crawl.json", "{}")),
            "pages.1/crawl.json' does not start with the header of a part",
        ),
    ];
    for (prepare, text_of_error) in cases {
        let directory = tempfile::tempdir().unwrap();
        prepare(directory.path());
        let before = contents(directory.path());
        let error = open(directory.path(), 1).unwrap_err().to_string();
        assert!(error.contains(text_of_error) && error.contains("overwrite"), "{error}");
        let mut after = contents(directory.path());
        after.retain(|path, bytes| before.contains_key(path) || !bytes.is_empty());
        assert_eq!(after, before);
        let parts = Parts::open(&specs(directory.path()), 1, &crawl("example"), true);
        add(&mut parts.unwrap(), 4, 1);
        assert_eq!(text(directory.path().join("edges.1.csv.index")).lines().count(), 2);
        assert!(
            directory.path().join("pages.1/4.1").exists() && !directory.path().join("pages.1/3.1").exists()
        );
    }
}

#[test]
fn damaged_part_of_this_crawl_is_never_replaced() {
    let damage = |name: &'static str, change: fn(Vec<u8>) -> Vec<u8>| {
        move |directory: &Path| {
            let path = directory.join(name);
            fs::write(&path, change(fs::read(&path).unwrap())).unwrap();
        }
    };
    let cases: [Case; 4] = [
        (
            Box::new(damage("edges.1.csv", |it| it[..it.len() - 1].to_vec())),
            "has 111 bytes, but its index names 112",
        ),
        (Box::new(damage("edges.1.csv", |_| Vec::new())), "has 0 bytes, but its index names 112"),
        (Box::new(damage("edges.1.csv.index", |it| [&it[..], b"x\n"].concat())), "line 5 of "),
        (Box::new(damage("edges.1.csv.index", |it| [&it[..], b"1 1 9 9\n"].concat())), "is damaged"),
    ];
    for (change, text_of_error) in cases {
        let directory = tempfile::tempdir().unwrap();
        let mut parts = open(directory.path(), 1).unwrap();
        (9..12).for_each(|task_id| add(&mut parts, task_id, if task_id == 10 { 2 } else { 1 }));
        drop(parts);
        change(directory.path());
        let before = contents(directory.path());
        for overwrite in [false, true] {
            let error = Parts::open(&specs(directory.path()), 1, &crawl("example"), overwrite);
            let error = error.unwrap_err().to_string();
            assert!(error.contains(text_of_error) && error.contains("move both away"), "{error}");
            assert_eq!(contents(directory.path()), before);
        }
    }
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path(), 1).unwrap());
    let mut others = specs(directory.path());
    others[0].output = Box::<Edges>::default();
    let error = Parts::open(&others, 1, &crawl("example"), true);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("it belongs to module 'jsonl', and this is 'edges'"), "{error}");
}

#[test]
fn part_is_locked_against_other_processes_and_not_against_other_workers() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path(), 1).unwrap();
    let _second = open(directory.path(), 2).unwrap();
    let specs = specs(directory.path());
    let error = Parts::open(&specs, 1, &crawl("example"), false).unwrap_err().to_string();
    assert!(error.contains("another crawl or another module"), "{error}");
    let only_pages = Parts::open(&specs[2..], 1, &crawl("example"), true);
    assert_eq!(only_pages.unwrap_err().kind(), StorageErrorKind::InUse);
    drop(first);
    open(directory.path(), 1).unwrap();
}

#[test]
fn page_that_failed_to_write_does_not_count_and_can_be_retried() {
    let directory = tempfile::tempdir().unwrap();
    let mut parts = open(directory.path(), 1).unwrap();
    add(&mut parts, 1, 1);
    let before = contents(directory.path());
    let obstacle = directory.path().join("pages.1/2.1");
    fs::create_dir(&obstacle).unwrap();
    let specs = specs(directory.path());
    let error = parts.add(2, 1, &writes(&specs, 2, 1)).unwrap_err().to_string();
    assert!(error.contains("pages.1/2.1'"), "{error}");
    assert_eq!(contents(directory.path()), before);
    fs::remove_dir(&obstacle).unwrap();
    add(&mut parts, 2, 1);
    assert_eq!(text(directory.path().join("pages.1.jsonl.index")).lines().count(), 3);
    for wrong in [
        vec![(2, OutputWrite::Append(vec![]))],
        vec![(0, OutputWrite::File(vec![]))],
        vec![(3, OutputWrite::Append(vec![]))],
        vec![(0, OutputWrite::Append(vec![])), (0, OutputWrite::Append(vec![]))],
    ] {
        assert_eq!(parts.add(3, 1, &wrong).unwrap_err().kind(), StorageErrorKind::Internal);
    }
}

#[test]
fn try_that_is_repeated_stays_unless_it_was_not_completed() {
    let directory = tempfile::tempdir().unwrap();
    let write = |bytes: &[u8]| vec![(0, OutputWrite::Append(bytes.to_vec()))];
    let of_first = |output: usize| output == 0;
    let mut parts = open(directory.path(), 0).unwrap();
    // A try that is completed, and the last one.
    parts.add_try((1, 0), 1, &write(b"try 1\n"), of_first).unwrap();
    parts.add_try((1, 1), 4, &[], of_first).unwrap();
    parts.add(1, 4, &write(b"last 1\n")).unwrap();
    // Tries whose worker died. The next one fails, too, or is the last one.
    parts.add_try((2, 0), 2, &write(b"lost 2\n"), of_first).unwrap();
    parts.add_try((3, 0), 3, &write(b"lost 3\n"), of_first).unwrap();
    parts.add_try((2, 0), 5, &write(b"try 2\n"), of_first).unwrap();
    parts.add_try((3, 0), 6, &[], of_first).unwrap();
    parts.add(3, 6, &write(b"last 3\n")).unwrap();
    drop(parts);
    let merged = directory.path().join("merged");
    merge(&[directory.path().join("pages.0.jsonl")], Destination::Path(&merged), false).unwrap();
    let mut lines: Vec<String> = text(merged).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["last 1", "last 3", "try 1", "try 2"]);
    let other_index = text(directory.path().join("edges.0.csv.index"));
    assert_eq!(other_index.lines().count(), 3, "the header and two last tries: {other_index}");
}
