//! Workers that die at any moment: each page is collected once, and whole.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

/// What happens to one page on one loan.
#[derive(Debug, Clone, Copy)]
enum End {
    /// It is added, and the page completed.
    CompleteResult,
    /// It is withdrawn, and the URL completed without a page.
    Withdrawn,
    /// The worker dies when so many parts of 256 of what it writes are written, and its loans return.
    Died(u8),
    /// The worker stalls, is taken for dead, and writes when the URL has been delivered by another.
    Late,
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => Just(End::CompleteResult),
        1 => Just(End::Withdrawn),
        3 => any::<u8>().prop_map(End::Died),
        1 => Just(End::Died(u8::MAX)),
        1 => Just(End::Late),
    ]
}

/// The files of a worker, in the order in which a page is written to them; the directory is written to after the
/// second.
fn files(directory: &Path, worker: u16) -> [PathBuf; 4] {
    ["pages.K.jsonl", "edges.K.csv", "pages.K.jsonl.index", "edges.K.csv.index"]
        .map(|name| directory.join(name.replace('K', &worker.to_string())))
}

/// Adds a page and makes it look as if the worker had died before it had written all of it.
fn add_and_die(directory: &Path, worker: u16, task_id: u64, lease_id: u64, written: u8) {
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
        let kept = left.min(added);
        left -= kept;
        fs::File::options().write(true).open(path).unwrap().set_len(before + kept).unwrap();
    }
}

/// What each output must hold after the deliveries: the ticket and the loan of each page.
fn deliver(directory: &Path, workers: u16, ends: &[Vec<(u16, End)>]) -> Vec<(u64, u64)> {
    let mut pages = Vec::new();
    let mut late = Vec::new();
    let mut waiting: Vec<(u64, u64)> = (0..ends.len() as u64).map(|task_id| (task_id * 7, 1)).collect();
    // Round by round, so that the deliveries of a page have others between them.
    while !waiting.is_empty() {
        let mut is_revisit = Vec::new();
        for (task_id, lease_id) in waiting {
            let planned = ends[task_id as usize / 7].get(lease_id as usize - 1);
            let (worker, end) = *planned.unwrap_or(&(lease_id as u16, End::CompleteResult));
            let worker = 1 + worker % workers;
            match end {
                End::CompleteResult => {
                    add(&mut open(directory, worker).unwrap(), task_id, lease_id);
                    pages.push((task_id, lease_id));
                    continue;
                }
                End::Withdrawn => {
                    open(directory, worker).unwrap().withdraw(task_id, lease_id).unwrap();
                    continue;
                }
                End::Died(written) => add_and_die(directory, worker, task_id, lease_id, written),
                End::Late => late.push((worker, task_id, lease_id)),
            }
            is_revisit.push((task_id, lease_id + 1));
        }
        waiting = is_revisit;
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
    fn whoever_dies_when_each_page_is_collected_once_and_whole(
        workers in 1u16..4,
        ends in prop::collection::vec(prop::collection::vec((any::<u16>(), end()), 0..4), 1..12),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let pages = deliver(directory.path(), workers, &ends);
        let collected = |stem: &str, extension: &str| {
            let part = |worker| directory.path().join(format!("{stem}.{worker}{extension}"));
            let parts: Vec<PathBuf> = (1..=workers).map(part).filter(|part| part.exists()).collect();
            let output = directory.path().join(format!("all{extension}"));
            let collected = collect(&parts, Destination::Path(&output), false).unwrap();
            assert_eq!(collected.pages, pages.len() as u64);
            output
        };
        let specs = specs(directory.path());
        let added = |(task_id, lease_id): &(u64, u64), output: usize| {
            let (OutputWrite::Append(bytes) | OutputWrite::File(bytes)) =
                additions(&specs, *task_id, *lease_id).swap_remove(output).1;
            bytes
        };
        let lines: Vec<u8> = pages.iter().flat_map(|page| added(page, 0)).collect();
        prop_assert_eq!(fs::read(collected("pages", ".jsonl")).unwrap(), lines);
        let edges: Vec<u8> = pages.iter().flat_map(|page| added(page, 1)).collect();
        prop_assert_eq!(fs::read(collected("edges", ".csv")).unwrap(), [&b"from,to\n"[..], &edges].concat());
        let directory = collected("pages", "");
        prop_assert_eq!(fs::read_dir(&directory).unwrap().count(), pages.len());
        for (number, page) in (1..).zip(&pages) {
            prop_assert_eq!(fs::read(directory.join(format!("{number}"))).unwrap(), added(page, 2));
        }
    }
}

/// The variable that tells a test it is a worker that will be killed: where it writes.
const KILLED: &str = "CRAWLER_TEST_KILLED_PARTS";

#[test]
fn a_process_killed_while_it_writes_goes_on_and_loses_nothing_that_it_had_added() {
    if let Some(directory) = std::env::var_os(KILLED).map(PathBuf::from) {
        let first: u64 = text(directory.join("first")).parse().unwrap();
        let mut parts = open(&directory, 1).unwrap();
        for task_id in first.. {
            add(&mut parts, task_id, 1);
            // What a completion would be: from now on nobody delivers the page again.
            fs::write(directory.join("next"), (task_id + 1).to_string()).unwrap();
            fs::rename(directory.join("next"), directory.join("first")).unwrap();
        }
    }
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("first"), "0").unwrap();
    let module = module_path!().split_once("::").unwrap().1;
    let this_test =
        format!("{module}::a_process_killed_while_it_writes_goes_on_and_loses_nothing_that_it_had_added");
    let completed = || -> u64 { text(directory.path().join("first")).parse().unwrap() };
    for round in 0..8 {
        let (before, begun) = (completed(), Instant::now());
        let mut worker = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &this_test])
            .env(KILLED, directory.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while completed() == before {
            assert!(begun.elapsed() < Duration::from_secs(60), "it writes nothing");
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
    let collected = collect(&parts, Destination::Path(&edges), false).unwrap();
    // The last page may have been added and not completed.
    assert!((completed..=completed + 1).contains(&collected.pages), "{completed} {collected:?}");
    let specs = specs(directory.path());
    let mut expected = b"from,to\n".to_vec();
    for task_id in 0..collected.pages {
        let OutputWrite::Append(lines) = additions(&specs, task_id, 1).swap_remove(1).1 else {
            unreachable!()
        };
        expected.extend(lines);
    }
    assert!(fs::read(edges).unwrap() == expected);
}
