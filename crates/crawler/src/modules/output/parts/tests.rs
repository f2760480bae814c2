//! What parts look like, what is refused, and that a worker goes on where it was.

mod crashes;
mod merged;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::modules::edges::Edges;
use crate::modules::example;
use crate::modules::jsonl::Jsonl;
use crate::modules::pages::Pages;

fn specs(directory: &Path) -> Vec<OutputSpec> {
    vec![
        OutputSpec { output: Box::new(Jsonl), target: Target::File(directory.join("pages.jsonl")) },
        OutputSpec { output: Box::new(Edges), target: Target::File(directory.join("edges.csv")) },
        OutputSpec { output: Box::new(Pages), target: Target::Directory(directory.join("pages")) },
    ]
}

/// Something that is done to a directory, and what is said of it then.
type Case = (Box<dyn Fn(&Path)>, &'static str);

fn crawl(name: &str) -> CrawlIdentity {
    CrawlIdentity { name: name.into(), id: "7f".into() }
}

fn open(directory: &Path, worker: u16) -> Result<Parts, Error> {
    patiently(|| Parts::open(&specs(directory), worker, &crawl("example"), false))
}

/// Other tests start processes, which hold every lock of this one for the moment between fork and exec.
fn patiently(open: impl Fn() -> Result<Parts, Error>) -> Result<Parts, Error> {
    let patience = Instant::now() + Duration::from_secs(5);
    loop {
        let opened = open();
        match opened.as_ref().map_err(ToString::to_string) {
            Err(why) if why.contains("another crawl") && Instant::now() < patience => thread::yield_now(),
            _ => return opened,
        }
    }
}

/// What the page of a ticket adds, fetched on this loan.
fn additions(specs: &[OutputSpec], task_id: u64, lease_id: u64) -> Vec<(usize, OutputWrite)> {
    let url = format!("http://a.test/{task_id}");
    let body = format!("<p>page {task_id} on loan {lease_id}");
    let links = [format!("http://b.test/{lease_id},"), "http://c.test/".into()];
    let links: Vec<&str> = links[..task_id as usize % 3].iter().map(String::as_str).collect();
    let page = example::page(&url, body.as_bytes(), &links);
    specs.iter().map(|spec| spec.output.render(&page)).enumerate().collect()
}

fn add(parts: &mut Parts, task_id: u64, lease_id: u64) {
    parts.add(task_id, lease_id, &additions(&specs(Path::new("")), task_id, lease_id)).unwrap();
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
fn the_number_of_the_worker_stands_before_the_extension() {
    let file = |path: &str| part_of(&Target::File(path.into()), 3).unwrap().to_string();
    assert_eq!(file("dir/pages.jsonl"), "dir/pages.3.jsonl");
    assert_eq!(file("/a.b/pages"), "/a.b/pages.3");
    assert_eq!(file("all.tar.gz"), "all.tar.3.gz");
    assert_eq!(file(".hidden"), ".hidden.3");
    let directory = |path: &str| part_of(&Target::Directory(path.into()), 12).map(|it| it.to_string());
    assert_eq!(directory("a/pages.d/").unwrap(), "a/pages.d.12");
    let refused = directory("..").unwrap_err().to_string();
    assert!(refused.contains("'..'") && refused.contains("ends with a name"), "{refused}");
}

#[test]
fn a_part_is_written_as_its_module_writes_and_its_index_names_the_pages() {
    let directory = tempfile::tempdir().unwrap();
    let mut parts = open(directory.path(), 4).unwrap();
    add(&mut parts, 9, 1);
    add(&mut parts, 10, 2);
    add(&mut parts, 11, 1);
    parts.withdraw(10, 3).unwrap();
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
    assert_eq!(file("pages.4/9.1"), "http://a.test/9\n2\n<p>page 9 on loan 1");
    assert_eq!(file("pages.4/withdrawn"), "10 3\n");
    assert_eq!(contents(&directory.path().join("pages.4")).len(), 5);
    assert_eq!(parts.lengths()[1..], [edges.len() as u64, 0]);
    parts.sync().unwrap();
}

#[test]
fn a_worker_that_is_started_again_goes_on_after_its_last_page_also_if_told_to_overwrite() {
    let directory = tempfile::tempdir().unwrap();
    let once = tempfile::tempdir().unwrap();
    let mut parts = open(once.path(), 1).unwrap();
    for task_id in 0..6 {
        add(&mut parts, task_id, 1);
        let parts =
            patiently(|| Parts::open(&specs(directory.path()), 1, &crawl("example"), task_id % 2 == 0));
        add(&mut parts.unwrap(), task_id, 1);
    }
    let relative = |root: &Path| -> Vec<(PathBuf, Vec<u8>)> {
        let strip = |(path, bytes): (PathBuf, _)| (path.strip_prefix(root).unwrap().to_owned(), bytes);
        contents(root).into_iter().map(strip).collect()
    };
    assert_eq!(relative(directory.path()), relative(once.path()));
}

#[test]
fn what_is_of_another_crawl_or_no_part_is_refused_and_replaced_only_if_told_so() {
    let of_another = |directory: &Path| {
        let mut parts = Parts::open(&specs(directory), 1, &crawl("another"), false).unwrap();
        add(&mut parts, 3, 1);
    };
    let same_name = |directory: &Path| {
        let identity = CrawlIdentity { name: "example".into(), id: "8".into() };
        drop(Parts::open(&specs(directory)[..2], 1, &identity, false).unwrap());
    };
    let unknown = |name: &'static str, bytes: &'static str| {
        move |directory: &Path| {
            fs::create_dir_all(directory.join("pages.1")).unwrap();
            fs::write(directory.join(name), bytes).unwrap();
        }
    };
    let cases: [Case; 6] = [
        (Box::new(of_another), "it is of crawl 'another' (7f), and this is crawl 'example' (7f)"),
        (Box::new(same_name), "crawl 'example' (8)"),
        (Box::new(unknown("edges.1.csv", "a,b\n")), "it holds 4 bytes, and its index says nothing of them"),
        (Box::new(unknown("edges.1.csv.index", "a,b\n")), "edges.1.csv.index' does not begin as one does"),
        (Box::new(unknown("pages.1/3.1", "x")), "it has pages (file 3.1) and no crawl.json"),
        (Box::new(unknown("pages.1/crawl.json", "{}")), "pages.1/crawl.json' does not begin as one does"),
    ];
    for (prepare, words) in cases {
        let directory = tempfile::tempdir().unwrap();
        prepare(directory.path());
        let before = contents(directory.path());
        let refused = open(directory.path(), 1).unwrap_err().to_string();
        assert!(refused.contains(words) && refused.contains("--overwrite"), "{refused}");
        let mut after = contents(directory.path());
        after.retain(|path, bytes| before.contains_key(path) || !bytes.is_empty());
        assert_eq!(after, before);
        let parts = patiently(|| Parts::open(&specs(directory.path()), 1, &crawl("example"), true));
        add(&mut parts.unwrap(), 4, 1);
        assert_eq!(text(directory.path().join("edges.1.csv.index")).lines().count(), 2);
        assert!(
            directory.path().join("pages.1/4.1").exists() && !directory.path().join("pages.1/3.1").exists()
        );
    }
}

#[test]
fn a_part_of_this_crawl_that_lost_something_is_never_replaced() {
    let lose = |name: &'static str, change: fn(Vec<u8>) -> Vec<u8>| {
        move |directory: &Path| {
            let path = directory.join(name);
            fs::write(&path, change(fs::read(&path).unwrap())).unwrap();
        }
    };
    let cases: [Case; 4] = [
        (
            Box::new(lose("edges.1.csv", |it| it[..it.len() - 1].to_vec())),
            "has 111 bytes where its index names 112",
        ),
        (Box::new(lose("edges.1.csv", |_| Vec::new())), "has 0 bytes where its index names 112"),
        (Box::new(lose("edges.1.csv.index", |it| [&it[..], b"x\n"].concat())), "line 5 of "),
        (Box::new(lose("edges.1.csv.index", |it| [&it[..], b"1 1 9 9\n"].concat())), "is damaged"),
    ];
    for (change, words) in cases {
        let directory = tempfile::tempdir().unwrap();
        let mut parts = open(directory.path(), 1).unwrap();
        (9..12).for_each(|task_id| add(&mut parts, task_id, if task_id == 10 { 2 } else { 1 }));
        drop(parts);
        change(directory.path());
        let before = contents(directory.path());
        for overwrite in [false, true] {
            let refused =
                patiently(|| Parts::open(&specs(directory.path()), 1, &crawl("example"), overwrite));
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(words) && refused.contains("move both away"), "{refused}");
            assert_eq!(contents(directory.path()), before);
        }
    }
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path(), 1).unwrap());
    let mut others = specs(directory.path());
    others[0].output = Box::new(Edges);
    let refused = patiently(|| Parts::open(&others, 1, &crawl("example"), true));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("it is of module 'jsonl', and this is 'edges'"), "{refused}");
}

#[test]
fn two_processes_do_not_share_a_part_and_two_workers_are_strangers() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path(), 1).unwrap();
    let _second = open(directory.path(), 2).unwrap();
    let specs = specs(directory.path());
    let refused = Parts::open(&specs, 1, &crawl("example"), false).unwrap_err().to_string();
    assert!(refused.contains("another crawl or another module"), "{refused}");
    let only_pages = Parts::open(&specs[2..], 1, &crawl("example"), true);
    assert!(matches!(only_pages, Err(Error::InUse { .. })), "{only_pages:?}");
    drop(first);
    open(directory.path(), 1).unwrap();
}

#[test]
fn a_page_that_could_not_be_written_counts_nowhere_and_can_be_added_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut parts = open(directory.path(), 1).unwrap();
    add(&mut parts, 1, 1);
    let before = contents(directory.path());
    let obstacle = directory.path().join("pages.1/2.1");
    fs::create_dir(&obstacle).unwrap();
    let specs = specs(directory.path());
    let refused = parts.add(2, 1, &additions(&specs, 2, 1)).unwrap_err().to_string();
    assert!(refused.contains("pages.1/2.1'"), "{refused}");
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
        assert_eq!(parts.add(3, 1, &wrong).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
