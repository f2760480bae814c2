//! Crashes of workers at any byte: the merge has each page once and complete.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

/// How one lease of a page ends.
#[derive(Debug, Clone, Copy)]
enum LeaseEnd {
    /// The page is added and the task completed.
    Completed,
    /// The page is retracted and the task completed without a page.
    Retracted,
    /// The worker crashes after it wrote this many 255ths of the page, and the task is leased again.
    Crashed(u8),
    /// The worker stalls, is declared dead, and adds the page after another worker has completed the task.
    Late,
}

fn lease_end() -> impl Strategy<Value = LeaseEnd> {
    prop_oneof![
        4 => Just(LeaseEnd::Completed),
        1 => Just(LeaseEnd::Retracted),
        3 => any::<u8>().prop_map(LeaseEnd::Crashed),
        1 => Just(LeaseEnd::Crashed(u8::MAX)),
        1 => Just(LeaseEnd::Late),
    ]
}

/// The files of a worker in the order in which a page is written to them. The directory is written after the second.
fn files(directory: &Path, worker: u16) -> [PathBuf; 4] {
    ["pages.K.jsonl", "edges.K.csv", "pages.K.jsonl.index", "edges.K.csv.index"]
        .map(|name| directory.join(name.replace('K', &worker.to_string())))
}

/// Adds a page, then truncates the files as if the worker had crashed in between.
fn add_and_crash(directory: &Path, worker: u16, task_id: u64, lease_id: u64, written: u8) {
    let files = files(directory, worker);
    let mut parts = open(directory, worker).unwrap();
    let length = |path: &PathBuf| fs::metadata(path).unwrap().len();
    let before = files.each_ref().map(length);
    add(&mut parts, task_id, lease_id);
    drop(parts);
    let added: Vec<u64> = files.iter().zip(before).map(|(path, before)| length(path) - before).collect();
    let mut left = added.iter().sum::<u64>() * u64::from(written) / 255;
    if left < added[0] + added[1] {
        fs::remove_file(directory.join(format!("pages.{worker}/{task_id}.{lease_id}"))).unwrap();
    }
    for ((path, before), added) in files.iter().zip(before).zip(added) {
        let remaining = left.min(added);
        left -= remaining;
        fs::File::options().write(true).open(path).unwrap().set_len(before + remaining).unwrap();
    }
}

/// Processes all tasks. Returns the task id and lease id of each page that the outputs must have.
fn process_tasks(directory: &Path, workers: u16, lease_ends: &[Vec<(u16, LeaseEnd)>]) -> Vec<(u64, u64)> {
    let mut pages = Vec::new();
    let mut late = Vec::new();
    let mut pending: Vec<(u64, u64)> = (0..lease_ends.len() as u64).map(|task_id| (task_id * 7, 1)).collect();
    // In rounds, so that the versions of a page have other pages between them.
    while !pending.is_empty() {
        let mut next_round = Vec::new();
        for (task_id, lease_id) in pending {
            let planned = lease_ends[task_id as usize / 7].get(lease_id as usize - 1);
            let (worker, lease_end) = *planned.unwrap_or(&(lease_id as u16, LeaseEnd::Completed));
            let worker = 1 + worker % workers;
            match lease_end {
                LeaseEnd::Completed => {
                    add(&mut open(directory, worker).unwrap(), task_id, lease_id);
                    pages.push((task_id, lease_id));
                    continue;
                }
                LeaseEnd::Retracted => {
                    open(directory, worker).unwrap().add(task_id, lease_id, &[]).unwrap();
                    continue;
                }
                LeaseEnd::Crashed(written) => add_and_crash(directory, worker, task_id, lease_id, written),
                LeaseEnd::Late => late.push((worker, task_id, lease_id)),
            }
            next_round.push((task_id, lease_id + 1));
        }
        pending = next_round;
    }
    for (worker, task_id, lease_id) in late {
        add(&mut open(directory, worker).unwrap(), task_id, lease_id);
    }
    pages.sort_unstable();
    pages
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn merge_has_each_page_once_after_any_worker_crash(
        workers in 1u16..4,
        lease_ends in prop::collection::vec(prop::collection::vec((any::<u16>(), lease_end()), 0..4), 1..12),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let pages = process_tasks(directory.path(), workers, &lease_ends);
        let merged = |stem: &str, extension: &str| {
            let part = |worker| directory.path().join(format!("{stem}.{worker}{extension}"));
            let parts: Vec<PathBuf> = (1..=workers).map(part).filter(|part| part.exists()).collect();
            let output = directory.path().join(format!("all{extension}"));
            let merged = merge(&parts, Destination::Path(&output), false).unwrap();
            assert_eq!(merged.pages, pages.len() as u64);
            output
        };
        let specs = specs(directory.path());
        let added = |(task_id, lease_id): &(u64, u64), output: usize| {
            let (OutputWrite::Append(bytes) | OutputWrite::File(bytes)) =
                writes(&specs, *task_id, *lease_id).swap_remove(output).1;
            bytes
        };
        let lines: Vec<u8> = pages.iter().flat_map(|page| added(page, 0)).collect();
        prop_assert_eq!(fs::read(merged("pages", ".jsonl")).unwrap(), lines);
        let edges: Vec<u8> = pages.iter().flat_map(|page| added(page, 1)).collect();
        prop_assert_eq!(fs::read(merged("edges", ".csv")).unwrap(), [&b"from,to\n"[..], &edges].concat());
        let directory = merged("pages", "");
        prop_assert_eq!(fs::read_dir(&directory).unwrap().count(), pages.len());
        for (number, page) in (1..).zip(&pages) {
            prop_assert_eq!(fs::read(directory.join(format!("{number}"))).unwrap(), added(page, 2));
        }
    }
}

/// The environment variable that is set in the child process that the test kills: the directory it writes to.
const WORKER_DIRECTORY: &str = "CRAWLER_TEST_KILLED_PARTS";

#[test]
fn killed_worker_continues_and_keeps_every_page_it_added() {
    if let Some(directory) = std::env::var_os(WORKER_DIRECTORY).map(PathBuf::from) {
        let first: u64 = text(directory.join("first")).parse().unwrap();
        let mut parts = open(&directory, 1).unwrap();
        for task_id in first.. {
            add(&mut parts, task_id, 1);
            // Stands for the completion: the page is not processed again.
            fs::write(directory.join("next"), (task_id + 1).to_string()).unwrap();
            fs::rename(directory.join("next"), directory.join("first")).unwrap();
        }
    }
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("first"), "0").unwrap();
    let module = module_path!().split_once("::").unwrap().1;
    let this_test = format!("{module}::killed_worker_continues_and_keeps_every_page_it_added");
    let completed = || -> u64 { text(directory.path().join("first")).parse().unwrap() };
    for round in 0..8 {
        let (before, start) = (completed(), Instant::now());
        let mut worker = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &this_test])
            .env(WORKER_DIRECTORY, directory.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while completed() == before {
            assert!(start.elapsed() < Duration::from_secs(60), "it writes nothing");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(777 * round));
        worker.kill().unwrap();
        worker.wait().unwrap();
    }
    let completed = completed();
    assert!(completed >= 8, "{completed}");
    let edges = directory.path().join("edges.csv");
    let parts = [directory.path().join("edges.1.csv")];
    let merged = merge(&parts, Destination::Path(&edges), false).unwrap();
    // The last page may have been added and not completed.
    assert!((completed..=completed + 1).contains(&merged.pages), "{completed} {merged:?}");
    let specs = specs(directory.path());
    let mut expected = b"from,to\n".to_vec();
    for task_id in 0..merged.pages {
        let OutputWrite::Append(lines) = writes(&specs, task_id, 1).swap_remove(1).1 else { unreachable!() };
        expected.extend(lines);
    }
    assert!(fs::read(edges).unwrap() == expected);
}
